//! The words of the set-up page for what the libraries tell in types.

use tunesmith_report::format::plural;
use tunesmith_setup::{
    doctor::{Check, Diagnosis, Group, Needs, Place, Status, Stops, Verdict},
    environments::Engine,
    explain::{self, Kind},
    knowledge::{Action, HarmLevel, Standing},
    plan::VerdictKind,
};

use crate::theme::Tone;

/// The opening line as a word and a sentence: `blocked`, `The RX 7900 XTX cannot train yet, …`.
pub(super) fn opening(line: &str) -> (&str, String) {
    let (word, rest) = line.split_once(": ").unwrap_or(("", line));
    (word, capitalised(rest))
}

/// With a capital at the front, for a sentence that opens a page.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

pub(super) fn verdict_tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Ready => Tone::Ok,
        Verdict::ReadyButSlower => Tone::Warn,
        Verdict::Blocked => Tone::Stop,
        Verdict::Unknown => Tone::Unknown,
    }
}

/// `2 stop training · 1 may do harm · 3 not known · 41 in order`.
pub(super) fn counts(diagnosis: &Diagnosis) -> String {
    let count = |status| diagnosis.with_status(status).count();
    let parts = [
        (count(Status::Fail), "to cure first"),
        (count(Status::Warn), "to look at"),
        (count(Status::Unknown), "not known"),
        (count(Status::Ok), "in order"),
    ];
    let told: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    told.join(" · ")
}

pub(super) fn status_tone(status: Status) -> Tone {
    match status {
        Status::Ok => Tone::Ok,
        Status::Warn => Tone::Warn,
        Status::Fail => Tone::Stop,
        Status::Unknown => Tone::Unknown,
    }
}

/// What a check belongs to, and the card or environment that it is about.
pub(super) fn belongs_to(check: &Check) -> String {
    let group = match check.group {
        Group::Card => "card",
        Group::Access => "access",
        Group::Platform => "platform",
        Group::Kernel => "kernel",
        Group::KernelLog => "kernel's log",
        Group::Settings => "settings",
        Group::Cards => "several cards",
        Group::Memory => "memory",
        Group::Hardware => "hardware",
        Group::Environment => "environment",
    };
    match &check.about {
        Some(about) => format!("{group} · {about}"),
        None => group.to_owned(),
    }
}

pub(super) fn stops(stops: Option<Stops>) -> &'static str {
    match stops {
        Some(Stops::Recipe) => "the recommended recipe",
        Some(Stops::Speed) => "nothing; it costs speed",
        Some(Stops::BiggerModels) => "only bigger models",
        None => "nothing",
    }
}

/// What a cure takes beside its command.
pub(super) fn needs(needs: Needs) -> Option<&'static str> {
    match needs {
        Needs::Nothing => None,
        Needs::LogOut => Some("logging out and in again"),
        Needs::Reboot => Some("a restart of the machine"),
        Needs::Firmware => Some("other firmware files and a restart of the machine"),
        Needs::Bios => Some("a change in the BIOS or in the case"),
    }
}

/// Where a command is to be run, where that is not here.
pub(super) fn place(place: Place) -> Option<&'static str> {
    match place {
        Place::Here => None,
        Place::Host => Some("on the host, outside the container or sandbox"),
        Place::Windows => Some("in Windows (PowerShell), outside WSL"),
    }
}

/// An engine's name, for people.
pub(super) fn engine(engine: Engine) -> &'static str {
    match engine {
        Engine::Native => "Tunesmith's own",
        Engine::Hf => "transformers and PEFT",
        Engine::Unsloth => "Unsloth",
    }
}

pub(super) fn plan_tone(kind: VerdictKind) -> Tone {
    match kind {
        VerdictKind::Card => Tone::Ok,
        VerdictKind::CpuOnly => Tone::Note,
        VerdictKind::Blocked => Tone::Stop,
    }
}

/// How far a torch can be trusted.
pub(super) fn standing(standing: Standing) -> (Tone, &'static str) {
    match standing {
        Standing::Good => (Tone::Ok, "good"),
        Standing::Fallback => (Tone::Note, "fallback"),
        Standing::Experimental => (Tone::Warn, "experimental"),
    }
}

pub(super) fn action(action: Action) -> &'static str {
    match action {
        Action::Set => "set",
        Action::Unset => "unset",
        Action::Leave => "leave",
    }
}

/// How bad a value is that somebody has set.
pub(super) fn harm(level: HarmLevel) -> (Tone, &'static str) {
    match level {
        HarmLevel::Harmful => (Tone::Stop, "harmful"),
        HarmLevel::Slow => (Tone::Warn, "slow"),
        HarmLevel::Useless => (Tone::Note, "useless"),
    }
}

pub(super) fn explanation_tone(explanation: &explain::Explanation) -> Tone {
    match explanation.verdict {
        explain::Verdict::Known | explain::Verdict::General => {
            let worst = explanation.findings.iter().map(|finding| kind(finding).0).max();
            worst.unwrap_or(Tone::Warn)
        }
        explain::Verdict::Harmless => Tone::Ok,
        explain::Verdict::Unknown => Tone::Unknown,
        explain::Verdict::Empty => Tone::Note,
    }
}

/// How bad a fault is.
pub(super) fn kind(finding: &explain::Finding) -> (Tone, &'static str) {
    match (finding.general, finding.kind) {
        (true, _) => (Tone::Warn, "general class"),
        (false, Kind::Error) => (Tone::Stop, "error"),
        (false, Kind::Silent) => (Tone::Stop, "wrong results without an error"),
        (false, Kind::Warning) => (Tone::Warn, "warning"),
        (false, Kind::Harmless) => (Tone::Ok, "harmless"),
    }
}

/// `line 12`, `lines 12, 40 and 3 more`.
pub(super) fn lines(finding: &explain::Finding) -> String {
    let named: Vec<String> = finding.lines.iter().map(ToString::to_string).collect();
    let word = if finding.count == 1 { "line" } else { "lines" };
    let unnamed = finding.count.saturating_sub(finding.lines.len() as u64);
    let rest = if unnamed > 0 {
        format!(" and {unnamed} more")
    } else {
        String::new()
    };
    format!("{word} {}{rest}", named.join(", "))
}

/// `The command, exactly as it runs`, over as many of them.
pub(super) fn commands(count: usize) -> String {
    match count {
        1 => "The command, exactly as it runs".to_owned(),
        count => format!("The {}, exactly as they run", plural(count as u64, "command")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opening_becomes_a_word_and_a_sentence() {
        assert_eq!(
            opening("ready but slower: the RX 7900 XTX trains; one thing costs speed: the slot"),
            (
                "ready but slower",
                "The RX 7900 XTX trains; one thing costs speed: the slot".to_owned()
            )
        );
        assert_eq!(opening("odd"), ("", "Odd".to_owned()));
    }
}
