//! Leads a try: a few steps of a recipe on made rows of one length, to see what they hold and how long they take (S4,
//! M13). It is no run: nothing is learned, and its folder keeps the raw record alone.

use std::{path::Path, time::Duration};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tunesmith_data::{Row, Rows, RowsInfo, RowsReport, Sample};
use tunesmith_measure::{
    LoraShape, MemoryNeed, MemoryWork, ModelShape,
    fit::{Fit, MemoryLimit, Spill},
};
use tunesmith_probe::GpuVendor;
use tunesmith_protocol::{DType, Event, Hello, Level, PROTOCOL_VERSION, Step, TrainJob, Work};
use tunesmith_setup::{environments::Engine as EngineKind, human_bytes};

use crate::{
    estimate::{Place, Predicted, corrected, held_here, work_at_most, work_of_rows},
    files::make_folder,
    fit::{ModelName, SpillGuard, halt_by_spill},
    recipe::Recipe,
    run::Journal,
    supervisor::JobEnd,
};

use super::{
    LabError, Observer, Settings, Stage, StageRun, Update, limit_line,
    prepare::{OpenModel, shape_of},
};

/// Longest try. One that takes longer is ended, and what it has shown by then counts.
const TIME_BOX: Duration = Duration::from_mins(10);

/// What is tried. The recipe's settings count, but for its data and its length.
pub(crate) struct TrialJob<'a> {
    /// The settings.
    pub(crate) recipe: &'a Recipe,
    /// Tokens of every row.
    pub(crate) row_tokens: u64,
    /// Optimizer steps.
    pub(crate) steps: u64,
    /// Where the raw record goes.
    pub(crate) folder: &'a Path,
}

/// A try that is over.
pub(crate) struct TrialLed {
    pub(crate) device: String,
    pub(crate) hello: Hello,
    pub(crate) model: ModelName,
    pub(crate) shape: ModelShape,
    pub(crate) lora: LoraShape,
    pub(crate) work: MemoryWork,
    pub(crate) predicted: Predicted,
    pub(crate) limit: Option<MemoryLimit>,
    pub(crate) steps: Vec<Step>,
    pub(crate) spill: Option<Spill>,
    pub(crate) end: JobEnd,
}

/// Leads a try to its end, however it comes. The caller holds the device.
///
/// # Errors
/// [`LabError`] for what keeps it from beginning: no model, no engine, a file that cannot be written.
pub(crate) fn lead_trial(
    job: &TrialJob<'_>,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<TrialLed, LabError> {
    let recipe = job.recipe;
    recipe.check()?;
    let settings = &settings.with_limit_of(recipe.train.memory_limit);
    let device = settings.device(&recipe.train.device, observer)?;
    let dtype = recipe.dtype(&device);
    let model = OpenModel::open(recipe, &settings.folders)?;
    let shape = shape_of(model.model.config());
    let lora = LoraShape::new(recipe.lora.rank as u64, &recipe.lora.target_modules)?;
    let reads = model.model.config().context_length as u64;
    if job.row_tokens > reads || job.row_tokens < 2 {
        return Err(LabError::NotPossible {
            message: format!(
                "rows of {} tokens cannot be tried: the model reads {reads}",
                job.row_tokens
            ),
            hints: vec!["choose a length that the model reads".to_owned()],
        });
    }
    let rows = made_rows(recipe, job.row_tokens, shape.vocab);
    let rows_folder = job.folder.join("rows");
    make_folder(&rows_folder)?;
    let rows_file = rows.write(&rows_folder, &info(&rows, job.row_tokens, shape.vocab))?;

    let limit = settings.limit_now(&device);
    if let Some(limit) = &limit {
        observer.update(Update::Log(Level::Info, &limit_line(limit)));
    }
    let card = settings.card.as_ref().filter(|_| device != "cpu");
    let mut guard = SpillGuard::start(card);
    let engine = settings.start_trainer(limit)?;
    let hello = engine.hello().clone();
    let name = model.to_name();
    let place = Place {
        on_processor: device == "cpu",
        dtype,
        plain_attention: device != "cpu" && settings.plain_attention,
        engine: if settings.trainer.is_some() {
            EngineKind::Hf
        } else {
            EngineKind::Native
        },
    };
    let work = work_of_rows(recipe, place, &rows, &shape, &lora).ok_or(LabError::Stopped)?;
    let work = MemoryWork {
        answers: None,
        ..work
    };
    let predicted = corrected(
        MemoryNeed::of(&shape, &lora, &work),
        &work,
        &held_here(&settings.folders, &hello, &name),
    );
    let mut journal = Journal::open(job.folder)?;
    let stage = StageRun {
        settings,
        stage: Stage::Try,
        device: &device,
        run_dir: job.folder,
        time_box: Some(TIME_BOX),
        resume_from: None,
        steps: job.steps,
        trained_secs: 0.0,
    };
    let (mut steps, mut spill) = (Vec::new(), None);
    let train = train_job(recipe, &model, dtype, &rows_file, job.steps);
    let led = stage.lead(
        Some(engine),
        Work::Train(train),
        &mut journal,
        observer,
        &mut |event, _| {
            if let Event::Step(step) = event {
                steps.push(step.clone());
            }
            let seen = guard.as_mut().and_then(|guard| guard.look(event));
            spill = spill.or(seen);
            seen.as_ref().map(halt_by_spill)
        },
    );
    // They are made from a seed, and can be made again; an adapter that learned from them is worth nothing.
    for folder in [&rows_folder, &job.folder.join("adapter")] {
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(TrialLed {
        end: led?,
        device,
        hello,
        model: name,
        shape,
        lora,
        work,
        predicted,
        limit,
        steps,
        spill,
    })
}

/// What a try should hold, before anything is started.
pub(crate) struct TrialPrediction {
    /// All of it, corrected, in bytes.
    pub(crate) bytes: u64,
    /// Why it must not be tried, where it must not.
    pub(crate) why_not: Option<String>,
}

/// Predicts a try. On memory that the whole system uses, what does not fit is not tried: no driver refuses it, and other
/// programs would be ended with it.
///
/// # Errors
/// [`LabError`] as [`lead_trial`].
pub(crate) fn predict_trial(
    recipe: &Recipe,
    row_tokens: u64,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<TrialPrediction, LabError> {
    let settings = &settings.with_limit_of(recipe.train.memory_limit);
    let device = settings.device(&recipe.train.device, observer)?;
    let on_processor = device == "cpu";
    let model = OpenModel::open(recipe, &settings.folders)?;
    let reads = model.model.config().context_length as u64;
    let shape = shape_of(model.model.config());
    let lora = LoraShape::new(recipe.lora.rank as u64, &recipe.lora.target_modules)?;
    let hf = settings.trainer.is_some();
    let place = Place {
        on_processor,
        dtype: recipe.dtype(&device),
        plain_attention: !on_processor && settings.plain_attention,
        engine: if hf { EngineKind::Hf } else { EngineKind::Native },
    };
    let work = MemoryWork {
        answers: None,
        ..work_at_most(recipe, place, row_tokens, None)
    };
    let backend = match settings.engine.usable_cards() {
        _ if on_processor => "cpu",
        Some(GpuVendor::Amd) => "hip",
        Some(GpuVendor::Nvidia) | None => "cuda",
    };
    let engine = Hello {
        protocol: PROTOCOL_VERSION,
        engine: if hf { "hf" } else { "tunesmith-engine" }.to_owned(),
        engine_version: String::new(),
        torch: String::new(),
        backend: backend.to_owned(),
        threads: 1,
    };
    let held = held_here(&settings.folders, &engine, &model.to_name());
    let predicted = corrected(MemoryNeed::of(&shape, &lora, &work), &work, &held);
    let shared = settings.card.as_ref().is_some_and(|card| card.shares_main_memory);
    let room = if on_processor {
        tunesmith_probe::load(Path::new(tunesmith_probe::LIVE)).available_memory_bytes
    } else if shared {
        settings.limit_now(&device).map(|limit| limit.bytes)
    } else {
        None
    };
    let too_long = (row_tokens > reads).then(|| format!("the model reads {reads} tokens at most"));
    let too_large = room
        .filter(|room| Fit::of(predicted.bytes, predicted.margin, *room) == Fit::DoesNotFit)
        .map(|room| {
            format!(
                "it needs about {} by the prediction, and {} may be used of memory that the whole system shares",
                human_bytes(predicted.bytes),
                human_bytes(room)
            )
        });
    Ok(TrialPrediction {
        bytes: predicted.bytes,
        why_not: too_long.or(too_large),
    })
}

fn train_job(recipe: &Recipe, model: &OpenModel, dtype: DType, rows: &Path, steps: u64) -> TrainJob {
    TrainJob {
        model: model.path.clone(),
        rows: rows.to_owned(),
        dtype,
        quantization: recipe.model.quantization,
        lora: recipe.lora(),
        optimizer: recipe.optimizer(),
        batch: recipe.batch(),
        steps,
        checkpoint_every: None,
        recompute: recipe.train.recompute,
        packing: recipe.train.packing,
        attention: recipe.train.attention,
        order: recipe.order(),
        seed: recipe.train.seed,
        start_from: None,
        origin: model.origin(),
    }
}

/// Rows of one length for one optimizer step, each step the same again: random tokens, all but the first trained.
fn made_rows(recipe: &Recipe, row_tokens: u64, vocab: u64) -> Rows {
    let mut random = ChaCha8Rng::seed_from_u64(recipe.train.seed);
    let count = recipe.train.micro_batch * recipe.train.accumulation;
    let length = row_tokens as usize;
    let rows = (0..count).map(|_| Row {
        input_ids: (0..length)
            .map(|_| random.random_range(0..vocab.max(1) as u32))
            .collect(),
        supervised: (0..length).map(|at| at > 0).collect(),
    });
    Rows { rows: rows.collect() }
}

fn info(rows: &Rows, row_tokens: u64, vocab: u64) -> RowsInfo {
    let length = row_tokens as usize;
    let count = rows.rows.len();
    RowsInfo {
        source: "made rows of one length".to_owned(),
        source_sha256: String::new(),
        template_sha256: String::new(),
        tokenizer_sha256: String::new(),
        max_length: length,
        report: RowsReport {
            rows: count,
            dropped_rows: 0,
            duplicates: 0,
            real_tokens: count * length,
            supervised_tokens: count * (length - 1),
            supervised_share: (length - 1) as f64 / length as f64,
            fewest_supervised: length - 1,
            longest: length,
            shortest: length,
            mean_length: length as f64,
            boundary_differences: 0,
            altered_texts: 0,
            rewritten_answers: 0,
            largest_token: vocab.saturating_sub(1) as u32,
            vocabulary: vocab as usize,
            most_supervised: length - 1,
            answers: 0,
            answer_tokens: 0,
            answers_outside: 0,
            ends_untrained: 0,
            pad_is_end: false,
            sample: Sample {
                id: String::new(),
                parts: Vec::new(),
            },
        },
    }
}
