//! Timed windows: while a training or a calibration is measured, this program downloads nothing. A download in the
//! background was seen to double a training's time (M19), and ours need not be among those that do.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use tunesmith_setup::{Report, process::Cancel};

use crate::files::{FileError, make_folder};

/// Time between two looks whether something is timed.
const LOOK: Duration = Duration::from_secs(1);

/// A window in which times count; while it lives, downloads of this program wait, whichever process leads them.
#[derive(Debug)]
pub struct TimedWindow {
    path: PathBuf,
    _file: File,
}

impl TimedWindow {
    /// Begins a window for what is named, e.g. a run's id.
    ///
    /// # Errors
    /// [`FileError`] when its mark cannot be written.
    pub(crate) fn begin(data_dir: &Path, what: &str) -> Result<Self, FileError> {
        let folder = folder(data_dir);
        make_folder(&folder)?;
        let name: String = what
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '-'
                }
            })
            .collect();
        let name = format!("{}-{name}", std::process::id());
        // Locked before it can be seen: one that nobody has locked is of a process that is gone.
        let hidden = folder.join(format!(".{name}"));
        let file = File::create(&hidden).map_err(|source| FileError::new(&hidden, "made", source))?;
        file.lock()
            .map_err(|source| FileError::new(&hidden, "locked", source))?;
        let path = folder.join(name);
        fs::rename(&hidden, &path).map_err(|source| FileError::new(&path, "renamed", source))?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for TimedWindow {
    fn drop(&mut self) {
        // One that stays counts no more once its process is gone.
        let _ = fs::remove_file(&self.path);
    }
}

fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("locks").join("timed")
}

/// What is measured at the moment by this program, in whichever process: downloads wait for its end.
pub fn timed_window(data_dir: &Path) -> Option<String> {
    let entries = fs::read_dir(folder(data_dir)).ok()?;
    entries.flatten().find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if name.starts_with('.') {
            return None;
        }
        let file = File::options().write(true).open(&path).ok()?;
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
            return None;
        }
        Some(
            name.split_once('-')
                .map_or(name.clone(), |(_, what)| what.to_owned()),
        )
    })
}

/// Holds a download of this program back while something is timed.
#[derive(Clone, Debug)]
pub struct Pause {
    data_dir: PathBuf,
    looked: Option<Instant>,
}

impl Pause {
    /// For downloads of the program whose data is there.
    pub fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            looked: None,
        }
    }

    /// Returns once nothing is timed, or the user has stopped; true then where the download may go on. `tell` hears once
    /// what is waited for. Cheap enough to be called for every piece that arrives.
    pub fn wait(&mut self, is_stopped: impl Fn() -> bool, mut tell: impl FnMut(&str)) -> bool {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            let mut told = false;
            while let Some(what) = timed_window(&self.data_dir).filter(|_| !is_stopped()) {
                if !told {
                    tell(&format!(
                        "the download waits while {what} is timed, so as not to slow it"
                    ));
                    told = true;
                }
                thread::sleep(LOOK / 4);
            }
            self.looked = Some(Instant::now());
        }
        !is_stopped()
    }

    /// The same for a set-up, whose commands fetch: one that has begun is not held back any more, the next one is.
    pub fn before_command(&mut self, report: &Report, cancel: &Cancel, tell: impl FnMut(&str)) {
        if matches!(report, Report::Command(_)) {
            self.wait(|| cancel.is_cancelled(), tell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_seen_while_it_lives_and_a_dead_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(timed_window(home.path()), None);
        let window = TimedWindow::begin(home.path(), "run 1/x").unwrap();
        assert_eq!(timed_window(home.path()).as_deref(), Some("run-1-x"));
        drop(window);
        assert_eq!(timed_window(home.path()), None);
        // Of a process that was killed: the file stays, its lock does not.
        fs::write(folder(home.path()).join("7-dead"), "").unwrap();
        assert_eq!(timed_window(home.path()), None);
    }

    #[test]
    fn a_download_waits_for_the_end_of_a_window_and_says_so_once() {
        let home = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        assert!(Pause::new(home.path()).wait(|| false, |text| told.push(text.to_owned())));
        assert_eq!(told, Vec::<String>::new());
        let window = TimedWindow::begin(home.path(), "run-1").unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(600));
            drop(window);
        });
        let start = Instant::now();
        assert!(Pause::new(home.path()).wait(|| false, |text| told.push(text.to_owned())));
        assert!(start.elapsed() >= Duration::from_millis(500));
        assert_eq!(
            told,
            ["the download waits while run-1 is timed, so as not to slow it"]
        );
        ends.join().unwrap();
        // Who stops does not wait.
        let _window = TimedWindow::begin(home.path(), "run-2").unwrap();
        assert!(!Pause::new(home.path()).wait(|| true, |_| ()));
    }
}
