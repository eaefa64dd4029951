//! One run at a time on a device: two trainings on one card would measure each other.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use crate::files::{FileError, make_folder, write_whole};

use super::SupervisorError;

/// Holds a device until it is dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub struct DeviceLock {
    _file: File,
    holder: PathBuf,
}

impl DeviceLock {
    /// Takes the device for a run; lock files lie in `<data dir>/locks`.
    ///
    /// # Errors
    /// [`SupervisorError::DeviceInUse`] with the run and the process that hold it, or a file that cannot be written.
    pub fn take(data_dir: &Path, device: &str, run: &str) -> Result<Self, SupervisorError> {
        let folder = data_dir.join("locks");
        make_folder(&folder)?;
        let name = device.replace(':', "-");
        let path = folder.join(format!("{name}.lock"));
        // The holder stands in a file of its own: some systems let nobody read a file that is locked.
        let holder = folder.join(format!("{name}.holder"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| FileError::new(&path, "opened", source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = fs::read_to_string(&holder).unwrap_or_default();
                let mut words = text.split_whitespace();
                let mut word = || words.next().unwrap_or("unknown").to_owned();
                return Err(SupervisorError::DeviceInUse {
                    device: device.to_owned(),
                    run: word(),
                    pid: word(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(FileError::new(&path, "locked", source).into()),
        }
        let lock = Self { _file: file, holder };
        lock.name_run(run)?;
        Ok(lock)
    }

    /// Says which run holds the device, for whoever is refused; its id is known only after the lock was taken.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn name_run(&self, run: &str) -> Result<(), FileError> {
        write_whole(&self.holder, format!("{run} {}\n", std::process::id()).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_refused_by_name_until_the_first_lets_go() {
        let home = tempfile::tempdir().unwrap();
        let first = DeviceLock::take(home.path(), "cuda:0", "run-a").unwrap();
        let error = DeviceLock::take(home.path(), "cuda:0", "run-b").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the device cuda:0 is in use by run run-a (pid {})",
                std::process::id()
            )
        );
        DeviceLock::take(home.path(), "cpu", "run-b").unwrap();
        drop(first);
        DeviceLock::take(home.path(), "cuda:0", "run-b").unwrap();
    }
}
