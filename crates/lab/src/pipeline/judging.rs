//! The judge over a run: fed with facts about rows and adapter and with every event, it stops the run where something
//! is red. The verdicts themselves are arithmetic and lie in `tunesmith_measure::judge`.

use tunesmith_data::{DataError, RowsReport};
use tunesmith_measure::judge::{
    AdapterFacts, CheckId, Finding, Judge, Judgement, RowFacts, RunFacts, Severity, Thresholds,
};
use tunesmith_protocol::{Base, DType, Event, RunStatus, StopHow};

use crate::{
    recipe::Recipe,
    run::{Entry, LabLine, Manifest},
    supervisor::{Failure, Halt, Verdict},
};

use super::{LabError, Observer, Stage, Update};

/// One run's judge.
pub(super) struct Judging {
    judge: Judge,
    adapter: Option<AdapterFacts>,
}

impl Judging {
    pub(super) fn new(recipe: &Recipe, manifest: &Manifest) -> Result<Self, LabError> {
        let dtype = recipe.dtype(&manifest.device);
        let adapter = manifest.adapter.as_ref().map(|adapter| AdapterFacts {
            trained_on: adapter.base.clone(),
            put_on: Base {
                fingerprint: Some(manifest.model.fingerprint.clone()),
                dtype,
                quantization: recipe.model.quantization,
            },
        });
        Ok(Self {
            judge: judge(
                recipe,
                dtype,
                manifest.adapter.is_none(),
                facts_of(&manifest.data.report),
            )?,
            adapter,
        })
    }

    /// A run whose rows could not even be made.
    pub(super) fn of_rows_that_failed(recipe: &Recipe, facts: RowFacts) -> Result<Self, LabError> {
        Ok(Self {
            judge: judge(recipe, DType::F32, true, facts)?,
            adapter: None,
        })
    }

    /// Before the run.
    pub(super) fn begin(&mut self, observer: &mut dyn Observer) -> Verdict {
        let mut found = self.judge.rows();
        if let Some(adapter) = &self.adapter {
            found.extend(self.judge.adapter(adapter));
        }
        self.tell(&found, observer)
    }

    /// Takes up what was judged of the training before it was cut short, without a word.
    pub(super) fn catch_up(&mut self, entries: &[Entry], from_step: u64) {
        let mut training = false;
        for entry in entries {
            match entry {
                Entry::Lab(LabLine::Stage { stage, .. }) => training = stage == Stage::Train.name(),
                Entry::Engine(event) => {
                    if let (true, Event::Check(check)) = (training, event.as_ref()) {
                        self.judge.check(check);
                    }
                }
                Entry::Lab(LabLine::Resume { .. }) => {}
            }
        }
        for step in crate::run::steps_of(entries) {
            if step.step <= from_step {
                self.judge.step(&step);
            }
        }
        self.judge.goes_on();
    }

    /// An event of the training.
    pub(super) fn look(&mut self, event: &Event, observer: &mut dyn Observer) -> Verdict {
        let found = match event {
            Event::Check(check) => self.judge.check(check),
            Event::Step(step) => self.judge.step(step),
            _ => return None,
        };
        self.tell(&found, observer)
    }

    /// The end of the training.
    pub(super) fn end(&mut self, status: RunStatus, observer: &mut dyn Observer) -> Verdict {
        let found = self.judge.end(status);
        self.tell(&found, observer)
    }

    pub(super) fn judgement(&self) -> Judgement {
        self.judge.judgement()
    }

    fn tell(&self, found: &[Finding], observer: &mut dyn Observer) -> Verdict {
        for finding in found {
            observer.update(Update::Finding(finding));
        }
        let red = found.iter().find(|finding| finding.severity == Severity::Red)?;
        Some(Halt {
            status: if red.id == CheckId::Finite {
                RunStatus::Nan
            } else {
                RunStatus::Invalid
            },
            failure: failure(red),
            how: self.how_to_stop(red),
        })
    }

    /// What the engine holds is worth saving where the last step is a good one; where it is not, saving would push out
    /// a good checkpoint.
    fn how_to_stop(&self, red: &Finding) -> StopHow {
        if red.step.is_some() && self.judgement().last_good_step == red.step {
            StopHow::Save
        } else {
            StopHow::AfterStep
        }
    }
}

fn judge(recipe: &Recipe, dtype: DType, fresh_adapter: bool, rows: RowFacts) -> Result<Judge, LabError> {
    let batch = recipe.batch();
    Ok(Judge::new(
        Thresholds::bundled()?,
        RunFacts {
            dtype,
            quantization: recipe.model.quantization,
            rows_per_step: (batch.micro_batch * batch.accumulation) as u64,
            fresh_adapter,
            rows,
        },
    ))
}

fn failure(red: &Finding) -> Failure {
    Failure {
        code: red.id.name().to_owned(),
        message: format!("{}; {}", red.found, red.means),
        hints: red.remedies.clone(),
        last_lines: Vec::new(),
    }
}

fn facts_of(report: &RowsReport) -> RowFacts {
    RowFacts {
        rows: report.rows as u64,
        real_tokens: report.real_tokens as u64,
        supervised_tokens: report.supervised_tokens as u64,
        longest: report.longest as u64,
        shortest: report.shortest as u64,
        fewest_supervised: report.fewest_supervised as u64,
        most_supervised: report.most_supervised as u64,
        answers: report.answers as u64,
        answer_tokens: report.answer_tokens as u64,
        answers_outside: report.answers_outside as u64,
        ends_untrained: report.ends_untrained as u64,
        largest_token: u64::from(report.largest_token),
        vocabulary: report.vocabulary as u64,
        pad_is_end: report.pad_is_end,
        template_changed: None,
        sample: excerpt(&report.sample.to_string()),
    }
}

/// A sample that fits into a sentence.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.replace(['\n', '\r'], " ");
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// What a refusal of the data tells the judge, where the fault is one that a training would hide.
pub(super) fn facts_of_error(error: &DataError) -> Option<RowFacts> {
    match error {
        DataError::TemplatePrefix { .. } => Some(RowFacts {
            template_changed: Some(error.to_string()),
            ..RowFacts::default()
        }),
        DataError::OutsideVocabulary {
            token, vocabulary, ..
        } => Some(RowFacts {
            largest_token: u64::from(*token),
            vocabulary: *vocabulary as u64,
            ..RowFacts::default()
        }),
        _ => None,
    }
}
