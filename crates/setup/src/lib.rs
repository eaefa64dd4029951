//! What this machine needs before it can train: uv, a private torch runtime and the default model.
//!
//! Everything here is a stage that is skipped when its result is already there, says its size before it
//! downloads, reports progress with an estimate, and leaves nothing half-made: a stage works in a folder
//! beside its target and renames it at the end. No Python code of ours runs; uv does the installing.
//!
//! Plain threads, no async: the parent of a stage only waits, and the programs that wait here (the command
//! line, the build's own commands) have nothing else to do meanwhile.

mod allocator;
mod causes;
mod disk;
pub mod doctor;
mod engine_env;
pub mod env_vars;
pub mod environments;
mod error;
pub mod explain;
mod folders;
mod hash;
mod install;
pub mod knowledge;
mod lock;
pub mod model;
pub mod plan;
pub mod process;
mod progress;
mod python;
mod reference;
pub mod runtime;
pub mod updates;
mod uv;

pub use allocator::{ALLOCATOR_VARIABLES, memory_fraction, with_memory_fraction, without_memory_fraction};
pub use disk::{FolderSize, folder_bytes, folder_size, free_bytes};
pub use engine_env::{
    EngineEnv, TORCH_MINOR, TorchBuild, engine_env, find_engine, find_torch, loader_variable, wait_policy,
};
pub use error::SetupError;
pub use folders::Folders;
pub use install::{Ready, Setup};
pub use progress::{
    CommandReport, Plan, Progress, Report, Stage, human_bytes, human_bytes_if_known, human_duration,
};
pub use python::{OLDEST_MINOR, Python, find_python, find_python_in, has_pip, python_in};
pub use uv::UV_VERSION;
