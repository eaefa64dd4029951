//! Lets libFuzzer feed inputs to the target `gguf`: a GGUF file.

#![no_main]

use tunesmith_fuzz::{files, run, start};

libfuzzer_sys::fuzz_target!(init: start(files::gguf), |input: &[u8]| run(input));
