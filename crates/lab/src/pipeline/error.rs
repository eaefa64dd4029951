//! One error for everything that can keep a job from being led, so that a program prints it in one place.

use tunesmith_data::DataError;
use tunesmith_measure::MeasureError;
use tunesmith_models::{ModelError, hub::HubError};
use tunesmith_protocol::EngineError;
use tunesmith_report::ReportError;
use tunesmith_setup::SetupError;
use tunesmith_setup::knowledge::KnowledgeError;
use tunesmith_setup::plan::PlanError;

use crate::{
    estimate::EstimateError,
    evaluate::EvaluateError,
    experiment::ExperimentError,
    files::FileError,
    recipe::RecipeError,
    run::RunError,
    supervisor::{Failure, SupervisorError},
    text_to_sql::TextToSqlError,
};

use super::ResumeError;

/// What can keep a job from being led.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The recipe.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The hub that the model comes from.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The question set.
    #[error(transparent)]
    TextToSql(#[from] TextToSqlError),
    /// The evaluation.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A run's folder.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run cannot go on.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// An experiment.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The engine.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// What should have been installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The knowledge files.
    #[error(transparent)]
    Knowledge(#[from] KnowledgeError),
    /// What to install.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A figure.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A job outside a run failed.
    #[error("{}", .0.message)]
    Job(Failure),
    /// The model that comes with the set-up is missing.
    #[error("the model smollm2-135m-instruct is not installed")]
    ModelNotInstalled,
    /// The user stopped.
    #[error("stopped; nothing was changed")]
    Stopped,
    /// What was asked for cannot be done with this run.
    #[error("{message}")]
    NotPossible {
        /// What cannot be done and why.
        message: String,
        /// What to do.
        hints: Vec<String>,
    },
}

impl From<EstimateError> for LabError {
    fn from(error: EstimateError) -> Self {
        match error {
            EstimateError::Plan(error) => Self::Plan(error),
            EstimateError::Measure(error) => Self::Measure(error),
        }
    }
}

impl LabError {
    /// Stable name of the fault.
    pub fn code(&self) -> String {
        let code = match self {
            Self::Recipe(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::Hub(error) => error.code(),
            Self::Data(error) => error.code(),
            Self::TextToSql(error) => error.code(),
            Self::Evaluate(error) => error.code(),
            Self::Run(error) => error.code(),
            Self::Resume(error) => error.code(),
            Self::Experiment(error) => error.code(),
            Self::Supervisor(error) => error.code(),
            Self::Setup(error) => error.code(),
            Self::Knowledge(error) => error.code(),
            Self::Plan(error) => error.code(),
            Self::Report(error) => error.code(),
            Self::Measure(error) => error.code(),
            Self::File(error) => error.code(),
            Self::Job(failure) => &failure.code,
            Self::ModelNotInstalled => "model_not_installed",
            Self::Stopped => "cancelled",
            Self::NotPossible { .. } => "not_possible",
        };
        code.to_owned()
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Recipe(error) => error.hints(),
            Self::Model(error) => error.hints(),
            Self::Hub(error) => error.hints(),
            Self::Data(error) => error.hints(),
            Self::TextToSql(error) => error.hints(),
            Self::Evaluate(error) => error.hints(),
            Self::Run(error) => error.hints(),
            Self::Resume(error) => error.hints(),
            Self::Experiment(error) => error.hints(),
            Self::Supervisor(error) => error.hints(),
            Self::Setup(error) => error.hints(),
            Self::Knowledge(error) => error.hints(),
            Self::Plan(error) => error.hints(),
            Self::Report(error) => error.hints(),
            Self::Measure(error) => error.hints(),
            Self::File(error) => error.hints(),
            Self::Job(failure) => failure.hints.clone(),
            Self::ModelNotInstalled => vec![
                "`tunesmith models fetch smollm2-135m-instruct` fetches it; --set model.path=… uses a model of your own".to_owned(),
            ],
            Self::Stopped => Vec::new(),
            Self::NotPossible { hints, .. } => hints.clone(),
        }
    }

    /// The engine's last lines, where it died.
    pub fn last_lines(&self) -> &[String] {
        match self {
            Self::Supervisor(error) => error.last_lines(),
            Self::Job(failure) => &failure.last_lines,
            _ => &[],
        }
    }

    /// Whether the user wanted it so.
    pub fn is_stop(&self) -> bool {
        matches!(
            self,
            Self::Stopped
                | Self::Supervisor(SupervisorError::Stopped)
                | Self::Hub(HubError::Stopped)
                | Self::Setup(SetupError::Cancelled { .. })
        )
    }

    /// As a failure for a run's summary.
    pub fn to_failure(&self) -> Failure {
        Failure {
            code: self.code(),
            message: self.to_string(),
            hints: self.hints(),
            last_lines: self.last_lines().to_vec(),
        }
    }
}

impl From<EngineError> for LabError {
    fn from(error: EngineError) -> Self {
        Self::Job(error.into())
    }
}
