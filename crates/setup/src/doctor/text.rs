//! The diagnosis for people.

use std::fmt::Write as _;

use super::{Check, Cure, Diagnosis, Needs, Place, Status, Stops};

/// Characters in a line; commands are not broken, so that they can be copied.
const WIDTH: usize = 100;

/// The diagnosis as text: the opening line, the next step, what is the matter, and in short what is in order.
///
/// `verbose` adds what was found where all is well, each check that could not be made, and those without meaning here.
pub fn text(diagnosis: &Diagnosis, verbose: bool) -> String {
    let mut out = String::new();
    // One line, however long: scripts and people read the first.
    let _ = writeln!(out, "{}", diagnosis.opening);
    let next = &diagnosis.next;
    line(&mut out, "next: ", "      ", &next.text);
    if let Some(command) = &next.command {
        let place = diagnosis
            .next
            .check
            .as_ref()
            .and_then(|id| diagnosis.check(id)?.cure.as_ref())
            .map_or(Place::Here, |cure| cure.place);
        let _ = writeln!(out, "      {}{command}", prompt(place));
    }
    let matters = diagnosis
        .checks
        .iter()
        .filter(|check| matches!(check.status, Status::Fail | Status::Warn));
    for check in matters {
        out.push('\n');
        matter(&mut out, check);
    }
    let unknown: Vec<&Check> = diagnosis.with_status(Status::Unknown).collect();
    if !unknown.is_empty() {
        let _ = write!(out, "\nnot known ({})\n", unknown.len());
        if verbose {
            one_by_one(&mut out, &unknown);
        } else {
            for (reason, ids) in by_reason(&unknown) {
                line(&mut out, "  ", "    ", &format!("{reason}: {}", ids.join(", ")));
            }
        }
    }
    let good: Vec<&Check> = diagnosis.with_status(Status::Ok).collect();
    if !good.is_empty() {
        let _ = write!(out, "\nin order ({})\n", good.len());
        if verbose {
            one_by_one(&mut out, &good);
        } else {
            line(
                &mut out,
                "  ",
                "  ",
                &once_each(good.iter().map(|check| check.id.as_str())),
            );
        }
    }
    let without_meaning = diagnosis.not_applicable.len();
    if without_meaning > 0 && verbose {
        let _ = write!(out, "\nwithout meaning here ({without_meaning})\n");
        line(&mut out, "  ", "  ", &diagnosis.not_applicable.join(", "));
    } else if without_meaning > 0 {
        let _ = write!(out, "\n{without_meaning} more checks have no meaning here\n");
    }
    out
}

/// Each check with what was found.
fn one_by_one(out: &mut String, checks: &[&Check]) {
    for check in checks {
        line(out, "  ", "    ", &format!("{}: {}", heading(check), check.found));
    }
}

fn matter(out: &mut String, check: &Check) {
    let word = if check.status == Status::Fail {
        "fail"
    } else {
        "warn"
    };
    line(out, &format!("{word}  "), "      ", &heading(check));
    line(out, "  found   ", "          ", &check.found);
    line(out, "  means   ", "          ", &check.means);
    line(out, "  stops   ", "          ", stops(check.stops));
    if let Some(cure) = &check.cure {
        line(out, "  cure    ", "          ", &cure.text);
        if let Some(command) = &cure.command {
            let _ = writeln!(out, "          {}{command}", prompt(cure.place));
        }
        if let Some(needs) = needs(cure) {
            line(out, "  needs   ", "          ", needs);
        }
    }
    line(out, "  source  ", "          ", &check.sources.join(", "));
}

fn heading(check: &Check) -> String {
    match &check.about {
        Some(about) => format!("{} [{}], {about}", check.title, check.id),
        None => format!("{} [{}]", check.title, check.id),
    }
}

fn stops(stops: Option<Stops>) -> &'static str {
    match stops {
        Some(Stops::Recipe) => "the recommended recipe",
        Some(Stops::Speed) => "nothing; it costs speed",
        Some(Stops::BiggerModels) => "only bigger models",
        None => "nothing",
    }
}

fn needs(cure: &Cure) -> Option<&'static str> {
    match cure.needs {
        Needs::Nothing => None,
        Needs::LogOut => Some("logging out and in again"),
        Needs::Reboot => Some("a reboot"),
        Needs::Firmware => Some("other firmware files and a reboot"),
        Needs::Bios => Some("a change in the BIOS or the case"),
    }
}

fn prompt(place: Place) -> &'static str {
    match place {
        Place::Here => "$ ",
        Place::Host => "on the host: $ ",
        Place::Windows => "in Windows: > ",
    }
}

/// The checks that one thing keeps from being made, under that thing: a log that cannot be read is told once.
fn by_reason<'a>(checks: &[&'a Check]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for check in checks {
        match groups.iter_mut().find(|(reason, _)| *reason == check.found) {
            Some((_, ids)) if ids.contains(&check.id.as_str()) => {}
            Some((_, ids)) => ids.push(&check.id),
            None => groups.push((&check.found, vec![&check.id])),
        }
    }
    groups
}

fn once_each<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for id in ids {
        if !seen.contains(&id) {
            seen.push(id);
        }
    }
    seen.join(", ")
}

/// A paragraph broken at spaces, `first` before its first line and `rest` before the others.
fn line(out: &mut String, first: &str, rest: &str, text: &str) {
    let mut current = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let width = current.chars().count() + usize::from(!is_empty) + word.chars().count();
        if !is_empty && width > WIDTH {
            let _ = writeln!(out, "{}", current.trim_end());
            rest.clone_into(&mut current);
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(out, "{}", current.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_at_spaces_and_words_are_kept_whole() {
        let mut out = String::new();
        let long = "x".repeat(120);
        line(
            &mut out,
            "- ",
            "  ",
            &format!("{} {long} end", "word ".repeat(30)),
        );
        assert!(
            out.lines()
                .all(|line| line.chars().count() <= WIDTH || line.trim() == long)
        );
        assert!(out.lines().skip(1).all(|line| line.starts_with("  ")));
        assert_eq!(out.split_whitespace().filter(|word| *word == "word").count(), 30);
    }
}
