//! Lets libFuzzer feed inputs to the target `gguf`: a GGUF file.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("gguf"), |input: &[u8]| tunesmith_fuzz::run(input));
