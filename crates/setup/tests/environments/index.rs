//! A package index on this machine, with as many separate indexes in it as a test wants.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::wheel::Wheel;

/// The longest that anything waits here: a test that hangs must end.
const LIMIT: Duration = Duration::from_mins(1);

/// What goes wrong with a file or a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Half of it is sent, then nothing until [`Index::release`].
    Stall,
    /// Bytes are changed on the way, and the page names no checksum.
    Damage,
    /// The page names another checksum.
    WrongHash,
    /// The answer is this status.
    Status(u16),
}

/// A server of package indexes.
pub(crate) struct Index {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By index and package.
    wheels: BTreeMap<(String, String), Vec<Wheel>>,
    /// By the package's name.
    faults: BTreeMap<String, Fault>,
    /// The files that were asked for.
    downloads: Vec<String>,
    requests: usize,
    stalled: bool,
    released: bool,
}

impl Index {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = serving.clone();
                std::thread::spawn(move || {
                    // A client that goes away is what some tests are about.
                    let _ = shared.answer(stream);
                });
            }
        });
        Self { address, shared }
    }

    /// The address of one of the indexes.
    pub(crate) fn url(&self, index: &str) -> String {
        format!("http://{}/{index}/simple", self.address)
    }

    pub(crate) fn add(&self, index: &str, wheel: Wheel) {
        let key = (index.to_owned(), wheel.name.clone());
        let mut state = self.shared.state.lock().unwrap();
        state.wheels.entry(key).or_default().push(wheel);
    }

    pub(crate) fn set_fault(&self, package: &str, fault: Option<Fault>) {
        let mut state = self.shared.state.lock().unwrap();
        match fault {
            Some(fault) => state.faults.insert(package.to_owned(), fault),
            None => state.faults.remove(package),
        };
        state.stalled = false;
        state.released = false;
    }

    /// The wheels that were asked for so far.
    pub(crate) fn downloads(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().downloads.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.shared.state.lock().unwrap().requests
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.shared.state.lock().unwrap().stalled
    }

    pub(crate) fn wait_until_stalled(&self) {
        self.shared.wait_for(|state| state.stalled);
    }

    /// Lets go of the connections that stall; they end without the rest.
    pub(crate) fn release(&self) {
        self.shared.state.lock().unwrap().released = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn wait_for(&self, done: impl Fn(&State) -> bool) {
        let start = Instant::now();
        let mut state = self.state.lock().unwrap();
        while !done(&state) {
            assert!(start.elapsed() < LIMIT, "nothing happened for too long");
            state = self
                .changed
                .wait_timeout(state, Duration::from_secs(1))
                .unwrap()
                .0;
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut request = String::new();
        reader.read_line(&mut request)?;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? <= 2 {
                break;
            }
        }
        let mut words = request.split_whitespace();
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
        let path = path.replace("%2B", "+").replace("%2b", "+");
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        self.state.lock().unwrap().requests += 1;
        let (body, fault) = match parts[..] {
            [index, "simple", package] => (self.page(index, package), self.fault(package)),
            [index, "files", package, file] => {
                let body = self.file(index, package, file);
                let is_wheel = std::path::Path::new(file)
                    .extension()
                    .is_some_and(|end| end == "whl");
                if is_wheel && method == "GET" {
                    self.state.lock().unwrap().downloads.push(file.to_owned());
                }
                (body, self.fault(package).filter(|_| is_wheel))
            }
            _ => (None, None),
        };
        let (status, mut body) = match (body, fault) {
            (_, Some(Fault::Status(status))) => (status, b"no".to_vec()),
            (None, _) => (404, b"no".to_vec()),
            (Some(body), _) => (200, body),
        };
        let is_page = parts.get(1) == Some(&"simple");
        if fault == Some(Fault::Damage) && !is_page {
            // The local headers of the archive's members.
            for byte in body.iter_mut().skip(14).take(200) {
                *byte ^= 0x55;
            }
        }
        write!(
            stream,
            "HTTP/1.1 {status} x\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            if is_page {
                "text/html"
            } else {
                "application/octet-stream"
            },
            body.len()
        )?;
        if method == "HEAD" {
            return Ok(());
        }
        if fault == Some(Fault::Stall) && !is_page {
            stream.write_all(&body[..body.len() / 2])?;
            stream.flush()?;
            self.state.lock().unwrap().stalled = true;
            self.changed.notify_all();
            self.wait_for(|state| state.released);
            return Ok(());
        }
        stream.write_all(&body)
    }

    fn fault(&self, package: &str) -> Option<Fault> {
        self.state.lock().unwrap().faults.get(package).copied()
    }

    /// The list of a package's wheels, as the simple API has it (PEP 503, and PEP 658 for the metadata).
    fn page(&self, index: &str, package: &str) -> Option<Vec<u8>> {
        let state = self.state.lock().unwrap();
        let wheels = state.wheels.get(&(index.to_owned(), package.to_owned()))?;
        let mut page = String::from("<!DOCTYPE html><html><body>\n");
        for wheel in wheels {
            let hash = match state.faults.get(package) {
                Some(Fault::Damage) => String::new(),
                Some(Fault::WrongHash) => format!("#sha256={}", "0".repeat(64)),
                _ => format!("#sha256={}", hex(&Sha256::digest(wheel.bytes()))),
            };
            let name = wheel.file_name();
            writeln!(
                page,
                "<a href=\"/{index}/files/{package}/{}{hash}\" data-core-metadata=\"true\">{name}</a>",
                name.replace('+', "%2B")
            )
            .unwrap();
        }
        Some((page + "</body></html>\n").into_bytes())
    }

    fn file(&self, index: &str, package: &str, file: &str) -> Option<Vec<u8>> {
        let state = self.state.lock().unwrap();
        let wheels = state.wheels.get(&(index.to_owned(), package.to_owned()))?;
        let (name, metadata) = match file.strip_suffix(".metadata") {
            Some(name) => (name, true),
            None => (file, false),
        };
        let wheel = wheels.iter().find(|wheel| wheel.file_name() == name)?;
        Some(if metadata {
            wheel.metadata().into_bytes()
        } else {
            wheel.bytes()
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
