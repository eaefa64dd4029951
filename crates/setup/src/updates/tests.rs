//! With a server on this machine and keys made for the test.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use minisign::KeyPair;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{Folders, knowledge};

/// Later than anything that the program knows.
const LATER: &str = "2999-01-01";

/// A server that has what a test put there.
#[derive(Clone)]
struct Server {
    address: String,
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let served = Arc::clone(&files);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap().unwrap();
                for line in lines.map_while(Result::ok) {
                    if line.is_empty() {
                        break;
                    }
                }
                let path = request.split(' ').nth(1).unwrap();
                let body = served.lock().unwrap().get(path).cloned();
                let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
                let body = body.unwrap_or_default();
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                // Who asked may have heard enough.
                let _ = stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(&body));
            }
        });
        Self { address, files }
    }

    fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(path.to_owned(), content.into());
    }
}

struct Bench {
    server: Server,
    key: KeyPair,
    home: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            server: Server::start(),
            key: KeyPair::generate_unencrypted_keypair().unwrap(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn folders(&self) -> Folders {
        Folders::all_under(self.home.path())
    }

    fn source(&self) -> Source {
        Source {
            address: format!("{}/knowledge.json", self.server.address),
            public_key: self.key.pk.to_base64(),
        }
    }

    /// Publishes this, signed by a key.
    fn publish(&self, content: &str, key: &KeyPair) {
        let signature = minisign::sign(Some(&key.pk), &key.sk, content.as_bytes(), None, None).unwrap();
        self.server.put("/knowledge.json", content);
        self.server
            .put("/knowledge.json.minisig", signature.into_string());
    }

    fn update(&self) -> Result<KnowledgeUpdate, UpdateError> {
        update_knowledge(&self.source(), &self.folders())
    }

    /// Nothing was kept, and nothing half-made is left.
    fn assert_untouched(&self) {
        assert_eq!(fetched_knowledge(&self.folders()), None);
        let left = fs::read_dir(self.folders().data().join("knowledge"));
        assert_eq!(left.into_iter().flatten().count(), 0);
    }
}

/// The program's own files, some of them in other words.
fn bundle(as_of: &str, files: &[(&str, &str)]) -> String {
    let files: HashMap<&str, &str> = files.iter().copied().collect();
    json!({ "knowledge": 1, "as_of": as_of, "files": files }).to_string()
}

const HOLDERS: &str = include_str!("../../../../assets/knowledge/holders.toml");

#[test]
fn a_good_signature_installs_and_the_same_again_does_nothing() {
    let bench = Bench::new();
    bench.publish(&bundle(LATER, &[("holders.toml", HOLDERS)]), &bench.key);
    let folder = bench.folders().data().join("knowledge").join(LATER);
    let installed = KnowledgeUpdate::Installed {
        as_of: LATER.to_owned(),
        folder: folder.clone(),
    };
    assert_eq!(bench.update().unwrap(), installed);
    assert_eq!(fetched_knowledge(&bench.folders()), Some(folder.clone()));
    assert_eq!(fs::read_to_string(folder.join("holders.toml")).unwrap(), HOLDERS);
    let newest = KnowledgeUpdate::Newest {
        as_of: LATER.to_owned(),
    };
    assert_eq!(bench.update().unwrap(), newest);

    // A later one replaces it, an earlier one does not.
    bench.publish(&bundle("2999-01-01.1", &[]), &bench.key);
    assert!(matches!(
        bench.update().unwrap(),
        KnowledgeUpdate::Installed { .. }
    ));
    assert!(!folder.exists());
    bench.publish(&bundle(LATER, &[("holders.toml", HOLDERS)]), &bench.key);
    assert!(matches!(bench.update().unwrap(), KnowledgeUpdate::Newest { .. }));
}

#[test]
fn what_is_not_signed_by_the_key_changes_nothing() {
    let bench = Bench::new();
    let good = bundle(LATER, &[("holders.toml", HOLDERS)]);

    // By another key.
    let other = KeyPair::generate_unencrypted_keypair().unwrap();
    bench.publish(&good, &other);
    assert_eq!(bench.update().unwrap_err().code(), "update_signature");
    bench.assert_untouched();

    // Changed after it was signed.
    bench.publish(&good, &bench.key);
    bench.server.put("/knowledge.json", good.replace("2999", "3999"));
    assert_eq!(bench.update().unwrap_err().code(), "update_signature");
    bench.assert_untouched();

    // With no signature, or something else in its place.
    bench.server.put("/knowledge.json", good.clone());
    bench
        .server
        .files
        .lock()
        .unwrap()
        .remove("/knowledge.json.minisig");
    assert_eq!(bench.update().unwrap_err().code(), "update_signature");
    for nonsense in ["", "untrusted comment: none\nAAAA\n", "\u{0}\u{1}"] {
        bench.server.put("/knowledge.json.minisig", nonsense);
        let error = bench.update().unwrap_err();
        assert_eq!(error.code(), "update_signature", "{error}");
        assert!(!error.hints().is_empty());
    }
    bench.assert_untouched();

    // With a key that is none.
    let source = Source {
        public_key: "RW-no-key".to_owned(),
        ..bench.source()
    };
    let error = update_knowledge(&source, &bench.folders()).unwrap_err();
    assert_eq!(error.code(), "update_signature");
}

#[test]
fn what_is_signed_and_wrong_changes_nothing() {
    let cases = [
        ("not JSON", "update_content"),
        (
            r#"{"knowledge": 2, "as_of": "2999-01-01", "files": {}}"#,
            "update_content",
        ),
        (
            r#"{"knowledge": 1, "as_of": "../../elsewhere", "files": {}}"#,
            "update_content",
        ),
        (
            r#"{"knowledge": 1, "as_of": "2999-13-01", "files": {}}"#,
            "update_content",
        ),
        (
            r#"{"knowledge": 1, "as_of": "2999-01-01", "files": {"../config/updates.toml": ""}}"#,
            "update_content",
        ),
        (
            r#"{"knowledge": 1, "as_of": "2999-01-01", "files": {"holders.toml": "[[holder]]\nnovelty = 1\n"}}"#,
            "knowledge",
        ),
    ];
    for (content, code) in cases {
        let bench = Bench::new();
        bench.publish(content, &bench.key);
        let error = bench.update().unwrap_err();
        assert_eq!(error.code(), code, "{content}: {error}");
        bench.assert_untouched();
    }
}

#[test]
fn what_is_older_than_the_program_is_not_used() {
    let bench = Bench::new();
    bench.publish(&bundle("2020-01-01", &[("holders.toml", HOLDERS)]), &bench.key);
    let newest = KnowledgeUpdate::Newest {
        as_of: knowledge::built_in_as_of(),
    };
    assert_eq!(bench.update().unwrap(), newest);
    bench.assert_untouched();
    // Left by an earlier version of the program.
    let earlier = bench.folders().data().join("knowledge/2020-01-01");
    fs::create_dir_all(&earlier).unwrap();
    assert_eq!(fetched_knowledge(&bench.folders()), None);
    // Half-made by one that was killed.
    fs::create_dir_all(bench.folders().data().join("knowledge/2999-01-01.partial")).unwrap();
    assert_eq!(fetched_knowledge(&bench.folders()), None);
}

#[test]
fn an_address_that_does_not_answer_is_named() {
    let bench = Bench::new();
    let error = bench.update().unwrap_err();
    assert_eq!(error.code(), "update_not_fetched");
    assert!(error.to_string().contains("/knowledge.json"), "{error}");
}

#[test]
fn settings_are_off_until_they_name_a_safe_address_and_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        fs::write(folder.path().join(UPDATES_FILE), text).unwrap();
        UpdateSettings::load(folder.path())
    };
    assert_eq!(
        UpdateSettings::load(&folder.path().join("nowhere")).unwrap(),
        UpdateSettings::default()
    );
    let settings =
        load("[knowledge]\naddress = \"https://example.org/knowledge.json\"\npublic_key = \"RWQ\"\n")
            .unwrap();
    assert_eq!(settings.app, None);
    assert_eq!(settings.knowledge.unwrap().public_key, "RWQ");
    for wrong in [
        "[knowledge]\naddress = \"http://example.org/knowledge.json\"\npublic_key = \"RWQ\"\n",
        "[app]\naddress = \"file:///tmp/latest.json\"\npublic_key = \"RWQ\"\n",
        "[app]\naddress = \"https://example.org/latest.json\"\npublic_key = \" \"\n",
        "[app]\naddress = \"https://example.org/latest.json\"\n",
        "[novelty]\n",
        "address",
    ] {
        let error = load(wrong).unwrap_err();
        assert_eq!(error.code(), "update_settings", "{wrong}");
        assert!(error.to_string().contains(UPDATES_FILE));
    }
}
