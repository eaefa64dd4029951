//! Values that a recipe may not have, each with the reason. What depends on the model or the data (a context
//! that is too short, a data set with one row) is checked where those are known.

use std::fmt::Display;

use tunesmith_models::hub::HubId;
use tunesmith_protocol::TARGET_MODULES;

use super::{DEFAULT_MODEL, FIXED_LENGTH, Recipe, RecipeError, TEXT_TO_SQL, error::closest};

/// More than this is a typing error and not a plan: the fixed test split has 300 questions.
const MOST_QUESTIONS: usize = 300;

/// More than this is a typing error too.
const MOST_STEPS: u64 = 10_000_000;

/// A refusal with its key, value, reason and next step.
fn impossible(key: &'static str, value: impl Display, reason: &str, hint: &str) -> RecipeError {
    RecipeError::impossible(key, value.to_string(), reason, hint)
}

pub(super) fn check(recipe: &Recipe) -> Result<(), RecipeError> {
    name(&recipe.name)?;
    sources(recipe)?;

    let data = &recipe.data;
    if data.max_length < 2 {
        return Err(impossible(
            "data.max_length",
            data.max_length,
            "a row needs two tokens at least, one to read and one to predict",
            "512 fits most short tasks",
        ));
    }

    let lora = &recipe.lora;
    if !(1..=1024).contains(&lora.rank) {
        return Err(impossible(
            "lora.rank",
            lora.rank,
            "an adapter has an inner dimension between 1 and 1024",
            "8, 16 and 32 are usual",
        ));
    }
    if !(lora.alpha.is_finite() && lora.alpha > 0.0) {
        return Err(impossible(
            "lora.alpha",
            lora.alpha,
            "the adapter's scale is alpha ÷ rank and must be above zero",
            "twice the rank is usual",
        ));
    }
    if lora.target_modules.is_empty() {
        return Err(impossible(
            "lora.target_modules",
            "[]",
            "without a module nothing would be trained",
            &format!("all of them: {}", TARGET_MODULES.join(", ")),
        ));
    }
    for (index, module) in lora.target_modules.iter().enumerate() {
        if !TARGET_MODULES.contains(&module.as_str()) {
            return Err(RecipeError::unknown_module(module));
        }
        if lora.target_modules[..index].contains(module) {
            return Err(impossible(
                "lora.target_modules",
                format!("`{module}`"),
                "the module is named twice",
                "name each module once",
            ));
        }
    }
    train(recipe)?;
    optimizer(recipe)?;
    if recipe.data.path.is_none() && !data.columns.is_empty() {
        return Err(impossible(
            "data.columns",
            "set",
            "the bundled data set has no columns to choose from",
            "take it out, or name a file by data.path",
        ));
    }

    let evaluate = &recipe.evaluate;
    if evaluate.questions > MOST_QUESTIONS {
        return Err(impossible(
            "evaluate.questions",
            evaluate.questions,
            "the fixed test split has 300 questions",
            "300 asks all of them",
        ));
    }
    if evaluate.batch_size == 0 {
        return Err(impossible(
            "evaluate.batch_size",
            0,
            "no prompt would be answered",
            "16 is usual",
        ));
    }
    if evaluate.max_new_tokens == 0 {
        return Err(impossible(
            "evaluate.max_new_tokens",
            0,
            "every answer would be empty",
            "96 holds most queries",
        ));
    }
    Ok(())
}

fn name(name: &str) -> Result<(), RecipeError> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 40 || !name.chars().all(good) {
        return Err(impossible(
            "name",
            format!("\"{name}\""),
            "a name is part of a folder's name: 1 to 40 letters, digits, `-` and `_`",
            "put free text into `title`",
        ));
    }
    Ok(())
}

fn sources(recipe: &Recipe) -> Result<(), RecipeError> {
    let pairs = [
        (
            "model",
            &recipe.model.source,
            &recipe.model.path,
            &[DEFAULT_MODEL][..],
        ),
        (
            "data",
            &recipe.data.source,
            &recipe.data.path,
            &[TEXT_TO_SQL, FIXED_LENGTH][..],
        ),
    ];
    for (section, source, path, known) in pairs {
        let key = if section == "model" {
            "model.source"
        } else {
            "data.source"
        };
        match (source, path) {
            (Some(_), Some(_)) => {
                return Err(impossible(
                    key,
                    "both source and path",
                    "only one of the two can be used",
                    "remove one of them",
                ));
            }
            (None, None) => {
                return Err(impossible(
                    key,
                    "nothing",
                    &format!("[{section}] needs a source or a path"),
                    &format!("source = \"{}\", or path = \"…\"", known[0]),
                ));
            }
            (Some(name), None) if section == "model" && name.contains('/') => {
                name.parse::<HubId>()?;
            }
            (Some(name), None) if !known.contains(&name.as_str()) => {
                let near = closest(name, known.iter().copied())
                    .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                return Err(impossible(
                    key,
                    format!("\"{name}\""),
                    "no such source is known",
                    &format!(
                        "{near}{}; {}",
                        match known {
                            [known] => format!("the known source is `{known}`"),
                            known => format!("the known sources are `{}`", known.join("` and `")),
                        },
                        match section {
                            "model" => "a model of a hub is named owner/name, one of your own by path",
                            _ => "a file of your own is named by path",
                        }
                    ),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn optimizer(recipe: &Recipe) -> Result<(), RecipeError> {
    let optimizer = &recipe.optimizer;
    if !(optimizer.learning_rate.is_finite()
        && optimizer.learning_rate > 0.0
        && optimizer.learning_rate < 1.0)
    {
        return Err(impossible(
            "optimizer.learning_rate",
            optimizer.learning_rate,
            "a learning rate lies between 0 and 1",
            "LoRA works with 1e-4 to 2e-3",
        ));
    }
    for (key, value) in [
        ("optimizer.beta1", optimizer.beta1),
        ("optimizer.beta2", optimizer.beta2),
    ] {
        if !(0.0..1.0).contains(&value) {
            return Err(impossible(
                key,
                value,
                "a decay is at least 0 and below 1",
                "0.9 and 0.999 are usual",
            ));
        }
    }
    if !(optimizer.eps.is_finite() && optimizer.eps > 0.0) {
        return Err(impossible(
            "optimizer.eps",
            optimizer.eps,
            "it keeps a division from zero",
            "1e-8 is usual",
        ));
    }
    for (key, value) in [
        ("optimizer.weight_decay", optimizer.weight_decay),
        ("optimizer.max_grad_norm", optimizer.max_grad_norm),
    ] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(impossible(
                key,
                value,
                "it cannot be below zero",
                "0 turns it off",
            ));
        }
    }
    if optimizer.warmup_steps > recipe.train.steps {
        return Err(impossible(
            "optimizer.warmup_steps",
            optimizer.warmup_steps,
            &format!(
                "the whole run has {} steps, so the rate would never reach its peak",
                recipe.train.steps
            ),
            "a tenth of the steps is usual",
        ));
    }
    Ok(())
}

fn train(recipe: &Recipe) -> Result<(), RecipeError> {
    let train = &recipe.train;
    if !(1..=MOST_STEPS).contains(&train.steps) {
        return Err(impossible(
            "train.steps",
            train.steps,
            "a run has at least one step",
            "try 3 for a smoke test",
        ));
    }
    for (key, value) in [
        ("train.micro_batch", train.micro_batch),
        ("train.accumulation", train.accumulation),
    ] {
        if !(1..=65_536).contains(&value) {
            return Err(impossible(
                key,
                value,
                "a step needs at least one row, and rows per step = micro_batch × accumulation",
                "1 is the least",
            ));
        }
    }
    if !(train.time_box_minutes.is_finite() && train.time_box_minutes > 0.0) {
        return Err(impossible(
            "train.time_box_minutes",
            train.time_box_minutes,
            "a run needs time",
            "15 is the default",
        ));
    }
    if train.checkpoint_every > MOST_STEPS {
        return Err(impossible(
            "train.checkpoint_every",
            train.checkpoint_every,
            "no run has so many steps",
            "20 is the default; 0 turns checkpoints off",
        ));
    }
    check_device(&train.device)
}

/// A device is `auto`, `cpu` or `cuda:N`.
pub(crate) fn check_device(device: &str) -> Result<(), RecipeError> {
    let known = matches!(device, "auto" | "cpu")
        || device
            .strip_prefix("cuda:")
            .is_some_and(|index| index.parse::<u8>().is_ok());
    if known {
        return Ok(());
    }
    Err(impossible(
        "train.device",
        format!("\"{device}\""),
        "no such device is known",
        "write auto, cpu, or cuda:0 (ROCm cards are called cuda too)",
    ))
}
