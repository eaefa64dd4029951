//! Keeps the system from going to sleep while a task runs, and lets it sleep again after. Who cannot, does not: a training
//! on a machine that may sleep is better than none, so a system that refuses is told of once and nothing else happens.
//!
//! The lock is held on a thread of its own: Windows counts it by thread, and a bus that does not answer must hold nobody up.

use std::{
    sync::mpsc::{Sender, channel},
    thread,
};

/// A way to keep a system awake.
pub(crate) trait Inhibit: Send + 'static {
    /// What keeps it awake until it is dropped.
    type Lock;

    /// Keeps it awake.
    ///
    /// # Errors
    /// Why the system refuses, in words.
    fn inhibit(&mut self, why: &str) -> Result<Self::Lock, String>;
}

/// The system's wakefulness.
pub(crate) struct Awake {
    wishes: Sender<Option<String>>,
}

impl Awake {
    /// `refused` is called, on another thread, the first time that the system refuses.
    pub(crate) fn by<I: Inhibit>(mut inhibit: I, refused: impl FnOnce(String) + Send + 'static) -> Self {
        let (wishes, asked) = channel::<Option<String>>();
        let mut refused = Some(refused);
        thread::spawn(move || {
            let mut lock: Option<I::Lock> = None;
            for why in asked {
                // One after the other, so that there is never none between two tasks that follow each other.
                lock = match why.map(|why| inhibit.inhibit(&why)) {
                    None => None,
                    Some(Ok(held)) => Some(held),
                    Some(Err(error)) => {
                        if let Some(refused) = refused.take() {
                            refused(error);
                        }
                        None
                    }
                };
            }
            drop(lock);
        });
        Self { wishes }
    }

    /// Keeps the system awake for this reason, or lets it sleep. Returns at once.
    pub(crate) fn set(&self, why: Option<String>) {
        // The thread ends with this.
        let _ = self.wishes.send(why);
    }
}

/// This system's way.
#[cfg(target_os = "linux")]
pub(crate) fn system() -> impl Inhibit {
    logind::Logind::system()
}

/// This system's way.
#[cfg(any(target_os = "macos", windows))]
pub(crate) fn system() -> impl Inhibit {
    ByCrate
}

/// This system's way: none that is known.
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub(crate) fn system() -> impl Inhibit {
    Unknown
}

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
struct Unknown;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
impl Inhibit for Unknown {
    type Lock = ();

    fn inhibit(&mut self, _why: &str) -> Result<(), String> {
        Err("how this system is kept awake is not known".to_owned())
    }
}

/// `SetThreadExecutionState` on Windows, a power assertion on macOS.
#[cfg(any(target_os = "macos", windows))]
struct ByCrate;

#[cfg(any(target_os = "macos", windows))]
impl Inhibit for ByCrate {
    type Lock = keepawake::KeepAwake;

    fn inhibit(&mut self, why: &str) -> Result<Self::Lock, String> {
        keepawake::Builder::default()
            .idle(true)
            .reason(reason(why))
            .app_name("Tunesmith")
            .app_reverse_domain("app.tunesmith.Tunesmith")
            .create()
            .map_err(|error| error.to_string())
    }
}

/// What a user is told who asks why the system does not sleep.
fn reason(what: &str) -> String {
    format!("{what} is under way")
}

#[cfg(target_os = "linux")]
mod logind {
    //! systemd's logind, or elogind, gives a file whose being open is the lock:
    //! <https://systemd.io/INHIBITOR_LOCKS>. It is closed with this process, however that ends.

    use zbus::{
        blocking::{Connection, connection::Builder},
        zvariant::OwnedFd,
    };

    use super::{Inhibit, reason};

    /// Connects to the bus where logind is.
    type Connect = Box<dyn FnMut() -> zbus::Result<Connection> + Send>;

    pub(super) struct Logind {
        connect: Connect,
    }

    impl Logind {
        /// On the system's bus.
        pub(super) fn system() -> Self {
            Self::through(Box::new(|| Builder::system()?.build()))
        }

        pub(super) fn through(connect: Connect) -> Self {
            Self { connect }
        }
    }

    impl Inhibit for Logind {
        type Lock = OwnedFd;

        fn inhibit(&mut self, why: &str) -> Result<OwnedFd, String> {
            // The lock outlives the connection, which would else be open for as long as the app.
            let bus = (self.connect)().map_err(|error| error.to_string())?;
            lock(&bus, &reason(why)).map_err(|error| error.to_string())
        }
    }

    fn lock(bus: &Connection, why: &str) -> zbus::Result<OwnedFd> {
        let reply = bus.call_method(
            Some("org.freedesktop.login1"),
            "/org/freedesktop/login1",
            Some("org.freedesktop.login1.Manager"),
            "Inhibit",
            // `sleep` refuses a suspend, `idle` keeps the desktop from asking for one.
            &("sleep:idle", "Tunesmith", why, "block"),
        )?;
        let body = reply.body();
        body.deserialize()
    }

    #[cfg(test)]
    mod tests {
        use std::{
            io::{PipeReader, PipeWriter, Read, pipe},
            os::{fd::OwnedFd as StdFd, unix::net::UnixStream},
            sync::{
                Arc, Mutex,
                mpsc::{Receiver, channel},
            },
            time::Duration,
        };

        use super::super::Awake;
        use super::*;

        /// What was asked of it: what is inhibited, by whom, why, and how.
        type Asked = Arc<Mutex<Vec<(String, String, String, String)>>>;

        /// logind as far as this program knows it: it gives away the writing end of a pipe, and the reading end says
        /// when that was closed.
        struct FakeLogind {
            asked: Asked,
            locks: std::sync::mpsc::Sender<PipeReader>,
            refuses: bool,
        }

        #[zbus::interface(name = "org.freedesktop.login1.Manager")]
        impl FakeLogind {
            fn inhibit(
                &mut self,
                what: String,
                who: String,
                why: String,
                mode: String,
            ) -> zbus::fdo::Result<OwnedFd> {
                if self.refuses {
                    return Err(zbus::fdo::Error::AccessDenied("not in this session".to_owned()));
                }
                self.asked.lock().unwrap().push((what, who, why, mode));
                let (reader, writer): (PipeReader, PipeWriter) = pipe().unwrap();
                self.locks.send(reader).unwrap();
                Ok(StdFd::from(writer).into())
            }
        }

        struct Bench {
            asked: Asked,
            locks: Receiver<PipeReader>,
            awake: Awake,
            refusals: Receiver<String>,
        }

        fn bench(refuses: bool) -> Bench {
            let asked = Arc::new(Mutex::new(Vec::new()));
            let (locks, given) = channel();
            let fake_asked = Arc::clone(&asked);
            // A bus for each connection, since the two talk to each other without a daemon.
            let connect = move || {
                let (here, there) = UnixStream::pair()?;
                let logind = FakeLogind {
                    asked: Arc::clone(&fake_asked),
                    locks: locks.clone(),
                    refuses,
                };
                let (ready, server) = channel();
                std::thread::spawn(move || {
                    let guid = zbus::Guid::generate();
                    let served = Builder::async_io_unix_stream(there)
                        .server(guid)
                        .unwrap()
                        .p2p()
                        .serve_at("/org/freedesktop/login1", logind)
                        .unwrap()
                        .build();
                    // It serves for as long as it is held.
                    let _ = ready.send(served);
                });
                let client = Builder::async_io_unix_stream(here).p2p().build()?;
                let served = server.recv().unwrap()?;
                std::thread::spawn(move || {
                    std::thread::park_timeout(Duration::from_mins(1));
                    drop(served);
                });
                Ok(client)
            };
            let (told, refusals) = channel();
            let awake = Awake::by(Logind::through(Box::new(connect)), move |why| {
                told.send(why).unwrap();
            });
            Bench {
                asked,
                locks: given,
                awake,
                refusals,
            }
        }

        fn next<T>(receiver: &Receiver<T>) -> T {
            receiver.recv_timeout(Duration::from_secs(20)).unwrap()
        }

        /// Returns when the other end was closed.
        fn wait_until_let_go(mut lock: PipeReader) {
            let mut nothing = Vec::new();
            lock.read_to_end(&mut nothing).unwrap();
        }

        #[test]
        fn sleep_is_blocked_while_a_task_runs_and_let_go_after() {
            let bench = bench(false);
            bench.awake.set(Some("Fine-tuning".to_owned()));
            let lock = next(&bench.locks);
            let asked = bench.asked.lock().unwrap().clone();
            let [(what, who, why, mode)] = &asked[..] else {
                panic!("{asked:?}");
            };
            assert_eq!(
                (what.as_str(), who.as_str(), why.as_str(), mode.as_str()),
                ("sleep:idle", "Tunesmith", "Fine-tuning is under way", "block")
            );
            bench.awake.set(None);
            wait_until_let_go(lock);
            // The end of the app lets go too.
            bench.awake.set(Some("Set-up".to_owned()));
            let lock = next(&bench.locks);
            drop(bench.awake);
            wait_until_let_go(lock);
        }

        #[test]
        fn a_system_that_refuses_is_told_of_once() {
            let bench = bench(true);
            bench.awake.set(Some("Fine-tuning".to_owned()));
            assert!(next(&bench.refusals).contains("not in this session"));
            bench.awake.set(Some("Fine-tuning".to_owned()));
            bench.awake.set(None);
            drop(bench.awake);
            assert!(bench.refusals.recv().is_err(), "it was told twice");
        }
    }
}
