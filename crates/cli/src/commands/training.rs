//! `train` and `runs resume`.

use tunesmith_lab::{
    pipeline::{self, Settings},
    recipe::Recipe,
    report_input::report_if_trained,
    run::{Run, RunState},
};
use tunesmith_measure::judge::{Finding, Judgement, Severity};
use tunesmith_protocol::RunStatus;

use crate::{
    Done, args,
    commands::{
        fit::{offer_back, tell_holders},
        sources::with_model_here,
    },
    errors::{CliError, print_failure},
    format::{duration, points},
    run_json,
    terminal::Terminal,
};

pub(crate) fn train(
    args: &args::Train,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let recipe = Recipe::load(&args.recipe)?.with_overrides(&args.settings)?;
    let recipe = with_model_here(recipe, args.yes, &settings.stop, terminal)?;
    run(&recipe, settings, terminal)
}

pub(crate) fn resume(name: &str, settings: &Settings, terminal: &mut Terminal) -> Result<Done, CliError> {
    let run = Run::find(&settings.folders.runs(), name)?;
    tell_holders(settings, terminal);
    let run = pipeline::resume(&run, settings, terminal)?;
    let done = finish(&run, terminal);
    offer_back(settings, terminal);
    done
}

pub(super) fn run(recipe: &Recipe, settings: &Settings, terminal: &mut Terminal) -> Result<Done, CliError> {
    tell_holders(settings, terminal);
    let run = pipeline::train(recipe, settings, terminal)?;
    let done = finish(&run, terminal);
    offer_back(settings, terminal);
    done
}

/// The report, the reason where it did not end well, and what to say.
fn finish(run: &Run, terminal: &mut Terminal) -> Result<Done, CliError> {
    terminal.finish();
    report_if_trained(run)?;
    let status = exit_status(run);
    if status != 0
        && let Some(summary) = &run.summary
    {
        let reason = summary.reason.clone().unwrap_or_default();
        print_failure(&reason, summary.failure.as_ref());
    }
    Ok(Done {
        text: text(run),
        json: run_json::full(run),
        status,
    })
}

/// A training that its time box ended did what its recipe allowed.
fn exit_status(run: &Run) -> u8 {
    match run.state {
        RunState::Ended(RunStatus::Ok | RunStatus::TimeBoxed) => 0,
        RunState::Ended(RunStatus::Cancelled) => 130,
        // Stopped by the judge, or with a number that is none, which the judge would have stopped.
        RunState::Ended(RunStatus::Invalid | RunStatus::Nan) => 3,
        _ => 1,
    }
}

/// How to go on with a run that was cut short.
pub(crate) fn go_on(run: &Run) -> Option<String> {
    let step = run.resume_step()?;
    Some(format!(
        "Go on from step {step}: tunesmith runs resume {}",
        run.id
    ))
}

/// What happened, in plain words.
fn text(run: &Run) -> String {
    let mut lines = Vec::new();
    let Some(summary) = &run.summary else {
        return format!("run {}: {}", run.id, run.state.name());
    };
    lines.push(format!("Run {}: {}", run.id, run.state.name()));
    if let (RunStatus::TimeBoxed, Some(reason)) = (summary.status, &summary.reason) {
        lines.push(format!("  {reason}"));
    }
    if let Some(training) = &summary.training {
        let time = summary
            .timings
            .train_secs
            .map_or_else(String::new, |secs| format!(" in {}", duration(secs)));
        lines.push(format!(
            "  trained {} steps{time}, {} of them valid",
            training.total_steps, training.valid_steps
        ));
        if let Some(loss) = &training.loss {
            lines.push(format!(
                "  loss {:.3} at first, {:.3} over the last tenth",
                loss.first, loss.mean_last_tenth
            ));
        }
        let speed = training
            .steady_tokens_per_sec
            .map(|speed| format!("{speed:.0} tokens/s"));
        let mfu = training
            .mfu
            .and_then(|mfu| mfu.lora_exact.practical)
            .map(|mfu| format!("MFU {:.0} % of the measured peak", 100.0 * mfu.0));
        let watts = summary.mean_watts.map(|watts| format!("{watts:.0} W on average"));
        let speed: Vec<String> = speed.into_iter().chain(mfu).chain(watts).collect();
        if !speed.is_empty() {
            lines.push(format!("  {}", speed.join(", ")));
        }
    }
    lines.extend(judge_line(&summary.judge));
    let evaluation = &summary.evaluation;
    if let (Some(before), Some(after), Some(change)) =
        (&evaluation.before, &evaluation.after, &evaluation.change)
    {
        lines.push(format!(
            "  execution match {} → {} points on {} unseen questions: {:+.1} points",
            points(before),
            points(after),
            after.scores.total,
            change.points
        ));
    } else if let Some(reason) = &evaluation.skipped {
        lines.push(format!("  not scored: {reason}"));
    }
    if let Some(adapter) = run.adapter() {
        lines.push(format!("  adapter  {}", adapter.display()));
    }
    if let Some(report) = run.report() {
        lines.push(format!("  report   {}", report.display()));
    }
    if run.adapter().is_some() {
        let ask = if run.recipe.has_questions() {
            "--question 1"
        } else {
            "--prompt '…'"
        };
        lines.push(format!("Try it: tunesmith generate {} {ask}", run.id));
    }
    lines.extend(go_on(run));
    lines.join("\n")
}

/// What the judge saw, in a line: an amber finding was told in full when it came up.
fn judge_line(judge: &Judgement) -> Option<String> {
    let title = |finding: &&Finding| finding.id.title();
    let notable = judge.notable();
    let made = judge.findings.len();
    // Another engine tells less of itself: fewer checks must not look like all of them.
    let of = made + judge.not_checked.len();
    match judge.worst()? {
        Severity::Green => Some(format!("  the judge made {made} of {of} checks, all green")),
        _ => Some(format!(
            "  the judge made {made} of {of} checks; not green: {}",
            notable.iter().map(title).collect::<Vec<_>>().join(", ")
        )),
    }
}
