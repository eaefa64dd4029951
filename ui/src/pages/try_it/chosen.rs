//! The run whose models answer: where its adapter lies, and which model it belongs to.

use std::path::{Path, PathBuf};

use tunesmith_lab::run::{Manifest, Run};
use tunesmith_models::hub::HubId;
use tunesmith_protocol::DType;

use super::of_run;
use crate::{problem, state::Problem};

/// A run with an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenRun {
    /// Its id.
    pub id: String,
    /// Title of its recipe.
    pub title: String,
    /// Name of the base model.
    pub model: String,
    /// Its adapter's folder.
    pub adapter: PathBuf,
    /// The base model, as another program loads it.
    pub base: Base,
    /// Format that was trained in.
    pub dtype: DType,
    /// SHA-256 over the base model.
    pub fingerprint: String,
    /// Whether it was trained on the data set of the test questions.
    pub has_questions: bool,
}

/// Where the base model of an adapter is, as transformers asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// `owner/name`, or a folder.
    pub place: String,
    /// The GGUF file in it, where it is one.
    pub file: Option<String>,
    /// The commit, of a model from a hub.
    pub revision: Option<String>,
}

impl ChosenRun {
    /// Reads it.
    ///
    /// # Errors
    /// A [`Problem`] where the folder cannot be read or has no adapter.
    pub fn read(folder: &Path) -> Result<Self, Problem> {
        let run = Run::open(folder).map_err(|error| problem!(error))?;
        let adapter = run.adapter().ok_or_else(|| of_run(folder, "has no adapter"))?;
        let manifest = run
            .manifest
            .as_ref()
            .ok_or_else(|| of_run(folder, "does not say which model it belongs to"))?;
        let title = match run.recipe.title.as_str() {
            "" => run.recipe.name.clone(),
            title => title.to_owned(),
        };
        Ok(Self {
            title,
            model: manifest.model.name.clone(),
            adapter,
            base: Base::of(manifest),
            dtype: run.recipe.dtype(&manifest.device),
            fingerprint: manifest.model.fingerprint.clone(),
            has_questions: run.recipe.data.source.is_some(),
            id: run.id,
        })
    }
}

impl Base {
    fn of(manifest: &Manifest) -> Self {
        let id = manifest.model.source.as_deref();
        if let Some(id) = id.and_then(|id| id.parse::<HubId>().ok()) {
            return Self {
                place: id.repository().to_owned(),
                file: id.file().map(ToOwned::to_owned),
                revision: Some(id.revision().to_owned()),
            };
        }
        Self::on_this_machine(&manifest.model.path)
    }

    fn on_this_machine(path: &Path) -> Self {
        let is_file = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        let file = path.file_name().filter(|_| is_file);
        let folder = if is_file {
            path.parent().unwrap_or(path)
        } else {
            path
        };
        Self {
            place: folder.display().to_string(),
            file: file.map(|name| name.to_string_lossy().into_owned()),
            revision: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_loaded_from_its_folder() {
        let base = Base::on_this_machine(Path::new("/models/a/b.GGUF"));
        assert_eq!(
            (base.place.as_str(), base.file.as_deref()),
            ("/models/a", Some("b.GGUF"))
        );
        let base = Base::on_this_machine(Path::new("/models/a"));
        assert_eq!((base.place.as_str(), base.file), ("/models/a", None));
    }
}
