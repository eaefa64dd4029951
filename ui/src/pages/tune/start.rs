//! What keeps a training from starting, and the task that starts it.

use tunesmith_lab::recipe::Recipe;
use tunesmith_protocol::{TaskWork, Trainer};
use tunesmith_setup::doctor::Stops;

use super::{form::Checked, reading::DataSeen};
use crate::{
    saved::DeviceWish,
    state::{Page, Problem, State},
};

/// Why a training cannot start, with the page where that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Why, one sentence.
    pub why: String,
    /// Where to go; this page where there is none.
    pub page: Option<Page>,
}

impl Blocked {
    fn here(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            page: None,
        }
    }

    fn at(page: Page, why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            page: Some(page),
        }
    }
}

/// Everything that keeps a training from starting; empty where nothing does.
pub fn blocked(state: &State, checked: &Checked) -> Vec<Blocked> {
    let mut found = Vec::new();
    if let Some(task) = state.tasks.running() {
        found.push(Blocked {
            why: format!("{} is under way; one thing runs at a time", task.name()),
            page: task.trains().then_some(Page::Live),
        });
    }
    let tune = &state.pages.tune;
    match tune.around() {
        None => found.push(match tune.around_problem() {
            Some(problem) => Blocked::here(with_cure(problem)),
            None => Blocked::here("what is installed is still being looked at"),
        }),
        Some(around) => {
            if let Err(problem) = &around.engine {
                found.push(Blocked::at(Page::Setup, with_cure(problem)));
            }
            if let (Trainer::Hf, Err(problem)) = (checked.trainer, &around.second.here) {
                found.push(Blocked::at(Page::Setup, with_cure(problem)));
            }
        }
    }
    found.extend(doctor(state, checked));
    if !checked.errors.is_empty() {
        let count = checked.errors.len();
        found.push(Blocked::here(match count {
            1 => "one setting cannot work; it is marked below".to_owned(),
            _ => format!("{count} settings cannot work; they are marked below"),
        }));
    }
    match tune.data.current() {
        Some(Err(_) | Ok(DataSeen::Columns { .. })) => {
            found.push(Blocked::here(
                "the data cannot be read as it is; what is wrong is said below",
            ));
        }
        Some(Ok(DataSeen::File(preview))) if preview.trouble.is_some() => {
            found.push(Blocked::here(
                "the model can make nothing of the data; why is said below",
            ));
        }
        _ => {}
    }
    found
}

/// What the doctor says of a card. The processor needs nothing that the doctor looks at and the engine does not say itself.
fn doctor(state: &State, checked: &Checked) -> Option<Blocked> {
    let machine = state.machine.get()?;
    let on_cpu = state.saved.device == DeviceWish::Cpu
        || checked
            .recipe
            .as_ref()
            .is_some_and(|recipe| recipe.train.device == "cpu");
    if on_cpu {
        return None;
    }
    if let Err(problem) = &machine.plan {
        return Some(Blocked::at(Page::Setup, with_cure(problem)));
    }
    let check = machine
        .diagnosis
        .checks
        .iter()
        .find(|check| check.stops == Some(Stops::Recipe))?;
    Some(Blocked::at(
        Page::Setup,
        format!("{}: {}", check.title, check.found),
    ))
}

fn with_cure(problem: &Problem) -> String {
    match problem.hints.first() {
        Some(hint) => format!("{}: {hint}", problem.message),
        None => problem.message.clone(),
    }
}

/// Whether base and tuned model are scored: only the data set that comes with the program has questions and answers that
/// can be checked.
pub(super) fn is_scored(recipe: &Recipe) -> bool {
    recipe.data.source.is_some() && recipe.evaluate.questions > 0
}

/// The task that trains a recipe, as the form wishes it trained.
///
/// # Errors
/// [`Problem`] where the recipe has no form as text: a path that is not UTF-8.
pub(super) fn task(recipe: &Recipe, checked: &Checked) -> Result<TaskWork, Problem> {
    let toml = recipe.to_toml().map_err(|error| crate::problem!(error))?;
    Ok(TaskWork::Train {
        recipe: toml,
        // The service knows the window's choice; a device that the recipe names counts against it.
        device: (recipe.train.device != "auto").then(|| recipe.train.device.clone()),
        evaluate: is_scored(recipe),
        trainer: checked.trainer,
        threads: checked.threads,
    })
}

#[cfg(test)]
mod tests {
    use super::super::form::TuneForm;
    use super::*;

    fn checked(recipe: &Recipe) -> Checked {
        let form = TuneForm {
            trainer: Trainer::Hf,
            threads: "3".to_owned(),
            ..TuneForm::default()
        };
        form.check(recipe)
    }

    #[test]
    fn the_task_holds_the_recipe_and_scores_what_can_be_scored() {
        let recipe = Recipe::load("quickstart").unwrap();
        let TaskWork::Train {
            recipe: toml,
            device,
            evaluate,
            trainer,
            threads,
        } = task(&recipe, &checked(&recipe)).unwrap()
        else {
            panic!("no training");
        };
        assert_eq!(Recipe::parse(&toml, "sent").unwrap(), recipe);
        assert_eq!((device, evaluate), (None, true));
        assert_eq!((trainer, threads), (Trainer::Hf, Some(3)));
        let settings = ["data.path=/data/rows.csv", "train.device=cpu"].map(str::to_owned);
        let own = recipe.with_overrides(&settings).unwrap();
        let TaskWork::Train { device, evaluate, .. } = task(&own, &checked(&own)).unwrap() else {
            panic!("no training");
        };
        assert_eq!((device.as_deref(), evaluate), (Some("cpu"), false));
    }
}
