//! What outlives the window: page, size, look, choices, the form that was not sent. A file that cannot be read is put
//! aside and never keeps the window from opening.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tunesmith_lab::files::{FileError, make_folder, write_json};
use tunesmith_setup::plan::DeviceChoice;

use crate::state::Page;

const FILE: &str = "window.json";

/// Light, dark, or as the system has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThemeWish {
    /// As the system has it.
    #[default]
    System,
    /// Dark.
    Dark,
    /// Light.
    Light,
}

/// What shall train.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceWish {
    /// What the plan says.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The card at this PCI address, which stays the same when others are added.
    Card(String),
}

impl DeviceWish {
    /// As the service's words have it: a PCI address or `cpu`.
    pub fn word(&self) -> Option<String> {
        match self {
            Self::Auto => None,
            Self::Cpu => Some("cpu".to_owned()),
            Self::Card(pci) => Some(pci.clone()),
        }
    }

    /// As the plan's words have it.
    pub fn choice(&self) -> DeviceChoice {
        match self {
            Self::Auto => DeviceChoice::Auto,
            Self::Cpu => DeviceChoice::Cpu,
            Self::Card(pci) => DeviceChoice::Card(pci.clone()),
        }
    }
}

/// What outlives the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// The page that was shown.
    pub page: Page,
    /// Whether the welcome has been seen.
    pub welcomed: bool,
    /// Look.
    pub theme: ThemeWish,
    /// Scale, 1.0 to 2.0.
    pub zoom: f32,
    /// What shall train.
    pub device: DeviceWish,
    /// Size of the window in points.
    pub size: Option<[f32; 2]>,
    /// Place of the window in points.
    pub position: Option<[f32; 2]>,
    /// Whether it fills the screen.
    pub maximized: bool,
    /// Which lines of a log are shown: `debug`, `info` or `warn` and above.
    pub log_level: String,
    /// Runs whose interruption the user has seen and left alone.
    pub left_alone: Vec<String>,
    /// What the pages keep, each under its name: a form that was not sent, columns, choices.
    pub forms: serde_json::Map<String, Value>,
}

impl Default for Saved {
    fn default() -> Self {
        Self {
            page: Page::Card,
            welcomed: false,
            theme: ThemeWish::System,
            zoom: 1.0,
            device: DeviceWish::Auto,
            size: None,
            position: None,
            maximized: false,
            log_level: "info".to_owned(),
            left_alone: Vec::new(),
            forms: serde_json::Map::new(),
        }
    }
}

impl Saved {
    /// Reads what was saved in the folder of choices. A damaged file is renamed to `window.json.unreadable`.
    pub fn load(config: &Path) -> Self {
        let path = file(config);
        let Ok(text) = fs::read_to_string(&path) else {
            return Self::default();
        };
        if let Ok(saved) = serde_json::from_str::<Self>(&text) {
            return Self {
                zoom: saved.zoom.clamp(1.0, 2.0),
                ..saved
            };
        }
        // Where this fails too, the next save replaces the file.
        let _: io::Result<()> = fs::rename(&path, path.with_extension("json.unreadable"));
        Self::default()
    }

    /// Saves it.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn store(&self, config: &Path) -> Result<(), FileError> {
        make_folder(config)?;
        write_json(&file(config), self)
    }

    /// A page's form, where one was kept that can still be read.
    pub fn form<T: for<'a> Deserialize<'a>>(&self, page: &str) -> Option<T> {
        serde_json::from_value(self.forms.get(page)?.clone()).ok()
    }

    /// Keeps a page's form.
    pub fn keep_form(&mut self, page: &str, form: &impl Serialize) {
        if let Ok(value) = serde_json::to_value(form) {
            self.forms.insert(page.to_owned(), value);
        }
    }
}

fn file(config: &Path) -> PathBuf {
    config.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut saved = Saved {
            page: Page::Runs,
            device: DeviceWish::Card("0000:03:00.0".to_owned()),
            zoom: 1.5,
            ..Saved::default()
        };
        saved.keep_form("tune", &["a form"]);
        saved.store(folder.path()).unwrap();
        assert_eq!(Saved::load(folder.path()), saved);
        assert_eq!(saved.form::<Vec<String>>("tune").unwrap(), ["a form"]);
    }

    #[test]
    fn a_damaged_file_is_put_aside_and_an_older_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(file(folder.path()), "{\"page\": \"ru").unwrap();
        assert_eq!(Saved::load(folder.path()), Saved::default());
        assert!(folder.path().join("window.json.unreadable").exists());
        fs::write(file(folder.path()), "{\"page\": \"runs\", \"zoom\": 90}").unwrap();
        let saved = Saved::load(folder.path());
        assert_eq!((saved.page, saved.zoom), (Page::Runs, 2.0));
    }
}
