//! The list of runs as a window shows it: a short line for each folder, read without the curves that it does not
//! need. Ten thousand runs are listed in the time that reading all of each would take for a few hundred.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::SystemTime,
};

use serde::{Deserialize, de::DeserializeOwned};
use tunesmith_measure::{LossSummary, MemoryNeed, Mfu, Spread, TrainingSummary, judge::Severity};
use tunesmith_protocol::RunStatus;

use super::{
    MANIFEST, Manifest, MemoryRecord, RECIPE, RECORD_VERSION, Run, RunError, RunState, SUMMARY, adapter_in,
    checkpoint, ids, is_led,
};
use crate::files::FileError;

/// Fewest runs that are worth a thread of their own.
const RUNS_PER_THREAD: usize = 64;

/// Where a line of the list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// It is a run.
    Run(RunState),
    /// The folder cannot be read as a run; [`RunLine::reason`] says why.
    Broken,
}

impl LineState {
    /// The name in lists: that of [`RunState::name`], or `broken`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run(state) => state.name(),
            Self::Broken => "broken",
        }
    }

    /// Whether a process leads the run right now.
    pub fn is_running(self) -> bool {
        self == Self::Run(RunState::Running)
    }
}

/// What a list, a comparison or a chart of many runs needs of one. What the record does not tell is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLine {
    /// Its id, which is its folder's name.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// When it began, RFC 3339 in UTC.
    pub started: Option<String>,
    /// Name of the recipe; empty where the folder is broken.
    pub recipe: String,
    /// Title of the recipe; may be empty.
    pub title: String,
    /// Name of the model.
    pub model: Option<String>,
    /// Of a model from a hub its id, at the exact commit once the run has begun; of the default model its name.
    pub model_source: Option<String>,
    /// Where the model lay.
    pub model_path: Option<PathBuf>,
    /// Name of the data set, or of its file.
    pub data: Option<String>,
    /// Device: `cpu` or `cuda:N`.
    pub device: Option<String>,
    /// Name of the engine that trained.
    pub engine: Option<String>,
    /// What the engine's torch calls the kind of device: `cpu`, `cuda` or `hip`.
    pub backend: Option<String>,
    /// The memory that it should need by formula, see [`Manifest::predicted`].
    pub predicted: Option<MemoryNeed>,
    /// What that formula was asked, see [`Manifest::memory`].
    pub memory: Option<MemoryRecord>,
    /// Most memory that the engine's process held, in bytes.
    pub process_bytes: Option<u64>,
    /// SHA-256 over everything that changes the result: runs that share it are repeats of one experiment.
    pub config_hash: Option<String>,
    /// Where it stands.
    pub state: LineState,
    /// Why it ended as it did, or why the folder cannot be read.
    pub reason: Option<String>,
    /// Stable name of what went wrong, where the record or the reader has one.
    pub code: Option<String>,
    /// Figures of the training, where there was a step.
    pub figures: Option<Figures>,
    /// Execution match of the base model, in points, 0 to 100.
    pub before_points: Option<f64>,
    /// Execution match of the tuned model, in points, 0 to 100.
    pub after_points: Option<f64>,
    /// Half-width of the 95 % interval of [`Self::after_points`], in points (E4).
    pub after_half_width_points: Option<f64>,
    /// The judge's worst finding; `None` where nothing was checked.
    pub judge: Option<Severity>,
    /// Seconds that the whole run took.
    pub total_secs: Option<f64>,
    /// The step from which it can probably go on, see [`Run::resume_step`].
    pub resume_step: Option<u64>,
    /// Whether there is an adapter.
    pub has_adapter: bool,
    /// Whether a report was written.
    pub has_report: bool,
    /// What the line was read from.
    pub stamp: Stamp,
}

/// The figures of a training without its curve. They are those of [`TrainingSummary`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Figures {
    /// Steps recorded.
    pub total_steps: usize,
    /// Steps that count (M14).
    pub valid_steps: usize,
    /// The loss, in nats per supervised token.
    pub loss: Option<LossSummary>,
    /// Real tokens a second over the steady window (M6).
    pub steady_tokens_per_sec: Option<f64>,
    /// Wall time of a step, in seconds, over the steady window.
    pub step_secs: Option<Spread>,
    /// Most memory that the device's allocator held.
    pub peak_bytes: Option<u64>,
    /// LoRA-exact operations against the measured peak (M2).
    #[serde(rename = "mfu", deserialize_with = "practical_of_mfu", default)]
    pub mfu_exact_practical: Option<Mfu>,
}

impl From<&TrainingSummary> for Figures {
    fn from(training: &TrainingSummary) -> Self {
        Self {
            total_steps: training.total_steps,
            valid_steps: training.valid_steps,
            loss: training.loss,
            steady_tokens_per_sec: training.steady_tokens_per_sec,
            step_secs: training.step_secs,
            peak_bytes: training.peak_bytes,
            mfu_exact_practical: training.mfu.and_then(|mfu| mfu.lora_exact.practical),
        }
    }
}

/// Of a report on MFU only this is listed.
fn practical_of_mfu<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Mfu>, D::Error> {
    #[derive(Deserialize)]
    struct Report {
        lora_exact: Pair,
    }
    #[derive(Deserialize)]
    struct Pair {
        practical: Option<Mfu>,
    }
    let report = Option::<Report>::deserialize(deserializer)?;
    Ok(report.and_then(|report| report.lora_exact.practical))
}

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
    /// A folder that cannot be read as a run.
    pub fn broken(folder: &Path, reason: &RunError) -> Self {
        let id = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Self {
            started: time_in(&id),
            id,
            folder: folder.to_owned(),
            recipe: String::new(),
            title: String::new(),
            model: None,
            model_source: None,
            model_path: None,
            data: None,
            device: None,
            engine: None,
            backend: None,
            predicted: None,
            memory: None,
            process_bytes: None,
            config_hash: None,
            state: LineState::Broken,
            reason: Some(reason.to_string()),
            code: Some(reason.code().to_owned()),
            figures: None,
            before_points: None,
            after_points: None,
            after_half_width_points: None,
            judge: None,
            total_secs: None,
            resume_step: None,
            has_adapter: false,
            has_report: false,
            stamp: Stamp::default(),
        }
    }

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
    fn from_run(folder: &Path) -> Result<Self, RunError> {
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
fn time_in(id: &str) -> Option<String> {
    let time = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", id.get(..15)?).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(time.timestamp().to_string())
}

/// What a list needs of a manifest; the rest is passed over.
#[derive(Deserialize)]
struct ManifestParts {
    #[serde(default)]
    version: u32,
    created: String,
    config_hash: String,
    recipe: String,
    title: String,
    device: String,
    engine: EngineParts,
    model: ModelParts,
    data: DataParts,
    #[serde(default)]
    predicted: Option<MemoryNeed>,
    #[serde(default)]
    memory: Option<MemoryRecord>,
}

#[derive(Deserialize)]
struct EngineParts {
    engine: String,
    backend: String,
}

#[derive(Deserialize)]
struct StatsParts {
    #[serde(default)]
    peak_process_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct ModelParts {
    name: String,
    source: Option<String>,
    path: PathBuf,
}

#[derive(Deserialize)]
struct DataParts {
    source: String,
}

/// What a list needs of a summary; the rest, above all the curve, is passed over.
#[derive(Deserialize)]
struct SummaryParts {
    #[serde(default)]
    version: u32,
    status: RunStatus,
    reason: Option<String>,
    failure: Option<FailureParts>,
    #[serde(default)]
    judge: JudgeParts,
    training: Option<Figures>,
    engine: Option<StatsParts>,
    evaluation: EvaluationParts,
    adapter: Option<PathBuf>,
    timings: TimingParts,
}

#[derive(Deserialize)]
struct FailureParts {
    code: String,
}

#[derive(Default, Deserialize)]
struct JudgeParts {
    findings: Vec<FindingParts>,
    #[serde(default)]
    last_good_step: Option<u64>,
}

#[derive(Deserialize)]
struct FindingParts {
    severity: Severity,
}

#[derive(Deserialize)]
struct EvaluationParts {
    before: Option<SideParts>,
    after: Option<SideParts>,
}

#[derive(Deserialize)]
struct SideParts {
    points: f64,
    half_width_points: Option<f64>,
}

#[derive(Deserialize)]
struct TimingParts {
    total_secs: f64,
}

/// Reads of a JSON record what `T` names and passes over the rest.
fn read_parts<T: DeserializeOwned>(path: &Path, id: &str, version: fn(&T) -> u32) -> Result<T, RunError> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(default)]
        version: u32,
    }
    let too_new = |found: u32| RunError::TooNew {
        id: id.to_owned(),
        found,
    };
    let bytes = fs::read(path).map_err(|source| FileError::new(path, "read", source))?;
    match serde_json::from_slice::<T>(&bytes) {
        Ok(parts) if version(&parts) > RECORD_VERSION => Err(too_new(version(&parts))),
        Ok(parts) => Ok(parts),
        // What a later version wrote need not have this form.
        Err(error) => match serde_json::from_slice::<Version>(&bytes) {
            Ok(later) if later.version > RECORD_VERSION => Err(too_new(later.version)),
            _ => Err(RunError::Damaged {
                path: path.to_owned(),
                reason: error.to_string(),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recipe::Recipe,
        run::LiveRun,
        testing::{TestRun, write_checkpoint},
    };

    fn listed(runs: &Path) -> Vec<Arc<RunLine>> {
        lines(runs, &[]).unwrap()
    }

    #[test]
    fn a_line_says_the_same_as_the_whole_record() {
        let home = tempfile::tempdir().unwrap();
        let statuses = [
            RunStatus::Ok,
            RunStatus::Oom,
            RunStatus::Nan,
            RunStatus::Invalid,
            RunStatus::TimeBoxed,
            RunStatus::Cancelled,
            RunStatus::Crashed,
        ];
        for (minute, status) in statuses.into_iter().enumerate() {
            let run = TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z")).status(status);
            write_checkpoint(&run.write(home.path()), 20);
        }
        TestRun::new("2026-01-02T00:00:00Z").steps(0).write(home.path());
        TestRun::new("2026-01-03T00:00:00Z")
            .without_scores()
            .write(home.path());
        let lines = listed(home.path());
        assert_eq!(lines.len(), statuses.len() + 2);
        for line in lines {
            let whole = RunLine::from_run(&line.folder).unwrap();
            let stamp = line.stamp.clone();
            assert_eq!(*line, RunLine { stamp, ..whole });
        }
    }

    #[test]
    fn a_line_holds_what_a_list_shows() {
        let home = tempfile::tempdir().unwrap();
        TestRun::new("2026-01-01T00:00:00Z")
            .tokens_per_sec(500.0)
            .write(home.path());
        let lines = listed(home.path());
        let line = &lines[0];
        let figures = line.figures.unwrap();
        assert_eq!(line.started.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(line.recipe, "quickstart");
        assert_eq!(line.model.as_deref(), Some("SmolLM2-135M-Instruct.Q4_1.gguf"));
        assert_eq!(line.data.as_deref(), Some("text-to-sql"));
        assert_eq!(line.device.as_deref(), Some("cpu"));
        assert_eq!(line.state.name(), "ok");
        assert_eq!((figures.valid_steps, figures.total_steps), (96, 96));
        assert!(
            (figures.steady_tokens_per_sec.unwrap() / 500.0 - 1.0).abs() < 0.05,
            "{figures:?}"
        );
        assert!(figures.loss.unwrap().last < figures.loss.unwrap().first);
        assert!(figures.mfu_exact_practical.is_some() && figures.peak_bytes.is_some());
        assert!(line.before_points < line.after_points);
        assert_eq!(line.judge, Some(Severity::Green));
        assert_eq!((line.resume_step, line.reason.as_deref()), (None, None));
        assert!(line.has_adapter && !line.has_report);
    }

    #[test]
    fn a_run_that_ended_early_says_from_where_it_can_go_on() {
        let home = tempfile::tempdir().unwrap();
        let run = TestRun::new("2026-01-01T00:00:00Z")
            .status(RunStatus::Cancelled)
            .steps(50);
        let folder = run.write(home.path());
        for step in [20, 40, 60] {
            write_checkpoint(&folder, step);
        }
        let lines = listed(home.path());
        assert_eq!(lines[0].resume_step, Some(40));
        assert_eq!(lines[0].resume_step, Run::open(&folder).unwrap().resume_step());
    }

    #[test]
    fn a_run_that_goes_on_and_one_that_was_left_have_the_figures_of_their_steps() {
        let home = tempfile::tempdir().unwrap();
        TestRun::new("2026-01-01T00:00:00Z")
            .unfinished()
            .steps(30)
            .write(home.path());
        let live = LiveRun::create(home.path(), &Recipe::load("smoke").unwrap(), "0123456789").unwrap();
        let lines = listed(home.path());
        assert_eq!(lines[0].state.name(), "interrupted");
        assert_eq!(lines[0].figures.unwrap().total_steps, 30);
        assert!(lines[0].reason.is_some());
        assert!(lines[1].state.is_running() && lines[1].figures.is_none());
        assert_eq!(
            (lines[1].recipe.as_str(), lines[1].device.as_deref()),
            ("smoke", Some("auto"))
        );
        assert!(
            lines[1]
                .started
                .as_deref()
                .is_some_and(|started| started.starts_with("20"))
        );
        drop(live);
        let again = super::lines(home.path(), &lines).unwrap();
        assert_eq!(again[1].state.name(), "interrupted");
        assert!(Arc::ptr_eq(&again[0], &lines[0]));
    }

    #[test]
    fn only_what_has_changed_is_read_again() {
        let home = tempfile::tempdir().unwrap();
        let kept = TestRun::new("2026-01-01T00:00:00Z").write(home.path());
        let changed = TestRun::new("2026-01-02T00:00:00Z").write(home.path());
        let gone = TestRun::new("2026-01-03T00:00:00Z").write(home.path());
        let before = listed(home.path());
        assert_eq!(before.len(), 3);
        fs::write(changed.join("report.html"), "<html>").unwrap();
        fs::remove_dir_all(gone).unwrap();
        TestRun::new("2026-01-04T00:00:00Z").write(home.path());
        let after = lines(home.path(), &before).unwrap();
        assert_eq!(after.len(), 3);
        assert_eq!(after[0].folder, kept);
        assert!(Arc::ptr_eq(&after[0], &before[0]));
        assert!(!before[1].has_report && after[1].has_report);
        assert_eq!(after[2].started.as_deref(), Some("2026-01-04T00:00:00Z"));
    }

    #[test]
    fn a_broken_folder_is_a_line_with_its_reason_and_hides_no_other() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("00000000-nothing")).unwrap();
        let write = |day: u32| TestRun::new(&format!("2026-01-{day:02}T00:00:00Z")).write(home.path());
        fs::write(write(1).join(MANIFEST), "{\"version\": 1,").unwrap();
        fs::write(write(2).join(SUMMARY), "{\"version\": 99}").unwrap();
        fs::remove_file(write(3).join(RECIPE)).unwrap();
        write(4);
        let found: Vec<_> = listed(home.path())
            .iter()
            .map(|line| (line.state.name(), line.code.clone().unwrap_or_default()))
            .collect();
        let found: Vec<_> = found
            .iter()
            .map(|(state, code)| (*state, code.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("broken", "file_not_found"),
                ("broken", "run_damaged"),
                ("broken", "run_too_new"),
                ("broken", "file_not_found"),
                ("ok", ""),
            ]
        );
        let lines = listed(home.path());
        assert!(
            lines
                .iter()
                .filter(|line| line.state == LineState::Broken)
                .all(|line| line.reason.is_some())
        );
        assert_eq!(lines[1].started.as_deref(), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn many_runs_stay_in_order_over_several_threads() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..3 * RUNS_PER_THREAD {
            let (hour, minute) = (number / 60, number % 60);
            TestRun::new(&format!("2026-01-01T{hour:02}:{minute:02}:00Z"))
                .steps(4)
                .write(home.path());
        }
        let lines = listed(home.path());
        assert_eq!(lines.len(), 3 * RUNS_PER_THREAD);
        assert!(lines.is_sorted_by(|one, other| one.started < other.started));
    }

    #[test]
    fn no_folder_of_runs_is_an_empty_list() {
        let home = tempfile::tempdir().unwrap();
        assert!(listed(&home.path().join("runs")).is_empty());
    }
}
