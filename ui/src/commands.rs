//! What a page asks for. Drawing changes nothing: it pushes commands, and the app carries them out between frames.

use std::path::PathBuf;

use tunesmith_protocol::{StopHow, TaskWork};

use crate::{
    saved::{DeviceWish, ThemeWish},
    services::Work,
    state::{Page, State},
};

/// One wish.
pub enum Command {
    /// Show a page.
    Go(Page),
    /// Let the service begin a task.
    Start(Box<TaskWork>),
    /// Ask the task at hand to stop.
    Stop(StopHow),
    /// Put text on the clipboard; `what` is named in the message that says so.
    Copy {
        /// The text.
        text: String,
        /// e.g. "the command".
        what: String,
    },
    /// Open a file, folder or address with the program that the system has for it.
    Open(PathBuf),
    /// Change the look.
    Theme(ThemeWish),
    /// Scale everything, 1.0 to 2.0.
    Zoom(f32),
    /// Train on another device.
    Device(DeviceWish),
    /// Something of a page's own.
    Do(Action),
    /// Show the explanation of a term.
    Explain(&'static str),
    /// Close the window, a running task or not.
    Quit,
}

/// A change, and the work that it begins.
pub type Change = Box<dyn FnOnce(&mut State) -> Option<Work>>;

/// A change of the state that a page asks for, by name so that tests can tell which, and the work in the background
/// that it begins.
pub struct Action {
    /// Its name.
    pub name: &'static str,
    /// The change.
    pub change: Change,
}

/// The wishes of one frame.
#[derive(Default)]
pub struct Commands(Vec<Command>);

impl Commands {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more.
    pub fn push(&mut self, command: Command) {
        self.0.push(command);
    }

    /// Show a page.
    pub fn go(&mut self, page: Page) {
        self.push(Command::Go(page));
    }

    /// Let the service begin a task.
    pub fn start(&mut self, work: TaskWork) {
        self.push(Command::Start(Box::new(work)));
    }

    /// Put text on the clipboard.
    pub fn copy(&mut self, text: impl Into<String>, what: impl Into<String>) {
        self.push(Command::Copy {
            text: text.into(),
            what: what.into(),
        });
    }

    /// Change the state, and begin no work.
    pub fn change(&mut self, name: &'static str, change: impl FnOnce(&mut State) + 'static) {
        self.act(name, |state| {
            change(state);
            None
        });
    }

    /// Change the state, and begin work where the change says so.
    pub fn act(&mut self, name: &'static str, change: impl FnOnce(&mut State) -> Option<Work> + 'static) {
        self.push(Command::Do(Action {
            name,
            change: Box::new(change),
        }));
    }

    /// All wishes, in order; none are left.
    pub fn take(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
