//! Lets libFuzzer feed inputs to the target `protocol`: a line of an engine or of its parent.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("protocol"), |input: &[u8]| tunesmith_fuzz::run(input));
