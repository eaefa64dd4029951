//! Work in the background: reading files, looking at the machine. A few threads, so that a slow folder does not keep
//! the rest waiting, and never so many that they disturb a measurement.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use crate::state::{Problem, State};

const THREADS: usize = 2;

/// What the work came to: a change of the state, made in the window's thread.
pub type Done = Box<dyn FnOnce(&mut State) + Send>;

/// Work to be done.
pub struct Work {
    name: &'static str,
    run: Box<dyn FnOnce() -> Done + Send>,
}

impl Work {
    /// `run` is called on another thread; what it returns, in the window's. For work that nothing in the state waits for:
    /// where it fails by a fault of the program's own, a message says so.
    pub fn new<D>(name: &'static str, run: impl FnOnce() -> D + Send + 'static) -> Self
    where
        D: FnOnce(&mut State) + Send + 'static,
    {
        Self {
            name,
            run: Box::new(move || Box::new(run())),
        }
    }

    /// `read` is called on another thread; what it came to is given to `take` in the window's, also where it failed by a
    /// fault of the program's own. So what waits for it never waits for ever.
    pub fn awaited<T: Send + 'static>(
        name: &'static str,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
        take: impl FnOnce(&mut State, Result<T, Problem>) + Send + 'static,
    ) -> Self {
        Self {
            name,
            run: Box::new(move || {
                let came =
                    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(fault(name, &*panic)));
                Box::new(move |state: &mut State| take(state, came))
            }),
        }
    }

    /// What it does, for the log and for tests.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Does it here and now.
    pub fn run(self) -> Done {
        let name = self.name;
        // A fault in a reader must not take the window along.
        catch_unwind(AssertUnwindSafe(self.run)).unwrap_or_else(|panic| {
            let message = fault(name, &*panic).message;
            Box::new(move |state| state.say_stop(message))
        })
    }
}

/// A fault of the program's own, in words: `panic` is what it said as it fell over.
fn fault(name: &str, panic: &(dyn Any + Send)) -> Problem {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let why = said.map_or_else(String::new, |said| format!(": {said}"));
    Problem::new(
        "internal",
        format!("{name} failed because of a fault in Tunesmith itself{why}"),
        vec![
            "nothing was changed by it; ask for it once more, or open the window anew".to_owned(),
            "where it comes back, please report it: Settings copies the diagnostics that help".to_owned(),
        ],
    )
}

/// The threads.
pub struct Workers {
    queue: Sender<Work>,
    done: Receiver<Done>,
    waiting: usize,
}

impl Workers {
    /// Starts the threads. `wake` is called whenever something is done.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let (queue, work) = channel::<Work>();
        let (finished, done) = channel();
        let work = Arc::new(Mutex::new(work));
        let wake = Arc::new(wake);
        for _ in 0..THREADS {
            let (work, finished, wake) = (Arc::clone(&work), finished.clone(), Arc::clone(&wake));
            thread::spawn(move || {
                while let Some(next) = next(&work) {
                    if finished.send(next.run()).is_err() {
                        return;
                    }
                    wake();
                }
            });
        }
        Self {
            queue,
            done,
            waiting: 0,
        }
    }

    /// Begins work.
    pub fn begin(&mut self, work: Work) {
        // The threads live as long as this.
        if self.queue.send(work).is_ok() {
            self.waiting += 1;
        }
    }

    /// What has been done since the last call.
    pub fn finished(&mut self) -> Vec<Done> {
        let done: Vec<Done> = self.done.try_iter().collect();
        self.waiting = self.waiting.saturating_sub(done.len());
        done
    }

    /// Whether nothing is under way.
    pub fn idle(&self) -> bool {
        self.waiting == 0
    }
}

fn next(work: &Mutex<Receiver<Work>>) -> Option<Work> {
    // No thread panics while it holds the lock.
    work.lock().ok()?.recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Loadable;

    #[test]
    fn a_fault_in_work_is_told_and_takes_nothing_along() {
        let mut state = State::for_tests();
        let fault: fn() -> fn(&mut State) = || panic!("a bug");
        Work::new("reading the moon", fault).run()(&mut state);
        assert!(state.toasts[0].text.contains("reading the moon failed"));
    }

    #[test]
    fn what_waits_for_work_that_fell_over_is_told_what_happened_and_waits_no_more() {
        let mut state = State::for_tests();
        state.pages.settings.disk = Loadable::Loading;
        let fault = || -> Result<crate::pages::settings::Listing, Problem> { panic!("row {} is missing", 7) };
        let work = Work::awaited("adding up", fault, |state, listing| {
            state.pages.settings.disk = listing.into();
        });
        work.run()(&mut state);
        let Loadable::Failed(problem) = &state.pages.settings.disk else {
            panic!("it is waited for");
        };
        assert_eq!(problem.code, "internal");
        assert_eq!(
            problem.message,
            "adding up failed because of a fault in Tunesmith itself: row 7 is missing"
        );
        assert!(!problem.hints.is_empty());
        assert!(state.toasts.is_empty(), "it is told once, where it is waited for");
    }

    #[test]
    fn what_was_read_reaches_the_state() {
        let mut state = State::for_tests();
        let work = Work::awaited(
            "reading",
            || Ok(7_u64),
            |state, read| {
                state.now_secs = read.unwrap_or_default() as f64;
            },
        );
        work.run()(&mut state);
        assert!((state.now_secs - 7.0).abs() < 1e-12);
    }
}
