//! `experiment run`, `list`, `resume` and `show`.

use std::path::Path;

use serde_json::{Value, json};
use tunesmith_lab::{
    estimate::Known,
    experiment::{
        self, Experiment, ExperimentState, ExperimentStatus, Options, Plan, READY, SlotState, outlook,
    },
    fit::trials,
    pipeline::{Settings, stored_calibration},
    recipe::Recipe,
    run::lines,
};
use tunesmith_measure::{
    comparison::{ArmFigure, Metric},
    gap::Ladder,
};
use tunesmith_models::hub::Hub;
use tunesmith_probe::{LIVE, load};
use tunesmith_report::format::number;
use tunesmith_setup::{Folders, knowledge::Knowledge};

use crate::{
    Done,
    args::Experiments,
    commands::{
        fit::{offer_back, tell_holders},
        sources::with_model_here,
    },
    errors::CliError,
    format::{duration, or_dash, size, table},
    terminal::Terminal,
};

pub(crate) fn run_experiment(
    command: &Experiments,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let state = match command {
        Experiments::Run {
            experiment,
            recipe,
            settings: changes,
            again,
            yes,
        } => {
            let experiment = Experiment::load(experiment)?.with_base(recipe.as_deref(), changes);
            prepare(&experiment, *yes, settings, terminal)?;
            tell_holders(settings, terminal);
            let options = Options {
                again: *again,
                ..Options::default()
            };
            experiment::run(&experiment, settings, options, terminal)?
        }
        Experiments::Resume {
            experiment,
            retry_failed,
        } => {
            let folder = experiment::find(settings.folders.data(), experiment)?;
            tell_holders(settings, terminal);
            let options = Options {
                retry_failed: *retry_failed,
                ..Options::default()
            };
            experiment::resume(&folder, settings, options, terminal)?
        }
        Experiments::List => return list_experiments(),
        Experiments::Show { experiment, beside } => return show_experiment(experiment, beside.as_deref()),
    };
    terminal.finish();
    offer_back(settings, terminal);
    // Without a single measurement the question was not answered.
    let answered = state.comparison.arms.iter().any(|arm| arm.runs > 0);
    Ok(Done {
        status: u8::from(!answered),
        ..done(&state)
    })
}

/// What all arms need is here, and how long it will take is told.
fn prepare(
    experiment: &Experiment,
    yes: bool,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<(), CliError> {
    let base = Recipe::load(&experiment.base.recipe)?;
    let device = settings.device_for(&base.train.device, terminal)?;
    let here = experiment.on_device(&device);
    let plan = Plan::new(&here, &device)?;
    for arm in &plan.arms {
        with_model_here(arm.recipe.clone(), yes, &settings.stop, terminal)?;
    }
    let knowledge = Knowledge::load(None)?;
    let system = tunesmith_probe::detect(Path::new(LIVE), &knowledge.cards);
    let calibration = stored_calibration(settings, &device).map(|stored| stored.record);
    let earlier = lines(&settings.folders.runs(), &[])?;
    let hub = Hub::from_env().ok();
    let known = Known {
        system: &system,
        knowledge: &knowledge,
        folders: &settings.folders,
        hub: hub.as_ref(),
        calibration: calibration.as_ref(),
        earlier: &earlier,
        trials: &trials(&settings.folders),
        available_memory_bytes: load(Path::new(LIVE)).available_memory_bytes,
    };
    let outlook = outlook(&here, &plan, &known);
    let time = match outlook.secs {
        Some(secs) => format!("about {}", duration(secs)),
        None => format!("{} of training at most", duration(outlook.most_secs)),
    };
    terminal.note(&format!(
        "{}: {} runs on {device}, {time}",
        experiment.name, outlook.runs
    ));
    if let Some(steps) = outlook.steps_in_box {
        terminal.note(&format!(
            "the time box of {} minutes leaves room for about {steps} of the {} timed steps of the slowest arm; all arms are \
             then compared over as many",
            here.run.time_box_minutes, here.run.measured_steps
        ));
    }
    Ok(())
}

pub(crate) fn list_experiments() -> Result<Done, CliError> {
    let folders = Folders::from_env()?;
    let begun = experiment::list(folders.data(), &folders.runs())?;
    let ready: Vec<Experiment> = READY
        .iter()
        .map(|(name, text)| Experiment::parse(text, name))
        .collect::<Result<_, _>>()?;
    let rows: Vec<Vec<String>> = ready
        .iter()
        .map(|experiment| vec![experiment.name.clone(), experiment.question.clone()])
        .collect();
    let mut text = table(&["ready", "question"], &rows);
    if !begun.is_empty() {
        let rows: Vec<Vec<String>> = begun
            .iter()
            .map(|state| {
                vec![
                    state.id.clone(),
                    state.status.name().to_owned(),
                    format!("{}/{}", over(state), state.slots.len()),
                    state.device.clone(),
                ]
            })
            .collect();
        text.push_str("\n\n");
        text.push_str(&table(&["begun", "status", "runs", "device"], &rows));
    }
    let json = json!({
        "ready": ready.iter().map(|experiment| json!({
            "name": experiment.name,
            "title": experiment.title,
            "question": experiment.question,
            "kind": experiment.kind,
        })).collect::<Vec<Value>>(),
        "begun": begun.iter().map(|state| json!({
            "id": state.id,
            "name": state.experiment.name,
            "folder": state.folder,
            "status": state.status,
            "device": state.device,
            "created": state.created,
            "slots": state.slots.len(),
            "over": over(state),
        })).collect::<Vec<Value>>(),
    });
    Ok(Done::ok(text, json))
}

pub(crate) fn show_experiment(name: &str, beside: Option<&str>) -> Result<Done, CliError> {
    let folders = Folders::from_env()?;
    let read = |name: &str| -> Result<ExperimentState, CliError> {
        let folder = experiment::find(folders.data(), name)?;
        Ok(experiment::read(&folder, &folders.runs())?)
    };
    let state = read(name)?;
    let Some(beside) = beside else {
        return Ok(done(&state));
    };
    let other = read(beside)?;
    experiment::same_protocol(&state, &other)?;
    let (one, two) = (done(&state), done(&other));
    Ok(Done::ok(
        format!("{}\n\n{}", one.text, two.text),
        json!({ "one": one.json, "other": two.json }),
    ))
}

fn over(state: &ExperimentState) -> usize {
    state.slots.iter().filter(|slot| slot.status.is_over()).count()
}

fn done(state: &ExperimentState) -> Done {
    // The state holds strings, numbers and lists, so it always becomes JSON.
    Done::ok(text(state), serde_json::to_value(state).unwrap_or_default())
}

/// What it says, in plain words.
fn text(state: &ExperimentState) -> String {
    let experiment = &state.experiment;
    let mut lines = vec![format!(
        "{}: {}, {} of {} runs on {}",
        state.id,
        state.status.name(),
        over(state),
        state.slots.len(),
        state.device
    )];
    if !experiment.question.is_empty() {
        lines.push(format!("  {}", experiment.question));
    }
    lines.push(String::new());
    lines.push(arms(state));
    if let Some(ladder) = &state.ladder {
        lines.push(String::new());
        lines.extend(ladder_lines(ladder));
    }
    let failed: Vec<&SlotState> = state.slots.iter().filter(|slot| slot.reason.is_some()).collect();
    if !failed.is_empty() {
        lines.push(String::new());
        lines.extend(failed.iter().map(|slot| {
            let reason = slot.reason.as_deref().unwrap_or_default();
            format!(
                "{}, seed {}: {}: {reason}",
                slot.name,
                slot.seed,
                slot.status.name()
            )
        }));
    }
    let comparison = &state.comparison;
    let drift = state.drift.iter().map(|drift| &drift.sentence);
    let findings: Vec<&String> = comparison.findings.iter().chain(drift).collect();
    if !findings.is_empty() {
        lines.push(String::new());
        lines.extend(findings.into_iter().cloned());
    }
    for pair in &comparison.pairs {
        lines.extend(pair.items.iter().map(|items| {
            format!(
                "seed {}: of {} questions {} are answered rightly by {} alone and {} by {} alone (McNemar, p = {:.2})",
                items.seed, items.items, items.test.gained, pair.name, items.test.lost, pair.against, items.test.p_two_sided
            )
        }));
    }
    for (title, claims) in [
        ("must hold", &comparison.criteria),
        ("was expected", &comparison.predictions),
    ] {
        lines.extend(claims.iter().map(|claim| format!("{title}: {}", claim.sentence)));
    }
    if !state.notes.is_empty() {
        lines.push(String::new());
        lines.extend(state.notes.iter().map(|note| format!("note: {note}")));
    }
    if state.status == ExperimentStatus::Unfinished {
        lines.push(format!("Go on with it: tunesmith experiment resume {}", state.id));
    }
    lines.join("\n")
}

/// Where the time goes: the peak, each level with what is lost on the way to it, and the whole.
fn ladder_lines(ladder: &Ladder) -> Vec<String> {
    let gap = &ladder.gap;
    let share = |share: f64| format!("{:.1} %", 100.0 * share);
    let peak = vec![
        format!("large square products, {}", ladder.dtype.name()),
        number(gap.peak.0),
        share(1.0),
        String::new(),
        String::new(),
    ];
    let steps = gap.steps.iter().map(|step| {
        vec![
            step.name.clone(),
            number(step.reached.mean),
            share(step.peak_share),
            number(step.lost_tflops),
            step.why.clone(),
        ]
    });
    let whole = vec![
        "the whole gap".to_owned(),
        String::new(),
        String::new(),
        number(gap.lost_tflops),
        format!("{} of the peak: the sum of the losses", share(gap.lost_share)),
    ];
    let rows: Vec<Vec<String>> = [peak].into_iter().chain(steps).chain([whole]).collect();
    let header = ["level", "TFLOPS", "of the peak", "lost", "made of"];
    let mut lines = vec![ladder.sentence.clone(), table(&header, &rows)];
    if let Some(decoding) = &ladder.decoding {
        let share = decoding.copy_share.map_or_else(String::new, |of| {
            format!(", {} of what copies within the memory reach", share(of))
        });
        lines.push(format!(
            "{}: {} tokens a second{share}; no level, as memory limits it",
            decoding.name,
            number(decoding.tokens_per_sec.mean)
        ));
    }
    let missing = ladder.not_measured.iter();
    lines.extend(missing.map(|level| format!("not measured: {}: {}", level.name, level.reason)));
    lines
}

/// A line for each arm, a column for each figure.
fn arms(state: &ExperimentState) -> String {
    let metrics = &state.experiment.metrics;
    let rows: Vec<Vec<String>> = state
        .comparison
        .arms
        .iter()
        .map(|arm| {
            let figures = metrics
                .iter()
                .map(|metric| or_dash(arm.figures.get(metric).map(|figure| spread(*metric, figure))));
            [arm.name.clone(), arm.runs.to_string()]
                .into_iter()
                .chain(figures)
                .collect()
        })
        .collect();
    let header: Vec<&str> = ["arm", "runs"]
        .into_iter()
        .chain(metrics.iter().map(|metric| metric.title()))
        .collect();
    table(&header, &rows)
}

/// `812.3 ± 4.1`.
fn spread(metric: Metric, figure: &ArmFigure) -> String {
    let value = |value: f64| match metric {
        Metric::PeakBytes => size(value as u64),
        Metric::MfuExactPractical => format!("{:.1} %", 100.0 * value),
        Metric::LossEnd => format!("{value:.4}"),
        Metric::TimeToFirstStepSecs | Metric::StepSecs => format!("{value:.2} s"),
        Metric::MeanWatts => format!("{value:.0} W"),
        Metric::UsefulTflops | Metric::ProductsTflops => format!("{} TFLOPS", number(value)),
        _ => format!("{value:.1}"),
    };
    match figure.spread.sd {
        Some(sd) if sd > 0.0 => format!("{} ± {}", value(figure.spread.mean), value(sd)),
        _ => value(figure.spread.mean),
    }
}
