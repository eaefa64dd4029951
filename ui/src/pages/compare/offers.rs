//! What can be found out here: the one button with what it takes, then the other ready experiments, and one of the user's
//! own.

use egui::{Align, ComboBox, Label, Layout, RichText, Ui};
use tunesmith_lab::{
    estimate::Fit,
    experiment::{ExperimentState, Kind, Outlook},
    recipe::{BUNDLED, DEFAULT_MODEL},
};
use tunesmith_protocol::{StopHow, TaskWork};
use tunesmith_report::format::{capitalised, duration, plural, size};
use tunesmith_setup::doctor::Stops;

use super::{CompareView, Offer, Offers, Planned, is_unfinished, outcome, over, resume, words};
use crate::{
    commands::{Command, Commands},
    pages::tune::{Blocked, fit_words},
    services::{Pick, pick},
    state::{Page, Problem, State, Task},
    theme::{self, Tone, tokens},
    widgets,
};

/// The offer of the one button, with its plan.
fn main_offer(state: &State) -> Option<&Offer> {
    state.pages.compare.offers()?.ready.first()
}

/// The experiment that an offer would go on with: the newest that decides and expects the same.
fn begun<'a>(state: &'a State, offer: &Offer) -> Option<&'a ExperimentState> {
    let hash = &offer.planned.as_ref().ok()?.plan.hash;
    let all = state.pages.compare.begun().iter();
    all.map(AsRef::as_ref).find(|begun| begun.hash == *hash)
}

/// The panel of the one button.
pub(super) fn main_ui(state: &State, view: &mut CompareView, ui: &mut Ui, out: &mut Commands) {
    if let Some(task) = state.tasks.running().filter(|task| is_fetch(task)) {
        widgets::panel(ui, "", |ui| fetching_ui(task, ui, out));
        return;
    }
    widgets::panel(ui, "", |ui| {
        let Some(offers) = state.pages.compare.offers() else {
            let pages = &state.pages;
            return match pages.compare.offers_problem().or(pages.tune.around_problem()) {
                Some(problem) => {
                    widgets::problem_panel(ui, "What an experiment takes here is not known", problem, out);
                }
                None => widgets::loading(ui, "Working out what an experiment takes here"),
            };
        };
        let Some(offer) = offers.ready.first() else { return };
        widgets::subheading(ui, &offer.experiment.title);
        ui.add(Label::new(&offer.experiment.question).wrap());
        ui.add_space(theme::GRID);
        match &offer.planned {
            Ok(planned) => planned_ui(state, offers, offer, planned, view, ui, out),
            Err(problem) => {
                widgets::problem_panel(ui, "This experiment cannot be planned here", problem, out);
                recipe_ui(view, ui);
            }
        }
    });
}

fn planned_ui(
    state: &State,
    offers: &Offers,
    offer: &Offer,
    planned: &Planned,
    view: &mut CompareView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let reasons = blocked(state, offers, offer);
    let begun = begun(state, offer);
    ui.horizontal_wrapped(|ui| {
        let free = reasons.is_empty();
        let done = begun.is_some_and(|begun| !is_unfinished(begun));
        let text = main_words(state, planned, begun);
        let button = ui
            .add_enabled_ui(free, |ui| {
                if done {
                    ui.button(&text)
                } else {
                    widgets::primary_button(ui, &text)
                }
            })
            .inner
            .on_hover_text("Ctrl-Enter");
        if button.clicked() {
            start_main(state, out);
        }
        let weak = RichText::new("Ctrl-Enter")
            .size(theme::SMALL)
            .color(tokens(ui).weak_text);
        ui.label(weak);
    });
    if let Some(bytes) = planned.outlook.model_bytes.filter(|bytes| *bytes > 0) {
        widgets::caption(
            ui,
            &format!("Downloads {} of {} first", size(bytes), planned.model),
        );
    }
    blocked_ui(&reasons, ui, out);
    ui.add_space(theme::GRID);
    if begun.is_none_or(is_unfinished) {
        tiles_ui(&planned.outlook, ui);
        ui.add_space(theme::GRID);
    } else {
        widgets::caption(ui, &takes(offer.experiment.kind, &planned.outlook));
    }
    recipe_ui(view, ui);
    if begun.is_none() {
        let title = "What must hold and what is expected, written down before the first run";
        widgets::fold(ui, title, false, |ui| outcome::claims_ui(&planned.before, ui));
        for note in &offer.experiment.notes {
            widgets::caption(ui, note);
        }
    }
}

/// The words of the one button.
fn main_words(state: &State, planned: &Planned, begun: Option<&ExperimentState>) -> String {
    let device = words::device_word(state);
    match begun {
        Some(begun) if is_unfinished(begun) => {
            let left = begun.slots.len() - over(begun);
            format!("Go on: {} are left", plural(left as u64, "run"))
        }
        Some(_) => "Measure it again".to_owned(),
        None => format!("{} or 4-bit? Find out on this {device}", planned.dtype.name()),
    }
}

/// What it takes: time, runs, memory, disk.
fn tiles_ui(outlook: &Outlook, ui: &mut Ui) {
    let (time, below) = match outlook.secs {
        Some(secs) => (
            format!("about {}", widgets::rough(secs)),
            format!("{} of training at most", duration(outlook.most_secs)),
        ),
        None => (
            format!("≤ {}", duration(outlook.most_secs)),
            "by the time boxes of its runs; the first run tells more".to_owned(),
        ),
    };
    let memory = outlook.memory_bytes.map_or_else(|| "unknown".to_owned(), size);
    let disk = outlook.disk_bytes.map_or_else(|| "unknown".to_owned(), size);
    let arms: Vec<&str> = outlook.arms.iter().map(|arm| arm.name.as_str()).collect();
    let runs = format!(
        "{} of each: {}",
        outlook.runs / outlook.arms.len().max(1),
        arms.join(", ")
    );
    let (tone, word) = fit_words(outlook.fit);
    let tiles: [&dyn Fn(&mut Ui); 4] = [
        &|ui| {
            let how = "By earlier runs and the calibration of this device; loading and waiting for other programs come on top";
            widgets::tile(ui, "Time", &time, &below, how);
        },
        &|ui| {
            let how = "In turn, forwards and backwards, so that a machine that grows warm does so for all of them alike";
            widgets::tile(ui, "Runs", &outlook.runs.to_string(), &runs, how);
        },
        &|ui| {
            widgets::tile(
                ui,
                "Memory",
                &memory,
                "of the one that needs most",
                &outlook.reason,
            );
            widgets::badge(ui, tone, word).on_hover_text(&outlook.reason);
        },
        &|ui| {
            let how = "Adapters of all runs, and what is downloaded";
            widgets::tile(ui, "Disk", &disk, "what the runs leave", how);
        },
    ];
    widgets::tiles(ui, &tiles);
    if outlook.fit == Fit::DoesNotFit {
        widgets::verdict_line(ui, Tone::Warn, &capitalised(&outlook.reason));
    }
    if let Some(steps) = outlook.steps_in_box {
        let sentence = format!(
            "The time box of a run leaves room for about {} of the slowest arm; all are then compared over as many",
            plural(steps, "timed step")
        );
        widgets::verdict_line(ui, Tone::Note, &sentence);
    }
}

/// Which recipe's model and settings are compared.
fn recipe_ui(view: &mut CompareView, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("Trains");
        let own = "each experiment's own recipe";
        let chosen = view.form.recipe.clone();
        let shown = chosen.as_deref().map_or(own, title_of);
        let combo = ComboBox::from_id_salt("recipe of the experiments")
            .selected_text(shown)
            .width(320.0)
            .truncate()
            .show_ui(ui, |ui| {
                ui.selectable_value(&mut view.form.recipe, None, own);
                for (name, _) in BUNDLED {
                    ui.selectable_value(&mut view.form.recipe, Some(name.to_owned()), title_of(name));
                }
            });
        combo.response.labelled_by(label.id);
    });
}

/// What a bundled recipe is called.
fn title_of(name: &str) -> &str {
    crate::pages::tune::bundled(name).map_or(name, |recipe| recipe.title.as_str())
}

/// Starts what the one button says.
pub(super) fn start_main(state: &State, out: &mut Commands) {
    let (Some(offers), Some(offer)) = (state.pages.compare.offers(), main_offer(state)) else {
        return;
    };
    if blocked(state, offers, offer).is_empty() {
        start(state, offer, out);
    }
}

/// Begins an experiment, goes on with it, or begins one anew that is finished; after its download where there is one.
fn start(state: &State, offer: &Offer, out: &mut Commands) {
    let Ok(planned) = &offer.planned else { return };
    let begun = begun(state, offer);
    if let Some(begun) = begun.filter(|begun| is_unfinished(begun)) {
        resume(begun, false, out);
        return;
    }
    let work = TaskWork::Experiment {
        experiment: offer.wish.clone(),
        resume: false,
        again: begun.is_some(),
        retry_failed: false,
    };
    if planned.outlook.model_bytes == Some(0) {
        out.start(work);
        return;
    }
    out.start(TaskWork::Fetch {
        model: planned.model.clone(),
    });
    out.change("start_after_fetch", move |state| {
        if let Some(task) = state.tasks.running().filter(|task| is_fetch(task)) {
            state.pages.compare.after_fetch = Some((task.id, work));
        }
    });
}

fn is_fetch(task: &Task) -> bool {
    matches!(task.work, TaskWork::Fetch { .. })
}

/// The download that an experiment waits for.
fn fetching_ui(task: &Task, ui: &mut Ui, out: &mut Commands) {
    widgets::subheading(ui, "Downloading a model; the experiment starts after it");
    let words = match &task.progress {
        Some(progress) => {
            let left = match progress.eta_secs {
                Some(secs) => format!("about {} left", duration(secs)),
                None => "estimating…".to_owned(),
            };
            format!("{} of {}, {left}", size(progress.done), size(progress.total))
        }
        None => task.stage_title.to_string(),
    };
    widgets::progress_bar(ui, task.share(), &words);
    if ui.button("Stop the download").clicked() {
        out.push(Command::Stop(StopHow::Now));
    }
}

/// Everything that keeps an experiment from starting; empty where nothing does.
fn blocked(state: &State, offers: &Offers, offer: &Offer) -> Vec<Blocked> {
    let mut found = Vec::new();
    let at = |page: Option<Page>, why: String| Blocked { why, page };
    if let Some(task) = state.tasks.running() {
        let why = format!("{} is under way; one thing runs at a time", task.name());
        found.push(at(task.trains().then_some(Page::Live), why));
    }
    if let Some(Err(problem)) = state.pages.tune.around().map(|around| &around.engine) {
        found.push(at(Some(Page::Setup), with_cure(problem)));
    }
    let stops = state
        .machine
        .get()
        .filter(|_| offers.device != "cpu")
        .and_then(|machine| {
            let mut checks = machine.diagnosis.checks.iter();
            checks.find(|check| check.stops == Some(Stops::Recipe))
        });
    if let Some(check) = stops {
        found.push(at(Some(Page::Setup), format!("{}: {}", check.title, check.found)));
    }
    match &offer.planned {
        Ok(planned) if planned.outlook.model_bytes.is_none() && planned.model != DEFAULT_MODEL => {
            let why = format!(
                "how large {} is has not been asked yet: choose its recipe there, and ask",
                planned.model
            );
            found.push(at(Some(Page::Tune), why));
        }
        Ok(_) => {}
        Err(problem) => found.push(at(None, with_cure(problem))),
    }
    found
}

fn with_cure(problem: &Problem) -> String {
    match problem.hints.first() {
        Some(hint) => format!("{}: {hint}", problem.message),
        None => problem.message.clone(),
    }
}

fn blocked_ui(reasons: &[Blocked], ui: &mut Ui, out: &mut Commands) {
    for reason in reasons {
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, Tone::Warn, "not yet");
            ui.label(&reason.why);
            if let Some(page) = reason.page
                && widgets::link_button(ui, &format!("Open {}", page.title())).clicked()
            {
                out.go(page);
            }
        });
    }
}

/// The other ready experiments, a panel with a line each, and one of the user's own.
pub(super) fn others_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let Some(offers) = state.pages.compare.offers() else {
        return;
    };
    widgets::panel(ui, "Other questions", |ui| {
        for offer in offers.ready.iter().skip(1) {
            ui.push_id(&offer.experiment.name, |ui| {
                line_ui(state, offers, offer, ui, out);
            });
        }
        ui.add_space(theme::GRID);
        if ui
            .button("An experiment file of your own…")
            .on_hover_text("A TOML file with arms, seeds, criteria and predictions")
            .clicked()
        {
            out.act("choose_experiment", |_| {
                Some(pick(
                    "Choose an experiment",
                    Pick::File("Experiments", &["toml"]),
                    |state, path| state.pages.compare.use_own(path),
                ))
            });
        }
        match &offers.own {
            Some(Ok(offer)) => {
                ui.push_id("own", |ui| line_ui(state, offers, offer, ui, out));
            }
            Some(Err(problem)) => {
                widgets::problem_panel(ui, "This file is no experiment that can be run", problem, out);
            }
            None => {}
        }
    });
}

/// One experiment: what it asks, what it takes, and its start.
fn line_ui(state: &State, offers: &Offers, offer: &Offer, ui: &mut Ui, out: &mut Commands) {
    ui.separator();
    let experiment = &offer.experiment;
    let name = match experiment.title.as_str() {
        "" => experiment.name.as_str(),
        title => title,
    };
    let begun = begun(state, offer);
    ui.horizontal(|ui| {
        let text = RichText::new(name)
            .font(theme::strong_font())
            .color(tokens(ui).strong_text);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let word = match begun {
                Some(begun) if is_unfinished(begun) => "Go on",
                Some(_) => "Again",
                None => "Start",
            };
            // Of one that cannot be started the reason is said below.
            let free = blocked(state, offers, offer).is_empty();
            let button = ui
                .add_enabled_ui(free, |ui| widgets::small_button(ui, word))
                .inner;
            let label = format!("{word}: {name}");
            button.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, free, &label));
            if button.clicked() {
                start(state, offer, out);
            }
            if let Some(begun) = begun
                && widgets::small_button(ui, "Show").clicked()
            {
                let folder = begun.folder.clone();
                out.change("look at an experiment", move |state| {
                    state.pages.compare.look(folder);
                });
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.add(Label::new(text).truncate());
            });
        });
    });
    if !experiment.question.is_empty() {
        ui.add(Label::new(&experiment.question).wrap());
    }
    match &offer.planned {
        Ok(planned) => {
            ui.horizontal_wrapped(|ui| {
                if planned.outlook.fit != Fit::Fits {
                    let (tone, word) = fit_words(planned.outlook.fit);
                    widgets::badge(ui, tone, word).on_hover_text(&planned.outlook.reason);
                }
                widgets::caption(ui, &takes(experiment.kind, &planned.outlook));
            });
        }
        Err(problem) => widgets::verdict_line(ui, Tone::Note, &with_cure(problem)),
    }
}

/// `6 runs of 2 arms, about 4 min 12 s, 812 MiB`.
fn takes(kind: Kind, outlook: &Outlook) -> String {
    let arms = match kind {
        Kind::Soak => "one long run".to_owned(),
        _ => format!(
            "{} of {}",
            plural(outlook.runs as u64, "run"),
            plural(outlook.arms.len() as u64, "arm")
        ),
    };
    let time = match outlook.secs {
        Some(secs) => format!("about {}", widgets::rough(secs)),
        None => format!("{} at most", duration(outlook.most_secs)),
    };
    let mut parts = vec![capitalised(&arms), time];
    if let Some(bytes) = outlook.memory_bytes {
        parts.push(format!("{} of memory", size(bytes)));
    }
    if let Some(bytes) = outlook.disk_bytes.filter(|bytes| *bytes > 0) {
        parts.push(format!("{} on disk", size(bytes)));
    }
    if let Some(bytes) = outlook.model_bytes.filter(|bytes| *bytes > 0) {
        parts.push(format!("downloads {}", size(bytes)));
    }
    parts.join(", ")
}
