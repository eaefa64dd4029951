//! Begins a training run: from its recipe to a run folder with rows and manifest, which a [`Leader`] then leads.

use std::time::{Duration, Instant};

use tunesmith_data::RowsReport;
use tunesmith_measure::{MemoryNeed, ModelShape, judge::RowFacts};
use tunesmith_protocol::RunStatus;

use crate::{
    estimate::memory_need,
    evaluate::Evaluation,
    files::make_folder,
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
    let lock = settings.lock(&device, "(preparing)")?;
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
    let engine = settings.start_trainer()?;
    let dtype = recipe.dtype(&device);
    let mut recipe = recipe.resolved(&device, dtype, &model.path);
    if let Some(id) = &model.id {
        // The branch may mean something else tomorrow.
        recipe.model.source = Some(id.to_string());
    }
    let manifest = manifest(&recipe, settings, &device, &model, &prepared, adapter, &engine)?;
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
    })?;
    let folder = live.folder().to_owned();
    drop(live);
    Ok(Run::open(&folder)?)
}

/// Longest training of a recipe.
pub(super) fn time_box(recipe: &Recipe) -> Duration {
    Duration::from_secs_f64(recipe.train.time_box_minutes * 60.0)
}

fn manifest(
    recipe: &Recipe,
    settings: &Settings,
    device: &str,
    model: &OpenModel,
    prepared: &Prepared,
    adapter: Option<AdapterRecord>,
    engine: &Engine,
) -> Result<Manifest, LabError> {
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
        environment: surroundings::environment(),
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
        adapter,
        calibration,
        predicted: predicted(recipe, settings, device, &shape, &prepared.info.report),
    };
    Ok(Manifest {
        config_hash: config_hash(recipe, &manifest, settings.evaluate),
        ..manifest
    })
}

/// By formula, with the longest row that there is. Modules that carry no adapter are refused elsewhere.
fn predicted(
    recipe: &Recipe,
    settings: &Settings,
    device: &str,
    shape: &ModelShape,
    rows: &RowsReport,
) -> Option<MemoryNeed> {
    let plain_attention = device != "cpu" && settings.plain_attention;
    let (dtype, longest) = (recipe.dtype(device), rows.longest as u64);
    memory_need(recipe, shape, dtype, longest, plain_attention).ok()
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
