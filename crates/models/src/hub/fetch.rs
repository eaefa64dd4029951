//! Fetching: into `<blob>.partial`, on from where it was cut, under its own name once its hash is right.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::plan::Hash;
use super::{Hub, HubError, Plan, PlannedFile};

/// Cuts in a row without a single byte in between after which the hub counts as not reached.
const MOST_CUTS: u32 = 5;
/// Time before the first new attempt; it doubles with each that brings nothing.
const PAUSE: Duration = Duration::from_millis(500);
const BUFFER_BYTES: usize = 1 << 20;

/// How far a fetch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchProgress<'a> {
    /// The file at hand.
    pub file: &'a str,
    /// Bytes of the whole plan that are here and were not before.
    pub done: u64,
    /// Bytes of the whole plan that were not here.
    pub total: u64,
}

/// Who is told how a fetch goes on, and asked whether it shall.
pub type Watcher<'a> = dyn FnMut(FetchProgress<'_>) -> bool + 'a;

impl Hub {
    /// Fetches what a plan lacks and returns the folder or GGUF file to open. `watcher` is told after each piece, and stops
    /// the fetch by answering false. `free_bytes` is the room in [`Hub::cache`], where it is known.
    ///
    /// # Errors
    /// [`HubError`]; what has arrived is kept, and a second call goes on from there.
    pub fn fetch(
        &self,
        plan: &Plan,
        free_bytes: Option<u64>,
        watcher: &mut Watcher<'_>,
    ) -> Result<PathBuf, HubError> {
        if let Some(free) = free_bytes.filter(|free| *free < plan.fetch_bytes) {
            return Err(HubError::DiskTooSmall {
                id: plan.id.to_string(),
                needed: plan.fetch_bytes,
                free,
                folder: self.cache().to_owned(),
            });
        }
        let mut done = 0;
        for file in plan.files.iter().filter(|file| !file.here) {
            let before = done;
            let mut told = |bytes: u64| {
                watcher(FetchProgress {
                    file: &file.name,
                    done: before + bytes,
                    total: plan.fetch_bytes,
                })
            };
            self.fetch_blob(plan, file, &mut told)?;
            done += file.bytes;
        }
        let snapshot = self.snapshot(&plan.id, plan.id.revision());
        for file in &plan.files {
            link(&self.blob(&plan.id, &file.hash), &snapshot, &file.name)?;
        }
        self.remember(&plan.asked, plan.id.revision())?;
        // An index may name weights that the plan could not know of.
        self.find(&plan.id).map(|(_, path)| path)
    }

    fn fetch_blob(
        &self,
        plan: &Plan,
        file: &PlannedFile,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), HubError> {
        let blob = self.blob(&plan.id, &file.hash);
        let folder = blob.parent().unwrap_or(&blob);
        fs::create_dir_all(folder).map_err(io(folder))?;
        let partial = folder.join(format!("{}.partial", file.hash.text()));
        let mut arriving = Arriving::open(&partial, file)?;
        let mut cuts = 0;
        while arriving.length < file.bytes {
            let before = arriving.length;
            let outcome = self.receive(plan, file, &mut arriving, told);
            match outcome {
                Err(error @ HubError::NotReached { .. }) => {
                    cuts = if arriving.length > before { 0 } else { cuts + 1 };
                    if cuts == MOST_CUTS {
                        return Err(error);
                    }
                    if cuts > 0 {
                        std::thread::sleep(PAUSE * 2u32.pow(cuts - 1));
                    }
                }
                other => other?,
            }
        }
        let found = arriving.finish(&partial)?;
        if found != file.hash.text() {
            fs::remove_file(&partial).map_err(io(&partial))?;
            return Err(HubError::WrongHash {
                id: plan.id.to_string(),
                file: file.name.clone(),
                expected: file.hash.text().to_owned(),
                found,
            });
        }
        fs::rename(&partial, &blob).map_err(io(&blob))
    }

    /// One answer of the hub, to its end or to the cut.
    fn receive(
        &self,
        plan: &Plan,
        file: &PlannedFile,
        arriving: &mut Arriving,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), HubError> {
        if !told(arriving.length) {
            return Err(HubError::Stopped);
        }
        let response = self.open(&plan.id, &file.name, arriving.length)?;
        if response.status() == 206 {
            let range = response.headers().get("content-range");
            let range = range.and_then(|range| range.to_str().ok()).unwrap_or_default();
            if !range.starts_with(&format!("bytes {}-", arriving.length)) {
                return Err(self.bad_answer(format!("another part of {} than was asked for", file.name)));
            }
        } else if arriving.length > 0 {
            // The server knows no ranges and begins anew, so we do.
            arriving.restart(file)?;
        }
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; BUFFER_BYTES];
        while arriving.length < file.bytes {
            let room = BUFFER_BYTES.min((file.bytes - arriving.length) as usize);
            match body.read(&mut buffer[..room]) {
                Ok(0) => return Err(self.not_reached("the connection was cut")),
                Ok(count) => arriving.take(&buffer[..count])?,
                Err(error) => return Err(self.not_reached(&error.to_string())),
            }
            if !told(arriving.length) {
                return Err(HubError::Stopped);
            }
        }
        Ok(())
    }
}

/// A file on its way, hashed as it comes.
struct Arriving {
    file: File,
    path: PathBuf,
    hasher: Hasher,
    length: u64,
}

impl Arriving {
    /// Opens what is there of a file, for this process alone.
    fn open(path: &Path, planned: &PlannedFile) -> Result<Self, HubError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(HubError::Busy {
                    file: planned.name.clone(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(io(path)(source)),
        }
        let mut arriving = Self {
            file,
            path: path.to_owned(),
            hasher: Hasher::new(planned),
            length: 0,
        };
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match arriving.file.read(&mut buffer).map_err(io(path))? {
                0 => break,
                count => {
                    arriving.hasher.update(&buffer[..count]);
                    arriving.length += count as u64;
                }
            }
        }
        if arriving.length > planned.bytes {
            arriving.restart(planned)?;
        }
        Ok(arriving)
    }

    fn restart(&mut self, planned: &PlannedFile) -> Result<(), HubError> {
        self.file.set_len(0).map_err(io(&self.path))?;
        self.file.seek(SeekFrom::Start(0)).map_err(io(&self.path))?;
        self.hasher = Hasher::new(planned);
        self.length = 0;
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        self.file.write_all(bytes).map_err(io(&self.path))?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The hash of what arrived, once it is on disk.
    fn finish(self, path: &Path) -> Result<String, HubError> {
        self.file.sync_all().map_err(io(path))?;
        Ok(self.hasher.finish())
    }
}

enum Hasher {
    Sha256(sha2::Sha256),
    Git(sha1::Sha1),
}

impl Hasher {
    fn new(planned: &PlannedFile) -> Self {
        match planned.hash {
            Hash::Sha256(_) => Self::Sha256(sha2::Digest::new()),
            Hash::Git(_) => {
                // Git hashes a blob with its length before it.
                let mut hasher: sha1::Sha1 = sha1::Digest::new();
                sha1::Digest::update(&mut hasher, format!("blob {}\0", planned.bytes));
                Self::Git(hasher)
            }
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => sha2::Digest::update(hasher, bytes),
            Self::Git(hasher) => sha1::Digest::update(hasher, bytes),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => crate::model::hex(&sha2::Digest::finalize(hasher)),
            Self::Git(hasher) => crate::model::hex(&sha1::Digest::finalize(hasher)),
        }
    }
}

/// Gives a blob its name in a snapshot.
fn link(blob: &Path, snapshot: &Path, name: &str) -> Result<(), HubError> {
    let place = snapshot.join(name);
    if place.exists() || !blob.exists() {
        // It is there already, perhaps as a file of its own, as on systems without links.
        return Ok(());
    }
    let folder = place.parent().unwrap_or(snapshot);
    fs::create_dir_all(folder).map_err(io(folder))?;
    // A link that leads nowhere is what is left of a blob that somebody removed.
    if place.is_symlink() {
        fs::remove_file(&place).map_err(io(&place))?;
    }
    let up = "../".repeat(name.matches('/').count() + 2);
    let target = PathBuf::from(up)
        .join("blobs")
        .join(blob.file_name().unwrap_or_default());
    symlink(&target, blob, &place).map_err(io(&place))
}

#[cfg(unix)]
fn symlink(target: &Path, _blob: &Path, place: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

/// Not every user may make links there; the file then lies in the snapshot itself.
#[cfg(windows)]
fn symlink(target: &Path, blob: &Path, place: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_file(target, place).or_else(|_| fs::rename(blob, place))
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> HubError {
    let path = path.to_owned();
    move |source| HubError::Io {
        path: path.clone(),
        source,
    }
}
