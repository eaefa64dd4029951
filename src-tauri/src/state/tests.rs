//! Every way in which a window, a task and a user can meet.

use super::*;
use crate::{
    task::tests::training,
    tray::{Mark, Tray},
};

const TRAY: Abilities = Abilities {
    tray: true,
    updates: true,
    first_frame_only: false,
};
const NO_TRAY: Abilities = Abilities {
    tray: false,
    updates: false,
    first_frame_only: false,
};

/// A shell, and a clock.
struct Bench {
    state: State,
    now: Instant,
}

impl Bench {
    fn start(can: Abilities) -> Self {
        let now = Instant::now();
        let (state, first) = State::start(can, now);
        assert_eq!(first, [Action::OpenWindow]);
        Self { state, now }
    }

    /// With a window on the screen.
    fn painted(can: Abilities) -> Self {
        let mut bench = Self::start(can);
        assert_eq!(bench.on(Event::Painted), []);
        bench
    }

    /// With a training under way, a minute old.
    fn training(can: Abilities) -> Self {
        let mut bench = Self::painted(can);
        let begun = bench.on(Event::Said(Said::Begins(training())));
        assert_eq!(begun, [Action::Awake(Some("Fine-tuning"))]);
        bench.on(Event::Said(Said::Run("r1".to_owned())));
        bench.on(Event::Said(Said::Stage {
            stage: "train".to_owned(),
            title: "training".to_owned(),
        }));
        bench.on(Event::Said(Said::Step { step: 12, total: 120 }));
        bench.wait(60);
        bench
    }

    fn wait(&mut self, secs: u64) {
        self.now += Duration::from_secs(secs);
    }

    fn on(&mut self, event: Event) -> Vec<Action> {
        self.state.on(event, self.now)
    }

    fn window_ends(&mut self, code: Option<i32>) -> Vec<Action> {
        self.on(Event::WindowEnded(Ending {
            code,
            how: code.map_or("signal: 9 (SIGKILL)".to_owned(), |code| {
                format!("exit status: {code}")
            }),
            last_lines: vec!["the driver is broken".to_owned()],
        }))
    }

    fn task_ends(&mut self, status: RunStatus) -> Vec<Action> {
        self.on(Event::Said(Said::Ended {
            status,
            failure: failed(status).then(|| "it did not work".to_owned()),
        }))
    }

    fn tray(&self) -> Tray {
        self.state.tray(self.now)
    }
}

fn notified(actions: &[Action]) -> Vec<&str> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Notify { title, .. } => Some(title.as_str()),
            _ => None,
        })
        .collect()
}

fn complaint(actions: &[Action]) -> &str {
    actions
        .iter()
        .find_map(|action| match action {
            Action::Complain(text) => Some(text.as_str()),
            _ => None,
        })
        .unwrap()
}

#[test]
fn a_window_that_never_paints_is_tried_on_every_renderer_and_then_told_of() {
    let mut bench = Bench::start(TRAY);
    for _ in 1..MOST_STARTS {
        assert_eq!(bench.window_ends(None), [Action::OpenWindow]);
    }
    let end = bench.window_ends(Some(1));
    let text = complaint(&end);
    assert!(
        text.contains("before it had painted anything (exit status: 1)"),
        "{text}"
    );
    assert!(text.contains("tunesmith doctor") && text.contains("the driver is broken"));
    // It leaves when that was read.
    assert_eq!(end.len(), 1);
    assert_eq!(bench.on(Event::ComplaintRead), [Action::Leave(1)]);
}

#[test]
fn a_window_that_says_that_nothing_can_draw_it_is_believed() {
    let mut bench = Bench::start(TRAY);
    let end = bench.window_ends(Some(i32::from(NO_RENDERER_STATUS)));
    assert!(complaint(&end).contains("no renderer of this machine"));
    // Whoever tries again while the message is there does not want it to leave.
    assert_eq!(bench.on(Event::SecondStart), [Action::OpenWindow]);
    assert_eq!(bench.on(Event::ComplaintRead), []);
}

#[test]
fn a_window_that_hangs_before_its_first_frame_is_killed_and_started_again() {
    let mut bench = Bench::start(TRAY);
    let deadline = bench.state.deadline().unwrap();
    assert_eq!(bench.state.tick(bench.now), []);
    bench.now = deadline;
    assert_eq!(bench.state.tick(bench.now), [Action::KillWindow]);
    assert_eq!(bench.state.deadline(), None);
    assert_eq!(bench.window_ends(None), [Action::OpenWindow]);
    assert_eq!(bench.state.deadline(), Some(deadline + FIRST_FRAME));
    bench.on(Event::Painted);
    assert_eq!(
        bench.state.deadline(),
        None,
        "a window that has painted may take its time"
    );
}

#[test]
fn a_window_that_crashes_is_opened_again_but_not_for_ever() {
    for (can, leaves) in [(TRAY, false), (NO_TRAY, true)] {
        let mut bench = Bench::painted(can);
        for _ in 0..MOST_CRASHES {
            assert_eq!(bench.window_ends(None), [Action::OpenWindow]);
            bench.on(Event::Painted);
        }
        // After a while it is an accident again.
        bench.wait(301);
        for _ in 0..MOST_CRASHES {
            assert_eq!(bench.window_ends(Some(139)), [Action::OpenWindow]);
            bench.on(Event::Painted);
        }
        let end = bench.window_ends(None);
        assert!(complaint(&end).contains("crashed 4 times"));
        let read = bench.on(Event::ComplaintRead);
        assert_eq!(read.contains(&Action::Leave(1)), leaves);
        if !leaves {
            // Somebody who asks for it gets it.
            assert_eq!(bench.on(Event::Chosen(Item::Open)), [Action::OpenWindow]);
        }
    }
}

#[test]
fn a_training_goes_on_whatever_becomes_of_its_window() {
    for can in [TRAY, NO_TRAY] {
        // Killed: it comes back, and nothing else happens.
        let mut bench = Bench::training(can);
        assert_eq!(bench.window_ends(None), [Action::OpenWindow]);
        assert_eq!(bench.tray().mark, Mark::Running);

        // Closed: it is told once where to find it.
        let mut bench = Bench::training(can);
        assert_eq!(notified(&bench.window_ends(Some(0))), ["Fine-tuning goes on"]);
        assert_eq!(bench.on(Event::SecondStart), [Action::OpenWindow]);
        bench.on(Event::Painted);
        assert_eq!(bench.window_ends(Some(0)), []);
        // Its end is told, and without a tray nobody could come back.
        let end = bench.task_ends(RunStatus::Ok);
        assert_eq!(notified(&end), ["Fine-tuning is done"]);
        assert!(end.contains(&Action::Awake(None)));
        assert_eq!(end.contains(&Action::Leave(0)), !can.tray);

        // Never to be opened again: it is told what goes on without it.
        let mut bench = Bench::training(can);
        bench.window_ends(None);
        for _ in 1..MOST_STARTS {
            bench.window_ends(None);
        }
        let end = bench.window_ends(None);
        assert!(complaint(&end).contains("Fine-tuning goes on without it"));
        assert_eq!(bench.on(Event::ComplaintRead), []);
        assert!(!end.iter().any(|action| matches!(action, Action::Leave(_))));
    }
}

#[test]
fn an_idle_app_leaves_with_its_window_where_there_is_no_tray() {
    assert_eq!(Bench::painted(NO_TRAY).window_ends(Some(0)), [Action::Leave(0)]);
    let mut bench = Bench::painted(TRAY);
    assert_eq!(bench.window_ends(Some(0)), []);
    assert_eq!(bench.on(Event::Chosen(Item::Quit)), [Action::Leave(0)]);
}

#[test]
fn a_second_start_brings_the_window_to_the_front() {
    let mut bench = Bench::painted(TRAY);
    assert_eq!(bench.on(Event::SecondStart), [Action::Tell(Notice::Focus)]);
}

#[test]
fn leaving_during_a_run_asks_in_the_window_or_without_it() {
    let mut bench = Bench::training(TRAY);
    assert_eq!(
        bench.on(Event::Chosen(Item::Quit)),
        [Action::Tell(Notice::AskToQuit)]
    );
    // The window has asked how: it stops the task itself, and says that the app shall leave.
    assert_eq!(bench.on(Event::QuitWished), []);
    assert_eq!(bench.window_ends(Some(0)), []);
    assert_eq!(
        bench.task_ends(RunStatus::Cancelled),
        [Action::Awake(None), Action::Leave(0)]
    );

    let mut bench = Bench::training(TRAY);
    bench.window_ends(Some(0));
    let sentence = "Fine-tuning: step 12 of 120".to_owned();
    assert_eq!(
        bench.on(Event::Chosen(Item::Quit)),
        [Action::AskHowToQuit(sentence)]
    );
    assert_eq!(bench.on(Event::Answered(Answer::Stay)), []);
    assert_eq!(
        bench.on(Event::Answered(Answer::StopAndSave)),
        [Action::Stop(StopHow::Save)]
    );
    assert!(bench.tray().status.ends_with("stopping"));
    assert_eq!(
        bench.task_ends(RunStatus::Cancelled),
        [Action::Awake(None), Action::Leave(0)]
    );
}

#[test]
fn whoever_opens_the_window_again_does_not_want_to_leave() {
    let mut bench = Bench::training(TRAY);
    bench.window_ends(Some(0));
    bench.on(Event::Answered(Answer::StopAndSave));
    assert_eq!(bench.on(Event::SecondStart), [Action::OpenWindow]);
    bench.on(Event::Painted);
    assert_eq!(bench.task_ends(RunStatus::Cancelled), [Action::Awake(None)]);
}

#[test]
fn a_run_that_was_paused_goes_on_from_the_tray() {
    let mut bench = Bench::training(TRAY);
    assert!(bench.tray().can(Item::Pause) && !bench.tray().can(Item::GoOn));
    assert_eq!(
        bench.on(Event::Chosen(Item::Pause)),
        [Action::Stop(StopHow::Save)]
    );
    assert!(!bench.tray().can(Item::Pause), "it is stopping already");
    assert_eq!(notified(&bench.task_ends(RunStatus::Cancelled)), [""; 0]);
    let tray = bench.tray();
    assert_eq!(
        (tray.mark, tray.status.as_str()),
        (Mark::Paused, "Fine-tuning is paused")
    );
    assert!(tray.can(Item::GoOn) && !tray.can(Item::Pause));
    let resume = TaskWork::Resume { run: "r1".to_owned() };
    assert_eq!(
        bench.on(Event::Chosen(Item::GoOn)),
        [Action::Begin(resume.clone())]
    );
    bench.on(Event::Said(Said::Begins(resume)));
    assert_eq!(bench.tray().mark, Mark::Running);

    // One that was done before it could stop is done.
    bench.on(Event::Said(Said::Run("r1".to_owned())));
    bench.on(Event::Chosen(Item::Pause));
    bench.task_ends(RunStatus::Ok);
    assert_eq!(bench.tray().mark, Mark::Finished);
    assert!(!bench.tray().can(Item::GoOn));
}

#[test]
fn what_can_be_chosen_follows_from_what_runs() {
    let idle = Bench::painted(TRAY).tray();
    assert_eq!((idle.mark, idle.status.as_str()), (Mark::Idle, "Nothing runs"));
    assert!(idle.can(Item::Open) && idle.can(Item::Quit) && idle.can(Item::Update));
    assert!(!idle.can(Item::Pause) && !idle.can(Item::StopAndSave) && !idle.can(Item::Status));

    let mut bench = Bench::painted(TRAY);
    let measure = TaskWork::Calibrate {
        device: None,
        again: true,
        full: false,
    };
    bench.on(Event::Said(Said::Begins(measure)));
    let tray = bench.tray();
    assert!(
        tray.can(Item::StopAndSave) && !tray.can(Item::Pause),
        "a measurement has nothing to go on from"
    );
    let stop = [Action::Stop(StopHow::Save)];
    assert_eq!(bench.on(Event::Chosen(Item::StopAndSave)), stop);
    bench.task_ends(RunStatus::Cancelled);
    assert_eq!(bench.tray().mark, Mark::Idle);
}

#[test]
fn a_failure_and_a_red_finding_are_told_once() {
    let mut bench = Bench::training(TRAY);
    let end = bench.task_ends(RunStatus::Crashed);
    assert_eq!(notified(&end), ["Fine-tuning failed"]);
    assert_eq!(bench.tray().mark, Mark::Failed);

    let mut bench = Bench::training(TRAY);
    let red = bench.on(Event::Said(Said::Red {
        title: "loss and gradient are numbers".to_owned(),
        found: "the loss of step 12 is no number".to_owned(),
    }));
    assert_eq!(notified(&red), ["Stopped: loss and gradient are numbers"]);
    assert_eq!(notified(&bench.task_ends(RunStatus::Nan)), [""; 0]);
    assert_eq!(bench.tray().mark, Mark::Failed);
}

#[test]
fn what_was_over_soon_under_somebodys_eyes_needs_no_message() {
    let mut bench = Bench::painted(TRAY);
    bench.on(Event::Said(Said::Begins(training())));
    bench.wait(5);
    assert_eq!(bench.task_ends(RunStatus::Ok), [Action::Awake(None)]);
    let report = TaskWork::Report { run: "r1".to_owned() };
    bench.on(Event::Said(Said::Begins(report)));
    bench.wait(500);
    assert_eq!(bench.task_ends(RunStatus::Crashed), [Action::Awake(None)]);
}

#[test]
fn no_report_is_shown_while_something_is_measured() {
    let file = PathBuf::from("/runs/r1/report.html");
    let mut bench = Bench::painted(TRAY);
    assert_eq!(
        bench.on(Event::ReportWished(file.clone())),
        [Action::ShowReport(file.clone())]
    );
    bench.on(Event::Said(Said::Begins(training())));
    match &bench.on(Event::ReportWished(file))[..] {
        [Action::Tell(Notice::Refused { task: None, error })] => {
            assert!(error.message.starts_with("Fine-tuning is under way"), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signal_saves_first_and_a_second_one_does_not_wait() {
    let mut bench = Bench::training(TRAY);
    assert_eq!(bench.on(Event::Signal), [Action::Stop(StopHow::Save)]);
    assert_eq!(bench.on(Event::Signal), [Action::Leave(130)]);
    assert_eq!(Bench::painted(TRAY).on(Event::Signal), [Action::Leave(0)]);
    let mut bench = Bench::training(TRAY);
    bench.on(Event::Signal);
    assert!(bench.task_ends(RunStatus::Cancelled).contains(&Action::Leave(0)));
}

#[test]
fn an_update_waits_for_what_runs_and_closes_the_window() {
    let mut bench = Bench::training(TRAY);
    assert_eq!(bench.on(Event::Chosen(Item::Update)), [Action::LookForUpdate]);
    let found = bench.on(Event::Update(News::Found("9.9.9".to_owned())));
    assert_eq!(notified(&found), ["Tunesmith 9.9.9 can be installed"]);
    assert!(!bench.tray().can(Item::Update));
    assert_eq!(bench.on(Event::Chosen(Item::Update)), [], "something runs");
    bench.task_ends(RunStatus::Ok);
    assert!(bench.tray().can(Item::Update));
    assert_eq!(
        bench.on(Event::Chosen(Item::Update)),
        [Action::CloseWindow, Action::InstallUpdate]
    );
    // Meanwhile nothing begins and nothing opens.
    assert_eq!(bench.window_ends(Some(0)), []);
    assert_eq!(
        notified(&bench.on(Event::SecondStart)),
        ["Tunesmith is being updated"]
    );
    assert_eq!(bench.on(Event::Chosen(Item::Quit)), []);
    let failed = bench.on(Event::Update(News::Failed(
        "the signature does not fit".to_owned(),
    )));
    assert_eq!(notified(&failed), ["The update was not installed"]);
    assert!(failed.contains(&Action::OpenWindow));

    let mut bench = Bench::painted(TRAY);
    bench.on(Event::Chosen(Item::Update));
    bench.on(Event::Update(News::UpToDate));
    assert_eq!(bench.tray().entries[5].0, "This is the newest version");
    bench.on(Event::Chosen(Item::Update));
    bench.on(Event::Update(News::Found("9.9.9".to_owned())));
    bench.on(Event::Chosen(Item::Update));
    assert_eq!(bench.on(Event::Update(News::Installed)), [Action::Restart]);
}

#[test]
fn updates_that_are_not_set_up_cannot_be_chosen() {
    let mut bench = Bench::painted(NO_TRAY);
    assert!(!bench.tray().can(Item::Update));
    assert_eq!(bench.on(Event::Chosen(Item::Update)), []);
}

#[test]
fn a_start_for_its_first_frame_alone_leaves_with_it() {
    let mut bench = Bench::start(Abilities {
        first_frame_only: true,
        ..TRAY
    });
    assert_eq!(bench.on(Event::Painted), [Action::FirstFrame, Action::Leave(0)]);
}
