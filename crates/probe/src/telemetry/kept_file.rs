//! A small file of the kernel's that stays open and is read from its start each time.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

/// Linux: the device is gone.
const ENODEV: i32 = 19;

/// Most that is read of a file at each sample: one line with a number, or a short list of clocks.
const MAX_BYTES: usize = 4096;

pub(super) struct KeptFile(File);

/// What reading gave.
#[derive(Debug, PartialEq)]
pub(super) enum Reading<T> {
    Value(T),
    /// Not this time: busy, asleep, forbidden, or no number.
    Gap,
    /// The device behind the file is gone, and may come back under another name.
    Lost,
}

impl KeptFile {
    /// `None` when the file is not there, as when the card has no such sensor.
    pub(super) fn open(path: &Path) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// Reads the file anew into a text.
    pub(super) fn text(&mut self) -> io::Result<String> {
        let mut buffer = [0; MAX_BYTES];
        self.0.rewind()?;
        let length = self.0.read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// Reads the file anew; `parse` makes something of its trimmed text.
    pub(super) fn read<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
        match self.text() {
            Ok(text) => parse(text.trim()).map_or(Reading::Gap, Reading::Value),
            Err(error) => failure(&error),
        }
    }
}

fn failure<T>(error: &io::Error) -> Reading<T> {
    if error.raw_os_error() == Some(ENODEV) || error.kind() == io::ErrorKind::NotFound {
        Reading::Lost
    } else {
        Reading::Gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power1_average");
        std::fs::write(&path, "280000000\n").unwrap();
        let mut file = KeptFile::open(&path).unwrap();
        let number = |text: &str| text.parse::<u64>().ok();
        assert_eq!(file.read(number), Reading::Value(280_000_000));
        std::fs::write(&path, "13000000\n").unwrap();
        assert_eq!(file.read(number), Reading::Value(13_000_000));
        std::fs::write(&path, "").unwrap();
        assert_eq!(file.read(number), Reading::Gap, "nothing is not zero");
    }

    #[test]
    fn a_gone_device_is_lost_and_a_busy_one_is_a_gap() {
        // EPERM, EBUSY, EINVAL: what drivers answer while a card sleeps, is reset, or has no such figure.
        for number in [1, 16, 22] {
            assert_eq!(
                failure::<u64>(&io::Error::from_raw_os_error(number)),
                Reading::Gap
            );
        }
        assert_eq!(
            failure::<u64>(&io::Error::from_raw_os_error(ENODEV)),
            Reading::Lost
        );
        // A folder can be opened and not be read.
        let folder = tempfile::tempdir().unwrap();
        let mut file = KeptFile::open(folder.path()).unwrap();
        assert_eq!(file.read(|text| Some(text.len())), Reading::Gap);
    }
}
