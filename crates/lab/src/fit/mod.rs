//! What fits on this machine, found out by running: the limit that a run gets, tries of a few steps, the search for the
//! largest batch or row length, the watch over a card that is too full, and who else holds it.
//!
//! What is only predicted lies in [`crate::estimate`]; the arithmetic of both in `tunesmith_measure::fit`.

mod card;
mod holders;
mod search;
mod spill;
mod timed;
mod trial;

pub(crate) use card::limit_now;
pub use card::{PlannedCard, limit_words};
pub use holders::{HolderNote, Remembered, holder_line, holders_now, remember, stopped_meanwhile};
pub use search::{SearchKind, SearchRecord, SearchTry, SearchWish, TryOutcome, search};
pub(crate) use spill::{SpillGuard, card_use, halt as halt_by_spill};
pub use timed::{Pause, TimedWindow, timed_window};
pub use trial::{ModelName, Trial, TrialWish, measure, trials};
