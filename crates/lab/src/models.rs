//! The models on this machine, for pickers and for tidying up: what each is, how large, under which licence, and which
//! runs need it.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use tunesmith_models::hub::{Hub, HubError, HubId};
use tunesmith_setup::{Folders, SetupError, knowledge::Knowledge, model};

use crate::{recipe::DEFAULT_MODEL, run::RunLine};

/// Bytes of a model card in which its header is looked for.
const CARD_BYTES: u64 = 64 << 10;

/// Runs that a message names; the rest is a number.
const NAMED_RUNS: usize = 3;

/// Where a model came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFrom {
    /// Set-up brought it.
    SetUp,
    /// It lies in the cache of a model hub, where other programs may use it too.
    Hub,
}

/// A licence, and where that is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Licence {
    /// As its source writes it, e.g. `Apache-2.0`.
    pub name: String,
    /// Where it was read, for people.
    pub from: &'static str,
}

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelHere {
    /// For people: the default model's name, `owner/name` or `owner/name:file.gguf`.
    pub name: String,
    /// What a recipe writes as `model.source`.
    pub source: String,
    /// Where it came from.
    pub from: ModelFrom,
    /// Commit of the hub.
    pub revision: Option<String>,
    /// The folder or GGUF file to open.
    pub path: PathBuf,
    /// Bytes of what would be opened.
    pub bytes: u64,
    /// Files that are missing; it can be used when there are none.
    pub missing: Vec<String>,
    /// Its licence, where something on this machine tells it.
    pub licence: Option<Licence>,
}

/// Why a model was not removed.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    /// Runs were trained on it: without it they can neither answer nor go on.
    #[error("{name} is the model of {}", of_runs(runs))]
    Used {
        /// The model.
        name: String,
        /// Ids of the runs.
        runs: Vec<String>,
    },
    /// A run that goes on is reading it.
    #[error("{name} is being used by the run {run}")]
    Running {
        /// The model.
        name: String,
        /// The run.
        run: String,
    },
    /// What set-up brought cannot be removed.
    #[error(transparent)]
    SetUp(#[from] SetupError),
    /// What a hub's cache holds cannot be removed.
    #[error(transparent)]
    Hub(#[from] HubError),
}

impl ModelsError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Used { .. } => "model_used",
            Self::Running { .. } => "model_running",
            Self::SetUp(error) => error.code(),
            Self::Hub(error) => error.code(),
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Used { .. } => {
                vec!["confirm that it shall go all the same; it can be fetched again as long as its makers keep that revision".to_owned()]
            }
            Self::Running { .. } => vec!["wait until the run has ended, or stop it".to_owned()],
            Self::SetUp(error) => error.hints(),
            Self::Hub(error) => error.hints(),
        }
    }
}

fn of_runs(runs: &[String]) -> String {
    let named = runs
        .iter()
        .take(NAMED_RUNS)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match runs.len() {
        1 => format!("the run {named}"),
        count if count > NAMED_RUNS => format!("{count} runs, among them {named}"),
        _ => format!("the runs {named}"),
    }
}

/// The models that set-up or a hub brought, the default model first. Nothing is asked of a network.
pub fn models_here(folders: &Folders, hub: Option<&Hub>, knowledge: &Knowledge) -> Vec<ModelHere> {
    let installed = model::installed(folders).map(|path| ModelHere {
        name: DEFAULT_MODEL.to_owned(),
        source: DEFAULT_MODEL.to_owned(),
        from: ModelFrom::SetUp,
        revision: None,
        bytes: path.metadata().map_or(0, |found| found.len()),
        path,
        missing: Vec::new(),
        licence: Some(Licence {
            name: model::LICENCE.to_owned(),
            from: "this program's list of downloads",
        }),
    });
    let held = hub.map(Hub::list).unwrap_or_default();
    let from_hub = held.into_iter().map(|held| {
        let id: Option<HubId> = held.id.parse().ok();
        ModelHere {
            name: id.as_ref().map_or_else(|| held.id.clone(), HubId::name),
            from: ModelFrom::Hub,
            revision: id.as_ref().map(|id| id.revision().to_owned()),
            licence: id
                .as_ref()
                .and_then(|id| in_catalogue(id, knowledge))
                .or_else(|| in_card(&held.path)),
            source: held.id,
            path: held.path,
            bytes: held.bytes,
            missing: held.missing,
        }
    });
    installed.into_iter().chain(from_hub).collect()
}

/// Ids of the runs whose model this is, oldest first.
pub fn runs_of(model: &ModelHere, lines: &[Arc<RunLine>]) -> Vec<String> {
    lines
        .iter()
        .filter(|line| is_of(model, line))
        .map(|line| line.id.clone())
        .collect()
}

fn is_of(model: &ModelHere, line: &RunLine) -> bool {
    line.model_path.as_deref() == Some(&model.path) || line.model_source.as_deref() == Some(&model.source)
}

/// Removes a model from the disk. One that runs were trained on is only removed with `even_if_used`, and one of a run
/// that goes on is not.
///
/// # Errors
/// [`ModelsError::Used`] and [`ModelsError::Running`] before anything is removed, and what keeps a file from being
/// removed.
pub fn remove_model(
    folders: &Folders,
    hub: &Hub,
    model: &ModelHere,
    lines: &[Arc<RunLine>],
    even_if_used: bool,
) -> Result<(), ModelsError> {
    let name = || model.name.clone();
    if let Some(line) = lines
        .iter()
        .find(|line| line.state.is_running() && is_of(model, line))
    {
        return Err(ModelsError::Running {
            name: name(),
            run: line.id.clone(),
        });
    }
    let runs = runs_of(model, lines);
    if !even_if_used && !runs.is_empty() {
        return Err(ModelsError::Used { name: name(), runs });
    }
    match model.from {
        ModelFrom::SetUp => Ok(model::remove(folders)?),
        ModelFrom::Hub => Ok(hub.remove(&model.source.parse()?)?),
    }
}

fn in_catalogue(id: &HubId, knowledge: &Knowledge) -> Option<Licence> {
    let row = knowledge.recipes.iter().find(|row| {
        let known: Option<HubId> = row.model_source.parse().ok();
        known.is_some_and(|known| known.repository() == id.repository())
    })?;
    Some(Licence {
        name: row.license.to_string(),
        from: "the catalogue of recipes",
    })
}

/// From the header of a model card that another program has fetched: `license: …` between two lines of dashes.
fn in_card(model: &Path) -> Option<Licence> {
    let folder = if model.is_dir() { model } else { model.parent()? };
    let mut bytes = Vec::new();
    let card = File::open(folder.join("README.md")).ok()?;
    card.take(CARD_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let name = lines
        .take_while(|line| line.trim_end() != "---")
        .find_map(|line| line.strip_prefix("license:"))?
        .trim()
        .trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| Licence {
        name: name.to_owned(),
        from: "its model card",
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        recipe::Recipe,
        run::{LiveRun, lines},
        testing::TestRun,
    };

    const COMMIT: &str = "7ae557604adf67be50417f59c2c2f167def9a775";

    struct Machine {
        home: tempfile::TempDir,
        folders: Folders,
        hub: Hub,
    }

    impl Machine {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let place = home.path().join("hub").to_string_lossy().into_owned();
            let hub =
                Hub::from_variables(|name| ["HF_HUB_CACHE", "HOME"].contains(&name).then(|| place.clone()));
            Self {
                folders: Folders::all_under(home.path()),
                hub: hub.unwrap(),
                home,
            }
        }

        fn fetched(&self, repository: &str, files: &[(&str, &str)]) -> PathBuf {
            let name = format!("models--{}", repository.replace('/', "--"));
            let snapshot = self
                .home
                .path()
                .join("hub")
                .join(name)
                .join("snapshots")
                .join(COMMIT);
            fs::create_dir_all(&snapshot).unwrap();
            for (file, text) in files {
                fs::write(snapshot.join(file), text).unwrap();
            }
            snapshot
        }

        fn models(&self) -> Vec<ModelHere> {
            models_here(&self.folders, Some(&self.hub), &Knowledge::load(None).unwrap())
        }

        fn remove(&self, model: &ModelHere, even_if_used: bool) -> Result<(), ModelsError> {
            let lines = lines(&self.folders.runs(), &[]).unwrap();
            remove_model(&self.folders, &self.hub, model, &lines, even_if_used)
        }
    }

    const WHOLE: [(&str, &str); 3] = [
        ("config.json", "{}"),
        ("tokenizer.json", "{}"),
        ("model.safetensors", "weights"),
    ];

    #[test]
    fn models_are_listed_with_what_is_known_of_them() {
        let machine = Machine::new();
        machine.fetched("Qwen/Qwen2.5-0.5B-Instruct", &WHOLE);
        machine.fetched(
            "other/model",
            &[
                WHOLE[0],
                (
                    "README.md",
                    "---\ntags: [a]\nlicense: \"mit\"\n---\nlicense: no\n",
                ),
            ],
        );
        machine.fetched(
            "third/files",
            &[("a.gguf", "GGUF"), ("README.md", "license: mit\n")],
        );
        let models = machine.models();
        let told: Vec<_> = models
            .iter()
            .map(|model| {
                let licence = model.licence.as_ref();
                (
                    model.name.as_str(),
                    licence.map(|licence| licence.name.as_str()),
                    model.missing.len(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("Qwen/Qwen2.5-0.5B-Instruct", Some("Apache-2.0"), 0),
                ("other/model", Some("mit"), 2),
                ("third/files:a.gguf", None, 0),
            ]
        );
        assert!(
            models
                .iter()
                .all(|model| model.revision.as_deref() == Some(COMMIT))
        );
        assert_eq!(models[0].source, format!("Qwen/Qwen2.5-0.5B-Instruct@{COMMIT}"));
        assert_eq!(models[2].bytes, 4);
    }

    #[test]
    fn a_model_that_runs_were_trained_on_goes_only_when_that_was_confirmed() {
        let machine = Machine::new();
        let path = machine.fetched("other/model", &WHOLE);
        let model = machine.models().remove(0);
        assert_eq!(model.path, path);
        for day in 1..=4 {
            let run = TestRun::new(&format!("2026-01-0{day}T00:00:00Z")).model_path(&path);
            run.write(&machine.folders.runs());
        }
        TestRun::new("2026-02-01T00:00:00Z").write(&machine.folders.runs());
        let error = machine.remove(&model, false).unwrap_err();
        assert_eq!(error.code(), "model_used");
        assert!(
            error.to_string().contains("4 runs, among them 20260101-000000"),
            "{error}"
        );
        assert!(path.exists());
        machine.remove(&model, true).unwrap();
        assert!(!path.exists() && machine.models().is_empty());
    }

    #[test]
    fn a_model_of_a_run_that_goes_on_stays_whatever_was_confirmed() {
        let machine = Machine::new();
        machine.fetched("other/model", &WHOLE);
        let model = machine.models().remove(0);
        let setting = format!("model.source=\"{}\"", model.source);
        let recipe = Recipe::load("smoke").unwrap().with_overrides(&[setting]).unwrap();
        let live = LiveRun::create(&machine.folders.runs(), &recipe, "0123456789").unwrap();
        assert_eq!(machine.remove(&model, true).unwrap_err().code(), "model_running");
        drop(live);
        assert_eq!(machine.remove(&model, false).unwrap_err().code(), "model_used");
    }

    #[test]
    fn a_model_that_no_run_needs_goes_at_once() {
        let machine = Machine::new();
        let path = machine.fetched("other/model", &WHOLE);
        machine.remove(&machine.models()[0], false).unwrap();
        assert!(!path.exists());
    }
}
