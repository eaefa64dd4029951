//! The lab: recipes, runs on disk, the supervisor of engine processes, and evaluation, and
//! what a report is made from.
//!
//! Everything that leads a run lives here, so that the terminal, the window and the installed app share one
//! path. The lab knows nothing of libtorch, of drawing or of the command line.

pub mod disk;
pub mod estimate;
pub mod evaluate;
pub mod experiment;
pub mod files;
pub mod fit;
pub mod lines;
pub mod models;
pub mod pipeline;
pub mod recipe;
pub mod report_input;
pub mod run;
pub mod service;
pub mod sql;
pub mod stop;
pub mod supervisor;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text_to_sql;
