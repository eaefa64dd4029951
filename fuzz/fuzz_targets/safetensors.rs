//! Lets libFuzzer feed inputs to the target `safetensors`: a safetensors file.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("safetensors"), |input: &[u8]| tunesmith_fuzz::run(input));
