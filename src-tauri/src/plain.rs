//! The shell without Tauri: no tray, no messages, no report window, but the service that outlives its windows. For desktops
//! where the rest fails, and for tests.

use std::sync::mpsc::Sender;

use crate::{
    shell::{Desktop, say_line},
    state::{Answer, Event, News},
    tray::Tray,
};

/// A terminal for a desktop.
pub(crate) struct Plain {
    sender: Sender<Event>,
}

impl Plain {
    pub(crate) fn new(sender: Sender<Event>) -> Self {
        Self { sender }
    }

    fn send(&self, event: Event) {
        // A shell that leaves hears nothing more.
        let _ = self.sender.send(event);
    }
}

impl Desktop for Plain {
    fn show_tray(&mut self, _tray: &Tray) {}

    fn notify(&mut self, title: &str, body: &str) {
        say_line(&format!("{title}: {body}"));
    }

    fn ask_how_to_quit(&mut self, sentence: &str) {
        say_line(&format!("{sentence}; Ctrl-C stops and saves it"));
        self.send(Event::Answered(Answer::Stay));
    }

    fn complain(&mut self, _text: &str) {
        self.send(Event::ComplaintRead);
    }

    fn has_report_window(&self) -> bool {
        false
    }

    fn look_for_update(&mut self) {
        let why = "updates need the app as it is installed, without --plain".to_owned();
        self.send(Event::Update(News::Failed(why)));
    }

    fn install_update(&mut self) {
        self.look_for_update();
    }
}
