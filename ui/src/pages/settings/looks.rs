//! How the window looks, which lines of a log are shown, and what draws it.

use std::path::Path;

use egui::{Align, Button, Label, Layout, RichText, Ui, vec2};
use tunesmith_setup::env_vars;

use crate::{
    commands::{Command, Commands},
    pages::welcome::THEMES,
    problem,
    renderer::{Notes, Rung},
    services::Work,
    state::{Loadable, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// Room for the name of a choice.
const NAME: f32 = 132.0;
/// Narrower than this, the keys of the scale stand below its buttons.
const ZOOM_BESIDE: f32 = 500.0;
const ZOOM_KEYS: &str = "also Ctrl-plus and Ctrl-minus, from 100 to 200 %";
/// Of one step of the scale.
const ZOOM_STEP: f32 = 0.1;

const LOG_LEVELS: [(&str, &str); 3] = [
    ("debug", "Everything"),
    ("info", "What happens"),
    ("warn", "Warnings only"),
];

/// Theme, scale, log.
pub(super) fn looks_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Look", |ui| {
        row(ui, "Theme", |ui| {
            let mut theme = state.saved.theme;
            if widgets::segmented(ui, &mut theme, &THEMES) {
                out.push(Command::Theme(theme));
            }
        });
        row(ui, "Scale", |ui| {
            let beside = ui.available_width() >= ZOOM_BESIDE;
            ui.horizontal(|ui| {
                zoom_ui(state.saved.zoom, ui, out);
                if beside {
                    widgets::caption(ui, ZOOM_KEYS);
                }
            });
            if !beside {
                widgets::caption(ui, ZOOM_KEYS);
            }
        });
        row(ui, "Lines of a log", |ui| {
            let mut level = state.saved.log_level.clone();
            let choices = LOG_LEVELS.map(|(level, label)| (level.to_owned(), label));
            if widgets::segmented(ui, &mut level, &choices) {
                out.change("log level", move |state| state.saved.log_level = level);
            }
            widgets::caption(ui, "The file of a run holds every line, whatever is shown");
        });
    });
}

fn zoom_ui(zoom: f32, ui: &mut Ui, out: &mut Commands) {
    let at = |limit: f32| (zoom - limit).abs() < 0.01;
    if ui.add_enabled(!at(1.0), Button::new("Smaller")).clicked() {
        out.push(Command::Zoom(zoom - ZOOM_STEP));
    }
    widgets::value_unit(ui, &format!("{:.0}", 100.0 * zoom), "%");
    if ui.add_enabled(!at(2.0), Button::new("Larger")).clicked() {
        out.push(Command::Zoom(zoom + ZOOM_STEP));
    }
}

fn row(ui: &mut Ui, name: &str, add: impl FnOnce(&mut Ui)) {
    ui.horizontal_top(|ui| {
        let left = Layout::left_to_right(Align::Center);
        ui.allocate_ui_with_layout(vec2(NAME, theme::ROW), left, |ui| {
            ui.set_min_size(vec2(NAME, theme::ROW));
            let colour = tokens(ui).weak_text;
            ui.add(Label::new(RichText::new(name).color(colour)).truncate());
        });
        ui.vertical(add);
    });
}

/// What will draw the window when it opens next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NextRenderer {
    /// It; none stands for the best that works.
    rung: Option<Rung>,
    /// The variable names one, and goes before the choice.
    by_variable: Option<Rung>,
}

impl NextRenderer {
    fn noted(config: &Path) -> Self {
        Self {
            rung: Notes::load(config).painted,
            by_variable: Rung::from_env(),
        }
    }
}

/// Reads what is noted.
pub(super) fn read_renderer(state: &mut State) -> Work {
    state.pages.settings.renderer = Loadable::Loading;
    let config = state.folders.config().to_owned();
    Work::awaited(
        "reading the choice of a renderer",
        move || Ok(NextRenderer::noted(&config)),
        |state, next| state.pages.settings.renderer = next.into(),
    )
}

/// Notes a rung as the one that painted last, which is where the next start begins.
fn choose(state: &mut State, rung: Option<Rung>) -> Work {
    let config = state.folders.config().to_owned();
    Work::new("noting the choice of a renderer", move || {
        let noted = match rung {
            Some(rung) => Notes::default().note_painted(&config, rung),
            None => Notes::forget(&config),
        };
        let failed = noted.err().map(|error| problem!(error));
        let next = NextRenderer::noted(&config);
        move |state: &mut State| {
            state.pages.settings.renderer = Loadable::Ready(next);
            match failed {
                Some(problem) => {
                    state.pages.settings.problem = Some(("The choice could not be noted", problem));
                }
                None => state.say(Tone::Ok, "The next start of the window uses it"),
            }
        }
    })
}

/// What a rung is, for people.
fn meaning(rung: Rung) -> &'static str {
    match rung {
        Rung::Wgpu => "Vulkan, Direct3D 12 or Metal",
        Rung::WgpuGl => "OpenGL, in the same way",
        Rung::Glow => "OpenGL, in a simpler way",
        Rung::Software => "no card at all; the processor draws, slowly",
    }
}

/// What draws the window now, and what shall do so next time.
pub(super) fn renderer_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "What draws this window", |ui| {
        let now = if state.renderer.is_empty() {
            "not known"
        } else {
            &state.renderer
        };
        ui.add(Label::new(format!("Now: {now}")).wrap());
        let Some(next) = state.pages.settings.renderer.ready() else {
            if let Loadable::Failed(problem) = &state.pages.settings.renderer {
                return widgets::problem_panel(ui, "The choice could not be read", problem, out);
            }
            widgets::loading(ui, "Reading what the next start uses");
            return;
        };
        widgets::caption(
            ui,
            "If the window flickers, stays empty or shows wrong colours, let the next start use another; one that paints nothing is left again by itself",
        );
        let mut chosen = next.rung;
        let rungs = Rung::ALL.map(|rung| (Some(rung), rung.name()));
        let choices: Vec<_> = [(None, "The best that works")].into_iter().chain(rungs).collect();
        if widgets::segmented(ui, &mut chosen, &choices) {
            out.act("choose a renderer", move |state| Some(choose(state, chosen)));
        }
        let text = match chosen {
            Some(rung) => format!("The next start begins with {}: {}", rung.name(), meaning(rung)),
            None => {
                "The next start tries Vulkan, Direct3D 12 or Metal first, then OpenGL, then the processor"
                    .to_owned()
            }
        };
        widgets::caption(ui, &text);
        if let Some(rung) = next.by_variable {
            let text = format!(
                "The variable {} names {}, which goes before this choice",
                env_vars::RENDERER,
                rung.name()
            );
            widgets::verdict_line(ui, Tone::Note, &text);
        }
    });
}

#[cfg(test)]
mod tests {
    use tunesmith_setup::Folders;

    use super::*;

    #[test]
    fn a_choice_is_where_the_next_start_begins_and_can_be_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let mut state = State::for_tests();
        state.folders = Folders::all_under(home.path());
        choose(&mut state, Some(Rung::Glow)).run()(&mut state);
        assert_eq!(Notes::load(state.folders.config()).first(), Some(Rung::Glow));
        assert_eq!(
            state.pages.settings.renderer.ready().unwrap().rung,
            Some(Rung::Glow)
        );
        choose(&mut state, None).run()(&mut state);
        assert_eq!(Notes::load(state.folders.config()).first(), Some(Rung::Wgpu));
        assert_eq!(state.pages.settings.renderer.ready().unwrap().rung, None);
    }

    #[test]
    fn a_choice_that_cannot_be_noted_is_told() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), "a file").unwrap();
        let mut state = State::for_tests();
        state.folders = Folders::all_under(home.path());
        choose(&mut state, Some(Rung::Glow)).run()(&mut state);
        assert!(state.pages.settings.problem.is_some());
    }
}
