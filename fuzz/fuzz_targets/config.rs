//! Lets libFuzzer feed inputs to the target `config`: the JSON files of a model's folder.

#![no_main]

use tunesmith_fuzz::{files, run, start};

libfuzzer_sys::fuzz_target!(init: start(files::config), |input: &[u8]| run(input));
