//! The plan: whether and on what this machine trains, with which torch and why, what comes beside it, and the same as a
//! script.

use egui::{Label, RichText, Ui};
use tunesmith_report::format::{plural, size};
use tunesmith_setup::{
    environments::Engine,
    knowledge::Knowledge,
    plan::{Plan, RouteOffer, Shell, script},
};

use super::{
    rows::{named, said},
    words::{self, capitalised},
};
use crate::{
    commands::Commands,
    state::{Machine, State},
    theme::{self, Tone, tokens},
    widgets,
};

pub(super) fn plan_ui(state: &State, machine: &Machine, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "The plan", |ui| {
        let mut engine = state.pages.setup.engine;
        let choices = Engine::ALL.map(|engine| (engine, words::engine(engine)));
        named(ui, "Engine", |ui| {
            if widgets::segmented(ui, &mut engine, &choices) {
                out.change("choose an engine", move |state| state.pages.setup.choose(engine));
            }
        });
        match &state.pages.setup.offer {
            crate::state::Loadable::Ready(offer) => planned_ui(&offer.plan, &machine.knowledge, ui, out),
            crate::state::Loadable::Failed(problem) => {
                widgets::problem_panel(ui, "There is no plan for this engine", problem, out);
            }
            _ => widgets::loading(ui, "Making the plan"),
        }
    });
}

fn planned_ui(plan: &Plan, knowledge: &Knowledge, ui: &mut Ui, out: &mut Commands) {
    widgets::verdict_line(ui, words::plan_tone(plan.verdict.kind), &plan.verdict.reason);
    for warning in &plan.warnings {
        widgets::verdict_line(ui, Tone::Warn, warning);
    }
    let precision = &plan.precision;
    named(ui, "Format", |ui| {
        let text = format!("{}: {}", precision.dtype.name(), precision.dtype_reason);
        ui.add(Label::new(text).wrap())
            .on_hover_text(format!("as of {}: {}", precision.as_of, precision.source));
    });
    let four_bit = if precision.four_bit {
        "possible"
    } else {
        "not possible"
    };
    said(ui, "4-bit", &format!("{four_bit}: {}", precision.four_bit_reason));
    if let Some(mask) = &plan.mask {
        said(
            ui,
            "Other cards",
            &format!("hidden by {}={}, {}", mask.variable, mask.value, mask.how),
        );
    }
    if let Some(route) = plan.route() {
        route_ui(route, ui);
    }
    others_ui(plan, ui);
    packages_ui(plan, knowledge, ui);
    by_hand_ui(plan, ui, out);
    script_ui(plan, ui, out);
}

fn route_ui(route: &RouteOffer, ui: &mut Ui) {
    said(ui, "torch", &format!("{}: {}", route.torch, route.title));
    let (tone, word) = words::standing(route.standing);
    named(ui, "Standing", |ui| {
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, tone, word);
            ui.label(&route.evidence);
        });
    });
    if let Some(site) = &route.on_disk {
        said(ui, "On disk", &site.display().to_string());
    } else {
        offered_ui(route, ui);
    }
    let read = match route.as_of {
        Some(as_of) => format!("as of {as_of}: {}", route.source),
        None => format!("read from {}", route.source),
    };
    said(ui, "Source", &read);
}

/// Where it comes from, and how much of it.
fn offered_ui(route: &RouteOffer, ui: &mut Ui) {
    let index = route.index.as_deref().unwrap_or("the general package index");
    let wanted = route.requirements.join(" ");
    said(ui, "From", &format!("{index}: {wanted}, Python {}", route.python));
    let download = route
        .download_bytes
        .map_or_else(|| "size not known".to_owned(), size);
    said(ui, "Download", &format!("{download} ({})", route.download_note));
    if let Some(bytes) = route.disk_bytes {
        said(ui, "Disk", &size(bytes));
    }
}

/// What else fits, and what does not and why.
fn others_ui(plan: &Plan, ui: &mut Ui) {
    let others: Vec<&RouteOffer> = plan
        .routes
        .iter()
        .enumerate()
        .filter(|(at, _)| plan.chosen != Some(*at))
        .map(|(_, route)| route)
        .collect();
    if !others.is_empty() {
        let title = format!("Other builds of torch that fit ({})", others.len());
        widgets::fold(ui, &title, false, |ui| {
            for route in others {
                let name = route.build.as_deref().unwrap_or("on disk");
                let (_, standing) = words::standing(route.standing);
                named(ui, name, |ui| {
                    let text = format!("{}; {standing}: {}", route.title, route.evidence);
                    ui.add(Label::new(text).wrap());
                });
            }
        });
    }
    if !plan.excluded.is_empty() {
        let title = format!("Builds of torch that do not fit here ({})", plan.excluded.len());
        widgets::fold(ui, &title, false, |ui| {
            for excluded in &plan.excluded {
                let build = excluded.build.as_str();
                named(ui, build, |ui| ui.add(Label::new(&excluded.reason).wrap()));
            }
        });
    }
}

/// What is installed beside torch, and what keeps it from replacing torch.
fn packages_ui(plan: &Plan, knowledge: &Knowledge, ui: &mut Ui) {
    if plan.packages.is_empty() {
        return;
    }
    let count = plural(plan.packages.len() as u64, "package");
    let title = format!("{count} beside torch ({})", plan.package_set);
    widgets::fold(ui, &title, false, |ui| {
        if let Some(set) = knowledge.packages.set(&plan.package_set) {
            widgets::caption(ui, &set.reason.to_string());
        }
        for package in &plan.packages {
            ui.monospace(package);
        }
    });
    if plan.override_file.is_empty() {
        return;
    }
    widgets::fold(
        ui,
        "The override file, so that nothing replaces torch or its Triton",
        false,
        |ui| {
            let weak = tokens(ui).weak_text;
            for line in plan.override_file.lines() {
                ui.monospace(line);
                let row = knowledge.packages.overrides.iter().find(|row| row.line == line);
                let why = row.map_or_else(
                    || "keeps the build that was installed first, whatever a package asks for".to_owned(),
                    |row| format!("{} (as of {}: {})", row.reason, row.as_of, row.source),
                );
                let why = RichText::new(why).size(theme::SMALL).color(weak);
                ui.add(Label::new(why).wrap());
            }
        },
    );
}

/// Steps that change the system itself: Tunesmith never takes them by itself.
fn by_hand_ui(plan: &Plan, ui: &mut Ui, out: &mut Commands) {
    for step in plan.steps.iter().filter(|step| step.reboot) {
        let optional = if step.optional {
            "optional, by hand"
        } else {
            "by hand"
        };
        widgets::fold(
            ui,
            &format!("{} ({optional})", capitalised(&step.title)),
            false,
            |ui| {
                said(ui, "Why", &step.why);
                said(
                    ui,
                    "Changes",
                    &format!("{}; the machine must start again for it", step.changes),
                );
                widgets::command_block(ui, &step.shell_line(), out);
            },
        );
    }
}

fn script_ui(plan: &Plan, ui: &mut Ui, out: &mut Commands) {
    ui.add_space(theme::GRID);
    named(ui, "As a script", |ui| {
        ui.horizontal_wrapped(|ui| {
            for (name, shell) in [("bash", Shell::Bash), ("PowerShell", Shell::PowerShell)] {
                if widgets::small_button(ui, &format!("Copy for {name}")).clicked() {
                    out.copy(script(plan, shell), format!("the script for {name}"));
                }
            }
            widgets::caption(ui, "to read first, and to run by hand");
        });
    });
}
