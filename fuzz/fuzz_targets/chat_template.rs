//! Lets libFuzzer feed inputs to the target `chat_template`: a chat template.

#![no_main]

use tunesmith_fuzz::{run, start, text};

libfuzzer_sys::fuzz_target!(init: start(text::chat_template), |input: &[u8]| run(input));
