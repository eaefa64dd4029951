//! Two reports side by side: which of their figures must not be held against each other, and why (C5, X15). What is
//! not named here may be compared, as one run against one run.

use std::collections::BTreeMap;

use serde::Serialize;
use tunesmith_measure::practical_peak;
use tunesmith_protocol::RunStatus;

use crate::compare::why_not_comparable;
use crate::format::plural;
use crate::hash::Integrity;
use crate::{About, Report, TrainingRecord, Verdict};

/// Keys of a recipe that change no figure: names, and what the machine decides or reports in another place.
const NO_MATTER: [&str; 11] = [
    "name",
    "title",
    "description",
    "model.source",
    "model.path",
    "data.source",
    "data.path",
    "train.device",
    "train.dtype",
    "train.time_box_minutes",
    "train.checkpoint_every",
];

/// Differing keys of two recipes that are named; more are counted.
const MOST_KEYS: usize = 4;

/// A reason against comparing two reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotComparable {
    /// Which figures it concerns, e.g. `Speed and memory`.
    pub figures: String,
    /// Why, a clause without a full stop.
    pub why: String,
}

/// Why figures of two reports must not be laid side by side; empty where all of them may.
pub fn comparable(first: &Report, second: &Report) -> Vec<NotComparable> {
    let both = Pair { first, second };
    let mut reasons = Vec::new();
    both.validity(&mut reasons);
    if first.about != second.about {
        let why = format!(
            "the first is of {} and the second of {}",
            first.about.with_article(),
            second.about.with_article()
        );
        reasons.push(reason("All figures", why));
        return reasons;
    }
    match first.about {
        About::Training => both.trainings(&mut reasons),
        About::Experiment => both.experiments(&mut reasons),
        About::Calibration => {}
    }
    both.stacks(&mut reasons);
    both.calibrations(&mut reasons);
    both.rules(&mut reasons);
    reasons
}

struct Pair<'a> {
    first: &'a Report,
    second: &'a Report,
}

impl<'a> Pair<'a> {
    fn trainings(&self, reasons: &mut Vec<NotComparable>) {
        self.same(
            "All figures",
            "/model/fingerprint",
            ["model", "another model"],
            reasons,
        );
        self.same(
            "Speed, loss and scores",
            "/data/rows_sha256",
            ["training rows", "other training rows"],
            reasons,
        );
        let (Some(one), Some(other)) = (self.first.training(), self.second.training()) else {
            return;
        };
        recipes(one, other, reasons);
        lengths([("first", one), ("second", other)], reasons);
        peaks([("first", one), ("second", other)], reasons);
        self.scores(one, other, reasons);
    }

    /// Runs of two experiments are laid side by side only where the experiment is one (M11).
    fn experiments(&self, reasons: &mut Vec<NotComparable>) {
        let (Some(one), Some(other)) = (&self.first.record.experiment, &self.second.record.experiment) else {
            return;
        };
        if one.config_hash.is_empty() || one.config_hash != other.config_hash {
            let why = format!(
                "another experiment ({} and {}): steps, lengths and windows may differ",
                one.name, other.name
            );
            reasons.push(reason("Speed, memory, loss and scores", why));
            return;
        }
        if let (Some(steps), Some(others)) = (one.compared_steps, other.compared_steps)
            && steps != others
        {
            let why = format!(
                "the time box left {steps} timed steps in the first and {others} in the second: a shorter window reads higher"
            );
            reasons.push(reason("Speed and loss", why));
        }
    }

    /// Peaks are compared only where they were taken in the same way (M1).
    fn calibrations(&self, reasons: &mut Vec<NotComparable>) {
        let (one, other) = (&self.first.record, &self.second.record);
        let (Some(measured), Some(others)) = (&one.calibration, &other.calibration) else {
            return;
        };
        let side = |calibration, dtype| practical_peak(calibration, dtype).map(|peak| peak.side);
        if let (Some(side), Some(others)) = (side(measured, one.dtype), side(others, other.dtype))
            && side != others
        {
            let why = format!("products of {side}³ and of {others}³: larger ones reach more");
            reasons.push(reason("Measured peak", why));
        }
        if measured.device == "cpu" && others.device == "cpu" && measured.threads != others.threads {
            let why = format!(
                "taken with {} and with {} threads",
                measured.threads, others.threads
            );
            reasons.push(reason("Measured peak", why));
        }
    }

    fn each(&self) -> [(&'static str, &'a Report); 2] {
        [("first", self.first), ("second", self.second)]
    }

    /// What both manifests say in a place.
    fn said(&self, place: &str) -> [Option<&'a str>; 2] {
        [self.first, self.second].map(|report| report.record.manifest.pointer(place)?.as_str())
    }

    fn validity(&self, reasons: &mut Vec<NotComparable>) {
        for (which, report) in self.each() {
            if matches!(report.validity.verdict, Verdict::Stop | Verdict::Unknown) {
                let verdict = &report.validity.sentence;
                reasons.push(reason(
                    "All figures",
                    format!("the {which} cannot be believed: {verdict}"),
                ));
            }
            if report.integrity == Integrity::Edited {
                reasons.push(reason(
                    "All figures",
                    format!("the {which} was edited after it was written"),
                ));
            }
        }
    }

    /// `place` must hold the same hash in both; of what, and what another one is.
    fn same(&self, figures: &str, place: &str, [what, other]: [&str; 2], reasons: &mut Vec<NotComparable>) {
        let why = match self.said(place) {
            [Some(one), Some(other)] if one == other => return,
            [Some(_), Some(_)] => other.to_owned(),
            [None, Some(_)] => format!("the first does not say which {what} it had"),
            [Some(_), None] => format!("the second does not say which {what} it had"),
            [None, None] => format!("neither says which {what} it had"),
        };
        reasons.push(reason(figures, why));
    }

    /// What computed, and how.
    fn stacks(&self, reasons: &mut Vec<NotComparable>) {
        let (one, other) = (&self.first.record, &self.second.record);
        if one.dtype != other.dtype {
            let why = format!("computed in {} and in {}", one.dtype.name(), other.dtype.name());
            reasons.push(reason("All figures", why));
        }
        if let [Some(one), Some(other)] = self.said("/device/backend")
            && one != other
        {
            let why = format!(
                "another kind of device: {one} and {other}; the whole stack differs, so a difference has no single cause"
            );
            reasons.push(reason("Speed and memory", why));
        }
        if one.engine != other.engine {
            let why = format!(
                "another engine: {} {} and {} {}",
                one.engine.name, one.engine.version, other.engine.name, other.engine.version
            );
            reasons.push(reason("Speed and memory", why));
        }
        if let [Some(one), Some(other)] = self.said("/software/torch")
            && one != other
        {
            let why = format!("another torch: {one} and {other}");
            reasons.push(reason("Speed and memory", why));
        }
    }

    fn scores(&self, one: &TrainingRecord, other: &TrainingRecord, reasons: &mut Vec<NotComparable>) {
        let why = match (&one.after, &other.after) {
            (None, None) => return,
            (None, Some(_)) => Some("the first was not scored after training".to_owned()),
            (Some(_), None) => Some("the second was not scored after training".to_owned()),
            (Some(one), Some(other)) => why_not_comparable(one, other).map(str::to_owned),
        };
        if let Some(why) = why {
            reasons.push(reason("Scores", why));
        } else if let [Some(one), Some(other)] = self.said("/data/test_sha256")
            && one != other
        {
            reasons.push(reason("Scores", "other test questions".to_owned()));
        }
    }

    /// The rules that both state, where their words differ: another version of the program counted in another way.
    fn rules(&self, reasons: &mut Vec<NotComparable>) {
        // Rules of a run's own tell how it went and are no rules of counting.
        let own = |report: &Report, title: &str| {
            report
                .record
                .counting_rules
                .iter()
                .any(|rule| rule.title == title)
        };
        for rule in &self.first.counting_rules {
            let other = self
                .second
                .counting_rules
                .iter()
                .find(|other| other.title == rule.title && other.text != rule.text);
            if other.is_some() && !own(self.first, &rule.title) && !own(self.second, &rule.title) {
                let why = format!(
                    "counted by another rule in version {} than in {}",
                    self.first.record.program_version, self.second.record.program_version
                );
                reasons.push(reason(&rule.title, why));
            }
        }
    }
}

/// What in two recipes changes a figure and differs.
fn recipes(one: &TrainingRecord, other: &TrainingRecord, reasons: &mut Vec<NotComparable>) {
    let [one, other] = [one, other].map(|training| keys(&training.recipe.toml));
    let missing = "nothing".to_owned();
    let differing: Vec<String> = one
        .keys()
        .chain(other.keys().filter(|key| !one.contains_key(*key)))
        .filter(|key| one.get(*key) != other.get(*key))
        .map(|key| {
            let value = |keys: &BTreeMap<String, String>| keys.get(key).unwrap_or(&missing).clone();
            format!("{key} is {} and {}", value(&one), value(&other))
        })
        .collect();
    if differing.is_empty() {
        return;
    }
    let named = differing[..differing.len().min(MOST_KEYS)].join(", ");
    let more = match differing.len().saturating_sub(MOST_KEYS) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let why = format!("another recipe: {named}{more}");
    reasons.push(reason("Speed, memory, loss and scores", why));
}

fn lengths(both: [(&str, &TrainingRecord); 2], reasons: &mut Vec<NotComparable>) {
    for (which, training) in both {
        if training.status != RunStatus::Ok {
            let steps = plural(training.summary.total_steps as u64, "step");
            let why = format!("the {which} ended as {} after {steps}", training.status.name());
            reasons.push(reason("Loss and scores", why));
        }
    }
}

fn peaks(both: [(&str, &TrainingRecord); 2], reasons: &mut Vec<NotComparable>) {
    for (which, training) in both {
        let mfu = training.summary.mfu;
        if mfu.and_then(|mfu| mfu.lora_exact.practical).is_none() {
            let why = format!("no peak was measured for the {which}, so its share of it is unknown");
            reasons.push(reason("MFU", why));
        }
    }
}

fn reason(figures: &str, why: String) -> NotComparable {
    NotComparable {
        figures: figures.to_owned(),
        why,
    }
}

/// The keys of a recipe that change a figure, as `section.key`, with the text of their values. Recipes in reports are
/// written by one serialiser, so that equal values have equal text; lists may go over several lines.
fn keys(toml: &str) -> BTreeMap<String, String> {
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    let (mut section, mut last) = (String::new(), None::<String>);
    for line in toml.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let header = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let name = |text: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        if let Some(header) = header.filter(|header| name(header)) {
            section = format!("{header}.");
        } else if let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| name(key)) {
            let key = format!("{section}{key}");
            keys.insert(key.clone(), value.to_owned());
            last = Some(key);
        } else if let Some(value) = last.as_ref().and_then(|key| keys.get_mut(key)) {
            value.push_str(line);
        }
    }
    keys.retain(|key, _| !NO_MATTER.contains(&key.as_str()));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_recipe_are_named_by_section_and_lists_are_one_value() {
        let toml = "name = \"mine\"\n\n[lora]\nrank = 16\ntarget_modules = [\n    \"q_proj\",\n    \"v_proj\",\n]\n\n[train]\nsteps = 96\ndevice = \"cpu\"\n";
        let found: Vec<(String, String)> = keys(toml).into_iter().collect();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("lora.rank", "16"),
                ("lora.target_modules", "[\"q_proj\",\"v_proj\",]"),
                ("train.steps", "96"),
            ]
        );
    }
}
