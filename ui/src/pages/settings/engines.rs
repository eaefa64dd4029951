//! Which torch each engine uses, and the way back to the one before.

use std::env;

use egui::{Label, RichText, Role, Ui, WidgetInfo};
use tunesmith_report::format::size;
use tunesmith_setup::{
    Folders, SetupError,
    environments::{self, Engine, Environment, Origin, find_torches},
    find_torch,
};

use super::locked;
use crate::{
    commands::Commands,
    problem,
    services::Work,
    state::{Loadable, Page, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// An environment, as far as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    name: String,
    torch: Option<String>,
    python: String,
    made_at: String,
    bytes: u64,
}

impl From<Environment> for Line {
    fn from(environment: Environment) -> Self {
        Self {
            name: environment.name,
            torch: environment.stamp.torch,
            python: environment.stamp.python,
            made_at: environment.stamp.made_at,
            bytes: environment.stamp.disk_bytes,
        }
    }
}

impl Line {
    fn text(&self) -> String {
        let torch = self
            .torch
            .as_ref()
            .map_or("without torch".to_owned(), |torch| format!("torch {torch}"));
        let day = self.made_at.split('T').next().unwrap_or_default();
        format!(
            "{torch}, Python {}, made {day}, {}",
            self.python,
            size(self.bytes)
        )
    }
}

/// What an engine uses.
#[derive(Clone, Debug)]
pub(super) struct EngineUse {
    engine: Engine,
    /// The environment that set-up recorded.
    active: Option<Line>,
    /// The torch that is used in its place, or for want of it.
    instead: Option<String>,
    /// Its other environments.
    others: Vec<Line>,
    /// The record cannot be read.
    problem: Option<Problem>,
}

impl EngineUse {
    /// What it uses, for the diagnostics: `native: environment torch-1, torch 2.11.0+rocm7.2`.
    pub(super) fn text(&self) -> String {
        let used = match (&self.instead, &self.active) {
            (Some(instead), _) => instead.clone(),
            (None, Some(line)) => format!("environment {}, {}", line.name, line.text()),
            (None, None) => "not installed".to_owned(),
        };
        format!("{}: {used}", self.engine)
    }
}

/// Reads the environments.
pub(super) fn read(state: &mut State) -> Work {
    state.pages.settings.engines = Loadable::Loading;
    let folders = state.folders.clone();
    Work::awaited(
        "reading the environments",
        move || Ok(engines(&folders)),
        |state, engines| {
            state.pages.settings.engines = engines.into();
            // They stand in the diagnostics.
            state.pages.settings.diagnostics = Loadable::Unasked;
        },
    )
}

fn engines(folders: &Folders) -> Vec<EngineUse> {
    let all = environments::list(folders).environments;
    Engine::ALL
        .into_iter()
        .map(|engine| {
            let (active, problem) = match environments::active(folders, engine) {
                Ok(active) => (active.map(Line::from), None),
                Err(error) => (None, Some(problem!(error))),
            };
            let is_active = |environment: &&Environment| {
                active
                    .as_ref()
                    .is_some_and(|active| active.name == environment.name)
            };
            let of_engine = all.iter().filter(|environment| environment.engine == engine);
            EngineUse {
                engine,
                others: of_engine
                    .filter(|found| !is_active(found))
                    .cloned()
                    .map(Line::from)
                    .collect(),
                instead: (engine == Engine::Native).then(|| other_torch(folders)).flatten(),
                active,
                problem,
            }
        })
        .collect()
}

/// The torch of the native engine, where it comes from no environment of Tunesmith's.
fn other_torch(folders: &Folders) -> Option<String> {
    let site = find_torch(folders)?;
    let torches = find_torches(folders, &|name| env::var_os(name), &[]);
    let torch = torches.into_iter().find(|torch| torch.site == site);
    let version = torch
        .as_ref()
        .map_or("of an unknown version", |torch| &torch.version);
    let origin = match torch.as_ref().map(|torch| &torch.origin) {
        Some(Origin::Environment(_)) => return None,
        Some(Origin::Runtime) => "Tunesmith's private runtime".to_owned(),
        Some(Origin::Variable(name)) => format!("named by {name}, which goes before everything else"),
        _ => format!("in {}", site.display()),
    };
    Some(format!("torch {version}, {origin}"))
}

/// Makes another environment the one that its engine uses: `name`, or the one before the present one.
fn switch(state: &mut State, engine: Engine, name: Option<String>) -> Work {
    let folders = state.folders.clone();
    Work::new("changing an engine's environment", move || {
        let changed: Result<Environment, SetupError> = match &name {
            Some(name) => environments::choose(&folders, name),
            None => environments::roll_back(&folders, engine),
        };
        let changed = changed
            .map(|environment| environment.name)
            .map_err(|error| problem!(error));
        move |state: &mut State| {
            state.pages.settings.engines = Loadable::Unasked;
            state.pages.settings.disk = Loadable::Unasked;
            match changed {
                Ok(name) => {
                    state.pages.settings.look_wanted = true;
                    state.say(Tone::Ok, format!("The {engine} engine uses {name} now"));
                }
                Err(problem) => {
                    state.pages.settings.problem = Some(("The environment was not changed", problem));
                }
            }
        }
    })
}

/// What each engine uses.
pub(super) fn engines_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Engines", |ui| {
        let engines = match &state.pages.settings.engines {
            Loadable::Ready(engines) => engines,
            Loadable::Failed(problem) => {
                return widgets::problem_panel(ui, "The environments could not be read", problem, out);
            }
            _ => return widgets::loading(ui, "Reading the environments"),
        };
        let locked = locked(state);
        if let Some(why) = &locked {
            widgets::verdict_line(ui, Tone::Note, why);
        }
        for (at, used) in engines.iter().enumerate() {
            if at > 0 {
                ui.separator();
            }
            engine_ui(used, locked.is_none(), ui, out);
        }
    });
}

fn engine_ui(used: &EngineUse, free: bool, ui: &mut Ui, out: &mut Commands) {
    let engine = used.engine;
    ui.horizontal_wrapped(|ui| {
        let name = match engine {
            Engine::Native => "Tunesmith's own engine (native)",
            Engine::Hf => "transformers and PEFT (hf)",
            Engine::Unsloth => "Unsloth (unsloth)",
        };
        let colour = tokens(ui).strong_text;
        ui.label(RichText::new(name).font(theme::strong_font()).color(colour));
        if used.active.is_none() && used.instead.is_none() {
            widgets::badge(ui, Tone::Unknown, "not installed");
            if engine == Engine::Native && widgets::link_button(ui, "Go to set-up").clicked() {
                out.go(Page::Setup);
            }
        }
    });
    if let Some(instead) = &used.instead {
        ui.add(Label::new(format!("Uses {instead}")).wrap());
    }
    if let Some(problem) = &used.problem {
        widgets::verdict_line(ui, Tone::Warn, &problem.message);
    }
    if let Some(active) = &used.active {
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, Tone::Ok, "active");
            ui.monospace(&active.name);
            widgets::caption(ui, &active.text());
        });
    }
    for other in &used.others {
        ui.horizontal_wrapped(|ui| {
            let response = ui
                .add_enabled_ui(free, |ui| widgets::small_button(ui, "Use"))
                .inner;
            let label = format!("Use {}", other.name);
            response.widget_info(|| WidgetInfo::labeled(Role::Button, free, &label));
            if response.clicked() {
                let name = other.name.clone();
                out.act("use an environment", move |state| {
                    Some(switch(state, engine, Some(name)))
                });
            }
            ui.monospace(&other.name);
            widgets::caption(ui, &other.text());
        });
    }
    if used.active.is_some() && !used.others.is_empty() {
        let back = ui
            .add_enabled_ui(free, |ui| widgets::link_button(ui, "Go back to the one before"))
            .inner;
        let label = format!("Go back to the {engine} environment before this one");
        back.widget_info(|| WidgetInfo::labeled(Role::Button, free, &label));
        if back.clicked() {
            out.act("go back", move |state| Some(switch(state, engine, None)));
        }
    }
}
