//! The charts of the window. Each draws itself from values that its page gives it, says itself in one sentence, and
//! shows its values as a table that can be copied.
//!
//! They are drawn with egui's painter: the plotting crate at hand walks over every point in every frame and has no
//! logarithmic axis, and a chart here is a few lines, marks and labels. Nothing here takes the scroll wheel from the
//! page, and nothing moves by itself.

mod axis;
mod bars;
mod frame;
mod knob;
mod line;
mod paint;
mod pareto;
mod series;
mod sparkline;
mod spread;
mod waterfall;

use egui::Id;

pub use axis::Along;
pub use bars::{Bar, Bars, StackedBar};
pub use knob::{KnobChart, KnobMark};
pub use line::LineChart;
pub use pareto::{Pareto, ParetoPoint, PointState};
pub use series::{Extremes, Mark, MarkKind, OutOfOrder, Point, Series};
pub use sparkline::Sparkline;
pub use spread::{SpreadBar, SpreadBars};
pub use waterfall::{Waterfall, WaterfallLevel};

/// What a page keeps of a chart from one frame to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChartView {
    /// Whether the table stands in the chart's place.
    pub table: bool,
}

/// The place that the pointer shows, shared by the charts of a page: all of them tell their values there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cursor {
    at: Option<(f64, Id)>,
}

impl Cursor {
    /// Where it is, as the x of the charts; `None` while the pointer is on none of them.
    pub fn x(&self) -> Option<f64> {
        self.at.map(|(x, _)| x)
    }

    /// Follows the pointer over one chart, and forgets it when it leaves that chart. Whether it moved.
    fn follow(&mut self, chart: Id, pointed: Option<f64>) -> bool {
        let before = *self;
        match (pointed, self.at) {
            (Some(x), _) => self.at = Some((x, chart)),
            (None, Some((_, owner))) if owner == chart => self.at = None,
            (None, _) => {}
        }
        *self != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_belongs_to_the_chart_under_the_pointer() {
        let (loss, memory) = (Id::unique("loss"), Id::unique("memory"));
        let mut cursor = Cursor::default();
        assert!(cursor.follow(loss, Some(3.0)));
        assert!(!cursor.follow(memory, None));
        assert_eq!(cursor.x(), Some(3.0));
        assert!(cursor.follow(memory, Some(4.0)));
        assert!(!cursor.follow(loss, None));
        assert!(cursor.follow(memory, None));
        assert_eq!(cursor.x(), None);
    }
}
