//! After a crash: whether the engine's last lines, or the kernel's log, show a fault that is known, and what to do
//! about it on this machine. The crash itself is told elsewhere; this adds hints to it.

use std::path::Path;

use tunesmith_probe::{LIVE, System};
use tunesmith_setup::explain::{self, Faults, Finding, Kind, Verdict};
use tunesmith_setup::knowledge;

/// Faults that are told; more would bury the first.
const MOST_FAULTS: usize = 2;

/// Hints from `lines`, the engine's last ones, and from this machine's kernel log.
pub(super) fn hints(lines: &[String]) -> Vec<String> {
    // Built-in files: a test reads them, and a crash must not be hidden by a second error.
    match (knowledge::cards(None), knowledge::faults(None)) {
        (Ok(cards), Ok(faults)) => {
            hints_on(lines, &tunesmith_probe::detect(Path::new(LIVE), &cards), &faults)
        }
        _ => Vec::new(),
    }
}

fn hints_on(lines: &[String], system: &System, faults: &Faults) -> Vec<String> {
    let engine = explain::explain(&lines.join("\n"), Some(system), faults);
    let kernel_lines = system.kernel_log.as_deref().unwrap_or_default();
    let kernel = explain::explain(&kernel_lines.join("\n"), Some(system), faults);
    let known = |explanation: &explain::Explanation| match explanation.verdict {
        Verdict::Empty | Verdict::Unknown => Vec::new(),
        _ => explanation
            .findings
            .iter()
            .filter(|finding| tells(finding))
            .map(text)
            .collect::<Vec<_>>(),
    };
    let mut hints: Vec<String> = known(&engine).into_iter().take(MOST_FAULTS).collect();
    hints.extend(
        known(&kernel)
            .into_iter()
            .take(1)
            .map(|hint| format!("the kernel's log: {hint}")),
    );
    hints
}

/// A general class says no more than the crash does.
fn tells(finding: &Finding) -> bool {
    !finding.general && finding.kind != Kind::Harmless
}

fn text(finding: &Finding) -> String {
    let mut text = format!("{}: {}", finding.title, finding.means);
    if let Some(cure) = finding.cures.first() {
        text = format!("{text} {}", cure.text);
        if let Some(command) = cure.commands.first() {
            text = format!("{text}: {}", command.command);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(lines: &[String], system: &System) -> Vec<String> {
        hints_on(lines, system, &knowledge::faults(None).unwrap())
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_known_fault_is_named_with_its_cure() {
        let crash = lines("loading\nHIP error: invalid device function\nterminate called");
        let hints = on(&crash, &System::default());
        assert_eq!(hints.len(), 1, "{hints:?}");
        assert!(hints[0].contains("no code for this card"), "{hints:?}");
    }

    #[test]
    fn the_kernels_log_is_read_too() {
        let system = System {
            kernel_log: Some(lines(
                "[  812.1] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
            )),
            ..System::default()
        };
        let hints = on(&[], &system);
        assert_eq!(hints.len(), 1, "{hints:?}");
        assert!(hints[0].starts_with("the kernel's log: "), "{hints:?}");
    }

    #[test]
    fn a_text_that_nobody_knows_adds_nothing() {
        assert!(on(&lines("step 3 done\nGoodbye"), &System::default()).is_empty());
    }
}
