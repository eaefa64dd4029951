//! The pages. Each has its own file or folder, with what it keeps (`…State`, changed between frames), how it is looked
//! at (`…View`, changed while drawing), and a function that draws it.

pub mod calibrate;
pub mod card;
pub mod compare;
pub mod glossary;
pub mod holders;
pub mod live;
pub mod published;
pub mod report;
pub mod runs;
pub mod settings;
pub mod setup;
pub mod try_it;
pub mod tune;
pub mod welcome;

use egui::Ui;
use tunesmith_protocol::TaskId;

use crate::{
    commands::Commands,
    services::Work,
    state::{Page, State},
};

/// What the pages keep.
#[derive(Default)]
pub struct PageStates {
    /// Of the set-up.
    pub setup: setup::SetupState,
    /// Of the calibration.
    pub calibrate: calibrate::CalibrateState,
    /// Of the fine-tuning.
    pub tune: tune::TuneState,
    /// Of the live run.
    pub live: live::LiveState,
    /// Of the answers.
    pub try_it: try_it::TryItState,
    /// Of the experiments.
    pub compare: compare::CompareState,
    /// Of the runs.
    pub runs: runs::RunsState,
    /// Of the report.
    pub report: report::ReportState,
    /// Of the settings.
    pub settings: settings::SettingsState,
    /// Who else holds the card.
    pub holders: holders::HoldersState,
}

/// How the pages are looked at.
#[derive(Default)]
pub struct Views {
    card: card::CardView,
    setup: setup::SetupView,
    calibrate: calibrate::CalibrateView,
    tune: tune::TuneView,
    live: live::LiveView,
    try_it: try_it::TryItView,
    compare: compare::CompareView,
    published: published::PublishedView,
    runs: runs::RunsView,
    report: report::ReportView,
    settings: settings::SettingsView,
    glossary: glossary::GlossaryView,
}

impl Views {
    /// Views with the forms that were kept when the window closed.
    pub fn restored(state: &State) -> Self {
        Self {
            tune: tune::TuneView::restored(&state.saved),
            try_it: try_it::TryItView::restored(&state.saved),
            compare: compare::CompareView::restored(&state.saved),
            ..Self::default()
        }
    }

    /// Puts the forms that were not sent into what is saved.
    pub fn keep(&self, state: &mut State) {
        self.tune.keep(&mut state.saved);
        self.try_it.keep(&mut state.saved);
        self.compare.keep(&mut state.saved);
    }
}

/// The work that a page needs before it can show all it has; asked between frames, so it must be quick.
pub fn needs(state: &mut State) -> Vec<Work> {
    live::follow(state);
    try_it::follow(state);
    let work = match state.page {
        Page::Card | Page::Welcome | Page::Glossary | Page::Published => None,
        Page::Setup => setup::needs(state),
        Page::Calibrate => calibrate::needs(state),
        Page::Tune => tune::needs(state),
        Page::Live => live::needs(state),
        Page::TryIt => try_it::needs(state),
        Page::Compare => compare::needs(state),
        Page::Runs => runs::needs(state),
        Page::Report => report::needs(state),
        Page::Settings => settings::needs(state),
    };
    let holders = holders::needs(state);
    work.into_iter().chain(holders).collect()
}

/// A task has ended: what the pages keep may be out of date.
pub fn task_ended(state: &mut State, task: TaskId) {
    setup::task_ended(state, task);
    calibrate::task_ended(state, task);
    tune::task_ended(state, task);
    live::task_ended(state, task);
    try_it::task_ended(state, task);
    compare::task_ended(state, task);
    runs::task_ended(state, task);
    report::task_ended(state, task);
    settings::task_ended(state, task);
    holders::task_ended(state, task);
}

/// Draws the page that is shown.
pub fn page_ui(state: &State, views: &mut Views, ui: &mut Ui, out: &mut Commands) {
    match state.page {
        Page::Welcome => welcome::welcome_ui(state, ui, out),
        Page::Card => card::card_ui(state, &mut views.card, ui, out),
        Page::Setup => setup::setup_ui(state, &mut views.setup, ui, out),
        Page::Calibrate => calibrate::calibrate_ui(state, &mut views.calibrate, ui, out),
        Page::Tune => tune::tune_ui(state, &mut views.tune, ui, out),
        Page::Live => live::live_ui(state, &mut views.live, ui, out),
        Page::TryIt => try_it::try_it_ui(state, &mut views.try_it, ui, out),
        Page::Compare => compare::compare_ui(state, &mut views.compare, ui, out),
        Page::Published => published::published_ui(state, &mut views.published, ui, out),
        Page::Runs => runs::runs_ui(state, &mut views.runs, ui, out),
        Page::Report => report::report_ui(state, &mut views.report, ui, out),
        Page::Settings => settings::settings_ui(state, &mut views.settings, ui, out),
        Page::Glossary => glossary::glossary_ui(state, &mut views.glossary, ui, out),
    }
}
