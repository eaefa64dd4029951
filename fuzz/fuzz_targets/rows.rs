//! Lets libFuzzer feed inputs to the target `rows`: a data set in JSON lines.

#![no_main]

use tunesmith_fuzz::{files, run, start};

libfuzzer_sys::fuzz_target!(init: start(files::rows), |input: &[u8]| run(input));
