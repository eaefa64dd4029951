//! Lets libFuzzer feed inputs to the target `rows`: a data set in JSON lines.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("rows"), |input: &[u8]| tunesmith_fuzz::run(input));
