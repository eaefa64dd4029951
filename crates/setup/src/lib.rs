//! What this machine needs before it can train: uv, a private torch runtime and the default model.
//!
//! Everything here is a stage that is skipped when its result is already there, says its size before it
//! downloads, reports progress with an estimate, and leaves nothing half-made: a stage works in a folder
//! beside its target and renames it at the end. No Python code of ours runs; uv does the installing.
//!
//! Plain threads, no async: the parent of a stage only waits, and the programs that wait here (the command
//! line, the build's own commands) have nothing else to do meanwhile.

mod causes;
mod disk;
mod engine_env;
pub mod env_vars;
mod error;
mod folders;
mod install;
mod lock;
pub mod model;
pub mod process;
mod progress;
mod python;
mod reference;
pub mod runtime;
mod uv;

pub use disk::{folder_bytes, free_bytes};
pub use engine_env::{
    EngineEnv, TORCH_MINOR, TorchBuild, engine_env, find_engine, find_torch, loader_variable, wait_policy,
};
pub use error::SetupError;
pub use folders::Folders;
pub use install::{Ready, Setup};
pub use progress::{Plan, Progress, Report, Stage, human_bytes, human_duration};
pub use python::{OLDEST_MINOR, Python, find_python, has_pip};
pub use uv::UV_VERSION;
