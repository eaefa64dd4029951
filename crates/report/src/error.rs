//! What can go wrong when a report is made, written or read.

use std::path::PathBuf;

/// A report that could not be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The text is no report.
    #[error("this is not a report: {0}")]
    NotAReport(#[source] serde_json::Error),
    /// The text begins like a report and then breaks.
    #[error("this report is damaged: {0}")]
    Damaged(#[source] serde_json::Error),
    /// A number in it that cannot be.
    #[error("this report says something that cannot be: {what} of {value}")]
    Impossible {
        /// Of what.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// A report of a later version that this program cannot read.
    #[error("this report has schema version {found}, and this program reads up to {known}")]
    TooNew {
        /// Version of the report.
        found: u32,
        /// Version of this program.
        known: u32,
    },
    /// The report could not be put into words.
    #[error("the report could not be rendered: {0}")]
    Render(#[from] minijinja::Error),
    /// The share card could not be drawn.
    #[error("the share card could not be drawn: {why}")]
    Picture {
        /// Why.
        why: String,
    },
    /// The report could not be turned into JSON.
    #[error("the report could not be turned into JSON: {0}")]
    Encode(#[source] serde_json::Error),
    /// A file could not be written.
    #[error("{path} could not be written: {source}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl ReportError {
    /// A stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAReport(_) => "not_a_report",
            Self::Damaged(_) => "report_damaged",
            Self::Impossible { .. } => "report_impossible",
            Self::TooNew { .. } => "report_too_new",
            Self::Render(_) => "report_not_rendered",
            Self::Picture { .. } => "card_not_drawn",
            Self::Encode(_) => "report_not_encoded",
            Self::Write { .. } => "report_not_written",
        }
    }

    /// What to do, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotAReport(_) => "choose the report.json that lies beside a report.html",
            Self::Damaged(_) => "ask for the file again; it was cut short or changed on its way",
            Self::Impossible { .. } => {
                "ask for the file again; it was changed by somebody who did not know what it means"
            }
            Self::TooNew { .. } => "open it with the version of Tunesmith that wrote it, or a later one",
            Self::Render(_) | Self::Encode(_) | Self::Picture { .. } => {
                "the run itself is unharmed; please report this as a fault of Tunesmith"
            }
            Self::Write { .. } => {
                "check that the folder exists, is writable and has room, then make the report again"
            }
        };
        vec![hint.to_owned()]
    }
}
