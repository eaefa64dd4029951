//! What the judge saw: a sentence while all is well, and for each thing that is not what was found, what it means and
//! what to try.

use serde::Serialize;
use tunesmith_measure::judge::{Finding, Judgement, Severity};

use crate::format::capitalised;

/// The section.
#[derive(Serialize)]
pub(super) struct JudgeView {
    sentence: String,
    /// What needs a look, the worst first.
    notable: Vec<FindingView>,
    /// All of it, in the order of the checks.
    all: Vec<FindingView>,
    not_checked: Vec<&'static str>,
}

#[derive(Serialize)]
struct FindingView {
    title: String,
    /// Name of a mark in the template.
    verdict: &'static str,
    severity: &'static str,
    place: String,
    found: String,
    means: String,
    remedies: Vec<String>,
}

impl FindingView {
    fn of(finding: &Finding) -> Self {
        Self {
            title: capitalised(finding.id.title()),
            verdict: match finding.severity {
                Severity::Green => "ok",
                Severity::Amber => "warn",
                Severity::Red => "stop",
            },
            severity: finding.severity.name(),
            place: finding
                .step
                .map_or_else(String::new, |step| format!("step {step}")),
            found: capitalised(&finding.found),
            means: capitalised(&finding.means),
            remedies: finding.remedies.iter().map(|text| capitalised(text)).collect(),
        }
    }
}

impl JudgeView {
    /// `None` for a run that was never judged.
    pub(super) fn of(judge: &Judgement) -> Option<Self> {
        let checks = number_of(judge.findings.len());
        let sentence = match judge.worst()? {
            Severity::Green => format!("{checks} made, and all are green."),
            Severity::Amber => format!("{checks} made; some are worth a look, and the training went on."),
            Severity::Red => {
                format!("{checks} made; at least one is red, so nothing here can be believed as it stands.")
            }
        };
        Some(Self {
            sentence,
            notable: judge.notable().into_iter().map(FindingView::of).collect(),
            all: judge.findings.iter().map(FindingView::of).collect(),
            not_checked: judge.not_checked.iter().map(|id| id.title()).collect(),
        })
    }
}

/// `19 checks were`, with the first few numbers as words.
fn number_of(checks: usize) -> String {
    match checks {
        1 => "One check was".to_owned(),
        2 => "Two checks were".to_owned(),
        3 => "Three checks were".to_owned(),
        many => format!("{many} checks were"),
    }
}
