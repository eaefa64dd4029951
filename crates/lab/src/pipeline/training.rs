//! Begins a training run: from its recipe to a run folder with rows and manifest, which a [`Leader`] then leads.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use tunesmith_data::Rows;
use tunesmith_measure::{
    LoraShape, MemoryNeed,
    calibration::unusable,
    fit::{Fit, MemoryLimit},
    judge::RowFacts,
};
use tunesmith_protocol::{Level, RunStatus};
use tunesmith_setup::{environments::Engine as EngineKind, human_bytes};

use crate::{
    estimate::{Place, corrected, held_here, record, work_of_rows},
    evaluate::Evaluation,
    files::make_folder,
    fit::ModelName,
    recipe::{HashParts, Recipe},
    run::{
        AdapterRecord, DataRecord, Journal, LiveRun, Manifest, ModelRecord, RECORD_VERSION, Run, Summary,
        Timings, now,
    },
    supervisor::Engine,
};

use super::{
    LabError, Observer, Settings, Stage, Update,
    calibration::stored_calibration,
    judging::{Judging, facts_of_error},
    leader::{Course, Earlier, Leader, reason},
    limit_line,
    prepare::{OpenModel, Prepared, prepare, shape_of},
    start_adapter, surroundings,
};

/// Leads a training run. The run that comes back is over; its status says how it ended.
///
/// # Errors
/// [`LabError`] for what keeps a run from beginning, or its record from being written.
pub fn train(recipe: &Recipe, settings: &Settings, observer: &mut dyn Observer) -> Result<Run, LabError> {
    let start = Instant::now();
    recipe.check()?;
    let device = settings.device(&recipe.train.device, observer)?;
    // Another engine brings a torch of its own, of which the calibration says nothing.
    if settings.trainer.is_none() {
        refuse_wrong_values(recipe, settings, &device)?;
    }
    let settings = &settings.with_limit_of(recipe.train.memory_limit);
    let lock = settings.lock(&device, "(preparing)", observer)?;
    observer.update(Update::Stage(Stage::Prepare));
    let model = OpenModel::open(recipe, &settings.folders)?;
    let adapter = start_adapter::read(recipe)?;
    let prepared = match prepare(recipe, &model, observer) {
        Err(LabError::Data(error)) if let Some(facts) = facts_of_error(&error) => {
            let dtype = recipe.dtype(&device);
            let recipe = recipe.resolved(&device, dtype, &model.path);
            return refuse(&recipe, settings, &model, facts, start, observer);
        }
        prepared => prepared?,
    };
    let prepare_secs = start.elapsed().as_secs_f64();
    if settings.stop.asked().is_some() {
        return Err(LabError::Stopped);
    }
    observer.update(Update::Stage(Stage::Start));
    let limit = settings.limit_now(&device);
    if let Some(limit) = &limit {
        observer.update(Update::Log(Level::Info, &limit_line(limit)));
    }
    let engine = settings.start_trainer(limit)?;
    let dtype = recipe.dtype(&device);
    let mut recipe = recipe.resolved(&device, dtype, &model.path);
    if let Some(id) = &model.id {
        // The branch may mean something else tomorrow.
        recipe.model.source = Some(id.to_string());
    }
    let around = Around {
        device: &device,
        adapter,
        limit,
    };
    let manifest = manifest(&recipe, settings, &model, &prepared, around, &engine)?;
    warn_where_it_may_not_fit(&manifest, observer);
    let live = LiveRun::create(&settings.folders.runs(), &recipe, &manifest.config_hash)?;
    lock.name_run(live.id())?;
    observer.update(Update::Run(live.id(), live.folder()));
    let manifest = Manifest {
        id: live.id().to_owned(),
        ..manifest
    };
    live.write_manifest(&manifest)?;
    let rows_folder = live.folder().join("rows");
    make_folder(&rows_folder)?;
    let mut judging = Judging::new(&recipe, &manifest)?;
    let refused = judging.begin(observer);
    let rows = match prepared.rows.write(&rows_folder, &prepared.info) {
        // Rows that the judge refuses need not be rows that can be written.
        Err(_) if refused.is_some() => rows_folder,
        written => written?,
    };

    let leader = Leader {
        journal: Journal::open(live.folder())?,
        live,
        settings,
        recipe: &recipe,
        manifest: &manifest,
        model: &model,
        questions: prepared
            .questions
            .filter(|_| settings.evaluate && recipe.evaluate.questions > 0),
        rows,
        time_box: time_box(&recipe),
        contention: Vec::new(),
        timings: Timings {
            prepare_secs,
            ..Timings::default()
        },
        earlier: Earlier::default(),
        judging,
        observer,
        start,
    };
    match refused {
        Some(halt) => {
            drop(engine);
            leader.record(Course::default().end(halt.status, Some(halt.failure)))
        }
        None => leader.conclude(engine),
    }
}

/// What computes wrongly must not train, however fast it is (X8): neither a new run nor one that goes on.
pub(super) fn refuse_wrong_values(
    recipe: &Recipe,
    settings: &Settings,
    device: &str,
) -> Result<(), LabError> {
    let dtype = recipe.dtype(device);
    let wrong =
        stored_calibration(settings, device).and_then(|stored| unusable(&stored.record.result, dtype));
    wrong.map_or(Ok(()), |wrong| {
        Err(LabError::NotPossible {
            message: format!(
                "the calibration of {device} found wrong values, so nothing can be trained on it in {}: {wrong}",
                dtype.name()
            ),
            hints: vec![
                "`tunesmith doctor` says whether this torch fits the card".to_owned(),
                "`tunesmith calibrate --again` measures anew, after a change of torch, driver or flags"
                    .to_owned(),
                "train in another format (`--set train.dtype=\"f32\"`) or on the processor (`--device cpu`)"
                    .to_owned(),
            ],
        })
    })
}

/// Keeps the record of a run whose rows could not be made, for a reason that belongs to the judge.
fn refuse(
    recipe: &Recipe,
    settings: &Settings,
    model: &OpenModel,
    facts: RowFacts,
    start: Instant,
    observer: &mut dyn Observer,
) -> Result<Run, LabError> {
    let mut judging = Judging::of_rows_that_failed(recipe, facts)?;
    let hash = recipe.config_hash(&HashParts {
        model: &model.model.fingerprint()?,
        rows: "",
        questions: None,
        adapter: None,
        engine: "",
        torch: "",
        device_kind: "",
        threads: None,
    });
    let live = LiveRun::create(&settings.folders.runs(), recipe, &hash)?;
    observer.update(Update::Run(live.id(), live.folder()));
    let (status, failure) = judging
        .begin(observer)
        .map_or((RunStatus::Invalid, None), |halt| {
            (halt.status, Some(halt.failure))
        });
    let secs = start.elapsed().as_secs_f64();
    live.write_summary(&Summary {
        version: RECORD_VERSION,
        status,
        reason: reason(status, failure.as_ref(), recipe, false),
        failure,
        judge: judging.judgement(),
        finished: now(),
        training: None,
        engine: None,
        evaluation: Evaluation::skipped("the run ended before its first step"),
        adapter: None,
        timings: Timings {
            prepare_secs: secs,
            total_secs: secs,
            ..Timings::default()
        },
        contention: Vec::new(),
        memory: None,
        energy: None,
        mean_watts: None,
    })?;
    let folder = live.folder().to_owned();
    drop(live);
    Ok(Run::open(&folder)?)
}

/// Longest training of a recipe.
pub(super) fn time_box(recipe: &Recipe) -> Duration {
    Duration::from_secs_f64(recipe.train.time_box_minutes * 60.0)
}

/// What a run begins with.
struct Around<'a> {
    device: &'a str,
    adapter: Option<AdapterRecord>,
    limit: Option<MemoryLimit>,
}

fn manifest(
    recipe: &Recipe,
    settings: &Settings,
    model: &OpenModel,
    prepared: &Prepared,
    around: Around<'_>,
    engine: &Engine,
) -> Result<Manifest, LabError> {
    let device = around.device;
    let hello = engine.hello();
    let fingerprint = model.model.fingerprint()?;
    let rows_sha256 = prepared.rows.sha256();
    let test_sha256 = prepared
        .questions
        .as_ref()
        .map(|questions| questions.set().test_hash().to_owned());
    let calibration = stored_calibration(settings, device).map(|stored| stored.record);
    let config = model.model.config();
    let shape = shape_of(config);
    let manifest = Manifest {
        version: RECORD_VERSION,
        id: String::new(),
        created: now(),
        tunesmith: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        config_hash: String::new(),
        recipe: recipe.name.clone(),
        title: recipe.title.clone(),
        device: device.to_owned(),
        threads: settings.threads_for(device),
        engine: hello.clone(),
        peaks: surroundings::peaks(
            recipe.dtype(device),
            calibration.as_ref(),
            settings.spec_peak.as_ref().filter(|_| device != "cpu"),
        ),
        machine: surroundings::machine(),
        environment: environment(settings, around.limit.as_ref()),
        model: ModelRecord {
            name: model.name(),
            source: model.id.as_ref().map(ToString::to_string),
            path: model.path.clone(),
            fingerprint,
            architecture: config.architecture.name().to_owned(),
            shape,
            parameters: shape.parameters(),
            context_length: config.context_length,
        },
        data: DataRecord {
            source: prepared.source.clone(),
            source_sha256: prepared.info.source_sha256.clone(),
            reading: prepared.reading.clone(),
            rows_sha256,
            test_sha256,
            report: prepared.info.report.clone(),
        },
        adapter: around.adapter,
        calibration,
        predicted: None,
        memory: None,
    };
    let manifest = with_prediction(manifest, recipe, settings, &prepared.rows, around.limit);
    Ok(Manifest {
        config_hash: config_hash(recipe, &manifest, settings.evaluate),
        ..manifest
    })
}

/// The variables of an engine that is started with this limit.
fn environment(settings: &Settings, limit: Option<&MemoryLimit>) -> BTreeMap<String, String> {
    let mut variables = surroundings::environment();
    if let Some(limit) = limit {
        let location = settings.trainer().clone().with_memory_fraction(limit.fraction);
        variables.extend(location.limit_variable());
    }
    variables
}

/// With the memory that the training should need, by formula from its very rows and corrected by what earlier runs here
/// held (X11). Modules that carry no adapter are refused elsewhere.
fn with_prediction(
    manifest: Manifest,
    recipe: &Recipe,
    settings: &Settings,
    rows: &Rows,
    limit: Option<MemoryLimit>,
) -> Manifest {
    let Ok(lora) = LoraShape::new(recipe.lora.rank as u64, &recipe.lora.target_modules) else {
        return manifest;
    };
    let on_processor = manifest.device == "cpu";
    let place = Place {
        on_processor,
        dtype: recipe.dtype(&manifest.device),
        plain_attention: !on_processor && settings.plain_attention,
        engine: if settings.trainer.is_some() {
            EngineKind::Hf
        } else {
            EngineKind::Native
        },
    };
    let Some(work) = work_of_rows(recipe, place, rows, &manifest.model.shape, &lora) else {
        return manifest;
    };
    let name = ModelName::of(&manifest.model);
    let held = held_here(&settings.folders, &manifest.engine, &name);
    let predicted = corrected(MemoryNeed::of(&manifest.model.shape, &lora, &work), &work, &held);
    Manifest {
        predicted: Some(predicted.need),
        memory: Some(record(&predicted, work, limit)),
        ..manifest
    }
}

/// What a run will most likely run out of is said before it does.
fn warn_where_it_may_not_fit(manifest: &Manifest, observer: &mut dyn Observer) {
    let Some(memory) = manifest.memory else { return };
    let room = memory.limit.map(|limit| limit.bytes).or_else(|| {
        let free = tunesmith_probe::load(Path::new(tunesmith_probe::LIVE)).available_memory_bytes;
        free.filter(|_| memory.work.on_processor)
    });
    let Some(room) = room else { return };
    let fit = Fit::of(memory.bytes, memory.margin, room);
    if matches!(fit, Fit::Uncertain | Fit::DoesNotFit) {
        let text = format!(
            "this training needs about {}, which {} into {}; `tunesmith fit` shows what would",
            human_bytes(memory.bytes),
            fit.words(),
            human_bytes(room)
        );
        observer.update(Update::Log(Level::Warn, &text));
    }
}

/// The hash of a run from the rest of its manifest.
pub(super) fn config_hash(recipe: &Recipe, manifest: &Manifest, evaluated: bool) -> String {
    let engine = &manifest.engine;
    let on_cpu = manifest.device == "cpu";
    recipe.config_hash(&HashParts {
        model: &manifest.model.fingerprint,
        rows: &manifest.data.rows_sha256,
        questions: manifest.data.test_sha256.as_deref().filter(|_| evaluated),
        adapter: manifest.adapter.as_ref().map(|adapter| adapter.sha256.as_str()),
        engine: &format!("{} {}", engine.engine, engine.engine_version),
        torch: &engine.torch,
        device_kind: if on_cpu { "cpu" } else { &engine.backend },
        threads: on_cpu.then(|| manifest.threads_in_use()),
    })
}
