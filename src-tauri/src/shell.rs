//! Carries out what `state` decides: holds the service and the window's process, and speaks to the desktop, whatever that
//! is. One thread reads one channel; nothing here waits for a window, an engine or a bus.

use std::{
    io::Write,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use tunesmith_lab::service::{Host, ServiceOptions, Told};
use tunesmith_protocol::{Command, EngineError, Notice};

use crate::{
    awake::{self, Awake, Inhibit},
    report::ReportWindow,
    state::{Abilities, Action, Event, State},
    task::{Kind, Said},
    tray::Tray,
    window::{Window, WindowProgram},
};

/// The tray is drawn anew no more often: nobody reads faster, and each time wakes the desktop.
const TRAY_EVERY: Duration = Duration::from_secs(1);

/// How long a window may take to leave when the app does. Then it is ended.
const WINDOW_LEAVES: Duration = Duration::from_millis(1500);

/// What the shell asks of the desktop that it runs on. None of it waits; what the user answers comes as an event.
pub(crate) trait Desktop {
    /// Shows the tray so.
    fn show_tray(&mut self, tray: &Tray);
    /// Tells something that the user may miss.
    fn notify(&mut self, title: &str, body: &str);
    /// Asks how to quit while this goes on; the answer is an [`Event::Answered`].
    fn ask_how_to_quit(&mut self, sentence: &str);
    /// Says what no window can say, and sends [`Event::ComplaintRead`] when somebody has read it. It is on standard error
    /// already.
    fn complain(&mut self, text: &str);
    /// Whether it has a window of its own for reports; else the user's browser shows them.
    fn has_report_window(&self) -> bool;
    /// Looks for an update; what comes of it is an [`Event::Update`].
    fn look_for_update(&mut self);
    /// Installs the one that was found; what comes of it is an [`Event::Update`].
    fn install_update(&mut self);
}

/// How the shell ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With this exit status.
    Leave(u8),
    /// The program is started anew.
    Restart,
}

/// What the shell is given.
pub(crate) struct Start {
    /// When this program started.
    pub(crate) at: Instant,
    pub(crate) window: WindowProgram,
    pub(crate) service: ServiceOptions,
    pub(crate) can: Abilities,
    /// The channel on which everything comes, and its other end for whoever has something to say.
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
}

/// Runs the shell until it leaves.
pub(crate) fn run(start: Start, desktop: &mut dyn Desktop) -> End {
    run_with(start, desktop, awake::system())
}

fn run_with(start: Start, desktop: &mut dyn Desktop, inhibit: impl Inhibit) -> End {
    let report = Arc::new(ReportWindow::default());
    let mut shell = Shell {
        host: host(start.service, start.sender.clone(), Arc::clone(&report)),
        program: start.window,
        sender: start.sender,
        started: start.at,
        window: None,
        report,
        awake: Awake::by(inhibit, |why| {
            say_line(&format!("note: the system may go to sleep during a run: {why}"));
        }),
    };
    let (mut state, first) = State::start(start.can, Instant::now());
    let mut end = shell.carry_out_all(first, desktop);
    let mut shown: Option<(Tray, Instant)> = None;
    while end.is_none() {
        let now = Instant::now();
        let repaint = tray_due(&state.tray(now), &mut shown, now, desktop);
        let due = state.deadline().into_iter().chain(repaint).min();
        let event = match due {
            None => start.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => start.events.recv_timeout(at.saturating_duration_since(now)),
        };
        let now = Instant::now();
        let actions = match event {
            Ok(event) => state.on(event, now),
            Err(RecvTimeoutError::Timeout) => state.tick(now),
            // This function holds a sender.
            Err(RecvTimeoutError::Disconnected) => vec![Action::Leave(1)],
        };
        end = shell.carry_out_all(actions, desktop);
    }
    shell.leave();
    end.unwrap_or(End::Leave(1))
}

/// Shows the tray where it has changed and the last time is long enough ago; else says when it will be.
fn tray_due(
    tray: &Tray,
    shown: &mut Option<(Tray, Instant)>,
    now: Instant,
    desktop: &mut dyn Desktop,
) -> Option<Instant> {
    match shown {
        Some((before, _)) if before == tray => None,
        Some((_, at)) if *at + TRAY_EVERY > now => Some(*at + TRAY_EVERY),
        _ => {
            desktop.show_tray(tray);
            *shown = Some((tray.clone(), now));
            None
        }
    }
}

/// The service, whose words become events.
fn host(options: ServiceOptions, sender: Sender<Event>, report: Arc<ReportWindow>) -> Host {
    Host::start(options, move |told| {
        let event = match told {
            Told::Notice(notice) => {
                // A page that is drawn while a card is measured is in the figures: it is gone before anything starts.
                if let Notice::Task { work, .. } = notice
                    && Kind::of(work).measures()
                {
                    report.close();
                }
                Said::of(notice).map(Event::Said)
            }
            Told::Wish(_, Command::Painted) => Some(Event::Painted),
            Told::Wish(_, Command::Quit) => Some(Event::QuitWished),
            Told::Wish(_, Command::ShowReport { file }) => Some(Event::ReportWished(file.clone())),
            // The end of its process says more than that of its pipe, and comes too.
            Told::Wish(..) | Told::WindowGone(_) => None,
        };
        if let Some(event) = event {
            // A shell that leaves hears nothing more.
            let _ = sender.send(event);
        }
    })
}

struct Shell {
    host: Host,
    program: WindowProgram,
    sender: Sender<Event>,
    started: Instant,
    window: Option<Window>,
    report: Arc<ReportWindow>,
    awake: Awake,
}

impl Shell {
    fn carry_out_all(&mut self, actions: Vec<Action>, desktop: &mut dyn Desktop) -> Option<End> {
        for action in actions {
            if let Some(end) = self.carry_out(action, desktop) {
                return Some(end);
            }
        }
        None
    }

    fn carry_out(&mut self, action: Action, desktop: &mut dyn Desktop) -> Option<End> {
        match action {
            Action::OpenWindow => self.open_window(),
            Action::KillWindow => {
                if let Some(window) = &self.window {
                    window.kill();
                }
            }
            Action::CloseWindow => {
                if let Some(window) = &self.window {
                    window.close(&self.host);
                }
            }
            Action::Tell(notice) => self.host.say(notice),
            Action::Stop(how) => self.host.stop(how),
            Action::Begin(work) => self.host.begin(work),
            Action::Notify { title, body } => desktop.notify(&title, &body),
            Action::Awake(why) => self.awake.set(why.map(str::to_owned)),
            Action::AskHowToQuit(sentence) => desktop.ask_how_to_quit(&sentence),
            Action::Complain(text) => {
                say_line(text.trim_end());
                desktop.complain(&text);
            }
            Action::ShowReport(file) => self.show_report(&file, desktop),
            Action::LookForUpdate => desktop.look_for_update(),
            Action::InstallUpdate => desktop.install_update(),
            Action::Restart => return Some(End::Restart),
            Action::FirstFrame => {
                let secs = self.started.elapsed().as_secs_f64();
                let mut out = std::io::stdout();
                // Who asked for it reads it.
                let _ = writeln!(out, "{{\"first_frame_secs\":{secs:.4}}}").and_then(|()| out.flush());
            }
            Action::Leave(status) => return Some(End::Leave(status)),
        }
        None
    }

    fn open_window(&mut self) {
        let sender = self.sender.clone();
        let opened = Window::open(&self.program, &self.host, move |ending| {
            // A shell that leaves hears nothing more.
            let _ = sender.send(Event::WindowEnded(ending));
        });
        match opened {
            Ok(window) => self.window = Some(window),
            Err(ending) => {
                self.window = None;
                let _ = self.sender.send(Event::WindowEnded(ending));
            }
        }
    }

    fn show_report(&self, file: &Path, desktop: &dyn Desktop) {
        let shown = if desktop.has_report_window() {
            self.report.show(file).map_err(|error| error.to_string())
        } else {
            open::that_detached(file).map_err(|error| error.to_string())
        };
        if let Err(message) = shown {
            self.host.say(Notice::Refused {
                task: None,
                error: EngineError {
                    code: "report".to_owned(),
                    message,
                    hints: Vec::new(),
                },
            });
        }
    }

    /// Window, report and engine go, each in the way that loses least, and the system may sleep.
    fn leave(self) {
        self.report.close();
        if let Some(window) = self.window {
            window.leave(&self.host, WINDOW_LEAVES);
        }
        self.host.leave();
        drop(self.awake);
    }
}

/// Says something on standard error, where somebody who started this in a terminal reads it.
pub(crate) fn say_line(text: &str) {
    // Without a terminal there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::tray::Mark;

    /// A desktop that remembers what it was asked.
    #[derive(Default)]
    struct Remembers {
        trays: Vec<String>,
        complaints: Vec<String>,
        sender: Option<Sender<Event>>,
    }

    impl Desktop for Remembers {
        fn show_tray(&mut self, tray: &Tray) {
            self.trays.push(tray.status.clone());
        }

        fn notify(&mut self, _title: &str, _body: &str) {}

        fn ask_how_to_quit(&mut self, _sentence: &str) {}

        fn complain(&mut self, text: &str) {
            self.complaints.push(text.to_owned());
            self.sender.as_ref().unwrap().send(Event::ComplaintRead).unwrap();
        }

        fn has_report_window(&self) -> bool {
            false
        }

        fn look_for_update(&mut self) {}

        fn install_update(&mut self) {}
    }

    /// A system that is never asked to sleep.
    struct Sleepless;

    impl Inhibit for Sleepless {
        type Lock = ();

        fn inhibit(&mut self, _why: &str) -> Result<(), String> {
            Ok(())
        }
    }

    fn tray(status: &str) -> Tray {
        Tray::new(Mark::Running, status.to_owned(), "", &[])
    }

    #[test]
    fn the_tray_changes_no_more_than_once_a_second_and_ends_with_the_newest() {
        let mut desktop = Remembers::default();
        let mut shown = None;
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(tray_due(&tray("1"), &mut shown, at(0), &mut desktop), None);
        assert_eq!(tray_due(&tray("1"), &mut shown, at(10), &mut desktop), None);
        assert_eq!(
            tray_due(&tray("2"), &mut shown, at(20), &mut desktop),
            Some(at(1000))
        );
        assert_eq!(
            tray_due(&tray("3"), &mut shown, at(900), &mut desktop),
            Some(at(1000))
        );
        assert_eq!(tray_due(&tray("3"), &mut shown, at(1000), &mut desktop), None);
        assert_eq!(desktop.trays, ["1", "3"]);
    }

    #[test]
    fn a_window_whose_program_is_missing_is_told_of_with_its_path() {
        let (sender, events) = channel();
        let mut desktop = Remembers {
            sender: Some(sender.clone()),
            ..Remembers::default()
        };
        let start = Start {
            at: Instant::now(),
            window: WindowProgram {
                program: "/nonexistent/tunesmith-ui".into(),
                arguments: Vec::new(),
            },
            service: ServiceOptions::default(),
            can: Abilities {
                tray: true,
                ..Abilities::default()
            },
            events,
            sender,
        };
        assert_eq!(run_with(start, &mut desktop, Sleepless), End::Leave(1));
        assert_eq!(desktop.complaints.len(), 1);
        let text = &desktop.complaints[0];
        assert!(
            text.contains("/nonexistent/tunesmith-ui") && text.contains("hint:"),
            "{text}"
        );
    }
}
