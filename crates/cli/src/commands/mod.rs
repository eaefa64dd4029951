//! One function per command: what it does with the library, and what it says.

mod calibrate;
mod environments;
mod experiments;
mod first_use;
mod fit;
mod knowledge;
mod machine;
mod manual;
mod quickstart;
mod report;
mod runs;
mod serve;
mod sources;
mod training;
mod using;
mod validate;

pub(crate) use calibrate::calibrate;
pub(crate) use environments::{environments, set_up};
pub(crate) use experiments::{list_experiments, run_experiment, show_experiment};
pub(crate) use fit::{fit, measure_fit, search_fit};
pub(crate) use knowledge::{show_knowledge, update_knowledge};
pub(crate) use machine::{capture, detect, doctor, explain, plan};
pub(crate) use manual::{completions, manual};
pub(crate) use quickstart::quickstart;
pub(crate) use report::report;
pub(crate) use runs::{list_runs, show_run};
pub(crate) use serve::serve;
pub(crate) use sources::{fetch_model, list_models, show_data};
pub(crate) use training::{resume, train};
pub(crate) use using::{eval, generate};
pub(crate) use validate::{smoke_test, validate};
