//! Updates of the app, by Tauri's updater: what is fetched is installed only where it has the signature of the key that is
//! set up, and is the version that it says. Nothing is looked for unless the user asks, and `state` lets nothing be installed
//! while a task of this app runs; a run that a terminal leads is seen by the device that it holds.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    time::Duration,
};

use tauri::{AppHandle, Url, async_runtime};
use tauri_plugin_updater::{Update, UpdaterExt};
use tunesmith_lab::supervisor::DeviceHolder;
use tunesmith_setup::updates::Source;

use crate::{
    shell::say_line,
    state::{Event, News},
};

/// Longest time to connect.
const CONNECT: Duration = Duration::from_secs(30);
/// Longest silence: while an update is installed no window opens, so it has to end.
const SILENCE: Duration = Duration::from_mins(1);

/// The updates of this app.
pub(super) struct Updates {
    app: AppHandle,
    source: Option<Source>,
    /// Where the locks of devices lie.
    data: PathBuf,
    sender: Sender<Event>,
    found: Arc<Mutex<Option<Update>>>,
}

impl Updates {
    pub(super) fn new(app: AppHandle, source: Option<Source>, data: PathBuf, sender: Sender<Event>) -> Self {
        Self {
            app,
            source,
            data,
            sender,
            found: Arc::default(),
        }
    }

    /// Whether they are set up.
    pub(super) fn are_set_up(&self) -> bool {
        self.source.is_some()
    }

    /// Looks for one.
    pub(super) fn look(&self) {
        let (app, source, sender) = (self.app.clone(), self.source.clone(), self.sender.clone());
        let found = Arc::clone(&self.found);
        async_runtime::spawn(async move {
            let news = match look(&app, source).await {
                Ok(None) => News::UpToDate,
                Ok(Some(update)) => {
                    let version = update.version.clone();
                    *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(update);
                    News::Found(version)
                }
                Err(why) => News::Failed(why),
            };
            // A shell that leaves hears nothing more.
            let _ = sender.send(Event::Update(news));
        });
    }

    /// Installs the one that was found.
    pub(super) fn install(&self) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (data, sender) = (self.data.clone(), self.sender.clone());
        async_runtime::spawn(async move {
            let news = match found {
                Some(update) => install(&update, &data)
                    .await
                    .map_or_else(News::Failed, |()| News::Installed),
                None => News::Failed("nothing was found to install".to_owned()),
            };
            let _ = sender.send(Event::Update(news));
        });
    }

    /// Looks for one and installs it, with words on standard error; returns the exit status.
    pub(super) fn install_now(&self) -> i32 {
        let (app, source, data) = (self.app.clone(), self.source.clone(), self.data.clone());
        let done = async_runtime::block_on(async move {
            let Some(update) = look(&app, source).await? else {
                return Ok("this is the newest version".to_owned());
            };
            install(&update, &data).await?;
            Ok::<_, String>(format!("version {} is installed", update.version))
        });
        match done {
            Ok(what) => {
                say_line(&what);
                0
            }
            Err(why) => {
                say_line(&format!("error: {why}"));
                1
            }
        }
    }
}

async fn look(app: &AppHandle, source: Option<Source>) -> Result<Option<Update>, String> {
    let source = source.ok_or("updates are not set up: updates.toml names neither key nor address")?;
    let address = source
        .address
        .parse::<Url>()
        .map_err(|error| format!("{} is no address: {error}", source.address))?;
    let https_only = source.address.starts_with("https://");
    let updater = app
        .updater_builder()
        .pubkey(source.public_key.trim())
        // An address that is safe may lead to another one, and to a package elsewhere, but to none that is not.
        .configure_client(move |client| {
            client
                .https_only(https_only)
                .connect_timeout(CONNECT)
                .read_timeout(SILENCE)
        })
        .endpoints(vec![address])
        .and_then(tauri_plugin_updater::UpdaterBuilder::build)
        .map_err(|error| format!("updates cannot be looked for at {}: {error}", source.address))?;
    updater
        .check()
        .await
        .map_err(|error| format!("updates cannot be looked for at {}: {error}", source.address))
}

/// `data` is the folder in whose `locks` it is seen whether something runs.
async fn install(update: &Update, data: &Path) -> Result<(), String> {
    let not_installed = |why: String| format!("version {} was not installed: {why}", update.version);
    let idle = || match DeviceHolder::all(data) {
        Ok(holders) => holders.first().map_or(Ok(()), |holder| {
            Err(not_installed(format!(
                "{} is under way; try again when it is over",
                holder.words()
            )))
        }),
        Err(error) => Err(not_installed(error.to_string())),
    };
    idle()?;
    say_line(&format!("fetching version {}", update.version));
    let package = update
        .download(|_bytes, _total| {}, || {})
        .await
        .map_err(|error| not_installed(error.to_string()))?;
    // A run may have begun meanwhile.
    idle()?;
    update
        .install(package)
        .map_err(|error| not_installed(error.to_string()))
}
