//! What this machine is: processor, memory, limits of a container, graphics cards, and how busy it is.
//!
//! Every function takes a root path, `/` on a live machine, so that a captured tree of `/proc`, `/sys` and `/etc` is
//! a test, and a user's diagnostics archive is a captured machine. Nothing is changed, nothing is guessed: what
//! cannot be read is `None`. Host names, users and command lines are never read.

mod cpu;
mod fallback;
mod gpu;
mod limits;
mod load;
mod machine;
mod tree;

pub use cpu::CpuFeatures;
pub use gpu::{GpuBrief, GpuVendor, gpus};
pub use limits::Limits;
pub use load::{BusyProcess, CpuSnapshot, Load, load, process_peak_bytes};
pub use machine::{Machine, machine};

/// The root of a live machine.
pub const LIVE: &str = "/";
