//! A plan for people, in a terminal or a window.

use std::fmt::Write;

use super::environment::place;
use super::{FlagRow, Plan, RouteOffer, VerdictKind};
use crate::knowledge::{Action, AttentionIs, HarmLevel, Standing};
use crate::progress::human_bytes;

/// The plan as text, without colour. Control characters never get here: what was read is cleaned where it enters,
/// and the knowledge files refuse them.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    verdict(&mut out, plan);
    cards(&mut out, plan);
    precision(&mut out, plan);
    routes(&mut out, plan);
    packages(&mut out, plan);
    environment(&mut out, plan);
    recipe(&mut out, plan);
    steps(&mut out, plan);
    out
}

fn line(out: &mut String, indent: usize, text: &str) {
    let _ = writeln!(out, "{:indent$}{text}", "");
}

fn title(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n{text}");
}

fn verdict(out: &mut String, plan: &Plan) {
    let word = match plan.verdict.kind {
        VerdictKind::Card => "trains on the card",
        VerdictKind::CpuOnly => "trains on the processor only",
        VerdictKind::Blocked => "blocked",
    };
    line(out, 0, &format!("{word}: {}", plan.verdict.reason));
    line(out, 0, &format!("engine {}, {}", plan.engine, plan.system.name()));
    for warning in &plan.warnings {
        line(out, 0, &format!("warning: {warning}"));
    }
}

fn cards(out: &mut String, plan: &Plan) {
    if plan.card.is_none() && plan.others.is_empty() {
        return;
    }
    title(out, "Cards");
    let at = |pci: &Option<String>| pci.as_ref().map(|pci| format!(", {pci}")).unwrap_or_default();
    if let Some(card) = &plan.card {
        let memory = card.trainable_bytes.map_or("memory unknown".to_owned(), |bytes| {
            format!("{} to train in", human_bytes(bytes))
        });
        line(
            out,
            2,
            &format!(
                "train on  {} {} ({}{}), {memory}",
                card.index,
                card.name,
                card.gfx,
                at(&card.pci)
            ),
        );
        line(out, 12, &card.why);
    }
    for other in &plan.others {
        let word = if other.hide { "hide" } else { "not used" };
        line(
            out,
            2,
            &format!("{word:<9} {} {}{}", other.index, other.name, at(&other.pci)),
        );
        line(out, 12, &other.why);
    }
    if let Some(mask) = &plan.mask {
        line(
            out,
            2,
            &format!("mask      {}={}, {}", mask.variable, mask.value, mask.how),
        );
    }
}

fn precision(out: &mut String, plan: &Plan) {
    let precision = &plan.precision;
    title(out, "Number format");
    line(
        out,
        2,
        &format!("{}: {}", precision.dtype.name(), precision.dtype_reason),
    );
    let four_bit = if precision.four_bit {
        "4-bit is possible"
    } else {
        "no 4-bit"
    };
    line(out, 2, &format!("{four_bit}: {}", precision.four_bit_reason));
    if let Some(attention) = precision.attention {
        line(
            out,
            2,
            match attention {
                AttentionIs::Official => "attention: AOTriton's kernels, official for this card",
                AttentionIs::Experimental => "attention: AOTriton's kernels, experimental for this card",
                AttentionIs::None => {
                    "attention: plain, without kernels of its own: memory grows with the square of the row"
                }
            },
        );
    }
    for note in &precision.notes {
        line(out, 2, &format!("note: {note}"));
    }
    line(
        out,
        2,
        &format!("as of {}: {}", precision.as_of, precision.source),
    );
}

fn routes(out: &mut String, plan: &Plan) {
    title(out, "torch");
    if plan.routes.is_empty() {
        line(out, 2, "none fits");
    }
    for (at, route) in plan.routes.iter().enumerate() {
        let mark = if plan.chosen == Some(at) { "->" } else { "  " };
        line(
            out,
            0,
            &format!(
                "{mark} {}: {}",
                route.build.as_deref().unwrap_or("on disk"),
                route.title
            ),
        );
        route_details(out, route);
    }
    for excluded in &plan.excluded {
        line(out, 3, &format!("not {}: {}", excluded.build, excluded.reason));
    }
}

fn route_details(out: &mut String, route: &RouteOffer) {
    if let Some(site) = &route.on_disk {
        line(out, 5, &format!("{} in {}", route.torch, site.display()));
    } else {
        let index = route.index.as_deref().unwrap_or("the package index");
        line(
            out,
            5,
            &format!(
                "{} from {index}, Python {}",
                route.requirements.join(" "),
                route.python
            ),
        );
        let download = route
            .download_bytes
            .map_or("size unknown".to_owned(), human_bytes);
        line(out, 5, &format!("download {download} ({})", route.download_note));
    }
    let standing = match route.standing {
        Standing::Good => "good",
        Standing::Fallback => "fallback",
        Standing::Experimental => "experimental",
    };
    line(out, 5, &format!("{standing}: {}", route.evidence));
    match route.as_of {
        Some(as_of) => line(out, 5, &format!("as of {as_of}: {}", route.source)),
        None => line(out, 5, &format!("read from {}", route.source)),
    }
}

fn packages(out: &mut String, plan: &Plan) {
    if plan.packages.is_empty() {
        return;
    }
    title(out, &format!("Packages ({})", plan.package_set));
    for package in &plan.packages {
        line(out, 2, package);
    }
    line(out, 2, "override file");
    for override_line in plan.override_file.lines() {
        line(out, 4, override_line);
    }
}

fn environment(out: &mut String, plan: &Plan) {
    title(out, "Environment");
    let quiet = |row: &&FlagRow| row.action == Action::Leave && !row.always && row.found.is_empty();
    for row in plan.environment.iter().filter(|row| !quiet(row)) {
        let what = match (row.action, &row.value) {
            (Action::Set, Some(value)) => format!("set {}={value}", row.name),
            (Action::Unset, _) => format!("unset {}", row.name),
            _ => format!("leave {}", row.name),
        };
        line(out, 2, &what);
        line(out, 6, &format!("{}: {}", row.condition, row.reason));
        line(
            out,
            6,
            &format!("evidence: {} (as of {})", row.evidence, row.as_of),
        );
        if let Some(guides) = &row.guides {
            line(out, 6, &format!("guides: {guides}"));
        }
        for found in &row.found {
            let effect = if found.in_effect {
                ""
            } else {
                ", not in effect here"
            };
            line(
                out,
                6,
                &format!(
                    "found: {}={} in {}{effect}",
                    found.name,
                    found.value,
                    place(found)
                ),
            );
            if let Some(harm) = &found.harm {
                let level = match harm.level {
                    HarmLevel::Harmful => "harmful",
                    HarmLevel::Slow => "slow",
                    HarmLevel::Useless => "useless",
                };
                line(out, 6, &format!("{level}: {}", harm.text));
            }
        }
        if row.always && row.found.is_empty() {
            line(out, 6, "found: not set here");
        }
    }
    let left: Vec<_> = plan
        .environment
        .iter()
        .filter(quiet)
        .map(|row| row.name.as_str())
        .collect();
    if !left.is_empty() {
        line(
            out,
            2,
            &format!("left alone, reasons in the JSON form: {}", left.join(", ")),
        );
    }
}

fn recipe(out: &mut String, plan: &Plan) {
    title(out, "Recipe");
    let recommended = &plan.recipe;
    match &recommended.recipe {
        Some(recipe) => {
            line(
                out,
                2,
                &format!(
                    "{} ({}): {}, {}",
                    recipe.id, recipe.class, recipe.model, recipe.license
                ),
            );
            for setting in &recipe.settings {
                line(out, 2, &format!("with {setting}"));
            }
            line(out, 2, &recommended.why);
            let gib = human_bytes;
            let needs = &recipe.needs;
            line(
                out,
                2,
                &format!(
                    "by formula: weights {}, adapter and optimizer {}, kept {}, for a moment {}, driver and libraries {}",
                    gib(needs.weights_bytes),
                    gib(needs.adapter_bytes),
                    gib(needs.kept_bytes),
                    gib(needs.moment_bytes),
                    gib(needs.context_bytes)
                ),
            );
            line(
                out,
                2,
                &format!(
                    "download {} ({})",
                    human_bytes(recipe.download_bytes),
                    recipe.model_source
                ),
            );
        }
        None => line(out, 2, &format!("none: {}", recommended.why)),
    }
    if let Some(budget) = recommended.budget_bytes {
        line(
            out,
            2,
            &format!(
                "memory that may be used: {}, {}",
                human_bytes(budget),
                recommended.budget_how
            ),
        );
    }
    if let Some(next) = &recommended.next {
        line(
            out,
            2,
            &format!(
                "next bigger: {} ({}); missing for it: {}",
                next.id, next.model, next.lacks
            ),
        );
    }
}

fn steps(out: &mut String, plan: &Plan) {
    title(out, "Steps");
    if plan.install.is_none() && plan.chosen.is_some() {
        line(out, 2, "nothing has to be installed");
    }
    for (at, step) in plan.steps.iter().enumerate() {
        let optional = if step.optional { " (optional)" } else { "" };
        let reboot = if step.reboot {
            ", then restart the machine"
        } else {
            ""
        };
        line(out, 2, &format!("{}. {}{optional}{reboot}", at + 1, step.title));
        line(out, 5, &step.why);
        let quoted: Vec<_> = step
            .command
            .iter()
            .map(|word| shlex::try_quote(word).map_or_else(|_| String::new(), std::borrow::Cow::into_owned))
            .collect();
        if !quoted.is_empty() {
            line(out, 5, &format!("$ {}", quoted.join(" ")));
        }
        let size = |bytes: Option<u64>| match bytes {
            None => "unknown".to_owned(),
            Some(0) => "nothing".to_owned(),
            Some(bytes) => human_bytes(bytes),
        };
        line(
            out,
            5,
            &format!(
                "download {}, disk {}; changes {}",
                size(step.download_bytes),
                size(step.disk_bytes),
                step.changes
            ),
        );
    }
}
