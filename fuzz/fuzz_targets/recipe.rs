//! Lets libFuzzer feed inputs to the target `recipe`: a recipe in TOML, and `--set` lines.

#![no_main]

use tunesmith_fuzz::{run, start, text};

libfuzzer_sys::fuzz_target!(init: start(text::recipe), |input: &[u8]| run(input));
