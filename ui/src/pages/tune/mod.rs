//! Fine-tune: the recommended recipe with what it will need and one big start; other recipes, other data, another model and
//! every setting below it.

mod advanced;
mod card;
mod composition;
mod data_panel;
mod fields;
mod form;
mod latest;
mod model_panel;
mod reading;
mod recipes;
mod start;
mod trainer;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use egui::{Area, Id, Key, Modifiers, Order, RichText, StrokeKind, Ui};
use tunesmith_lab::{
    estimate::{Advice, Estimate, Fit},
    recipe::{BUNDLED, Recipe},
};
use tunesmith_models::hub::{Hub, HubId, Plan as HubPlan};
use tunesmith_protocol::{RunStatus, TaskId, TaskWork};
use tunesmith_report::format::size;
use tunesmith_setup::plan::RecipeOffer;

use super::holders;
use crate::{
    chart::ChartView,
    commands::Commands,
    problem,
    saved::{DeviceWish, Saved},
    services::Work,
    state::{Machine, Page, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

pub(crate) use card::fit_words;
pub use form::{Checked, FieldError, ModelChoice, Origin, OwnData, TuneForm};
pub use latest::Latest;
pub use reading::{
    Around, CutShort, DataSeen, DataWish, EstimateWish, RecipeFit, TextToSqlSeen, device_word, trains_on,
};
pub use start::{Blocked, blocked};
pub use trainer::SecondTrainer;

/// The page's name among the forms that are kept.
const FORM: &str = "tune";

/// The recipes that come with the program, read once: a test holds that all of them can be.
static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    BUNDLED
        .iter()
        .filter_map(|(name, text)| Recipe::parse(text, name).ok())
        .collect()
});

/// A recipe that comes with the program.
pub(crate) fn bundled(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

/// Which machine, and how many tasks have ended: what is here may differ when one of them does.
pub type Generation = (u64, u64);

/// A file or folder that the user chose or dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picked {
    /// A data set.
    Data(PathBuf),
    /// A recipe.
    Recipe(PathBuf),
    /// A model's folder or GGUF file.
    Model(PathBuf),
    /// An adapter's folder.
    Adapter(PathBuf),
}

impl Picked {
    /// What a dropped path is, by the end of its name; a folder is a model.
    fn dropped(path: PathBuf) -> Self {
        let ending = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        match ending.as_str() {
            "toml" => Self::Recipe(path),
            "gguf" => Self::Model(path),
            _ if path.is_dir() => Self::Model(path),
            _ => Self::Data(path),
        }
    }
}

/// What the page keeps.
#[derive(Default)]
pub struct TuneState {
    around: Latest<Generation, Arc<Around>>,
    /// Tasks that have ended since the window opened.
    ends: u64,
    file: Latest<PathBuf, Recipe>,
    estimate: Latest<EstimateWish, Estimate>,
    advice: Latest<EstimateWish, Advice>,
    fits: Latest<(DeviceWish, Generation), BTreeMap<&'static str, RecipeFit>>,
    data: Latest<DataWish, DataSeen>,
    hub: Latest<String, HubPlan>,
    picked: Option<Picked>,
    /// What starts once the model that is being fetched is here.
    after_fetch: Option<(TaskId, TaskWork)>,
}

impl TuneState {
    /// What is here already, as it was seen last.
    pub fn around(&self) -> Option<&Around> {
        Some(self.around.last()?.as_ref().ok()?.as_ref())
    }

    /// Why it is not known what is here, where it is not.
    pub fn around_problem(&self) -> Option<&Problem> {
        self.around.last()?.as_ref().err()
    }

    /// The same, to be kept.
    pub fn seen(&self) -> Option<Arc<Around>> {
        Some(Arc::clone(self.around.last()?.as_ref().ok()?))
    }

    /// The look that [`Self::around`] is of.
    pub fn generation(&self) -> Generation {
        self.around.answered().copied().unwrap_or_default()
    }

    /// How the recipes that come with the program fit here, by name, once that was estimated.
    pub fn fits(&self) -> Option<&BTreeMap<&'static str, RecipeFit>> {
        self.fits.last()?.as_ref().ok()
    }

    /// The training that was asked for together with a download, where that task has fetched the model.
    pub fn next_task(&mut self, task: TaskId, status: RunStatus) -> Option<TaskWork> {
        let (_, work) = self.after_fetch.take_if(|(fetch, _)| *fetch == task)?;
        (status == RunStatus::Ok).then_some(work)
    }
}

#[cfg(test)]
impl TuneState {
    /// As it is where an engine is installed, or is not: a made machine has none.
    pub(crate) fn with_engine(&mut self, engine: Result<(), Problem>) {
        let around = self.seen().unwrap();
        let around = Around {
            engine,
            ..Around::clone(&around)
        };
        self.around.answer(self.generation(), Ok(Arc::new(around)));
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct TuneView {
    /// What the user has set.
    pub form: TuneForm,
    checked: Option<(Recipe, TuneForm, Arc<Checked>)>,
    data_path: String,
    data_fault: Option<&'static str>,
    model: model_panel::Entry,
    composition: ChartView,
}

impl TuneView {
    /// The form that was kept.
    pub fn restored(saved: &Saved) -> Self {
        Self {
            form: saved.form(FORM).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Keeps the form.
    pub fn keep(&self, saved: &mut Saved) {
        saved.keep_form(FORM, &self.form);
    }

    /// The form against its recipe; checked again only where one of them has changed.
    fn checked(&mut self, base: &Recipe) -> Arc<Checked> {
        if let Some((of, form, checked)) = &self.checked
            && of == base
            && *form == self.form
        {
            return Arc::clone(checked);
        }
        let checked = Arc::new(self.form.check(base));
        self.checked = Some((base.clone(), self.form.clone(), Arc::clone(&checked)));
        checked
    }

    /// What was chosen in a dialog or dropped.
    fn take(&mut self, picked: &Picked) {
        match picked.clone() {
            Picked::Data(path) => self.use_data(path),
            Picked::Recipe(path) => self.form.start_from(Origin::File(path)),
            Picked::Model(path) => {
                self.form.model = Some(ModelChoice::Path(path));
                self.model = model_panel::Entry::default();
            }
            Picked::Adapter(path) => self
                .form
                .set(form::START_FROM, path.to_string_lossy().into_owned()),
        }
    }

    fn use_data(&mut self, path: PathBuf) {
        self.data_path.clear();
        self.data_fault = None;
        self.form.data = Some(OwnData {
            path,
            columns: tunesmith_data::Columns::new(),
        });
    }
}

/// The work that looks what is here already, where that may have changed; other pages rest on it too.
pub fn look_around(state: &mut State) -> Option<Work> {
    let machine = Arc::clone(state.machine.seen.ready()?);
    let generation = (state.machine.generation, state.pages.tune.ends);
    let (root, folders, wish) = (
        state.root.clone(),
        state.folders.clone(),
        state.saved.device.clone(),
    );
    let tune = &mut state.pages.tune;
    tune.around.ask(generation);
    let question = tune.around.begin()?;
    let known = tune
        .around()
        .map(|around| around.runs.clone())
        .unwrap_or_default();
    Some(Work::awaited(
        "looking at models and runs",
        move || {
            Ok(Arc::new(reading::around(
                &root, &folders, &machine, &wish, &known,
            )))
        },
        move |state, around| state.pages.tune.around.answer(question, around),
    ))
}

/// The work that estimates the recipes that come with the program, where that may have changed.
pub fn estimate_recipes(state: &mut State) -> Option<Work> {
    let machine = Arc::clone(state.machine.seen.ready()?);
    let (folders, wish) = (state.folders.clone(), state.saved.device.clone());
    let tune = &mut state.pages.tune;
    let around = tune.seen()?;
    tune.fits.ask((wish, tune.generation()));
    let question = tune.fits.begin()?;
    let wish = question.0.clone();
    Some(Work::awaited(
        "estimating the recipes",
        move || Ok(reading::fits(&wish, &machine, &folders, &around)),
        move |state, fits| state.pages.tune.fits.answer(question, fits),
    ))
}

/// The work that it needs.
pub fn needs(state: &mut State) -> Option<Work> {
    if let Some(work) = look_around(state) {
        return Some(work);
    }
    let machine = Arc::clone(state.machine.seen.ready()?);
    let folders = state.folders.clone();
    let tune = &mut state.pages.tune;
    if let Some(path) = tune.file.begin() {
        let file = path.clone();
        return Some(Work::awaited(
            "reading a recipe",
            move || reading::recipe_file(&file),
            move |state, recipe| state.pages.tune.file.answer(path, recipe),
        ));
    }
    let around = tune.seen()?;
    if let Some(wish) = tune.data.begin() {
        let asked = wish.clone();
        return Some(Work::awaited(
            "looking at the data",
            move || reading::data_seen(&wish, &folders, around.hub.as_ref()),
            move |state, seen| state.pages.tune.data.answer(asked, seen),
        ));
    }
    let preview = match tune.data.ready() {
        Some(DataSeen::File(preview)) => Some(preview.clone()),
        _ => None,
    };
    if let Some(wish) = tune.estimate.begin() {
        let asked = wish.clone();
        return Some(Work::awaited(
            "estimating the training",
            move || reading::estimated(&wish, preview.as_deref(), &machine, &folders, &around),
            move |state, estimate| state.pages.tune.estimate.answer(asked, estimate),
        ));
    }
    if let Some(wish) = tune.advice.begin() {
        let asked = wish.clone();
        return Some(Work::awaited(
            "comparing settings",
            move || reading::advised(&wish, preview.as_deref(), &machine, &folders, &around),
            move |state, advice| state.pages.tune.advice.answer(asked, advice),
        ));
    }
    estimate_recipes(state)
}

/// A task has ended: a run may have been cut short, a model or an engine may be here now.
pub fn task_ended(state: &mut State, _task: TaskId) {
    state.pages.tune.ends += 1;
}

/// The recipe that the form starts from.
enum Base<'a> {
    Ready(Box<Subject<'a>>),
    Reading(&'static str),
    Failed(&'a Problem),
}

/// The recipe that the form starts from, and what is known of it.
struct Subject<'a> {
    machine: &'a Machine,
    recipe: Recipe,
    /// The plan's words on it, where it is the recommended one.
    offer: Option<&'a RecipeOffer>,
    recommended: bool,
}

fn base<'a>(state: &'a State, form: &TuneForm) -> Base<'a> {
    let machine = match &state.machine.seen {
        crate::state::Loadable::Ready(machine) => machine.as_ref(),
        crate::state::Loadable::Failed(problem) => return Base::Failed(problem),
        _ => return Base::Reading("Looking at the machine"),
    };
    let plain = |recipe: &Recipe| {
        Base::Ready(Box::new(Subject {
            machine,
            recipe: recipe.clone(),
            offer: None,
            recommended: false,
        }))
    };
    match &form.origin {
        Origin::Recommended => Base::Ready(Box::new(recommended(machine))),
        Origin::Bundled(name) => match bundled(name) {
            Some(recipe) => plain(recipe),
            // A recipe of another version of the program.
            None => Base::Ready(Box::new(recommended(machine))),
        },
        Origin::File(_) => match state.pages.tune.file.current() {
            None => Base::Reading("Reading the recipe"),
            Some(Ok(recipe)) => plain(recipe),
            Some(Err(problem)) => Base::Failed(problem),
        },
    }
}

/// What the plan recommends; where it recommends nothing, the quickstart, which a processor manages too.
fn recommended(machine: &Machine) -> Subject<'_> {
    let offer = machine
        .plan
        .as_ref()
        .ok()
        .and_then(|plan| plan.recipe.recipe.as_ref());
    let recipe = offer.and_then(|offer| bundled(&offer.id)?.with_overrides(&offer.settings).ok());
    Subject {
        machine,
        offer: offer.filter(|_| recipe.is_some()),
        recommended: recipe.is_some(),
        recipe: recipe.unwrap_or_else(quickstart),
    }
}

fn quickstart() -> Recipe {
    // A test holds that it is there.
    bundled("quickstart").unwrap_or(&RECIPES[0]).clone()
}

/// Draws it.
pub fn tune_ui(state: &State, view: &mut TuneView, ui: &mut Ui, out: &mut Commands) {
    take_files(state, view, ui, out);
    let base = base(state, &view.form);
    let checked = match &base {
        Base::Ready(subject) => Some(view.checked(&subject.recipe)),
        _ => None,
    };
    ask(state, view, &base, checked.as_deref(), out);
    let (title, lead) = headline(state, &base, &view.form, checked.as_deref());
    widgets::page(ui, &title, &lead, |ui| {
        cut_short_ui(state, ui, out);
        holders::holders_ui(state, ui, out);
        match (&base, checked) {
            (Base::Ready(subject), Some(checked)) => {
                card::card_ui(state, subject, &checked, view, ui, out);
                data_panel::data_ui(state, view, ui, out);
                model_panel::model_ui(state, subject, &checked, view, ui, out);
                recipes::recipes_ui(state, subject, view, ui, out);
                advanced::advanced_ui(state.pages.tune.around(), &checked, view, ui, out);
            }
            (Base::Failed(problem), _) => {
                failed_ui(problem, view, ui, out);
                if let Some(machine) = state.machine.get() {
                    recipes::recipes_ui(state, &recommended(machine), view, ui, out);
                }
            }
            (Base::Reading(what), _) => widgets::loading(ui, what),
            (Base::Ready(_), None) => {}
        }
    });
}

fn failed_ui(problem: &Problem, view: &mut TuneView, ui: &mut Ui, out: &mut Commands) {
    let title = match &view.form.origin {
        Origin::File(path) => format!("{} is no recipe that can be used", file_name(path)),
        _ => "The machine could not be looked at".to_owned(),
    };
    widgets::problem_panel(ui, &title, problem, out);
    if let Origin::File(path) = &view.form.origin {
        let path = path.clone();
        ui.horizontal_wrapped(|ui| {
            if ui.button("Read it again").clicked() {
                out.change("read_recipe", move |state| {
                    let file = &mut state.pages.tune.file;
                    file.forget();
                    file.ask(path);
                });
            }
            if ui.button("Use the recommended recipe").clicked() {
                view.form.start_from(Origin::Recommended);
            }
        });
        ui.add_space(theme::GAP);
    }
}

/// Asks the background for what the form needs; nothing where it was asked already.
fn ask(state: &State, view: &TuneView, base: &Base<'_>, checked: Option<&Checked>, out: &mut Commands) {
    let tune = &state.pages.tune;
    if let Origin::File(path) = &view.form.origin
        && !tune.file.asks(path)
    {
        let path = path.clone();
        out.change("read_recipe", move |state| state.pages.tune.file.ask(path));
    }
    let Base::Ready(subject) = base else { return };
    if tune.around().is_none() {
        return;
    }
    let with_choices = view.form.with_choices(&subject.recipe);
    let made = checked.and_then(|checked| checked.recipe.as_ref());
    let data = DataWish {
        file: with_choices.data.path.clone().map(|path| OwnData {
            path,
            columns: with_choices.data.columns.clone(),
        }),
        max_length: made.map_or(with_choices.data.max_length, |recipe| recipe.data.max_length),
        model: with_choices.model,
        around: tune.generation(),
    };
    if !tune.data.asks(&data) {
        let data = data.clone();
        out.change("look_at_data", move |state| state.pages.tune.data.ask(data));
    }
    // While a field is wrong there is nothing to estimate; what was said last stays, and says that it does.
    let Some(recipe) = made else { return };
    let counted = match tune.data.ready() {
        Some(DataSeen::File(preview)) if preview.whole => data.file,
        _ => None,
    };
    let wish = EstimateWish {
        device: reading::device_word(&state.saved.device, recipe),
        trainer: view.form.trainer,
        recipe: recipe.clone(),
        around: tune.generation(),
        counted,
    };
    if !tune.estimate.asks(&wish) {
        out.change("estimate", move |state| {
            state.pages.tune.estimate.ask(wish.clone());
            state.pages.tune.advice.ask(wish);
        });
    }
}

/// The sentence that opens the page, with its figure, and what follows from it.
fn headline(state: &State, base: &Base<'_>, form: &TuneForm, checked: Option<&Checked>) -> (String, String) {
    let plain = || ("Fine-tune a model on this machine".to_owned(), String::new());
    let (Base::Ready(subject), Some(checked)) = (base, checked) else {
        return plain();
    };
    // The plan speaks of the recipe as it is.
    let untouched = checked.changed.is_empty() && form.model.is_none();
    let why = match (&subject.machine.plan, subject.recommended) {
        (Ok(plan), true) if untouched => format!("Recommended: {}", plan.recipe.why),
        (Ok(plan), false) if plan.recipe.recipe.is_none() => {
            format!("Nothing is recommended: {}", plan.recipe.why)
        }
        (Err(problem), _) => problem.message.clone(),
        _ => String::new(),
    };
    let (Some(recipe), Some(Ok(estimate))) = (&checked.recipe, state.pages.tune.estimate.last()) else {
        return (plain().0, why);
    };
    (sentence(&model_name(&recipe.model), estimate), why)
}

fn sentence(model: &str, estimate: &Estimate) -> String {
    let place = match estimate.device.as_str() {
        "cpu" => "the processor".to_owned(),
        _ => estimate.device_name.clone(),
    };
    let memory = &estimate.memory;
    let figures = match (memory.bytes, memory.limit) {
        (Some(bytes), Some(limit)) => format!("{} of {}", size(bytes), size(limit)),
        (Some(bytes), None) => size(bytes),
        _ => String::new(),
    };
    match memory.fit {
        Fit::Fits => match estimate.time.train_secs {
            Some(secs) => format!(
                "{model} fits on {place} and trains in about {}",
                widgets::rough(secs)
            ),
            None => format!("{model} fits on {place}: {figures}"),
        },
        Fit::Uncertain => format!("{model} may not fit on {place}: it needs about {figures}"),
        Fit::DoesNotFit => match (memory.bytes, memory.limit) {
            (Some(bytes), Some(limit)) => format!(
                "{model} does not fit on {place}: it needs {}, and {} may be used",
                size(bytes),
                size(limit)
            ),
            _ => format!("{model} does not fit on {place}"),
        },
        Fit::Unknown => format!("Whether {model} fits on {place} is not known yet"),
    }
}

/// A model by the name that people know.
fn model_name(model: &tunesmith_lab::recipe::ModelSection) -> String {
    match (&model.path, model.source.as_deref()) {
        (Some(path), _) => file_name(path),
        (None, Some(tunesmith_lab::recipe::DEFAULT_MODEL) | None) => "SmolLM2-135M-Instruct".to_owned(),
        (None, Some(source)) => match source.parse::<HubId>() {
            Ok(id) => id.name().rsplit('/').next().unwrap_or(source).to_owned(),
            Err(_) => source.to_owned(),
        },
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A run that was cut short, and what can be done about it.
fn cut_short_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let Some(around) = state.pages.tune.around() else {
        return;
    };
    let left_alone = |run: &&CutShort| !state.saved.left_alone.contains(&run.id);
    let Some(run) = around.cut_short.iter().find(left_alone) else {
        return;
    };
    widgets::panel(ui, "", |ui| {
        let sentence = format!(
            "A run was cut short at step {} of {}: {}",
            run.step, run.steps, run.title
        );
        widgets::verdict_line(ui, Tone::Warn, &sentence);
        widgets::caption(
            ui,
            &format!(
                "It goes on from its last checkpoint, with the curve that it would have had ({})",
                run.id
            ),
        );
        ui.horizontal_wrapped(|ui| {
            let free = state.tasks.running().is_none();
            if ui.add_enabled(free, egui::Button::new("Resume")).clicked() {
                out.start(TaskWork::Resume { run: run.id.clone() });
                out.go(Page::Live);
            }
            if ui.button("Leave it").clicked() {
                let id = run.id.clone();
                out.change("leave_alone", move |state| state.saved.left_alone.push(id));
            }
            if !free {
                widgets::caption(ui, "Something else is under way");
            }
        });
    });
}

/// Takes in what was chosen in a dialog or dropped onto the window, and says where a file would go that hovers over it.
fn take_files(state: &State, view: &mut TuneView, ui: &Ui, out: &mut Commands) {
    if let Some(picked) = &state.pages.tune.picked {
        view.take(picked);
        out.change("picked", |state| state.pages.tune.picked = None);
    }
    let (dropped, hovering) = ui.input(|input| {
        let first = input.raw.dropped_files.first();
        (
            first.map(|file| file.path().to_owned()),
            !input.raw.hovered_files.is_empty(),
        )
    });
    if let Some(path) = dropped {
        // Whether it is a folder is not asked while drawing.
        out.act("dropped", move |_| {
            Some(Work::new("looking at what was dropped", move || {
                let picked = Picked::dropped(path);
                move |state: &mut State| state.pages.tune.picked = Some(picked)
            }))
        });
    }
    if hovering {
        hint_ui(ui);
    }
}

fn hint_ui(ui: &Ui) {
    let tokens = tokens(ui);
    let rect = ui.max_rect().shrink(2.0 * theme::GRID);
    Area::new(Id::unique("drop"))
        .order(Order::Foreground)
        .fixed_pos(rect.min)
        .interactable(false)
        .show(ui.ctx(), |ui| {
            ui.painter().rect(
                rect,
                theme::CORNER,
                tokens.panel.gamma_multiply(0.9),
                egui::Stroke::new(2.0, tokens.accent),
                StrokeKind::Inside,
            );
            let text = RichText::new("Drop a data set, a recipe (.toml) or a model (.gguf file or folder)")
                .font(theme::heading_font())
                .color(tokens.strong_text);
            ui.put(rect, egui::Label::new(text));
        });
}

/// Asks a hub, over the network, what a model is: size, licence, whether its makers want to know who takes it.
fn ask_hub(id: &str) -> Work {
    let id = id.to_owned();
    let asked = id.clone();
    Work::awaited(
        "asking the model hub",
        move || {
            id.parse::<HubId>()
                .and_then(|parsed| Hub::from_env()?.plan(&parsed))
                .map_err(|error| problem!(error))
        },
        move |state, plan| state.pages.tune.hub.answer(asked, plan),
    )
}

/// Ctrl-Enter, once.
fn enter(ui: &Ui) -> bool {
    ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter))
}

/// Text that says where a figure comes from.
fn weak(ui: &Ui, text: &str) -> RichText {
    RichText::new(text).size(theme::SMALL).color(tokens(ui).weak_text)
}

#[cfg(test)]
mod flows;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_recipes_of_the_program_can_be_read() {
        assert_eq!(RECIPES.len(), BUNDLED.len());
        assert_eq!(quickstart().name, "quickstart");
    }

    #[test]
    fn models_go_by_the_names_that_people_know() {
        let name = |setting: &str| {
            let recipe = quickstart().with_overrides(&[setting.to_owned()]).unwrap();
            model_name(&recipe.model)
        };
        assert_eq!(
            name("model.source=smollm2-135m-instruct"),
            "SmolLM2-135M-Instruct"
        );
        assert_eq!(name("model.source=Qwen/Qwen3-4B@main"), "Qwen3-4B");
        assert_eq!(name("model.source=a/b:c.gguf"), "b:c.gguf");
        assert_eq!(name("model.path=/models/mine.gguf"), "mine.gguf");
    }

    #[test]
    fn a_dropped_file_is_told_by_its_name_and_a_folder_is_a_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(Picked::dropped(path("a.TOML")), Picked::Recipe(path("a.TOML")));
        assert_eq!(Picked::dropped(path("a.gguf")), Picked::Model(path("a.gguf")));
        assert_eq!(Picked::dropped(path("a.csv")), Picked::Data(path("a.csv")));
        assert_eq!(
            Picked::dropped(folder.path().to_owned()),
            Picked::Model(folder.path().to_owned())
        );
    }

    #[test]
    fn a_training_follows_its_download_only_where_that_went_well() {
        let mut tune = TuneState::default();
        let work = || TaskWork::Resume { run: "r".to_owned() };
        tune.after_fetch = Some((7, work()));
        assert_eq!(tune.next_task(6, RunStatus::Ok), None);
        assert_eq!(tune.next_task(7, RunStatus::Ok), Some(work()));
        assert_eq!(tune.next_task(7, RunStatus::Ok), None, "once");
        tune.after_fetch = Some((8, work()));
        assert_eq!(tune.next_task(8, RunStatus::Cancelled), None);
        assert!(tune.after_fetch.is_none());
    }
}
