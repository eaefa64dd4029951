//! The curves of a training, how much of the card it uses, and where it stands among the runs before it.

use egui::{Grid, Label, RichText, Ui};
use tunesmith_measure::{Gib, MfuPair, MfuReport, Tflops};
use tunesmith_report::{
    MFU_RULES,
    format::{percent, plural, significant},
};

use super::Figures;
use crate::{
    chart::{Along, ChartView, Cursor, LineChart, Pareto},
    commands::Commands,
    state::{Loadable, Page, State, Task},
    theme::{self, Tone, tokens},
    widgets,
};

/// Narrower than this, charts stand below each other.
const TWO_COLUMNS: f32 = 640.0;
/// Room that the three counts need, in points.
const COUNTS: f32 = 520.0;
/// Height of a chart beside another one.
const SMALL_CHART: f32 = 150.0;

/// How the charts are looked at.
#[derive(Default)]
pub(super) struct ChartsView {
    loss: ChartView,
    log_loss: bool,
    grad_norm: ChartView,
    lr: ChartView,
    speed: ChartView,
    mfu: ChartView,
    memory: ChartView,
    temperature: ChartView,
    pareto: ChartView,
    steps: Cursor,
    seconds: Cursor,
}

/// All of them.
pub(super) fn charts_ui(state: &State, task: &Task, view: &mut ChartsView, ui: &mut Ui, out: &mut Commands) {
    let live = &state.pages.live;
    let figures = &live.figures;
    let last = task.steps_total.max(1) as f64;
    widgets::panel(ui, "Learning", |ui| learning_ui(figures, last, view, ui));
    widgets::panel(ui, "Speed", |ui| speed_ui(state, last, view, ui, out));
    widgets::panel(ui, "Memory and heat", |ui| memory_ui(state, last, view, ui));
    widgets::panel(ui, "Where this run stands", |ui| pareto_ui(state, view, ui));
}

fn learning_ui(figures: &Figures, last: f64, view: &mut ChartsView, ui: &mut Ui) {
    LineChart::new("Loss", "nats per supervised token")
        .line("loss", &figures.loss)
        .x_range(1.0, last)
        .log_y(view.log_loss)
        .height(220.0)
        .empty("The loss of each step appears here")
        .show(ui, &mut view.loss, &mut view.steps);
    ui.checkbox(&mut view.log_loss, "Logarithmic loss").on_hover_text(
        "Shows small differences at the end; the smoothed line looks back over about ten steps",
    );
    ui.add_space(theme::GRID);
    let steps = &mut view.steps;
    let (grad_norm, lr) = (&mut view.grad_norm, &mut view.lr);
    side_by_side(
        ui,
        |ui, steps| {
            LineChart::new("Gradient norm", "")
                .line("gradient norm", &figures.grad_norm)
                .x_range(1.0, last)
                .from_zero()
                .height(SMALL_CHART)
                .empty("The size of each step's gradient appears here")
                .show(ui, grad_norm, steps);
        },
        |ui, steps| {
            LineChart::new("Learning rate", "")
                .line("learning rate", &figures.lr)
                .x_range(1.0, last)
                .from_zero()
                .height(SMALL_CHART)
                .empty("The learning rate of each step appears here")
                .show(ui, lr, steps);
        },
        steps,
    );
    if figures.missed > 0 {
        let text = format!(
            "{} came faster than this window could take them and are not drawn; the run's record has them",
            plural(figures.missed, "step")
        );
        widgets::verdict_line(ui, Tone::Note, &text);
    }
}

fn speed_ui(state: &State, last: f64, view: &mut ChartsView, ui: &mut Ui, out: &mut Commands) {
    let live = &state.pages.live;
    let figures = &live.figures;
    mfu_ui(state, ui, out);
    let has_mfu = !figures.mfu_percent.is_empty();
    let (speed, mfu) = (&mut view.speed, &mut view.mfu);
    let mut speed_chart = |ui: &mut Ui, steps: &mut Cursor| {
        LineChart::new("Speed", "real tokens per second")
            .line("speed", &figures.tokens_per_sec)
            .x_range(1.0, last)
            .from_zero()
            .height(SMALL_CHART)
            .empty("The speed of each step appears here")
            .show(ui, speed, steps);
    };
    if !has_mfu {
        speed_chart(ui, &mut view.steps);
        return;
    }
    side_by_side(
        ui,
        speed_chart,
        |ui, steps| {
            LineChart::new("MFU", "% of the measured peak, LoRA-exact")
                .line("MFU", &figures.mfu_percent)
                .x_range(1.0, last)
                .from_zero()
                .height(SMALL_CHART)
                .show(ui, mfu, steps);
        },
        &mut view.steps,
    );
}

/// How much of the card the training uses: one figure, and the others one click away.
fn mfu_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let live = &state.pages.live;
    let facts = live.facts.ready();
    let card = if facts.is_some_and(|facts| facts.on_cpu()) {
        "processor"
    } else {
        "card"
    };
    if let Some(report) = &live.figures.mfu {
        if let Some(sentence) = mfu_sentence(report, card) {
            let colour = tokens(ui).strong_text;
            let sentence = RichText::new(sentence).font(theme::strong_font()).color(colour);
            ui.add(Label::new(sentence).wrap());
        }
        if let Some(why) = facts.and_then(|facts| facts.why_no_peak) {
            no_peak_ui(why, card, ui, out);
        }
        widgets::fold(ui, "All three ways of counting", false, |ui| {
            counts_ui(report, ui);
        });
        ui.add_space(theme::GRID);
    } else if let Some(why) = facts.and_then(|facts| facts.why_no_peak) {
        no_peak_ui(why, card, ui, out);
    } else if let Loadable::Failed(problem) = &live.facts {
        let text = format!(
            "How much of the card is used cannot be counted: {}",
            problem.message
        );
        widgets::verdict_line(ui, Tone::Unknown, &text);
    } else if live.figures.is_empty() {
        widgets::caption(
            ui,
            "How much of the card the training uses is counted from its steps after the warm-up",
        );
    }
}

fn no_peak_ui(why: &str, card: &str, ui: &mut Ui, out: &mut Commands) {
    let text = format!("How much of this {card} is used is not known: {why}");
    widgets::verdict_line(ui, Tone::Unknown, &text);
    if ui
        .button("Calibrate…")
        .on_hover_text("Measures the peak once; runs that begin after it are counted against it")
        .clicked()
    {
        out.go(Page::Calibrate);
    }
}

/// The one figure: LoRA-exact against the measured peak, with the spec sheet's beside it.
fn mfu_sentence(report: &MfuReport, card: &str) -> Option<String> {
    let share = report.lora_exact.practical?;
    let peak = report.peaks.practical?;
    let mut sentence = format!(
        "{} of this {card}'s measured {} TFLOPS",
        percent(share.0),
        tflops(peak)
    );
    if let (Some(share), Some(peak)) = (report.lora_exact.theoretical, report.peaks.theoretical) {
        sentence.push_str(&format!(
            "; {} of the spec sheet's {}",
            percent(share.0),
            tflops(peak)
        ));
    }
    Some(sentence)
}

fn tflops(Tflops(value): Tflops) -> String {
    significant(value, 4)
}

/// Three ways of counting operations, each against both peaks, with its rule.
fn counts_ui(report: &MfuReport, ui: &mut Ui) {
    let tokens = tokens(ui);
    let share = |share: Option<tunesmith_measure::Mfu>| {
        share.map_or_else(|| "not known".to_owned(), |share| percent(share.0))
    };
    let counts: [MfuPair; 3] = [report.lora_exact, report.six_nd, report.hardware];
    widgets::sideways(ui, "counts of operations", COUNTS, |ui| {
        Grid::new("counts of operations")
            .num_columns(4)
            .spacing([6.0 * theme::GRID, 1.5 * theme::GRID])
            .show(ui, |ui| {
                for heading in [
                    "Counted",
                    "TFLOPS reached",
                    "Of the measured peak",
                    "Of the spec sheet",
                ] {
                    ui.label(RichText::new(heading).size(theme::SMALL).color(tokens.weak_text));
                }
                ui.end_row();
                for ((name, rule), pair) in MFU_RULES.iter().zip(counts) {
                    ui.label(name.trim_start_matches("MFU, ")).on_hover_text(*rule);
                    ui.label(tflops(pair.tflops));
                    ui.label(share(pair.practical));
                    ui.label(share(pair.theoretical));
                    ui.end_row();
                }
            });
    });
    for (name, rule) in MFU_RULES {
        let name = name.trim_start_matches("MFU, ");
        widgets::caption(ui, &format!("{name}: {rule}"));
    }
    widgets::caption(ui, "All of them over the steps since the warm-up that count");
}

fn memory_ui(state: &State, last: f64, view: &mut ChartsView, ui: &mut Ui) {
    let live = &state.pages.live;
    let limit = limit_gib(state);
    let memory = &mut view.memory;
    let mut memory_chart = |ui: &mut Ui, steps: &mut Cursor| {
        let mut chart = LineChart::new("Memory", "GiB held by the training")
            .line("memory", &live.figures.memory_gib)
            .x_range(1.0, last)
            .from_zero()
            .height(SMALL_CHART)
            .empty("The memory of each step appears here, where the engine can tell it");
        if let Some(limit) = limit {
            chart = chart.reference(limit, "limit");
        }
        chart.show(ui, memory, steps);
    };
    let on_cpu = live.facts.ready().is_some_and(|facts| facts.on_cpu());
    let no_card = state.machine.get().is_some_and(|machine| machine.gpu().is_none());
    if on_cpu || no_card {
        memory_chart(ui, &mut view.steps);
        return;
    }
    let temperature = &mut view.temperature;
    let seconds = &mut view.seconds;
    side_by_side(
        ui,
        memory_chart,
        |ui, _| {
            LineChart::new("Temperature", "°C")
                .line("temperature", &live.temperature)
                .along(Along::Seconds)
                .height(SMALL_CHART)
                .empty("The card's temperature appears here, where its driver tells it")
                .show(ui, temperature, seconds);
        },
        &mut view.steps,
    );
}

/// Memory that a training can have on what trains, in GiB.
fn limit_gib(state: &State) -> Option<f64> {
    let machine = state.machine.get()?;
    let on_cpu = state.pages.live.facts.ready().is_some_and(|facts| facts.on_cpu());
    let bytes = match machine.card() {
        Some(card) if !on_cpu => card.trainable_bytes,
        _ => machine.system.machine.usable_memory_bytes(),
    };
    bytes.map(|bytes| Gib::from_bytes(bytes).0)
}

/// Memory against speed, among the runs before on the same device.
fn pareto_ui(state: &State, view: &mut ChartsView, ui: &mut Ui) {
    let live = &state.pages.live;
    let has_figures = live
        .points
        .last()
        .is_some_and(|point| !point.tokens_per_sec.is_empty() && !point.vram_gib.is_empty());
    if live.points.len() < 2 && !has_figures {
        widgets::caption(
            ui,
            "Once its speed is measured, this run stands here among the earlier ones on the same device, memory against speed",
        );
        return;
    }
    let current = has_figures.then(|| live.points.len() - 1);
    let shown = if has_figures {
        &live.points[..]
    } else {
        &live.points[..live.points.len() - 1]
    };
    let mut chart = Pareto::new("Memory and speed", shown).current(current);
    if let Some(limit) = limit_gib(state) {
        let near = shown
            .iter()
            .flat_map(|point| &point.vram_gib)
            .any(|gib| *gib > limit / 4.0);
        // A limit far beyond all points would press them together.
        if near {
            chart = chart.limit(limit, "limit");
        }
    }
    chart.show(ui, &mut view.pareto);
}

/// Two charts beside each other where there is room, else below each other.
fn side_by_side(
    ui: &mut Ui,
    left: impl FnOnce(&mut Ui, &mut Cursor),
    right: impl FnOnce(&mut Ui, &mut Cursor),
    cursor: &mut Cursor,
) {
    if ui.available_width() < TWO_COLUMNS {
        left(ui, cursor);
        ui.add_space(2.0 * theme::GRID);
        right(ui, cursor);
        return;
    }
    ui.columns_const(|[one, two]| {
        widgets::ragged(one, |ui| left(ui, cursor));
        widgets::ragged(two, |ui| right(ui, cursor));
    });
}
