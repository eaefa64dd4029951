//! Where things lie.

use std::path::PathBuf;

use egui::{Align, Label, Layout, RichText, Role, Ui, WidgetInfo, vec2};
use tunesmith_setup::Folders;

use crate::{
    commands::{Command, Commands},
    state::State,
    theme::{self, tokens},
    widgets,
};

const NAME: f32 = 132.0;
/// Room for two small buttons.
const BUTTONS: f32 = 121.0;

/// The folders, what is in each, and where.
fn places(folders: &Folders) -> [(&'static str, &'static str, PathBuf); 6] {
    [
        ("Runs", "What was trained, with every record", folders.runs()),
        (
            "Data",
            "What you made: runs, reports, captures",
            folders.data().to_owned(),
        ),
        (
            "Choices",
            "What you chose, of this window too",
            folders.config().to_owned(),
        ),
        (
            "Cache",
            "What can be made again at any time",
            folders.cache().to_owned(),
        ),
        ("Models", "Models that set-up fetched", folders.models()),
        (
            "Environments",
            "The torch and the packages of each engine",
            folders.environments(),
        ),
    ]
}

/// The folders, each with a way into it.
pub(super) fn folders_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Folders", |ui| {
        for (name, what, path) in places(&state.folders) {
            folder_ui(name, what, path, ui, out);
        }
        widgets::caption(
            ui,
            "A folder is made when something is first put into it. The variable TUNESMITH_HOME moves data, choices and cache; models and environments stay where all homes share them",
        );
    });
}

fn folder_ui(name: &str, what: &str, path: PathBuf, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal(|ui| {
        ui.set_min_height(theme::ROW);
        let left = Layout::left_to_right(Align::Center);
        ui.allocate_ui_with_layout(vec2(NAME, theme::ROW), left, |ui| {
            ui.set_min_width(NAME);
            ui.label(name).on_hover_text(what);
        });
        let shown = path.display().to_string();
        let room = (ui.available_width() - BUTTONS).max(80.0);
        ui.allocate_ui_with_layout(vec2(room, theme::ROW), left, |ui| {
            ui.set_min_width(room);
            let text = RichText::new(&shown).monospace().color(tokens(ui).weak_text);
            ui.add(Label::new(text).truncate());
        });
        let open = widgets::small_button(ui, "Open").on_hover_text(format!("{what}: open the folder"));
        let label = format!("Open the folder {name}");
        open.widget_info(|| WidgetInfo::labeled(Role::Button, true, &label));
        if open.clicked() {
            out.push(Command::Open(path));
        }
        widgets::copy_button(ui, &format!("the path of {name}"), &shown, out);
    });
}
