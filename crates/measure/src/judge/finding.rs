//! What the judge says: one finding a check, in words that anybody can act on.

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Green,
    /// Worth a look; the run goes on.
    Amber,
    /// The run cannot be believed and is stopped.
    Red,
}

impl Severity {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Amber => "amber",
            Self::Red => "red",
        }
    }
}

/// The checks, in the order in which they are made. Their names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckId {
    /// The chat template leaves the text before an answer as it was.
    TemplatePrefix,
    /// There is something to learn.
    SupervisedShare,
    /// The prompt is not trained.
    PromptInLoss,
    /// The whole answer is trained.
    AnswerInLoss,
    /// The end of the answer is trained, also where the padding token is the end token.
    EndToken,
    /// Every token is in the model's vocabulary.
    LargestToken,
    /// An adapter is trained further on the base that it was made for (T8).
    AdapterBase,
    /// The trainer computes the loss that a plain forward pass has.
    PlainLoss,
    /// One batch of k rows and k batches of one row have the same gradient (T4).
    GradientScale,
    /// The first loss is that of the base model (T1).
    FirstLoss,
    /// Every adapter gets a gradient (T5).
    DeadAdapters,
    /// Loss and gradient are numbers (T7).
    Finite,
    /// The gradient is above zero (M14).
    GradientAboveZero,
    /// The loss falls (T1).
    LossFalls,
    /// Steps do not get slower.
    StepTime,
    /// Memory does not grow.
    Memory,
    /// Token counts are what the rows hold (M15).
    TokenCounts,
    /// Steps count (M14).
    ValidSteps,
    /// The adapter is another one after the training than before.
    AdapterMoved,
    /// The base model's weights are the same, bit for bit (T9).
    BaseUnchanged,
}

impl CheckId {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::TemplatePrefix,
        Self::SupervisedShare,
        Self::PromptInLoss,
        Self::AnswerInLoss,
        Self::EndToken,
        Self::LargestToken,
        Self::AdapterBase,
        Self::PlainLoss,
        Self::GradientScale,
        Self::FirstLoss,
        Self::DeadAdapters,
        Self::Finite,
        Self::GradientAboveZero,
        Self::LossFalls,
        Self::StepTime,
        Self::Memory,
        Self::TokenCounts,
        Self::ValidSteps,
        Self::AdapterMoved,
        Self::BaseUnchanged,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::TemplatePrefix => "template_prefix",
            Self::SupervisedShare => "supervised_share",
            Self::PromptInLoss => "prompt_in_loss",
            Self::AnswerInLoss => "answer_in_loss",
            Self::EndToken => "end_token",
            Self::LargestToken => "largest_token",
            Self::AdapterBase => "adapter_base",
            Self::PlainLoss => "plain_loss",
            Self::GradientScale => "gradient_scale",
            Self::FirstLoss => "first_loss",
            Self::DeadAdapters => "dead_adapters",
            Self::Finite => "finite",
            Self::GradientAboveZero => "gradient_above_zero",
            Self::LossFalls => "loss_falls",
            Self::StepTime => "step_time",
            Self::Memory => "memory",
            Self::TokenCounts => "token_counts",
            Self::ValidSteps => "valid_steps",
            Self::AdapterMoved => "adapter_moved",
            Self::BaseUnchanged => "base_unchanged",
        }
    }

    /// What is looked at, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::TemplatePrefix => "chat template",
            Self::SupervisedShare => "something to learn",
            Self::PromptInLoss => "prompt left out of the loss",
            Self::AnswerInLoss => "whole answers in the loss",
            Self::EndToken => "end of the answers",
            Self::LargestToken => "tokens within the vocabulary",
            Self::AdapterBase => "base of the adapter",
            Self::PlainLoss => "loss in plain and in trainer mode",
            Self::GradientScale => "scale of the gradient",
            Self::FirstLoss => "first loss",
            Self::DeadAdapters => "gradient of every adapter",
            Self::Finite => "loss and gradient are numbers",
            Self::GradientAboveZero => "gradient above zero",
            Self::LossFalls => "loss falls",
            Self::StepTime => "step time",
            Self::Memory => "memory",
            Self::TokenCounts => "token counts",
            Self::ValidSteps => "steps that count",
            Self::AdapterMoved => "adapter has changed",
            Self::BaseUnchanged => "base model unchanged",
        }
    }
}

/// What one check saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which check.
    pub id: CheckId,
    /// How bad it is.
    pub severity: Severity,
    /// The step at which it was seen, where it was at one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// What was seen, with numbers; a clause without a full stop.
    pub found: String,
    /// What it means; empty where all is well.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub means: String,
    /// What to do, one sentence each.
    #[serde(default, rename = "try", skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
}

impl Finding {
    pub(super) fn green(id: CheckId, found: impl Into<String>) -> Self {
        Self {
            id,
            severity: Severity::Green,
            step: None,
            found: found.into(),
            means: String::new(),
            remedies: Vec::new(),
        }
    }

    pub(super) fn amber(id: CheckId, found: impl Into<String>, means: &str, remedies: &[&str]) -> Self {
        Self {
            severity: Severity::Amber,
            means: means.to_owned(),
            remedies: remedies.iter().map(|text| (*text).to_owned()).collect(),
            ..Self::green(id, found)
        }
    }

    pub(super) fn red(id: CheckId, found: impl Into<String>, means: &str, remedies: &[&str]) -> Self {
        Self {
            severity: Severity::Red,
            ..Self::amber(id, found, means, remedies)
        }
    }

    pub(super) fn at(self, step: u64) -> Self {
        Self {
            step: Some(step),
            ..self
        }
    }
}

/// What the judge says of a training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// One finding for every check that was made, in the order of [`CheckId::ALL`].
    pub findings: Vec<Finding>,
    /// Checks that were not made: what they need was not told, or did not come to pass.
    #[serde(default)]
    pub not_checked: Vec<CheckId>,
    /// The last step before anything was red, where there was a step.
    #[serde(default)]
    pub last_good_step: Option<u64>,
}

impl Judgement {
    /// The worst of all; `None` where nothing was checked.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The findings that need a look, the worst first.
    pub fn notable(&self) -> Vec<&Finding> {
        let of = |severity| {
            self.findings
                .iter()
                .filter(move |finding| finding.severity == severity)
        };
        of(Severity::Red).chain(of(Severity::Amber)).collect()
    }
}
