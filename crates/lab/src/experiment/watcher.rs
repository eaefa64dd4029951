//! Stands between a run of an experiment and who shows it.

use std::path::{Path, PathBuf};

use tunesmith_protocol::StopHow;

use crate::{
    pipeline::{Observer, Stage, Update},
    run::{Run, now},
    stop::StopToken,
};

use super::{
    ExperimentError, ExperimentObserver, Surroundings,
    record::{Folder, Line},
};

/// Notes the run before it trains, and sees that its surroundings are those of
/// the experiment's earlier runs.
pub(super) struct Watcher<'a> {
    folder: &'a Folder,
    slot: usize,
    before: Option<&'a Surroundings>,
    run: Option<PathBuf>,
    fault: Option<ExperimentError>,
    stop: StopToken,
    inner: &'a mut dyn ExperimentObserver,
}

impl<'a> Watcher<'a> {
    /// For the run of a slot; `before` are the surroundings of the experiment's earlier runs.
    pub(super) fn new(
        folder: &'a Folder,
        slot: usize,
        before: Option<&'a Surroundings>,
        stop: StopToken,
        inner: &'a mut dyn ExperimentObserver,
    ) -> Self {
        Self {
            folder,
            slot,
            before,
            run: None,
            fault: None,
            stop,
            inner,
        }
    }

    /// What the run was ended for, where it was ended from here.
    pub(super) fn into_fault(self) -> Option<ExperimentError> {
        self.fault
    }

    fn begun(&mut self, id: &str, folder: &Path) {
        self.run = Some(folder.to_owned());
        let line = Line::Run {
            slot: self.slot,
            run: id.to_owned(),
            at: now(),
        };
        if let Err(error) = self.folder.append(&line) {
            self.end(error);
        }
    }

    /// The manifest is written before the first stage behind the run's beginning.
    fn compare_surroundings(&mut self) {
        let (Some(folder), Some(before)) = (&self.run, self.before) else {
            return;
        };
        let manifest = Run::open(folder).ok().and_then(|run| run.manifest);
        let Some(now) = manifest.as_ref().map(Surroundings::of) else {
            return;
        };
        if let Some((what, before, now)) = before.difference(&now) {
            self.end(ExperimentError::Surroundings {
                what: what.to_owned(),
                before,
                now,
            });
        }
    }

    /// Nothing more can be measured.
    fn end(&mut self, error: ExperimentError) {
        self.fault.get_or_insert(error);
        self.stop.ask(StopHow::Now);
    }
}

impl Observer for Watcher<'_> {
    fn update(&mut self, update: Update<'_>) {
        match update {
            Update::Run(id, folder) => self.begun(id, folder),
            Update::Stage(Stage::EvaluateBefore | Stage::Train) if self.fault.is_none() => {
                self.compare_surroundings();
            }
            _ => {}
        }
        self.inner.update(update);
    }
}
