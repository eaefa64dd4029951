//! What no package brings and the first training needs: libtorch for the processor, and the default model. Both are fetched by
//! set-up, after one question that names their sizes. A card's libtorch is a matter of the plan (`environments`).

use std::path::PathBuf;

use tunesmith_lab::pipeline::LabError;
use tunesmith_lab::recipe::{DEFAULT_MODEL, Recipe};
use tunesmith_setup::process::Cancel;
use tunesmith_setup::{Report, find_torch, model, runtime};

use super::environments::setup;
use crate::consent::agreed;
use crate::errors::CliError;
use crate::format::size;
use crate::terminal::Terminal;

/// What is not on this machine yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missing {
    torch: bool,
    model: bool,
}

impl Missing {
    /// Each with its size, or nothing where nothing is missing.
    fn told(self) -> Option<String> {
        let line = |what: String, (download, disk): (u64, u64)| {
            format!(
                "\n  {what}: {} over the network, {} on disk",
                size(download),
                size(disk)
            )
        };
        let mut text = String::new();
        if self.torch {
            let what = format!("PyTorch {} for the processor", runtime::TORCH_VERSION);
            text += &line(what, runtime::sizes());
        }
        if self.model {
            let what = format!("the default model, {DEFAULT_MODEL}, licence {}", model::LICENCE);
            text += &line(what, model::sizes());
        }
        (!text.is_empty()).then(|| format!("this has to be fetched first:{text}"))
    }
}

/// Fetches what a training of `recipe` lacks here; libtorch only where the processor trains.
pub(super) fn fetch(
    recipe: &Recipe,
    on_processor: bool,
    yes: bool,
    cancel: &Cancel,
    terminal: &mut Terminal,
) -> Result<(), CliError> {
    let folders = setup(cancel)?.folders;
    let missing = Missing {
        torch: on_processor && find_torch(&folders).is_none(),
        model: trains_default_model(recipe) && model::installed(&folders).is_none(),
    };
    fetch_missing(missing, yes, cancel, terminal)
}

/// Fetches the default model, where it is not here. Returns its file.
pub(super) fn fetch_model(yes: bool, cancel: &Cancel, terminal: &mut Terminal) -> Result<PathBuf, CliError> {
    let folders = setup(cancel)?.folders;
    let missing = Missing {
        torch: false,
        model: model::installed(&folders).is_none(),
    };
    fetch_missing(missing, yes, cancel, terminal)?;
    let file = model::installed(&folders);
    Ok(file.ok_or(LabError::ModelNotInstalled)?)
}

fn fetch_missing(
    missing: Missing,
    yes: bool,
    cancel: &Cancel,
    terminal: &mut Terminal,
) -> Result<(), CliError> {
    let Some(what) = missing.told() else {
        return Ok(());
    };
    if !yes && !agreed(&format!("{what}\nFetch it now?")) {
        return Err(CliError::NoConsent(what));
    }
    let setup = setup(cancel)?;
    let mut report = |told: &Report| terminal.installing(told);
    let uv = setup.ensure_uv(&mut report)?.value;
    if missing.torch {
        setup.ensure_runtime(&uv, &mut report)?;
    }
    if missing.model {
        setup.ensure_model(&uv, &mut report)?;
    }
    terminal.finish();
    Ok(())
}

fn trains_default_model(recipe: &Recipe) -> bool {
    let source = recipe.model.source.as_deref();
    recipe.model.path.is_none() && source.is_none_or(|source| source == DEFAULT_MODEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_size_before_anybody_is_asked() {
        let none = Missing {
            torch: false,
            model: false,
        };
        assert_eq!(none.told(), None);
        let both = Missing {
            torch: true,
            model: true,
        };
        let text = both.told().unwrap();
        assert!(text.contains("PyTorch 2.11.0 for the processor: 518"), "{text}");
        assert!(
            text.contains(DEFAULT_MODEL) && text.contains("Apache-2.0"),
            "{text}"
        );
        let model = Missing { torch: false, ..both };
        assert!(!model.told().unwrap().contains("PyTorch"));
    }

    #[test]
    fn a_model_of_ones_own_needs_no_default_model() {
        let recipe = Recipe::load("quickstart").unwrap();
        assert!(trains_default_model(&recipe));
        let own = recipe
            .clone()
            .with_overrides(&["model.path=/tmp/m".to_owned()])
            .unwrap();
        assert!(!trains_default_model(&own));
        let other = recipe
            .with_overrides(&["model.source=owner/name".to_owned()])
            .unwrap();
        assert!(!trains_default_model(&other));
    }
}
