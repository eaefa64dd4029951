//! Writes a capture of a machine: the files that detection reads, in the form in which it reads them, without what
//! names a person or one single machine.
//!
//! A user attaches it to a question, and whoever answers has the machine before them: `tunesmith doctor --root FOLDER`
//! says there what it says here. Only files on a list are read (`files.rs`), all of them pass through the redaction
//! (`redact.rs`), and what was taken out is counted and told (X1, X7).

mod files;
mod redact;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use redact::Redaction;

use crate::{Note, Setting, System, nvml};
use files::{Kind, MODULES, Wanted, wanted};
use redact::Redactor;

/// By this file a capture is known.
const ABOUT: &str = "tunesmith-capture/capture.json";

/// Stands for a kernel's log in which no line speaks of the cards; it is not one itself.
const NO_LINES: &str = "[    0.000000] no line of the log speaks of these devices\n";

/// A destination that ends so is one packed file.
const PACKED: &str = ".tar.gz";

/// Largest file that is taken, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Most bytes and files of a capture.
const MAX_BYTES: u64 = 32 << 20;
const MAX_FILES: usize = 20_000;
/// Of things that were left out so many are told.
const MAX_NOTES: usize = 200;

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureOptions {
    /// Replace a capture that is already at the destination. Anything else there is never replaced.
    pub overwrite: bool,
}

/// What a capture holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSummary {
    /// Where it is.
    pub path: PathBuf,
    /// Files in it.
    pub files: usize,
    /// Their size in bytes, before they are packed.
    pub bytes: u64,
    /// How often what was taken out.
    pub redacted: BTreeMap<Redaction, usize>,
    /// Files of the list that are there and were not taken, with the reason.
    pub left_out: Vec<Note>,
}

/// Why there is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Something is at the destination.
    #[error("{0} exists; give another name, or ask for it to be replaced")]
    Exists(PathBuf),
    /// Something is at the destination that is not ours to replace.
    #[error("{0} exists and is no capture, so it is not replaced; give another name")]
    NotACapture(PathBuf),
    /// The destination has no name, e.g. `/`.
    #[error("{0} is no name for a capture")]
    NoName(PathBuf),
    /// A file or folder could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What detection found has no JSON form.
    #[error("cannot write {path}: {source}")]
    Json {
        /// Which file.
        path: &'static str,
        /// What the writer said.
        source: serde_json::Error,
    },
}

/// Writes a capture of the machine below `root`, of which detection said `system`, to `destination`: a folder, or one
/// packed file where the name ends in `.tar.gz`. It appears there whole or not at all.
///
/// # Errors
/// When something else is at the destination, or it cannot be written there.
pub fn capture(
    root: &Path,
    system: &System,
    destination: &Path,
    options: CaptureOptions,
) -> Result<CaptureSummary, CaptureError> {
    let place = Place::new(destination, options)?;
    let mut writer = Writer {
        root,
        folder: place.partial.clone(),
        redactor: Redactor::of_machine(root),
        summary: CaptureSummary {
            path: destination.to_owned(),
            ..CaptureSummary::default()
        },
    };
    create_folder(&place.partial)?;
    for file in wanted(root) {
        writer.take(&file)?;
    }
    writer.folders()?;
    writer.answers(system)?;
    let summary = writer.finish(system)?;
    place.publish()?;
    Ok(summary)
}

/// A text about the machine below `root` without what names a person or one single machine, as captures have theirs:
/// for what a user copies to ask others.
pub fn redacted(root: &Path, text: &str) -> String {
    Redactor::of_machine(root).text(text)
}

struct Writer<'a> {
    root: &'a Path,
    folder: PathBuf,
    redactor: Redactor,
    summary: CaptureSummary,
}

impl Writer<'_> {
    fn take(&mut self, file: &Wanted) -> Result<(), CaptureError> {
        let shown = file.from.display().to_string();
        let content = match self.read(&file.from, file.kind) {
            Ok(content) => content,
            Err(reason) => {
                self.leave_out(&shown, reason);
                return Ok(());
            }
        };
        let content = match file.kind {
            Kind::Mark => Vec::new(),
            Kind::Bytes => content,
            kind => self
                .redacted(kind, &String::from_utf8_lossy(&content))
                .into_bytes(),
        };
        let is_empty_extract = content.is_empty() && matches!(file.kind, Kind::ModuleLines | Kind::Flatpak);
        if is_empty_extract {
            return Ok(());
        }
        let place = self.place(&file.from, file.kind);
        self.write(&place, &content)
    }

    fn read(&self, path: &Path, kind: Kind) -> Result<Vec<u8>, &'static str> {
        let path = self.root.join(path);
        if self.root != Path::new(crate::LIVE) {
            // A capture came from somebody else; a link in it must not bring in files of this machine.
            let (real, root) = (fs::canonicalize(&path), fs::canonicalize(self.root));
            let inside = real.is_ok_and(|real| root.is_ok_and(|root| real.starts_with(root)));
            if !inside {
                return Err("it leads out of the machine's folder");
            }
        }
        if kind == Kind::Mark {
            return Ok(Vec::new());
        }
        let reason = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => "it may not be read",
            io::ErrorKind::NotFound => "it is gone",
            _ => "it cannot be read",
        };
        if !fs::metadata(&path).map_err(reason)?.is_file() {
            return Err("it is no plain file");
        }
        let mut content = Vec::new();
        let limit = MAX_FILE_BYTES + 1;
        File::open(&path)
            .and_then(|file| file.take(limit).read_to_end(&mut content))
            .map_err(reason)?;
        if content.len() as u64 > MAX_FILE_BYTES {
            Err("it is too large")
        } else {
            Ok(content)
        }
    }

    fn redacted(&mut self, kind: Kind, text: &str) -> String {
        match kind {
            Kind::Kernel => self.redactor.kernel_text(text),
            Kind::Text => self.redactor.text(text),
            Kind::BootLine => self.redactor.boot_line(text),
            Kind::UniqueId => self.redactor.unique_id_file(text),
            Kind::KfdProperties => self.redactor.kfd_properties(text),
            Kind::ModuleLines => {
                let lines = kept(text, |line| {
                    let line = line.replace('-', "_");
                    !line.trim_start().starts_with('#') && MODULES.iter().any(|module| line.contains(module))
                });
                self.redactor.text(&lines)
            }
            Kind::LoadedModules => {
                // name size users dependents state address
                let of_cards = kept(text, |line| {
                    line.split(' ').next().is_some_and(|name| MODULES.contains(&name))
                });
                let without_address = |line: &str| {
                    let fields: Vec<&str> = line.split(' ').take(5).collect();
                    format!("{} 0x0000000000000000\n", fields.join(" "))
                };
                of_cards.lines().map(without_address).collect()
            }
            Kind::Status => kept(text, |line| {
                ["Groups:", "Cpus_allowed_list:"]
                    .iter()
                    .any(|key| line.starts_with(key))
            }),
            Kind::ControlGroups => {
                let mut lines = String::new();
                for line in text.lines() {
                    if let Some((at, _)) = line.match_indices(':').nth(1) {
                        let group = self.redactor.control_group(&line[at + 1..]);
                        lines.push_str(&line[..=at]);
                        lines.push_str(&group);
                        lines.push('\n');
                    }
                }
                lines
            }
            Kind::Flatpak => kept(text, |line| {
                let keys = [
                    "flatpak-version",
                    "devices",
                    "runtime",
                    "arch",
                    "shared",
                    "sockets",
                ];
                line.starts_with('[') || line.split_once('=').is_some_and(|(key, _)| keys.contains(&key))
            }),
            Kind::Mark | Kind::Bytes => String::new(),
        }
    }

    /// Where a file goes. Names that people choose are redacted too.
    fn place(&mut self, from: &Path, kind: Kind) -> PathBuf {
        const MOUNT: &str = "sys/fs/cgroup";
        if let Ok(group) = from.strip_prefix(MOUNT) {
            let mut folders: Vec<String> = group
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            let file = folders.pop().unwrap_or_default();
            let mounts = ["unified", "memory", "cpu", "cpu,cpuacct", "cpuacct,cpu"];
            let is_mount = folders
                .first()
                .is_some_and(|first| mounts.contains(&first.as_str()));
            let (mount, groups) = folders.split_at(usize::from(is_mount));
            let groups = self.redactor.control_group(&groups.join("/"));
            return Path::new(MOUNT)
                .join(mount.join("/"))
                .join(groups.trim_start_matches('/'))
                .join(file);
        }
        if matches!(kind, Kind::Text | Kind::ModuleLines) {
            return PathBuf::from(self.redactor.path(&from.to_string_lossy()));
        }
        from.to_owned()
    }

    /// Folders that tell something by being there.
    fn folders(&mut self) -> Result<(), CaptureError> {
        // A machine whose devices were listed and that has no card is another than one of which nothing is known.
        for folder in ["sys", "proc"]
            .iter()
            .filter(|folder| self.root.join(folder).is_dir())
        {
            create_folder(&self.folder.join(folder))?;
        }
        // Kubernetes is known by a folder whose content is nobody's business.
        for folder in ["var/run/secrets/kubernetes.io", "run/secrets/kubernetes.io"] {
            if self.root.join(folder).exists() {
                self.write(&Path::new(folder).join("taken-out"), b"")?;
            }
        }
        Ok(())
    }

    /// What detection found by other ways than files.
    fn answers(&mut self, system: &System) -> Result<(), CaptureError> {
        self.write_json("tunesmith-capture/access.json", &system.access)?;
        let settings: Vec<Setting> = system
            .settings
            .iter()
            .map(|setting| self.setting(setting))
            .collect();
        self.write_json("tunesmith-capture/settings.json", &settings)?;
        self.packages(&system.stacks.packages)?;
        if let Some(lines) = &system.kernel_log {
            let log = lines.iter().map(|line| self.redactor.text(line) + "\n");
            // An empty log is an answer; an empty file would be none.
            let log = if lines.is_empty() {
                NO_LINES.to_owned()
            } else {
                log.collect()
            };
            self.write(Path::new("dmesg.txt"), log.as_bytes())?;
        }
        if self.root == Path::new(crate::LIVE) {
            self.listings()?;
        }
        Ok(())
    }

    /// The packages that matter, as dpkg lists them, whichever database they came from.
    fn packages(&mut self, packages: &[String]) -> Result<(), CaptureError> {
        let mut status = String::new();
        for (name, version) in packages.iter().filter_map(|package| package.split_once(' ')) {
            // Writing into a text cannot fail.
            let _ = write!(
                status,
                "Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n"
            );
        }
        if status.is_empty() {
            return Ok(());
        }
        self.write(Path::new("var/lib/dpkg/status"), status.as_bytes())
    }

    /// What only the system of this machine tells, in the files in which detection finds it in a capture.
    fn listings(&mut self) -> Result<(), CaptureError> {
        #[cfg(windows)]
        for (name, listing) in crate::windows::listings() {
            let listing = self.redactor.text(&listing);
            self.write(Path::new(name), listing.as_bytes())?;
        }
        match nvml::listing(self.root) {
            Ok(listing) if !listing.devices.is_empty() => self.write_json(nvml::LISTING, &listing),
            // A machine without NVIDIA, or without its library.
            _ => Ok(()),
        }
    }

    fn setting(&mut self, setting: &Setting) -> Setting {
        // Name and value together: some values are secret by their names.
        let line = self.redactor.text(&format!("{}={}", setting.name, setting.value));
        let value = line.split_once('=').map_or("", |(_, value)| value);
        Setting {
            value: value.to_owned(),
            origin: self.redactor.text(&setting.origin),
            ..setting.clone()
        }
    }

    fn write_json(&mut self, path: &'static str, value: &impl Serialize) -> Result<(), CaptureError> {
        let json =
            serde_json::to_string_pretty(value).map_err(|source| CaptureError::Json { path, source })?;
        let json = self.redactor.text(&json);
        self.write(Path::new(path), json.as_bytes())
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> Result<(), CaptureError> {
        if self.summary.files >= MAX_FILES || self.summary.bytes + content.len() as u64 > MAX_BYTES {
            self.leave_out(&path.display().to_string(), "the capture is full");
            return Ok(());
        }
        let place = self.folder.join(path);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(|source| write_error(folder, source))?;
        }
        fs::write(&place, content).map_err(|source| write_error(&place, source))?;
        self.summary.files += 1;
        self.summary.bytes += content.len() as u64;
        Ok(())
    }

    fn leave_out(&mut self, path: &str, reason: &str) {
        if self.summary.left_out.len() < MAX_NOTES {
            let path = self.redactor.path(path);
            self.summary.left_out.push(Note {
                path,
                text: reason.to_owned(),
            });
        }
    }

    /// Writes what tells of the capture itself; nothing is redacted after that.
    fn finish(mut self, system: &System) -> Result<CaptureSummary, CaptureError> {
        self.summary.redacted = self.redactor.counts().clone();
        let about = About {
            schema: ABOUT_SCHEMA,
            program: concat!("tunesmith ", env!("CARGO_PKG_VERSION")).to_owned(),
            live: system.live,
            redacted: self.summary.redacted.clone(),
            left_out: self.summary.left_out.clone(),
        };
        let json = serde_json::to_string_pretty(&about);
        let json = json.map_err(|source| CaptureError::Json { path: ABOUT, source })?;
        self.write(Path::new(ABOUT), json.as_bytes())?;
        self.write(Path::new("README.txt"), readme(&self.summary).as_bytes())?;
        Ok(self.summary)
    }
}

const ABOUT_SCHEMA: u32 = 1;

/// What a capture says of itself.
#[derive(Serialize, Deserialize)]
struct About {
    schema: u32,
    program: String,
    live: bool,
    redacted: BTreeMap<Redaction, usize>,
    left_out: Vec<Note>,
}

fn kept(text: &str, keep: impl Fn(&str) -> bool) -> String {
    let lines = text.lines().filter(|line| keep(line));
    lines.fold(String::new(), |mut kept, line| {
        kept.push_str(line);
        kept.push('\n');
        kept
    })
}

fn readme(summary: &CaptureSummary) -> String {
    let mut text = String::from(
        "A capture of a computer's graphics set-up, written by Tunesmith.\n\n\
         It holds the small text files from which the set-up can be read, under the paths that they have on the\n\
         machine, and in tunesmith-capture/ what cannot be read from files: access to the devices and the variables of\n\
         the environment that concern the cards.\n\n\
         To look at it as if it were your own machine:\n\n\
         \x20   tunesmith detect --root FOLDER\n\
         \x20   tunesmith doctor --root FOLDER\n\n\
         What names a person or this one machine was replaced by made-up values, the same for the same:\n\n",
    );
    for (kind, times) in &summary.redacted {
        // Writing into a text cannot fail.
        let _ = writeln!(text, "    {times} x {}", described(*kind));
    }
    if summary.redacted.is_empty() {
        text.push_str("    nothing was found to replace\n");
    }
    text.push_str(
        "\nNot in it: files of yours, names of programs, network settings, displays. Please look through it before you\n\
         give it to others.\n",
    );
    if !summary.left_out.is_empty() {
        let _ = writeln!(
            text,
            "\n{} files could not be taken; tunesmith-capture/capture.json names them.",
            summary.left_out.len()
        );
    }
    text
}

fn described(kind: Redaction) -> &'static str {
    match kind {
        Redaction::UserNames => "names of users",
        Redaction::HostNames => "names of this machine",
        Redaction::HomeFolders => "folders of users",
        Redaction::Serials => "serial numbers",
        Redaction::UniqueIds => "unique ids of cards and disks",
        Redaction::MacAddresses => "addresses of network cards",
        Redaction::Secrets => "passwords, keys and tokens",
        Redaction::BootParameters => "boot parameters that do not concern the cards",
        Redaction::ControlGroups => "names of control groups",
    }
}

fn write_error(path: &Path, source: io::Error) -> CaptureError {
    CaptureError::Write {
        path: path.to_owned(),
        source,
    }
}

fn create_folder(folder: &Path) -> Result<(), CaptureError> {
    fs::create_dir_all(folder).map_err(|source| write_error(folder, source))
}

/// Where a capture goes, and where it grows until it is whole. What is not published is removed.
struct Place {
    destination: PathBuf,
    partial: PathBuf,
    packed: Option<PathBuf>,
    replaces: bool,
}

impl Place {
    fn new(destination: &Path, options: CaptureOptions) -> Result<Self, CaptureError> {
        let name = destination.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| CaptureError::NoName(destination.to_owned()))?;
        let packs = name.ends_with(PACKED);
        let replaces = destination.symlink_metadata().is_ok();
        if replaces {
            if !options.overwrite {
                return Err(CaptureError::Exists(destination.to_owned()));
            }
            let is_capture = if packs {
                is_packed_capture(destination)
            } else {
                destination.join(ABOUT).is_file()
            };
            if !is_capture {
                return Err(CaptureError::NotACapture(destination.to_owned()));
            }
        }
        let beside =
            |kind: &str| destination.with_file_name(format!(".{name}.{kind}-{}", std::process::id()));
        Ok(Self {
            destination: destination.to_owned(),
            partial: beside("partial"),
            packed: packs.then(|| beside("packed")),
            replaces,
        })
    }

    fn publish(&self) -> Result<(), CaptureError> {
        let whole = match &self.packed {
            Some(packed) => {
                self.pack(packed).map_err(|source| write_error(packed, source))?;
                packed
            }
            None => &self.partial,
        };
        let failed = |source| write_error(&self.destination, source);
        if self.replaces && self.packed.is_none() {
            // A folder is no target for a rename; the old one steps aside first.
            let old = self.partial.with_extension("old");
            fs::rename(&self.destination, &old).map_err(failed)?;
            if let Err(source) = fs::rename(whole, &self.destination) {
                // The old one comes back; should that fail too, it is still beside under its other name.
                let _ = fs::rename(&old, &self.destination);
                return Err(failed(source));
            }
            return fs::remove_dir_all(&old).map_err(|source| write_error(&old, source));
        }
        fs::rename(whole, &self.destination).map_err(failed)
    }

    /// Packs the folder under the name of the file, without owners and times.
    fn pack(&self, packed: &Path) -> io::Result<()> {
        let name = self
            .destination
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("capture");
        let name = name.trim_end_matches(PACKED);
        let level = flate2::Compression::default();
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(File::create(packed)?, level));
        archive.mode(tar::HeaderMode::Deterministic);
        archive.append_dir_all(name, &self.partial)?;
        archive.into_inner()?.finish()?.sync_all()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // After success nothing is there any more; after a failure there is nothing better to do.
        let _ = fs::remove_dir_all(&self.partial);
        if let Some(packed) = &self.packed {
            let _ = fs::remove_file(packed);
        }
    }
}

/// Whether a packed file holds a capture's description of itself.
fn is_packed_capture(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let Ok(entries) = archive.entries() else {
        return false;
    };
    entries
        .take(MAX_FILES * 2)
        .flatten()
        .any(|entry| entry.path().is_ok_and(|path| path.ends_with(ABOUT)))
}

#[cfg(test)]
mod tests;
