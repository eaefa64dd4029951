//! Who hears what tasks say: the window that is there, whichever that is, the program that hosts the service, and the
//! stories from which a later window is told. All three hear every line once and in the same order, also while windows
//! come and go: whatever is said, is said under one lock.

use std::{
    io::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tunesmith_protocol::{Notice, SERVICE_VERSION, TaskId, TaskWork};

use super::{LinkId, outbox::Outbox, story::Stories};

/// What the hosting program does with a line. It is called under the lock: it must neither wait nor speak to the
/// audience.
pub(super) type Listener = Box<dyn Fn(&Notice) + Send + Sync>;

/// All who listen.
pub(super) struct Audience {
    seats: Mutex<Seats>,
    listener: Listener,
}

#[derive(Default)]
struct Seats {
    stories: Stories,
    window: Option<(LinkId, Arc<Outbox>)>,
    /// The window that came last, there or gone.
    latest: LinkId,
}

impl Audience {
    pub(super) fn new(listener: Listener) -> Self {
        Self {
            seats: Mutex::default(),
            listener,
        }
    }

    /// A window has come. It takes the place of the one before it, and is told what that one was told.
    pub(super) fn admit(
        &self,
        link: LinkId,
        output: impl Write + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) {
        let mut seats = self.lock();
        let mut first = vec![Notice::Welcome {
            service: SERVICE_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }];
        let earlier = seats.stories.tell();
        if !earlier.is_empty() {
            first.extend(earlier);
            first.push(Notice::UpToDate);
        }
        let outbox = Outbox::start(first, output, gone);
        seats.latest = link;
        if let Some((_, before)) = seats.window.replace((link, outbox)) {
            before.close();
        }
    }

    /// A window is gone; whether it was the one that is there now.
    pub(super) fn dismiss(&self, link: LinkId) -> bool {
        let mut seats = self.lock();
        let Some((_, outbox)) = seats.window.take_if(|(there, _)| *there == link) else {
            return false;
        };
        outbox.close();
        true
    }

    /// Whether no window has come after this one.
    pub(super) fn is_latest(&self, link: LinkId) -> bool {
        self.lock().latest == link
    }

    /// A task begins: one that the window has numbered, or one that gets a free number, of which the window is told.
    /// `None` where a task has had the number.
    pub(super) fn begin(&self, number: Option<TaskId>, work: &TaskWork) -> Option<TaskId> {
        let mut seats = self.lock();
        let task = number.unwrap_or_else(|| seats.stories.free_number());
        if seats.stories.knows(task) {
            return None;
        }
        seats.stories.begin(task, work.clone());
        let begins = Notice::Task {
            task,
            work: work.clone(),
        };
        (self.listener)(&begins);
        if number.is_none() {
            seats.send(begins);
        }
        self.say(&mut seats, task, Notice::Started { task });
        Some(task)
    }

    /// A task says something.
    pub(super) fn tell(&self, task: TaskId, notice: Notice) {
        self.say(&mut self.lock(), task, notice);
    }

    /// For the window alone, and of no task's story.
    pub(super) fn answer(&self, notice: Notice) {
        self.lock().send(notice);
    }

    /// Waits until the window has been told everything, or is gone, or `limit` is over.
    pub(super) fn flush(&self, limit: Duration) {
        let window = self.lock().window.as_ref().map(|(_, outbox)| Arc::clone(outbox));
        if let Some(outbox) = window {
            outbox.flush(limit);
        }
    }

    fn say(&self, seats: &mut Seats, task: TaskId, notice: Notice) {
        (self.listener)(&notice);
        seats.stories.take(task, &notice);
        seats.send(notice);
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        // The stories are whole between any two lines.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    fn send(&self, notice: Notice) {
        if let Some((_, outbox)) = &self.window {
            outbox.send(notice);
        }
    }
}
