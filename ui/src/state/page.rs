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
    /// What is faster, what saves memory: experiments on this machine.
    Compare,
    /// What others measured; a part of [`Self::Compare`].
    Published,
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
    /// The pages of the rail, in order. The first nine have Ctrl-1 to Ctrl-9, the tenth Ctrl-0, the last F1.
    pub const RAIL: [Self; 11] = [
        Self::Card,
        Self::Setup,
        Self::Calibrate,
        Self::Tune,
        Self::Live,
        Self::TryIt,
        Self::Compare,
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
            Self::Compare => "Compare",
            Self::Published => "Published figures",
            Self::Runs => "Runs",
            Self::Report => "Report",
            Self::Settings => "Settings",
            Self::Glossary => "Glossary",
        }
    }

    /// The page of the rail that it belongs to.
    #[must_use]
    pub fn in_rail(self) -> Self {
        match self {
            Self::Published => Self::Compare,
            page => page,
        }
    }
}
