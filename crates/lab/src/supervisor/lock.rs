//! One run at a time on a device: two trainings on one card would measure each other. A second run is refused by the
//! name of the first, or waits its turn: those that wait stand in a queue, and everybody sees who is before them.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    files::{FileError, make_folder, write_whole},
    run::now,
    stop::StopToken,
};

use super::SupervisorError;

/// How often one that waits looks whether it is its turn.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Holds a device until it is dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub struct DeviceLock {
    _file: File,
    holder: PathBuf,
}

/// Who holds a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceHolder {
    /// Id of its run, or what it does instead.
    pub run: String,
    /// Process that leads it.
    pub pid: String,
    /// Since when, RFC 3339 in UTC; empty where that was not recorded.
    pub since: String,
}

impl DeviceHolder {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut words = text.split_whitespace().map(str::to_owned);
        let mut word = || words.next();
        Self {
            run: word().unwrap_or_else(|| "unknown".to_owned()),
            pid: word().unwrap_or_else(|| "unknown".to_owned()),
            since: word().unwrap_or_default(),
        }
    }

    /// Whoever holds a device now, of all whose locks lie in `<data dir>/locks`.
    ///
    /// # Errors
    /// [`FileError`] where a lock cannot be looked at.
    pub fn all(data_dir: &Path) -> Result<Vec<Self>, FileError> {
        let folder = data_dir.join("locks");
        let mut held = Vec::new();
        // Without the folder nothing was ever held.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            match open(&path)?.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => held.push(Self::read(&path.with_extension("holder"))),
                Err(TryLockError::Error(source)) => return Err(FileError::new(&path, "locked", source)),
            }
        }
        Ok(held)
    }

    /// `run X (pid 1, since 2026-01-01T00:00:00Z)`.
    pub fn words(&self) -> String {
        let since = if self.since.is_empty() {
            String::new()
        } else {
            format!(", since {}", self.since)
        };
        format!("run {} (pid {}{since})", self.run, self.pid)
    }
}

/// Whom one waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The device.
    pub device: String,
    /// Who holds it.
    pub holder: DeviceHolder,
    /// How many wait before.
    pub before: usize,
}

/// The files of a device's lock.
struct Files {
    lock: PathBuf,
    /// The holder stands in a file of its own: some systems let nobody read a file that is locked.
    holder: PathBuf,
    queue: PathBuf,
}

impl Files {
    fn of(data_dir: &Path, device: &str) -> Result<Self, FileError> {
        let folder = data_dir.join("locks");
        make_folder(&folder)?;
        let name = device.replace(':', "-");
        Ok(Self {
            lock: folder.join(format!("{name}.lock")),
            holder: folder.join(format!("{name}.holder")),
            queue: folder.join(format!("{name}.queue")),
        })
    }

    /// The device where nobody holds it.
    fn try_take(&self, run: &str) -> Result<Option<DeviceLock>, FileError> {
        let file = open(&self.lock)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(FileError::new(&self.lock, "locked", source)),
        }
        let lock = DeviceLock {
            _file: file,
            holder: self.holder.clone(),
        };
        lock.name_run(run)?;
        Ok(Some(lock))
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|source| FileError::new(path, "opened", source))
}

impl DeviceLock {
    /// Takes the device for a run; lock files lie in `<data dir>/locks`.
    ///
    /// # Errors
    /// [`SupervisorError::DeviceInUse`] with the run and the process that hold it, or a file that cannot be written.
    pub fn take(data_dir: &Path, device: &str, run: &str) -> Result<Self, SupervisorError> {
        let files = Files::of(data_dir, device)?;
        files.try_take(run)?.ok_or_else(|| SupervisorError::DeviceInUse {
            device: device.to_owned(),
            holder: DeviceHolder::read(&files.holder),
        })
    }

    /// Takes the device as soon as it is this run's turn. `on_wait` is called when it has to wait, and whenever it waits
    /// for somebody else.
    ///
    /// # Errors
    /// [`SupervisorError::Stopped`] when the user stops meanwhile, or a file that cannot be written.
    pub fn take_in_turn(
        data_dir: &Path,
        device: &str,
        run: &str,
        stop: &StopToken,
        on_wait: &mut dyn FnMut(&Waiting),
    ) -> Result<Self, SupervisorError> {
        let files = Files::of(data_dir, device)?;
        let ticket = Ticket::draw(&files.queue)?;
        let mut told = None;
        loop {
            if stop.asked().is_some() {
                return Err(SupervisorError::Stopped);
            }
            let before = ticket.before();
            if before == 0
                && let Some(lock) = files.try_take(run)?
            {
                return Ok(lock);
            }
            let waiting = Waiting {
                device: device.to_owned(),
                holder: DeviceHolder::read(&files.holder),
                before,
            };
            if told.as_ref() != Some(&waiting) {
                on_wait(&waiting);
                told = Some(waiting);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Says which run holds the device, for whoever is refused; its id is known only after the lock was taken.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn name_run(&self, run: &str) -> Result<(), FileError> {
        let text = format!("{run} {} {}\n", std::process::id(), now());
        write_whole(&self.holder, text.as_bytes())
    }
}

/// A place in a queue. It is a locked file, so that one whose process is gone counts no more.
struct Ticket {
    queue: PathBuf,
    name: String,
    _file: File,
}

impl Ticket {
    fn draw(queue: &Path) -> Result<Self, FileError> {
        make_folder(queue)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A thread has a queue place of its own: tests and services wait in one process.
        let name = format!(
            "{:020}-{}-{:?}",
            since.as_nanos(),
            std::process::id(),
            std::thread::current().id()
        );
        // Locked before anybody can see it: an unlocked one is swept away.
        let hidden = queue.join(format!(".{name}"));
        let file = open(&hidden)?;
        file.lock()
            .map_err(|source| FileError::new(&hidden, "locked", source))?;
        let path = queue.join(&name);
        fs::rename(&hidden, &path).map_err(|source| FileError::new(&path, "renamed", source))?;
        Ok(Self {
            queue: queue.to_owned(),
            name,
            _file: file,
        })
    }

    /// How many wait since earlier. Tickets of processes that are gone are swept away.
    fn before(&self) -> usize {
        let entries = fs::read_dir(&self.queue).into_iter().flatten().flatten();
        let earlier = entries.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !name.starts_with('.') && *name < *self.name
        });
        earlier
            .filter(|entry| {
                let path = entry.path();
                let gone = File::options()
                    .write(true)
                    .open(&path)
                    .is_ok_and(|file| file.try_lock().is_ok());
                if gone {
                    // Another may have swept it already.
                    let _ = fs::remove_file(&path);
                }
                !gone && path.exists()
            })
            .count()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // One that stays is swept by the next in the queue.
        let _ = fs::remove_file(self.queue.join(&self.name));
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, thread};

    use tunesmith_protocol::StopHow;

    use super::*;

    #[test]
    fn a_second_run_is_refused_by_name_until_the_first_lets_go() {
        let home = tempfile::tempdir().unwrap();
        let first = DeviceLock::take(home.path(), "cuda:0", "run-a").unwrap();
        let error = DeviceLock::take(home.path(), "cuda:0", "run-b").unwrap_err();
        let text = error.to_string();
        let start = format!(
            "the device cuda:0 is in use by run run-a (pid {}, since 20",
            std::process::id()
        );
        assert!(text.starts_with(&start), "{text}");
        assert!(error.hints()[0].contains("--wait"), "{:?}", error.hints());
        let second = DeviceLock::take(home.path(), "cpu", "run-b").unwrap();
        drop(first);
        DeviceLock::take(home.path(), "cuda:0", "run-b").unwrap();
        drop(second);
    }

    #[test]
    fn whoever_holds_a_device_is_found_for_as_long_as_it_does() {
        let home = tempfile::tempdir().unwrap();
        let held = || -> Vec<String> {
            let holders = DeviceHolder::all(home.path()).unwrap();
            holders.into_iter().map(|holder| holder.run).collect()
        };
        assert!(held().is_empty(), "nothing was ever held");
        let card = DeviceLock::take(home.path(), "cuda:0", "run-a").unwrap();
        drop(DeviceLock::take(home.path(), "cpu", "run-b").unwrap());
        assert_eq!(held(), ["run-a"]);
        drop(card);
        assert!(held().is_empty());
    }

    #[test]
    fn those_who_wait_get_it_in_turn_and_see_who_is_before_them() {
        let home = tempfile::tempdir().unwrap();
        let first = DeviceLock::take(home.path(), "cpu", "run-a").unwrap();
        let (told, heard) = channel();
        let wait = |run: &'static str| {
            let (folder, told) = (home.path().to_owned(), told.clone());
            thread::spawn(move || {
                let mut on_wait = |waiting: &Waiting| {
                    let _ = told.send((run, waiting.before, waiting.holder.run.clone()));
                };
                let lock =
                    DeviceLock::take_in_turn(&folder, "cpu", run, &StopToken::new(), &mut on_wait).unwrap();
                let _ = told.send((run, usize::MAX, "took it".to_owned()));
                drop(lock);
            })
        };
        let second = wait("run-b");
        assert_eq!(heard.recv().unwrap(), ("run-b", 0, "run-a".to_owned()));
        let third = wait("run-c");
        assert_eq!(heard.recv().unwrap(), ("run-c", 1, "run-a".to_owned()));
        drop(first);
        let mut took = Vec::new();
        while took.len() < 2 {
            let (run, before, _) = heard.recv().unwrap();
            if before == usize::MAX {
                took.push(run);
            }
        }
        assert_eq!(took, ["run-b", "run-c"]);
        second.join().unwrap();
        third.join().unwrap();
    }

    #[test]
    fn a_wish_to_stop_ends_the_wait_and_a_dead_ticket_holds_nobody_up() {
        let home = tempfile::tempdir().unwrap();
        let queue = home.path().join("locks/cpu.queue");
        fs::create_dir_all(&queue).unwrap();
        // Of a process that is gone: nobody holds its lock.
        fs::write(queue.join(format!("{:020}-1-x", 1)), "").unwrap();
        let stop = StopToken::new();
        let lock = DeviceLock::take_in_turn(home.path(), "cpu", "run-a", &stop, &mut |_| {
            panic!("there is nobody to wait for")
        })
        .unwrap();
        assert_eq!(fs::read_dir(&queue).unwrap().count(), 0);
        let mut waits = 0;
        let error = DeviceLock::take_in_turn(home.path(), "cpu", "run-b", &stop, &mut |_| {
            waits += 1;
            stop.ask(StopHow::Save);
        })
        .unwrap_err();
        assert!(matches!(error, SupervisorError::Stopped) && waits == 1);
        drop(lock);
    }
}
