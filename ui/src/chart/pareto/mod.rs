//! Memory against throughput: which configuration to choose where memory is scarce, and which where time is.
//!
//! `points` is what is known of each configuration, `layout` where the chart's parts go, `painting` how they look, and
//! `pointer` what can be pointed at, focused and clicked.

mod layout;
mod painting;
mod pointer;
mod points;
mod table;

use egui::Ui;
use tunesmith_measure::pareto::{Tradeoff, frontier, within_noise};
use tunesmith_report::format::number;

use super::ChartView;
use super::frame::Framed;
use crate::theme::tokens;
use layout::Plot;

pub use points::{ParetoPoint, PointState};

/// Of a point, in points.
const RADIUS: f32 = 5.0;

/// A chart of configurations by memory and throughput.
#[must_use = "it is drawn by `show`"]
pub struct Pareto<'a> {
    title: &'a str,
    points: &'a [ParetoPoint],
    current: Option<usize>,
    limit: Option<(f64, &'a str)>,
    height: f32,
    empty: &'a str,
}

impl<'a> Pareto<'a> {
    /// A chart of these points under a title that is unique on its page.
    pub fn new(title: &'a str, points: &'a [ParetoPoint]) -> Self {
        Self {
            title,
            points,
            current: None,
            limit: None,
            height: 280.0,
            empty: "Runs appear here once their speed has been measured",
        }
    }

    /// Which point is the one that the page is about.
    pub fn current(mut self, index: Option<usize>) -> Self {
        self.current = index;
        self
    }

    /// Memory that there is, in GiB, with a name.
    pub fn limit(mut self, gib: f64, name: &'a str) -> Self {
        self.limit = Some((gib, name));
        self
    }

    /// Height of the chart without heading and sentence, in points.
    pub fn height(mut self, height: f32) -> Self {
        self.height = height;
        self
    }

    /// What is said while there are no points.
    pub fn empty(mut self, text: &'a str) -> Self {
        self.empty = text;
        self
    }

    /// The chart in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        if self.points.is_empty() {
            return self.empty.to_owned();
        }
        let best = self.frontier();
        let told = |index: usize| {
            let point = &self.points[index];
            let (vram, speed) = (
                point.vram().unwrap_or(f64::NAN),
                point.speed().unwrap_or(f64::NAN),
            );
            format!(
                "{} at {} tokens/s and {} GiB",
                point.name,
                number(speed),
                number(vram)
            )
        };
        let mut parts = match best.as_slice() {
            [] => vec!["No point has been measured and is valid".to_owned()],
            [only] => vec![format!("Nothing beats {}", told(*only))],
            [least, .., fastest] => vec![
                format!("Fastest is {}", told(*fastest)),
                format!("least memory takes {}", told(*least)),
            ],
        };
        if let [(a, b), others @ ..] = self.alike().as_slice() {
            let more = match others.len() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            parts.push(format!(
                "{} and {} are within noise{more}",
                self.points[*a].name, self.points[*b].name
            ));
        }
        let counted =
            |is: fn(&PointState) -> bool| self.points.iter().filter(|point| is(&point.state)).count();
        for (count, words) in [
            (
                counted(|state| matches!(state, PointState::Predicted)),
                "predicted (hollow)",
            ),
            (
                counted(|state| matches!(state, PointState::Invalid(_))),
                "invalid (◇)",
            ),
            (
                counted(|state| matches!(state, PointState::Failed(_))),
                "failed (×)",
            ),
        ] {
            if count > 0 {
                parts.push(format!("{count} {words}"));
            }
        }
        parts.join("; ")
    }

    /// Draws it. Gives the index of a point that was clicked.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView) -> Option<usize> {
        let summary = self.summary();
        let framed = Framed {
            title: self.title,
            unit: "tokens/s against GiB",
            summary: &summary,
            empty: self.points.is_empty(),
            height: self.height,
        };
        let clicked = framed.show(
            ui,
            view,
            || self.table(),
            |ui, _| Plot::of(self, ui).and_then(|plot| self.plot_ui(&plot, ui)),
        );
        clicked.flatten()
    }

    /// Indexes of the valid measured points that none beats, by rising memory.
    fn frontier(&self) -> Vec<usize> {
        let candidates: Vec<(usize, Tradeoff)> = self
            .points
            .iter()
            .enumerate()
            .filter_map(|(index, point)| Some((index, point.tradeoff()?)))
            .collect();
        let points: Vec<Tradeoff> = candidates.iter().map(|(_, point)| *point).collect();
        frontier(&points)
            .into_iter()
            .map(|place| candidates[place].0)
            .collect()
    }

    /// Pairs of measured points whose throughput differs by noise alone.
    fn alike(&self) -> Vec<(usize, usize)> {
        let measured: Vec<usize> = (0..self.points.len())
            .filter(|&index| self.points[index].tradeoff().is_some())
            .collect();
        let mut pairs = Vec::new();
        for (place, &a) in measured.iter().enumerate() {
            for &b in &measured[place + 1..] {
                let repeats = (&self.points[a].tokens_per_sec, &self.points[b].tokens_per_sec);
                if within_noise(repeats.0, repeats.1) == Some(true) {
                    pairs.push((a, b));
                }
            }
        }
        pairs
    }

    fn plot_ui(&self, plot: &Plot, ui: &mut Ui) -> Option<usize> {
        let tokens = tokens(ui);
        let painter = ui.painter().clone();
        plot.paint_ground(&painter, tokens);
        if let Some((gib, name)) = self.limit {
            plot.paint_limit(gib, name, &painter, tokens);
        }
        let best = self.frontier();
        self.paint_frontier(plot, &best, &painter, tokens);
        for (index, point) in self.points.iter().enumerate() {
            if self.current != Some(index) {
                self.paint_point(plot, index, point, &painter, tokens);
            }
        }
        if let Some((index, point)) = self
            .current
            .and_then(|index| Some((index, self.points.get(index)?)))
        {
            self.paint_point(plot, index, point, &painter, tokens);
        }
        self.paint_names(plot, &best, &painter, tokens);
        self.point_targets_ui(plot, &best, ui)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, vram: f64, speeds: &[f64], state: PointState) -> ParetoPoint {
        ParetoPoint {
            name: name.to_owned(),
            vram_gib: vec![vram],
            tokens_per_sec: speeds.to_vec(),
            state,
        }
    }

    #[test]
    fn a_sentence_names_the_ends_the_noise_and_what_does_not_count() {
        let points = [
            point("bf16", 12.0, &[1000.0, 1010.0, 990.0], PointState::Measured),
            point("nf4", 6.0, &[600.0, 610.0, 590.0], PointState::Measured),
            point("bf16 packed", 12.5, &[998.0, 1012.0, 995.0], PointState::Measured),
            point("r64", 14.0, &[1500.0], PointState::Predicted),
            point(
                "wrong mask",
                5.0,
                &[2000.0],
                PointState::Invalid("loss mask".into()),
            ),
            point("too large", 15.9, &[], PointState::Failed("out of memory".into())),
        ];
        assert_eq!(
            Pareto::new("Memory and speed", &points).summary(),
            "Fastest is bf16 packed at 1,002 tokens/s and 12.5 GiB; least memory takes nf4 at 600 tokens/s and \
             6.00 GiB; bf16 and bf16 packed are within noise; 1 predicted (hollow); 1 invalid (◇); 1 failed (×)"
        );
    }

    #[test]
    fn what_is_invalid_or_predicted_is_never_on_the_frontier() {
        let points = [
            point("a", 1.0, &[9.0], PointState::Predicted),
            point("b", 2.0, &[5.0], PointState::Measured),
            point("c", 1.0, &[9.0], PointState::Invalid("zeros".into())),
        ];
        let chart = Pareto::new("Memory and speed", &points);
        assert_eq!(chart.frontier(), [1]);
        assert_eq!(
            chart.table().to_tsv(),
            "run\tmemory (GiB)\ttokens/s\tspread (sd)\trepeats\tstate\na\t1\t9\t\t1\tpredicted\n\
             b\t2\t5\t\t1\tmeasured, on the frontier\nc\t1\t9\t\t1\tinvalid: zeros\n"
        );
    }

    #[test]
    fn no_points_are_said_to_be_missing() {
        assert_eq!(
            Pareto::new("Memory and speed", &[]).empty("No run yet").summary(),
            "No run yet"
        );
    }
}
