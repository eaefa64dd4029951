//! The tray's icon and menu as data: what they say follows from what is known, and how they are shown is the desktop's
//! affair (`desktop/tray.rs`).

/// What the icon says at a glance. Each has a shape of its own beside its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing runs.
    #[default]
    Idle,
    /// A task runs.
    Running,
    /// A run was stopped to go on later.
    Paused,
    /// The last task did what was asked.
    Finished,
    /// The last task did not.
    Failed,
}

/// An entry of the menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    /// What goes on; it does nothing.
    Status,
    Open,
    Pause,
    GoOn,
    StopAndSave,
    Update,
    Quit,
}

impl Item {
    /// All of them, in the menu's order.
    pub(crate) const ALL: [Self; 7] = [
        Self::Status,
        Self::Open,
        Self::Pause,
        Self::GoOn,
        Self::StopAndSave,
        Self::Update,
        Self::Quit,
    ];

    /// By which a desktop tells which one was chosen.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Open => "open",
            Self::Pause => "pause",
            Self::GoOn => "go-on",
            Self::StopAndSave => "stop-and-save",
            Self::Update => "update",
            Self::Quit => "quit",
        }
    }

    /// The entry with this id.
    pub(crate) fn by_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|item| item.id() == id)
    }
}

/// What the tray shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tray {
    pub(crate) mark: Mark,
    /// One line: what goes on.
    pub(crate) status: String,
    /// Text of each entry, and whether it can be chosen, in the order of [`Item::ALL`].
    pub(crate) entries: [(String, bool); Item::ALL.len()],
}

impl Tray {
    /// The tray with these entries open; all others are shown and cannot be chosen.
    pub(crate) fn new(mark: Mark, status: String, update: &str, open: &[Item]) -> Self {
        let entries = Item::ALL.map(|item| {
            let text = match item {
                Item::Status => status.clone(),
                Item::Open => "Open Tunesmith".to_owned(),
                Item::Pause => "Pause".to_owned(),
                Item::GoOn => "Go on".to_owned(),
                Item::StopAndSave => "Stop and save".to_owned(),
                Item::Update => update.to_owned(),
                Item::Quit => "Quit".to_owned(),
            };
            (text, open.contains(&item))
        });
        Self {
            mark,
            status,
            entries,
        }
    }

    /// Whether an entry can be chosen.
    #[cfg(test)]
    pub(crate) fn can(&self, item: Item) -> bool {
        Item::ALL
            .iter()
            .zip(&self.entries)
            .any(|(there, (_, open))| *there == item && *open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_by_its_id() {
        for item in Item::ALL {
            assert_eq!(Item::by_id(item.id()), Some(item));
        }
        assert_eq!(Item::by_id("novelty"), None);
    }

    #[test]
    fn what_goes_on_stands_first_and_cannot_be_chosen() {
        let tray = Tray::new(
            Mark::Idle,
            "Nothing runs".to_owned(),
            "",
            &[Item::Open, Item::Quit],
        );
        assert_eq!(tray.entries[0], ("Nothing runs".to_owned(), false));
        assert!(tray.can(Item::Open) && !tray.can(Item::Pause));
    }
}
