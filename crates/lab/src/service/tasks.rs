//! What the tasks of a window do, each on the path that the command line takes too.

use std::{path::Path, time::Instant};

use serde_json::{Value, json};
use tunesmith_models::hub::{Hub, HubId};
use tunesmith_probe::LIVE;
use tunesmith_protocol::{EngineError, Level, PromptText, RunStatus, Sampling, Side, TaskWork, Trainer};
use tunesmith_setup::environments::Engine;
use tunesmith_setup::knowledge::Knowledge;
use tunesmith_setup::plan::{DeviceChoice, Plan, PlanRequest, plan};
use tunesmith_setup::{Folders, Report, Setup, free_bytes, human_bytes};

use crate::{
    experiment::{self, Options},
    fit::Pause,
    pipeline::{self, Ask, CalibrationWish, LabError, PromptSource, Settings},
    recipe::{DEFAULT_MODEL, Recipe},
    report_input::{ReportFiles, report_if_trained, write_report},
    run::{Run, RunState},
    supervisor::{EngineLocation, Failure},
};

use super::{ServiceOptions, Wishes, notices::Teller};

/// How a task ended.
pub(super) struct End {
    pub(super) status: RunStatus,
    /// The run that it was about.
    pub(super) run: Option<String>,
    pub(super) result: Value,
    pub(super) failure: Option<EngineError>,
    pub(super) last_lines: Vec<String>,
}

/// What a task came to that was carried out.
struct Came {
    status: RunStatus,
    result: Value,
    failure: Option<Failure>,
}

impl Came {
    fn well(result: Value) -> Self {
        Self {
            status: RunStatus::Ok,
            result,
            failure: None,
        }
    }
}

/// A task's name, for people.
pub(super) fn name(work: &TaskWork) -> &'static str {
    match work {
        TaskWork::Calibrate { .. } => "calibration",
        TaskWork::Train { .. } => "training",
        TaskWork::Fetch { .. } => "download",
        TaskWork::Resume { .. } => "resumed training",
        TaskWork::Answer { .. } => "answer",
        TaskWork::Setup { .. } => "set-up",
        TaskWork::Report { .. } => "report",
        TaskWork::Experiment { .. } => "experiment",
    }
}

/// Does what is wanted; returns when it is over, in whatever way.
pub(super) fn carry_out(
    work: TaskWork,
    options: &ServiceOptions,
    wishes: &Wishes,
    teller: &mut Teller,
) -> End {
    let bench = Bench { options, wishes };
    let came = match work {
        TaskWork::Calibrate { device, again, full } => {
            bench.calibrate(device, CalibrationWish { again, full }, teller)
        }
        TaskWork::Train {
            recipe,
            device,
            evaluate,
            trainer,
            threads,
        } => {
            let how = How {
                evaluate,
                trainer,
                threads,
            };
            bench.train(&recipe, device, &how, teller)
        }
        TaskWork::Fetch { model } => bench.fetch(&model, teller),
        TaskWork::Resume { run } => bench.resume(&run, teller),
        TaskWork::Answer {
            run,
            prompt,
            sides,
            max_new_tokens,
            sampling,
        } => {
            let source = match prompt {
                PromptText::Text(text) => PromptSource::Text(text),
                PromptText::Question(number) => PromptSource::Question(number),
            };
            bench.answer(&run, &source, &sides, max_new_tokens, sampling.as_ref(), teller)
        }
        TaskWork::Setup { engine, card } => bench.set_up(&engine, card, teller),
        TaskWork::Report { run } => report(&run, teller),
        TaskWork::Experiment {
            experiment,
            resume,
            again,
            retry_failed,
        } => {
            let options = Options { again, retry_failed };
            bench.experiment(&experiment, resume, options, teller)
        }
    };
    end(came, teller.run())
}

fn end(came: Result<Came, LabError>, run: Option<String>) -> End {
    let came = came.unwrap_or_else(|error| Came {
        status: status_of(&error),
        result: Value::Null,
        failure: (!error.is_stop()).then(|| error.to_failure()),
    });
    let (failure, last_lines) = match came.failure {
        Some(failure) => (
            Some(EngineError {
                code: failure.code,
                message: failure.message,
                hints: failure.hints,
            }),
            failure.last_lines,
        ),
        None => (None, Vec::new()),
    };
    End {
        status: came.status,
        run,
        result: came.result,
        failure,
        last_lines,
    }
}

fn status_of(error: &LabError) -> RunStatus {
    if error.is_stop() {
        RunStatus::Cancelled
    } else if error.code() == "out_of_memory" {
        RunStatus::Oom
    } else {
        RunStatus::Crashed
    }
}

/// What the plan is asked for: a card by PCI address, or `cpu`.
fn device_choice(card: Option<String>) -> DeviceChoice {
    match card {
        None => DeviceChoice::Auto,
        Some(cpu) if cpu == "cpu" => DeviceChoice::Cpu,
        Some(card) => DeviceChoice::Card(card),
    }
}

/// How a recipe is trained, beside what it says itself.
struct How {
    evaluate: bool,
    trainer: Trainer,
    threads: Option<usize>,
}

/// What every task works with.
struct Bench<'a> {
    options: &'a ServiceOptions,
    wishes: &'a Wishes,
}

impl Bench<'_> {
    /// Found anew for each task: a set-up may have come before it.
    fn settings(&self, device: Option<String>) -> Result<Settings, LabError> {
        let settings = Settings::for_device(&device_choice(self.options.card.clone()))?;
        Ok(Settings {
            device: device.or_else(|| self.options.device.clone()).or(settings.device),
            threads: self.options.threads,
            stop: self.wishes.stop.clone(),
            // A window waits for its turn and shows for whom.
            wait: true,
            ..settings
        })
    }

    fn calibrate(
        &self,
        device: Option<String>,
        wish: CalibrationWish,
        teller: &mut Teller,
    ) -> Result<Came, LabError> {
        let settings = self.settings(device)?;
        let stored = pipeline::calibrate_as(&settings, wish, teller)?;
        Ok(Came::well(json!({
            "taken": stored.record.taken,
            "reused": stored.reused,
            "file": stored.path,
            "result": stored.record.result,
            "stale": pipeline::stale_calibrations(&settings, &stored.record.result.device),
        })))
    }

    fn train(
        &self,
        recipe: &str,
        device: Option<String>,
        how: &How,
        teller: &mut Teller,
    ) -> Result<Came, LabError> {
        let recipe = Recipe::parse(recipe, "the recipe")?;
        let settings = self.settings(device)?;
        let settings = Settings {
            evaluate: how.evaluate,
            trainer: match how.trainer {
                Trainer::Native => None,
                Trainer::Hf => Some(EngineLocation::transformers(&settings.folders)?),
            },
            threads: how.threads.or(settings.threads),
            ..settings
        };
        // What is measured is the device that trains.
        let device = settings.device.as_ref().unwrap_or(&recipe.train.device);
        let measured = Settings {
            device: Some(device.clone()),
            ..settings.clone()
        };
        pipeline::calibrate(&measured, false, teller)?;
        let run = pipeline::train(&recipe, &settings, teller)?;
        Ok(conclude(&run, teller))
    }

    fn resume(&self, run: &str, teller: &mut Teller) -> Result<Came, LabError> {
        let settings = self.settings(None)?;
        let run = Run::find(&settings.folders.runs(), run)?;
        let run = pipeline::resume(&run, &settings, teller)?;
        Ok(conclude(&run, teller))
    }

    fn experiment(
        &self,
        named: &str,
        resume: bool,
        options: Options,
        teller: &mut Teller,
    ) -> Result<Came, LabError> {
        let settings = self.settings(None)?;
        let state = if resume {
            let folder = experiment::find(settings.folders.data(), named)?;
            experiment::resume(&folder, &settings, options, teller)?
        } else {
            let experiment = experiment::named_or_text(named)?;
            experiment::run(&experiment, &settings, options, teller)?
        };
        Ok(Came::well(json!({
            "experiment": state.id,
            "folder": state.folder,
            "slots": state.slots.len(),
            "over": state.slots.iter().filter(|slot| slot.status.is_over()).count(),
            "findings": state.comparison.findings,
        })))
    }

    fn answer(
        &self,
        run: &str,
        source: &PromptSource,
        sides: &[Side],
        max_new_tokens: usize,
        sampling: Option<&Sampling>,
        teller: &mut Teller,
    ) -> Result<Came, LabError> {
        let settings = self.settings(None)?;
        let run = Run::find(&settings.folders.runs(), run)?;
        teller.is_about(&run.id);
        let mut question = None;
        for side in sides {
            teller.answers(*side);
            let ask = Ask {
                source: source.clone(),
                base: *side == Side::Base,
                sampling: sampling.cloned(),
                max_new_tokens: Some(max_new_tokens),
                stream: true,
            };
            let generated = pipeline::generate(&run, &ask, &settings, teller)?;
            teller.answered(*side, generated.answer);
            question = generated.question;
        }
        Ok(Came::well(json!({ "question": question })))
    }

    /// Fetches a model that a recipe names. What a commit names and is here already is not asked for again.
    fn fetch(&self, model: &str, teller: &mut Teller) -> Result<Came, LabError> {
        if model == DEFAULT_MODEL {
            let setup = self.setup(Folders::from_env()?);
            let mut report = set_up_report(&setup, teller);
            let uv = setup.ensure_uv(&mut report)?.value;
            let path = setup.ensure_model(&uv, &mut report)?.value;
            return Ok(Came::well(json!({ "model": model, "path": path })));
        }
        let hub = Hub::from_env()?;
        let asked: HubId = model.parse()?;
        teller.stage("fetch", format!("asking for {}", asked.name()));
        let plan = hub.plan(&asked)?;
        teller.stage("fetch", format!("fetching {}", plan.id.name()));
        teller.log(
            Level::Info,
            format!(
                "{} over the network into {}, licence {}",
                human_bytes(plan.fetch_bytes),
                hub.cache().display(),
                plan.licence.as_deref().unwrap_or("not told")
            ),
        );
        let start = Instant::now();
        let mut pause = Pause::new(Folders::from_env()?.data());
        let path = hub.fetch(&plan, free_bytes(hub.cache()), &mut |progress| {
            let secs = start.elapsed().as_secs_f64();
            teller.fetched(progress.done, progress.total, secs);
            pause.wait(
                || self.wishes.stop.asked().is_some(),
                |text| teller.log(Level::Info, text),
            )
        })?;
        Ok(Came::well(json!({ "model": plan.id.to_string(), "path": path })))
    }

    fn setup(&self, folders: Folders) -> Setup {
        Setup {
            guard: self.options.guard.clone(),
            cancel: self.wishes.cancel.clone(),
            ..Setup::new(folders)
        }
    }

    fn set_up(&self, engine: &str, card: Option<String>, teller: &mut Teller) -> Result<Came, LabError> {
        let folders = Folders::from_env()?;
        let knowledge = Knowledge::load(None)?;
        let system = tunesmith_probe::detect(Path::new(LIVE), &knowledge.cards);
        let mut request = PlanRequest::new(engine_named(engine)?).with_torches_here(&folders);
        request.device = device_choice(card.or_else(|| self.options.card.clone()));
        let plan = plan(&system, &knowledge, &request)?;
        let Some(spec) = &plan.install else {
            return nothing_to_install(&plan, teller);
        };
        let setup = self.setup(folders);
        let environment = setup.carry_out(spec, &mut set_up_report(&setup, teller))?;
        Ok(Came::well(serde_json::to_value(environment).unwrap_or_default()))
    }
}

/// Tells of a set-up, whose commands wait while something is timed.
fn set_up_report<'a>(setup: &'a Setup, teller: &'a Teller) -> impl FnMut(&Report) + 'a {
    let mut pause = Pause::new(setup.folders.data());
    move |report| {
        pause.before_command(report, &setup.cancel, |text| teller.log(Level::Info, text));
        teller.set_up(report);
    }
}

fn report(run: &str, teller: &mut Teller) -> Result<Came, LabError> {
    let run = Run::find(&Folders::from_env()?.runs(), run)?;
    teller.is_about(&run.id);
    Ok(Came::well(files_json(&write_report(&run)?)))
}

/// The report, and how the run ended. A report that cannot be written harms no run.
fn conclude(run: &Run, teller: &Teller) -> Came {
    let report = report_if_trained(run).unwrap_or_else(|error| {
        teller.log(Level::Warn, format!("the report was not written: {error}"));
        None
    });
    let status = match run.state {
        RunState::Ended(status) => status,
        RunState::Running => RunStatus::Interrupted,
    };
    let failure = run.summary.as_ref().and_then(|summary| summary.failure.clone());
    Came {
        status,
        result: report.as_ref().map_or(Value::Null, files_json),
        failure,
    }
}

fn files_json(files: &ReportFiles) -> Value {
    json!({ "report": files.html, "json": files.json })
}

fn engine_named(name: &str) -> Result<Engine, LabError> {
    let known = || Engine::ALL.map(Engine::name).join(", ");
    Engine::ALL
        .into_iter()
        .find(|engine| engine.name() == name)
        .ok_or_else(|| LabError::NotPossible {
            message: format!("there is no engine `{name}`"),
            hints: vec![format!("the engines are {}", known())],
        })
}

fn nothing_to_install(plan: &Plan, teller: &Teller) -> Result<Came, LabError> {
    let on_disk = plan.route().and_then(|route| route.on_disk.as_deref());
    let Some(site) = on_disk else {
        return Err(LabError::NotPossible {
            message: format!("nothing can be installed: {}", plan.verdict.reason),
            hints: vec!["`tunesmith plan` shows every way that was looked at".to_owned()],
        });
    };
    teller.log(
        Level::Info,
        format!(
            "nothing has to be installed: the torch in {} fits",
            site.display()
        ),
    );
    Ok(Came::well(Value::Null))
}
