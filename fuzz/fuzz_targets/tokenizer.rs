//! Lets libFuzzer feed inputs to the target `tokenizer`: `tokenizer.json`.

#![no_main]

use tunesmith_fuzz::{files, run, start};

libfuzzer_sys::fuzz_target!(init: start(files::tokenizer), |input: &[u8]| run(input));
