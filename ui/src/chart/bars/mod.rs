//! Horizontal bars: what was measured against what was promised, and what a whole is made of.

mod measured;
mod stacked;

pub use measured::{Bar, Bars};
pub use stacked::StackedBar;
