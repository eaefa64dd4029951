//! Updates of the app: looked for when somebody asks, installed when nothing runs and no window is there to begin anything.

use std::time::Instant;

use super::{Action, State, Window};

/// What is known of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// This version is the newest.
    UpToDate,
    /// There is a newer version.
    Found(String),
    /// It is installed; the app starts anew.
    Installed,
    /// It could not be looked for or installed.
    Failed(String),
}

/// Where an update stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Update {
    Off,
    /// Nobody has looked yet, or the last look failed.
    Unknown,
    Looking,
    Newest,
    Found(String),
    Installing,
}

impl State {
    pub(super) fn choose_update(&mut self, out: &mut Vec<Action>) {
        match &self.update {
            Update::Unknown | Update::Newest => {
                self.update = Update::Looking;
                out.push(Action::LookForUpdate);
            }
            // No task can begin meanwhile: its window is closed, and the tray begins none.
            Update::Found(_) if self.running.is_none() => {
                self.update = Update::Installing;
                if self.window != Window::Closed {
                    self.window = Window::Closed;
                    out.push(Action::CloseWindow);
                }
                out.push(Action::InstallUpdate);
            }
            Update::Off | Update::Looking | Update::Found(_) | Update::Installing => {}
        }
    }

    pub(super) fn news(&mut self, news: News, now: Instant, out: &mut Vec<Action>) {
        let installing = self.update == Update::Installing;
        let (update, notice) = match news {
            News::UpToDate => (Update::Newest, None),
            News::Found(version) => {
                let notice = Action::Notify {
                    title: format!("Tunesmith {version} can be installed"),
                    body: "The tray or `tunesmith-shell --update` installs it, when nothing runs".to_owned(),
                };
                (Update::Found(version), Some(notice))
            }
            News::Installed => {
                out.push(Action::Restart);
                return;
            }
            News::Failed(why) => {
                let what = if installing {
                    "The update was not installed"
                } else {
                    "Updates cannot be looked for"
                };
                let notice = Action::Notify {
                    title: what.to_owned(),
                    body: why,
                };
                (Update::Unknown, Some(notice))
            }
        };
        self.update = update;
        out.extend(notice);
        if installing {
            self.open(now, out);
        }
    }
}
