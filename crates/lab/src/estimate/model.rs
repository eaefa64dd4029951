//! The model of a recipe, as far as it is known without fetching it.

use std::path::{Path, PathBuf};

use tunesmith_measure::ModelShape;
use tunesmith_models::{Model, hub::HubId};
use tunesmith_setup::{knowledge::RecipeRow, model};

use crate::{
    fit::ModelName,
    pipeline::shape_of,
    recipe::{DEFAULT_MODEL, Recipe},
    run::RunLine,
};

use super::Known;

/// The model of a recipe, as far as it is known without fetching it.
pub(super) struct AskedModel<'a> {
    /// Of a hub, with or without a commit.
    pub(super) id: Option<HubId>,
    /// Whether it is the one that set-up brings.
    pub(super) is_default: bool,
    /// Where it lies, where it is here.
    pub(super) path: Option<PathBuf>,
    /// Its row in the catalogue.
    pub(super) row: Option<&'a RecipeRow>,
    pub(super) shape: Option<ModelShape>,
    pub(super) shape_how: &'static str,
}

impl<'a> AskedModel<'a> {
    pub(super) fn of(recipe: &Recipe, known: &Known<'a>) -> Self {
        let source = recipe.model.source.as_deref();
        let is_default = recipe.model.path.is_none() && source.is_none_or(|source| source == DEFAULT_MODEL);
        let id: Option<HubId> = source
            .filter(|_| !is_default)
            .and_then(|source| source.parse().ok());
        let path = match (&recipe.model.path, &id) {
            (Some(path), _) => Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            (None, Some(id)) => known.hub.and_then(|hub| hub.find(id).ok()).map(|(_, path)| path),
            (None, None) if is_default => model::installed(known.folders),
            // The recipe's checks say what is wrong with such a source.
            (None, None) => None,
        };
        let row = known.knowledge.recipes.iter().find(|row| {
            (is_default && row.model_source == DEFAULT_MODEL)
                || id.as_ref().is_some_and(|id| {
                    let listed: Option<HubId> = row.model_source.parse().ok();
                    listed.is_some_and(|listed| listed.name() == id.name())
                })
        });
        let own = path
            .as_deref()
            .and_then(|path| Model::open(path).ok())
            .map(|model| shape_of(model.config()));
        let (shape, shape_how) = match (own, row) {
            (Some(shape), _) => (Some(shape), "the model's own configuration"),
            (None, Some(row)) => (Some(row.shape), "the catalogue of recipes"),
            (None, None) => (None, "the model is not here and not in the catalogue of recipes"),
        };
        Self {
            id,
            is_default,
            path,
            row,
            shape,
            shape_how,
        }
    }

    /// Whether a run had this model.
    pub(super) fn is_of(&self, line: &RunLine) -> bool {
        self.is_named(line.model_source.as_deref(), line.model_path.as_deref())
    }

    /// Whether a try had this model.
    pub(super) fn is(&self, model: &ModelName) -> bool {
        self.is_named(model.source.as_deref(), Some(&model.path))
    }

    fn is_named(&self, source: Option<&str>, path: Option<&Path>) -> bool {
        match (&self.id, &self.path) {
            (Some(id), _) => {
                let other: Option<HubId> = source.and_then(|source| source.parse().ok());
                other.is_some_and(|other| other.name() == id.name())
            }
            (None, Some(own)) if path == Some(own) => true,
            // Set-up's model carries its version in its folder: the file's name is enough.
            _ => self.is_default && source.is_none() && is_default_file(path),
        }
    }
}

fn is_default_file(path: Option<&Path>) -> bool {
    let name = path.and_then(Path::file_name);
    name.is_some_and(|name| name.to_string_lossy() == model::file_name())
}
