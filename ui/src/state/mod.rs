//! All that the window knows. Plain data: no drawing, no input or output, no clock but the one that it is told.

mod machine;
mod page;
mod task;
mod telemetry;

use std::{borrow::Cow, path::PathBuf};

use tunesmith_protocol::EngineError;
use tunesmith_setup::Folders;

pub use machine::{Machine, MachineState};
pub use page::Page;
pub use task::{AnswerSoFar, Ended, ExperimentSoFar, LogLine, Task, TaskState, tone_of};
pub use telemetry::Telemetry;

use crate::{saved::Saved, theme::Tone};

/// Something that is read in the background.
#[derive(Clone, Debug, Default)]
pub enum Loadable<T> {
    /// Nobody has asked for it yet.
    #[default]
    Unasked,
    /// It is being read.
    Loading,
    /// It is there.
    Ready(T),
    /// It cannot be read.
    Failed(Problem),
}

impl<T> Loadable<T> {
    /// It, where it is there.
    pub fn ready(&self) -> Option<&T> {
        match self {
            Self::Ready(value) => Some(value),
            _ => None,
        }
    }

    /// Why it cannot be read, where it cannot.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Failed(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether it is being read.
    pub fn is_loading(&self) -> bool {
        matches!(self, Self::Loading)
    }

    /// Whether nobody has asked for it yet.
    pub fn is_unasked(&self) -> bool {
        matches!(self, Self::Unasked)
    }
}

impl<T> From<Result<T, Problem>> for Loadable<T> {
    fn from(result: Result<T, Problem>) -> Self {
        match result {
            Ok(value) => Self::Ready(value),
            Err(problem) => Self::Failed(problem),
        }
    }
}

/// What went wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Stable name of the fault.
    pub code: String,
    /// What happened and why.
    pub message: String,
    /// What to do, one sentence each.
    pub hints: Vec<String>,
    /// What the engine said last, where it died.
    pub last_lines: Vec<String>,
}

impl Problem {
    /// A problem with its cures.
    pub fn new(code: impl Into<String>, message: impl Into<String>, hints: Vec<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            hints,
            last_lines: Vec::new(),
        }
    }

    /// As text for the clipboard.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({})", self.message, self.code);
        for hint in &self.hints {
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        for line in &self.last_lines {
            text.push_str("\n  ");
            text.push_str(line);
        }
        text
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        Self::new(error.code, error.message, error.hints)
    }
}

/// A [`Problem`] from an error of the libraries, all of which have these three.
#[macro_export]
macro_rules! problem {
    ($error:expr) => {{
        let error = &$error;
        $crate::state::Problem::new(
            error.code(),
            error.to_string(),
            error.hints().into_iter().map(|hint| hint.to_string()).collect(),
        )
    }};
}

/// A short message that goes away by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Toast {
    /// How it is meant.
    pub tone: Tone,
    /// One sentence.
    pub text: Cow<'static, str>,
    /// When it goes, in seconds of [`State::now_secs`].
    pub until_secs: f64,
}

/// All that the window knows.
pub struct State {
    /// Where things lie.
    pub folders: Folders,
    /// The time now, in seconds since the window opened.
    pub now_secs: f64,
    /// The page that is shown.
    pub page: Page,
    /// What outlives the window.
    pub saved: Saved,
    /// What this machine is, what is wrong with it, and what to do.
    pub machine: MachineState,
    /// Live figures of the cards.
    pub telemetry: Telemetry,
    /// The task at hand, and what the last ones came to.
    pub tasks: TaskState,
    /// Messages that go away by themselves.
    pub toasts: Vec<Toast>,
    /// The term whose explanation is shown.
    pub glossary_term: Option<&'static str>,
    /// The user wants to close the window while a task runs.
    pub asks_to_close: bool,
    /// The installed app is around this window: what runs goes on without it.
    pub hosted: bool,
    /// What drew this window: adapter and interface.
    pub renderer: String,
    /// What a folder of captures stands for this machine; this machine where there is none.
    pub root: PathBuf,
    /// What the pages keep.
    pub pages: crate::pages::PageStates,
}

const TOAST_SECS: f64 = 6.0;

impl State {
    /// A window that has just opened.
    pub fn new(folders: Folders, saved: Saved, root: PathBuf) -> Self {
        let page = if saved.welcomed { saved.page } else { Page::Welcome };
        Self {
            folders,
            now_secs: 0.0,
            page,
            saved,
            machine: MachineState::default(),
            telemetry: Telemetry::default(),
            tasks: TaskState::default(),
            toasts: Vec::new(),
            glossary_term: None,
            asks_to_close: false,
            hosted: false,
            renderer: String::new(),
            root,
            pages: crate::pages::PageStates::default(),
        }
    }

    /// A window whose folders do not exist.
    pub fn for_tests() -> Self {
        let nowhere = PathBuf::from("/nonexistent/tunesmith");
        Self::new(Folders::all_under(&nowhere), Saved::default(), nowhere)
    }

    /// Shows a message for some seconds.
    pub fn say(&mut self, tone: Tone, text: impl Into<Cow<'static, str>>) {
        self.toasts.push(Toast {
            tone,
            text: text.into(),
            until_secs: self.now_secs + TOAST_SECS,
        });
    }

    /// Shows a message that something failed.
    pub fn say_stop(&mut self, text: impl Into<Cow<'static, str>>) {
        self.say(Tone::Stop, text);
    }

    /// Time has passed.
    pub fn tick(&mut self, now_secs: f64) {
        self.now_secs = now_secs;
        self.toasts.retain(|toast| toast.until_secs > now_secs);
    }

    /// Shows a page.
    pub fn go(&mut self, page: Page) {
        self.page = page;
        if page != Page::Welcome {
            self.saved.page = page;
        }
    }

    /// When the state changes next without anybody's doing, in seconds from now.
    pub fn next_change_secs(&self) -> Option<f64> {
        let toasts = self
            .toasts
            .iter()
            .map(|toast| (toast.until_secs - self.now_secs).max(0.0));
        let look = crate::pages::holders::shown_on(self.page)
            .then(|| self.pages.holders.next_look_secs(self.now_secs))
            .flatten();
        toasts.chain(look).reduce(f64::min)
    }
}
