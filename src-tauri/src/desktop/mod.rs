//! The desktop, by Tauri: the only code that knows it. The main thread belongs to Tauri's event loop; the shell runs beside
//! it and hands over what must be done there. There is no webview in this process: a report's window is a process of its
//! own (`report.rs`), so that WebKit's faults and memory are not those of what leads trainings.

mod dialog;
mod icon;
mod report;
mod tray;
mod update;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::Sender,
    thread,
};

use anyhow::{Context, Result};
use tauri::{AppHandle, RunEvent};
use tauri_plugin_notification::NotificationExt;
use tunesmith_setup::{Folders, updates::UpdateSettings};

use crate::{
    display,
    shell::{self, Desktop, End, Start, say_line},
    state::Event,
    tray::Tray,
};

pub(crate) use report::show as show_report;
use tray::TrayIcon;
use update::Updates;

/// Runs the app until it leaves; returns its exit status. With `update_only` it looks for an update, installs it and
/// leaves.
///
/// # Errors
/// Where Tauri does not start.
pub(crate) fn run(start: Start, update_only: bool) -> Result<u8> {
    if let Err(why) = toolkit() {
        say_line(display::advice(&why).trim_end());
        return Ok(display::NO_DISPLAY_STATUS);
    }
    let folders = Folders::from_env().context("the folders of Tunesmith are not known")?;
    let settings = match UpdateSettings::load(folders.config()) {
        Ok(settings) => settings,
        Err(error) if update_only => return Err(error.into()),
        // A file that nobody needs for a training keeps nobody from one.
        Err(error) => {
            say_line(&format!("note: there are no updates: {error}"));
            UpdateSettings::default()
        }
    };
    let second = start.sender.clone();
    let mut builder = tauri::Builder::default();
    if !update_only {
        // A second start ends here, before anything else begins.
        builder = builder.plugin(tauri_plugin_single_instance::init(
            move |_app, _words, _folder| {
                // A shell that leaves hears nothing more.
                let _ = second.send(Event::SecondStart);
            },
        ));
    }
    let app = builder
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_updater::Builder::new().build())
        .setup(move |app| {
            #[cfg(target_os = "macos")]
            app.set_activation_policy(tauri::ActivationPolicy::Accessory);
            let handle = app.handle().clone();
            let updates = Updates::new(
                handle.clone(),
                settings.app,
                folders.data().to_owned(),
                start.sender.clone(),
            );
            if update_only {
                thread::spawn(move || handle.exit(updates.install_now()));
            } else {
                let tray = tray::build(app.handle(), &start.sender);
                thread::spawn(move || lead(start, &handle, tray, updates));
            }
            Ok(())
        })
        .build(context())
        .context(
            "the desktop's part of Tunesmith does not start; `tunesmith-shell --plain` does without it",
        )?;
    let status = app.run_return(|_app, event| {
        // No window of this process keeps it alive, so no window's end may end it.
        if let RunEvent::ExitRequested { code: None, api, .. } = event {
            api.prevent_exit();
        }
    });
    Ok(u8::try_from(status).unwrap_or(1))
}

/// The app's configuration, of which a program may have one.
fn context() -> tauri::Context {
    tauri::generate_context!()
}

/// Runs the shell beside the event loop, and ends that with it.
fn lead(mut start: Start, app: &AppHandle, tray: Option<TrayIcon>, updates: Updates) {
    start.can.tray = tray.is_some();
    start.can.updates = updates.are_set_up();
    let mut desktop = ByTauri {
        app: app.clone(),
        sender: start.sender.clone(),
        tray,
        updates,
    };
    // A fault here must not leave an app that nobody can reach.
    let end = catch_unwind(AssertUnwindSafe(|| shell::run(start, &mut desktop)));
    match end.unwrap_or(End::Leave(1)) {
        End::Leave(status) => app.exit(i32::from(status)),
        End::Restart => app.request_restart(),
    }
}

/// Whether there is a toolkit to build on: a screen may be named and not be there.
#[cfg(target_os = "linux")]
fn toolkit() -> Result<(), String> {
    gtk::init().map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "there always is one here")]
fn toolkit() -> Result<(), String> {
    Ok(())
}

/// A desktop with all that the app uses of it.
struct ByTauri {
    app: AppHandle,
    sender: Sender<Event>,
    tray: Option<TrayIcon>,
    updates: Updates,
}

impl Desktop for ByTauri {
    fn show_tray(&mut self, tray: &Tray) {
        if let Some(icon) = &mut self.tray {
            icon.show(&self.app, tray);
        }
    }

    fn notify(&mut self, title: &str, body: &str) {
        let message = self.app.notification().builder().title(title).body(body);
        if let Err(error) = message.show() {
            say_line(&format!("note: {title}: {body} (no message was shown: {error})"));
        }
    }

    fn ask_how_to_quit(&mut self, sentence: &str) {
        dialog::ask_how_to_quit(&self.app, sentence.to_owned(), self.sender.clone());
    }

    fn complain(&mut self, text: &str) {
        dialog::complain(&self.app, text.to_owned(), self.sender.clone());
    }

    fn has_report_window(&self) -> bool {
        true
    }

    fn look_for_update(&mut self) {
        self.updates.look();
    }

    fn install_update(&mut self) {
        self.updates.install();
    }
}
