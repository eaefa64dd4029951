//! Work in the background: reading files, looking at the machine. A few threads, so that a slow folder does not keep
//! the rest waiting, and never so many that they disturb a measurement.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use crate::state::State;

const THREADS: usize = 2;

/// What the work came to: a change of the state, made in the window's thread.
pub type Done = Box<dyn FnOnce(&mut State) + Send>;

/// Work to be done.
pub struct Work {
    name: &'static str,
    run: Box<dyn FnOnce() -> Done + Send>,
}

impl Work {
    /// `run` is called on another thread; what it returns, in the window's.
    pub fn new<D>(name: &'static str, run: impl FnOnce() -> D + Send + 'static) -> Self
    where
        D: FnOnce(&mut State) + Send + 'static,
    {
        Self {
            name,
            run: Box::new(move || Box::new(run())),
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
        catch_unwind(AssertUnwindSafe(self.run)).unwrap_or_else(|_| {
            Box::new(move |state| {
                state.say_stop(format!("{name} failed because of a fault in Tunesmith itself"));
            })
        })
    }
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

    #[test]
    fn a_fault_in_work_is_told_and_takes_nothing_along() {
        let mut state = State::for_tests();
        let fault: fn() -> fn(&mut State) = || panic!("a bug");
        Work::new("reading the moon", fault).run()(&mut state);
        assert!(state.toasts[0].text.contains("reading the moon failed"));
    }
}
