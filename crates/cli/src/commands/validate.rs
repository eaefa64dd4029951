//! `validate`: whether a recipe can be trained, before hours are spent on it (T1).

use serde_json::json;
use tunesmith_lab::{pipeline::Settings, recipe::Recipe};

use crate::{
    Done, args,
    commands::{sources::with_model_here, training},
    errors::CliError,
    terminal::Terminal,
};

/// Steps of a smoke test (T1).
const SMOKE_STEPS: u64 = 10;

/// Reads it, and no more.
pub(crate) fn validate(args: &args::Validate) -> Result<Done, CliError> {
    let recipe = Recipe::load(&args.recipe)?.with_overrides(&args.settings)?;
    let text = format!(
        "The recipe {} reads well; --smoke trains ten steps of it and hears the judge",
        recipe.name
    );
    Ok(Done::ok(text, json!({ "recipe": recipe.name, "valid": true })))
}

/// Trains its first ten steps.
pub(crate) fn smoke_test(
    args: &args::Validate,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let recipe = Recipe::load(&args.recipe)?.with_overrides(&args.settings)?;
    let recipe = cut_down(with_model_here(recipe, args.yes, &settings.stop, terminal)?);
    let settings = Settings {
        evaluate: false,
        ..settings.clone()
    };
    training::run(&recipe, &settings, terminal)
}

/// Ten steps, without scores and without checkpoints.
fn cut_down(mut recipe: Recipe) -> Recipe {
    recipe.train.steps = recipe.train.steps.min(SMOKE_STEPS);
    recipe.train.checkpoint_every = 0;
    recipe.optimizer.warmup_steps = recipe.optimizer.warmup_steps.min(2).min(recipe.train.steps);
    recipe
}
