//! What a user relies on, through the real programs: the supervisor and the command line with an engine that
//! replays a script, and the command line with the real engine.

// A test helper that cannot go on should say so at once.
#![allow(clippy::unwrap_used)]
// Scripts read best where they are put together piece by piece; nobody counts allocations here.
#![allow(clippy::format_push_string, clippy::format_collect)]

mod bad_input;
mod command_line;
mod context;
mod desktop;
mod experimenting;
#[cfg(feature = "inject-faults")]
mod faults;
mod fitting;
mod fuzz_inputs;
mod healthy;
mod hub;
mod machines;
mod real_engine;
mod reporting;
mod resuming;
mod serving;
mod shelling;
mod soaking;
mod sources;
mod supervising;
mod tiny_model;
mod updating;
mod window;
#[cfg(target_os = "linux")]
mod window_for_real;
