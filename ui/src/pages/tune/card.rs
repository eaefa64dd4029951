//! The recipe as one card: what it teaches, the one start, what it will need with where each figure comes from, and what to
//! know before.

use egui::{Align2, Button, CornerRadius, FontId, Label, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use egui_extras::Column;
use tunesmith_lab::{
    estimate::{Estimate, Fit, MemoryEstimate, Part, total},
    pipeline::calibration_secs,
    recipe::{DEFAULT_MODEL, ModelSection, Recipe},
};
use tunesmith_models::hub::HubId;
use tunesmith_protocol::{Quantization, StopHow, TaskWork, Trainer};
use tunesmith_report::format::{duration, plural, size};

use super::{
    Subject, TuneView, ask_hub, composition, enter,
    fields::field,
    form::{Checked, THREADS, WHOLE},
    model_name, reading,
    start::{self, Blocked, blocked, is_scored},
    weak,
};
use crate::{
    commands::{Command, Commands},
    state::{State, Task},
    theme::{self, Tone, tokens},
    widgets,
};

pub(super) fn card_ui(
    state: &State,
    subject: &Subject<'_>,
    checked: &Checked,
    view: &mut TuneView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let shown = view.form.with_choices(&subject.recipe);
    let recipe = checked.recipe.as_ref().unwrap_or(&shown);
    let estimate = state.pages.tune.estimate.last();
    let model = ModelFacts::of(state, subject, &recipe.model);
    widgets::panel(ui, "", |ui| {
        head_ui(subject, recipe, checked, view, ui);
        ui.add_space(theme::GRID);
        start_ui(state, subject, checked, &model, ui, out);
        ui.add_space(theme::GRID);
        ui.separator();
        match estimate {
            None => widgets::loading(ui, "Working out what it needs"),
            Some(Ok(estimate)) => {
                if !state.pages.tune.estimate.is_answered() || checked.recipe.is_none() {
                    widgets::caption(
                        ui,
                        "These figures are those of the settings before the last change",
                    );
                }
                figures_ui(estimate, ui);
                memory_ui(&estimate.memory, ui);
                advice_ui(state, view, ui);
                composition::composition_ui(estimate, &mut view.composition, ui);
                sources_ui(estimate, ui);
            }
            Some(Err(problem)) => widgets::problem_panel(ui, "What it needs cannot be told", problem, out),
        }
        ui.separator();
        for (tone, text) in notices(state, subject, recipe, &model) {
            widgets::verdict_line(ui, tone, &text);
        }
    });
}

/// Which settings would suit better, with why; they are taken by a click, never by themselves.
fn advice_ui(state: &State, view: &mut TuneView, ui: &mut Ui) {
    let Some(advice) = state.pages.tune.advice.ready() else {
        return;
    };
    let tone = match &advice.choice {
        Some(_) if advice.as_it_is => Tone::Ok,
        Some(_) => Tone::Note,
        None => Tone::Unknown,
    };
    widgets::verdict_line(ui, tone, &format!("Advice: {}", advice.reason));
    let settings = advice.choice.iter().flat_map(|choice| &choice.settings);
    let settings: Vec<(&str, &str)> = settings.filter_map(|setting| setting.split_once('=')).collect();
    if !settings.is_empty() && ui.button("Take these settings").clicked() {
        for (key, text) in settings {
            view.form.set(key, text.to_owned());
        }
    }
}

fn head_ui(subject: &Subject<'_>, recipe: &Recipe, checked: &Checked, view: &TuneView, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        let title = if recipe.title.is_empty() {
            &recipe.name
        } else {
            &recipe.title
        };
        widgets::subheading(ui, title);
        if !checked.changed.is_empty() || view.form.model.is_some() {
            widgets::badge(ui, Tone::Note, "changed by you");
        } else if subject.recommended {
            widgets::badge(ui, Tone::Ok, "recommended here");
        } else if matches!(view.form.origin, super::Origin::File(_)) {
            widgets::badge(ui, Tone::Note, "your recipe");
        }
    });
    if !recipe.description.is_empty() {
        widgets::caption(ui, &recipe.description);
    }
    let train = &recipe.train;
    let data = match &recipe.data.path {
        Some(path) => super::file_name(path),
        None => "text-to-SQL, which comes with the program".to_owned(),
    };
    let batch = train.micro_batch * train.accumulation;
    let line = format!(
        "Model {} · data {data} · {} of {} · LoRA of rank {}",
        model_name(&recipe.model),
        plural(train.steps, "step"),
        plural(batch as u64, "row"),
        recipe.lora.rank
    );
    ui.add(Label::new(line).wrap());
}

/// The model of a recipe, as far as this machine knows it.
pub(super) struct ModelFacts {
    pub(super) name: String,
    /// Bytes to fetch first; 0 where it is here, none where nobody knows yet.
    pub(super) fetch_bytes: Option<u64>,
    /// Its licence, with where that is written.
    pub(super) licence: Option<(String, String)>,
    /// The makers want to know who takes it.
    pub(super) gated: bool,
    /// The id of a hub, where it comes from one.
    pub(super) hub_id: Option<String>,
}

impl ModelFacts {
    pub(super) fn of(state: &State, subject: &Subject<'_>, model: &ModelSection) -> Self {
        let tune = &state.pages.tune;
        let source = model.source.as_deref().filter(|_| model.path.is_none());
        let hub_id = source
            .filter(|source| *source != DEFAULT_MODEL)
            .map(str::to_owned);
        let asked = hub_id
            .as_ref()
            .filter(|id| tune.hub.asks(id))
            .and_then(|_| tune.hub.ready());
        let here = tune.around().and_then(|around| {
            let same = |name: &str| source.is_some_and(|source| same_model(name, source));
            around
                .models
                .iter()
                .find(|model| model.missing.is_empty() && same(&model.source))
        });
        let row = source.and_then(|source| {
            let rows = &subject.machine.knowledge.recipes;
            rows.iter().find(|row| same_model(&row.model_source, source))
        });
        let estimated = tune.estimate.ready().and_then(|estimate| {
            let part = estimate.download.iter().find(|part| part.what == "model");
            part.and_then(|part| part.bytes)
        });
        let listed = here.and_then(|model| model.licence.as_ref());
        Self {
            name: model_name(model),
            fetch_bytes: match (model.path.is_some() || here.is_some(), asked) {
                (true, _) => Some(0),
                (false, Some(plan)) => Some(plan.fetch_bytes),
                (false, None) => estimated,
            },
            licence: listed
                .map(|licence| (licence.name.clone(), licence.from.to_owned()))
                .or_else(|| {
                    let told = asked?.licence.clone()?;
                    Some((told, "the model hub".to_owned()))
                })
                .or_else(|| Some((row?.license.to_string(), "the catalogue of recipes".to_owned()))),
            gated: asked.is_some_and(|plan| plan.gated),
            hub_id,
        }
    }
}

/// Whether two sources name the same model, whatever the revision of one that names none.
fn same_model(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (one.parse::<HubId>(), other.parse::<HubId>()) {
        (Ok(one), Ok(other)) => {
            one.name() == other.name() && (one.revision() == other.revision() || !other.is_pinned())
        }
        _ => false,
    }
}

/// The one start, and what keeps it from being one.
fn start_ui(
    state: &State,
    subject: &Subject<'_>,
    checked: &Checked,
    model: &ModelFacts,
    ui: &mut Ui,
    out: &mut Commands,
) {
    if let Some(task) = state.tasks.running().filter(|task| is_fetch(task)) {
        fetching_ui(task, ui, out);
        return;
    }
    let mut reasons = blocked(state, checked);
    let unknown = model.fetch_bytes.is_none() && state.pages.tune.estimate.is_answered();
    if unknown && model.hub_id.is_some() {
        reasons.push(Blocked {
            why: format!("how large {} is has not been asked yet", model.name),
            page: None,
        });
    }
    let estimate = state.pages.tune.estimate.ready();
    let fit = estimate.map(|estimate| estimate.memory.fit);
    let fits = fit != Some(Fit::DoesNotFit);
    let text = match (model.fetch_bytes, fits) {
        (Some(bytes), true) if bytes > 0 => format!("Download {} and start", size(bytes)),
        (Some(bytes), false) if bytes > 0 => format!("Download {} and start all the same", size(bytes)),
        (_, false) => "Start all the same".to_owned(),
        _ => "Start fine-tuning".to_owned(),
    };
    let free = reasons.is_empty() && checked.recipe.is_some();
    ui.horizontal_wrapped(|ui| {
        let response = ui
            .add_enabled_ui(free, |ui| {
                // What will most likely run out of memory is possible and not advised.
                if fits {
                    widgets::primary_button(ui, &text)
                } else {
                    ui.button(&text)
                }
            })
            .inner
            .on_hover_text("Ctrl-Enter");
        if free
            && (response.clicked() || enter(ui))
            && let Some(recipe) = &checked.recipe
        {
            begin(recipe, checked, model, out);
        }
        ui.label(weak(ui, "Ctrl-Enter"));
        if unknown && let Some(id) = &model.hub_id {
            ask_ui(state, id, ui, out);
        }
    });
    for reason in &reasons {
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
    if let Some(error) = checked.errors.get(WHOLE) {
        widgets::verdict_line(ui, Tone::Stop, &error.message);
    }
    for key in checked.errors.keys() {
        if let Some(field) = field(key) {
            widgets::caption(ui, &format!("→ {}: {}", field.name, checked.errors[key].message));
        }
    }
    if let Some(error) = checked.errors.get(THREADS) {
        widgets::caption(ui, &format!("→ Threads: {}", error.message));
    }
    if checked.trainer == Trainer::Hf {
        widgets::caption(
            ui,
            "transformers and PEFT train, for comparison; Tunesmith's own engine calibrates and answers",
        );
    }
    if free {
        before_ui(state, subject, checked, ui);
    }
}

/// Starts the training, after its download where there is one.
fn begin(recipe: &Recipe, checked: &Checked, model: &ModelFacts, out: &mut Commands) {
    let work = match start::task(recipe, checked) {
        Ok(work) => work,
        Err(problem) => {
            out.change("say", move |state| state.say_stop(problem.message));
            return;
        }
    };
    if model.fetch_bytes == Some(0) {
        out.start(work);
        out.go(crate::state::Page::Live);
        return;
    }
    let source = recipe
        .model
        .source
        .clone()
        .unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    out.start(TaskWork::Fetch { model: source });
    out.change("start_after_fetch", move |state| {
        if let Some(task) = state.tasks.running().filter(|task| is_fetch(task)) {
            state.pages.tune.after_fetch = Some((task.id, work));
        }
    });
}

fn is_fetch(task: &Task) -> bool {
    matches!(task.work, TaskWork::Fetch { .. })
}

/// The download that a training waits for.
fn fetching_ui(task: &Task, ui: &mut Ui, out: &mut Commands) {
    widgets::subheading(ui, "Downloading the model; the training starts after it");
    let share = task.share();
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
    widgets::progress_bar(ui, share, &words);
    if ui.button("Stop the download").clicked() {
        out.push(Command::Stop(StopHow::Now));
    }
    widgets::caption(
        ui,
        "What has arrived is kept, and a second download goes on from there",
    );
}

/// A hub's answer has to be asked for: nothing goes over the network unasked.
fn ask_ui(state: &State, id: &str, ui: &mut Ui, out: &mut Commands) {
    let hub = &state.pages.tune.hub;
    let id = id.to_owned();
    match hub.last() {
        _ if hub.asks(&id) && hub.current().is_none() => widgets::loading(ui, "Asking the model hub"),
        Some(Err(problem)) if hub.asks(&id) => {
            widgets::verdict_line(ui, Tone::Stop, &problem.message);
            for hint in &problem.hints {
                widgets::caption(ui, &format!("→ {hint}"));
            }
        }
        _ => {}
    }
    let waiting = hub.asks(&id) && hub.current().is_none();
    let button = ui
        .add_enabled(!waiting, Button::new("Ask the model hub…"))
        .on_hover_text(
            "Goes over the network: asks the hub for the model's files, their size and its licence",
        );
    if button.clicked() {
        out.act("ask_hub", move |state| {
            let hub = &mut state.pages.tune.hub;
            hub.forget();
            hub.ask(id);
            hub.begin().map(|id| ask_hub(&id))
        });
    }
}

/// What comes before the training by itself.
fn before_ui(state: &State, subject: &Subject<'_>, checked: &Checked, ui: &mut Ui) {
    let (Some(around), Some(recipe)) = (state.pages.tune.around(), &checked.recipe) else {
        return;
    };
    let device = reading::device_word(&state.saved.device, recipe);
    let trains = reading::trains_on(recipe, device.as_deref(), subject.machine);
    if !around.calibrations.contains_key(trains) {
        let what = if trains == "cpu" {
            "The processor"
        } else {
            "The card"
        };
        let text = format!(
            "{what} has not been measured yet: that comes first, and takes about {:.0} s",
            calibration_secs(trains, subject.machine.gpu().and_then(|card| card.vendor), false)
        );
        widgets::verdict_line(ui, Tone::Note, &text);
    }
}

fn fit_badge(ui: &mut Ui, fit: Fit) {
    let (tone, word) = fit_words(fit);
    widgets::badge(ui, tone, word);
}

/// A verdict on memory as a tone and a word.
pub(crate) fn fit_words(fit: Fit) -> (Tone, &'static str) {
    match fit {
        Fit::Fits => (Tone::Ok, "fits"),
        Fit::Uncertain => (Tone::Warn, "uncertain"),
        Fit::DoesNotFit => (Tone::Stop, "does not fit"),
        Fit::Unknown => (Tone::Unknown, "unknown"),
    }
}

/// The four figures.
fn figures_ui(estimate: &Estimate, ui: &mut Ui) {
    if let Some(wrong) = &estimate.refused {
        let text = format!("It would be refused, since this device computes wrong values here: {wrong}");
        widgets::verdict_line(ui, Tone::Stop, &text);
    }
    let tiles: [&dyn Fn(&mut Ui); 4] = [
        &|ui| memory_tile(&estimate.memory, ui),
        &|ui| time_tile(estimate, ui),
        &|ui| parts_tile("Download", "nothing", &estimate.download, ui),
        &|ui| parts_tile("Disk", "nothing", &estimate.disk, ui),
    ];
    widgets::tiles(ui, &tiles);
}

fn memory_tile(memory: &MemoryEstimate, ui: &mut Ui) {
    let value = memory.bytes.map_or_else(|| "unknown".to_owned(), size);
    let below = match memory.limit {
        Some(limit) => format!("of {}, give or take {:.0} %", size(limit), 100.0 * memory.margin),
        None => memory.limit_how.clone(),
    };
    widgets::tile(ui, "Memory", &value, &below, &memory.reason);
    fit_badge(ui, memory.fit);
}

fn time_tile(estimate: &Estimate, ui: &mut Ui) {
    let time = &estimate.time;
    let value = match time.train_secs {
        Some(secs) if time.at_most => format!("≤ {}", duration(secs)),
        Some(secs) => duration(secs),
        None => "unknown".to_owned(),
    };
    let below = match (time.train_secs, time.evaluate_secs) {
        (None, _) => time.how.trim_start_matches("unknown ").to_owned(),
        (_, Some(secs)) if secs > 0.0 => format!("and {} for the test questions", duration(secs)),
        (_, Some(_)) => "nothing is scored".to_owned(),
        (_, None) => "and the test questions, whose time no earlier run tells".to_owned(),
    };
    widgets::tile(ui, "Time", &value, &below, &time.how);
    if time.time_boxed {
        widgets::badge(ui, Tone::Warn, "longer than its time box");
    }
}

fn parts_tile(name: &str, none: &str, parts: &[Part], ui: &mut Ui) {
    let known: u64 = parts.iter().filter_map(|part| part.bytes).sum();
    let value = match total(parts) {
        Some(0) => none.to_owned(),
        Some(bytes) => size(bytes),
        None if known > 0 => format!("≥ {}", size(known)),
        None => "unknown".to_owned(),
    };
    let told: Vec<String> = parts
        .iter()
        .filter(|part| part.bytes != Some(0))
        .map(|part| {
            let bytes = part.bytes.map_or_else(|| "unknown".to_owned(), size);
            format!("{} {bytes}", part.what)
        })
        .collect();
    let below = if told.is_empty() {
        "everything is here".to_owned()
    } else {
        told.join(" · ")
    };
    let how: Vec<String> = parts
        .iter()
        .map(|part| format!("{}: {}", part.what, part.how))
        .collect();
    widgets::tile(ui, name, &value, &below, &how.join("\n"));
}

/// Memory part by part against the limit.
fn memory_ui(memory: &MemoryEstimate, ui: &mut Ui) {
    let parts: Vec<(&Part, u64)> = memory
        .parts
        .iter()
        .filter_map(|part| Some((part, part.bytes?)))
        .collect();
    if !parts.is_empty() {
        bar_ui(memory, &parts, ui);
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing = vec2(theme::GRID, 0.0);
            ui.spacing_mut().interact_size.y = 5.0 * theme::GRID;
            for (index, (part, bytes)) in parts.iter().enumerate() {
                let (rect, _) = ui.allocate_exact_size(vec2(10.0, 10.0), Sense::hover());
                let colour = tokens(ui).series(index);
                ui.painter().rect_filled(rect, CornerRadius::same(2), colour);
                let text = weak(ui, &format!("{} {}", part.what, size(*bytes)));
                ui.label(text).on_hover_text(&part.how);
                ui.add_space(2.0 * theme::GRID);
            }
        });
    }
    let mut sentence = memory.reason.clone();
    if let Some(correction) = memory.correction {
        sentence.push_str(&format!(
            "; {} held {:.2} times what the formula says",
            plural(correction.runs as u64, "earlier run"),
            correction.ratio
        ));
    }
    widgets::caption(ui, &sentence);
}

fn bar_ui(memory: &MemoryEstimate, parts: &[(&Part, u64)], ui: &mut Ui) {
    let tokens = tokens(ui);
    let sum: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let high = memory.bytes.unwrap_or(sum) as f64 * (1.0 + memory.margin);
    let whole = memory
        .limit
        .map_or(high, |limit| high.max(limit as f64))
        .max(sum as f64)
        * 1.02;
    let (label_height, bar_height) = (4.5 * theme::GRID, 5.0 * theme::GRID);
    let size_wanted = vec2(
        ui.available_width(),
        label_height + bar_height + 2.0 * theme::GRID,
    );
    let (rect, response) = ui.allocate_exact_size(size_wanted, Sense::hover());
    let bar = Rect::from_min_size(rect.min + vec2(0.0, label_height), vec2(rect.width(), bar_height));
    let at = |bytes: f64| bar.left() + (bytes / whole) as f32 * bar.width();
    let painter = ui.painter();
    painter.rect_filled(bar, CornerRadius::same(4), tokens.faint);
    let mut from = 0.0;
    let mut words = Vec::new();
    let pointer = response.hover_pos();
    let mut hovered = None;
    for (index, (part, bytes)) in parts.iter().enumerate() {
        let to = from + *bytes as f64;
        let piece = Rect::from_min_max(pos2(at(from), bar.top()), pos2(at(to), bar.bottom()));
        // A line between two pieces tells them apart where their colours do not.
        painter.rect_filled(
            piece.shrink2(vec2(0.5, 0.0)),
            CornerRadius::ZERO,
            tokens.series(index),
        );
        words.push(format!("{} {}", part.what, size(*bytes)));
        if pointer.is_some_and(|pointer| piece.contains(pointer)) {
            hovered = Some(format!("{} {}: {}", part.what, size(*bytes), part.how));
        }
        from = to;
    }
    if let Some(bytes) = memory.bytes {
        // How far the prediction may be wrong.
        let (low, high) = (at(bytes as f64 * (1.0 - memory.margin)), at(high));
        let y = bar.bottom() + theme::GRID;
        let stroke = Stroke::new(1.5, tokens.weak_text);
        painter.line_segment([pos2(low, y), pos2(high, y)], stroke);
        for x in [low, high] {
            painter.line_segment([pos2(x, y - 3.0), pos2(x, y + 3.0)], stroke);
        }
    }
    if let Some(limit) = memory.limit {
        let x = at(limit as f64);
        painter.line_segment(
            [pos2(x, bar.top() - 3.0), pos2(x, bar.bottom() + 3.0)],
            Stroke::new(2.0, tokens.strong_text),
        );
        let side = if x > bar.center().x {
            Align2::RIGHT_BOTTOM
        } else {
            Align2::LEFT_BOTTOM
        };
        painter.text(
            pos2(x, bar.top() - 3.0),
            side,
            format!("may be used: {}", size(limit)),
            FontId::proportional(theme::SMALL),
            tokens.text,
        );
        words.push(format!("{} may be used", size(limit)));
    }
    let summary = format!("Memory: {}", words.join(", "));
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Label, true, &summary));
    if let Some(text) = hovered {
        response.on_hover_text_at_pointer(text);
    } else {
        response.on_hover_text_at_pointer(&memory.limit_how);
    }
}

/// Every figure with where it comes from.
fn sources_ui(estimate: &Estimate, ui: &mut Ui) {
    widgets::fold(ui, "Where these figures come from", false, |ui| {
        let memory = &estimate.memory;
        let time = &estimate.time;
        let secs = |secs: Option<f64>| secs.map_or_else(|| "unknown".to_owned(), duration);
        let mut rows: Vec<(String, String, String)> = Vec::new();
        let of = |name: &str, part: &Part| {
            let bytes = part.bytes.map_or_else(|| "unknown".to_owned(), size);
            (format!("{name}: {}", part.what), bytes, part.how.clone())
        };
        rows.extend(memory.parts.iter().map(|part| of("Memory", part)));
        rows.push((
            "Memory: may be used".to_owned(),
            memory.limit.map_or_else(|| "unknown".to_owned(), size),
            memory.limit_how.clone(),
        ));
        rows.push((
            "Time: training".to_owned(),
            secs(time.train_secs),
            time.how.clone(),
        ));
        rows.push((
            "Time: test questions".to_owned(),
            secs(time.evaluate_secs),
            "earlier runs that asked as many".to_owned(),
        ));
        rows.extend(estimate.download.iter().map(|part| of("Download", part)));
        rows.extend(estimate.disk.iter().map(|part| of("Disk", part)));
        ui.spacing_mut().item_spacing.y = 0.0;
        widgets::table(ui, "sources")
            .vscroll(false)
            .column(Column::exact(240.0))
            .column(Column::exact(100.0))
            .column(Column::remainder().clip(true))
            .body(|mut body| {
                for (name, value, how) in &rows {
                    body.row(theme::ROW, |mut row| {
                        row.col(|ui| _ = ui.add(Label::new(name).truncate()));
                        row.col(|ui| {
                            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                                ui.label(value);
                            });
                        });
                        row.col(|ui| _ = ui.add(Label::new(weak(ui, how)).truncate()));
                    });
                }
            });
    });
}

/// What to know before.
fn notices(state: &State, subject: &Subject<'_>, recipe: &Recipe, model: &ModelFacts) -> Vec<(Tone, String)> {
    let mut found = Vec::new();
    match model.fetch_bytes {
        Some(0) => found.push((
            Tone::Ok,
            "Nothing goes over the network: the model is here".to_owned(),
        )),
        Some(bytes) => found.push((
            Tone::Note,
            format!("{} of {} are downloaded first", size(bytes), model.name),
        )),
        None => {}
    }
    match &model.licence {
        Some((name, from)) => found.push((Tone::Note, format!("The model's licence is {name}, says {from}"))),
        None if recipe.model.path.is_some() => {}
        None => found.push((
            Tone::Unknown,
            "The model's licence is not known here; read it before you share what you train".to_owned(),
        )),
    }
    if model.gated {
        found.push((
            Tone::Warn,
            "The model's makers want to know who takes it: accept their terms on its page, and set HF_TOKEN"
                .to_owned(),
        ));
    }
    if let Ok(plan) = &subject.machine.plan {
        let precision = &plan.precision;
        let base = match recipe.model.quantization {
            Quantization::None => "nothing in 4 bits",
            Quantization::Nf4 => "on a base in 4 bits",
        };
        found.push((
            Tone::Note,
            format!(
                "{} arithmetic, {base}: {}",
                precision.dtype.name(),
                precision.dtype_reason
            ),
        ));
        found.extend(precision.notes.iter().map(|note| (Tone::Note, note.clone())));
        found.extend(plan.warnings.iter().map(|warning| (Tone::Warn, warning.clone())));
    }
    if let Some(offer) = subject.offer.filter(|offer| !offer.unverified.is_empty()) {
        found.push((
            Tone::Unknown,
            format!(
                "Nobody has measured yet whether these suit the model: {}",
                offer.unverified.join(", ").replace('_', " ")
            ),
        ));
    }
    if !is_scored(recipe) {
        let text = if recipe.data.path.is_some() {
            "Your data is not scored before and after: only text-to-SQL has answers that can be checked"
        } else {
            "Nothing is scored before and after: the test questions are turned off"
        };
        found.push((Tone::Note, text.to_owned()));
    }
    if let Some(estimate) = state.pages.tune.estimate.ready()
        && estimate.time.time_boxed
    {
        found.push((
            Tone::Warn,
            format!(
                "It takes longer than its time box of {}: it stops then, and what it has learned is kept",
                duration(recipe.train.time_box_minutes * 60.0)
            ),
        ));
    }
    found
}
