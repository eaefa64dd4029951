//! What could not answer its question is refused before the first run, each with the cure (C1, C3, M8, M9).

use std::collections::BTreeSet;

use tunesmith_measure::{
    comparison::{Claim, Metric},
    gap::Measures,
};

use super::{Experiment, ExperimentError, Kind, file::settings};

/// Longest time box of a run, in minutes (M9).
pub(super) const MOST_MINUTES: f64 = 15.0;

/// The one exception, a soak (M9).
const MOST_SOAK_MINUTES: f64 = 60.0;

/// More is a typing error and not a plan.
const MOST_SLOTS: usize = 1000;

impl Experiment {
    /// Refuses what could not answer its question.
    ///
    /// # Errors
    /// [`ExperimentError::Plan`] with a sentence and what to do.
    pub fn check(&self) -> Result<(), ExperimentError> {
        self.check_names()?;
        self.check_run()?;
        self.check_settings()?;
        self.check_questions()?;
        self.check_measures()?;
        let none = Vec::new();
        let claims = self.criteria.iter().chain(&self.predictions);
        let on_cpu = self.on_cpu.criteria.as_ref().unwrap_or(&none).iter();
        let on_cpu = on_cpu.chain(self.on_cpu.predictions.as_ref().unwrap_or(&none));
        for claim in claims.chain(on_cpu) {
            self.check_claim(claim)?;
        }
        if self.kind == Kind::Ab && self.criteria.is_empty() {
            return refuse(
                "nothing says what must hold for the experiment to pass",
                "write it down before the first run: [[criteria]] with metric, at_least or at_most, and why",
            );
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), ExperimentError> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || self.name.len() > 40 || !self.name.chars().all(good) {
            return refuse(
                &format!(
                    "`name` = \"{}\": a name is part of a folder's name, 1 to 40 letters, digits, `-` and `_`",
                    self.name
                ),
                "put free text into `title`",
            );
        }
        let wanted = match self.kind {
            Kind::Ab if self.arms.len() != 2 => "an `ab` has two arms; several against one are a `sweep`",
            Kind::Sweep if self.arms.len() < 2 => "a `sweep` has two arms at least",
            Kind::Soak if self.arms.len() != 1 => "a `soak` has one arm",
            Kind::Gap if self.arms.is_empty() => "a `gap` has an arm that trains",
            _ => "",
        };
        if !wanted.is_empty() {
            return refuse(
                &format!("{wanted}, and this one has {}", self.arms.len()),
                "see docs/EXPERIMENTS.md",
            );
        }
        let mut seen = BTreeSet::new();
        for arm in &self.arms {
            if arm.name.trim().is_empty() || arm.name.chars().count() > 40 {
                return refuse(
                    &format!("\"{}\" is no name for an arm", arm.name),
                    "1 to 40 characters, e.g. \"layer\"",
                );
            }
            if !seen.insert(arm.name.as_str()) {
                return refuse(
                    &format!("two arms are called \"{}\"", arm.name),
                    "give each a name of its own",
                );
            }
        }
        for name in &self.on_cpu.without_arms {
            if !seen.contains(name.as_str()) {
                return refuse(
                    &format!("on_cpu.without_arms names \"{name}\", and there is no such arm"),
                    &self.arms_hint(),
                );
            }
        }
        Ok(())
    }

    fn arms_hint(&self) -> String {
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        format!("the arms are {}", names.join(", "))
    }

    fn check_run(&self) -> Result<(), ExperimentError> {
        let run = &self.run;
        let cpu_seeds = self.on_cpu.seeds.as_ref().unwrap_or(&run.seeds);
        for seeds in [&run.seeds, cpu_seeds] {
            let different: BTreeSet<&u64> = seeds.iter().collect();
            if seeds.is_empty() || different.len() < seeds.len() {
                return refuse(
                    "`run.seeds` needs one seed at least, and no seed twice",
                    "[3407, 42, 7] is usual; `run.repeats` runs each of them again",
                );
            }
        }
        let slots = self
            .arms
            .len()
            .saturating_mul(run.seeds.len().saturating_mul(run.repeats));
        if run.repeats == 0 || slots > MOST_SLOTS {
            return refuse(
                &format!("arms × seeds × repeats is {slots}: an experiment has 1 to {MOST_SLOTS} runs"),
                "three seeds and one repeat are usual",
            );
        }
        let measured = self.on_cpu.measured_steps.unwrap_or(run.measured_steps);
        if run.measured_steps.min(measured) == 0 {
            return refuse(
                "`run.measured_steps` = 0: nothing would be measured",
                "20 is the default",
            );
        }
        let most = if self.kind == Kind::Soak {
            MOST_SOAK_MINUTES
        } else {
            MOST_MINUTES
        };
        if !(run.time_box_minutes > 0.0 && run.time_box_minutes <= most) {
            return refuse(
                &format!(
                    "`run.time_box_minutes` = {}: the box of a run is above 0 and up to {most} minutes",
                    run.time_box_minutes
                ),
                "measure fewer steps; the workload itself stays as it is",
            );
        }
        if !(run.quiet_wait_secs >= 0.0 && run.quiet_wait_secs.is_finite()) {
            return refuse(
                "`run.quiet_wait_secs` cannot be below zero",
                "60 is the default, 0 does not wait",
            );
        }
        let different: BTreeSet<&Metric> = self.metrics.iter().collect();
        if self.metrics.is_empty() || different.len() < self.metrics.len() {
            return refuse(
                "`metrics` needs one figure at least, and none twice",
                &metrics_hint(),
            );
        }
        if self.until_oom && self.kind != Kind::Sweep {
            return refuse(
                "`until_oom` belongs to a `sweep` whose arms go from small to large",
                "take it out",
            );
        }
        Ok(())
    }

    fn check_settings(&self) -> Result<(), ExperimentError> {
        let arms = self.arms.iter().map(|arm| &arm.set);
        for set in [&self.base.set, &self.on_cpu.set].into_iter().chain(arms) {
            for (key, _) in settings(set) {
                let instead = match key.as_str() {
                    "train.seed" => "`run.seeds`",
                    "train.steps" => "`run.warmup_steps` and `run.measured_steps`",
                    "train.time_box_minutes" => "`run.time_box_minutes`",
                    "train.device" => "the option --device",
                    "name" | "title" | "description" => "the experiment's own",
                    _ => continue,
                };
                return refuse(
                    &format!("`{key}` is not set by an arm or the base, as it is the same for all runs"),
                    &format!("use {instead}"),
                );
            }
        }
        Ok(())
    }

    fn check_questions(&self) -> Result<(), ExperimentError> {
        for arm in &self.arms {
            let Some(other) = &arm.adapter_of else { continue };
            let source = self.arms.iter().find(|arm| arm.name == *other);
            if source.is_none_or(|source| source.adapter_of.is_some() || source.name == arm.name) {
                return refuse(
                    &format!(
                        "the arm \"{}\" takes the adapter of \"{other}\", which trains none",
                        arm.name
                    ),
                    &self.arms_hint(),
                );
            }
        }
        let scored = self.metrics.contains(&Metric::ScorePoints);
        if scored && !self.run.evaluate {
            return refuse(
                "`metrics` has score_points, and no run asks test questions",
                "set `run.evaluate` = true",
            );
        }
        if self.arms.iter().any(|arm| arm.adapter_of.is_some()) && !scored {
            return refuse(
                "an arm with `adapter_of` answers questions and does nothing else, so score_points must be among the metrics",
                "metrics = [\"score_points\"]",
            );
        }
        Ok(())
    }

    /// Arms that measure parts of a training by themselves (M5): they take the base as it is.
    fn check_measures(&self) -> Result<(), ExperimentError> {
        let first = self.arms.first().map(|arm| &arm.name);
        let mut seen: Vec<Measures> = Vec::new();
        for arm in &self.arms {
            let name = arm.measures.name();
            if self.kind == Kind::Gap && arm.adapter_of.is_some() {
                return refuse(
                    &format!(
                        "the arm \"{}\" takes another one's adapter, and a `gap` scores nothing",
                        arm.name
                    ),
                    "use kind = \"sweep\" for it",
                );
            }
            if arm.measures.is_training() {
                continue;
            }
            if self.kind != Kind::Gap {
                return refuse(
                    &format!(
                        "the arm \"{}\" measures {name}, which belongs to a `gap`",
                        arm.name
                    ),
                    "set kind = \"gap\", or take `measures` out",
                );
            }
            if first == Some(&arm.name) {
                return refuse(
                    &format!(
                        "the first arm of a `gap` trains, and \"{}\" measures {name}",
                        arm.name
                    ),
                    "put the training whose parts are measured first",
                );
            }
            if seen.contains(&arm.measures) {
                return refuse(
                    &format!("two arms measure {name}"),
                    "one is enough: `run.seeds` and `run.repeats` repeat it",
                );
            }
            seen.push(arm.measures);
            let allowed: &[&str] = match arm.measures {
                Measures::Decoding => &["evaluate.questions", "evaluate.max_new_tokens"],
                _ => &[],
            };
            let other = settings(&arm.set)
                .into_iter()
                .find(|(key, _)| !allowed.contains(&key.as_str()));
            if let Some((key, _)) = other {
                return refuse(
                    &format!(
                        "the arm \"{}\" measures {name} of the base as it is, and sets `{key}`",
                        arm.name
                    ),
                    "set it in [base] for all arms",
                );
            }
        }
        Ok(())
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), ExperimentError> {
        for name in [&claim.arm, &claim.against] {
            if !name.is_empty() && !self.arms.iter().any(|arm| arm.name == *name) {
                return refuse(
                    &format!("a criterion or prediction names \"{name}\", and there is no such arm"),
                    &self.arms_hint(),
                );
            }
        }
        let bounds = [claim.at_least, claim.at_most];
        let finite = bounds.iter().flatten().all(|bound| bound.is_finite());
        let crossed = claim
            .at_least
            .zip(claim.at_most)
            .is_some_and(|(least, most)| least > most);
        if bounds == [None, None] || !finite || crossed {
            return refuse(
                &format!(
                    "the criterion or prediction on {} has no range that anything could lie in",
                    claim.metric.name()
                ),
                "write at_least, at_most or both, with at_least the smaller one",
            );
        }
        Ok(())
    }
}

fn metrics_hint() -> String {
    format!("figures: {}", Metric::ALL.map(Metric::name).join(", "))
}

fn refuse(message: &str, hint: &str) -> Result<(), ExperimentError> {
    Err(ExperimentError::plan(message.to_owned(), vec![hint.to_owned()]))
}
