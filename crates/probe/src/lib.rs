//! What this machine is: processor, memory, limits of a container, graphics cards, and how busy it is.
//!
//! Every function takes a root path, `/` on a live machine, so that a captured tree of `/proc`, `/sys` and `/etc` is
//! a test, and a user's diagnostics archive is a captured machine. Nothing is changed, nothing is guessed: what
//! cannot be read is `None`. Host names and the command lines of processes are never read, and a user's
//! name stays out of what is written.

mod capture;
mod cards;
pub mod contention;
mod cpu;
mod detect;
mod fallback;
mod gpu;
mod holders;
mod limits;
mod load;
mod machine;
pub mod nvml;
mod system;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tree;
#[cfg(windows)]
mod windows;

pub use capture::{CaptureError, CaptureOptions, CaptureSummary, Redaction, capture, redacted};
pub use cards::{Card, CardFacts, CardId, CardTable, CardsError, DeviceFacts, Family, KnownDevice, Unit};
pub use cpu::CpuFeatures;
pub use detect::detect;
pub use gpu::{GpuBrief, GpuVendor, gpus};
pub use holders::{CardHolder, ContainerTool, HOLDS_BYTES, RunsIn, card_holders};
pub use limits::Limits;
pub use load::{BusyProcess, CpuSnapshot, Load, load, process_peak_bytes};
pub use machine::{Machine, machine};
pub use system::{
    Access, Derived, DeviceAccess, Flatpak, GfxSource, Gpu, Kernel, Link, Note, Peak, Platform,
    SYSTEM_SCHEMA, Setting, Stacks, System,
};

/// The root of a live machine.
pub const LIVE: &str = "/";
