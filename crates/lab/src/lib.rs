//! The lab: recipes, runs on disk, the supervisor of engine processes, and evaluation.
//!
//! Everything that leads a run lives here, so that the terminal, the window and the installed app share one
//! path. The lab knows nothing of libtorch, of drawing or of the command line.

pub mod evaluate;
pub mod files;
pub mod pipeline;
pub mod recipe;
pub mod run;
pub mod sql;
pub mod stop;
pub mod supervisor;
pub mod text_to_sql;
