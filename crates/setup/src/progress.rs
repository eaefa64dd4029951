//! What a stage tells while it works: its plan before the first byte, then how far it is.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::environments::Engine;

/// The stages of set-up that download something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The installer.
    Uv,
    /// torch's libraries and headers.
    Runtime,
    /// The default model.
    Model,
    /// The Python environment of the reference figures.
    Reference,
    /// The environment of an engine.
    Environment(Engine),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Uv => f.write_str("uv"),
            Stage::Runtime => f.write_str("torch runtime"),
            Stage::Model => f.write_str("default model"),
            Stage::Reference => f.write_str("reference environment"),
            Stage::Environment(engine) => write!(f, "{engine} environment"),
        }
    }
}

/// Said once, before anything is downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which stage.
    pub stage: Stage,
    /// What is fetched, with versions.
    pub what: String,
    /// Bytes that go over the network if nothing is cached; none where nobody has measured them.
    pub download_bytes: Option<u64>,
    /// Bytes that lie on disk afterwards; none where nobody has measured them.
    pub disk_bytes: Option<u64>,
    /// Bytes that must be free to begin; none where the size on disk is not known.
    pub needed_bytes: Option<u64>,
    /// Bytes that are free in the folder that it ends in; none where the system does not tell.
    pub free_bytes: Option<u64>,
    /// The licence of what is fetched.
    pub licence: &'static str,
    /// The folder that it ends in.
    pub into: PathBuf,
}

/// Said before each command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandReport {
    /// Which stage.
    pub stage: Stage,
    /// Its place among the stage's commands, from 1.
    pub number: usize,
    /// How many commands the stage has.
    pub total: usize,
    /// What it does, in a few words.
    pub title: String,
    /// Why it is a step of its own.
    pub why: String,
    /// The command as a POSIX shell takes it, with the variables that are set for it.
    pub command: String,
    /// The text files that are written for it, with their content.
    pub files: Vec<(PathBuf, String)>,
}

/// How far a stage is, about once a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Which stage.
    pub stage: Stage,
    /// Bytes on disk since the stage began.
    pub done_bytes: u64,
    /// Bytes on disk at its end; none where nobody has measured them.
    pub total_bytes: Option<u64>,
    /// Time since the stage began.
    pub elapsed: Duration,
    /// The estimate of the time left; none before there is a speed to estimate from.
    pub eta: Option<Duration>,
}

impl Progress {
    pub(crate) fn new(stage: Stage, done: u64, total: Option<u64>, elapsed: Duration) -> Self {
        // A size that is a little larger than expected must not look finished while it is not.
        let done_bytes = total.map_or(done, |total| done.min(total / 100 * 99));
        // Before one percent the speed is that of connecting, not of downloading.
        let eta = total.filter(|total| done_bytes > total / 100).map(|total| {
            let left = (total - done_bytes) as f64 / done_bytes as f64;
            elapsed.mul_f64(left)
        });
        Self {
            stage,
            done_bytes,
            total_bytes: total,
            elapsed,
            eta,
        }
    }
}

/// What the caller of a stage is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// Before the download.
    Plan(Plan),
    /// Before each command.
    Command(CommandReport),
    /// While a command runs.
    Progress(Progress),
    /// All commands have ended well; what was made is checked before it counts.
    Verifying(Stage),
}

/// `518 MiB`, `1.1 GiB`: binary units, as everywhere in Tunesmith.
pub fn human_bytes(bytes: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    let mib = bytes as f64 / MIB;
    if mib >= 1000.0 {
        format!("{:.1} GiB", mib / 1024.0)
    } else if mib >= 10.0 {
        format!("{mib:.0} MiB")
    } else {
        format!("{mib:.1} MiB")
    }
}

/// As [`human_bytes`], for a size that may not be known.
pub fn human_bytes_if_known(bytes: Option<u64>) -> String {
    bytes.map_or("an unknown amount".to_owned(), human_bytes)
}

/// `0.4 s`, `45 s`, `3 min 05 s`.
pub fn human_duration(duration: Duration) -> String {
    let secs = duration.as_secs_f64();
    if secs < 9.95 {
        return format!("{secs:.1} s");
    }
    let whole = secs.round() as u64;
    if whole < 60 {
        format!("{whole} s")
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_the_speed_so_far() {
        let quarter = Progress::new(Stage::Model, 250, Some(1000), Duration::from_secs(10));
        assert_eq!(quarter.eta, Some(Duration::from_secs(30)));
        let hardly_begun = Progress::new(Stage::Model, 1, Some(1000), Duration::from_secs(1));
        assert_eq!(hardly_begun.eta, None);
        let more_than_expected = Progress::new(Stage::Model, 1200, Some(1000), Duration::from_secs(10));
        assert_eq!(more_than_expected.done_bytes, 990);
        let of_unknown_size = Progress::new(Stage::Model, 1200, None, Duration::from_secs(10));
        assert_eq!(of_unknown_size.done_bytes, 1200);
        assert_eq!(of_unknown_size.eta, None);
    }

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(human_bytes(98_362_432), "94 MiB");
        assert_eq!(human_bytes(1_222_262_784), "1.1 GiB");
        assert_eq!(human_bytes(2_200_000), "2.1 MiB");
        assert_eq!(human_duration(Duration::from_millis(420)), "0.4 s");
        assert_eq!(human_duration(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(human_duration(Duration::from_millis(59_800)), "1 min 00 s");
    }
}
