//! What takes how much of the disk, and the way to have less of it: listed first, asked about in place, then deleted. A
//! run goes to the trash and can be put back.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use egui::{Align, CornerRadius, Frame, Label, Layout, Margin, RichText, Role, Stroke, Ui, WidgetInfo, vec2};
use tunesmith_lab::{
    disk::{self, DiskKind, DiskUse},
    models::{models_here, remove_model},
    run::{Run, RunError, RunLine, lines, trash},
};
use tunesmith_models::hub::Hub;
use tunesmith_report::format::{plural, size};
use tunesmith_setup::{Folders, environments, knowledge::Knowledge};

use super::{SettingsView, locked};
use crate::{
    commands::{Command, Commands},
    problem,
    services::Work,
    state::{Loadable, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// Rows that are shown at once.
const PORTION: usize = 40;
const KIND: f32 = 116.0;
const SIZE: f32 = 92.0;
const BUTTONS: f32 = 140.0;

/// Which things are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Show {
    #[default]
    All,
    Models,
    Environments,
    Runs,
    Trash,
    Rest,
}

impl Show {
    const ALL: [Self; 6] = [
        Self::All,
        Self::Models,
        Self::Environments,
        Self::Runs,
        Self::Trash,
        Self::Rest,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Models => "Models",
            Self::Environments => "Environments",
            Self::Runs => "Runs",
            Self::Trash => "Trash",
            Self::Rest => "Rest",
        }
    }

    fn of(kind: DiskKind) -> Self {
        match kind {
            DiskKind::Model => Self::Models,
            DiskKind::Environment | DiskKind::Runtime => Self::Environments,
            DiskKind::Run | DiskKind::Checkpoints => Self::Runs,
            DiskKind::Trash => Self::Trash,
            DiskKind::InstallerCache | DiskKind::References | DiskKind::Cache => Self::Rest,
        }
    }

    fn includes(self, kind: DiskKind) -> bool {
        self == Self::All || self == Self::of(kind)
    }
}

/// What takes space, the largest first.
#[derive(Clone, Debug, Default)]
pub struct Listing(pub Vec<DiskUse>);

impl Listing {
    /// Bytes in all; files that are linked into several places count in each.
    pub(super) fn total(&self) -> u64 {
        self.bytes(Show::All)
    }

    fn bytes(&self, show: Show) -> u64 {
        self.shown(show).map(|used| used.bytes).sum()
    }

    fn shown(&self, show: Show) -> impl Iterator<Item = &DiskUse> {
        self.0.iter().filter(move |used| show.includes(used.kind))
    }
}

/// Lists everything, which takes a while where there is much.
pub(super) fn read(state: &mut State) -> Work {
    state.pages.settings.disk = Loadable::Loading;
    let folders = state.folders.clone();
    Work::awaited(
        "adding up what lies on the disk",
        move || list(&folders),
        |state, listing| state.pages.settings.disk = listing.into(),
    )
}

fn list(folders: &Folders) -> Result<Listing, Problem> {
    let knowledge = Knowledge::load(None).map_err(|error| problem!(error))?;
    let lines = known_runs(folders)?;
    let hub = Hub::from_env().ok();
    Ok(Listing(disk::disk_use(folders, hub.as_ref(), &knowledge, &lines)))
}

fn known_runs(folders: &Folders) -> Result<Vec<Arc<RunLine>>, Problem> {
    lines(&folders.runs(), &[]).map_err(|error| problem!(error))
}

/// What became of something that was removed.
#[derive(Debug, PartialEq, Eq)]
enum Removed {
    /// It is gone.
    Gone,
    /// It is in the trash under this name.
    InTrash(String),
}

/// Removes something that was listed and asked about.
fn remove(folders: &Folders, used: &DiskUse) -> Result<Removed, Problem> {
    match used.kind {
        DiskKind::Run => {
            let trashed = trash::trash(folders, &used.name).map_err(|error| problem!(error))?;
            return Ok(Removed::InTrash(trashed.name));
        }
        DiskKind::Checkpoints => {
            let folder = used.path.parent().unwrap_or(&used.path);
            let run = Run::open(folder).map_err(|error| problem!(error))?;
            disk::remove_checkpoints(&run).map_err(|error| problem!(error))?;
        }
        DiskKind::Trash => {
            let names = [used.name.clone()];
            trash::empty(folders, &names).map_err(|error| problem!(error))?;
        }
        DiskKind::Environment => {
            // Who uses it was told before the second click.
            environments::remove(folders, &used.name, true).map_err(|error| problem!(error))?;
        }
        DiskKind::Model => remove_model_at(folders, &used.path)?,
        DiskKind::Runtime | DiskKind::InstallerCache | DiskKind::References | DiskKind::Cache => {
            return Err(Problem::new(
                "not_removed_here",
                kept_words(used.kind),
                Vec::new(),
            ));
        }
    }
    Ok(Removed::Gone)
}

fn remove_model_at(folders: &Folders, path: &Path) -> Result<(), Problem> {
    let knowledge = Knowledge::load(None).map_err(|error| problem!(error))?;
    let hub = Hub::from_env().map_err(|error| problem!(error))?;
    let models = models_here(folders, Some(&hub), &knowledge);
    let Some(model) = models.iter().find(|model| model.path == path) else {
        return Ok(());
    };
    let lines = known_runs(folders)?;
    remove_model(folders, &hub, model, &lines, true).map_err(|error| problem!(error))
}

/// Why this is not deleted here; empty for what is.
fn kept_words(kind: DiskKind) -> &'static str {
    match kind {
        DiskKind::Runtime | DiskKind::InstallerCache | DiskKind::References => {
            "Set-up would fetch it again when it is next needed; whoever wants the space can delete it in its folder"
        }
        DiskKind::Cache => "It is small and made again by itself",
        _ => "",
    }
}

/// Removes it in the background.
fn begin_removal(state: &mut State, used: DiskUse) -> Option<Work> {
    if state.pages.settings.removing.is_some() {
        return None;
    }
    state.pages.settings.removing = Some(used.path.clone());
    let folders = state.folders.clone();
    let asked = used.clone();
    Some(Work::awaited(
        "deleting",
        move || remove(&folders, &used),
        move |state, removed| removal_ended(state, &asked, removed),
    ))
}

fn removal_ended(state: &mut State, used: &DiskUse, removed: Result<Removed, Problem>) {
    let settings = &mut state.pages.settings;
    settings.removing = None;
    settings.disk = Loadable::Unasked;
    settings.undo = None;
    if Show::of(used.kind) == Show::Environments {
        settings.engines = Loadable::Unasked;
        settings.look_wanted = true;
    }
    match removed {
        Ok(Removed::InTrash(name)) => settings.undo = Some(name),
        Ok(Removed::Gone) => {
            let text = format!("Deleted the {} {}", used.kind.title(), used.name);
            state.say(Tone::Ok, text);
        }
        Err(problem) => settings.problem = Some(("It was not deleted", problem)),
    }
}

/// Puts a run back from the trash.
fn begin_return(state: &mut State, name: String) -> Work {
    let folders = state.folders.clone();
    state.pages.settings.undo = None;
    Work::new("putting a run back", move || {
        let restored = trash::restore(&folders, &name).map_err(|error: RunError| problem!(error));
        move |state: &mut State| {
            state.pages.settings.disk = Loadable::Unasked;
            match restored {
                Ok(_) => state.say(Tone::Ok, format!("{name} is among the runs again")),
                Err(problem) => state.pages.settings.problem = Some(("The run was not put back", problem)),
            }
        }
    })
}

/// What takes space.
pub(super) fn disk_ui(state: &State, view: &mut SettingsView, ui: &mut Ui, out: &mut Commands) {
    let settings = &state.pages.settings;
    widgets::panel(ui, "Space on the disk", |ui| {
        if let Some(name) = &settings.undo {
            ui.horizontal_wrapped(|ui| {
                widgets::badge(ui, Tone::Ok, Tone::Ok.word());
                ui.label(format!("{name} is in the trash"));
                if widgets::link_button(ui, "Put it back").clicked() {
                    let name = name.clone();
                    out.act("put back", move |state| Some(begin_return(state, name)));
                }
            });
        }
        match &settings.disk {
            Loadable::Ready(listing) => list_ui(state, listing, view, ui, out),
            Loadable::Failed(problem) => {
                widgets::problem_panel(ui, "The disk could not be read", problem, out);
            }
            _ => widgets::loading(ui, "Adding up what lies on the disk"),
        }
    });
}

fn list_ui(state: &State, listing: &Listing, view: &mut SettingsView, ui: &mut Ui, out: &mut Commands) {
    if listing.0.is_empty() {
        widgets::caption(
            ui,
            "Nothing yet: models, environments and runs will be listed here with their size",
        );
        return;
    }
    let count = listing.shown(view.show).count() as u64;
    ui.horizontal_wrapped(|ui| {
        if widgets::segmented(ui, &mut view.show, &Show::ALL.map(|show| (show, show.title()))) {
            view.rows = 0;
        }
        let things = plural(count, "thing");
        widgets::caption(ui, &format!("{things}, {}", size(listing.bytes(view.show))));
        if widgets::link_button(ui, "Add up again").clicked() {
            out.act("add up again", |state| Some(read(state)));
        }
    });
    let most = PORTION.max(view.rows);
    let duplicates = names(listing);
    for used in listing.shown(view.show).take(most) {
        let twin = duplicates.get(used.name.as_str()).is_some_and(|count| *count > 1);
        used_ui(state, used, twin, view, ui, out);
    }
    if count as usize > most && widgets::link_button(ui, &format!("Show {PORTION} more")).clicked() {
        view.rows = most + PORTION;
    }
    widgets::caption(
        ui,
        "A file that lies in several of these counts in each, so deleting one may free less than its size",
    );
}

fn names(listing: &Listing) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for used in &listing.0 {
        *names.entry(used.name.as_str()).or_default() += 1;
    }
    names
}

fn used_ui(
    state: &State,
    used: &DiskUse,
    twin: bool,
    view: &mut SettingsView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let kind = used.kind.title();
    // A run and its checkpoints share a name, and what is read aloud must tell them apart.
    let full = if twin {
        format!("{kind} {}", used.name)
    } else {
        used.name.clone()
    };
    ui.horizontal(|ui| {
        ui.set_min_height(theme::ROW);
        let left = Layout::left_to_right(Align::Center);
        let room = (ui.available_width() - SIZE - BUTTONS).max(120.0);
        ui.allocate_ui_with_layout(vec2(room, theme::ROW), left, |ui| {
            ui.set_min_width(room);
            let colour = tokens(ui).weak_text;
            // Where there is little room, the name needs it most.
            let kind_room = KIND.min(0.4 * room);
            ui.allocate_ui_with_layout(vec2(kind_room, theme::ROW), left, |ui| {
                ui.set_min_width(kind_room);
                ui.add(Label::new(RichText::new(kind).size(theme::SMALL).color(colour)).truncate());
            });
            let name = Label::new(&used.name).truncate();
            if used.in_use_by.is_empty() {
                ui.add(name);
            } else {
                let text = format!("used by {}", used.in_use_by.join(", "));
                let most = 0.7 * ui.available_width();
                ui.scope(|ui| {
                    ui.set_max_width(most);
                    ui.add(name);
                });
                ui.add(Label::new(RichText::new(text).size(theme::SMALL).color(colour)).truncate());
            }
        });
        ui.allocate_ui_with_layout(
            vec2(SIZE, theme::ROW),
            Layout::right_to_left(Align::Center),
            |ui| {
                ui.set_min_width(SIZE);
                let bytes = size(used.bytes);
                ui.label(if used.whole {
                    bytes
                } else {
                    format!("over {bytes}")
                });
            },
        );
        let open = widgets::small_button(ui, "Open").on_hover_text(used.path.display().to_string());
        open.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Open {full}")));
        if open.clicked() {
            out.push(Command::Open(used.path.clone()));
        }
        delete_ui(state, used, &full, view, ui);
    });
    if view.confirming.as_ref() == Some(&used.path) {
        confirm_ui(used, view, ui, out);
    }
}

fn delete_ui(state: &State, used: &DiskUse, full: &str, view: &mut SettingsView, ui: &mut Ui) {
    if state.pages.settings.removing.as_ref() == Some(&used.path) {
        widgets::caption(ui, "deleting…");
        return;
    }
    let stands_on_it = matches!(used.kind, DiskKind::Model | DiskKind::Environment);
    let reason = match kept_words(used.kind) {
        "" if stands_on_it => locked(state).unwrap_or_default(),
        words => words.to_owned(),
    };
    let free = reason.is_empty();
    let delete = ui
        .add_enabled_ui(free, |ui| widgets::small_button(ui, "Delete…"))
        .inner
        .on_disabled_hover_text(reason);
    delete.widget_info(|| WidgetInfo::labeled(Role::Button, free, format!("Delete {full}…")));
    if delete.clicked() {
        let asked = view.confirming.as_ref() == Some(&used.path);
        view.confirming = (!asked).then(|| used.path.clone());
    }
}

/// What deleting it means, and the button that does it.
fn confirmation(used: &DiskUse) -> (String, &'static str) {
    let (what, button) = match used.kind {
        DiskKind::Run => (
            "It goes to the trash with its records and its adapter, and can be put back",
            "Move to the trash",
        ),
        DiskKind::Checkpoints => (
            "The run keeps its records and its adapter, and can no longer go on",
            "Delete for good",
        ),
        DiskKind::Trash => ("The run cannot be had back afterwards", "Delete for good"),
        DiskKind::Environment => (
            "Set-up can make it again, with all its downloads",
            "Delete for good",
        ),
        DiskKind::Model => (
            "It can be fetched again as long as its makers keep that revision",
            "Delete for good",
        ),
        _ => ("It is made again when it is needed", "Delete for good"),
    };
    let needs = match used.in_use_by.as_slice() {
        [] => String::new(),
        users => format!("; it is used by {}", users.join(", ")),
    };
    (format!("{}: {what}{needs}", size(used.bytes)), button)
}

fn confirm_ui(used: &DiskUse, view: &mut SettingsView, ui: &mut Ui, out: &mut Commands) {
    let colours = tokens(ui).tone(Tone::Warn);
    let (text, button) = confirmation(used);
    let frame = Frame::new()
        .fill(colours.fill)
        .stroke(Stroke::new(1.0, colours.text))
        .corner_radius(CornerRadius::same(theme::SMALL_CORNER))
        .inner_margin(Margin::symmetric(10, 6));
    frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, Tone::Warn, Tone::Warn.word());
            ui.add(Label::new(text).wrap());
            if widgets::small_button(ui, button).clicked() {
                view.confirming = None;
                let used = used.clone();
                out.act("delete", move |state| begin_removal(state, used));
            }
            if used.kind == DiskKind::Trash && widgets::small_button(ui, "Put it back").clicked() {
                view.confirming = None;
                let name = used.name.clone();
                out.act("put back", move |state| Some(begin_return(state, name)));
            }
            if widgets::small_button(ui, "Keep it").clicked() {
                view.confirming = None;
            }
        });
    });
}
