//! The page for the set-up: what is wrong and what to do first, what would be installed and by which commands, and a
//! field for an error text that somebody got elsewhere.

mod explain;
mod findings;
mod flags;
mod install;
mod plan;
mod rows;
mod words;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use egui::{Align, Key, Layout, Modifiers, Ui};
use tunesmith_protocol::{RunStatus, TaskId, TaskWork};
use tunesmith_setup::{
    CommandReport, Folders, Report, Setup, SetupError,
    doctor::{Diagnosis, Place, Verdict},
    environments::{Engine, Environment, InstallSpec},
    explain::Explanation,
    plan::{Plan, plan},
};

use crate::{
    commands::Commands,
    problem,
    services::{self, Work},
    state::{Loadable, Machine, Page, Problem, State},
    theme::Tone,
    widgets,
};

/// What carrying out a plan needs and runs, asked of set-up itself, which ran nothing for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// The commands, in order.
    pub commands: Vec<CommandReport>,
    /// Bytes that are free where it goes; none where the system does not tell.
    pub free_bytes: Option<u64>,
    /// The folder that it goes to.
    pub into: PathBuf,
    /// Whether uv, which carries it out, is fetched first.
    pub fetches_uv: bool,
}

/// The plan for an engine, and what carrying it out would run.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The plan.
    pub plan: Plan,
    /// What it would run; none where nothing has to be installed, or where the machine is a capture.
    pub rehearsal: Option<Result<Rehearsal, Problem>>,
}

/// What an explanation was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Explained {
    /// A text that the user pasted.
    Text(Explanation),
    /// The kernel's log; none where this user may not read it.
    KernelLog(Option<Explanation>),
}

/// What the page keeps.
pub struct SetupState {
    /// The engine whose plan is shown.
    pub engine: Engine,
    /// Its plan.
    pub offer: Loadable<Arc<Offer>>,
    /// What the offer is for: the engine, and the look at the machine that it rests on.
    offer_is_for: Option<(Engine, u64)>,
    /// What the last text says.
    pub explained: Loadable<Arc<Explained>>,
    /// The environment that the last set-up of this window made; none where it had nothing to make.
    pub made: Option<Arc<Environment>>,
}

impl Default for SetupState {
    fn default() -> Self {
        Self {
            engine: Engine::Native,
            offer: Loadable::Unasked,
            offer_is_for: None,
            explained: Loadable::Unasked,
            made: None,
        }
    }
}

impl SetupState {
    /// Another engine's plan is wanted.
    pub fn choose(&mut self, engine: Engine) {
        if engine != self.engine {
            self.engine = engine;
            self.offer = Loadable::Unasked;
        }
    }

    /// An offer is there; one that was made for an older wish is not wanted any more.
    fn apply_offer(&mut self, is_for: (Engine, u64), offer: Result<Offer, Problem>) {
        if self.offer_is_for == Some(is_for) {
            self.offer = offer.map(Arc::new).into();
        }
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct SetupView {
    /// Names of the rows that are unfolded.
    open: BTreeSet<String>,
    /// The text to explain.
    text: String,
}

/// The work that it needs: the plan of the shown engine, made anew after every look at the machine.
pub fn needs(state: &mut State) -> Option<Work> {
    let machine = state.machine.seen.ready()?.clone();
    let page = &mut state.pages.setup;
    let wanted = (page.engine, state.machine.generation);
    if page.offer_is_for == Some(wanted) {
        return None;
    }
    page.offer_is_for = Some(wanted);
    // What is shown stays until the new one is there.
    if page.offer.ready().is_none() {
        page.offer = Loadable::Loading;
    }
    let (folders, wish) = (state.folders.clone(), state.saved.device.clone());
    let made = move || -> Result<Offer, Problem> {
        let plan = match wanted.0 {
            Engine::Native => machine.plan.clone()?,
            engine => {
                let request = services::plan_request(&machine.system, &folders, &wish, engine);
                plan(&machine.system, &machine.knowledge, &request).map_err(|error| problem!(error))?
            }
        };
        Ok(Offer {
            rehearsal: plan
                .install
                .as_ref()
                .filter(|_| machine.system.live)
                .map(|spec| rehearse(&folders, spec).map_err(|error| problem!(error))),
            plan,
        })
    };
    Some(Work::awaited("making a plan", made, move |state, offer| {
        state.pages.setup.apply_offer(wanted, offer);
    }))
}

/// Asks set-up what it would run. Nothing is changed by it.
fn rehearse(folders: &Folders, spec: &InstallSpec) -> Result<Rehearsal, SetupError> {
    let setup = Setup::new(folders.clone());
    let found = setup.find_uv();
    let fetches_uv = found.is_none();
    // Without uv, its name stands for it in the commands.
    let uv = found.unwrap_or_else(|| PathBuf::from("uv"));
    let mut rehearsal = Rehearsal {
        commands: Vec::new(),
        free_bytes: None,
        into: folders.environments().join(&spec.name),
        fetches_uv,
    };
    setup.preview(&uv, spec, &mut |report| match report {
        Report::Plan(plan) => {
            rehearsal.free_bytes = plan.free_bytes;
            rehearsal.into.clone_from(&plan.into);
        }
        Report::Command(command) => rehearsal.commands.push(command.clone()),
        Report::Progress(_) | Report::Verifying(_) => {}
    })?;
    Ok(rehearsal)
}

/// A task has ended: what a set-up made is kept in its own type.
pub fn task_ended(state: &mut State, task: TaskId) {
    let Some(task) = state.tasks.get(task) else { return };
    let (TaskWork::Setup { .. }, Some(ended)) = (&task.work, &task.ended) else {
        return;
    };
    let made = (ended.status == RunStatus::Ok)
        .then(|| serde_json::from_value(ended.result.clone()).ok())
        .flatten();
    state.pages.setup.made = made.map(Arc::new);
}

/// Draws it.
pub fn setup_ui(state: &State, view: &mut SetupView, ui: &mut Ui, out: &mut Commands) {
    let Some(machine) = state.machine.get() else {
        return without_machine_ui(state, ui, out);
    };
    let diagnosis = &machine.diagnosis;
    let (word, sentence) = words::opening(&diagnosis.opening);
    widgets::page(ui, &sentence, "", |ui| {
        summary_ui(state, diagnosis, word, ui, out);
        if is_blocked(state) {
            next_ui(state, diagnosis, ui, out);
            findings::findings_ui(diagnosis, view, ui, out);
            install::install_ui(state, ui, out);
        } else {
            next_ui(state, diagnosis, ui, out);
            install::install_ui(state, ui, out);
            findings::findings_ui(diagnosis, view, ui, out);
        }
        plan::plan_ui(state, machine, ui, out);
        if let Some(offer) = state.pages.setup.offer.ready() {
            flags::flags_ui(&offer.plan, view, ui);
        }
        explain::explain_ui(state, view, ui, out);
    });
    if !view.open.is_empty() && ui.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Escape)) {
        view.open.clear();
    }
    // The field for an error text takes the keys first.
    let starts = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
    if starts
        && !is_blocked(state)
        && let Some(work) = install::work(state)
    {
        out.start(work);
    }
}

fn without_machine_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    widgets::page(ui, Page::Setup.title(), "", |ui| match &state.machine.seen {
        Loadable::Failed(problem) => {
            widgets::problem_panel(ui, "This machine could not be looked at", problem, out);
            if widgets::small_button(ui, "Look again").clicked() {
                out.act("look again", services::look);
            }
        }
        _ => widgets::loading(ui, "Looking at the machine"),
    });
}

/// The verdict in a word, what was counted, and the button that looks again.
fn summary_ui(state: &State, diagnosis: &Diagnosis, word: &str, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal(|ui| {
        widgets::badge(ui, words::verdict_tone(diagnosis.verdict), word);
        widgets::caption(ui, &words::counts(diagnosis));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let looking = state.machine.looking;
            let text = if looking { "Looking…" } else { "Look again" };
            let button = ui
                .add_enabled_ui(!looking, |ui| widgets::small_button(ui, text))
                .inner;
            if button
                .on_hover_text("Reads this machine anew; it changes nothing")
                .clicked()
            {
                out.act("look again", services::look);
            }
        });
    });
    ui.add_space(crate::theme::GRID);
}

/// The one thing to do next.
fn next_ui(state: &State, diagnosis: &Diagnosis, ui: &mut Ui, out: &mut Commands) {
    let next = &diagnosis.next;
    widgets::panel(ui, "What to do next", |ui| {
        if next.check.is_none() && matches!(diagnosis.verdict, Verdict::Ready | Verdict::ReadyButSlower) {
            return next_is_here_ui(state, ui, out);
        }
        ui.label(&next.text);
        let cure = next
            .check
            .as_ref()
            .and_then(|id| diagnosis.check(id)?.cure.as_ref());
        if let Some(command) = &next.command {
            rows::place_ui(ui, cure.map_or(Place::Here, |cure| cure.place));
            widgets::command_block(ui, command, out);
        }
        if let Some(needs) = words::needs(next.needs) {
            widgets::verdict_line(ui, Tone::Note, &format!("It takes {needs} to count"));
        }
    });
}

/// Where nothing keeps the machine from training, the next step is one of this window's own.
fn next_is_here_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let offer = state.pages.setup.offer.ready();
    let installs = offer.is_some_and(|offer| offer.plan.install.is_some());
    if installs {
        ui.label("Install what training needs: every command and its size stand below, and nothing else is changed");
    } else {
        ui.label("See how fast this device really is: everything that is shown later is counted against it");
        if widgets::link_button(ui, "Calibrate").clicked() {
            out.go(Page::Calibrate);
        }
    }
}

/// The device that a plan trains on, as tasks name it.
fn wanted_card(state: &State) -> Option<String> {
    state.saved.device.word()
}

/// Whether something keeps the machine from training: then curing it comes first.
fn is_blocked(state: &State) -> bool {
    let machine = state.machine.get();
    machine.is_some_and(|machine| machine.diagnosis.verdict == Verdict::Blocked)
}

/// Whether the machine is a folder of captured files, and not this one.
fn is_capture(state: &State) -> bool {
    state.machine.get().is_some_and(|machine| !machine.system.live)
}

/// What the machine says, for work in the background.
fn machine(state: &State) -> Option<Arc<Machine>> {
    state.machine.seen.ready().cloned()
}
