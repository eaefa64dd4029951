//! What waits to be written to the window. Whoever leads a task never waits for the window: a window that does not read
//! must neither stall an engine nor lose a result.
//!
//! - Results (`started`, `stage`, `run`, `experiment`, `finding`, `answered`, `ended`, `refused`) always wait; a task has few of them.
//! - A `progress` takes the place of the one before it, a `piece` joins the one before it: nothing is lost by either.
//! - Where more than [`MOST_WAITING`] wait, the oldest `step`, `progress` or `log` makes room. The window sees a gap in
//!   the numbers of the steps and reads the run's `events.jsonl`, which has them all; `engine.log` has the text.
//! - What a window that comes late is told first (see `story`) waits beside that number, however much it is.

use std::{
    collections::VecDeque,
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tunesmith_protocol::{Notice, encode};

/// Notices that may wait before passing ones make room.
const MOST_WAITING: usize = 4096;

/// The one place that writes to the window.
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    waiting: VecDeque<Notice>,
    /// How many may wait before passing ones make room.
    most: usize,
    /// A line is on its way.
    writing: bool,
    /// The window reads no more.
    closed: bool,
}

impl Outbox {
    /// Writes to `output` on a thread of its own, `first` before all else; `gone` is called once when that fails.
    pub(super) fn start(
        first: Vec<Notice>,
        output: impl Write + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) -> Arc<Self> {
        let outbox = Arc::new(Self {
            queue: Mutex::new(Queue {
                most: MOST_WAITING + first.len(),
                waiting: first.into(),
                writing: false,
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let writer = Arc::clone(&outbox);
        thread::spawn(move || {
            writer.write_all(output);
            gone();
        });
        outbox
    }

    /// Puts a notice into the line. Never waits for the window.
    pub(super) fn send(&self, notice: Notice) {
        let mut queue = self.lock();
        if !queue.closed {
            queue.push(notice);
            self.changed.notify_all();
        }
    }

    /// Waits until all is written, or the window reads no more, or `limit` is over.
    pub(super) fn flush(&self, limit: Duration) {
        let busy = |queue: &mut Queue| !queue.closed && (queue.writing || !queue.waiting.is_empty());
        // What is not written by then is not waited for.
        drop(self.changed.wait_timeout_while(self.lock(), limit, busy));
    }

    /// Nothing more is written but the line that is on its way, and the output is closed.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.waiting.clear();
        self.changed.notify_all();
    }

    fn write_all(&self, mut output: impl Write) {
        while let Some(notice) = self.next() {
            // One write for a line, and none of it left behind in a buffer.
            let written = output
                .write_all(encode(&notice).as_bytes())
                .and_then(|()| output.flush());
            let mut queue = self.lock();
            queue.writing = false;
            if written.is_err() {
                queue.closed = true;
                queue.waiting.clear();
            }
            self.changed.notify_all();
        }
    }

    /// The next line, once there is one; `None` when there will be none.
    fn next(&self) -> Option<Notice> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(notice) = queue.waiting.pop_front() {
                queue.writing = true;
                return Some(notice);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A queue is whole between any two of its changes.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, notice: Notice) {
        match (self.waiting.back_mut(), notice) {
            (
                Some(Notice::Piece { task, side, text }),
                Notice::Piece {
                    task: same_task,
                    side: same_side,
                    text: more,
                },
            ) if *task == same_task && *side == same_side => text.push_str(&more),
            (Some(last @ Notice::Progress { .. }), notice @ Notice::Progress { .. }) => *last = notice,
            (_, notice) => self.waiting.push_back(notice),
        }
        if self.waiting.len() > self.most
            && let Some(oldest) = self.waiting.iter().position(is_passing)
        {
            self.waiting.remove(oldest);
        }
    }
}

fn is_passing(notice: &Notice) -> bool {
    matches!(
        notice,
        Notice::Step { .. } | Notice::Progress { .. } | Notice::Log { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tunesmith_protocol::{EngineError, Level, Progress, Side, decode_notice};

    use super::*;

    /// A window that takes a line only when it is allowed to.
    struct SlowWindow {
        allowed: Receiver<()>,
        lines: Sender<String>,
    }

    impl Write for SlowWindow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            let line = String::from_utf8(bytes.to_vec()).unwrap();
            self.lines.send(line).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Bench {
        outbox: Arc<Outbox>,
        allow: Sender<()>,
        lines: Receiver<String>,
        gone: Receiver<()>,
    }

    fn bench() -> Bench {
        bench_with(Vec::new())
    }

    fn bench_with(first: Vec<Notice>) -> Bench {
        let (allow, allowed) = channel();
        let (sender, lines) = channel();
        let (tell, gone) = channel();
        let window = SlowWindow {
            allowed,
            lines: sender,
        };
        Bench {
            outbox: Outbox::start(first, window, move || {
                let _ = tell.send(());
            }),
            allow,
            lines,
            gone,
        }
    }

    impl Bench {
        /// Everything that waits, as the window reads it.
        fn read_all(&self) -> Vec<Notice> {
            for _ in 0..=4 * MOST_WAITING {
                // A window that is gone needs no leave.
                let _ = self.allow.send(());
            }
            self.outbox.flush(Duration::from_secs(20));
            self.lines
                .try_iter()
                .map(|line| decode_notice(&line).unwrap())
                .collect()
        }
    }

    fn log(n: usize) -> Notice {
        Notice::Log {
            task: 1,
            level: Level::Info,
            text: n.to_string(),
        }
    }

    fn refused(n: u64) -> Notice {
        Notice::Refused {
            task: Some(n),
            error: EngineError {
                code: "busy".to_owned(),
                message: String::new(),
                hints: Vec::new(),
            },
        }
    }

    #[test]
    fn a_window_that_does_not_read_holds_nobody_up_and_loses_no_result() {
        let bench = bench();
        for n in 0..3 * MOST_WAITING {
            bench.outbox.send(log(n));
            if n % 1000 == 0 {
                bench.outbox.send(refused(n as u64));
            }
        }
        bench.outbox.send(Notice::Started { task: 7 });
        let read = bench.read_all();
        let results = read.iter().filter(|notice| !is_passing(notice)).count();
        assert_eq!(results, 3 * MOST_WAITING / 1000 + 2);
        assert!(read.len() <= MOST_WAITING + 1, "{} waited", read.len());
        // The newest is kept, in order.
        assert_eq!(
            read[read.len() - 2..],
            [log(3 * MOST_WAITING - 1), Notice::Started { task: 7 }]
        );
    }

    #[test]
    fn pieces_join_and_a_later_progress_replaces_an_earlier_one() {
        let piece = |side, text: &str| Notice::Piece {
            task: 1,
            side,
            text: text.to_owned(),
        };
        let progress = |done| Notice::Progress {
            task: 1,
            progress: Progress {
                stage: "load".to_owned(),
                done,
                total: 9,
                unit: "tensors".to_owned(),
                eta_secs: None,
            },
        };
        let bench = bench();
        // The writer takes this one and waits with it.
        bench.outbox.send(log(0));
        while !bench.outbox.lock().writing {
            thread::yield_now();
        }
        for notice in [
            piece(Side::Base, "a"),
            piece(Side::Base, "b"),
            piece(Side::Tuned, "c"),
            progress(1),
            progress(2),
            piece(Side::Tuned, "d"),
        ] {
            bench.outbox.send(notice);
        }
        let expected = [
            log(0),
            piece(Side::Base, "ab"),
            piece(Side::Tuned, "c"),
            progress(2),
            piece(Side::Tuned, "d"),
        ];
        assert_eq!(bench.read_all(), expected);
    }

    #[test]
    fn a_window_that_is_gone_is_told_of_once_and_nothing_waits_for_it() {
        let bench = bench();
        bench.outbox.send(log(0));
        drop(bench.allow);
        bench.gone.recv_timeout(Duration::from_secs(20)).unwrap();
        bench.outbox.send(log(1));
        bench.outbox.flush(Duration::from_secs(20));
        assert!(bench.outbox.lock().waiting.is_empty());
    }

    #[test]
    fn what_a_late_window_is_told_first_makes_no_room_and_takes_none() {
        let first: Vec<Notice> = (0..2 * MOST_WAITING).map(log).collect();
        let bench = bench_with(first.clone());
        for n in 0..MOST_WAITING - 1 {
            bench.outbox.send(refused(n as u64));
        }
        let read = bench.read_all();
        assert_eq!(read[..first.len()], first);
        assert_eq!(read.len(), 3 * MOST_WAITING - 1);
    }

    #[test]
    fn a_closed_outbox_lets_go_of_its_output() {
        let bench = bench();
        bench.outbox.close();
        bench.gone.recv_timeout(Duration::from_secs(20)).unwrap();
        bench.outbox.send(log(1));
        assert!(bench.read_all().is_empty());
    }
}
