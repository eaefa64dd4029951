//! What stands around every page: the rail, the strip with the card and the task at hand, messages, the question before
//! closing, and the keys that work everywhere.

use egui::{
    Align, Align2, Area, Button, CentralPanel, Color32, CornerRadius, FontId, Frame, Id, Key, Label, Layout,
    Margin, Modifiers, Order, Panel, Rect, RichText, Role, ScrollArea, Sense, Stroke, StrokeKind, Ui,
    WidgetInfo, pos2, vec2,
};
use tunesmith_protocol::StopHow;
use tunesmith_report::format::{duration, size};

use crate::{
    commands::{Command, Commands},
    pages::{self, Views},
    state::{Page, State, Task},
    theme::{self, Tokens, Tone, tokens},
    widgets,
};

/// Narrower than this, the rail shows icons alone.
const NARROW: f32 = 900.0;
const RAIL: f32 = 168.0;
const NARROW_RAIL: f32 = 56.0;
const STRIP: f32 = 48.0;

/// Highest and lowest button of the rail: where there is little room, all pages stay in sight.
const RAIL_BUTTON: std::ops::RangeInclusive<f32> = 22.0..=36.0;
/// Between two of them.
const RAIL_GAP: f32 = 2.0;

/// The keys of Ctrl-1 to Ctrl-9 and Ctrl-0, in the order of the rail; the page after them has F1.
const PAGE_KEYS: [Key; 10] = [
    Key::Num1,
    Key::Num2,
    Key::Num3,
    Key::Num4,
    Key::Num5,
    Key::Num6,
    Key::Num7,
    Key::Num8,
    Key::Num9,
    Key::Num0,
];

/// The keys that work on every page.
pub(super) fn keys(ui: &Ui, state: &State, out: &mut Commands) {
    let zoom = state.saved.zoom;
    ui.input_mut(|input| {
        for (key, page) in PAGE_KEYS.into_iter().zip(Page::RAIL) {
            if input.consume_key(Modifiers::COMMAND, key) {
                out.go(page);
            }
        }
        if input.consume_key(Modifiers::NONE, Key::F1) {
            out.go(Page::Glossary);
        }
        if input.consume_key(Modifiers::COMMAND, Key::Plus)
            || input.consume_key(Modifiers::COMMAND, Key::Equals)
        {
            out.push(Command::Zoom(zoom + 0.1));
        }
        if input.consume_key(Modifiers::COMMAND, Key::Minus) {
            out.push(Command::Zoom(zoom - 0.1));
        }
        if state.asks_to_close && input.consume_key(Modifiers::NONE, Key::Escape) {
            out.change("stay", |state| state.asks_to_close = false);
        }
    });
}

/// Everything.
pub(super) fn shell_ui(state: &State, views: &mut Views, ui: &mut Ui, out: &mut Commands) {
    let tokens = tokens(ui);
    let width = ui.available_width();
    let (rail, narrow) = if width < NARROW {
        (NARROW_RAIL, true)
    } else {
        (RAIL, false)
    };
    let bar = Frame::new().fill(tokens.frame);
    Panel::left("rail")
        .exact_size(rail)
        .resizable(false)
        .frame(bar.inner_margin(Margin::symmetric(8, 12)))
        .show(ui, |ui| rail_ui(state, narrow, ui, out));
    Panel::top("strip")
        .exact_size(STRIP)
        .resizable(false)
        .frame(bar.inner_margin(Margin::symmetric(16, 0)))
        .show(ui, |ui| strip_ui(state, ui, out));
    if state.asks_to_close {
        Panel::top("question")
            .resizable(false)
            .frame(
                Frame::new()
                    .fill(tokens.tone(Tone::Warn).fill)
                    .inner_margin(Margin::symmetric(16, 8)),
            )
            .show(ui, |ui| closing_ui(state, ui, out));
    }
    CentralPanel::default()
        .frame(Frame::new().fill(tokens.ground))
        .show(ui, |ui| pages::page_ui(state, views, ui, out));
    toasts_ui(state, ui);
}

fn rail_ui(state: &State, narrow: bool, ui: &mut Ui, out: &mut Commands) {
    ui.spacing_mut().item_spacing.y = RAIL_GAP;
    if narrow {
        ui.add_space(theme::GRID);
    } else {
        ui.horizontal(|ui| {
            ui.add_space(2.0 * theme::GRID);
            let colour = tokens(ui).strong_text;
            ui.label(
                RichText::new("Tunesmith")
                    .font(theme::heading_font())
                    .color(colour),
            );
        });
        ui.add_space(2.0 * theme::GRID);
    }
    let room = ui.available_height() / Page::RAIL.len() as f32 - RAIL_GAP;
    let height = room.clamp(*RAIL_BUTTON.start(), *RAIL_BUTTON.end());
    ScrollArea::vertical().id_salt("rail").show(ui, |ui| {
        for (index, page) in Page::RAIL.into_iter().enumerate() {
            if rail_button(state, page, index, height, narrow, ui) {
                out.go(page);
            }
        }
    });
}

/// The keys that show a page of the rail, in words.
fn key_words(index: usize) -> String {
    match index {
        0..=8 => format!("Ctrl-{}", index + 1),
        9 => "Ctrl-0".to_owned(),
        _ => "F1".to_owned(),
    }
}

fn rail_button(state: &State, page: Page, index: usize, height: f32, narrow: bool, ui: &mut Ui) -> bool {
    let tokens = tokens(ui);
    let size = vec2(ui.available_width(), height);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    let selected = state.page.in_rail() == page;
    let text = if selected || response.hovered() {
        tokens.strong_text
    } else {
        tokens.text
    };
    let painter = ui.painter();
    let corner = CornerRadius::same(theme::SMALL_CORNER);
    if selected {
        painter.rect_filled(rect, corner, tokens.control);
        let bar = Rect::from_min_max(
            rect.left_top() + vec2(0.0, 8.0),
            pos2(rect.left() + 3.0, rect.bottom() - 8.0),
        );
        painter.rect_filled(bar, CornerRadius::same(2), tokens.accent);
    } else if response.hovered() {
        painter.rect_filled(rect, corner, tokens.faint);
    }
    if response.has_focus() {
        painter.rect_stroke(rect, corner, Stroke::new(1.5, tokens.accent), StrokeKind::Inside);
    }
    let side = (height - 8.0).clamp(14.0, 18.0);
    let left = if narrow {
        rect.center().x - side / 2.0
    } else {
        rect.left() + 12.0
    };
    let place = Rect::from_min_size(pos2(left, rect.center().y - side / 2.0), vec2(side, side));
    widgets::icon(painter, place, page, if selected { tokens.accent } else { text });
    if !narrow {
        let at = pos2(place.right() + 10.0, rect.center().y);
        painter.text(
            at,
            Align2::LEFT_CENTER,
            page.title(),
            FontId::proportional(theme::BODY),
            text,
        );
    }
    if let Some(colour) = dot(state, page, tokens) {
        painter.circle_filled(pos2(rect.right() - 10.0, rect.center().y), 3.5, colour);
    }
    response.widget_info(|| WidgetInfo::selected(Role::Tab, true, selected, page.title()));
    let clicked = response.clicked();
    response.on_hover_text(format!("{} ({})", page.title(), key_words(index)));
    clicked
}

/// A page where something waits or goes on; the page says what.
fn dot(state: &State, page: Page, tokens: &Tokens) -> Option<Color32> {
    let machine = state.machine.get();
    match page {
        Page::Live => state
            .tasks
            .running()
            .filter(|task| task.trains() || task.experiment.is_some())
            .map(|_| tokens.accent),
        Page::Compare => state
            .tasks
            .running()
            .filter(|task| task.experiment.is_some())
            .map(|_| tokens.accent),
        Page::Setup => machine
            .filter(|machine| machine.diagnosis.verdict == tunesmith_setup::doctor::Verdict::Blocked)
            .map(|_| tokens.tone(Tone::Stop).text),
        _ => None,
    }
}

fn strip_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal_centered(|ui| {
        device_ui(state, ui);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if let Some(task) = state.tasks.running() {
                task_ui(state, task, ui, out);
            }
        });
    });
}

/// The device that trains, its memory and its temperature.
fn device_ui(state: &State, ui: &mut Ui) {
    let tokens = tokens(ui);
    let Some(machine) = state.machine.get() else {
        let text = match &state.machine.seen {
            crate::state::Loadable::Failed(problem) => problem.message.clone(),
            _ => "looking at the machine…".to_owned(),
        };
        ui.add(Label::new(RichText::new(text).color(tokens.weak_text)).truncate());
        return;
    };
    let room = (ui.available_width() * 0.4).min(320.0);
    ui.scope(|ui| {
        ui.set_max_width(room);
        let name = RichText::new(machine.device_name())
            .font(theme::strong_font())
            .color(tokens.strong_text);
        ui.add(Label::new(name).truncate());
    });
    let sample = machine
        .gpu()
        .and_then(|gpu| state.telemetry.latest(gpu.pci.as_deref()?));
    let used = sample.and_then(|sample| sample.vram_used_bytes);
    let whole = machine.card().and_then(|card| card.trainable_bytes);
    let memory = match (used, whole) {
        (Some(used), Some(whole)) => Some(format!("{} of {}", size(used), size(whole))),
        (None, Some(whole)) => Some(size(whole)),
        _ if machine.card().is_none() => machine.system.machine.usable_memory_bytes().map(size),
        _ => None,
    };
    if let Some(memory) = memory {
        ui.label(RichText::new(memory).color(tokens.weak_text));
    }
    let celsius = sample.and_then(|sample| sample.junction_celsius.or(sample.edge_celsius));
    if let Some(celsius) = celsius {
        ui.label(RichText::new(format!("{celsius:.0} °C")).color(tokens.weak_text));
    }
}

/// The task at hand; a click shows its page.
fn task_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    let tokens = tokens(ui);
    let state_words = match (&task.stopping, &task.waits_for) {
        (Some(_), _) => "stopping…".to_owned(),
        (None, Some(_)) => "another job has it".to_owned(),
        (None, None) => left_words(state, task),
    };
    let what = match &task.experiment {
        Some(so_far) => format!("run {} of {}", so_far.slot + 1, so_far.slots),
        None => task.stage_title.to_string(),
    };
    let text = format!("{} · {what} · {state_words}", task.name());
    let (rect, response) = ui.allocate_exact_size(vec2(80.0, 6.0), Sense::hover());
    let corner = CornerRadius::same(3);
    ui.painter().rect_filled(rect, corner, tokens.line);
    if let Some(share) = task.whole_share() {
        let mut done = rect;
        done.set_width(rect.width() * share);
        ui.painter().rect_filled(done, corner, tokens.accent);
    }
    response.widget_info(|| WidgetInfo::labeled(Role::ProgressIndicator, true, &text));
    let button = Button::new(RichText::new(&text).color(tokens.text))
        .frame(false)
        .truncate();
    let shown = ui.add(button).on_hover_text(format!(
        "{text}, since {}",
        duration(task.elapsed_secs(state.now_secs))
    ));
    if shown.clicked() {
        out.go(page_of(task));
    }
}

/// How long a task still takes.
fn left_words(state: &State, task: &Task) -> String {
    let done = task
        .progress
        .as_ref()
        .is_some_and(|progress| progress.total > 0 && progress.done >= progress.total);
    match task.secs_left(state.now_secs) {
        _ if done && task.experiment.is_none() => "nearly done".to_owned(),
        Some(secs) => format!("{} left", widgets::whole_secs(secs)),
        None => "estimating…".to_owned(),
    }
}

/// The page that shows a task.
pub(super) fn page_of(task: &Task) -> Page {
    use tunesmith_protocol::TaskWork;
    match &task.work {
        TaskWork::Calibrate { .. } => Page::Calibrate,
        TaskWork::Train { .. } | TaskWork::Resume { .. } => Page::Live,
        TaskWork::Experiment { .. } => Page::Compare,
        TaskWork::Fetch { .. } => Page::Tune,
        TaskWork::Answer { .. } => Page::TryIt,
        TaskWork::Setup { .. } => Page::Setup,
        TaskWork::Report { .. } => Page::Report,
    }
}

fn closing_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal_wrapped(|ui| {
        let what = state.tasks.running().map_or("A task", Task::name);
        widgets::badge(ui, Tone::Warn, Tone::Warn.word());
        // The installed app's window takes nothing along; here the whole app is asked to leave.
        let (ends_with, leave) = if state.hosted {
            ("Tunesmith", "quit")
        } else {
            ("this window", "close")
        };
        ui.label(format!("{what} is under way and ends with {ends_with}"));
        let trains = state.tasks.running().is_some_and(Task::trains);
        if trains && ui.button(format!("Stop, save and {leave}")).clicked() {
            out.push(Command::Stop(StopHow::Save));
            out.push(Command::Quit);
        }
        if ui.button(format!("Stop now and {leave}")).clicked() {
            out.push(Command::Stop(StopHow::Now));
            out.push(Command::Quit);
        }
        if ui.button("Stay").clicked() {
            out.change("stay", |state| state.asks_to_close = false);
        }
    });
}

fn toasts_ui(state: &State, ui: &Ui) {
    if state.toasts.is_empty() {
        return;
    }
    let tokens = tokens(ui);
    Area::new(Id::unique("toasts"))
        .order(Order::Foreground)
        .anchor(Align2::RIGHT_BOTTOM, vec2(-16.0, -16.0))
        .interactable(false)
        .show(ui.ctx(), |ui| {
            for toast in state.toasts.iter().rev().take(3) {
                Frame::new()
                    .fill(tokens.panel)
                    .stroke(Stroke::new(1.0, tokens.tone(toast.tone).text))
                    .corner_radius(CornerRadius::same(theme::CORNER))
                    .inner_margin(Margin::symmetric(12, 8))
                    .show(ui, |ui| {
                        ui.set_max_width(420.0);
                        ui.horizontal_wrapped(|ui| {
                            widgets::badge(ui, toast.tone, toast.tone.word());
                            ui.label(toast.text.as_ref());
                        });
                    });
                ui.add_space(theme::GRID);
            }
        });
}
