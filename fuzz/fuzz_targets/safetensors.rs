//! Lets libFuzzer feed inputs to the target `safetensors`: a safetensors file.

#![no_main]

use tunesmith_fuzz::{files, run, start};

libfuzzer_sys::fuzz_target!(init: start(files::safetensors), |input: &[u8]| run(input));
