//! A service that outlives its windows: what the installed app's shell hosts. A run goes on while no window is there, and
//! a window that comes later shows all of it.

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use tunesmith_protocol::{Command, Notice, StopHow, TaskWork};

use super::{Heard, LINES_WAITING, LinkId, Service, ServiceOptions, attach, audience::Audience};

/// What the hosting program is told.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A task says something; [`Notice::Task`] comes before all else of it.
    Notice(&'a Notice),
    /// A window wants something of the app: [`Command::Painted`], [`Command::Quit`] or [`Command::ShowReport`].
    Wish(LinkId, &'a Command),
    /// A window's pipe has ended.
    WindowGone(LinkId),
}

/// How it is told.
pub(super) type Watch = Arc<dyn Fn(Told<'_>) + Send + Sync>;

/// A service whose tasks go on when a window goes away.
pub struct Host {
    audience: Arc<Audience>,
    sender: SyncSender<Heard>,
    links: AtomicU64,
    service: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts the service; no window is there yet. `watch` is told what happens, on the service's threads: it must
    /// neither wait nor call this host.
    pub fn start(options: ServiceOptions, watch: impl Fn(Told<'_>) + Send + Sync + 'static) -> Self {
        let watch: Watch = Arc::new(watch);
        let listener = Arc::clone(&watch);
        let audience = Arc::new(Audience::new(Box::new(move |notice| {
            listener(Told::Notice(notice));
        })));
        let (sender, heard) = sync_channel(LINES_WAITING);
        let service = Service::new(Arc::clone(&audience), sender.clone(), options, Some(watch));
        Self {
            audience,
            sender,
            links: AtomicU64::new(1),
            service: Some(thread::spawn(move || service.run(&heard))),
        }
    }

    /// Connects a window, in place of the one that was there. It is welcomed, and told what was said before it came.
    pub fn attach(&self, input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> LinkId {
        let link = self.links.fetch_add(1, Ordering::Relaxed);
        attach(&self.audience, &self.sender, link, input, output);
        link
    }

    /// Closes a window's pipe, which makes the window leave.
    pub fn detach(&self, link: LinkId) {
        self.audience.dismiss(link);
    }

    /// Says something to the window alone, where there is one.
    pub fn say(&self, notice: Notice) {
        self.audience.answer(notice);
    }

    /// Begins a task of the app's own. Where one runs already, nothing happens.
    pub fn begin(&self, work: TaskWork) {
        self.send(Heard::Begin(Box::new(work)));
    }

    /// Asks the task at hand to stop.
    pub fn stop(&self, how: StopHow) {
        self.send(Heard::Stop(how));
    }

    /// Ends whatever runs, at once and without saving, and returns within two seconds. The process should end then:
    /// an engine that did not heed sees its input end with it.
    pub fn leave(mut self) {
        self.send(Heard::Leave);
        if let Some(service) = self.service.take() {
            // What it had to say it has said.
            let _ = service.join();
        }
    }

    fn send(&self, heard: Heard) {
        // Only a host that leaves has a service that is over.
        let _ = self.sender.send(heard);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Lines, PipeReader, PipeWriter, pipe},
        path::PathBuf,
        sync::mpsc::{Receiver, channel},
        time::Duration,
    };

    use tunesmith_protocol::{decode_notice, encode};

    use super::*;

    struct Window {
        link: LinkId,
        says: PipeWriter,
        hears: Lines<BufReader<PipeReader>>,
    }

    impl Window {
        fn open(host: &Host) -> Self {
            let (input, says) = pipe().unwrap();
            let (hears, output) = pipe().unwrap();
            let link = host.attach(input, output);
            let mut window = Self {
                link,
                says,
                hears: BufReader::new(hears).lines(),
            };
            assert!(matches!(window.next(), Some(Notice::Welcome { .. })));
            window
        }

        fn next(&mut self) -> Option<Notice> {
            let line = self.hears.next()?.unwrap();
            Some(decode_notice(&line).unwrap())
        }

        fn say(&mut self, command: &Command) {
            self.says.write_all(encode(command).as_bytes()).unwrap();
        }

        fn until_ended(&mut self) -> Vec<Notice> {
            let mut notices = Vec::new();
            loop {
                let notice = self.next().unwrap();
                let bare = match &notice {
                    Notice::Earlier { notice, .. } => notice,
                    notice => notice,
                };
                let is_last = matches!(bare, Notice::Ended { .. });
                notices.push(notice);
                if is_last {
                    return notices;
                }
            }
        }
    }

    /// What the host was told of its windows.
    fn start() -> (Host, Receiver<String>) {
        let (sender, told) = channel();
        let host = Host::start(ServiceOptions::default(), move |what| {
            let word = match what {
                Told::Notice(_) => return,
                Told::Wish(link, wish) => format!("{link} {wish:?}"),
                Told::WindowGone(link) => format!("{link} gone"),
            };
            // A test that has seen enough is over.
            let _ = sender.send(word);
        });
        (host, told)
    }

    fn next(told: &Receiver<String>) -> String {
        told.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// A task that needs no engine and is over soon, though not well.
    fn report() -> TaskWork {
        TaskWork::Report {
            run: "there-is-no-such-run".to_owned(),
        }
    }

    #[test]
    fn a_window_that_comes_later_is_told_what_was_said_before() {
        let (host, told) = start();
        let mut first = Window::open(&host);
        first.say(&Command::Start {
            task: 7,
            work: report(),
        });
        let heard = first.until_ended();
        assert_eq!(heard[0], Notice::Started { task: 7 });
        let gone = first.link;
        drop(first);
        assert_eq!(next(&told), format!("{gone} gone"));

        let mut second = Window::open(&host);
        let again: Vec<Notice> = second
            .until_ended()
            .into_iter()
            .map(|notice| match notice {
                Notice::Earlier { notice, .. } => *notice,
                other => panic!("{other:?} was not said before"),
            })
            .collect();
        let begins = Notice::Task {
            task: 7,
            work: report(),
        };
        assert_eq!(again[0], begins);
        assert_eq!(again[1..], heard);
        assert_eq!(second.next(), Some(Notice::UpToDate));
        // What the host begins gets a number of its own, and the window is told what it is.
        host.begin(report());
        let begins = Notice::Task {
            task: 8,
            work: report(),
        };
        assert_eq!(second.next(), Some(begins));
        assert_eq!(second.next(), Some(Notice::Started { task: 8 }));
        second.until_ended();
        second.say(&Command::Start {
            task: 8,
            work: report(),
        });
        match second.next() {
            Some(Notice::Refused { task, error }) => {
                assert_eq!((task, error.code.as_str()), (Some(8), "number_used"));
            }
            other => panic!("{other:?}"),
        }
        host.leave();
    }

    #[test]
    fn the_app_hears_what_a_window_wants_of_it_and_a_replaced_one_is_heard_no_more() {
        let (host, told) = start();
        let mut first = Window::open(&host);
        first.say(&Command::Painted);
        assert_eq!(next(&told), format!("{} Painted", first.link));
        let mut second = Window::open(&host);
        assert_eq!(first.next(), None, "its pipe is closed");
        // Its own end of the pipe is open still.
        first.say(&Command::Quit);
        let file = PathBuf::from("/runs/r/report.html");
        second.say(&Command::ShowReport { file: file.clone() });
        let shown = Command::ShowReport { file };
        assert_eq!(next(&told), format!("{} {shown:?}", second.link));
        host.say(Notice::Focus);
        assert_eq!(second.next(), Some(Notice::Focus));
        let link = second.link;
        host.detach(link);
        assert_eq!(second.next(), None);
        // A word that was said last counts, though the pipe is closed.
        second.say(&Command::Quit);
        assert_eq!(next(&told), format!("{link} Quit"));
        host.leave();
    }
}
