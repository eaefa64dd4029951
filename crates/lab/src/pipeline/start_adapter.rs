//! The adapter that a training goes on from: it must be of the recipe's form, and says which base it belongs to.

use std::path::Path;

use serde::Deserialize;
use tunesmith_protocol::Base;

use crate::{
    files::{read_text, sha256_hex},
    recipe::Recipe,
    run::AdapterRecord,
};

use super::LabError;

/// What matters of PEFT's `adapter_config.json`.
#[derive(Deserialize)]
struct PeftConfig {
    r: i64,
    lora_alpha: f64,
    target_modules: Vec<String>,
}

/// Reads what a run's record keeps of the recipe's adapter; nothing where it names none.
///
/// # Errors
/// [`LabError`] when a file is missing or damaged, or the adapter has another form than the recipe says.
pub(super) fn read(recipe: &Recipe) -> Result<Option<AdapterRecord>, LabError> {
    let Some(folder) = &recipe.lora.start_from else {
        return Ok(None);
    };
    let refuse = |message: String, hint: String| LabError::NotPossible {
        message,
        hints: vec![hint],
    };
    let config = folder.join("adapter_config.json");
    let config: PeftConfig = serde_json::from_str(&read_text(&config)?).map_err(|error| {
        refuse(
            format!("{} is no adapter's configuration: {error}", config.display()),
            "lora.start_from names a folder in PEFT's format".to_owned(),
        )
    })?;
    let sorted = |modules: &[String]| {
        let mut modules = modules.to_vec();
        modules.sort();
        modules
    };
    let lora = &recipe.lora;
    let same = config.r == lora.rank
        && (config.lora_alpha - lora.alpha).abs() < 1e-9
        && sorted(&config.target_modules) == sorted(&lora.target_modules);
    if !same {
        return Err(refuse(
            format!(
                "the adapter in {} has rank {}, alpha {} and {}, and the recipe says rank {}, alpha {} and {}",
                folder.display(),
                config.r,
                config.lora_alpha,
                sorted(&config.target_modules).join(", "),
                lora.rank,
                lora.alpha,
                sorted(&lora.target_modules).join(", ")
            ),
            "set lora.rank, lora.alpha and lora.target_modules to those of the adapter".to_owned(),
        ));
    }
    let weights = folder.join("adapter_model.safetensors");
    let bytes =
        std::fs::read(&weights).map_err(|source| crate::files::FileError::new(&weights, "read", source))?;
    Ok(Some(AdapterRecord {
        sha256: sha256_hex(&bytes),
        base: base(folder)?,
    }))
}

fn base(folder: &Path) -> Result<Option<Base>, LabError> {
    let path = folder.join("tunesmith_base.json");
    if !path.exists() {
        return Ok(None);
    }
    // A file that says nothing that can be read is as good as none.
    Ok(serde_json::from_str(&read_text(&path)?).ok())
}
