//! Leads a run that has all that it needs: the base model's answers, the training, the tuned model's answers, the
//! summary.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tunesmith_probe::{LIVE, telemetry::Sample};
use tunesmith_protocol::{
    Answer, AnswerJob, AnswerStats, DType, Event, Level, Outcome, RunStatus, TrainJob, TrainStats, Work,
};

use crate::{
    evaluate::{AnswerRecord, Evaluation, Questions, Side, change, keep},
    files::FileError,
    fit::{SpillGuard, card_use, halt_by_spill},
    recipe::Recipe,
    run::{
        ContentionSample, Journal, LiveRun, Manifest, MemoryOutcome, RECORD_VERSION, Run, Summary, Telemetry,
        Timings, card_record, checkpoint_up_to, now, training_of,
    },
    supervisor::{Engine, Failure, JobEnd, SupervisorError},
};

use super::{
    LabError, Observer, Settings, Stage, StageRun, Update, judging::Judging, prepare::OpenModel,
    surroundings::Watch,
};

/// What a run came to before it is put into words.
#[derive(Default)]
pub(super) struct Course {
    status: Option<RunStatus>,
    failure: Option<Failure>,
    engine: Option<TrainStats>,
    before: Option<(Side, Vec<AnswerRecord>)>,
    after: Option<(Side, Vec<AnswerRecord>)>,
}

impl Course {
    pub(super) fn end(mut self, status: RunStatus, failure: Option<Failure>) -> Self {
        self.status = Some(status);
        self.failure = failure;
        self
    }

    /// A stage could not be led at all.
    fn broken(self, error: &LabError) -> Self {
        let status = if error.is_stop() {
            RunStatus::Cancelled
        } else {
            RunStatus::Crashed
        };
        let failure = (!error.is_stop()).then(|| error.to_failure());
        self.end(status, failure)
    }
}

/// Answers of one engine process.
type Answered = Result<Result<(Side, Vec<AnswerRecord>), (RunStatus, Option<Failure>)>, LabError>;

/// What a run that goes on brings from before; a new one brings nothing.
#[derive(Default)]
pub(super) struct Earlier {
    /// Folder of the checkpoint that the training goes on from.
    pub(super) checkpoint: Option<PathBuf>,
    /// Seconds of the training up to there.
    pub(super) trained_secs: f64,
    /// The base model's answers.
    pub(super) before: Option<(Side, Vec<AnswerRecord>)>,
}

/// Leads a run that has all that it needs.
pub(super) struct Leader<'a> {
    pub(super) live: LiveRun,
    pub(super) journal: Journal,
    pub(super) settings: &'a Settings,
    pub(super) recipe: &'a Recipe,
    pub(super) manifest: &'a Manifest,
    pub(super) model: &'a OpenModel,
    /// Those that are asked, where some are.
    pub(super) questions: Option<Questions>,
    /// File of the tokenised rows.
    pub(super) rows: PathBuf,
    pub(super) time_box: Duration,
    pub(super) contention: Vec<ContentionSample>,
    pub(super) timings: Timings,
    pub(super) earlier: Earlier,
    pub(super) judging: Judging,
    pub(super) observer: &'a mut dyn Observer,
    /// When the work began, preparations included.
    pub(super) start: Instant,
}

impl Leader<'_> {
    /// Leads the run to its end and writes its summary.
    pub(super) fn conclude(mut self, engine: Engine) -> Result<Run, LabError> {
        let course = self.lead(engine);
        self.record(course)
    }

    /// Writes the summary.
    pub(super) fn record(mut self, course: Course) -> Result<Run, LabError> {
        let summary = self.summary(course)?;
        if let Err(error) = self.live.write_summary(&summary) {
            // On a full disk the summary fails like what failed before it, and the first cause says more.
            return Err(summary.failure.map_or_else(|| error.into(), LabError::Job));
        }
        let folder = self.live.folder().to_owned();
        drop(self);
        Ok(Run::open(&folder)?)
    }

    fn lead(&mut self, engine: Engine) -> Course {
        let before_secs = self
            .earlier
            .before
            .as_ref()
            .map_or(0.0, |(side, _)| side.wall_secs);
        // The whole run is counted, as if it had never stopped.
        self.timings.total_secs = before_secs + self.earlier.trained_secs;
        let mut course = Course {
            before: self.earlier.before.take(),
            ..Course::default()
        };
        let mut engine = Some(engine);
        if self.questions.is_some() && course.before.is_none() {
            // An engine of its own for the training waits for it.
            let first = if self.settings.trainer.is_none() {
                engine.take()
            } else {
                None
            };
            match self.answer(first, Stage::EvaluateBefore, None) {
                Ok(Ok(answered)) => {
                    self.timings.evaluate_before_secs = Some(answered.0.wall_secs);
                    course.before = Some(answered);
                }
                Ok(Err((status, failure))) => return course.end(status, failure),
                Err(error) => return course.broken(&error),
            }
        }
        let mut end = match self.train(engine) {
            Ok(end) => end,
            Err(error) => return course.broken(&error.into()),
        };
        // What ended a training otherwise stands, whatever else is wrong with it.
        if let Some(halt) = self.judging.end(end.status, self.observer)
            && matches!(end.status, RunStatus::Ok | RunStatus::TimeBoxed)
        {
            end.status = halt.status;
            end.failure = Some(halt.failure);
        }
        if matches!(end.status, RunStatus::Invalid | RunStatus::Nan)
            && let Err(error) = self.keep_the_last_good_adapter(&end)
        {
            return course.broken(&error);
        }
        self.timings.train_secs = Some(self.earlier.trained_secs + end.wall_secs);
        if let Some(Outcome::Train(stats)) = end.outcome {
            course.engine = Some(stats);
        }
        // A training that its time box cut short has an adapter worth scoring; one that the user stopped has a user
        // who does not want to wait.
        let adapter = self.live.folder().join("adapter");
        let scored = matches!(end.status, RunStatus::Ok | RunStatus::TimeBoxed) && adapter.exists();
        if self.questions.is_some() && scored {
            match self.answer(None, Stage::EvaluateAfter, Some(adapter)) {
                Ok(Ok(answered)) => {
                    self.timings.evaluate_after_secs = Some(answered.0.wall_secs);
                    course.after = Some(answered);
                }
                Ok(Err((status, failure))) => return course.end(status, failure),
                Err(error) => return course.broken(&error),
            }
        }
        course.end(end.status, end.failure)
    }

    fn job(&self) -> TrainJob {
        let recipe = self.recipe;
        TrainJob {
            model: self.model.path.clone(),
            rows: self.rows.clone(),
            dtype: self.dtype(),
            quantization: recipe.model.quantization,
            lora: recipe.lora(),
            optimizer: recipe.optimizer(),
            batch: recipe.batch(),
            steps: recipe.train.steps,
            checkpoint_every: Some(recipe.train.checkpoint_every).filter(|every| *every > 0),
            recompute: recipe.train.recompute,
            packing: recipe.train.packing,
            attention: recipe.train.attention,
            order: recipe.order(),
            seed: recipe.train.seed,
            // A checkpoint has the weights of an adapter that the run began from.
            start_from: recipe
                .lora
                .start_from
                .clone()
                .filter(|_| self.earlier.checkpoint.is_none()),
            origin: self.model.origin(),
        }
    }

    fn train(&mut self, engine: Option<Engine>) -> Result<JobEnd, SupervisorError> {
        let work = Work::Train(self.job());
        let stage = StageRun {
            settings: self.settings,
            stage: Stage::Train,
            device: &self.manifest.device,
            run_dir: self.live.folder(),
            time_box: Some(self.time_box),
            resume_from: self.earlier.checkpoint.as_deref(),
            steps: self.recipe.train.steps,
            trained_secs: self.earlier.trained_secs,
        };
        let load = Watch::start(Stage::Train);
        let on_card = self.manifest.device != "cpu";
        let card = self.settings.card.as_ref().filter(|_| on_card);
        // Before an engine of its own starts, so that what others use is known.
        let (mut spill, feed) = SpillGuard::fed(card);
        let engine = match engine {
            Some(engine) => engine,
            None => self.settings.start_engine(&self.manifest.device)?,
        };
        let resumed_at_secs = self
            .earlier
            .checkpoint
            .as_ref()
            .map(|_| self.earlier.trained_secs);
        let hand_on = move |sample: &Sample| {
            if let (Some(feed), [gpu, ..]) = (&feed, sample.gpus.as_slice()) {
                // A guard that is gone needs nothing more.
                let _ = feed.send(card_use(gpu));
            }
        };
        let telemetry = if on_card {
            let (root, folder) = (Path::new(LIVE), self.live.folder());
            Telemetry::start(root, folder, card, resumed_at_secs, Box::new(hand_on))
        } else {
            None
        };
        let judging = &mut self.judging;
        let end = stage.lead(
            Some(engine),
            work,
            &mut self.journal,
            self.observer,
            &mut |event, observer| {
                let spilled = spill.as_mut().and_then(|guard| guard.look(event));
                judging
                    .look(event, observer)
                    .or_else(|| spilled.as_ref().map(halt_by_spill))
            },
        );
        drop(telemetry);
        self.note_load(load);
        end
    }

    /// After a red finding: the adapter is that of the last good step, or of the last good checkpoint, or there is
    /// none. One that was saved later is put aside as `adapter.rejected`, where nothing takes it for a good one.
    fn keep_the_last_good_adapter(&mut self, end: &JobEnd) -> Result<(), LabError> {
        let good = self.judging.judgement().last_good_step.unwrap_or(0);
        let saved_at = match &end.outcome {
            Some(Outcome::Train(stats)) if stats.adapter.is_some() => Some(stats.steps),
            _ => None,
        };
        let folder = self.live.folder().to_owned();
        let adapter = folder.join("adapter");
        if adapter.exists() {
            if saved_at.is_some_and(|step| step > 0 && step <= good) {
                return Ok(());
            }
            put_aside(&adapter)?;
        }
        let Some(checkpoint) = checkpoint_up_to(&folder, good) else {
            return Ok(());
        };
        // A training that is over at its checkpoint does no step and saves the adapter as it was there.
        let job = TrainJob {
            steps: checkpoint.step,
            start_from: None,
            ..self.job()
        };
        let from = std::path::absolute(&checkpoint.folder).unwrap_or(checkpoint.folder);
        let stage = StageRun {
            settings: self.settings,
            stage: Stage::KeepGood,
            device: &self.manifest.device,
            run_dir: &folder,
            time_box: None,
            resume_from: Some(&from),
            steps: checkpoint.step,
            trained_secs: self.earlier.trained_secs,
        };
        stage.lead(
            None,
            Work::Train(job),
            &mut self.journal,
            self.observer,
            &mut |_, _| None,
        )?;
        Ok(())
    }

    fn dtype(&self) -> DType {
        self.recipe.dtype(&self.manifest.device)
    }

    fn note_load(&mut self, load: Watch) {
        let (sample, warning) = load.end();
        self.contention.push(sample);
        if let Some(warning) = warning {
            self.observer.update(Update::Log(Level::Warn, &warning));
        }
    }

    fn answer(&mut self, engine: Option<Engine>, stage: Stage, adapter: Option<PathBuf>) -> Answered {
        let Some(questions) = &self.questions else {
            return Err(LabError::Stopped);
        };
        let evaluate = &self.recipe.evaluate;
        let name = if adapter.is_some() { "tuned" } else { "base" };
        let work = Work::Answer(AnswerJob {
            model: self.model.path.clone(),
            adapter,
            prompts: questions.write_prompts(&self.model.encoder, self.live.folder())?,
            dtype: self.dtype(),
            quantization: self.recipe.model.quantization,
            stop_tokens: self.model.model.stop_tokens()?,
            max_new_tokens: evaluate.max_new_tokens,
            batch_size: evaluate.batch_size,
            sampling: None,
            stream: false,
        });
        let stage = StageRun {
            settings: self.settings,
            stage,
            device: &self.manifest.device,
            run_dir: self.live.folder(),
            time_box: None,
            resume_from: None,
            steps: 0,
            trained_secs: 0.0,
        };
        let asked = questions.asked().len();
        let load = Watch::start(stage.stage);
        let led = collect_answers(&stage, engine, work, &mut self.journal, self.observer);
        let (sample, _) = load.end();
        self.contention.push(sample);
        let (answers, end) = led?;
        if end.status != RunStatus::Ok {
            return Ok(Err((end.status, end.failure)));
        }
        if answers.len() < asked {
            let failure = Failure {
                code: "answers_missing".to_owned(),
                message: format!(
                    "the engine answered {} of {asked} questions and called it done",
                    answers.len()
                ),
                hints: vec!["engine.log in the run's folder has its whole output".to_owned()],
                last_lines: Vec::new(),
            };
            return Ok(Err((RunStatus::Crashed, Some(failure))));
        }
        let records = questions.score(&answers)?;
        let side = keep(
            self.live.folder(),
            name,
            &records,
            answer_stats(&end),
            end.wall_secs,
        )?;
        Ok(Ok((side, records)))
    }

    fn summary(&mut self, course: Course) -> Result<Summary, LabError> {
        let training = training_of(self.live.folder(), self.recipe, self.manifest)?;
        let status = course.status.unwrap_or(RunStatus::Crashed);
        let failure = course.failure;
        let adapter = Some(PathBuf::from("adapter")).filter(|folder| {
            self.live
                .folder()
                .join(folder)
                .join("adapter_model.safetensors")
                .exists()
        });
        self.timings.total_secs += self.start.elapsed().as_secs_f64();
        let engine_stats = course.engine.clone();
        let energy = card_record(self.live.folder()).and_then(|card| card.energy);
        Ok(Summary {
            version: RECORD_VERSION,
            reason: reason(status, failure.as_ref(), self.recipe, adapter.is_some()),
            status,
            failure,
            judge: self.judging.judgement(),
            finished: now(),
            training,
            engine: course.engine,
            evaluation: self.evaluation(course.before, course.after),
            adapter,
            timings: self.timings,
            contention: self.contention.clone(),
            memory: self.memory(engine_stats.as_ref()),
            energy,
            mean_watts: energy.and_then(|energy| energy.mean_watts()),
        })
    }

    /// Predicted memory beside what was measured (X11).
    fn memory(&self, engine: Option<&TrainStats>) -> Option<MemoryOutcome> {
        Some(MemoryOutcome {
            predicted_bytes: self.manifest.predicted?.step_bytes(),
            corrected_bytes: self.manifest.memory?.step_bytes,
            measured_bytes: engine.and_then(|stats| stats.peak_bytes),
            process_bytes: engine.and_then(|stats| stats.peak_process_bytes),
        })
    }

    fn evaluation(
        &self,
        before: Option<(Side, Vec<AnswerRecord>)>,
        after: Option<(Side, Vec<AnswerRecord>)>,
    ) -> Evaluation {
        if self.questions.is_none() {
            return Evaluation::skipped(match (&self.recipe.data.source, self.settings.evaluate) {
                (_, false) => "the evaluation was turned off",
                (None, _) => {
                    "data of your own has no questions whose answers can be executed; the loss alone tells what was learned"
                }
                (Some(_), _) if !self.recipe.has_questions() => {
                    "rows of fixed length are there to measure speed and memory; there is nothing to score"
                }
                (Some(_), _) => "the recipe asks no questions (evaluate.questions = 0)",
            });
        }
        let change = before
            .as_ref()
            .zip(after.as_ref())
            .map(|((before, base), (after, tuned))| change(before, after, base, tuned));
        Evaluation {
            skipped: None,
            decoding: Some(self.recipe.evaluate.clone()),
            before: before.map(|(side, _)| side),
            after: after.map(|(side, _)| side),
            change,
        }
    }
}

/// Leads an answering job and collects what it says.
pub(super) fn collect_answers(
    stage: &StageRun<'_>,
    engine: Option<Engine>,
    work: Work,
    journal: &mut Journal,
    observer: &mut dyn Observer,
) -> Result<(Vec<Answer>, JobEnd), SupervisorError> {
    let mut answers = Vec::new();
    let end = stage.lead(engine, work, journal, observer, &mut |event, _| {
        if let Event::Answer(answer) = event {
            answers.push(answer.clone());
        }
        None
    })?;
    Ok((answers, end))
}

pub(super) fn answer_stats(end: &JobEnd) -> Option<AnswerStats> {
    match &end.outcome {
        Some(Outcome::Answer(stats)) => Some(stats.clone()),
        _ => None,
    }
}

/// Renames an adapter that must not be taken for a good one; one that was put aside before makes room.
fn put_aside(adapter: &Path) -> Result<(), FileError> {
    let aside = adapter.with_extension("rejected");
    if aside.exists() {
        fs::remove_dir_all(&aside).map_err(|source| FileError::new(&aside, "removed", source))?;
    }
    fs::rename(adapter, &aside).map_err(|source| FileError::new(adapter, "renamed", source))
}

/// Why a run ended otherwise than well, and what was kept; nothing for one that ended well.
pub(super) fn reason(
    status: RunStatus,
    failure: Option<&Failure>,
    recipe: &Recipe,
    saved: bool,
) -> Option<String> {
    let kept = match (saved, status) {
        (true, RunStatus::Invalid | RunStatus::Nan) => "the last good adapter is kept",
        (true, _) => "the adapter so far is kept",
        (false, _) => "no adapter was saved",
    };
    let cause = match (status, failure) {
        (RunStatus::Ok, _) => return None,
        (RunStatus::TimeBoxed, None) => {
            format!(
                "the time box of {} minutes ended the training",
                recipe.train.time_box_minutes
            )
        }
        (RunStatus::Cancelled, None) => "it was stopped by hand".to_owned(),
        (_, Some(failure)) => failure.message.clone(),
        (status, None) => format!("the engine ended it as {}", status.name()),
    };
    Some(format!("{cause}; {kept}"))
}
