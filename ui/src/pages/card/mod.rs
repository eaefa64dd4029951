//! The page `Your card`: which device trains and why, what else is there, what is known of it, and how it is right
//! now.

mod facts;
mod live;
mod words;

use egui::{Key, Label, Layout, Modifiers, RichText, Role, Ui, WidgetInfo, vec2};
use tunesmith_report::format::capitalised;

use self::{facts::Fact, words::Device};
use crate::{
    commands::{Command, Commands},
    glossary,
    saved::DeviceWish,
    services,
    state::{Loadable, Machine, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// Narrower than this, facts stand in one column.
const TWO_COLUMNS: f32 = 760.0;
/// Room for the button that chooses a device.
const TRAIN: f32 = 99.0;
/// Room for the name of a fact.
const NAME: f32 = 140.0;

/// How it is looked at.
#[derive(Default)]
pub struct CardView {
    /// The live figures are a table.
    table: bool,
    /// Where each fact comes from is shown below it.
    sources: bool,
}

/// Draws it.
pub fn card_ui(state: &State, view: &mut CardView, ui: &mut Ui, out: &mut Commands) {
    match &state.machine.seen {
        Loadable::Ready(machine) => ready_ui(state, machine, view, ui, out),
        Loadable::Failed(problem) => widgets::page(ui, "The machine could not be looked at", "", |ui| {
            widgets::problem_panel(ui, "Looking at the machine failed", problem, out);
            look_again(state, ui, out);
        }),
        Loadable::Unasked | Loadable::Loading => {
            widgets::page(ui, "Looking at this machine", "", |ui| {
                widgets::loading(ui, "Reading what the kernel tells of cards, driver and memory");
            });
        }
    }
}

fn ready_ui(state: &State, machine: &Machine, view: &mut CardView, ui: &mut Ui, out: &mut Commands) {
    let wish = &state.saved.device;
    let title = words::title(machine, wish);
    let lead = words::lead(machine, wish);
    widgets::page(ui, &title, &lead, |ui| {
        next_ui(state, machine, ui, out);
        if let Err(problem) = &machine.plan {
            widgets::problem_panel(ui, "There is no plan for this device", problem, out);
        }
        if let Some(gpu) = machine.gpu() {
            widgets::panel(ui, "Right now", |ui| {
                live::live_ui(state, gpu, &mut view.table, ui);
            });
        }
        devices_ui(state, machine, ui, out);
        facts_panels(machine, view, ui, out);
        notes_ui(machine, ui);
    });
}

/// The one action, and why it is the next.
fn next_ui(state: &State, machine: &Machine, ui: &mut Ui, out: &mut Commands) {
    let next = words::next(machine);
    let chosen_is_gone = machine.plan.is_err() && state.saved.device != DeviceWish::Auto;
    let button = if chosen_is_gone {
        "Let Tunesmith choose"
    } else {
        next.button
    };
    let free = words::locked(state).is_none();
    ui.horizontal_wrapped(|ui| {
        let key = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
        let pressed = ui
            .add_enabled_ui(!chosen_is_gone || free, |ui| {
                widgets::primary_button(ui, button).clicked()
            })
            .inner;
        if pressed || (key && (!chosen_is_gone || free)) {
            if chosen_is_gone {
                out.push(Command::Device(DeviceWish::Auto));
            } else {
                out.go(next.page);
            }
        }
        ui.add(Label::new(&next.why).wrap());
        look_again(state, ui, out);
    });
    ui.add_space(2.0 * theme::GRID);
}

fn look_again(state: &State, ui: &mut Ui, out: &mut Commands) {
    if state.machine.looking {
        widgets::caption(ui, "looking again…");
    } else if widgets::link_button(ui, "Look again").clicked() {
        out.act("look again", services::look);
    }
}

fn devices_ui(state: &State, machine: &Machine, ui: &mut Ui, out: &mut Commands) {
    let locked = words::locked(state);
    widgets::panel(ui, "Devices", |ui| {
        if let Some(why) = &locked {
            widgets::verdict_line(ui, Tone::Note, why);
        }
        for (at, device) in words::devices(machine).iter().enumerate() {
            if at > 0 {
                ui.separator();
            }
            device_ui(device, locked.as_deref(), ui, out);
        }
        if state.saved.device != DeviceWish::Auto && machine.plan.is_ok() {
            ui.separator();
            ui.horizontal_wrapped(|ui| {
                let enabled = locked.is_none();
                if ui
                    .add_enabled_ui(enabled, |ui| widgets::link_button(ui, "Let Tunesmith choose"))
                    .inner
                    .clicked()
                {
                    out.push(Command::Device(DeviceWish::Auto));
                }
                widgets::caption(
                    ui,
                    "the choice above is yours and is kept, also when cards are added",
                );
            });
        }
    });
}

fn device_ui(device: &Device, locked: Option<&str>, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal(|ui| {
        ui.set_min_height(theme::ROW);
        let room = (ui.available_width() - TRAIN).max(160.0);
        ui.allocate_ui_with_layout(
            vec2(room, theme::ROW),
            Layout::left_to_right(egui::Align::Center),
            |ui| {
                ui.set_min_width(room);
                for (tone, word) in &device.badges {
                    widgets::badge(ui, *tone, word);
                }
                let colour = tokens(ui).strong_text;
                let name = RichText::new(&device.name)
                    .font(theme::strong_font())
                    .color(colour);
                ui.add(Label::new(name).truncate());
                if !device.place.is_empty() {
                    let colour = tokens(ui).weak_text;
                    ui.add(Label::new(RichText::new(&device.place).color(colour)).truncate());
                }
            },
        );
        if let Some(wish) = &device.wish {
            train_on(device, wish, locked, ui, out);
        }
    });
    widgets::caption(ui, &capitalised(&device.why));
    if let Some(mask) = &device.mask {
        ui.horizontal_wrapped(|ui| {
            widgets::caption(ui, "Programs are kept from it by");
            ui.monospace(mask);
        });
    }
}

fn train_on(device: &Device, wish: &DeviceWish, locked: Option<&str>, ui: &mut Ui, out: &mut Commands) {
    let response = ui
        .add_enabled_ui(locked.is_none(), |ui| widgets::small_button(ui, "Train on this"))
        .inner
        .on_disabled_hover_text(locked.unwrap_or_default());
    let label = match device.index {
        Some(_) => format!("Train on {} at {}", device.name, device.place),
        None => "Train on the processor".to_owned(),
    };
    response.widget_info(|| WidgetInfo::labeled(Role::Button, locked.is_none(), &label));
    if response.clicked() {
        out.push(Command::Device(wish.clone()));
    }
}

fn facts_panels(machine: &Machine, view: &mut CardView, ui: &mut Ui, out: &mut Commands) {
    let table = &machine.knowledge.cards;
    let chosen = machine.card().map(|card| card.index);
    let mut toggle = true;
    let mut panel = |ui: &mut Ui, heading: &str, facts: &[Fact], out: &mut Commands| {
        widgets::panel(ui, heading, |ui| {
            facts_ui(facts, view.sources, ui, out);
            // One switch for all of them, in the first.
            if std::mem::take(&mut toggle) {
                let text = if view.sources {
                    "Hide where each comes from"
                } else {
                    "Show where each comes from"
                };
                if widgets::link_button(ui, text).clicked() {
                    view.sources = !view.sources;
                }
            }
        });
    };
    if let Some(gpu) = machine.gpu() {
        panel(
            ui,
            "What is known of it",
            &facts::of_card(gpu, &machine.system, table),
            out,
        );
    }
    let processor = facts::of_processor(machine);
    if chosen.is_none() {
        panel(ui, "The processor", &processor, out);
    }
    let others: Vec<_> = (machine.system.gpus.iter().enumerate())
        .filter(|(index, _)| Some(*index) != chosen)
        .collect();
    let sources = view.sources;
    for (index, gpu) in others {
        let name = gpu.name.as_deref().unwrap_or("another card");
        let place = gpu.pci.as_deref().unwrap_or("without a PCI address");
        widgets::panel(ui, "", |ui| {
            ui.push_id(index, |ui| {
                widgets::fold(ui, &format!("{name}, {place}"), false, |ui| {
                    facts_ui(&facts::of_card(gpu, &machine.system, table), sources, ui, out);
                });
            });
        });
    }
    if chosen.is_some() {
        widgets::panel(ui, "", |ui| {
            widgets::fold(ui, "The processor", false, |ui| {
                facts_ui(&processor, sources, ui, out);
            });
        });
    }
}

fn facts_ui(facts: &[Fact], sources: bool, ui: &mut Ui, out: &mut Commands) {
    if ui.available_width() < TWO_COLUMNS {
        column_ui(facts, sources, ui, out);
        return;
    }
    let (left, right) = facts.split_at(facts.len().div_ceil(2));
    ui.columns(2, |columns| {
        column_ui(left, sources, &mut columns[0], out);
        column_ui(right, sources, &mut columns[1], out);
    });
}

fn column_ui(facts: &[Fact], sources: bool, ui: &mut Ui, out: &mut Commands) {
    for fact in facts {
        ui.horizontal_top(|ui| {
            ui.allocate_ui_with_layout(vec2(NAME, 0.0), Layout::left_to_right(egui::Align::Min), |ui| {
                ui.set_min_width(NAME);
                name_ui(fact.name, ui, out);
            });
            ui.vertical(|ui| {
                let value = RichText::new(&fact.value).color(tokens(ui).strong_text);
                ui.add(Label::new(value).wrap()).on_hover_text(&fact.source);
                if fact.odd {
                    widgets::badge(ui, Tone::Warn, Tone::Warn.word());
                }
                if sources {
                    let text = RichText::new(&fact.source)
                        .size(theme::SMALL)
                        .color(tokens(ui).weak_text);
                    ui.add(Label::new(text).wrap());
                }
            });
        });
        ui.add_space(0.5 * theme::GRID);
    }
}

/// A name that the glossary explains leads there.
fn name_ui(name: &'static str, ui: &mut Ui, out: &mut Commands) {
    if glossary::sentence(name).is_some() {
        widgets::term(ui, name, out);
    } else {
        widgets::caption(ui, name);
    }
}

fn notes_ui(machine: &Machine, ui: &mut Ui) {
    let notes = &machine.system.notes;
    if notes.is_empty() {
        return;
    }
    widgets::panel(ui, "", |ui| {
        widgets::fold(ui, "What could not be read, or contradicts itself", false, |ui| {
            for note in notes {
                let path = if note.path.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", note.path)
                };
                ui.add(Label::new(format!("{path}{}", note.text)).wrap());
            }
        });
    });
}
