//! Who else holds the card of a run: named before it with the command that lets the card go, and after it with the one
//! that brings the program back, where it was stopped for the run (M20). Nothing is stopped or started here.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tunesmith_probe::{
    card_holders, contention,
    telemetry::{Sampler, Target},
};
use tunesmith_setup::{
    Folders, human_bytes,
    knowledge::{HolderWords, holders},
};

use crate::{
    files::{FileError, write_json},
    run::now,
};

/// A program that holds the card, in words.
pub type HolderNote = HolderWords;

/// Programs that were seen on a card before runs, so that one that was stopped for a run can be brought back after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// When they were seen last, RFC 3339 in UTC.
    pub seen: String,
    /// Them.
    pub programs: Vec<HolderNote>,
}

/// Seconds after which a program that was seen is forgotten: it was not stopped for a run that begins tomorrow.
const FORGOTTEN_AFTER_SECS: f64 = 12.0 * 3600.0;
/// Times in records are rounded to the next second, which may still lie ahead, and clocks are set.
const CLOCK_SECS: f64 = 60.0;

/// Others that hold these cards on the machine below `root`. `pids` are this program's own processes.
pub fn holders_now(root: &Path, targets: &[Target], pids: &[u32]) -> Vec<HolderNote> {
    // Without knowledge of programs they still have names.
    let known = holders(None).unwrap_or_default();
    let sample = Sampler::open(root, targets).sample(0.0);
    let ours = contention::family(root, pids);
    card_holders(root, &sample, &ours)
        .iter()
        .map(|holder| known.words(holder))
        .collect()
}

/// One line for each: who it is, what it holds, how it lets go and how it comes back.
pub fn holder_line(holder: &HolderNote) -> String {
    let mut line = format!(
        "{} (pid {}) holds {} of the card",
        holder.name,
        holder.pid,
        human_bytes(holder.vram_bytes)
    );
    if let Some(stop) = &holder.stop {
        line.push_str(&format!("; to free it: {stop}"));
    }
    if let Some(start) = &holder.start {
        line.push_str(&format!("; to have it back afterwards: {start}"));
    }
    if let Some(note) = &holder.note {
        line.push_str(&format!(" ({note})"));
    }
    line
}

fn file(folders: &Folders) -> PathBuf {
    folders.data().join("holders.json")
}

fn remembered(folders: &Folders) -> Remembered {
    let read = || serde_json::from_slice(&fs::read(file(folders)).ok()?).ok();
    let remembered: Remembered = read().unwrap_or_default();
    let seen: Option<jiff::Timestamp> = remembered.seen.parse().ok();
    let recent = seen.is_some_and(|seen| {
        let age = jiff::Timestamp::now().duration_since(seen).as_secs_f64();
        (-CLOCK_SECS..FORGOTTEN_AFTER_SECS).contains(&age)
    });
    if recent { remembered } else { Remembered::default() }
}

/// Remembers who holds the card before a run, beside those that were seen before and are gone.
///
/// # Errors
/// [`FileError`] where it cannot be written.
pub fn remember(folders: &Folders, now_there: &[HolderNote]) -> Result<(), FileError> {
    let mut programs: Vec<HolderNote> = now_there
        .iter()
        .filter(|holder| holder.start.is_some())
        .cloned()
        .collect();
    for earlier in remembered(folders).programs {
        if !programs.iter().any(|holder| holder.name == earlier.name) {
            programs.push(earlier);
        }
    }
    if programs.is_empty() && !file(folders).exists() {
        return Ok(());
    }
    crate::files::make_folder(folders.data())?;
    let seen = now();
    write_json(&file(folders), &Remembered { seen, programs })
}

/// Programs that were seen before a run and are gone now: the user may want them back. They are forgotten with this.
///
/// # Errors
/// [`FileError`] where what is left cannot be written.
pub fn stopped_meanwhile(folders: &Folders, now_there: &[HolderNote]) -> Result<Vec<HolderNote>, FileError> {
    let remembered = remembered(folders);
    let (still, gone): (Vec<HolderNote>, Vec<HolderNote>) = remembered
        .programs
        .into_iter()
        .partition(|earlier| now_there.iter().any(|holder| holder.name == earlier.name));
    if !gone.is_empty() {
        write_json(
            &file(folders),
            &Remembered {
                seen: remembered.seen,
                programs: still,
            },
        )?;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str) -> HolderNote {
        HolderNote {
            name: name.to_owned(),
            pid: 7,
            vram_bytes: 4 << 30,
            pci: "0000:03:00.0".to_owned(),
            stop: Some("systemctl --user stop x".to_owned()),
            start: Some("systemctl --user start x".to_owned()),
            note: None,
        }
    }

    #[test]
    fn a_program_that_was_stopped_for_a_run_is_offered_back_once() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        assert_eq!(stopped_meanwhile(&folders, &[]).unwrap(), []);
        remember(&folders, &[note("Ollama"), note("ComfyUI")]).unwrap();
        // The user stops one of them and starts again: now the other alone is there.
        remember(&folders, &[note("ComfyUI")]).unwrap();
        let gone = stopped_meanwhile(&folders, &[note("ComfyUI")]).unwrap();
        assert_eq!(gone, [note("Ollama")]);
        assert_eq!(stopped_meanwhile(&folders, &[note("ComfyUI")]).unwrap(), []);
    }

    #[test]
    fn what_was_seen_long_ago_is_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        crate::files::make_folder(folders.data()).unwrap();
        let old = Remembered {
            seen: "2020-01-01T00:00:00Z".to_owned(),
            programs: vec![note("Ollama")],
        };
        write_json(&file(&folders), &old).unwrap();
        assert_eq!(stopped_meanwhile(&folders, &[]).unwrap(), []);
    }

    #[test]
    fn a_line_holds_both_commands() {
        let line = holder_line(&note("Ollama"));
        assert!(
            line.contains("holds 4.00 GiB") || line.contains("holds 4.0 GiB"),
            "{line}"
        );
        assert!(line.contains("stop x") && line.contains("start x"), "{line}");
    }
}
