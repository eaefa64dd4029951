//! The scorecard as the page shows it.

use serde::Serialize;

use crate::format::plural;
use crate::scorecard::{Score, State};

#[derive(Serialize)]
pub(super) struct ScorecardView {
    sentence: String,
    rows: Vec<ScoreRow>,
}

#[derive(Serialize)]
struct ScoreRow {
    what: String,
    /// Name of a mark in the template.
    mark: &'static str,
    state: &'static str,
    concern: &'static str,
    seen: String,
    evidence: &'static str,
}

impl ScorecardView {
    pub(super) fn of(scores: &[Score]) -> Self {
        let count = |state: State| scores.iter().filter(|score| score.state == state).count();
        let parts: Vec<String> = State::ALL
            .into_iter()
            .filter(|state| count(*state) > 0)
            .map(|state| match state {
                State::Works => format!("{} as is", count(state)),
                State::Workaround => plural(count(state) as u64, "workaround"),
                State::Fails if count(state) == 1 => "1 that does not work".to_owned(),
                State::Fails => format!("{} that do not work", count(state)),
                State::NotUsed => format!("{} not used", count(state)),
                State::NotTested => format!("{} not tested", count(state)),
            })
            .collect();
        Self {
            sentence: if parts.is_empty() {
                String::new()
            } else {
                format!("{}.", parts.join(", "))
            },
            rows: scores
                .iter()
                .map(|score| ScoreRow {
                    what: score.what.clone(),
                    mark: match score.state {
                        State::Works => "ok",
                        State::Workaround => "warn",
                        State::Fails => "stop",
                        State::NotUsed => "note",
                        State::NotTested => "unknown",
                    },
                    state: score.state.name(),
                    concern: score.concern.name(),
                    seen: score.seen.clone(),
                    evidence: score.evidence.name(),
                })
                .collect(),
        }
    }
}
