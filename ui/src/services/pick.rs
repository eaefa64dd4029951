//! The system's own dialogs for choosing a file or a folder. They are opened from the window's thread, as some systems
//! demand, and waited for on another, so that the window goes on.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use rfd::AsyncFileDialog;

use super::Work;
use crate::state::State;

/// What may be chosen.
#[derive(Clone, Copy, Debug)]
pub enum Pick {
    /// A file with one of these endings, which go by a name.
    File(&'static str, &'static [&'static str]),
    /// A folder.
    Folder,
}

/// Opens a dialog; `chosen` is called in the window's thread, and not at all where the user chose nothing.
pub fn pick(
    title: &'static str,
    what: Pick,
    chosen: impl FnOnce(&mut State, PathBuf) + Send + 'static,
) -> Work {
    let dialog = AsyncFileDialog::new().set_title(title);
    match what {
        Pick::File(name, endings) => {
            let file = dialog
                .add_filter(name, endings)
                .add_filter("All files", &["*"])
                .pick_file();
            waited(file, |handle| handle.path().to_owned(), chosen)
        }
        Pick::Folder => waited(dialog.pick_folder(), |handle| handle.path().to_owned(), chosen),
    }
}

/// Opens a dialog for a file to be written, with a suggestion; `chosen` as in [`pick`]. The dialog asks before it names
/// a file that is there.
pub fn pick_new(
    title: &'static str,
    (name, endings): (&str, &[&str]),
    suggested: &Path,
    chosen: impl FnOnce(&mut State, PathBuf) + Send + 'static,
) -> Work {
    let mut dialog = AsyncFileDialog::new().set_title(title).add_filter(name, endings);
    if let Some(folder) = suggested.parent() {
        dialog = dialog.set_directory(folder);
    }
    if let Some(name) = suggested.file_name() {
        dialog = dialog.set_file_name(name.to_string_lossy());
    }
    waited(dialog.save_file(), |handle| handle.path().to_owned(), chosen)
}

fn waited<H: 'static>(
    dialog: impl Future<Output = Option<H>> + Send + 'static,
    path: fn(&H) -> PathBuf,
    chosen: impl FnOnce(&mut State, PathBuf) + Send + 'static,
) -> Work {
    Work::new("choosing a file", move || {
        let path = wait(dialog).as_ref().map(path);
        move |state: &mut State| {
            if let Some(path) = path {
                chosen(state, path);
            }
        }
    })
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread until a future is there.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_is_waited_for_until_somebody_wakes_it() {
        let mut polls = 0;
        let future = std::future::poll_fn(|context| {
            polls += 1;
            if polls == 3 {
                return Poll::Ready("there");
            }
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        });
        assert_eq!(wait(future), "there");
        assert_eq!(polls, 3);
    }

    #[test]
    fn a_path_that_was_chosen_reaches_the_state_and_none_changes_nothing() {
        let mut state = State::for_tests();
        for (answer, expected) in [(None, 0), (Some(PathBuf::from("/a.csv")), 1)] {
            let work = waited(std::future::ready(answer), PathBuf::clone, |state, path| {
                state.say_stop(path.display().to_string());
            });
            work.run()(&mut state);
            assert_eq!(state.toasts.len(), expected);
        }
    }
}
