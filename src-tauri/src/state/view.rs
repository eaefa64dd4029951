//! What the tray shows, drawn from what is known.

use std::time::Instant;

use tunesmith_protocol::RunStatus;

use super::{State, updating::Update};
use crate::{
    task::{Running, ending, failed},
    tray::{Item, Mark, Tray},
};

impl State {
    /// What the tray shows now.
    pub(crate) fn tray(&self, now: Instant) -> Tray {
        let (mark, status) = match (&self.running, &self.paused, self.last) {
            (Some(running), ..) => (Mark::Running, running.sentence(now)),
            (None, Some((kind, _)), _) => (Mark::Paused, format!("{} is paused", kind.name())),
            (None, None, Some((kind, status))) if failed(status) => {
                (Mark::Failed, ending(kind, status, None))
            }
            (None, None, Some((kind, status))) if status == RunStatus::Ok => {
                (Mark::Finished, ending(kind, status, None))
            }
            (None, None, Some((kind, status))) => (Mark::Idle, ending(kind, status, None)),
            (None, None, None) => (Mark::Idle, "Nothing runs".to_owned()),
        };
        let installing = self.update == Update::Installing;
        let stoppable = |running: &Running| !running.stopping;
        let open: Vec<Item> = [
            (Item::Open, !installing),
            (
                Item::Pause,
                self.running
                    .as_ref()
                    .is_some_and(|running| stoppable(running) && running.going_on().is_some()),
            ),
            (
                Item::GoOn,
                self.running.is_none() && self.paused.is_some() && !installing,
            ),
            (Item::StopAndSave, self.running.as_ref().is_some_and(stoppable)),
            (
                Item::Update,
                match self.update {
                    Update::Unknown | Update::Newest => true,
                    // Never while something is measured, or anything else runs.
                    Update::Found(_) => self.running.is_none(),
                    Update::Off | Update::Looking | Update::Installing => false,
                },
            ),
            (Item::Quit, !installing),
        ]
        .into_iter()
        .filter_map(|(item, open)| open.then_some(item))
        .collect();
        let update = match &self.update {
            Update::Off => "Updates are not set up".to_owned(),
            Update::Unknown => "Look for an update".to_owned(),
            Update::Looking => "Looking for an update".to_owned(),
            Update::Newest => "This is the newest version".to_owned(),
            Update::Found(version) => format!("Install version {version}"),
            Update::Installing => "Installing an update".to_owned(),
        };
        Tray::new(mark, status, &update, &open)
    }
}
