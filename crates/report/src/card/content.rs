//! What stands on the card: words and numbers, from the same views as the page.

use tunesmith_measure::comparison::Effect;
use tunesmith_measure::gap::Ladder;
use tunesmith_measure::practical_peak;

use crate::draw::{ChartPoint, LineChart};
use crate::format::{capitalised, duration, number, percent, plural, points};
use crate::headline::leading;
use crate::view;
use crate::{About, ExperimentRecord, Report, ReportInput, TrainingRecord};

/// Scores with more noise than this, in points, are not drawn.
const MOST_NOISE: f64 = 20.0;

/// The words and numbers of a card.
pub(super) struct Content {
    pub(super) kicker: String,
    pub(super) date: String,
    pub(super) device: String,
    pub(super) what: String,
    pub(super) figure: String,
    pub(super) unit: String,
    pub(super) notes: Vec<String>,
    pub(super) drawing_title: String,
    pub(super) drawing: Drawing,
    pub(super) foot: String,
    pub(super) hash: String,
}

/// What is drawn.
pub(super) enum Drawing {
    /// A drawing of the page.
    Chart(String),
    /// Bars.
    Bars(Vec<Bar>),
    /// Why there is none.
    Nothing(String),
}

/// A bar.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) spread: Option<f64>,
    pub(super) words: String,
    /// Class of its colour.
    pub(super) class: String,
    /// Promised and not measured.
    pub(super) hollow: bool,
}

impl Content {
    pub(super) fn of(report: &Report) -> Self {
        let record = &report.record;
        let figure = view::figures(record).into_iter().next();
        let (value, unit, note) = figure.map_or_else(
            || ("unknown".to_owned(), String::new(), String::new()),
            |figure| (figure.value, figure.unit.to_owned(), figure.note),
        );
        let mut content = Self {
            kicker: format!("Tunesmith {}", report.about.name()),
            date: view::date(&record.date),
            device: view::device(record),
            what: view::about_line(report),
            figure: value,
            unit,
            notes: vec![note],
            drawing_title: String::new(),
            drawing: Drawing::Nothing(String::new()),
            foot: foot(report),
            hash: report
                .content_hash()
                .map_or_else(|_| String::new(), |hash| format!("content {}", &hash[..12])),
        };
        match (&record.experiment, &record.training) {
            (Some(experiment), _) => content.experiment(experiment),
            (None, Some(training)) => content.training(report, training),
            (None, None) => content.calibration(record),
        }
        content
    }

    fn training(&mut self, report: &Report, training: &TrainingRecord) {
        "real tokens/s".clone_into(&mut self.unit);
        let mfu = training.summary.mfu.map(|mfu| mfu.lora_exact);
        let practical = mfu.and_then(|mfu| mfu.practical);
        self.notes = vec![match (practical, mfu.and_then(|mfu| mfu.theoretical)) {
            (Some(share), Some(sheet)) => format!(
                "MFU {} of measured, {} of spec peak",
                percent(share.0),
                percent(sheet.0)
            ),
            (Some(share), None) => format!("MFU {} of the measured peak, LoRA-exact", percent(share.0)),
            (None, _) => "MFU unknown: no peak was measured".to_owned(),
        }];
        if let Some(peak) = view::figures(&report.record)
            .into_iter()
            .find(|figure| figure.label == "Peak memory")
        {
            self.notes
                .push(format!("Peak memory {} {}", peak.value, peak.unit));
        }
        // Of a handful of questions the bars would be nothing but whiskers.
        if let Some(gain) = report
            .gain
            .as_ref()
            .filter(|gain| gain.noise_points <= MOST_NOISE)
        {
            self.drawing_title = if gain.beyond_noise {
                format!("Execution match, {}", plural(gain.questions, "question"))
            } else {
                "Execution match: no change beyond chance".to_owned()
            };
            let bar = |name: &str, value: f64, class: &str| Bar {
                name: name.to_owned(),
                value,
                spread: Some(gain.noise_points),
                words: format!("{} points", points(value)),
                class: class.to_owned(),
                hollow: false,
            };
            self.drawing = Drawing::Bars(vec![
                bar("before training", gain.before_points, "was"),
                bar("after training", gain.after_points, "s0"),
            ]);
            return;
        }
        "Loss, nats per supervised token".clone_into(&mut self.drawing_title);
        let points: Vec<ChartPoint> = training
            .summary
            .points
            .iter()
            .map(|point| ChartPoint {
                step: point.step,
                value: point.loss,
                fault: point.reason.map(tunesmith_measure::StepFault::sentence),
            })
            .collect();
        let chart = LineChart {
            title: "Loss",
            unit: "",
            along: "step",
            points: &points,
            warm_up_until: None,
            reference: None,
            from_zero: false,
        };
        self.drawing = chart.svg().map_or_else(
            || Drawing::Nothing("no step that counts".to_owned()),
            Drawing::Chart,
        );
    }

    fn experiment(&mut self, experiment: &ExperimentRecord) {
        self.what = if experiment.title.is_empty() {
            experiment.name.clone()
        } else {
            experiment.title.clone()
        };
        if let Some(ladder) = &experiment.ladder {
            self.ladder(ladder);
            return;
        }
        let first = leading(&experiment.comparison).and_then(|pair| Some((pair, pair.figures.first()?)));
        if let Some((pair, figure)) = first {
            let better = match figure.effect {
                Effect::WithinNoise => "within noise",
                Effect::Exploratory => "exploratory, not repeated",
                Effect::Better | Effect::Worse => "beyond noise",
            };
            self.figure = match figure.ratio {
                Some(ratio) if figure.metric.by_difference() || ratio.value >= 10.0 => {
                    format!("{}×", number(ratio.value))
                }
                Some(ratio) => {
                    let sign = if ratio.value >= 1.0 { "+" } else { "−" };
                    format!("{sign}{}", percent((ratio.value - 1.0).abs()))
                }
                None => number(figure.difference),
            };
            self.unit = format!("{}: {}", figure.metric.title(), pair.name);
            let p = figure.p_adjusted.map_or_else(String::new, |p| {
                if p < 0.001 {
                    ", p < 0.001".to_owned()
                } else {
                    format!(", p = {p:.3}")
                }
            });
            self.notes = vec![format!("against {}", pair.against), format!("{better}{p}")];
        }
        let bars = view::best_bars(experiment);
        let arms = experiment.comparison.arms.len();
        let pareto = view::pareto_of(experiment)
            .filter(|_| arms > 2)
            .and_then(|pareto| pareto.svg());
        (self.drawing_title, self.drawing) = match (pareto, bars) {
            (Some(chart), _) => ("Speed against peak memory".to_owned(), Drawing::Chart(chart)),
            (None, Some((metric, rows))) => (
                format!("{}, mean and standard deviation", capitalised(metric.title())),
                Drawing::Bars(
                    rows.iter()
                        .map(|row| Bar {
                            name: row.label.clone(),
                            value: row.mean,
                            spread: row.sd,
                            words: row.words(),
                            class: format!("s{}", row.series % 6),
                            hollow: false,
                        })
                        .collect(),
                ),
            ),
            (None, None) => (
                String::new(),
                Drawing::Nothing("fewer than two arms have a run that counts".to_owned()),
            ),
        };
    }

    fn ladder(&mut self, ladder: &Ladder) {
        let gap = &ladder.gap;
        if let Some(last) = gap.steps.last() {
            self.figure = percent(last.peak_share);
            self.unit = format!("of the peak is useful work: {}", last.name);
        }
        self.notes = vec![
            format!(
                "{} TFLOPS of {} products",
                number(gap.peak.0),
                ladder.dtype.name()
            ),
            format!("{} TFLOPS lost on the way", number(gap.lost_tflops)),
        ];
        "Useful work, level by level".clone_into(&mut self.drawing_title);
        self.drawing = view::waterfall_of(ladder).svg().map_or_else(
            || Drawing::Nothing("no level could be drawn".to_owned()),
            Drawing::Chart,
        );
    }

    fn calibration(&mut self, record: &ReportInput) {
        let dtype = record.dtype.name();
        self.what = match &record.device.gfx {
            Some(gfx) => format!("{gfx}, measured by Tunesmith"),
            None => "measured by Tunesmith".to_owned(),
        };
        self.unit = format!("TFLOPS, {dtype} matrix products");
        let peak = record
            .calibration
            .as_ref()
            .and_then(|calibration| practical_peak(calibration, record.dtype));
        let mut notes: Vec<String> = Vec::new();
        if let Some((peak, spec)) = peak.zip(record.spec_peak) {
            notes.push(format!(
                "{} of the spec sheet's {}",
                percent(peak.tflops.0 / spec.0),
                number(spec.0)
            ));
        }
        if let Some(calibration) = record
            .calibration
            .as_ref()
            .filter(|calibration| calibration.copy.iterations > 0)
        {
            notes.push(format!(
                "Copies {} GiB/s",
                number(calibration.copy.median_gib_per_sec)
            ));
        }
        self.notes = notes;
        let mut bars: Vec<Bar> = record
            .calibration
            .iter()
            .flat_map(|calibration| &calibration.gemm)
            .filter(|gemm| gemm.dtype == record.dtype && gemm.values.passed)
            .take(3)
            .enumerate()
            .map(|(index, gemm)| Bar {
                name: match gemm.layout {
                    tunesmith_protocol::Layout::Nt => "forward (NT)",
                    tunesmith_protocol::Layout::Nn => "input gradient (NN)",
                    tunesmith_protocol::Layout::Tn => "weight gradient (TN)",
                }
                .to_owned(),
                value: gemm.mean_tflops,
                spread: None,
                words: format!("{} TFLOPS", number(gemm.mean_tflops)),
                class: format!("s{index}"),
                hollow: false,
            })
            .collect();
        if let Some(spec) = record.spec_peak {
            bars.push(Bar {
                name: "spec sheet".to_owned(),
                value: spec.0,
                spread: None,
                words: format!("{} TFLOPS", number(spec.0)),
                class: "was".to_owned(),
                hollow: true,
            });
        }
        self.drawing_title = format!("Matrix products in {dtype}, by layout");
        self.drawing = if bars.is_empty() {
            Drawing::Nothing(format!("nothing was measured in {dtype}"))
        } else {
            Drawing::Bars(bars)
        };
    }
}

/// Version and protocol: how it was measured, in a line.
fn foot(report: &Report) -> String {
    let record = &report.record;
    let protocol = match (report.about, &record.training, &record.experiment) {
        (About::Training, Some(training), _) => format!(
            "{} steady after {} of warm-up, {}",
            plural(training.summary.steady_steps as u64, "step"),
            training.summary.discarded_steps,
            duration(training.summary.wall_secs)
        ),
        (About::Experiment, _, Some(experiment)) => format!(
            "{}, interleaved, Welch's test",
            plural(
                experiment.runs.iter().filter(|run| run.counts).count() as u64,
                "run"
            )
        ),
        _ => record
            .calibration
            .as_ref()
            .and_then(|calibration| practical_peak(calibration, record.dtype))
            .map_or_else(String::new, |peak| {
                format!("2n³ operations, n = {}, values against float64", peak.side)
            }),
    };
    format!(
        "Tunesmith {}  ·  schema {}  ·  {protocol}",
        record.program_version, report.schema_version
    )
}
