//! What must be fetched, and what it takes on disk.

use tunesmith_setup::{
    environments,
    environments::{Engine, InstallSpec},
    model, runtime,
};

use super::{Part, Subject};

/// Checkpoints that a run keeps at most: the newest two and the best.
const CHECKPOINTS: u64 = 3;
/// Bytes a trained parameter in a checkpoint: weight and two moments in f32.
const CHECKPOINT_BYTES: u64 = 12;
/// Bytes a trained parameter in an adapter's file: f32.
const ADAPTER_BYTES: u64 = 4;
/// Bytes a token in the file of rows: its number, and whether it is trained.
const ROW_TOKEN_BYTES: u64 = 5;

impl Subject<'_> {
    pub(super) fn download(&self) -> Vec<Part> {
        vec![
            self.model_part(),
            self.torch_part(InstallSpec::download_bytes, runtime::sizes().0),
        ]
    }

    fn model_part(&self) -> Part {
        let part = |bytes, how: &str| Part {
            what: "model",
            bytes,
            how: how.to_owned(),
        };
        match (&self.model.path, self.model.row) {
            (Some(_), _) => part(Some(0), "it is here"),
            (None, _) if self.model.is_default => {
                part(Some(model::sizes().0), "this program's list of downloads")
            }
            (None, Some(row)) => part(Some(row.download_bytes), "the catalogue of recipes"),
            (None, None) => part(None, "its hub has not been asked"),
        }
    }

    /// torch and what comes with it, by the plan's steps.
    fn torch_part(&self, of: fn(&InstallSpec) -> Option<u64>, runtime_bytes: u64) -> Part {
        let folders = self.known.folders;
        let part = |bytes, how: String| Part {
            what: "torch and packages",
            bytes,
            how,
        };
        let active = environments::active(folders, self.wish.engine).ok().flatten();
        if let Some(environment) = active {
            return part(Some(0), format!("the environment {} is here", environment.name));
        }
        if self.plan.card.is_none() && self.wish.engine == Engine::Native {
            return if runtime::installed(folders).is_some() {
                part(Some(0), "the torch runtime is here".to_owned())
            } else {
                part(Some(runtime_bytes), "this program's list of downloads".to_owned())
            };
        }
        match &self.plan.install {
            Some(install) => part(of(install), "the plan's package lists".to_owned()),
            None if self.plan.route().is_some() => part(Some(0), "a torch that fits is here".to_owned()),
            None => part(None, "no torch fits this device yet".to_owned()),
        }
    }

    pub(super) fn disk(&self) -> Vec<Part> {
        let parameters = self.model.shape.map(|shape| self.lora.parameters(&shape));
        let train = &self.wish.recipe.train;
        let written = match train.checkpoint_every {
            0 => 0,
            every => (train.steps / every).min(CHECKPOINTS),
        };
        let rows = self.rows.map(|rows| rows.real_tokens as u64 * ROW_TOKEN_BYTES);
        let model = self.model_part();
        let part = |what, bytes, how: String| Part { what, bytes, how };
        vec![
            Part {
                bytes: match model.bytes {
                    Some(bytes) if bytes > 0 && self.model.is_default => Some(model::sizes().1),
                    bytes => bytes,
                },
                ..model
            },
            self.torch_part(InstallSpec::disk_bytes, runtime::sizes().1),
            part(
                "checkpoints",
                parameters.map(|parameters| written * parameters * CHECKPOINT_BYTES),
                format!(
                    "{written} of them are kept at most, from {}",
                    self.model.shape_how
                ),
            ),
            part(
                "adapter",
                parameters.map(|parameters| parameters * ADAPTER_BYTES),
                format!("f32, from {}", self.model.shape_how),
            ),
            part(
                "rows",
                rows,
                match rows {
                    Some(_) => "as counted".to_owned(),
                    None => "known once the rows are made; a few bytes a token".to_owned(),
                },
            ),
        ]
    }
}
