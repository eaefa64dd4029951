//! The one place that prints errors: the sentence, the engine's last lines where it died, then what to do.

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::{Value, json};
use tunesmith_data::DataError;
use tunesmith_lab::{
    estimate::EstimateError, experiment::ExperimentError, files::FileError, pipeline::LabError,
    recipe::RecipeError, run::RunError, supervisor::Failure,
};
use tunesmith_models::hub::HubError;
use tunesmith_probe::CaptureError;
use tunesmith_report::ReportError;
use tunesmith_setup::SetupError;
use tunesmith_setup::knowledge::KnowledgeError;
use tunesmith_setup::plan::PlanError;
use tunesmith_setup::updates::UpdateError;

/// What can end a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Lab(Box<LabError>),
    #[error("signals could not be handled: {0}")]
    Signals(ctrlc::Error),
    #[error("nothing was changed: {0}")]
    NoConsent(String),
    #[error("the card cannot be used yet: {0}")]
    CardUnusable(String, Vec<String>),
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the command could not be started: {0}")]
    Guard(io::Error),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Update(#[from] UpdateError),
}

impl CliError {
    pub(crate) fn signals(error: ctrlc::Error) -> Self {
        Self::Signals(error)
    }

    fn code(&self) -> String {
        match self {
            Self::Lab(error) => error.code(),
            Self::Signals(_) => "signals".to_owned(),
            Self::NoConsent(_) => "consent_needed".to_owned(),
            Self::CardUnusable(..) => "card_unusable".to_owned(),
            Self::Unreadable { .. } => "unreadable".to_owned(),
            Self::Guard(_) => "command_not_started".to_owned(),
            Self::Capture(_) => "capture".to_owned(),
            Self::Update(error) => error.code().to_owned(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Lab(error) => error.hints(),
            Self::Signals(_) | Self::Guard(_) | Self::Capture(_) => Vec::new(),
            Self::Update(error) => error.hints(),
            Self::NoConsent(_) => vec!["--yes does it without asking".to_owned()],
            Self::CardUnusable(_, hints) => hints.clone(),
            Self::Unreadable { .. } => {
                vec!["give the path of a file or folder that this user may read".to_owned()]
            }
        }
    }

    fn last_lines(&self) -> &[String] {
        match self {
            Self::Lab(error) => error.last_lines(),
            _ => &[],
        }
    }
}

macro_rules! through_lab {
    ($($error:ty),*) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::Lab(Box::new(error.into()))
            }
        })*
    };
}
through_lab!(
    LabError,
    EstimateError,
    ExperimentError,
    RecipeError,
    RunError,
    FileError,
    SetupError,
    HubError,
    DataError,
    ReportError,
    KnowledgeError,
    PlanError
);

pub(crate) fn exit_code(error: &CliError) -> u8 {
    match error {
        CliError::Lab(error) if error.is_stop() => 130,
        _ => 1,
    }
}

pub(crate) fn print(error: &CliError, json: bool) {
    if json {
        let object = json!({
            "error": {
                "code": error.code(),
                "message": error.to_string(),
                "hints": error.hints(),
                "last_lines": error.last_lines(),
            }
        });
        // A closed stdout cannot be told about.
        let _ = writeln!(io::stdout(), "{object:#}");
    }
    print_lines(&error.to_string(), error.last_lines(), &error.hints());
}

/// A run's failure, in the same form as an error of the program.
pub(crate) fn print_failure(reason: &str, failure: Option<&Failure>) {
    let none = Vec::new();
    let (lines, hints) = failure.map_or((&none, &none), |failure| (&failure.last_lines, &failure.hints));
    print_lines(reason, lines, hints);
}

pub(crate) fn failure_json(failure: &Failure) -> Value {
    json!({
        "code": failure.code,
        "message": failure.message,
        "hints": failure.hints,
        "last_lines": failure.last_lines,
    })
}

fn print_lines(message: &str, last_lines: &[String], hints: &[String]) {
    let mut text = format!("error: {message}\n");
    if !last_lines.is_empty() {
        text.push_str("the engine's last lines:\n");
        for line in last_lines {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
    }
    for hint in hints {
        text.push_str("hint: ");
        text.push_str(hint);
        text.push('\n');
    }
    // Without stderr there is nobody to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}
