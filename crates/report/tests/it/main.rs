//! What a reader of a report relies on: it says what is true, it opens anywhere, and nobody's text can do harm in it.

// Helpers of tests, where a failed unwrap is the failure to see.
#![allow(clippy::unwrap_used)]

mod comparing;
mod files;
mod page;
mod renderings;
mod support;
mod verdicts;
