//! `quickstart`: the whole way from a bare machine to a scored model. It follows the plan: where a card can train, the
//! card's runtime is installed and the card trains. Where a card is there and cannot be used, the check that failed is
//! named, and the processor trains only after a yes: there is no silent way down.

use serde_json::Value;
use tunesmith_lab::{
    pipeline::{self, LabError, Settings},
    recipe::Recipe,
    supervisor::EngineLocation,
};
use tunesmith_probe::{LIVE, System};
use tunesmith_setup::Folders;
use tunesmith_setup::doctor::{self, Diagnosis, RecipeNeeds, Rules, Status, Stops, Surroundings, Verdict};
use tunesmith_setup::knowledge::Knowledge;
use tunesmith_setup::plan::{self, Plan, VerdictKind};

use super::calibrate::{calibration_json, calibration_line};
use super::environments::{install, setup};
use super::first_use;
use super::machine::{look, request};
use super::training::run;
use crate::args::{self, Global};
use crate::consent::agreed;
use crate::errors::CliError;
use crate::terminal::Terminal;
use crate::{Done, Signals, with_global};

/// Questions of the whole fixed test split.
const ALL_QUESTIONS: usize = 300;

pub(crate) fn quickstart(
    args: &args::Quickstart,
    global: &Global,
    signals: &Signals,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let mut changes = args.settings.clone();
    changes.extend(args.seed.map(|seed| format!("train.seed={seed}")));
    if args.full {
        changes.push(format!("evaluate.questions={ALL_QUESTIONS}"));
    }
    let recipe = Recipe::load("quickstart")?.with_overrides(&changes)?;
    let mut chosen = Chosen::default();
    if global.device.is_none() {
        chosen = choose(args.yes, signals, terminal)?;
    }
    let device = chosen.device.as_deref().or(global.device.as_deref());
    first_use::fetch(
        &recipe,
        device == Some("cpu"),
        args.yes,
        &signals.cancel,
        terminal,
    )?;
    // An engine on a torch of the user's own needs no other to be installed.
    let base = match chosen.settings {
        Some(settings) => settings,
        None => Settings::from_env()?,
    };
    let mut settings = with_global(base, global, signals.stop.clone());
    settings.device = chosen.device.or(settings.device);
    let calibration = pipeline::calibrate(&settings, false, terminal)?;
    terminal.finish();
    terminal.note(&calibration_line(&calibration));
    let mut done = run(&recipe, &settings, terminal)?;
    if let Value::Object(object) = &mut done.json {
        object.insert("calibration".to_owned(), calibration_json(&calibration));
    }
    Ok(done)
}

/// What trains, where the user has not said it.
#[derive(Default)]
struct Chosen {
    device: Option<String>,
    /// For a torch that lies on the disk already, outside the app's own environments.
    settings: Option<Settings>,
}

/// Chooses the card, with its runtime installed, or the processor, with the reason told.
fn choose(yes: bool, signals: &Signals, terminal: &mut Terminal) -> Result<Chosen, CliError> {
    let (system, knowledge) = look(&args::Machine::live())?;
    let request = request(&args::PlanChoice::native(), system.live)?;
    let plan = plan::plan(&system, &knowledge, &request)?;
    let on_the_processor = || Chosen {
        device: Some("cpu".to_owned()),
        settings: None,
    };
    match decide(&system, &plan, &diagnose(&system, &knowledge, &plan)?) {
        Decision::Card { note } => {
            terminal.note(&note);
            if let Some(spec) = &plan.install {
                install(&setup(&signals.cancel)?, spec, yes, terminal)?;
            }
            let on_disk = plan.route().and_then(|route| route.on_disk.as_deref());
            let settings = match on_disk {
                Some(site) => {
                    let folders = Folders::from_env()?;
                    let engine = EngineLocation::on_torch(&folders, site).map_err(LabError::from)?;
                    Some(Settings::on_plan(folders, engine, &plan, &system))
                }
                None => None,
            };
            Ok(Chosen {
                device: Some("cuda:0".to_owned()),
                settings,
            })
        }
        Decision::Processor { note } => {
            terminal.note(&note);
            Ok(on_the_processor())
        }
        Decision::Ask { why, hints } => {
            let question = format!("the card cannot be used yet: {why}\nTrain on the processor instead?");
            if yes || agreed(&question) {
                terminal.note(&format!("training on the processor: {why}"));
                return Ok(on_the_processor());
            }
            Err(CliError::CardUnusable(why, hints))
        }
    }
}

/// What is to train, and what has to be said or asked before.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Card {
        note: String,
    },
    /// There is no card that anything could be done about.
    Processor {
        note: String,
    },
    /// A card is there, and cannot be used.
    Ask {
        why: String,
        hints: Vec<String>,
    },
}

fn decide(system: &System, plan: &Plan, diagnosis: &Diagnosis) -> Decision {
    let blocked = diagnosis.verdict == Verdict::Blocked;
    if let (VerdictKind::Card, Some(card), false) = (plan.verdict.kind, &plan.card, blocked) {
        let note = format!("{} trains: {}", card.name, card.why);
        return Decision::Card { note };
    }
    if system.gpus.is_empty() {
        let note = "no AMD or NVIDIA card was found, so the processor trains".to_owned();
        return Decision::Processor { note };
    }
    let failed = diagnosis
        .with_status(Status::Fail)
        .find(|check| check.stops == Some(Stops::Recipe));
    let why = match failed {
        Some(check) => format!("{} ({}): {}", check.title, check.id, check.found),
        None => plan.verdict.reason.clone(),
    };
    let mut hints = Vec::new();
    if let Some(command) = &diagnosis.next.command {
        hints.push(format!("{}: {command}", diagnosis.next.text));
    }
    hints.push("`tunesmith doctor` says what is wrong and what cures it".to_owned());
    hints.push("--device cpu trains on the processor".to_owned());
    Decision::Ask { why, hints }
}

fn diagnose(system: &System, knowledge: &Knowledge, plan: &Plan) -> Result<Diagnosis, CliError> {
    let folders = Folders::from_env()?;
    let mut around = Surroundings::read(LIVE.as_ref(), folders.cache(), folders.data());
    around.recipe = RecipeNeeds::of_plan(plan);
    Ok(doctor::doctor(
        system,
        knowledge,
        &Rules::load(None)?,
        &around,
        &[],
    ))
}

#[cfg(test)]
mod tests {
    use tunesmith_probe::CardTable;
    use tunesmith_probe::testing::{TestMachine, machines};
    use tunesmith_setup::environments::Engine;
    use tunesmith_setup::plan::PlanRequest;

    use super::*;

    fn decided(machine: &TestMachine) -> Decision {
        let knowledge = Knowledge::load(None).unwrap();
        let system = tunesmith_probe::detect(machine.root(), &CardTable::built_in());
        let plan = plan::plan(&system, &knowledge, &PlanRequest::new(Engine::Native)).unwrap();
        let around = Surroundings::default();
        let diagnosis = doctor::doctor(&system, &knowledge, &Rules::load(None).unwrap(), &around, &[]);
        decide(&system, &plan, &diagnosis)
    }

    #[test]
    fn a_card_that_can_train_does() {
        let decision = decided(&machines::rx_7900_xtx());
        assert!(
            matches!(&decision, Decision::Card { note } if note.contains("RX 7900 XTX")),
            "{decision:?}"
        );
    }

    #[test]
    fn without_a_card_the_processor_trains_and_it_is_said() {
        let decision = decided(&machines::no_gpu());
        assert!(
            matches!(&decision, Decision::Processor { note } if note.contains("processor")),
            "{decision:?}"
        );
    }

    #[test]
    fn a_card_that_cannot_be_opened_is_asked_about_by_the_name_of_the_check() {
        let decision = decided(&machines::rx_7900_xtx().devices_of_another_group());
        let Decision::Ask { why, hints } = &decision else {
            panic!("{decision:?}");
        };
        assert!(why.contains("kfd-access"), "{why}");
        assert!(
            hints.iter().any(|hint| hint.contains("--device cpu")),
            "{hints:?}"
        );
    }

    #[test]
    fn a_card_that_computes_wrongly_is_asked_about() {
        let decision = decided(&machines::steam_deck());
        assert!(matches!(decision, Decision::Ask { .. }), "{decision:?}");
    }
}
