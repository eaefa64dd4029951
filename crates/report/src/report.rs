//! The report itself: what was put in, and the verdicts drawn from it, so that a reader of the JSON need not draw
//! them again.

use serde::{Deserialize, Serialize};

use crate::{CountingRule, Gain, Headline, ReportError, ReportInput, headline, html, rules};

/// Version of the JSON. It rises when a field changes its meaning or goes away; added fields leave it alone.
pub const SCHEMA_VERSION: u32 = 1;

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// The one sentence.
    pub headline: Headline,
    /// Whether the run's numbers can be trusted.
    pub validity: Headline,
    /// Before against after, where both were scored on the same terms.
    #[serde(default)]
    pub gain: Option<Gain>,
    /// How every number was counted (X16).
    #[serde(default)]
    pub counting_rules: Vec<CountingRule>,
    /// Comparisons that these numbers do not allow, one sentence each (X16).
    #[serde(default)]
    pub invalid_comparisons: Vec<String>,
    /// What it was made of.
    pub run: ReportInput,
}

impl Report {
    /// Draws the verdicts. Redact the input before: see [`crate::redact`].
    pub fn new(run: ReportInput) -> Self {
        let gain = Gain::of(&run);
        Self {
            schema_version: SCHEMA_VERSION,
            headline: headline::headline(&run, gain.as_ref()),
            validity: headline::validity(&run),
            counting_rules: rules::counting_rules(&run),
            invalid_comparisons: rules::invalid_comparisons(&run),
            gain,
            run,
        }
    }

    /// Reads a report, of another machine too (X15). Unknown fields are ignored.
    ///
    /// # Errors
    /// [`ReportError::TooNew`] for a later schema version, [`ReportError::Damaged`] where JSON begins and breaks off,
    /// [`ReportError::NotAReport`] for anything else.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let fault = |error: serde_json::Error| {
            let begins = text.trim_start().starts_with('{');
            if begins && (error.is_syntax() || error.is_eof()) {
                ReportError::Damaged(error)
            } else {
                ReportError::NotAReport(error)
            }
        };
        let version: Version = serde_json::from_str(text).map_err(fault)?;
        if version.schema_version > SCHEMA_VERSION {
            return Err(ReportError::TooNew {
                found: version.schema_version,
                known: SCHEMA_VERSION,
            });
        }
        serde_json::from_str(text).map_err(fault)
    }

    /// As JSON, indented, for people and programs.
    ///
    /// # Errors
    /// [`ReportError::Encode`]; none is known to happen.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self).map_err(ReportError::Encode)?;
        text.push('\n');
        Ok(text)
    }

    /// As one self-contained HTML file.
    ///
    /// # Errors
    /// [`ReportError::Render`]; none is known to happen.
    pub fn to_html(&self) -> Result<String, ReportError> {
        html::render(self)
    }
}
