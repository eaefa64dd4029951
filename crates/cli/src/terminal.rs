//! Progress for people, on stderr: on a terminal one line that is drawn anew, else a line every few seconds.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    time::{Duration, Instant},
};

use tunesmith_lab::experiment::{ExperimentObserver, Phase, SlotUpdate};
use tunesmith_lab::pipeline::{Observer, Stage, Update};
use tunesmith_measure::judge::{Finding, Severity};
use tunesmith_protocol::{CalibrationStage, Level, Progress, Step};
use tunesmith_setup::{Report, human_bytes_if_known};

use crate::format::{duration, size};

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Time between two drawings on a terminal; drawing must not take time from what is measured.
const DRAW_EVERY: Duration = Duration::from_millis(500);

/// Shows a run on stderr.
pub(crate) struct Terminal {
    quiet: bool,
    redraws: bool,
    stage: Option<(Stage, Instant)>,
    shown: Option<Instant>,
    drawn_width: usize,
    last_step: Option<Step>,
    /// How far the training was after the step before.
    training: Option<Progress>,
}

impl Terminal {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            redraws: io::stderr().is_terminal(),
            stage: None,
            shown: None,
            drawn_width: 0,
            last_step: None,
            training: None,
        }
    }

    /// A line that stays.
    pub(crate) fn note(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        self.clear();
        // Without stderr there is nobody to tell.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Ends the line that is drawn anew.
    pub(crate) fn finish(&mut self) {
        self.end_stage();
        self.clear();
    }

    fn clear(&mut self) {
        if self.drawn_width > 0 {
            let _ = write!(io::stderr(), "\r{}\r", " ".repeat(self.drawn_width));
            self.drawn_width = 0;
        }
    }

    fn show(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        let every = if self.redraws { DRAW_EVERY } else { LINE_EVERY };
        if self.shown.is_some_and(|shown| shown.elapsed() < every) {
            return;
        }
        self.shown = Some(Instant::now());
        let mut stderr = io::stderr().lock();
        if self.redraws {
            let width = text.chars().count();
            let _ = write!(
                stderr,
                "\r{text}{}",
                " ".repeat(self.drawn_width.saturating_sub(width))
            );
            self.drawn_width = width;
        } else {
            let _ = writeln!(stderr, "{text}");
        }
        let _ = stderr.flush();
    }

    fn begin_stage(&mut self, stage: Stage) {
        self.end_stage();
        self.stage = Some((stage, Instant::now()));
        self.training = None;
        // A stage that is over within seconds needs no line.
        self.shown = (!self.redraws).then(Instant::now);
        if self.redraws {
            self.shown = None;
            self.show(&format!("{} …", stage.title()));
        }
    }

    fn end_stage(&mut self) {
        if let Some((stage, start)) = self.stage.take() {
            let time = duration(start.elapsed().as_secs_f64());
            let text = match self.last_step.take() {
                Some(Step {
                    step,
                    loss: Some(loss),
                    ..
                }) => {
                    format!("{}: step {step}, loss {loss:.3}, in {time}", stage.title())
                }
                _ => format!("{}: done in {time}", stage.title()),
            };
            if start.elapsed() > Duration::from_millis(500) {
                self.note(&text);
            }
        }
    }

    fn progress(&mut self, stage: Stage, progress: &Progress) {
        if stage == Stage::Train && progress.stage == "train" {
            self.training = Some(progress.clone());
            return;
        }
        let mut text = format!(
            "{}: {} {} of {}",
            stage.title(),
            progress.unit,
            progress.done,
            progress.total
        );
        if stage.name() != progress.stage && progress.stage != "answer" {
            text = format!(
                "{}: {}, {} {} of {}",
                stage.title(),
                progress.stage,
                progress.unit,
                progress.done,
                progress.total
            );
        }
        // Of a calibration the part at hand says more than seconds of a plan.
        if let Some(part) = CalibrationStage::named(&progress.stage) {
            text = format!("{}: {}", stage.title(), part.title());
        }
        if let Some(secs) = progress.eta_secs.filter(|secs| *secs > 0.5) {
            text += &left(secs);
        }
        self.show(&text);
    }

    fn step(&mut self, step: &Step, of: u64) {
        let before = match &self.last_step {
            Some(before) => Some(before.real_tokens),
            // The first step of a run that goes on counts the tokens before it too.
            None => (step.step == 1).then_some(0),
        };
        let speed = before.map_or_else(String::new, |before| {
            let tokens = step.real_tokens.saturating_sub(before) as f64;
            format!(", {:.0} tokens/s", tokens / step.dt_secs.max(1e-9))
        });
        let loss = step
            .loss
            .map_or_else(|| "not a number".to_owned(), |loss| format!("{loss:.3}"));
        // A training that its time box will end never comes to its last step.
        let boxed = self.training.as_ref().is_some_and(|far| far.total != of);
        let of = if boxed { String::new() } else { format!("/{of}") };
        let mut text = format!("training: step {}{of}, loss {loss}{speed}", step.step);
        let eta_secs = self.training.as_ref().and_then(|far| far.eta_secs);
        if let Some(secs) = eta_secs.filter(|secs| *secs > 0.5) {
            text += &left(secs);
        }
        self.last_step = Some(step.clone());
        self.show(&text);
    }

    /// What is red ends the run, and is told then.
    fn finding(&mut self, finding: &Finding) {
        if finding.severity == Severity::Amber {
            self.note(&amber(finding));
        }
    }

    /// A download; the last piece stays to be seen.
    pub(crate) fn fetched(&mut self, file: &str, done: u64, total: u64) {
        self.show(&format!("fetching {file}: {} of {}", size(done), size(total)));
    }

    /// What set-up is about to do, or how far it is.
    pub(crate) fn installing(&mut self, report: &Report) {
        match report {
            Report::Plan(plan) => self.note(&format!(
                "fetching {}: {} over the network, {} on disk in {} ({})",
                plan.what,
                human_bytes_if_known(plan.download_bytes),
                human_bytes_if_known(plan.disk_bytes),
                plan.into.display(),
                plan.licence
            )),
            Report::Command(command) => {
                for (path, content) in &command.files {
                    self.note(&format!("{} holds:\n{}", path.display(), content.trim_end()));
                }
                // Installing uv itself is one command that its stage has named already.
                let what = match (command.title.as_str(), command.why.as_str()) {
                    ("", _) => String::new(),
                    (title, "") => format!(" {title}"),
                    (title, why) => format!(" {title}: {why}"),
                };
                self.note(&format!(
                    "[{}/{}]{what}\n  {}",
                    command.number, command.total, command.command
                ));
            }
            Report::Progress(progress) => {
                let left = progress
                    .eta
                    .map_or_else(String::new, |eta| left(eta.as_secs_f64()));
                self.show(&format!(
                    "{}: {} of {}{left}",
                    progress.stage,
                    size(progress.done_bytes),
                    human_bytes_if_known(progress.total_bytes)
                ));
            }
            Report::Verifying(stage) => self.note(&format!("{stage}: checking what was installed")),
        }
    }

    fn run(&mut self, id: &str, folder: &Path) {
        self.note(&format!("run {id} in {}", folder.display()));
    }
}

impl ExperimentObserver for Terminal {
    fn slot(&mut self, update: &SlotUpdate<'_>) {
        self.end_stage();
        let place = format!(
            "[{}/{}] {}, seed {}",
            update.slot + 1,
            update.slots,
            update.arm,
            update.seed
        );
        let left = update
            .secs_left
            .filter(|secs| *secs > 0.5)
            .map(left)
            .unwrap_or_default();
        match &update.phase {
            Phase::WaitsForQuiet(sentence) => self.note(&format!("{place}: waiting, {sentence}")),
            Phase::Begins => self.note(&format!("{place}{left}")),
            Phase::IsRepeated(sentence) => self.note(&format!("{place}: once more, {sentence} meanwhile")),
            Phase::Ended(status) => self.note(&format!("{place}: {}", status.name())),
        }
    }
}

/// An amber finding: what was seen, what it means, what to try.
fn amber(finding: &Finding) -> String {
    let place = finding
        .step
        .map_or_else(String::new, |step| format!(" at step {step}"));
    let tried = finding.remedies.iter().map(|remedy| format!("\n  try: {remedy}"));
    format!(
        "amber: {}{place}: {}\n  it means: {}{}",
        finding.id.title(),
        finding.found,
        finding.means,
        tried.collect::<String>()
    )
}

fn left(secs: f64) -> String {
    format!(", about {} left", duration(secs))
}

impl Observer for Terminal {
    fn update(&mut self, update: Update<'_>) {
        match update {
            Update::Stage(stage) => self.begin_stage(stage),
            Update::Progress(stage, progress) => self.progress(stage, progress),
            Update::Step(step, of) => self.step(step, of),
            Update::Run(id, folder) => self.run(id, folder),
            Update::Finding(finding) => self.finding(finding),
            Update::Log(Level::Warn, text) => self.note(&format!("warning: {text}")),
            Update::Piece(_) | Update::Log(..) => {}
        }
    }
}
