//! How the stages show on standard error: one line each, with number, time, size and estimate. Standard output is
//! left to results.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use tunesmith_setup::{Progress, Report, human_bytes, human_bytes_if_known, human_duration};

/// Without a terminal a download shows this often.
const QUIET_INTERVAL: Duration = Duration::from_secs(10);

/// The numbered stages of one command.
pub(crate) struct Stages {
    total: usize,
    number: usize,
    name: String,
    start: Instant,
    terminal: bool,
    /// Width of the progress that stands on the current line, to be overwritten.
    shown: usize,
    last_shown: Option<Instant>,
    /// Ended stages: name, outcome, time.
    ended: Vec<(String, &'static str, Duration)>,
}

impl Stages {
    pub(crate) fn new(total: usize) -> Self {
        Self {
            total,
            number: 0,
            name: String::new(),
            start: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
            shown: 0,
            last_shown: None,
            ended: Vec::new(),
        }
    }

    /// Starts a stage that shows its own output; `note` says what to expect.
    pub(crate) fn begin(&mut self, name: &str, note: &str) {
        self.begin_quietly(name);
        eprintln!("{}: {note}", self.label());
    }

    /// Starts a stage that is over at once if there is nothing to do.
    pub(crate) fn begin_quietly(&mut self, name: &str) {
        self.number += 1;
        name.clone_into(&mut self.name);
        self.start = Instant::now();
        self.last_shown = None;
    }

    /// Ends the stage: `[2/6] uv: present (0.1 s)`.
    pub(crate) fn end(&mut self, outcome: &'static str) {
        self.clear_line();
        let took = self.start.elapsed();
        eprintln!("{}: {outcome} ({})", self.label(), human_duration(took));
        self.ended.push((self.name.clone(), outcome, took));
    }

    /// Ends the stage as failed, for the summary; the error itself is printed elsewhere.
    pub(crate) fn fail(&mut self) {
        self.clear_line();
        self.ended
            .push((self.name.clone(), "failed", self.start.elapsed()));
    }

    /// The name of the stage that runs.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Shows what a stage of set-up reports.
    pub(crate) fn report(&mut self, report: &Report) {
        match report {
            Report::Plan(plan) => {
                self.clear_line();
                eprintln!(
                    "{}: fetching {}: {} over the network, {} on disk in {} ({})",
                    self.label(),
                    plan.what,
                    human_bytes_if_known(plan.download_bytes),
                    human_bytes_if_known(plan.disk_bytes),
                    plan.into.display(),
                    plan.licence
                );
            }
            Report::Progress(progress) => self.progress(progress),
            // The builds' own stages are one command each, which the plan describes.
            Report::Command(_) | Report::Verifying(_) => {}
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let text = format!("{}: {}", self.label(), describe(progress));
        if self.terminal {
            let width = text.chars().count();
            let padding = " ".repeat(self.shown.saturating_sub(width));
            eprint!("\r{text}{padding}");
            // A progress line that cannot be written is no reason to stop.
            let _ = std::io::stderr().flush();
            self.shown = width;
        } else if self
            .last_shown
            .is_none_or(|last| last.elapsed() >= QUIET_INTERVAL)
        {
            eprintln!("{text}");
            self.last_shown = Some(Instant::now());
        }
    }

    fn clear_line(&mut self) {
        if self.shown > 0 {
            eprint!("\r{}\r", " ".repeat(self.shown));
            self.shown = 0;
        }
    }

    /// All ended stages with their times.
    pub(crate) fn print_summary(&self) {
        eprintln!();
        for (name, outcome, took) in &self.ended {
            eprintln!("{outcome:<10} {name:<28} {:>12}", human_duration(*took));
        }
    }

    fn label(&self) -> String {
        format!("[{}/{}] {}", self.number, self.total, self.name)
    }
}

fn describe(progress: &Progress) -> String {
    let eta = progress.eta.map_or_else(
        || "no estimate yet".to_owned(),
        |eta| format!("about {} left", human_duration(eta)),
    );
    format!(
        "{} of {}, {}, {eta}",
        human_bytes(progress.done_bytes),
        human_bytes_if_known(progress.total_bytes),
        human_duration(progress.elapsed)
    )
}
