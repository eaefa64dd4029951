//! Lets libFuzzer feed inputs to the target `chat_template`: a chat template.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("chat_template"), |input: &[u8]| tunesmith_fuzz::run(input));
