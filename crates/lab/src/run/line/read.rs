//! From a run's folder to its line, and from all folders to the list.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::SystemTime,
};

use tunesmith_protocol::RunStatus;

use super::{
    Figures, LineState, RunLine,
    records::{ManifestParts, SideParts, SummaryParts, read_parts},
};
use crate::{
    files::FileError,
    run::{
        MANIFEST, Manifest, RECIPE, Run, RunError, RunState, SUMMARY, adapter_in, checkpoint, ids, is_led,
    },
};

/// Fewest runs that are worth a thread of their own.
pub(super) const RUNS_PER_THREAD: usize = 64;

/// Time and length of the files that a line was read from: a line whose stamp has not changed is not read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    recipe: Option<(SystemTime, u64)>,
    manifest: Option<(SystemTime, u64)>,
    summary: Option<(SystemTime, u64)>,
    /// Looked at only while there is no summary: the figures are then drawn from the steps.
    events: Option<(SystemTime, u64)>,
    led: bool,
    adapter: bool,
    report: bool,
}

impl Stamp {
    fn of(folder: &Path) -> Self {
        let of_file = |name: &str| {
            let found = fs::metadata(folder.join(name)).ok()?;
            Some((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), found.len()))
        };
        let summary = of_file(SUMMARY);
        let over = summary.is_some();
        Self {
            recipe: of_file(RECIPE),
            manifest: of_file(MANIFEST),
            summary,
            events: if over { None } else { of_file("events.jsonl") },
            led: !over && is_led(folder),
            adapter: folder.join("adapter").exists(),
            report: folder.join("report.html").exists(),
        }
    }
}

impl RunLine {
    fn read(folder: &Path, id: &str, stamp: Stamp) -> Self {
        let line = match (stamp.recipe, stamp.manifest, stamp.summary) {
            (Some(_), Some(_), Some(_)) => Self::from_records(folder, id),
            // It has not ended, or it ended before it had begun: there are few of them, and less to skip in each.
            _ => Self::from_run(folder),
        };
        let line = line.unwrap_or_else(|reason| Self::broken(folder, &reason));
        Self { stamp, ..line }
    }

    /// From the two records of a run that is over.
    fn from_records(folder: &Path, id: &str) -> Result<Self, RunError> {
        let manifest = read_parts(&folder.join(MANIFEST), id, |parts: &ManifestParts| parts.version)?;
        let summary = read_parts(&folder.join(SUMMARY), id, |parts: &SummaryParts| parts.version)?;
        let state = RunState::Ended(summary.status);
        let points = |side: Option<&SideParts>| side.map(|side| side.points);
        let after = summary.evaluation.after.as_ref();
        Ok(Self {
            id: id.to_owned(),
            folder: folder.to_owned(),
            started: Some(manifest.created),
            recipe: manifest.recipe,
            title: manifest.title,
            model: Some(manifest.model.name),
            model_source: manifest.model.source,
            model_path: Some(manifest.model.path),
            data: Some(manifest.data.source),
            device: Some(manifest.device),
            engine: Some(manifest.engine.engine),
            backend: Some(manifest.engine.backend),
            predicted: manifest.predicted,
            memory: manifest.memory,
            process_bytes: summary.engine.and_then(|engine| engine.peak_process_bytes),
            config_hash: Some(manifest.config_hash),
            state: LineState::Run(state),
            reason: summary.reason,
            code: summary.failure.map(|failure| failure.code),
            figures: summary.training,
            before_points: points(summary.evaluation.before.as_ref()),
            after_points: points(after),
            after_half_width_points: after.and_then(|side| side.half_width_points),
            judge: summary.judge.findings.iter().map(|found| found.severity).max(),
            total_secs: Some(summary.timings.total_secs),
            resume_step: resume_step(folder, state, summary.training, summary.judge.last_good_step),
            has_adapter: summary
                .adapter
                .is_some_and(|adapter| adapter_in(&folder.join(adapter)).is_some()),
            has_report: folder.join("report.html").exists(),
            stamp: Stamp::default(),
        })
    }

    /// From all that is known of a run.
    pub(super) fn from_run(folder: &Path) -> Result<Self, RunError> {
        let run = Run::open(folder)?;
        let training = run.training()?;
        let manifest = run.manifest.as_ref();
        let summary = run.summary.as_ref();
        let evaluation = summary.map(|summary| &summary.evaluation);
        let before = evaluation.and_then(|evaluation| evaluation.before.as_ref());
        let after = evaluation.and_then(|evaluation| evaluation.after.as_ref());
        let model = &run.recipe.model;
        let data = &run.recipe.data;
        let file = |path: &Option<PathBuf>| {
            let name = path.as_ref()?.file_name()?;
            Some(name.to_string_lossy().into_owned())
        };
        Ok(Self {
            started: manifest
                .map(|manifest| manifest.created.clone())
                .or_else(|| time_in(&run.id)),
            recipe: run.recipe.name.clone(),
            title: run.recipe.title.clone(),
            model: manifest
                .map(|manifest| manifest.model.name.clone())
                .or_else(|| model.source.clone())
                .or_else(|| file(&model.path)),
            model_source: match manifest {
                Some(manifest) => manifest.model.source.clone(),
                None => model.source.clone(),
            },
            model_path: match manifest {
                Some(manifest) => Some(manifest.model.path.clone()),
                None => model.path.clone(),
            },
            data: manifest
                .map(|manifest| manifest.data.source.clone())
                .or_else(|| data.source.clone())
                .or_else(|| file(&data.path)),
            device: Some(
                manifest
                    .map_or(&run.recipe.train.device, |manifest| &manifest.device)
                    .clone(),
            ),
            engine: manifest.map(|manifest| manifest.engine.engine.clone()),
            backend: manifest.map(|manifest| manifest.engine.backend.clone()),
            predicted: manifest.and_then(|manifest| manifest.predicted),
            memory: manifest.and_then(|manifest| manifest.memory),
            process_bytes: summary
                .and_then(|summary| summary.engine.as_ref())
                .and_then(|engine| engine.peak_process_bytes),
            config_hash: manifest.map(|manifest: &Manifest| manifest.config_hash.clone()),
            state: LineState::Run(run.state),
            reason: run.reason(),
            code: summary
                .and_then(|summary| summary.failure.as_ref())
                .map(|failure| failure.code.clone()),
            figures: training.as_ref().map(Figures::from),
            before_points: before.map(|side| side.points),
            after_points: after.map(|side| side.points),
            after_half_width_points: after.and_then(|side| side.half_width_points),
            judge: summary.and_then(|summary| summary.judge.worst()),
            total_secs: summary.map(|summary| summary.timings.total_secs),
            resume_step: run.resume_step(),
            has_adapter: run.adapter().is_some(),
            has_report: run.report().is_some(),
            stamp: Stamp::default(),
            id: run.id,
            folder: run.folder,
        })
    }
}

/// All runs, oldest first, read by several threads. Lines of `known` whose files have not changed are taken as they
/// are, so that a list is brought up to date by handing in the one before. A broken folder is a line with its reason
/// and hides no other.
///
/// # Errors
/// [`FileError`] when the folder of all runs exists and cannot be read.
pub fn lines(runs_dir: &Path, known: &[Arc<RunLine>]) -> Result<Vec<Arc<RunLine>>, FileError> {
    let ids = ids(runs_dir)?;
    let known: HashMap<&str, &Arc<RunLine>> = known.iter().map(|line| (line.id.as_str(), line)).collect();
    let line = |id: &String| {
        let folder = runs_dir.join(id);
        let stamp = Stamp::of(&folder);
        match known.get(id.as_str()) {
            Some(line) if line.stamp == stamp && line.folder == folder => Arc::clone(line),
            _ => Arc::new(RunLine::read(&folder, id, stamp)),
        }
    };
    let threads = thread::available_parallelism().map_or(2, usize::from).min(8);
    let share = ids.len().div_ceil(threads).max(RUNS_PER_THREAD);
    Ok(thread::scope(|scope| {
        let parts: Vec<_> = ids
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(line).collect::<Vec<_>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| {
                part.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    }))
}

/// [`Run::resume_step`] without reading the journal, whose steps the summary has counted.
fn resume_step(
    folder: &Path,
    state: RunState,
    figures: Option<Figures>,
    last_good_step: Option<u64>,
) -> Option<u64> {
    if state == RunState::Ended(RunStatus::Ok) {
        return None;
    }
    let last = figures?.total_steps as u64;
    let recorded = last_good_step.map_or(last, |good| good.min(last));
    let newest = checkpoint::checkpoints(folder, recorded).into_iter().next()?;
    Some(newest.step)
}

/// When a run began, from its id `20260101-120000-…`.
pub(super) fn time_in(id: &str) -> Option<String> {
    let time = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", id.get(..15)?).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(time.timestamp().to_string())
}
