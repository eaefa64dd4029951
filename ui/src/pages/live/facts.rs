//! What the folder of a run says, read in the background: at its beginning what its figures are counted with, at its
//! end what it came to.

use std::path::{Path, PathBuf};

use tunesmith_lab::{
    report_input::report_of,
    run::{Manifest, Run},
};
use tunesmith_measure::{LossSummary, SummaryContext, judge::Severity};
use tunesmith_protocol::Step;
use tunesmith_report::{Gain, Headline};

use crate::{problem, state::Problem};

/// What is known of a run once it trains.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// What its figures are counted with.
    pub context: SummaryContext,
    /// Why there is no measured peak to count against, where there is none.
    pub why_no_peak: Option<&'static str>,
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// Whether the base and the tuned model answer test questions.
    pub asks_questions: bool,
    /// The steps in its record: of a run that goes on, those before.
    pub recorded: Vec<Step>,
}

impl RunFacts {
    /// Reads them.
    ///
    /// # Errors
    /// A [`Problem`] where the folder cannot be read, or the run has no manifest yet.
    pub fn read(folder: &Path) -> Result<Self, Problem> {
        let run = Run::open(folder).map_err(|error| problem!(error))?;
        let context = run.context().map_err(|error| problem!(error))?;
        let (Some(context), Some(manifest)) = (context, &run.manifest) else {
            return Err(Problem::new(
                "no_manifest",
                format!("{} has no manifest, so its work cannot be counted", run.id),
                vec!["train the recipe again".to_owned()],
            ));
        };
        Ok(Self {
            why_no_peak: why_no_peak(manifest),
            device: manifest.device.clone(),
            asks_questions: run.recipe.asks_questions(),
            recorded: run.steps().map_err(|error| problem!(error))?,
            context,
        })
    }

    /// Whether the processor trains.
    pub fn on_cpu(&self) -> bool {
        self.device == "cpu"
    }
}

fn why_no_peak(manifest: &Manifest) -> Option<&'static str> {
    match (manifest.peaks.practical, &manifest.calibration) {
        (Some(_), _) => None,
        (None, None) => Some("no calibration was taken before this run"),
        (None, Some(_)) => Some("its calibration has no peak for the format that it trains in"),
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its id.
    pub run: String,
    /// Why it ended as it did, where it did not end well.
    pub reason: Option<String>,
    /// What is true of it, in the words of its report; nothing where it has no step.
    pub headline: Option<Headline>,
    /// Whether its numbers can be trusted.
    pub validity: Option<Headline>,
    /// What the training changed.
    pub gain: Option<Gain>,
    /// How the loss went.
    pub loss: Option<LossSummary>,
    /// The checks that were made.
    pub judged: Judged,
    /// Its adapter's folder.
    pub adapter: Option<PathBuf>,
    /// The step from which it can go on.
    pub resume_step: Option<u64>,
}

/// How many checks the judge made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// That were made.
    pub made: usize,
    /// That there are.
    pub all: usize,
    /// That were amber or red.
    pub notable: usize,
}

impl Outcome {
    /// Reads it.
    ///
    /// # Errors
    /// A [`Problem`] where the folder cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Problem> {
        let run = Run::open(folder).map_err(|error| problem!(error))?;
        let training = run.training().map_err(|error| problem!(error))?;
        let report = if training.is_some() {
            Some(report_of(&run).map_err(|error| problem!(error))?)
        } else {
            None
        };
        let (headline, validity, gain) = report.map_or((None, None, None), |report| {
            (Some(report.headline), Some(report.validity), report.gain)
        });
        Ok(Self {
            reason: run.reason(),
            headline,
            validity,
            gain,
            loss: training.and_then(|training| training.loss),
            judged: judged(&run),
            adapter: run.adapter(),
            resume_step: run.resume_step(),
            run: run.id,
        })
    }
}

fn judged(run: &Run) -> Judged {
    let Some(summary) = &run.summary else {
        return Judged::default();
    };
    let made = summary.judge.findings.len();
    let notable = |severity| severity != Severity::Green;
    Judged {
        made,
        all: made + summary.judge.not_checked.len(),
        notable: summary
            .judge
            .findings
            .iter()
            .filter(|finding| notable(finding.severity))
            .count(),
    }
}
