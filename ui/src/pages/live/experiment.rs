//! An experiment, whose runs this page follows one after the other: which one is at hand, and at the end how far all of it
//! came. What the runs say together is told on the page of the comparison.

use egui::{Label, RichText, Ui};
use tunesmith_protocol::RunStatus;
use tunesmith_report::format::plural;

use crate::{
    commands::Commands,
    state::{ExperimentSoFar, Page, State, Task, tone_of},
    theme::{self, Tone, tokens},
    widgets,
};

/// The sentence that opens the page where it is the experiment's; none where that of its run at hand opens it.
pub(super) fn title(task: &Task) -> Option<String> {
    if !task.is_experiment() {
        return None;
    }
    let so_far = task.experiment.as_ref();
    if let Some(ended) = &task.ended {
        return Some(ended_words(ended.status, so_far));
    }
    match so_far {
        _ if task.stopping.is_some() => Some("Stopping the experiment…".to_owned()),
        _ if task.waits_for.is_some() => Some("The experiment waits for the device".to_owned()),
        None => Some("The experiment begins".to_owned()),
        Some(so_far) if so_far.phase == "waits_for_quiet" => Some(format!(
            "Run {} of {} waits until other programs leave the machine alone",
            so_far.slot + 1,
            so_far.slots
        )),
        Some(_) => None,
    }
}

fn ended_words(status: RunStatus, so_far: Option<&ExperimentSoFar>) -> String {
    let Some(so_far) = so_far else {
        return "The experiment ended before its first run".to_owned();
    };
    let over = over_words(so_far);
    match status {
        RunStatus::Ok => format!("The experiment has ended: {over}"),
        RunStatus::Cancelled => format!("Stopped by you: {over}"),
        _ => format!("The experiment ended before its time: {over}"),
    }
}

/// `3 of 6 runs are over`.
fn over_words(so_far: &ExperimentSoFar) -> String {
    format!(
        "{} of {} are over",
        so_far.over,
        plural(so_far.slots as u64, "run")
    )
}

/// Which experiment it is, and which of its runs is shown below.
pub(super) fn experiment_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    let Some(so_far) = &task.experiment else {
        return ended_ui(task, ui, out);
    };
    widgets::panel(ui, "", |ui| {
        let name = state.pages.compare.name_of(&so_far.folder);
        let sentence = format!(
            "{}: run {} of {}, arm {}, seed {}",
            name.as_deref().unwrap_or(&so_far.id),
            so_far.slot + 1,
            so_far.slots,
            so_far.arm,
            so_far.seed
        );
        let colour = tokens(ui).strong_text;
        let sentence = RichText::new(sentence).font(theme::strong_font()).color(colour);
        ui.add(Label::new(sentence).wrap());
        if !task.is_over()
            && let Some(disturbed) = so_far.disturbed()
        {
            widgets::verdict_line(ui, Tone::Warn, &disturbed);
        }
        ui.horizontal_wrapped(|ui| {
            let left = match so_far.secs_left(state.now_secs).filter(|_| !task.is_over()) {
                Some(secs) => format!(", about {} left for all", widgets::whole_secs(secs)),
                None => String::new(),
            };
            widgets::caption(ui, &format!("{}{left}", over_words(so_far)));
            if widgets::link_button(ui, "See what they say together").clicked() {
                out.go(Page::Compare);
            }
        });
    });
    ended_ui(task, ui, out);
}

/// Why it ended, where it did not end well.
fn ended_ui(task: &Task, ui: &mut Ui, out: &mut Commands) {
    let Some(ended) = &task.ended else { return };
    match &ended.problem {
        Some(problem) => widgets::problem_panel(ui, "Why the experiment ended", problem, out),
        None if ended.status == RunStatus::Cancelled => {
            let text =
                "Runs that are over are kept; the experiment can go on from there, on the page Compare";
            widgets::verdict_line(ui, tone_of(ended.status), text);
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_protocol::{Notice, TaskWork};

    use super::*;
    use crate::state::TaskState;

    fn experiment(phase: Option<&str>) -> (TaskState, u64) {
        let mut tasks = TaskState::default();
        let work = TaskWork::Experiment {
            experiment: "checkpointing".to_owned(),
            resume: false,
            again: false,
            retry_failed: false,
        };
        let task = tasks.begin(work, 0.0);
        if let Some(phase) = phase {
            let notice = Notice::Experiment {
                task,
                experiment: "checkpointing-0f1e2d3c".to_owned(),
                folder: "/data/experiments/checkpointing-0f1e2d3c".into(),
                slot: 3,
                slots: 6,
                over: 3,
                arm: "kept".to_owned(),
                seed: 42,
                phase: phase.to_owned(),
                reason: None,
                secs_left: None,
            };
            tasks.apply(notice, 1.0);
        }
        (tasks, task)
    }

    fn words(phase: Option<&str>) -> Option<String> {
        let (tasks, _) = experiment(phase);
        title(tasks.running().unwrap())
    }

    #[test]
    fn the_run_at_hand_opens_the_page_as_soon_as_it_has_something_to_say() {
        assert_eq!(words(None).unwrap(), "The experiment begins");
        assert_eq!(
            words(Some("waits_for_quiet")).unwrap(),
            "Run 4 of 6 waits until other programs leave the machine alone"
        );
        assert_eq!(words(Some("begins")), None);
    }

    #[test]
    fn its_end_says_how_far_it_came() {
        for (status, phase, said) in [
            (
                RunStatus::Ok,
                Some("ok"),
                "The experiment has ended: 3 of 6 runs are over",
            ),
            (
                RunStatus::Cancelled,
                Some("begins"),
                "Stopped by you: 3 of 6 runs are over",
            ),
            (
                RunStatus::Crashed,
                Some("begins"),
                "The experiment ended before its time: 3 of 6 runs are over",
            ),
            (
                RunStatus::Crashed,
                None,
                "The experiment ended before its first run",
            ),
        ] {
            let (mut tasks, task) = experiment(phase);
            let ended = Notice::Ended {
                task,
                status,
                run: None,
                result: serde_json::Value::Null,
                failure: None,
                last_lines: Vec::new(),
            };
            tasks.apply(ended, 2.0);
            assert_eq!(title(tasks.get(task).unwrap()).unwrap(), said);
        }
    }
}
