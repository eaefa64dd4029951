//! A model hub of one model for a test, on this machine: its API and its files, as far as fetching needs them.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The model's name.
pub(crate) const MODEL: &str = "maker/tiny";
/// Its only commit.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Serves a model folder until the test ends.
pub(crate) struct TestHub {
    /// What HF_ENDPOINT should be.
    pub(crate) endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestHub {
    pub(crate) fn of(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (folder, heard) = (folder.to_owned(), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&stream.unwrap(), &folder, &heard);
            }
        });
        Self { endpoint, requests }
    }

    /// A hub that nobody serves.
    pub(crate) fn gone() -> Self {
        Self {
            endpoint: "http://127.0.0.1:1".to_owned(),
            requests: Arc::default(),
        }
    }

    /// The request lines since the last call, each with its token.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn description(folder: &Path) -> Value {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let siblings: Vec<Value> = files
        .iter()
        .map(|file| {
            let content = fs::read(file).unwrap();
            let mut hash = String::new();
            for byte in Sha256::digest(&content) {
                write!(hash, "{byte:02x}").unwrap();
            }
            json!({
                "rfilename": file.file_name().unwrap().to_str(),
                "size": content.len(),
                "lfs": {"sha256": hash, "size": content.len()},
            })
        })
        .collect();
    json!({"sha": COMMIT, "gated": false, "cardData": {"license": "apache-2.0"}, "siblings": siblings})
}

fn answer(stream: &TcpStream, folder: &Path, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    let Some(mut path) = request(&mut reader, heard) else {
        return;
    };
    if path.starts_with("CONNECT ") {
        // As a proxy: say yes, then be what was asked for.
        let mut stream = stream;
        stream.write_all(b"HTTP/1.1 200 x\r\n\r\n").unwrap();
        let Some(inner) = request(&mut reader, heard) else {
            return;
        };
        path = inner;
    }
    let path = path.split(' ').nth(1).unwrap_or_default();
    // A proxy is asked for a whole address.
    let path = path
        .split_once("://")
        .map_or(path, |(_, rest)| &rest[rest.find('/').unwrap_or(0)..]);
    let body = if path.starts_with(&format!("/api/models/{MODEL}/revision/")) {
        Some(description(folder).to_string().into_bytes())
    } else {
        let name = path.strip_prefix(&format!("/{MODEL}/resolve/{COMMIT}/"));
        name.and_then(|name| fs::read(folder.join(name)).ok())
    };
    let (status, body) = body.map_or((404, Vec::new()), |body| (200, body));
    let head = format!(
        "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    // A client that has seen enough may be gone.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}

/// The first line of a request.
fn request(reader: &mut impl BufRead, heard: &Mutex<Vec<String>>) -> Option<String> {
    let mut lines = reader.lines();
    let first = lines.next()?.ok()?;
    let headers: BTreeMap<String, String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        })
        .collect();
    let token = headers.get("authorization").cloned().unwrap_or_default();
    heard
        .lock()
        .unwrap()
        .push(format!("{first} {token}").trim_end().to_owned());
    Some(first)
}
