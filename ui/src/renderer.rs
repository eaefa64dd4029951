//! The ladder of renderers. No single one works everywhere: Vulkan drivers are broken on some machines, OpenGL hangs on
//! others. So each start notes what it tries and, once a frame is on the screen, that it worked; a start that finds a
//! try without its success begins one rung lower.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tunesmith_lab::files::{FileError, make_folder, write_json};
use tunesmith_setup::env_vars;

/// A renderer, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Vulkan, Direct3D 12 or Metal, on the adapter that uses least power.
    Wgpu,
    /// wgpu on OpenGL.
    WgpuGl,
    /// OpenGL without wgpu.
    Glow,
    /// OpenGL computed by the processor.
    Software,
}

impl Rung {
    /// All of them, best first.
    pub const ALL: [Self; 4] = [Self::Wgpu, Self::WgpuGl, Self::Glow, Self::Software];

    /// As `--renderer` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wgpu => "wgpu",
            Self::WgpuGl => "wgpu-gl",
            Self::Glow => "glow",
            Self::Software => "software",
        }
    }

    /// The one that [`env_vars::RENDERER`] names, where it names one.
    pub fn from_env() -> Option<Self> {
        let name = env_vars::read(env_vars::RENDERER)?;
        Self::from_str(name.to_str()?, true).ok()
    }

    /// The next one down.
    pub fn lower(self) -> Option<Self> {
        Self::ALL.into_iter().find(|rung| *rung > self)
    }
}

/// What is noted between starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// What was tried last and has painted nothing yet.
    pub trying: Option<Rung>,
    /// What painted last.
    pub painted: Option<Rung>,
}

impl Notes {
    /// Reads the notes; without them, or where they are damaged, nothing has been tried.
    pub fn load(config: &Path) -> Self {
        fs::read_to_string(file(config))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }

    /// The rung to begin with; `None` where the last one has failed too.
    pub fn first(&self) -> Option<Rung> {
        match self.trying {
            Some(failed) => failed.lower(),
            None => Some(self.painted.unwrap_or(Rung::Wgpu)),
        }
    }

    /// Notes that a rung is tried.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn note_try(&mut self, config: &Path, rung: Rung) -> Result<(), FileError> {
        self.trying = Some(rung);
        self.store(config)
    }

    /// Notes that it painted.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn note_painted(&mut self, config: &Path, rung: Rung) -> Result<(), FileError> {
        *self = Self {
            trying: None,
            painted: Some(rung),
        };
        self.store(config)
    }

    /// Forgets everything, so that the next start begins at the top.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn forget(config: &Path) -> Result<(), FileError> {
        Self::default().store(config)
    }

    fn store(&self, config: &Path) -> Result<(), FileError> {
        make_folder(config)?;
        write_json(&file(config), self)
    }
}

fn file(config: &Path) -> PathBuf {
    config.join("renderer.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_did_not_paint_falls_one_rung() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Notes::load(folder.path());
        assert_eq!(notes.first(), Some(Rung::Wgpu));
        notes.note_try(folder.path(), Rung::Wgpu).unwrap();
        assert_eq!(Notes::load(folder.path()).first(), Some(Rung::WgpuGl));
    }

    #[test]
    fn what_painted_is_where_the_next_start_begins() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Notes::default();
        notes.note_try(folder.path(), Rung::Glow).unwrap();
        notes.note_painted(folder.path(), Rung::Glow).unwrap();
        assert_eq!(Notes::load(folder.path()).first(), Some(Rung::Glow));
        Notes::forget(folder.path()).unwrap();
        assert_eq!(Notes::load(folder.path()).first(), Some(Rung::Wgpu));
    }

    #[test]
    fn below_the_last_rung_there_is_no_window() {
        let notes = Notes {
            trying: Some(Rung::Software),
            painted: Some(Rung::Wgpu),
        };
        assert_eq!(notes.first(), None);
    }

    #[test]
    fn damaged_notes_are_no_notes() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(file(folder.path()), "{\"trying\": 7}").unwrap();
        assert_eq!(Notes::load(folder.path()), Notes::default());
    }
}
