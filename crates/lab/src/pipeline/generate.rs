//! Uses what a run made: answers to a prompt, and the evaluation again.

use std::path::{Path, PathBuf};

use tunesmith_measure::gap::Measures;
use tunesmith_models::Message;
use tunesmith_protocol::{Answer, AnswerJob, DType, Prompt, Quantization, RunStatus, Sampling, Work, encode};

use crate::{
    evaluate::{AnswerRecord, Questions, Side, keep},
    files::{make_folder, write_whole},
    recipe::Recipe,
    run::{Journal, Run},
    supervisor::Failure,
    text_to_sql::{Question, TextToSql},
};

use super::{
    LabError, Observer, Settings, Stage, StageRun, Update,
    leader::{answer_stats, collect_answers},
    level::LevelRecord,
    prepare::OpenModel,
    surroundings::Watch,
};

/// What is asked.
#[derive(Clone, Debug)]
pub enum PromptSource {
    /// A user's own words.
    Text(String),
    /// A test question by its number, from 1.
    Question(usize),
}

/// A question to a run's model.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What is asked.
    pub source: PromptSource,
    /// The base model answers, not the tuned one.
    pub base: bool,
    /// The most likely token is taken where absent.
    pub sampling: Option<Sampling>,
    /// Longest answer, in tokens; 256 where absent.
    pub max_new_tokens: Option<usize>,
    /// Whether the observer sees the answer piece by piece.
    pub stream: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The answer.
    pub answer: Answer,
    /// The test question, where one was asked.
    pub question: Option<Question>,
    /// Whether the adapter was used.
    pub tuned: bool,
}

/// Lets a run's model answer a prompt, with its adapter or without.
///
/// # Errors
/// [`LabError`] when there is no adapter, no such question, or the engine fails.
pub fn generate(
    run: &Run,
    ask: &Ask,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Generated, LabError> {
    let adapter = if ask.base { None } else { Some(adapter(run)?) };
    let (messages, question) = messages(&ask.source)?;
    let session = Session::open(run, settings, observer)?;
    let input_ids = session.model.encoder.prompt(&messages)?;
    let folder = run.folder.join("generate");
    make_folder(&folder)?;
    let prompts = folder.join("prompts.jsonl");
    write_whole(
        &prompts,
        encode(&Prompt {
            id: "prompt".to_owned(),
            input_ids,
        })
        .as_bytes(),
    )?;
    let longest = ask.max_new_tokens.unwrap_or(256);
    let job = AnswerJob {
        stream: ask.stream,
        ..session.job(adapter, prompts, longest, 1, ask.sampling.clone())?
    };
    let (mut answers, _) = session.answer(job, &folder, observer)?;
    let answer = answers.pop().ok_or_else(|| missing(0, 1))?;
    Ok(Generated {
        answer,
        question,
        tuned: !ask.base,
    })
}

/// Asks a run's tuned model the first `count` test questions again. The answers lie beside the run's own, as
/// `answers/eval-<count>.jsonl`; the run's summary stays as it was.
///
/// # Errors
/// [`LabError`] when there is no adapter or the engine fails.
pub fn evaluate_again(
    run: &Run,
    count: usize,
    base: bool,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<(Side, Vec<AnswerRecord>), LabError> {
    let adapter = if base { None } else { Some(adapter(run)?) };
    if !run.recipe.has_questions() {
        return Err(LabError::NotPossible {
            message: format!(
                "the run {} was not trained on text-to-SQL, so there are no questions to score",
                run.id
            ),
            hints: vec![format!(
                "`tunesmith generate {} --prompt …` shows what it answers",
                run.id
            )],
        });
    }
    let session = Session::open(run, settings, observer)?;
    let questions = Questions::first(TextToSql::load()?, count);
    let evaluate = &run.recipe.evaluate;
    let prompts = questions.write_prompts(&session.model.encoder, &run.folder.join("eval"))?;
    let job = session.job(
        adapter,
        prompts,
        evaluate.max_new_tokens,
        evaluate.batch_size,
        None,
    )?;
    let (answers, end) = session.answer(job, &run.folder.join("eval"), observer)?;
    if answers.len() < questions.asked().len() {
        return Err(missing(answers.len(), questions.asked().len()));
    }
    let records = questions.score(&answers)?;
    let name = format!(
        "eval-{}-{}",
        if base { "base" } else { "tuned" },
        questions.asked().len()
    );
    let side = keep(&run.folder, &name, &records, answer_stats(&end), end.wall_secs)?;
    Ok((side, records))
}

/// Lets a run's adapter answer the test questions on another base: that of a recipe, which may store the same weights
/// otherwise (T8). Answers and scores are kept as `answers/tuned` in a folder of their own.
///
/// # Errors
/// [`LabError`] when there is no adapter, the recipe asks no questions, or the engine fails.
pub fn answer_on_base(
    run: &Run,
    recipe: &Recipe,
    folder: &Path,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<(Side, Vec<AnswerRecord>), LabError> {
    let adapter = adapter(run)?;
    let session = Session::of_recipe(recipe, settings, observer)?;
    let questions = Questions::first(TextToSql::load()?, recipe.evaluate.questions);
    let evaluate = &recipe.evaluate;
    let prompts = questions.write_prompts(&session.model.encoder, folder)?;
    let job = session.job(
        Some(adapter),
        prompts,
        evaluate.max_new_tokens,
        evaluate.batch_size,
        None,
    )?;
    let (answers, end) = session.answer(job, folder, observer)?;
    if answers.len() < questions.asked().len() {
        return Err(missing(answers.len(), questions.asked().len()));
    }
    let records = questions.score(&answers)?;
    let side = keep(folder, "tuned", &records, answer_stats(&end), end.wall_secs)?;
    Ok((side, records))
}

/// Lets a recipe's base model answer the first test questions one at a time, to see how fast it writes, and keeps the
/// record in `folder` (M4). What it answers counts for nothing.
///
/// # Errors
/// [`LabError`] when the model is not here, or the engine fails.
pub fn measure_decoding(
    recipe: &Recipe,
    folder: &Path,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<LevelRecord, LabError> {
    let session = Session {
        // A device that is being measured: downloads wait.
        stage: Stage::Calibrate,
        ..Session::of_recipe(recipe, settings, observer)?
    };
    let questions = Questions::first(TextToSql::load()?, recipe.evaluate.questions);
    let prompts = questions.write_prompts(&session.model.encoder, folder)?;
    let job = session.job(None, prompts, recipe.evaluate.max_new_tokens, 1, None)?;
    let load = Watch::start(session.stage);
    let (answers, end) = session.answer(job, folder, observer)?;
    let (contention, _) = load.end();
    if answers.len() < questions.asked().len() {
        return Err(missing(answers.len(), questions.asked().len()));
    }
    let record = LevelRecord {
        measures: Measures::Decoding,
        dtype: session.dtype,
        linears: Vec::new(),
        answers: answer_stats(&end),
        wall_secs: end.wall_secs,
        contention,
    };
    if record.figures().is_empty() {
        return Err(LabError::NotPossible {
            message: "the model wrote no answer of two tokens or more, so how fast it writes is not known"
                .to_owned(),
            hints: vec!["ask more questions (evaluate.questions)".to_owned()],
        });
    }
    record.write(folder)?;
    Ok(record)
}

fn adapter(run: &Run) -> Result<PathBuf, LabError> {
    run.adapter().ok_or_else(|| LabError::NotPossible {
        message: format!(
            "the run {} has no adapter: it ended as {}",
            run.id,
            run.state.name()
        ),
        hints: vec![
            "--base uses the untuned model".to_owned(),
            "`tunesmith runs list` shows the runs that have one".to_owned(),
        ],
    })
}

fn messages(source: &PromptSource) -> Result<(Vec<Message>, Option<Question>), LabError> {
    match source {
        PromptSource::Text(text) => Ok((
            vec![Message {
                role: "user".to_owned(),
                content: text.clone(),
            }],
            None,
        )),
        PromptSource::Question(number) => {
            let set = TextToSql::load()?;
            let question = number
                .checked_sub(1)
                .and_then(|index| set.test.get(index))
                .ok_or_else(|| LabError::NotPossible {
                    message: format!(
                        "there is no test question {number}: they are numbered 1 to {}",
                        set.test.len()
                    ),
                    hints: Vec::new(),
                })?;
            Ok((set.messages(question), Some(question.clone())))
        }
    }
}

fn missing(found: usize, asked: usize) -> LabError {
    LabError::Job(Failure {
        code: "answers_missing".to_owned(),
        message: format!("the engine answered {found} of {asked} prompts and called it done"),
        hints: vec!["engine.log in the run's folder has its whole output".to_owned()],
        last_lines: Vec::new(),
    })
}

/// A run's model, ready to answer.
struct Session<'a> {
    settings: &'a Settings,
    model: OpenModel,
    device: String,
    dtype: DType,
    quantization: Quantization,
    stage: Stage,
}

impl<'a> Session<'a> {
    fn open(run: &Run, settings: &'a Settings, observer: &mut dyn Observer) -> Result<Self, LabError> {
        let device = settings.device(&run.recipe.train.device, observer)?;
        observer.update(Update::Stage(Stage::Prepare));
        let model = match &run.manifest {
            Some(manifest) => OpenModel::of_run(manifest)?,
            None => OpenModel::open(&run.recipe, &settings.folders)?,
        };
        Ok(Self {
            settings,
            model,
            dtype: run.recipe.dtype(&device),
            quantization: run.recipe.model.quantization,
            device,
            stage: Stage::Generate,
        })
    }

    /// The model of a recipe, without a run.
    fn of_recipe(
        recipe: &Recipe,
        settings: &'a Settings,
        observer: &mut dyn Observer,
    ) -> Result<Self, LabError> {
        let device = settings.device(&recipe.train.device, observer)?;
        observer.update(Update::Stage(Stage::Prepare));
        Ok(Self {
            settings,
            model: OpenModel::open(recipe, &settings.folders)?,
            dtype: recipe.dtype(&device),
            quantization: recipe.model.quantization,
            device,
            stage: Stage::Generate,
        })
    }

    fn job(
        &self,
        adapter: Option<PathBuf>,
        prompts: PathBuf,
        max_new_tokens: usize,
        batch_size: usize,
        sampling: Option<Sampling>,
    ) -> Result<AnswerJob, LabError> {
        Ok(AnswerJob {
            model: self.model.path.clone(),
            adapter,
            prompts,
            dtype: self.dtype,
            quantization: self.quantization,
            stop_tokens: self.model.model.stop_tokens()?,
            max_new_tokens,
            batch_size,
            sampling,
            stream: false,
        })
    }

    fn answer(
        &self,
        job: AnswerJob,
        folder: &Path,
        observer: &mut dyn Observer,
    ) -> Result<(Vec<Answer>, crate::supervisor::JobEnd), LabError> {
        let _lock = self.settings.lock(&self.device, "(generating)", observer)?;
        make_folder(folder)?;
        let mut journal = Journal::open(folder)?;
        let stage = StageRun {
            settings: self.settings,
            stage: self.stage,
            device: &self.device,
            run_dir: folder,
            time_box: None,
            resume_from: None,
            steps: 0,
            trained_secs: 0.0,
        };
        observer.update(Update::Stage(Stage::Start));
        let (answers, end) = collect_answers(&stage, None, Work::Answer(job), &mut journal, observer)?;
        match (end.status, &end.failure) {
            (RunStatus::Ok, _) => Ok((answers, end)),
            (RunStatus::Cancelled, _) => Err(LabError::Stopped),
            (_, Some(failure)) => Err(LabError::Job(failure.clone())),
            (status, None) => Err(LabError::Job(Failure {
                code: status.name().to_owned(),
                message: format!("the engine ended the job as {}", status.name()),
                hints: Vec::new(),
                last_lines: Vec::new(),
            })),
        }
    }
}
