//! The installed app on a display without a screen, with Tauri: without a session's bus, with one, with a tray on it, and
//! its window for reports. The window follows a script, as in `shelling`.
#![cfg(target_os = "linux")]

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use tunesmith_protocol::Notice;
use zbus::zvariant::{OwnedValue, Value};

use crate::context::{Home, built, children, lives, wait_until};
use crate::shelling::{LIMIT, SOON, Shell, kill, paints, quits, waits_for};
use crate::window_for_real::Display;

/// A session's bus of its own.
pub(crate) struct Bus {
    daemon: Child,
    address: String,
}

impl Bus {
    fn start() -> Self {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon is there: `cargo xtask test` installs it");
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        Self {
            daemon,
            address: address.trim().to_owned(),
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// The app on a display, with a bus or without one.
fn on<'a>(display: &'a Display, bus: Option<&'a Bus>, folder: &'a Path) -> impl FnOnce(&mut Command) + 'a {
    move |command| {
        dressed(command, display, bus, folder);
    }
}

/// A program on a display, with a user and a bus of its own instead of those of whoever runs this test.
pub(crate) fn dressed(command: &mut Command, display: &Display, bus: Option<&Bus>, folder: &Path) {
    command
        .env("DISPLAY", display.name())
        .env_remove("WAYLAND_DISPLAY")
        // A bus of whoever runs this test must not be found.
        .env("XDG_RUNTIME_DIR", folder)
        .env("HOME", folder)
        .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus");
    match bus {
        Some(bus) => command.env("DBUS_SESSION_BUS_ADDRESS", &bus.address),
        None => command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus"),
    };
}

#[test]
fn without_a_bus_and_a_tray_the_app_works() {
    let (display, home) = (Display::open(), Home::new());
    let folder = home.path("user");
    fs::create_dir(&folder).unwrap();
    let shell = Shell::start_on_desktop(home, &[paints() + &quits()], on(&display, None, &folder));
    let (status, errors, _home) = shell.left();
    assert_eq!(status, Some(0), "{errors}");
    assert!(errors.contains("this desktop shows no tray"), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}

#[test]
fn a_second_start_brings_the_window_of_the_first_to_the_front() {
    let (display, bus, home) = (Display::open(), Bus::start(), Home::new());
    let folder = home.path("user");
    fs::create_dir(&folder).unwrap();
    let window = paints() + &waits_for(&serde_json::json!({ "type": "focus" })) + &quits();
    let shell = Shell::start_on_desktop(home, &[window], on(&display, Some(&bus), &folder));
    shell.wait_until_heard(1, "the window is welcomed", |notice| {
        matches!(notice, Notice::Welcome { .. })
    });
    let mut second = Command::new(built("tunesmith-shell"));
    dressed(&mut second, &display, Some(&bus), &folder);
    let status = second
        .env("TUNESMITH_HOME", shell.home.path("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(shell.windows_so_far(), 1, "the second start opened no window");
    let (status, errors, _home) = shell.left();
    assert_eq!(status, Some(0), "{errors}");
}

/// Who shows trays, as far as this program knows it: it is told of items.
struct Watcher {
    items: Sender<String>,
}

#[expect(
    clippy::unused_self,
    reason = "the interface has these, and its items are all that is of interest here"
)]
#[zbus::interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, service: String) {
        self.items.send(service).unwrap();
    }

    fn register_status_notifier_host(&self, service: String) {
        drop(service);
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

/// A desktop with a tray.
struct Trays {
    bus: zbus::blocking::Connection,
    items: Receiver<String>,
}

/// An entry of a menu: its number, its text, whether it can be chosen.
type Entry = (i32, String, bool);

impl Trays {
    fn on(bus: &Bus) -> Self {
        let (items, told) = channel();
        let bus = zbus::blocking::connection::Builder::address(bus.address.as_str())
            .unwrap()
            .serve_at("/StatusNotifierWatcher", Watcher { items })
            .unwrap()
            .name("org.kde.StatusNotifierWatcher")
            .unwrap()
            .build()
            .unwrap();
        Self { bus, items: told }
    }

    /// The menu of an item.
    fn menu(&self, item: &str) -> Vec<Entry> {
        let reply = self
            .bus
            .call_method(
                Some(item),
                "/MenuBar",
                Some("com.canonical.dbusmenu"),
                "GetGroupProperties",
                // Of all entries, all that differs from what it usually is.
                &(Vec::<i32>::new(), Vec::<String>::new()),
            )
            .unwrap();
        let body = reply.body();
        let entries: Vec<(i32, HashMap<String, OwnedValue>)> = body.deserialize().unwrap();
        entries
            .into_iter()
            .map(|(id, properties)| {
                let label = properties
                    .get("label")
                    .and_then(|value| value.downcast_ref::<&str>().ok())
                    .unwrap_or_default()
                    .to_owned();
                let open = properties
                    .get("enabled")
                    .and_then(|value| value.downcast_ref::<bool>().ok());
                (id, label, open.unwrap_or(true))
            })
            .collect()
    }

    fn choose(&self, item: &str, entry: i32) {
        self.bus
            .call_method(
                Some(item),
                "/MenuBar",
                Some("com.canonical.dbusmenu"),
                "Event",
                &(entry, "clicked", Value::from(0_i32), 0_u32),
            )
            .unwrap();
    }
}

#[test]
fn the_tray_says_what_goes_on_and_its_menu_leads_the_app() {
    let (display, bus, home) = (Display::open(), Bus::start(), Home::new());
    let trays = Trays::on(&bus);
    let folder = home.path("user");
    fs::create_dir(&folder).unwrap();
    let window = paints() + &waits_for(&serde_json::json!({ "type": "focus" })) + "{\"exit\": 0}\n";
    let shell = Shell::start_on_desktop(home, &[window, paints()], on(&display, Some(&bus), &folder));
    let item = trays.items.recv_timeout(LIMIT).unwrap();
    let entry = |name: &str| trays.menu(&item).into_iter().find(|(_, text, _)| text == name);
    wait_until("the menu says what goes on", LIMIT, || {
        entry("Nothing runs").is_some()
    });
    let (_, _, can_pause) = entry("Pause").unwrap();
    assert!(!can_pause, "nothing runs that could pause");
    shell.wait_until_heard(1, "the window is welcomed", |notice| {
        matches!(notice, Notice::Welcome { .. })
    });

    // The window comes to the front, and leaves as it was told to. The app stays for its tray.
    let first = shell.window(1);
    let (open, _, can_open) = entry("Open Tunesmith").unwrap();
    assert!(can_open);
    trays.choose(&item, open);
    wait_until("the window is closed", LIMIT, || !lives(first));
    trays.choose(&item, open);
    shell.wait_until_heard(2, "another window is opened", |notice| {
        matches!(notice, Notice::Welcome { .. })
    });
    let second = shell.window(2);
    let (quit, ..) = entry("Quit").unwrap();
    trays.choose(&item, quit);
    let (status, errors, _home) = shell.left();
    assert_eq!(status, Some(0), "{errors}");
    wait_until("the window is gone", SOON, || !lives(second));
}

#[test]
fn the_real_window_comes_back_after_it_was_killed_and_leaves_with_its_shell() {
    let (display, home) = (Display::open(), Home::new());
    let folder = home.path("user");
    fs::create_dir(&folder).unwrap();
    let notes = home.path("home/config/renderer.json");
    let painted = || {
        let text = fs::read_to_string(&notes).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|notes| notes["painted"].is_string())
    };
    let shell = Shell::start_on_desktop(home, &[], |command| {
        dressed(command, &display, None, &folder);
        command
            .arg("--plain")
            .env("TUNESMITH_WINDOW", built("tunesmith-ui"));
    });
    wait_until("the window has painted", LIMIT, painted);
    let windows = children(shell.pid());
    assert_eq!(windows.len(), 1, "{windows:?}");
    fs::remove_file(&notes).unwrap();
    kill(windows[0]);
    wait_until("the window has painted again", LIMIT, painted);
    let again = children(shell.pid());
    assert!(again.len() == 1 && again != windows, "{again:?}");
    shell.ask_to_end();
    let (status, errors, _home) = shell.left();
    assert_eq!(status, Some(0), "{errors}");
    wait_until("the window is gone", SOON, || !lives(again[0]));
}

#[test]
fn a_hostile_report_does_nothing() {
    let (display, home) = (Display::open(), Home::new());
    let folder = home.path("user");
    fs::create_dir(&folder).unwrap();
    // Whatever the page fetches, it fetches here.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    let page = format!(
        "<!doctype html><title>hostile</title>\
         <script>fetch('http://{address}/script'); location = 'file:///etc/passwd'</script>\
         <link rel=stylesheet href=http://{address}/style.css>\
         <link rel=preconnect href=http://{address}/>\
         <img src=http://{address}/picture.png onerror=\"fetch('http://{address}/error')\">\
         <iframe src=http://{address}/frame></iframe>\
         <object data=http://{address}/object></object>\
         <form action=http://{address}/form><input autofocus onfocus=\"this.form.submit()\"></form>\
         <style>@import url(http://{address}/import.css); body {{ background: url(http://{address}/ground.png) }}</style>\
         <a href=file:///etc/passwd>a file</a><p>a report"
    );
    let report = home.path("a \"report\" of Jürgen.html");
    fs::write(&report, page).unwrap();
    let mut command = Command::new(built("tunesmith-shell"));
    dressed(&mut command, &display, None, &folder);
    let mut window = command
        .arg("report")
        .arg(&report)
        // A browser that is asked for would be found here, and there is none.
        .env("PATH", &folder)
        .env("WEBKIT_DISABLE_DMABUF_RENDERER", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the report is shown", LIMIT, || {
        assert!(window.try_wait().unwrap().is_none(), "it left by itself");
        display.xdotool(&["search", "--onlyvisible", "--name", "of Jürgen — Tunesmith"])
    });
    // A page that could would have asked by the time that it is on the screen and a moment later.
    display.xdotool(&[
        "search",
        "--sync",
        "--onlyvisible",
        "--name",
        "of Jürgen — Tunesmith",
        "getwindowgeometry",
    ]);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(
        asked.load(Ordering::SeqCst),
        0,
        "the page has asked for something"
    );
    assert!(window.try_wait().unwrap().is_none(), "it shows the page");
    // It ends with whoever opened it.
    let mut errors = window.stderr.take().unwrap();
    drop(window.stdin.take());
    wait_until("its window is gone", SOON, || {
        window.try_wait().unwrap().is_some()
    });
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    assert!(!text.contains("panicked"), "{text}");
    assert!(
        !text.contains("in a browser"),
        "it has led away by itself: {text}"
    );
}

#[test]
fn a_report_that_is_none_is_refused_in_words() {
    let (display, home) = (Display::open(), Home::new());
    let folder = home.path("user");
    fs::create_dir(&folder).unwrap();
    let away = home.path("away.html");
    fs::write(
        &away,
        "<meta http-equiv=refresh content='0; url=https://example.org/'>",
    )
    .unwrap();
    for (file, why) in [
        (Path::new("/etc/hostname"), "is no report"),
        (&away, "leads away by itself"),
    ] {
        let mut command = Command::new(built("tunesmith-shell"));
        dressed(&mut command, &display, None, &folder);
        let output = command
            .arg("report")
            .arg(file)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(why), "{text}");
    }
}
