//! Lets libFuzzer feed inputs to the target `config`: the JSON files of a model's folder.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("config"), |input: &[u8]| tunesmith_fuzz::run(input));
