//! Models from a hub, against a small one of our own on this machine: fetching, going on after a cut, refusals, the cache.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha1::Digest as _;
use tempfile::TempDir;
use tunesmith_models::hub::{Hub, HubError, HubId, Plan};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OLD_COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";
const MODEL: &str = "maker/small";

/// What the hub does next.
#[derive(Clone, Default)]
struct Behaviour {
    /// Ends each answer with a file after so many bytes, this many times.
    cut_after: usize,
    cuts: usize,
    /// Sends other bytes than it told the hash of.
    lies: bool,
    /// Wants this token for files.
    gate: Option<&'static str>,
    /// Knows no ranges.
    whole_only: bool,
    /// Tells another hash of every file.
    untold: bool,
}

#[derive(Default)]
struct State {
    behaviour: Behaviour,
    /// Each request as method, path, range and token.
    requests: Vec<String>,
}

struct TestHub {
    endpoint: String,
    state: Arc<Mutex<State>>,
    folder: TempDir,
}

fn files() -> BTreeMap<&'static str, Vec<u8>> {
    let weights: Vec<u8> = (0..300_000u32).map(|at| (at * 31 % 251) as u8).collect();
    BTreeMap::from([
        ("README.md", b"not needed".to_vec()),
        ("config.json", b"{}".to_vec()),
        ("tokenizer.json", b"{\"version\": \"1.0\"}".to_vec()),
        ("tokenizer_config.json", b"{}".to_vec()),
        ("pytorch_model.bin", vec![1; 100]),
        ("model.safetensors", weights.clone()),
        ("sub/small.Q4_0.gguf", weights[..1000].to_vec()),
    ])
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

fn git_hash(content: &[u8]) -> String {
    let mut hasher = sha1::Sha1::new();
    hasher.update(format!("blob {}\0", content.len()));
    hasher.update(content);
    hex(&hasher.finalize())
}

fn sha256(content: &[u8]) -> String {
    hex(&<sha2::Sha256 as sha2::Digest>::digest(content))
}

fn description(commit: &str, untold: bool) -> Value {
    let siblings: Vec<Value> = files()
        .iter()
        .map(|(name, content)| {
            let large = name.ends_with("safetensors") || name.ends_with("gguf");
            let mut entry = json!({"rfilename": name, "size": content.len(), "blobId": git_hash(content)});
            if large {
                entry["blobId"] = json!(git_hash(b"pointer"));
                entry["lfs"] = json!({"sha256": sha256(content), "size": content.len(), "pointerSize": 134});
            }
            if untold {
                entry = json!({"rfilename": name});
            }
            entry
        })
        .collect();
    json!({"id": MODEL, "sha": commit, "gated": false, "tags": ["license:mit", "x"], "siblings": siblings})
}

impl TestHub {
    fn new() -> Self {
        Self::behaving(Behaviour::default())
    }

    fn behaving(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            behaviour,
            requests: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || answer(&stream.unwrap(), &shared));
            }
        });
        Self {
            endpoint,
            state,
            folder: TempDir::new().unwrap(),
        }
    }

    fn hub_with(&self, variables: &[(&str, &str)]) -> Hub {
        let home = self.folder.path().to_str().unwrap();
        Hub::from_variables(|name| {
            let own = [("HF_HOME", home), ("HF_ENDPOINT", self.endpoint.as_str())];
            let mut all = variables.iter().chain(&own);
            all.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
        .unwrap()
    }

    fn hub(&self) -> Hub {
        self.hub_with(&[])
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// Every file below the cache, links as their targets' content.
    fn cached(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut waiting = vec![self.folder.path().to_owned()];
        while let Some(folder) = waiting.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    let path = path.strip_prefix(self.folder.path()).unwrap();
                    found.push(path.to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }
}

/// Answers one request and closes.
fn answer(mut stream: &TcpStream, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(first)) = lines.next() else { return };
    let headers: BTreeMap<String, String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        })
        .collect();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut state = state.lock().unwrap();
    state.requests.push(
        format!("{path} {} {}", header("range"), header("authorization"))
            .trim_end()
            .to_owned(),
    );
    let (status, more, body, length) = respond(
        &path,
        &header("range"),
        &header("authorization"),
        &mut state.behaviour,
    );
    drop(state);
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n");
    // A client that has seen enough may be gone.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}

/// Status, headers, body, and the length that is told of it.
fn respond(path: &str, range: &str, token: &str, behaviour: &mut Behaviour) -> (u16, String, Vec<u8>, usize) {
    let whole = |status: u16, more: &str, body: String| {
        (status, more.to_owned(), body.clone().into_bytes(), body.len())
    };
    if let Some(revision) = path.strip_prefix(&format!("/api/models/{MODEL}/revision/")) {
        let commit = match revision.strip_suffix("?blobs=true") {
            Some("main" | COMMIT | "refs%2Fpr%2F1") => COMMIT,
            Some("v1" | OLD_COMMIT) => OLD_COMMIT,
            _ => return whole(404, "x-error-code: RevisionNotFound\r\n", "{}".to_owned()),
        };
        return whole(200, "", description(commit, behaviour.untold).to_string());
    }
    let rest = path.strip_prefix(&format!("/{MODEL}/resolve/"));
    let Some((_, name)) = rest.and_then(|rest| rest.split_once('/')) else {
        return whole(401, "x-error-code: RepoNotFound\r\n", "{}".to_owned());
    };
    if let Some(gate) = behaviour.gate {
        match token {
            "" => return whole(401, "x-error-code: GatedRepo\r\n", "{}".to_owned()),
            token if token != format!("Bearer {gate}") => {
                return whole(403, "x-error-code: GatedRepo\r\n", "{}".to_owned());
            }
            _ => {}
        }
    }
    let mut content = files().remove(name).unwrap();
    if behaviour.lies {
        content[0] ^= 1;
    }
    let total = content.len();
    let from: usize = range
        .strip_prefix("bytes=")
        .and_then(|range| range.trim_end_matches('-').parse().ok())
        .filter(|_| !behaviour.whole_only)
        .unwrap_or(0);
    let rest = content.split_off(from);
    let (status, more) = if from > 0 {
        (
            206,
            format!("content-range: bytes {from}-{}/{total}\r\n", total - 1),
        )
    } else {
        (200, String::new())
    };
    let mut sent = rest.clone();
    if behaviour.cuts > 0 && sent.len() > behaviour.cut_after {
        behaviour.cuts -= 1;
        sent.truncate(behaviour.cut_after);
    }
    (status, more, sent, rest.len())
}

fn id(text: &str) -> HubId {
    text.parse().unwrap()
}

fn fetch(hub: &Hub, plan: &Plan) -> Result<PathBuf, HubError> {
    hub.fetch(plan, None, &mut |_| true)
}

fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

#[test]
fn only_the_needed_files_are_fetched_and_stay() {
    let server = TestHub::new();
    let hub = server.hub();
    let plan = hub.plan(&id(MODEL)).unwrap();
    assert_eq!(plan.id.to_string(), format!("{MODEL}@{COMMIT}"));
    assert_eq!(plan.licence.as_deref(), Some("mit"));
    let names: Vec<&str> = plan.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "model.safetensors"
        ]
    );
    assert_eq!(plan.fetch_bytes, plan.total_bytes);
    let mut told = Vec::new();
    let folder = hub
        .fetch(&plan, Some(plan.fetch_bytes), &mut |progress| {
            told.push((progress.done, progress.total));
            true
        })
        .unwrap();
    assert_eq!(told.last(), Some(&(plan.fetch_bytes, plan.fetch_bytes)));
    assert!(told.is_sorted());
    for (name, content) in files() {
        let wanted = names.contains(&name);
        assert_eq!(folder.join(name).exists(), wanted, "{name}");
        if wanted {
            assert_eq!(read(&folder.join(name)), content, "{name}");
        }
    }
    let cached = server.cached();
    assert!(
        cached.iter().all(|file| !file.ends_with(".partial")),
        "{cached:?}"
    );
    assert!(cached.contains(&format!(
        "hub/models--maker--small/blobs/{}",
        sha256(&files()["model.safetensors"])
    )));
    assert!(cached.contains(&"hub/models--maker--small/refs/main".to_owned()));

    server.requests();
    let again = hub.plan(&id(MODEL)).unwrap();
    assert_eq!(again.fetch_bytes, 0);
    assert_eq!(fetch(&hub, &again).unwrap(), folder);
    assert_eq!(
        server.requests().len(),
        1,
        "a second fetch asks what there is and takes nothing"
    );
}

#[test]
fn one_gguf_file_of_a_repository_is_fetched_alone() {
    let server = TestHub::new();
    let hub = server.hub();
    let plan = hub.plan(&id("maker/small:sub/small.Q4_0.gguf@v1")).unwrap();
    assert_eq!(
        plan.id.to_string(),
        format!("maker/small:sub/small.Q4_0.gguf@{OLD_COMMIT}")
    );
    let path = fetch(&hub, &plan).unwrap();
    assert!(path.ends_with("sub/small.Q4_0.gguf"));
    assert_eq!(read(&path), files()["sub/small.Q4_0.gguf"]);
    assert_eq!(
        hub.find(&id("maker/small:sub/small.Q4_0.gguf@v1")).unwrap(),
        (plan.id, path)
    );
    let error = hub.plan(&id("maker/small:none.gguf")).unwrap_err();
    assert_eq!(error.code(), "hub_unusable");
    assert_eq!(
        error.hints(),
        ["name one of its GGUF files: maker/small:sub/small.Q4_0.gguf"]
    );
}

#[test]
fn a_cut_connection_is_gone_on_with() {
    for whole_only in [false, true] {
        let server = TestHub::behaving(Behaviour {
            cut_after: 100_000,
            cuts: if whole_only { 1 } else { 2 },
            whole_only,
            ..Behaviour::default()
        });
        let hub = server.hub();
        let plan = hub.plan(&id(MODEL)).unwrap();
        let folder = fetch(&hub, &plan).unwrap();
        assert_eq!(
            read(&folder.join("model.safetensors")),
            files()["model.safetensors"]
        );
        let ranges: Vec<String> = server
            .requests()
            .iter()
            .filter(|request| request.contains("model.safetensors"))
            .map(|request| request.split(' ').nth(1).unwrap_or_default().to_owned())
            .collect();
        let expected: &[&str] = if whole_only {
            &["", "bytes=100000-"]
        } else {
            &["", "bytes=100000-", "bytes=200000-"]
        };
        assert_eq!(ranges, expected);
    }
}

#[test]
fn a_stopped_fetch_keeps_what_arrived_and_the_next_goes_on() {
    let server = TestHub::new();
    let hub = server.hub();
    let plan = hub.plan(&id(MODEL)).unwrap();
    let small: u64 = plan.files[..3].iter().map(|file| file.bytes).sum();
    let stopped = hub.fetch(&plan, None, &mut |progress| progress.done <= small);
    assert_eq!(stopped.unwrap_err().code(), "cancelled");
    let partial = server
        .cached()
        .into_iter()
        .find(|file| file.ends_with(".partial"))
        .unwrap();
    let arrived = std::fs::metadata(server.folder.path().join(partial))
        .unwrap()
        .len();
    assert!(arrived > 0);
    let error = hub.find(&id(&format!("{MODEL}@{COMMIT}"))).unwrap_err();
    assert_eq!(error.code(), "model_not_here");
    server.requests();
    let plan = hub.plan(&id(MODEL)).unwrap();
    let folder = fetch(&hub, &plan).unwrap();
    assert_eq!(
        read(&folder.join("model.safetensors")),
        files()["model.safetensors"]
    );
    let whole = arrived == files()["model.safetensors"].len() as u64;
    assert_eq!(
        server
            .requests()
            .iter()
            .any(|request| request.contains(&format!("bytes={arrived}-"))),
        !whole
    );
}

#[test]
fn a_wrong_hash_is_refused_and_nothing_of_it_stays() {
    let server = TestHub::behaving(Behaviour {
        lies: true,
        ..Behaviour::default()
    });
    let hub = server.hub();
    let plan = hub.plan(&id(MODEL)).unwrap();
    let error = fetch(&hub, &plan).unwrap_err();
    assert_eq!(error.code(), "hub_wrong_hash");
    assert!(error.to_string().contains(&git_hash(b"{}")), "{error}");
    assert_eq!(server.cached(), [""; 0]);
    // A large file is checked by the other hash.
    let plan = hub.plan(&id("maker/small:sub/small.Q4_0.gguf")).unwrap();
    let error = fetch(&hub, &plan).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&sha256(&files()["sub/small.Q4_0.gguf"])),
        "{error}"
    );
    server.state.lock().unwrap().behaviour.lies = false;
    assert!(fetch(&hub, &plan).is_ok());
}

#[test]
fn a_hub_that_tells_no_hash_is_not_trusted() {
    let server = TestHub::behaving(Behaviour {
        untold: true,
        ..Behaviour::default()
    });
    let error = server.hub().plan(&id(MODEL)).unwrap_err();
    assert_eq!(error.code(), "hub_answer");
    assert!(
        error.to_string().contains("no size and hash of config.json"),
        "{error}"
    );
}

#[test]
fn a_gated_model_wants_a_token_and_the_right_one() {
    let server = TestHub::behaving(Behaviour {
        gate: Some("hf_good"),
        ..Behaviour::default()
    });
    let with = |token: Option<&str>| {
        let variables: Vec<(&str, &str)> = token.map(|token| ("HF_TOKEN", token)).into_iter().collect();
        let hub = server.hub_with(&variables);
        let plan = hub.plan(&id(MODEL)).unwrap();
        fetch(&hub, &plan)
    };
    let without = with(None).unwrap_err();
    assert_eq!(without.code(), "hub_gated");
    assert!(without.hints()[0].contains("HF_TOKEN"), "{:?}", without.hints());
    assert!(without.hints()[0].contains("/maker/small"));
    let wrong = with(Some("hf_bad")).unwrap_err();
    assert_eq!(wrong.code(), "hub_gated");
    assert!(
        wrong.to_string().contains("your account has no access"),
        "{wrong}"
    );
    let told = format!("{wrong:?} {wrong} {:?}", wrong.hints());
    assert!(!told.contains("hf_bad"), "{told}");
    assert!(with(Some("hf_good")).is_ok());
    let stored = server.cached();
    assert!(
        stored.iter().all(
            |file| !String::from_utf8_lossy(&read(&server.folder.path().join(file))).contains("hf_good")
        )
    );
}

#[test]
fn a_revision_or_model_that_is_not_there_is_named() {
    let server = TestHub::new();
    let hub = server.hub();
    let revision = hub.plan(&id("maker/small@v9")).unwrap_err();
    assert_eq!(
        (revision.code(), revision.to_string().as_str()),
        ("hub_no_revision", "maker/small has no revision v9")
    );
    let model = hub.plan(&id("maker/smal")).unwrap_err();
    assert_eq!(model.code(), "hub_no_model");
    assert!(
        model
            .to_string()
            .contains("maker/smal, or does not show it without a token"),
        "{model}"
    );
    assert!(hub.plan(&id("maker/small@refs/pr/1")).is_ok());
}

#[test]
fn without_a_network_the_cache_answers_or_says_what_is_missing() {
    let server = TestHub::new();
    let offline = server.hub_with(&[("HF_HUB_OFFLINE", "1")]);
    let asked = id("maker/small");
    for error in [
        offline.plan(&asked).unwrap_err(),
        offline.find(&asked).unwrap_err(),
    ] {
        assert_eq!(error.code(), "model_not_here");
        assert!(error.hints()[0].contains("HF_HUB_OFFLINE"), "{:?}", error.hints());
    }
    assert_eq!(server.requests(), [""; 0], "offline means offline");

    let hub = server.hub();
    let folder = fetch(&hub, &hub.plan(&asked).unwrap()).unwrap();
    let pinned = id(&format!("maker/small@{COMMIT}"));
    assert_eq!(offline.find(&asked).unwrap(), (pinned.clone(), folder.clone()));
    std::fs::remove_file(folder.join("tokenizer.json")).unwrap();
    let error = offline.find(&asked).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json missing in"), "{error}");
    assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
    let held = hub.list();
    assert_eq!(held.len(), 1);
    assert_eq!(
        (held[0].id.clone(), held[0].missing.clone()),
        (pinned.to_string(), vec!["tokenizer.json".to_owned()])
    );
    // The blob is still there, so that only its name is made again.
    server.requests();
    fetch(&hub, &hub.plan(&asked).unwrap()).unwrap();
    assert_eq!(server.requests().len(), 1);

    let nobody = server.hub_with(&[("HF_ENDPOINT", "http://127.0.0.1:1")]);
    let error = nobody.plan(&asked).unwrap_err();
    assert_eq!(error.code(), "hub_not_reached");
    assert!(
        error.to_string().starts_with("127.0.0.1:1 was not reached"),
        "{error}"
    );
}

#[test]
fn a_disk_that_is_too_small_is_named_before_anything_is_fetched() {
    let server = TestHub::new();
    let hub = server.hub();
    let plan = hub.plan(&id(MODEL)).unwrap();
    server.requests();
    let error = hub.fetch(&plan, Some(1000), &mut |_| true).unwrap_err();
    assert_eq!(error.code(), "disk_full");
    assert!(
        error.to_string().contains(&plan.fetch_bytes.to_string()),
        "{error}"
    );
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn a_file_that_another_program_fetches_is_left_to_it() {
    let server = TestHub::new();
    let hub = server.hub();
    let plan = hub.plan(&id("maker/small:sub/small.Q4_0.gguf")).unwrap();
    let mut seen = None;
    hub.fetch(&plan, None, &mut |_| {
        seen.get_or_insert_with(|| fetch(&hub, &plan).unwrap_err().code());
        true
    })
    .unwrap();
    assert_eq!(seen, Some("hub_busy"));
}
