//! One function per command: what it does with the library, and what it says.

mod environments;
mod machine;
mod quickstart;
mod runs;
mod serve;
mod sources;
mod training;
mod using;

pub(crate) use environments::{environments, set_up};
pub(crate) use machine::{capture, detect, doctor, explain, plan};
pub(crate) use quickstart::quickstart;
pub(crate) use runs::{list_runs, report, show_run};
pub(crate) use serve::serve;
pub(crate) use sources::{fetch_model, list_models, show_data};
pub(crate) use training::{calibrate, resume, train};
pub(crate) use using::{eval, generate};
