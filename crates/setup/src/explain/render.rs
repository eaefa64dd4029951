//! An explanation in words.

use std::fmt::Write as _;

use tunesmith_probe::Platform;

use super::faults::{Kind, Sureness};
use super::{Command, Cure, Explanation, Finding, MachineSays, Verdict};

/// An explanation for people.
pub fn text(explanation: &Explanation) -> String {
    let mut out = format!("{}\n", explanation.summary);
    for (index, finding) in explanation.findings.iter().enumerate() {
        out.push('\n');
        write_finding(&mut out, index + 1, finding, &explanation.findings);
    }
    if !explanation.collect.is_empty() {
        out.push_str("\nTo find out more, collect:\n");
        for item in &explanation.collect {
            let _ = writeln!(out, "  - {item}");
        }
    }
    out
}

/// The answer in one sentence.
pub(super) fn summary(verdict: Verdict, findings: &[Finding], lines: u64) -> String {
    let of_kind = |wanted: &[Kind]| {
        let fits = |finding: &&Finding| !finding.general && wanted.contains(&finding.kind);
        findings.iter().filter(fits).count()
    };
    let faults = of_kind(&[Kind::Error, Kind::Silent]);
    let warnings = of_kind(&[Kind::Warning]);
    let harmless = of_kind(&[Kind::Harmless]);
    let read = counted(lines as usize, "line", "lines");
    match verdict {
        Verdict::Empty => {
            "there is no text to explain: name a log file, pass an error text, or pipe a program's output in"
                .to_owned()
        }
        Verdict::Unknown => format!(
            "no known fault is in these {read}, and nothing that looks like one; if something went wrong all the same, the lines before these may show it"
        ),
        Verdict::General => {
            let class = findings.iter().find(|finding| finding.general);
            let title = class.map_or("", |finding| finding.title.as_str());
            format!("no known fault is in these {read}; what they show: {title}")
        }
        Verdict::Harmless => format!(
            "no fault is in these {read}; {} in them {} harmless",
            counted(harmless, "known message", "known messages"),
            if harmless == 1 { "is" } else { "are" }
        ),
        Verdict::Known => {
            let mut parts = Vec::new();
            if faults > 0 {
                parts.push(counted(faults, "known fault", "known faults"));
            }
            if warnings > 0 {
                parts.push(counted(warnings, "known warning", "known warnings"));
            }
            if harmless > 0 {
                parts.push(counted(harmless, "harmless message", "harmless messages"));
            }
            let first = findings.first().map_or("", |finding| finding.title.as_str());
            format!("{} in {read}; first: {first}", parts.join(", "))
        }
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// How sure a finding is, in one sentence.
pub(super) fn how_sure(sure: Sureness, machine: MachineSays, facts: &[String]) -> String {
    let text = match sure {
        Sureness::Certain => "certain: this text has one meaning",
        Sureness::Likely => "likely: this is what the text usually means",
        Sureness::Possible => "possible: the text has several causes",
    };
    let facts = facts.join(", ");
    match machine {
        MachineSays::Nothing => text.to_owned(),
        MachineSays::Confirms => format!("{text}; this machine shows it too ({facts})"),
        MachineSays::Contradicts => format!(
            "{text}; this machine does not show it ({facts}), so the text may be older or from another one"
        ),
    }
}

fn write_finding(out: &mut String, number: usize, finding: &Finding, all: &[Finding]) {
    let kind = match (finding.general, finding.kind) {
        (true, _) => "general class",
        (false, Kind::Error) => "error",
        (false, Kind::Silent) => "wrong results without an error",
        (false, Kind::Warning) => "warning",
        (false, Kind::Harmless) => "harmless",
    };
    let _ = writeln!(out, "{number}. {} ({kind})", finding.title);
    let first = finding.lines.first().copied().unwrap_or_default();
    let _ = writeln!(out, "   line {first}: {}", finding.quote);
    let more: Vec<String> = finding.lines.iter().skip(1).map(ToString::to_string).collect();
    if !more.is_empty() {
        let unnamed = finding.count.saturating_sub(finding.lines.len() as u64);
        let rest = if unnamed > 0 {
            format!(" and {unnamed} more")
        } else {
            String::new()
        };
        let _ = writeln!(out, "   also in line {}{rest}", more.join(", "));
    }
    let _ = writeln!(out, "   What it means: {}", finding.means);
    if let Some(cause) = &finding.follows_from {
        let title = all
            .iter()
            .find(|other| other.id == *cause)
            .map(|other| other.title.as_str());
        let _ = writeln!(out, "   It probably follows from: {}", title.unwrap_or(cause));
    }
    if finding.kind != Kind::Harmless {
        match finding.causes.as_slice() {
            [cause] => {
                let _ = writeln!(out, "   Why: {cause}");
            }
            causes => {
                out.push_str("   Why, one of:\n");
                for cause in causes {
                    let _ = writeln!(out, "     - {cause}");
                }
            }
        }
    }
    for (index, cure) in finding.cures.iter().enumerate() {
        write_cure(out, if index == 0 { "What to do" } else { "Then" }, cure);
    }
    let _ = writeln!(out, "   How sure: {}", finding.how_sure);
    let _ = writeln!(out, "   Source: {} (as of {})", finding.source, finding.as_of);
}

fn write_cure(out: &mut String, label: &str, cure: &Cure) {
    let _ = writeln!(out, "   {label}: {}", cure.text);
    if !cure.because.is_empty() {
        let _ = writeln!(out, "     on this machine: {}", cure.because.join(", "));
    }
    for Command { platform, command } in &cure.commands {
        let label = match platform {
            Some(platform) if cure.commands.len() > 1 => format!("{}: ", platform_name(*platform)),
            _ => String::new(),
        };
        let _ = writeln!(out, "       {label}{command}");
    }
}

fn platform_name(platform: Platform) -> &'static str {
    match platform {
        Platform::Linux => "Linux",
        Platform::Wsl => "WSL",
        Platform::Windows => "Windows",
        Platform::Macos => "macOS",
        Platform::Unknown => "any system",
    }
}
