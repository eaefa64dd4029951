//! The parts that pages are put together from. Each takes its look from the theme, has a name for those who cannot see
//! it, and changes nothing but what it is given.

mod basics;
mod marks;
mod panels;
mod values;

pub use basics::{
    command_block, copy_button, field, fold, link_button, primary_button, progress_bar, segmented,
    small_button, term,
};
pub use marks::{badge, icon, mark};
pub use panels::{
    empty, loading, page, panel, problem_panel, ragged, sideways, subheading, verdict_line, verdict_row,
};
pub use values::{caption, eta, facts, figure, rough, table, tile, tiles, value_unit, whole_secs};
