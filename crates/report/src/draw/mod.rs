//! Drawings as SVG text, built by hand from data: no file, no script, no font of their own. Colours come from
//! `templates/chart.css` by class, so that both themes, print and the share card apply. What a drawing shows is also in a
//! table beside it; a title on each mark is the hover text.

mod axis;
mod chart;
mod composition;
mod overlay;
mod pareto;
mod scores;
mod spread;
mod sweep;
mod waterfall;

pub(crate) use chart::{ChartPoint, LineChart, Reference};
pub(crate) use composition::{Part, Stack};
pub(crate) use overlay::{Curve, Overlay};
pub(crate) use pareto::{Pareto, ParetoPoint};
pub(crate) use scores::{ScoreRow, scores};
pub(crate) use spread::{SpreadBars, SpreadRow};
pub(crate) use sweep::{Knob, KnobPoint, Sweep};
pub(crate) use waterfall::{Level, Waterfall};

/// Width of every drawing, in its own units: half of the page's column, so that text is as large as the page's.
pub(crate) const WIDTH: f64 = 508.0;

/// Class of a series' colour. There are six; further series begin again, told apart by their names.
pub(crate) fn series(index: usize) -> String {
    format!("s{}", index % 6)
}
