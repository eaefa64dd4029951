//! The judge: tells from what an engine says, and from what its rows hold, whether a training can be believed.
//!
//! A training that learns nothing often looks like any other: the loss falls, the time passes, an adapter is saved.
//! Every such fault that is known has a check here. It is arithmetic on numbers that any engine emits, so the same
//! judge sits over every engine. Before the run it looks at the rows, at the first steps at what the engine found out
//! about itself, and to the end at every step. Thresholds are data: `assets/knowledge/judge.toml`.

mod checks;
mod finding;
mod rows;
mod steps;
mod thresholds;

use std::collections::BTreeMap;

use tunesmith_protocol::{Check, DType, Quantization, RunStatus, Step};

pub use finding::{CheckId, Finding, Judgement, Severity};
pub use rows::{AdapterFacts, RowFacts};
pub use thresholds::{Threshold, Thresholds};

use checks::Told;
use steps::Course;

/// What the judge has to know of a training before it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// Format of frozen weights and activations: how far rounding may go.
    pub dtype: DType,
    /// How the frozen linear weights are stored.
    pub quantization: Quantization,
    /// Rows of one optimizer step.
    pub rows_per_step: u64,
    /// Whether the adapter begins as nothing (B is zero) and not as one that was trained before.
    pub fresh_adapter: bool,
    /// What the rows hold.
    pub rows: RowFacts,
}

/// Looks at one training. Every method gives what is newly amber or red; [`Judge::judgement`] has all of it.
#[derive(Clone, Debug)]
pub struct Judge {
    limits: Thresholds,
    facts: RunFacts,
    told: Told,
    course: Course,
    findings: BTreeMap<CheckId, Finding>,
}

impl Judge {
    /// A judge of one training.
    pub fn new(limits: Thresholds, facts: RunFacts) -> Self {
        Self {
            limits,
            facts,
            told: Told::default(),
            course: Course::default(),
            findings: BTreeMap::new(),
        }
    }

    /// Before the run: what the rows hold.
    pub fn rows(&mut self) -> Vec<Finding> {
        let found = rows::look_at_rows(&self.facts.rows, &self.limits);
        self.note(found)
    }

    /// Before the run: an adapter that is trained further, against the base that it is put on.
    pub fn adapter(&mut self, adapter: &AdapterFacts) -> Vec<Finding> {
        let found = rows::look_at_adapter(adapter);
        self.note(vec![found])
    }

    /// A number that the engine found out about itself.
    pub fn check(&mut self, check: &Check) -> Vec<Finding> {
        let found = self.told.look(check, &self.facts, &self.limits);
        self.nothing_is_good_after(&found);
        self.note(found)
    }

    /// A step. Of a run that goes on from a checkpoint, the steps before it come first.
    pub fn step(&mut self, step: &Step) -> Vec<Finding> {
        let mut found: Vec<Finding> = self
            .told
            .first_loss(step, &self.facts, &self.limits)
            .into_iter()
            .collect();
        self.nothing_is_good_after(&found);
        found.extend(self.course.look(step, &self.facts, &self.limits));
        self.note(found)
    }

    /// After the steps and checks of before a checkpoint: the run goes on in another process, whose memory and pace are
    /// its own.
    pub fn goes_on(&mut self) {
        self.course.goes_on();
        for id in [CheckId::StepTime, CheckId::Memory] {
            self.findings.remove(&id);
        }
    }

    /// The end of the training, however it came.
    pub fn end(&mut self, status: RunStatus) -> Vec<Finding> {
        let mut found = self.course.end(status);
        // Of a training that was cut short nobody expects that it has come anywhere.
        if matches!(status, RunStatus::Ok | RunStatus::TimeBoxed) {
            found.extend(self.course.fell(&self.limits));
            let moved: Vec<Finding> = self.told.end(self.course.moved()).into_iter().collect();
            self.nothing_is_good_after(&moved);
            found.extend(moved);
        }
        self.note(found)
    }

    /// All that was seen.
    pub fn judgement(&self) -> Judgement {
        Judgement {
            findings: self.findings.values().cloned().collect(),
            not_checked: CheckId::ALL
                .into_iter()
                .filter(|id| !self.findings.contains_key(id))
                .collect(),
            last_good_step: self.course.last_good(),
        }
    }

    /// What an engine finds wrong with itself was wrong from the first step on.
    fn nothing_is_good_after(&mut self, found: &[Finding]) {
        if found.iter().any(|finding| finding.severity == Severity::Red) {
            self.course.bad(1);
        }
    }

    /// Keeps the worst of each check; of equally bad ones the first, which is nearest to the cause.
    fn note(&mut self, found: Vec<Finding>) -> Vec<Finding> {
        let mut news = Vec::new();
        for finding in found {
            let before = self.findings.get(&finding.id).map(|before| before.severity);
            if before.is_none_or(|before| before < finding.severity) {
                if finding.severity > Severity::Green {
                    news.push(finding.clone());
                }
                self.findings.insert(finding.id, finding);
            } else if finding.severity == Severity::Green && before == Some(Severity::Green) {
                // The newest numbers stand beside a check that is well.
                self.findings.insert(finding.id, finding);
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;
