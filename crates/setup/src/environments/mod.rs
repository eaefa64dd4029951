//! Tunesmith's own environments: one folder for each engine and package set, made by uv from the plan's steps.
//!
//! An environment is built beside its place, checked from its files, and only then renamed: whatever stops the way
//! there, the environment of that name stays what it was. Which one an engine uses is recorded apart from them, so
//! going back is a note, not an installation.

mod apply;
mod diff;
mod site;
mod spec;
mod store;
mod torches;
mod verify;
mod versions;

pub use diff::{Change, EnvDiff, Side, diff};
pub(crate) use site::sorted_children;
pub use site::{
    Kernels, Package, TritonOwner, packages, rocblas_kernels, site_packages, triton_backends, triton_owners,
};
pub use spec::{
    Engine, Expectations, GpuBuild, InstallSpec, InstallStep, Layout, PackageNeed, PythonRange,
    PythonVersion, TritonNeed, is_environment_name,
};
pub use store::{Environment, Listing, Stamp, Unreadable, active, choose, find, list, remove, roll_back};
pub use torches::{FoundTorch, Origin, find_torches};
pub use verify::{Verification, verify};
pub use versions::normal_name;
