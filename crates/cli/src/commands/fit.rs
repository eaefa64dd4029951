//! `fit`: whether a recipe fits before it runs, what settings would suit better, and what fits when it is tried.

use std::path::Path;

use serde_json::json;
use tunesmith_lab::{
    estimate::{self, Advice, Choice, Estimate, Fit, Known, Part, RoomEstimate, Wish},
    fit::{
        HolderNote, PlannedCard, SearchKind, SearchRecord, SearchWish, Trial, TrialWish, holder_line,
        holders_now, limit_words, measure, remember, search, stopped_meanwhile, trials,
    },
    pipeline::{Settings, stored_calibration},
    recipe::Recipe,
    run::lines,
};
use tunesmith_measure::fit::LimitWish;
use tunesmith_models::hub::Hub;
use tunesmith_probe::{LIVE, load, telemetry::Target};
use tunesmith_protocol::{Quantization, Recompute, RunStatus};
use tunesmith_setup::{Folders, environments::Engine};

use super::{machine::look, sources::with_model_here};
use crate::{
    Done,
    args::{self, FitSearch, TrainingEngine},
    errors::CliError,
    format::{duration, or_dash, size, table},
    terminal::Terminal,
};

/// Whether a recipe fits, by prediction. Starts nothing, and asks no network.
pub(crate) fn fit(
    args: &args::FitArgs,
    device: Option<&str>,
    limit: Option<LimitWish>,
) -> Result<Done, CliError> {
    let recipe = with_limit(Recipe::load(&args.recipe)?.with_overrides(&args.settings)?, limit);
    let (system, knowledge) = look(&args.machine)?;
    let folders = Folders::from_env()?;
    let earlier = lines(&folders.runs(), &[])?;
    let trials = trials(&folders);
    // A captured machine's models and calibrations are not those of this one.
    let hub = if system.live { Hub::from_env().ok() } else { None };
    let calibration = if system.live {
        // Without an engine nothing was calibrated.
        Settings::from_env().ok().and_then(|settings| {
            let trains_on = device.unwrap_or(&recipe.train.device);
            let on = if trains_on == "cpu" || settings.card.is_none() {
                "cpu"
            } else {
                "cuda:0"
            };
            Some(stored_calibration(&settings, on)?.record)
        })
    } else {
        None
    };
    let root = args.machine.root.as_deref().unwrap_or(Path::new(LIVE));
    let known = Known {
        system: &system,
        knowledge: &knowledge,
        folders: &folders,
        hub: hub.as_ref(),
        calibration: calibration.as_ref(),
        earlier: &earlier,
        trials: &trials,
        available_memory_bytes: load(root).available_memory_bytes,
    };
    let wish = Wish {
        recipe: &recipe,
        device,
        engine: match args.engine {
            TrainingEngine::Native => Engine::Native,
            TrainingEngine::Hf => Engine::Hf,
        },
        rows: None,
    };
    let estimate = estimate::estimate(&wish, &known)?;
    let advice = estimate::advise(&wish, &known)?;
    let holders = if system.live && estimate.device != "cpu" {
        let targets = targets(&system);
        holders_now(root, &targets, &[std::process::id()])
    } else {
        Vec::new()
    };
    Ok(Done {
        text: text(&recipe, &estimate, &advice, &holders),
        json: json!({
            "recipe": recipe.name,
            "estimate": estimate,
            "advice": advice,
            "holders": holders,
        }),
        status: u8::from(estimate.fit == Fit::DoesNotFit),
    })
}

/// What settings hold and how fast they are, by running a few steps.
pub(crate) fn measure_fit(
    args: &args::FitArgs,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let recipe = Recipe::load(&args.recipe)?.with_overrides(&args.settings)?;
    let recipe = with_model_here(recipe, args.yes, &settings.stop, terminal)?;
    tell_holders(settings, terminal);
    let wish = TrialWish {
        recipe: &recipe,
        row_tokens: None,
        steps: args.steps,
    };
    let trial = measure(&wish, settings, terminal)?;
    terminal.finish();
    offer_back(settings, terminal);
    let status = match trial.status {
        _ if trial.ran() => 0,
        RunStatus::Cancelled => 130,
        _ => 1,
    };
    Ok(Done {
        text: trial_text(&trial),
        json: json!({ "recipe": recipe.name, "trial": trial }),
        status,
    })
}

/// The largest batch or row length that runs.
pub(crate) fn search_fit(
    args: &args::FitArgs,
    what: FitSearch,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let recipe = Recipe::load(&args.recipe)?.with_overrides(&args.settings)?;
    let recipe = with_model_here(recipe, args.yes, &settings.stop, terminal)?;
    tell_holders(settings, terminal);
    let wish = SearchWish {
        recipe: &recipe,
        kind: match what {
            FitSearch::Batch => SearchKind::Batch,
            FitSearch::Length => SearchKind::Length,
        },
        candidates: (!args.candidates.is_empty()).then(|| args.candidates.clone()),
        steps: args.steps,
        again: args.again,
    };
    let record = search(&wish, settings, terminal)?;
    terminal.finish();
    offer_back(settings, terminal);
    Ok(Done {
        text: search_text(&record),
        json: json!({
            "search": record,
            "taken_over": record.taken_over,
            "file": record.path,
        }),
        status: u8::from(record.found.largest.is_none()),
    })
}

fn with_limit(mut recipe: Recipe, limit: Option<LimitWish>) -> Recipe {
    if let Some(limit) = limit {
        recipe.train.memory_limit = limit;
    }
    recipe
}

fn targets(system: &tunesmith_probe::System) -> Vec<Target> {
    let of = |gpu: &tunesmith_probe::Gpu| {
        Some(Target {
            pci: gpu.pci.clone()?,
            vendor: gpu.vendor?,
        })
    };
    system.gpus.iter().filter_map(of).collect()
}

/// Names who else holds the card of a run, before it begins.
pub(super) fn tell_holders(settings: &Settings, terminal: &mut Terminal) {
    let holders = others_on_card(settings);
    for holder in &holders {
        terminal.note(&holder_line(holder));
    }
    // What cannot be remembered is not offered back; the run goes on.
    let _ = remember(&settings.folders, &holders);
}

/// After a run: programs that were there before and are gone may be wanted back. Nothing is started here.
pub(super) fn offer_back(settings: &Settings, terminal: &mut Terminal) {
    if settings.card.is_none() {
        return;
    }
    let there = others_on_card(settings);
    for program in stopped_meanwhile(&settings.folders, &there).unwrap_or_default() {
        if let Some(start) = &program.start {
            terminal.note(&format!(
                "{} held the card before and is gone; to have it back: {start}",
                program.name
            ));
        }
    }
}

fn others_on_card(settings: &Settings) -> Vec<HolderNote> {
    let is_cpu = settings.device.as_deref() == Some("cpu");
    let target = settings
        .card
        .as_ref()
        .filter(|_| !is_cpu)
        .and_then(PlannedCard::target);
    target.map_or_else(Vec::new, |target| {
        holders_now(Path::new(LIVE), &[target], &[std::process::id()])
    })
}

fn text(recipe: &Recipe, estimate: &Estimate, advice: &Advice, holders: &[HolderNote]) -> String {
    let place = if estimate.device == "cpu" {
        "the processor".to_owned()
    } else {
        estimate.device_name.clone()
    };
    let memory = &estimate.memory;
    let mut lines = vec![format!(
        "{} on {place}, {}: {}",
        recipe.name,
        estimate.dtype.name(),
        memory.fit.words()
    )];
    lines.push(format!("  {}", memory.reason));
    if let Some(correction) = memory.correction {
        lines.push(format!(
            "  corrected by {:.3} after {} {}",
            correction.ratio,
            correction.runs,
            memory.correction_of.unwrap_or("earlier runs")
        ));
    }
    lines.push(String::new());
    lines.push(parts_table("memory", &memory.parts));
    match (&memory.hard_limit, memory.limit) {
        (Some(limit), _) => lines.push(format!("  torch may take {}", limit_words(limit))),
        (None, Some(limit)) => lines.push(format!("  {} may be used: {}", size(limit), memory.limit_how)),
        (None, None) => lines.push(format!("  what may be used is not known: {}", memory.limit_how)),
    }
    for (name, room) in [("main memory", &estimate.host), ("disk", &estimate.storage)] {
        lines.push(format!("  {name}: {}", room_words(room)));
    }
    let time = &estimate.time;
    lines.push(format!(
        "  time: {}",
        time.train_secs.map_or_else(
            || time.how.clone(),
            |secs| format!("about {} ({})", duration(secs), time.how)
        )
    ));
    lines.push(String::new());
    lines.push(format!("Advice: {}", advice.reason));
    if let Some(choice) = advice
        .choice
        .as_ref()
        .filter(|choice| !choice.settings.is_empty())
    {
        let set: Vec<String> = choice
            .settings
            .iter()
            .map(|setting| format!("--set {setting}"))
            .collect();
        lines.push(format!("  tunesmith train {} {}", recipe.name, set.join(" ")));
    }
    if advice.choices.len() > 1 {
        lines.push(choices_table(&advice.choices, estimate.dtype.name()));
    }
    lines.extend(holders.iter().map(holder_line));
    lines.join("\n")
}

fn room_words(room: &RoomEstimate) -> String {
    match room.fit {
        Fit::Unknown => format!("not known: {}", room.reason),
        _ => room.reason.clone(),
    }
}

fn parts_table(name: &str, parts: &[Part]) -> String {
    let rows: Vec<Vec<String>> = parts
        .iter()
        .map(|part| {
            vec![
                format!("  {}", part.what),
                or_dash(part.bytes.map(size)),
                part.how.clone(),
            ]
        })
        .collect();
    table(&[&format!("  {name}"), "needs", "how"], &rows)
}

fn choices_table(choices: &[Choice], dtype: &str) -> String {
    let rows: Vec<Vec<String>> = choices
        .iter()
        .map(|choice| {
            vec![
                match choice.quantization {
                    Quantization::None => format!("  {dtype}"),
                    Quantization::Nf4 => "  4 bits".to_owned(),
                },
                match choice.recompute {
                    Recompute::None => "nothing".to_owned(),
                    Recompute::Mlp => "the MLP".to_owned(),
                    Recompute::Layer => "layers".to_owned(),
                },
                format!("{} × {}", choice.micro_batch, choice.accumulation),
                size(choice.bytes),
                choice.fit.words().to_owned(),
                or_dash(choice.step_secs.map(duration)),
                format!("{:?}", choice.basis).to_lowercase(),
            ]
        })
        .collect();
    table(
        &[
            "  base in",
            "computed again",
            "rows × passes",
            "needs",
            "verdict",
            "step",
            "speed",
        ],
        &rows,
    )
}

fn trial_text(trial: &Trial) -> String {
    let memory = &trial.memory;
    let mut lines = vec![format!(
        "{} rows of {} tokens on {}: {}",
        trial.micro_batch,
        trial.row_tokens,
        trial.device,
        if trial.ran() { "ran" } else { trial.status.name() }
    )];
    if let Some(failure) = &trial.failure {
        lines.push(format!("  {}", failure.message));
    }
    lines.push(format!(
        "  predicted {}, corrected {}, measured {}{}",
        size(memory.predicted_bytes),
        size(memory.corrected_bytes),
        or_dash(memory.measured_bytes.map(size)),
        memory.measured_bytes.map_or_else(String::new, |measured| format!(
            " ({:+.1} % off)",
            100.0 * (memory.corrected_bytes as f64 / measured.max(1) as f64 - 1.0)
        ))
    ));
    if let (Some(secs), Some(speed)) = (trial.step_secs, trial.tokens_per_sec) {
        lines.push(format!("  a step takes {}, {speed:.0} tokens/s", duration(secs)));
    }
    lines.join("\n")
}

fn search_text(record: &SearchRecord) -> String {
    let rows: Vec<Vec<String>> = record
        .tries
        .iter()
        .map(|tried| {
            let trial = tried.trial.as_ref();
            vec![
                tried.value.to_string(),
                tried.outcome.words().to_owned(),
                size(tried.predicted_bytes),
                or_dash(trial.and_then(|trial| trial.memory.measured_bytes).map(size)),
                or_dash(
                    trial
                        .and_then(|trial| trial.tokens_per_sec)
                        .map(|speed| format!("{speed:.0}")),
                ),
                tried.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let mut lines = vec![table(
        &[
            record.kind.unit(),
            "",
            "predicted in all",
            "measured in a step",
            "tokens/s",
            "why",
        ],
        &rows,
    )];
    lines.push(String::new());
    if record.taken_over > 0 {
        lines.push(format!(
            "{} of these tries were made earlier; --again begins anew",
            record.taken_over
        ));
    }
    let mut sentence = record.sentence();
    if let Some(first) = sentence.get(..1) {
        sentence = format!("{}{}", first.to_uppercase(), &sentence[1..]);
    }
    lines.push(sentence);
    if let Some(largest) = record.found.largest {
        lines.push(format!("  --set {}={largest}", record.kind.key()));
    }
    lines.join("\n")
}
