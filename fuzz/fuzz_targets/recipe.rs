//! Lets libFuzzer feed inputs to the target `recipe`: a recipe in TOML, and `--set` lines.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tunesmith_fuzz::start("recipe"), |input: &[u8]| tunesmith_fuzz::run(input));
