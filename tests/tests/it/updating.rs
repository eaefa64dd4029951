//! Updates of the installed app, from a server on this machine to the system's installer: what is handed to it is signed by
//! the key that is set up, for the version that was announced, and nothing else ever is. The program is the one that the build
//! made, told which package it is in as `cargo xtask dist` tells it; who asks for an administrator's password is a stand-in.
#![cfg(target_os = "linux")]

use std::{
    collections::HashMap,
    env::consts::ARCH,
    fs::{self, File, Permissions},
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use minisign::{KeyPair, SecretKey};
use serde_json::{Value, json};

use crate::context::{Home, OPENING, Ran, RunIt, built, interrupt, pid_in, wait_until};
use crate::desktop::dressed;
use crate::shelling::LIMIT;
use crate::window_for_real::Display;

/// Newer than any that is built.
const NEWER: &str = "99.0.0";
/// All crates of the workspace have the same.
const RUNNING: &str = env!("CARGO_PKG_VERSION");

/// What the server is asked for by somebody who looks, and by somebody who fetches too.
const LOOKED: &[&str] = &["/latest.json"];
const FETCHED: &[&str] = &["/latest.json", "/package"];

/// Stands in for `pkexec` and for `sudo`, which the updater tries next: notes what it shall run, keeps a copy of the package,
/// and leaves as it is told.
const ADMINISTRATOR: &str = r#"#!/bin/sh
printf '%s\n' "${0##*/}" "$@" >> "$ADMINISTRATOR/asked"
/bin/cp "$3" "$ADMINISTRATOR/package"
exit "$ADMINISTRATOR_ANSWERS"
"#;

/// What `pkexec` says when nobody typed a password.
const DISMISSED: i32 = 126;

/// A server that has what a test put there, and notes what it is asked for.
struct Server {
    address: String,
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (served, noted) = (Arc::clone(&files), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(request)) = lines.next() else { continue };
                for line in lines.map_while(Result::ok) {
                    if line.is_empty() {
                        break;
                    }
                }
                let path = request.split(' ').nth(1).unwrap();
                noted.lock().unwrap().push(path.to_owned());
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
        Self {
            address,
            files,
            asked,
        }
    }

    /// What it was asked for since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// The app with updates set up, their server, and a display.
struct App {
    home: Home,
    display: Display,
    server: Server,
    key: KeyPair,
    program: PathBuf,
    /// Where the program says which package it is in.
    marks: Vec<u64>,
}

impl App {
    /// As it is built: in no package.
    fn new() -> Self {
        let home = Home::new();
        for folder in ["user", "tmp", "tools", "home/config"] {
            fs::create_dir_all(home.path(folder)).unwrap();
        }
        for name in ["pkexec", "sudo"] {
            let tool = home.path("tools").join(name);
            fs::write(&tool, ADMINISTRATOR).unwrap();
            fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        }
        let app = Self {
            home,
            display: Display::open(),
            server: Server::start(),
            key: KeyPair::generate_unencrypted_keypair().unwrap(),
            program: built("tunesmith-shell"),
            marks: Vec::new(),
        };
        // As `tauri signer generate` prints it.
        let key = BASE64_STANDARD.encode(app.key.pk.to_box().unwrap().into_string());
        app.set_up(&format!(
            "[app]\naddress = \"{}/latest.json\"\npublic_key = \"{key}\"\n",
            app.server.address
        ));
        app
    }

    /// A copy of its own, to be told which package it is in. The program is large: one for all that a test does.
    fn in_a_package() -> Self {
        let mut app = Self::new();
        let copy = app.home.path("tunesmith-shell");
        fs::copy(&app.program, &copy).unwrap();
        app.program = copy;
        let mark = b"__TAURI_BUNDLE_TYPE_VAR_UNK";
        let content = fs::read(&app.program).unwrap();
        app.marks = content
            .windows(mark.len())
            .enumerate()
            .filter(|(_, bytes)| bytes[0] == mark[0] && *bytes == mark)
            .map(|(at, _)| (at + mark.len() - "UNK".len()) as u64)
            .collect();
        assert!(!app.marks.is_empty(), "the program can be told its package");
        app
    }

    /// From here on it is in a package of this kind.
    fn is_packed_as(&self, kind: &str) {
        let file = File::options().write(true).open(&self.program).unwrap();
        for place in &self.marks {
            file.write_all_at(kind.to_uppercase().as_bytes(), *place).unwrap();
        }
    }

    fn set_up(&self, settings: &str) {
        fs::write(self.settings(), settings).unwrap();
    }

    fn settings(&self) -> PathBuf {
        self.home.path("home/config/updates.toml")
    }

    /// Announces a version, with this package, for apps that look for this target.
    fn publish(&self, target: &str, version: &str, signature: Option<&str>, package: &[u8]) {
        let mut offered = json!({ "url": format!("{}/package", self.server.address) });
        if let Some(signature) = signature {
            offered["signature"] = signature.into();
        }
        let latest: Value = json!({ "version": version, "platforms": { target: offered } });
        *self.server.files.lock().unwrap() = HashMap::from([
            ("/latest.json".to_owned(), latest.to_string().into_bytes()),
            ("/package".to_owned(), package.to_vec()),
        ]);
    }

    /// Looks for an update and installs it, as somebody does in a terminal. The administrator answers with this status.
    /// Whatever comes of it leaves nothing half-made.
    #[track_caller]
    fn update(&self, answer: i32) -> Ran {
        let tmp = self.home.path("tmp");
        let mut command = Command::new(&self.program);
        dressed(&mut command, &self.display, None, &self.home.path("user"));
        command
            .arg("--update")
            .env("TUNESMITH_HOME", self.home.path("home"))
            .env("TMPDIR", &tmp)
            // Nothing else is found: a real `sudo` would install the package.
            .env("PATH", self.home.path("tools"))
            .env("ADMINISTRATOR", self.home.path("."))
            .env("ADMINISTRATOR_ANSWERS", answer.to_string())
            // Whoever runs this test may reach the world through another machine, which does not reach this server.
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .stdin(Stdio::null());
        let mut child = command.started();
        wait_until("the update is over", LIMIT, || {
            child.try_wait().unwrap().is_some()
        });
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        let left: Vec<_> = fs::read_dir(&tmp)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(left.is_empty(), "{left:?}");
        ran
    }

    /// What the administrator was asked for since the last time, word by word, and the package that came with it.
    fn handed_over(&self) -> Option<(Vec<String>, Vec<u8>)> {
        let (asked, package) = (self.home.path("asked"), self.home.path("package"));
        let words = fs::read_to_string(&asked).ok()?;
        let content = fs::read(&package).unwrap();
        fs::remove_file(asked).unwrap();
        fs::remove_file(package).unwrap();
        Some((words.lines().map(str::to_owned).collect(), content))
    }
}

fn target(kind: &str) -> String {
    format!("linux-{ARCH}-{kind}")
}

/// A file that begins as a package does: the updater looks no further.
fn package(beginning: &[u8]) -> Vec<u8> {
    let mut content = beginning.to_vec();
    content.resize(5000, 7);
    content
}

fn deb() -> Vec<u8> {
    package(b"!<arch>\ndebian-binary   ")
}

fn rpm() -> Vec<u8> {
    package(&[0xED, 0xAB, 0xEE, 0xDB])
}

/// A signature as `tauri signer sign` makes it, for what the comment says.
fn signed(content: &[u8], key: &SecretKey, comment: &str) -> String {
    let signature = minisign::sign(None, key, content, Some(comment), None).unwrap();
    BASE64_STANDARD.encode(signature.into_string())
}

fn made_for(version: &str) -> String {
    format!("timestamp:1764604800\tfile:package\tversion:{version}")
}

/// Another key that says it is this one: keys are told apart by a number that stands in each signature.
fn passed_off_as(key: &KeyPair) -> SecretKey {
    let other = KeyPair::generate_unencrypted_keypair().unwrap().sk;
    let (number, mut bytes) = (other.keynum(), other.to_bytes());
    let at = bytes
        .windows(number.len())
        .position(|window| window == number)
        .unwrap();
    bytes[at..at + number.len()].copy_from_slice(key.sk.keynum());
    SecretKey::from_bytes(&bytes).unwrap()
}

#[test]
fn what_has_a_good_signature_for_its_version_is_installed_and_nothing_else() {
    let app = App::in_a_package();
    good_packages_are_installed(&app);
    app.is_packed_as("deb");
    bad_ones_are_refused(&app);
    a_refusal_is_told(&app);
}

fn good_packages_are_installed(app: &App) {
    for (kind, package, installer) in [
        ("deb", deb(), ["pkexec", "dpkg", "-i"]),
        ("rpm", rpm(), ["pkexec", "rpm", "-U"]),
    ] {
        app.is_packed_as(kind);
        let signature = signed(&package, &app.key.sk, &made_for(NEWER));
        app.publish(&target(kind), NEWER, Some(&signature), &package);
        let ran = app.update(0).expect_status(0);
        for words in ["fetching version 99.0.0", "version 99.0.0 is installed"] {
            assert!(ran.stderr.contains(words), "{kind}: {}", ran.stderr);
        }
        assert_eq!(app.server.asked(), FETCHED, "{kind}");
        let (words, came) = app.handed_over().unwrap();
        assert_eq!(words.len(), 4, "{words:?}");
        assert_eq!(words[..3], installer);
        let file = Path::new(&words[3]);
        assert!(file.starts_with(app.home.path("tmp")), "{}", file.display());
        assert!(file.ends_with(format!("package.{kind}")), "{}", file.display());
        assert!(came == package, "{kind}: what was signed is what came");
    }
}

fn bad_ones_are_refused(app: &App) {
    let key = &app.key.sk;
    let other = KeyPair::generate_unencrypted_keypair().unwrap().sk;
    let (good, changed, no_package) = (deb(), [deb(), vec![0]].concat(), b"no package".to_vec());
    let sign = |key: &SecretKey, comment: &str| Some(signed(&good, key, comment));
    // What is wrong; the version that is announced, the signature, and the package beside it; what is asked for, the exit
    // status, and words.
    let cases = [
        (
            "by another key",
            NEWER,
            sign(&other, &made_for(NEWER)),
            &good,
            FETCHED,
            1,
            "version 99.0.0 was not installed: The signature was created with a different key",
        ),
        (
            "by a key that says it is this one",
            NEWER,
            sign(&passed_off_as(&app.key), &made_for(NEWER)),
            &good,
            FETCHED,
            1,
            "The signature verification failed",
        ),
        (
            "of other bytes",
            NEWER,
            sign(key, &made_for(NEWER)),
            &changed,
            FETCHED,
            1,
            "The signature verification failed",
        ),
        (
            "missing",
            NEWER,
            None,
            &good,
            LOOKED,
            1,
            "missing field `signature`",
        ),
        (
            "empty",
            NEWER,
            Some(String::new()),
            &good,
            FETCHED,
            1,
            "version 99.0.0 was not installed: ",
        ),
        (
            "in another form",
            NEWER,
            Some("a signature".to_owned()),
            &good,
            FETCHED,
            1,
            "version 99.0.0 was not installed: ",
        ),
        (
            "for another version",
            NEWER,
            sign(key, &made_for("98.0.0")),
            &good,
            FETCHED,
            1,
            "signed for version 98.0.0",
        ),
        (
            "for no version",
            NEWER,
            sign(key, "timestamp:1764604800\tfile:package"),
            &good,
            FETCHED,
            1,
            "does not specify the version",
        ),
        (
            "of no package",
            NEWER,
            Some(signed(&no_package, key, &made_for(NEWER))),
            &no_package,
            FETCHED,
            1,
            "invalid updater binary format",
        ),
        (
            "for the version that runs",
            RUNNING,
            sign(key, &made_for(RUNNING)),
            &good,
            LOOKED,
            0,
            "this is the newest version",
        ),
        (
            "for an older version",
            "0.0.1",
            sign(key, &made_for("0.0.1")),
            &good,
            LOOKED,
            0,
            "this is the newest version",
        ),
    ];
    for (what, version, signature, package, asked, status, words) in cases {
        app.publish(&target("deb"), version, signature.as_deref(), package);
        let ran = app.update(0);
        assert_eq!(ran.status, Some(status), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{what}: {}", ran.stderr);
        assert_eq!(app.server.asked(), asked, "{what}");
        assert_eq!(app.handed_over(), None, "{what}");
    }

    // Nothing is published at all.
    app.server.files.lock().unwrap().clear();
    let ran = app.update(0).expect_status(1);
    assert!(
        ran.stderr.contains("updates cannot be looked for at http://"),
        "{}",
        ran.stderr
    );
    assert_eq!(app.server.asked(), LOOKED);
}

fn a_refusal_is_told(app: &App) {
    let package = deb();
    let signature = signed(&package, &app.key.sk, &made_for(NEWER));
    app.publish(&target("deb"), NEWER, Some(&signature), &package);
    let ran = app.update(DISMISSED).expect_status(1);
    assert!(
        ran.stderr
            .contains("version 99.0.0 was not installed: Failed to install package"),
        "{}",
        ran.stderr
    );
    // The package came as it was signed; nobody installed it.
    let (words, came) = app.handed_over().unwrap();
    assert!(came == package);
    assert_eq!(words[..3], ["pkexec", "dpkg", "-i"]);
}

#[test]
fn without_an_address_and_a_key_nothing_is_asked_for() {
    let app = App::new();
    let address = &app.server.address;
    for (settings, words) in [
        (None, "updates are not set up"),
        (
            Some(format!(
                "[knowledge]\naddress = \"{address}/knowledge.json\"\npublic_key = \"RWQ\"\n"
            )),
            "updates are not set up",
        ),
        (
            Some("[app]\naddress = \"http://example.org/latest.json\"\npublic_key = \"RWQ\"\n".to_owned()),
            "does not begin with https://",
        ),
        (
            Some(format!(
                "[app]\naddress = \"{address}/latest.json\"\npublic_key = \"\"\n"
            )),
            "there is no public key",
        ),
    ] {
        match settings {
            Some(settings) => app.set_up(&settings),
            None => fs::remove_file(app.settings()).unwrap(),
        }
        let ran = app.update(0).expect_status(1);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
        assert_eq!(app.server.asked(), [""; 0], "{words}");
        assert_eq!(app.handed_over(), None, "{words}");
    }
}

#[test]
fn nothing_is_fetched_while_a_run_goes_on() {
    let app = App::new();
    let package = deb();
    let signature = signed(&package, &app.key.sk, &made_for(NEWER));
    app.publish(&format!("linux-{ARCH}"), NEWER, Some(&signature), &package);
    let engine = app.home.path("engine.pid");
    let script = format!(
        "{OPENING}{{\"steps\": {{\"from\": 1, \"to\": 2}}}}\n{{\"write_pid\": \"{}\"}}\n{{\"wait_stop\": {{}}}}\n{{\"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"cancelled\"}}\n",
        engine.display()
    );
    let training = app
        .home
        .tunesmith(&script)
        .args(["train", &app.home.recipe()])
        .started();
    pid_in(&engine);
    let ran = app.update(0).expect_status(1);
    let run = app.home.only_run();
    let words = format!(
        "was not installed: run {} (pid",
        run.file_name().unwrap().display()
    );
    assert!(ran.stderr.contains(&words), "{}", ran.stderr);
    assert!(ran.stderr.contains("is under way"), "{}", ran.stderr);
    assert_eq!(app.server.asked(), LOOKED);

    // Afterwards it is fetched. This program is in no package, and would take nothing but an AppImage.
    interrupt(training.id());
    training.wait_with_output().unwrap();
    let ran = app.update(0).expect_status(1);
    assert!(
        ran.stderr.contains("invalid updater binary format"),
        "{}",
        ran.stderr
    );
    assert_eq!(app.server.asked(), FETCHED);
    assert_eq!(app.handed_over(), None);
}
