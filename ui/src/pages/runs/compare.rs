//! Several runs side by side: their curves, what differs in their recipes, their figures, and whether a difference is
//! more than noise.

use std::{collections::HashMap, sync::Arc};

use egui::{Label, RichText, Ui};
use egui_extras::Column;
use jiff::tz::TimeZone;
use tunesmith_lab::{
    recipe::Recipe,
    run::{Figure, Repeats, Run, RunLine, compare, repeats},
};
use tunesmith_measure::{
    StepPoint,
    comparison::{Noise, SampleComparison},
};

use super::{
    details::keys_table,
    recipes::{Difference, differences},
    words,
};
use crate::{
    chart::{ChartView, Cursor, LineChart, Series},
    commands::Commands,
    problem,
    services::Work,
    state::{Loadable, Problem},
    theme::{self, Tone, tokens},
    widgets,
};

/// Most runs whose lines can be told apart in a chart.
pub(super) const MOST: usize = 6;

/// Figures whose differences are put into words.
const JUDGED: [Figure; 4] = [
    Figure::TokensPerSec,
    Figure::PeakBytes,
    Figure::LossLast,
    Figure::AfterPoints,
];

/// What is read of a run to compare it.
struct Curves {
    recipe: Recipe,
    loss: Series,
    speed: Series,
}

impl Curves {
    fn read(line: &RunLine) -> Result<Self, Problem> {
        let run = Run::open(&line.folder).map_err(|error| problem!(error))?;
        let training = run.training().map_err(|error| problem!(error))?;
        let points = training.map_or_else(Vec::new, |training| training.points);
        Ok(Self {
            loss: series(&points, |point| point.loss),
            speed: series(&points, |point| point.tokens_per_sec),
            recipe: run.recipe,
        })
    }
}

/// Points in order of their steps; one without a value is a gap, one that does not count is marked.
fn series(points: &[StepPoint], value: fn(&StepPoint) -> Option<f64>) -> Series {
    let mut series = Series::new();
    for point in points {
        let (x, y) = (point.step as f64, value(point).unwrap_or(f64::NAN));
        let taken = if point.valid || y.is_nan() {
            series.push(x, y)
        } else {
            series.push_invalid(x, y)
        };
        // Steps rise: a resume's were taken out when the record was read.
        debug_assert!(taken.is_ok());
    }
    series
}

/// A row of the table of figures.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FigureRow {
    title: &'static str,
    /// Of each run; a dash where its record has none.
    values: Vec<String>,
    /// Mean and spread of its repeats, where it has some.
    repeats: Vec<Option<String>>,
}

/// A sentence about a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Remark {
    tone: Tone,
    sentence: String,
}

/// The runs that are compared.
#[derive(Default)]
pub struct Compared {
    /// Whether the comparison is shown.
    pub shown: bool,
    lines: Vec<Arc<RunLine>>,
    names: Vec<String>,
    /// Runs that were chosen beyond those that are drawn.
    left_out: usize,
    figures: Vec<FigureRow>,
    remarks: Vec<Remark>,
    curves: HashMap<String, (Arc<RunLine>, Loadable<Arc<Curves>>)>,
    differences: Vec<Difference>,
}

impl Compared {
    /// These were chosen, of all that there are.
    pub fn choose(&mut self, chosen: &[Arc<RunLine>], all: &[Arc<RunLine>], zone: &TimeZone) {
        self.left_out = chosen.len().saturating_sub(MOST);
        // The newest are the ones that somebody has just made in order to compare them.
        self.lines = chosen[self.left_out..].to_vec();
        self.shown &= self.lines.len() >= 2;
        let lines: Vec<&RunLine> = self.lines.iter().map(AsRef::as_ref).collect();
        self.names = words::names(&lines, zone);
        let experiments = experiments(&self.lines, &repeats(all));
        self.figures = figures(&self.lines, &experiments);
        self.remarks = remarks(&self.lines, &self.names, &experiments);
        let lines = &self.lines;
        self.curves
            .retain(|_, (from, _)| lines.iter().any(|line| Arc::ptr_eq(line, from)));
        self.differ();
    }

    /// The work that reads the next run whose curves are missing.
    pub fn needs(&mut self) -> Option<Work> {
        if !self.shown {
            return None;
        }
        let line = self
            .lines
            .iter()
            .find(|line| !self.curves.contains_key(&line.id))?;
        let line = Arc::clone(line);
        self.curves
            .insert(line.id.clone(), (Arc::clone(&line), Loadable::Loading));
        let asked = Arc::clone(&line);
        Some(Work::awaited(
            "reading the curves of a run",
            move || Curves::read(&line).map(Arc::new),
            move |state, curves| state.pages.runs.compared.take(&asked, curves),
        ))
    }

    fn take(&mut self, line: &Arc<RunLine>, curves: Result<Arc<Curves>, Problem>) {
        if let Some((from, place)) = self.curves.get_mut(&line.id)
            && Arc::ptr_eq(from, line)
        {
            *place = curves.into();
            self.differ();
        }
    }

    /// The curves of the compared runs that have been read, with the place of each run.
    fn read(&self) -> impl Iterator<Item = (usize, &Arc<Curves>)> {
        self.lines.iter().enumerate().filter_map(|(place, line)| {
            let (_, curves) = self.curves.get(&line.id)?;
            Some((place, curves.ready()?))
        })
    }

    fn differ(&mut self) {
        let recipes: Vec<&Recipe> = self.read().map(|(_, curves)| &curves.recipe).collect();
        // Before all are there it is not known in what they differ.
        let whole = recipes.len() == self.lines.len();
        self.differences = if whole { differences(&recipes) } else { Vec::new() };
    }
}

/// What stands behind each run: all repeats of its experiment, or the run alone where it did not end well.
fn experiments(lines: &[Arc<RunLine>], all: &[Repeats]) -> Vec<Repeats> {
    lines
        .iter()
        .map(|line| {
            let own = |group: &&Repeats| group.runs.iter().any(|run| run.id == line.id);
            all.iter().find(own).cloned().unwrap_or_else(|| Repeats {
                config_hash: line.config_hash.clone().unwrap_or_default(),
                runs: vec![Arc::clone(line)],
            })
        })
        .collect()
}

fn figures(lines: &[Arc<RunLine>], experiments: &[Repeats]) -> Vec<FigureRow> {
    Figure::ALL
        .into_iter()
        .map(|figure| FigureRow {
            title: figure.title(),
            values: lines
                .iter()
                .map(|line| {
                    figure
                        .of(line)
                        .map_or_else(|| "–".to_owned(), |value| words::figure(figure, value))
                })
                .collect(),
            repeats: experiments
                .iter()
                .map(|experiment| {
                    let spread = experiment.spread(figure)?;
                    let sd = words::figure(figure, spread.sd?);
                    let sd = sd.trim_start_matches('+');
                    let mean = words::figure(figure, spread.mean);
                    Some(format!("{mean} ± {sd} over {} runs", spread.n))
                })
                .collect(),
        })
        .filter(|row| row.values.iter().any(|value| value != "–"))
        .collect()
}

/// What the figures allow to be said: each run against the first.
fn remarks(lines: &[Arc<RunLine>], names: &[String], experiments: &[Repeats]) -> Vec<Remark> {
    let (Some(first), Some(first_name)) = (experiments.first(), names.first()) else {
        return Vec::new();
    };
    let mut remarks = Vec::new();
    for (place, (other, name)) in experiments.iter().zip(names).enumerate().skip(1) {
        let same = lines[0].config_hash.is_some() && lines[0].config_hash == lines[place].config_hash;
        if same {
            remarks.push(Remark {
                tone: Tone::Note,
                sentence: format!(
                    "{name} is a repeat of {first_name}: what they differ by is the noise of this machine"
                ),
            });
            continue;
        }
        let counts = (first.runs.len(), other.runs.len());
        if counts == (1, 1) {
            remarks.push(Remark {
                tone: Tone::Unknown,
                sentence: format!(
                    "{name} against {first_name}: a single run each, so nothing can be said about noise; repeat each at least twice"
                ),
            });
            continue;
        }
        for figure in JUDGED {
            let found = compare(figure, &first.values(figure), &other.values(figure));
            // Runs without the figure have nothing to say about it.
            let Ok(found) = found else { continue };
            remarks.push(Remark {
                tone: tone_of(&found),
                sentence: format!("{name} against {first_name}: {}", found.sentence),
            });
        }
    }
    remarks
}

fn tone_of(found: &SampleComparison) -> Tone {
    match found.noise {
        Noise::Beyond => Tone::Ok,
        Noise::Within => Tone::Note,
        Noise::Unknown => Tone::Unknown,
    }
}

/// How the comparison is looked at.
#[derive(Default)]
pub(super) struct CompareView {
    loss: ChartView,
    speed: ChartView,
    cursor: Cursor,
}

/// Draws the comparison.
pub(super) fn compare_ui(compared: &Compared, view: &mut CompareView, ui: &mut Ui, out: &mut Commands) {
    let heading = format!("{} runs compared", compared.lines.len());
    widgets::panel(ui, &heading, |ui| {
        if compared.left_out > 0 {
            widgets::caption(
                ui,
                &format!(
                    "The newest {MOST} of those chosen; {} more are left out",
                    compared.left_out
                ),
            );
        }
        charts_ui(compared, view, ui, out);
        ui.add_space(2.0 * theme::GRID);
        figures_ui(compared, ui);
        ui.add_space(2.0 * theme::GRID);
        for remark in &compared.remarks {
            widgets::verdict_line(ui, remark.tone, &remark.sentence);
        }
        recipes_ui(compared, ui);
    });
}

fn charts_ui(compared: &Compared, view: &mut CompareView, ui: &mut Ui, out: &mut Commands) {
    for line in &compared.lines {
        if let Some((_, Loadable::Failed(problem))) = compared.curves.get(&line.id) {
            widgets::problem_panel(ui, &format!("{} cannot be read", line.id), problem, out);
        }
    }
    let draw = |title: &'static str, unit: &'static str, series: fn(&Curves) -> &Series, from_zero: bool| {
        let mut chart = LineChart::new(title, unit).empty("No step has been recorded");
        if from_zero {
            chart = chart.from_zero();
        }
        for (place, curves) in compared.read() {
            chart = chart.line_at(place, &compared.names[place], series(curves));
        }
        chart
    };
    let loss = draw("Loss", "nats per supervised token", |curves| &curves.loss, false);
    let speed = draw("Speed", "tokens/s", |curves| &curves.speed, true);
    if ui.available_width() >= 760.0 {
        ui.columns(2, |columns| {
            loss.show(&mut columns[0], &mut view.loss, &mut view.cursor);
            speed.show(&mut columns[1], &mut view.speed, &mut view.cursor);
        });
    } else {
        loss.show(ui, &mut view.loss, &mut view.cursor);
        speed.show(ui, &mut view.speed, &mut view.cursor);
    }
}

/// Width of the column of figures' names, in points.
const FIGURE: f32 = 130.0;
/// Least width of a column of values.
const VALUE: f32 = 80.0;

fn figures_ui(compared: &Compared, ui: &mut Ui) {
    let tokens = tokens(ui);
    let height = if compared
        .figures
        .iter()
        .any(|row| row.repeats.iter().any(Option::is_some))
    {
        1.6 * theme::ROW
    } else {
        theme::ROW
    };
    let needed = FIGURE + compared.names.len() as f32 * (VALUE + ui.spacing().item_spacing.x);
    widgets::sideways(ui, "figures", needed, |ui| {
        let mut table = widgets::table(ui, "figures")
            .vscroll(false)
            .column(Column::exact(FIGURE).clip(true));
        for _ in &compared.names {
            table = table.column(Column::remainder().at_least(VALUE).clip(true));
        }
        table
            .header(theme::ROW, |mut header| {
                header.col(|_| {});
                for (place, name) in compared.names.iter().enumerate() {
                    header.col(|ui| {
                        let colour = tokens.series(place);
                        let side = 2.0 * theme::GRID;
                        let (rect, _) = ui.allocate_exact_size(egui::Vec2::splat(side), egui::Sense::hover());
                        ui.painter().circle_filled(rect.center(), side / 2.0, colour);
                        let text = RichText::new(name)
                            .font(theme::strong_font())
                            .color(tokens.strong_text);
                        ui.add(Label::new(text).truncate());
                    });
                }
            })
            .body(|body| {
                body.rows(height, compared.figures.len(), |mut row| {
                    let figure = &compared.figures[row.index()];
                    row.col(|ui| {
                        ui.vertical(|ui| ui.label(RichText::new(figure.title).color(tokens.weak_text)));
                    });
                    for (value, repeats) in figure.values.iter().zip(&figure.repeats) {
                        row.col(|ui| {
                            ui.vertical(|ui| {
                                ui.spacing_mut().item_spacing.y = 0.0;
                                ui.add(Label::new(value).truncate());
                                if let Some(repeats) = repeats {
                                    let text = RichText::new(repeats).small().color(tokens.weak_text);
                                    ui.add(Label::new(text).truncate());
                                }
                            });
                        });
                    }
                });
            });
    });
}

fn recipes_ui(compared: &Compared, ui: &mut Ui) {
    if compared.read().count() < compared.lines.len() {
        widgets::loading(ui, "Reading the recipes");
    } else if compared.differences.is_empty() {
        widgets::caption(ui, "Their recipes are the same in every key");
    } else {
        widgets::subheading(ui, "What differs in their recipes");
        keys_table(ui, "compared", &compared.names, &compared.differences);
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_lab::{run::lines, testing::TestRun};
    use tunesmith_protocol::RunStatus;

    use super::*;
    use crate::state::State;

    fn compared(of: &[TestRun], chosen: &[usize]) -> Compared {
        let home = tempfile::tempdir().unwrap();
        for run in of {
            run.write(home.path());
        }
        let all = lines(home.path(), &[]).unwrap();
        let chosen: Vec<_> = chosen.iter().map(|place| Arc::clone(&all[*place])).collect();
        let mut state = State::for_tests();
        state.pages.runs.compared.choose(&chosen, &all, &TimeZone::UTC);
        state.pages.runs.compared.shown = true;
        while let Some(work) = state.pages.runs.compared.needs() {
            work.run()(&mut state);
        }
        std::mem::take(&mut state.pages.runs.compared)
    }

    fn day(day: u32) -> TestRun {
        TestRun::new(&format!("2026-01-{day:02}T12:30:00Z"))
    }

    fn sentences(compared: &Compared) -> Vec<&str> {
        compared
            .remarks
            .iter()
            .map(|remark| remark.sentence.as_str())
            .collect()
    }

    #[test]
    fn a_single_run_each_allows_no_statement_about_noise() {
        let found = compared(
            &[day(1).recipe("smoke").config_hash("a"), day(2).config_hash("b")],
            &[0, 1],
        );
        assert_eq!(found.names, ["smoke", "quickstart"]);
        assert_eq!(sentences(&found).len(), 1);
        assert!(
            sentences(&found)[0].contains("a single run each"),
            "{:?}",
            found.remarks
        );
        assert_eq!(found.remarks[0].tone, Tone::Unknown);
        assert!(
            found
                .figures
                .iter()
                .all(|row| row.repeats.iter().all(Option::is_none))
        );
    }

    #[test]
    fn repeats_that_are_not_chosen_tell_the_noise_all_the_same() {
        let run = |number: u32, hash: &str, speed: f64| day(number).config_hash(hash).tokens_per_sec(speed);
        let found = compared(
            &[
                run(1, "a", 500.0),
                run(2, "a", 505.0),
                run(3, "b", 800.0),
                run(4, "b", 804.0),
            ],
            &[0, 3],
        );
        let speed = sentences(&found)[0];
        assert!(
            speed.contains("tokens a second is") && speed.contains("beyond the noise of 2 and 2 runs"),
            "{speed}"
        );
        assert_eq!(found.remarks[0].tone, Tone::Ok);
        let row = &found.figures[0];
        assert!(
            row.repeats[0].as_ref().unwrap().ends_with("over 2 runs"),
            "{row:?}"
        );
    }

    #[test]
    fn repeats_of_one_experiment_are_called_so() {
        let found = compared(&[day(1), day(2)], &[0, 1]);
        assert_eq!(found.names, ["quickstart 01-01 12:30", "quickstart 01-02 12:30"]);
        assert!(
            sentences(&found)[0].contains("is a repeat of"),
            "{:?}",
            found.remarks
        );
        assert!(found.differences.is_empty());
    }

    #[test]
    fn curves_and_differing_keys_are_read() {
        let found = compared(
            &[
                day(1).steps(30),
                day(2).recipe("smoke").steps(0).status(RunStatus::Oom),
            ],
            &[0, 1],
        );
        let lengths: Vec<usize> = found.read().map(|(_, curves)| curves.loss.len()).collect();
        assert_eq!(lengths, [30, 0]);
        assert!(
            found
                .differences
                .iter()
                .any(|differing| differing.key == "train.steps")
        );
        // The one that failed has no figure to set beside.
        assert!(
            found
                .figures
                .iter()
                .all(|row| row.values[1] == "–" || row.title == "time")
        );
    }

    #[test]
    fn more_runs_than_colours_leave_the_oldest_out() {
        let of: Vec<TestRun> = (1..=8).map(day).collect();
        let found = compared(&of, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((found.lines.len(), found.left_out), (MOST, 2));
        assert_eq!(found.names[0], "quickstart 01-03 12:30");
    }
}
