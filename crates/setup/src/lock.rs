//! One set-up at a time: two would remove each other's half-made folders.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use crate::error::SetupError;

/// Held while a stage works; the system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(path: &Path) -> Result<Self, SetupError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(SetupError::io("created", folder))?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(SetupError::io("opened", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The message is useful without the number, so a file that cannot be read is no new error.
                let _ = file.read_to_string(&mut text);
                return Err(SetupError::Busy {
                    pid: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(SetupError::io("locked", path)(source)),
        }
        file.set_len(0).map_err(SetupError::io("written", path))?;
        writeln!(file, "{}", std::process::id()).map_err(SetupError::io("written", path))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_set_up_is_told_who_holds_the_lock() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("downloads/setup.lock");
        let first = Lock::take(&path).unwrap();
        let error = Lock::take(&path).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("another set-up is running (pid {})", std::process::id())
        );
        drop(first);
        Lock::take(&path).unwrap();
    }
}
