//! The pages of the window, in the order of the rail.

use serde::{Deserialize, Serialize};

/// A page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Page {
    /// What the app does, once.
    Welcome,
    /// What the card is.
    #[default]
    Card,
    /// What is wrong, and what to install.
    Setup,
    /// How fast the card is.
    Calibrate,
    /// What to train.
    Tune,
    /// The training at hand.
    Live,
    /// Base and tuned model side by side.
    TryIt,
    /// All trainings.
    Runs,
    /// A training to share.
    Report,
    /// Folders, engines, look, diagnostics.
    Settings,
    /// What the words mean.
    Glossary,
}

impl Page {
    /// The pages of the rail, in order. The first nine have Ctrl-1 to Ctrl-9, the tenth Ctrl-0.
    pub const RAIL: [Self; 10] = [
        Self::Card,
        Self::Setup,
        Self::Calibrate,
        Self::Tune,
        Self::Live,
        Self::TryIt,
        Self::Runs,
        Self::Report,
        Self::Settings,
        Self::Glossary,
    ];

    /// Its name in the rail.
    pub fn title(self) -> &'static str {
        match self {
            Self::Welcome => "Welcome",
            Self::Card => "Your card",
            Self::Setup => "Set-up",
            Self::Calibrate => "Calibrate",
            Self::Tune => "Fine-tune",
            Self::Live => "Live run",
            Self::TryIt => "Try it",
            Self::Runs => "Runs",
            Self::Report => "Report",
            Self::Settings => "Settings",
            Self::Glossary => "Glossary",
        }
    }
}
