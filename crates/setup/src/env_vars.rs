//! Every environment variable that Tunesmith reads, in one place, so that none is invented twice.

use std::ffi::OsString;

/// Puts data, configuration and cache under one folder instead of the system's own folders: for tests and
/// portable use. The torch runtime, the engines' environments, uv and downloaded models stay in the user's cache,
/// or every test home would fetch them again.
pub const HOME: &str = "TUNESMITH_HOME";

/// Names the folder of the private torch runtime itself (it then holds `torch/`), instead of
/// `<user cache>/tunesmith/runtime/torch-2.11.0-cpu`.
pub const RUNTIME: &str = "TUNESMITH_RUNTIME";

/// The engine's program file, for a program that does not find `tunesmith-engine` beside itself.
pub const ENGINE: &str = "TUNESMITH_ENGINE";

/// The `site-packages` folder whose `torch/` the engine uses: the private runtime, or the user's own
/// environment with a CUDA or ROCm build.
pub const TORCH: &str = "TUNESMITH_TORCH";

/// The Python with torch, transformers and peft that the second engine runs in.
pub const HF_PYTHON: &str = "TUNESMITH_HF_PYTHON";

/// The share of a card's memory that the second engine may take, as this project's engine gets it by torch's own
/// variable: a torch of any version knows the call, an older one not the key.
pub const MEMORY_FRACTION: &str = "TUNESMITH_MEMORY_FRACTION";

/// The program `tunesmith`, for a window that does not find it beside itself.
pub const PROGRAM: &str = "TUNESMITH_PROGRAM";

/// The window's program, for a shell that does not find `tunesmith-ui` beside itself.
pub const WINDOW: &str = "TUNESMITH_WINDOW";

/// What draws the window, against what worked last: `wgpu`, `wgpu-gl`, `glow` or `software`.
pub const RENDERER: &str = "TUNESMITH_RENDERER";

/// The variable's value; an empty one counts as unset.
pub fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
