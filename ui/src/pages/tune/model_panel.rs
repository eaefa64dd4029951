//! Which model is tuned: the recipe's, one that is here already, a file or folder of the user's own, or one of a hub.

use egui::{Button, ComboBox, TextEdit, Ui};
use tunesmith_lab::models::ModelHere;
use tunesmith_report::format::size;

use super::{
    Picked, Subject, TuneView,
    card::ModelFacts,
    file_name,
    form::{Checked, MODEL, ModelChoice},
    model_name, weak,
};
use crate::{
    commands::Commands,
    services::{Pick, pick},
    state::State,
    theme::Tone,
    widgets,
};

/// A model that is being named, before it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// What is being named; nothing where a choice has been made.
    kind: Option<Kind>,
    text: String,
    fault: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An id of a hub.
    Hub,
    /// A path.
    Own,
}

pub(super) fn model_ui(
    state: &State,
    subject: &Subject<'_>,
    checked: &Checked,
    view: &mut TuneView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let around = state.pages.tune.around();
    let here: Vec<&ModelHere> = around
        .map(|around| {
            around
                .models
                .iter()
                .filter(|model| model.missing.is_empty())
                .collect()
        })
        .unwrap_or_default();
    widgets::panel(ui, "Which model is tuned", |ui| {
        choice_ui(subject, &here, view, ui);
        match view.model.kind {
            Some(Kind::Hub) => hub_ui(view, ui),
            Some(Kind::Own) => own_ui(view, ui, out),
            None => {}
        }
        if let Some(fault) = view.model.fault {
            widgets::verdict_line(ui, Tone::Stop, fault);
        }
        if let Some(error) = checked.errors.get(MODEL) {
            widgets::verdict_line(ui, Tone::Stop, &error.message);
            for hint in &error.hints {
                widgets::caption(ui, &format!("→ {hint}"));
            }
        }
        let model = view.form.with_choices(&subject.recipe).model;
        let facts = ModelFacts::of(state, subject, &model);
        let where_it_is = match facts.fetch_bytes {
            Some(0) => "it is on this machine".to_owned(),
            Some(bytes) => format!("it is downloaded first, {}", size(bytes)),
            None => "how large it is is not known before its hub is asked".to_owned(),
        };
        let licence = facts.licence.map_or_else(
            || "licence not known".to_owned(),
            |(name, from)| format!("licence {name} ({from})"),
        );
        widgets::caption(ui, &format!("{}: {where_it_is}; {licence}", facts.name));
    });
}

fn choice_ui(subject: &Subject<'_>, here: &[&ModelHere], view: &mut TuneView, ui: &mut Ui) {
    let recipes = format!("{} (the recipe's)", model_name(&subject.recipe.model));
    let shown = match (&view.model.kind, &view.form.model) {
        (Some(Kind::Hub), _) => "One of a model hub…".to_owned(),
        (Some(Kind::Own), _) => "A file or folder of your own…".to_owned(),
        (None, None) => recipes.clone(),
        (None, Some(ModelChoice::Source(source))) => source.clone(),
        (None, Some(ModelChoice::Path(path))) => file_name(path),
    };
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("Model");
        let combo = ComboBox::from_id_salt("model")
            .selected_text(shown)
            .width(380.0)
            .truncate()
            .show_ui(ui, |ui| {
                let plain = view.model.kind.is_none();
                if ui
                    .selectable_label(plain && view.form.model.is_none(), &recipes)
                    .clicked()
                {
                    view.form.model = None;
                    view.model = Entry::default();
                }
                for model in here {
                    let choice = Some(ModelChoice::Source(model.source.clone()));
                    let text = format!("{} · {}", model.name, size(model.bytes));
                    if ui
                        .selectable_label(plain && view.form.model == choice, text)
                        .clicked()
                    {
                        view.form.model = choice;
                        view.model = Entry::default();
                    }
                }
                for (kind, text) in [
                    (Kind::Own, "A file or folder of your own…"),
                    (Kind::Hub, "One of a model hub…"),
                ] {
                    if ui.selectable_label(view.model.kind == Some(kind), text).clicked() {
                        view.model = Entry {
                            kind: Some(kind),
                            ..Entry::default()
                        };
                    }
                }
            });
        combo.response.labelled_by(label.id);
        if view.form.model.is_some() && ui.button("Back to the recipe's").clicked() {
            view.form.model = None;
            view.model = Entry::default();
        }
    });
}

fn hub_ui(view: &mut TuneView, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        if text_ui(
            view,
            "Id of the model",
            "owner/name, with @revision where you want one",
            ui,
        ) {
            let id = view.model.text.trim().to_owned();
            view.form.model = Some(ModelChoice::Source(id));
            view.model = Entry::default();
        }
    });
    ui.label(weak(
        ui,
        "Nothing is downloaded by naming it: its size and licence are told first, and the download begins with the training",
    ));
}

fn own_ui(view: &mut TuneView, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal_wrapped(|ui| {
        if ui.button("Choose a GGUF file…").clicked() {
            out.act("choose_model", |_| {
                Some(pick(
                    "Choose a model",
                    Pick::File("GGUF files", &["gguf"]),
                    |state, path| {
                        state.pages.tune.picked = Some(Picked::Model(path));
                    },
                ))
            });
        }
        if ui.button("Choose a folder…").clicked() {
            out.act("choose_model", |_| {
                Some(pick("Choose a model's folder", Pick::Folder, |state, path| {
                    state.pages.tune.picked = Some(Picked::Model(path));
                }))
            });
        }
        if text_ui(view, "Path of the model", "or type a path", ui) {
            let path = std::path::PathBuf::from(view.model.text.trim().trim_matches('"'));
            if path.is_absolute() {
                view.form.model = Some(ModelChoice::Path(path));
                view.model = Entry::default();
            } else {
                view.model.fault = Some("the whole path is needed, from the root or the drive on");
            }
        }
    });
    ui.label(weak(
        ui,
        "A GGUF file, or a folder with config.json, tokenizer.json and safetensors",
    ));
}

/// A line of text with its button. Returns whether it shall be used.
fn text_ui(view: &mut TuneView, name: &str, hint: &str, ui: &mut Ui) -> bool {
    let edit = TextEdit::singleline(&mut view.model.text)
        .hint_text(hint)
        .desired_width(320.0);
    let typed = ui.add(edit).accessible_name(name);
    let entered = typed.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
    let filled = !view.model.text.trim().is_empty();
    let used = ui.add_enabled(filled, Button::new("Use this model")).clicked();
    filled && (entered || used)
}
