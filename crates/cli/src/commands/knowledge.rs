//! `knowledge`: how old the knowledge files are, and newer ones, signed, from where the user has set them up.

use serde_json::json;
use tunesmith_setup::{
    Folders,
    updates::{
        KnowledgeUpdate, UPDATES_FILE, UpdateError, UpdateSettings, fetched_knowledge, knowledge_as_of,
        update_knowledge as update,
    },
};

use crate::{Done, errors::CliError};

pub(crate) fn show_knowledge() -> Result<Done, CliError> {
    let folders = Folders::from_env()?;
    let settings = UpdateSettings::load(folders.config())?;
    let (as_of, folder) = (knowledge_as_of(&folders), fetched_knowledge(&folders));
    let whose = folder.as_ref().map_or_else(
        || "came with the program".to_owned(),
        |folder| format!("were fetched into {}", folder.display()),
    );
    let from = settings.knowledge.as_ref().map_or_else(
        || "newer ones are not looked for: nothing is set up".to_owned(),
        |source| {
            format!(
                "`tunesmith knowledge update` looks for newer ones at {}",
                source.address
            )
        },
    );
    Ok(Done::ok(
        format!("the knowledge files are of {as_of} and {whose}\n{from}"),
        json!({
            "as_of": as_of,
            "folder": folder,
            "address": settings.knowledge.map(|source| source.address),
        }),
    ))
}

pub(crate) fn update_knowledge() -> Result<Done, CliError> {
    let folders = Folders::from_env()?;
    let source = UpdateSettings::load(folders.config())?
        .knowledge
        .ok_or_else(|| UpdateError::NotSetUp(folders.config().join(UPDATES_FILE)))?;
    Ok(match update(&source, &folders)? {
        KnowledgeUpdate::Installed { as_of, folder } => Done::ok(
            format!(
                "knowledge files of {as_of} are in use from here on, in {}; take that folder away to be without them",
                folder.display()
            ),
            json!({ "as_of": as_of, "folder": folder, "installed": true }),
        ),
        KnowledgeUpdate::Newest { as_of } => Done::ok(
            format!("there are no newer knowledge files than those of {as_of}, which are here"),
            json!({ "as_of": as_of, "installed": false }),
        ),
    })
}
