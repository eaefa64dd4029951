//! Memory against throughput over the runs at hand: one point for each experiment, with the spread of its repeats.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use egui::Ui;
use jiff::tz::TimeZone;
use tunesmith_lab::{
    estimate::Fit,
    run::{Figure, LineState, RunLine, RunState},
};
use tunesmith_measure::judge::Severity;
use tunesmith_protocol::RunStatus;

use super::words;
use crate::{
    chart::{ChartView, Pareto, ParetoPoint, PointState},
    commands::Commands,
    pages::tune::RecipeFit,
    state::State,
    widgets,
};

/// How it is looked at.
#[derive(Default)]
pub(super) struct ParetoView {
    chart: ChartView,
    /// Only what was measured.
    without_predictions: bool,
}

/// Most points that can be told apart.
const MOST: usize = 40;

/// The chart's points.
#[derive(Default)]
pub struct Tradeoffs {
    points: Vec<ParetoPoint>,
    /// The runs behind each point, oldest first.
    runs: Vec<Vec<String>>,
    /// Experiments that are not drawn.
    left_out: usize,
    /// Whether the points are the chosen runs.
    of_chosen: bool,
}

impl Tradeoffs {
    /// Of these runs, which were chosen or are all that are shown.
    pub fn of<'a>(lines: impl Iterator<Item = &'a Arc<RunLine>>, of_chosen: bool, zone: &TimeZone) -> Self {
        let mut groups = group(lines);
        // The newest first, so that the oldest are left out.
        groups.sort_by(|one, other| newest(other).started.cmp(&newest(one).started));
        let left_out = groups.len().saturating_sub(MOST);
        groups.truncate(MOST);
        let heads: Vec<&RunLine> = groups.iter().map(|group| newest(group)).collect();
        let names = words::names(&heads, zone);
        Self {
            points: groups
                .iter()
                .zip(names)
                .map(|(group, name)| point(group, name))
                .collect(),
            runs: groups
                .iter()
                .map(|group| group.iter().map(|line| line.id.clone()).collect())
                .collect(),
            left_out,
            of_chosen,
        }
    }

    /// The points, the newest experiment first.
    pub fn points(&self) -> &[ParetoPoint] {
        &self.points
    }

    /// The point of a run.
    fn place_of(&self, id: &str) -> Option<usize> {
        self.runs.iter().position(|runs| runs.iter().any(|run| run == id))
    }
}

/// Repeats that ended well belong together; any other run stands for itself. Runs without either figure have no place.
fn group<'a>(lines: impl Iterator<Item = &'a Arc<RunLine>>) -> Vec<Vec<&'a RunLine>> {
    let well = LineState::Run(RunState::Ended(RunStatus::Ok));
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<Vec<&RunLine>> = Vec::new();
    for line in lines {
        let line: &RunLine = line;
        if Figure::PeakBytes.of(line).is_none() {
            continue;
        }
        let key = match &line.config_hash {
            Some(hash) if line.state == well => hash.as_str(),
            _ => line.id.as_str(),
        };
        let place = *places.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(line);
    }
    for group in &mut groups {
        group.sort_by(|one, other| one.started.cmp(&other.started));
    }
    groups
}

fn newest<'a>(group: &[&'a RunLine]) -> &'a RunLine {
    // Groups are made with their first run.
    group[group.len() - 1]
}

fn point(group: &[&RunLine], name: String) -> ParetoPoint {
    let values = |figure: Figure| {
        group
            .iter()
            .filter_map(|line| figure.of(line))
            .collect::<Vec<f64>>()
    };
    let line = newest(group);
    let state = match (line.state, line.judge) {
        (_, Some(Severity::Red)) => PointState::Invalid(words::reason(line)),
        (LineState::Run(RunState::Ended(RunStatus::Ok | RunStatus::TimeBoxed | RunStatus::Cancelled)), _) => {
            PointState::Measured
        }
        (LineState::Run(RunState::Running), _) => PointState::Invalid("it is going on".to_owned()),
        _ => PointState::Failed(words::reason(line)),
    };
    ParetoPoint {
        name,
        vram_gib: values(Figure::PeakBytes)
            .into_iter()
            .map(|bytes| words::gib(bytes as u64))
            .collect(),
        tokens_per_sec: values(Figure::TokensPerSec),
        state,
    }
}

/// What the recipes that were not run here are expected to take and to do, of those that fit.
fn predicted(fits: &BTreeMap<&'static str, RecipeFit>, lines: &[Arc<RunLine>]) -> Vec<ParetoPoint> {
    fits.iter()
        .filter(|(name, _)| lines.iter().all(|line| line.recipe != **name))
        .filter(|(_, fit)| matches!(fit.fit, Fit::Fits | Fit::Uncertain))
        .filter_map(|(name, fit)| {
            Some(ParetoPoint {
                name: format!("{name}, predicted"),
                vram_gib: vec![words::gib(fit.step_bytes?)],
                tokens_per_sec: vec![fit.tokens_per_sec?],
                state: PointState::Predicted,
            })
        })
        .collect()
}

/// Draws the chart; a click on a point looks at its newest run. Predictions stand among all runs and not among chosen
/// ones.
pub(super) fn pareto_ui(state: &State, view: &mut ParetoView, ui: &mut Ui, out: &mut Commands) {
    let runs = &state.pages.runs;
    let (tradeoffs, open) = (&runs.tradeoffs, runs.open.id.as_deref());
    let fits = state.pages.tune.fits().filter(|_| !tradeoffs.of_chosen);
    let predicted = fits.map_or_else(Vec::new, |fits| predicted(fits, runs.list.lines()));
    widgets::panel(ui, "", |ui| {
        let current = open.and_then(|id| tradeoffs.place_of(id));
        let mut points = tradeoffs.points.clone();
        if !view.without_predictions {
            points.extend(predicted.iter().cloned());
        }
        let clicked = Pareto::new("Memory against throughput", &points)
            .current(current)
            .empty("Runs appear here once their speed and their memory have been measured")
            .show(ui, &mut view.chart);
        if !predicted.is_empty() {
            let mut shown = !view.without_predictions;
            ui.checkbox(
                &mut shown,
                "Show what recipes that were not run are expected to do, hollow",
            );
            view.without_predictions = !shown;
        }
        let of = if tradeoffs.of_chosen {
            "Of the chosen runs; repeats of one experiment are one point"
        } else {
            "Of the runs listed above; repeats of one experiment are one point"
        };
        let more = match tradeoffs.left_out {
            0 => String::new(),
            left_out => format!("; {left_out} older experiments are left out"),
        };
        widgets::caption(ui, &format!("{of}{more}"));
        let run = clicked.and_then(|place| tradeoffs.runs.get(place)?.last().cloned());
        if let Some(id) = run {
            super::look(id, out);
        }
    });
}

#[cfg(test)]
mod tests {
    use tunesmith_lab::{run::lines, testing::TestRun};

    use super::*;

    fn of(runs: &[TestRun]) -> Tradeoffs {
        let home = tempfile::tempdir().unwrap();
        for run in runs {
            run.write(home.path());
        }
        Tradeoffs::of(lines(home.path(), &[]).unwrap().iter(), false, &TimeZone::UTC)
    }

    fn day(day: u32) -> TestRun {
        TestRun::new(&format!("2026-01-{day:02}T00:00:00Z"))
    }

    #[test]
    fn repeats_are_one_point_and_failures_keep_their_reason() {
        let found = of(&[
            day(1).config_hash("a").tokens_per_sec(500.0).peak_bytes(3 << 30),
            day(2).config_hash("a").tokens_per_sec(510.0).peak_bytes(3 << 30),
            day(3).config_hash("a").status(RunStatus::Oom).steps(8),
            day(4).config_hash("b").recipe("smoke"),
            day(5).status(RunStatus::Oom).steps(0),
        ]);
        assert_eq!(found.runs.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
        let repeats = &found.points[2];
        assert_eq!(repeats.vram_gib, [3.0, 3.0]);
        assert_eq!(repeats.tokens_per_sec.len(), 2);
        assert_eq!(repeats.state, PointState::Measured);
        assert!(matches!(&found.points[1].state, PointState::Failed(reason) if reason.contains("oom")));
        assert_eq!(found.points[0].name, "smoke");
        assert_eq!(found.place_of(&found.runs[2][0]), Some(2));
    }

    #[test]
    fn recipes_that_fit_and_were_not_run_are_predicted() {
        let fit = |fit, tokens_per_sec| RecipeFit {
            fit,
            bytes: Some(3 << 30),
            download: Some(0),
            step_bytes: Some(2 << 30),
            tokens_per_sec,
            reason: String::new(),
        };
        let fits = BTreeMap::from([
            ("quickstart", fit(Fit::Fits, Some(480.0))),
            ("sft-8gib", fit(Fit::Uncertain, Some(120.0))),
            ("sft-12gib", fit(Fit::DoesNotFit, Some(90.0))),
            ("sft-16gib", fit(Fit::Fits, None)),
        ]);
        let home = tempfile::tempdir().unwrap();
        day(1).write(home.path());
        let found = predicted(&fits, &lines(home.path(), &[]).unwrap());
        let names: Vec<&str> = found.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["sft-8gib, predicted"]);
        assert_eq!(found[0].vram_gib, [2.0]);
        assert_eq!(found[0].state, PointState::Predicted);
    }

    #[test]
    fn no_more_points_than_can_be_told_apart() {
        let runs: Vec<TestRun> = (0..45)
            .map(|number| {
                TestRun::new(&format!("2026-01-01T{:02}:{:02}:00Z", number / 60, number % 60))
                    .config_hash(&format!("{number:08x}"))
                    .steps(4)
            })
            .collect();
        let found = of(&runs);
        assert_eq!((found.points.len(), found.left_out), (MOST, 5));
    }
}
