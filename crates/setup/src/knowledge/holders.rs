//! The rows of `holders.toml`: programs that hold a card, and how each lets it go and comes back (M20).

use serde::{Deserialize, Serialize};
use toml::Spanned;
use tunesmith_probe::{CardHolder, RunsIn};

use super::reading::{AsOf, KnowledgeError, KnowledgeFile, Text};

/// A program that holds cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HolderRow {
    /// A name for it.
    pub id: String,
    /// The program, for people.
    pub name: Text,
    /// Beginnings of the names of its processes.
    pub processes: Vec<String>,
    /// Last names of its working folder.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Names of its systemd unit.
    #[serde(default)]
    pub units: Vec<String>,
    /// What lets the card go where nothing that it runs in does; `{pid}` is its process.
    pub stop: Text,
    /// What brings it back.
    pub start: Text,
    /// What to know beside that.
    #[serde(default)]
    pub note: Option<Text>,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
}

/// All programs that are known to hold cards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holders(Vec<HolderRow>);

/// A holder in words, with the command that lets the card go and the one that brings the program back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderWords {
    /// The program, for people.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Memory of the card that it holds, in bytes.
    pub vram_bytes: u64,
    /// PCI address of the card.
    pub pci: String,
    /// What lets the card go; none for a program that nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// What brings it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// What to know beside that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Holders {
    pub(super) fn read(file: &KnowledgeFile) -> Result<Self, KnowledgeError> {
        let rows: File = file.parse()?;
        let mut all: Vec<HolderRow> = Vec::new();
        for row in rows.holder {
            let offset = row.span().start;
            let row = row.into_inner();
            if all.iter().any(|other| other.id == row.id) {
                return Err(file.mistake(offset, "id", format!("`{}` is there twice", row.id)));
            }
            let signs = [&row.processes, &row.folders, &row.units];
            if signs.iter().all(|signs| signs.is_empty()) {
                return Err(file.mistake(offset, "processes", "nothing tells that it is this program"));
            }
            if signs
                .iter()
                .any(|signs| signs.iter().any(|sign| sign.trim().is_empty()))
            {
                return Err(file.mistake(offset, "processes", "an empty name is every program's"));
            }
            all.push(row);
        }
        Ok(Self(all))
    }

    /// The rows.
    pub fn rows(&self) -> &[HolderRow] {
        &self.0
    }

    /// The program that a process belongs to.
    fn row_of(&self, holder: &CardHolder) -> Option<&HolderRow> {
        let name = holder.name.as_deref().unwrap_or_default();
        let unit = match &holder.runs_in {
            RunsIn::SystemUnit { unit } | RunsIn::UserUnit { unit } => Some(unit),
            _ => None,
        };
        let is_of = |row: &&HolderRow| {
            row.processes.iter().any(|start| name.starts_with(start.as_str()))
                || row
                    .folders
                    .iter()
                    .any(|folder| holder.folder.as_ref() == Some(folder))
                || unit.is_some_and(|unit| row.units.contains(unit))
        };
        self.0.iter().find(is_of)
    }

    /// A holder in words.
    pub fn words(&self, holder: &CardHolder) -> HolderWords {
        let row = self.row_of(holder);
        let process = holder.name.clone().unwrap_or_else(|| "a program".to_owned());
        let name = row.map_or(process, |row| row.name.to_string());
        let (name, stop, start) = match &holder.runs_in {
            RunsIn::Container { by, id } => (
                format!("{name}, in a container"),
                Some(format!("{} stop {id}", by.name())),
                Some(format!("{} start {id}", by.name())),
            ),
            RunsIn::SystemUnit { unit } => (
                name,
                Some(format!("sudo systemctl stop {unit}")),
                Some(format!("sudo systemctl start {unit}")),
            ),
            RunsIn::UserUnit { unit } => (
                name,
                Some(format!("systemctl --user stop {unit}")),
                Some(format!("systemctl --user start {unit}")),
            ),
            RunsIn::Plain => (
                name,
                row.map(|row| row.stop.replace("{pid}", &holder.pid.to_string())),
                row.map(|row| row.start.to_string()),
            ),
        };
        HolderWords {
            name,
            pid: holder.pid,
            vram_bytes: holder.vram_bytes,
            pci: holder.pci.clone(),
            stop,
            start,
            note: row.and_then(|row| row.note.as_ref()).map(ToString::to_string),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    holder: Vec<Spanned<HolderRow>>,
}

#[cfg(test)]
mod tests {
    use tunesmith_probe::ContainerTool;

    use super::*;

    fn holders() -> Holders {
        super::super::holders(None).unwrap()
    }

    fn holder(name: &str, runs_in: RunsIn) -> CardHolder {
        CardHolder {
            pci: "0000:03:00.0".to_owned(),
            pid: 4711,
            name: Some(name.to_owned()),
            folder: None,
            vram_bytes: 5 << 30,
            runs_in,
        }
    }

    #[test]
    fn each_known_program_is_named_with_both_commands() {
        for (process, name) in [
            ("ollama", "Ollama"),
            ("llama-server", "llama.cpp's server"),
            ("LM Studio", "LM Studio"),
            ("VLLM::EngineCor", "vLLM"),
        ] {
            let words = holders().words(&holder(process, RunsIn::Plain));
            assert_eq!(words.name, name);
            assert!(words.stop.is_some() && words.start.is_some(), "{name}");
        }
        let comfy = CardHolder {
            folder: Some("ComfyUI".to_owned()),
            ..holder("python3", RunsIn::Plain)
        };
        let words = holders().words(&comfy);
        assert_eq!(
            (words.name.as_str(), words.stop.as_deref()),
            ("ComfyUI", Some("kill 4711"))
        );
    }

    #[test]
    fn what_it_runs_in_decides_how_it_is_stopped() {
        let unit = RunsIn::SystemUnit {
            unit: "ollama".to_owned(),
        };
        let words = holders().words(&holder("ollama", unit));
        assert_eq!(words.stop.as_deref(), Some("sudo systemctl stop ollama"));
        assert_eq!(words.start.as_deref(), Some("sudo systemctl start ollama"));
        let container = RunsIn::Container {
            by: ContainerTool::Podman,
            id: "4f66ad9a0b2e".to_owned(),
        };
        let words = holders().words(&holder("python3", container));
        assert_eq!(words.name, "python3, in a container");
        assert_eq!(words.stop.as_deref(), Some("podman stop 4f66ad9a0b2e"));
    }

    #[test]
    fn an_unknown_program_is_named_and_nobody_is_told_to_kill_it() {
        let words = holders().words(&holder("gnome-shell", RunsIn::Plain));
        assert_eq!(words.name, "gnome-shell");
        assert_eq!((words.stop, words.start), (None, None));
    }

    #[test]
    fn a_row_that_fits_every_program_is_refused() {
        let row = |processes: &str| {
            let text = format!(
                "[[holder]]\nid = \"a\"\nname = \"A\"\nprocesses = {processes}\nstop = \"x\"\nstart = \"y\"\n\
                 as_of = \"2026-12-01\"\nsource = \"own\"\n"
            );
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("holders.toml"), text).unwrap();
            super::super::holders(Some(folder.path()))
        };
        assert_eq!(row("[\"a\"]").unwrap().rows().len(), 1);
        assert!(row("[]").is_err() && row("[\"\"]").is_err());
    }
}
