//! Lets libFuzzer feed inputs to the target `tokenizer`: `tokenizer.json`.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("tokenizer"), |input: &[u8]| tunesmith_fuzz::run(input));
