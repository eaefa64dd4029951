//! Lets libFuzzer feed inputs to the target `protocol`: a line of an engine or of its parent.

#![no_main]

use tunesmith_fuzz::{run, start, text};

libfuzzer_sys::fuzz_target!(init: start(text::protocol), |input: &[u8]| run(input));
