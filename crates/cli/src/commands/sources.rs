//! `data show`, `models fetch` and `models list`: where models and data come from, and how they are read.

use std::path::Path;

use serde_json::json;
use tunesmith_data::{Columns, Content, DataSet, Role};
use tunesmith_lab::{
    fit::Pause,
    recipe::{DEFAULT_MODEL, Recipe},
    stop::StopToken,
};
use tunesmith_models::hub::{Hub, HubError, HubId, Plan};
use tunesmith_setup::{Folders, free_bytes, model};

use super::first_use;
use crate::{
    Done, Signals,
    consent::agreed,
    errors::CliError,
    format::{size, table},
    terminal::Terminal,
};

/// Letters of a text that are shown.
const EXCERPT: usize = 200;

pub(crate) fn show_data(path: &Path, columns: Vec<(Role, String)>, count: usize) -> Result<Done, CliError> {
    let set = DataSet::read(path, &columns.into_iter().collect::<Columns>())?;
    let reading = &set.reading;
    let (kind, rows) = match &set.content {
        Content::Conversations(examples) => ("conversations", examples.len()),
        Content::Text(documents) => ("texts", documents.len()),
    };
    let used_as = |name: &str| {
        let roles = reading.uses.iter().flat_map(|used| &used.columns);
        let mut roles: Vec<&str> = roles
            .filter(|(_, column)| *column == name)
            .map(|(role, _)| role.name())
            .collect();
        roles.sort_unstable();
        roles.dedup();
        roles.join(", ")
    };
    let mut lines = vec![format!(
        "{}: {}, {rows} {kind}",
        path.display(),
        reading.format.name()
    )];
    if !set.columns.is_empty() {
        let columns: Vec<Vec<String>> = set
            .columns
            .iter()
            .map(|column| {
                vec![
                    column.name.clone(),
                    used_as(&column.name),
                    column.kinds.join(", "),
                    column.filled.to_string(),
                ]
            })
            .collect();
        lines.push(String::new());
        lines.push(table(&["column", "used as", "holds", "filled"], &columns));
        lines.push(String::new());
        lines.push("Other columns are chosen with --column, or with data.columns in a recipe".to_owned());
    }
    let mut shown = Vec::new();
    match &set.content {
        Content::Conversations(examples) => {
            for example in examples.iter().take(count) {
                lines.push(format!("\n{}", example.id));
                let said = example.messages.iter();
                lines.extend(said.map(|said| format!("  {}: {}", said.role, excerpt(&said.content))));
                shown.push(json!({ "id": example.id, "messages": example.messages }));
            }
        }
        Content::Text(documents) => {
            for document in documents.iter().take(count) {
                let text = excerpt(&document.text);
                lines.push(format!("\n{}\n  {text}", document.id));
                shown.push(json!({ "id": document.id, "text": text }));
            }
        }
    }
    let json = json!({
        "path": path,
        "format": reading.format,
        "kind": kind,
        "rows": rows,
        "columns": set.columns,
        "uses": reading.uses,
        "examples": shown,
    });
    Ok(Done::ok(lines.join("\n"), json))
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}

pub(crate) fn fetch_model(
    id: &str,
    yes: bool,
    signals: &Signals,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    if id == DEFAULT_MODEL {
        return fetch_default_model(yes, signals, terminal);
    }
    let hub = Hub::from_env()?;
    let plan = hub.plan(&id.parse()?)?;
    let path = fetch(&hub, &plan, yes, &signals.stop, terminal)?;
    let text = format!(
        "{} is here, {}, licence {}\n  {}\nUse it: --set model.source={}",
        plan.id,
        size(plan.total_bytes),
        licence(&plan),
        path.display(),
        plan.id
    );
    let json = json!({
        "id": plan.id.to_string(),
        "asked": plan.asked.to_string(),
        "licence": plan.licence,
        "gated": plan.gated,
        "total_bytes": plan.total_bytes,
        "fetched_bytes": plan.fetch_bytes,
        "files": plan.files,
        "path": path,
    });
    Ok(Done::ok(text, json))
}

/// The default model comes by set-up, which knows its checksum, and not from a hub.
fn fetch_default_model(yes: bool, signals: &Signals, terminal: &mut Terminal) -> Result<Done, CliError> {
    let path = first_use::fetch_model(yes, &signals.cancel, terminal)?;
    let bytes = path.metadata().map_or(0, |found| found.len());
    let text = format!(
        "{DEFAULT_MODEL} is here, {}, licence {}\n  {}\nRecipes use it where they name no other",
        size(bytes),
        model::LICENCE,
        path.display()
    );
    let json = json!({
        "id": DEFAULT_MODEL,
        "asked": DEFAULT_MODEL,
        "licence": model::LICENCE,
        "gated": false,
        "total_bytes": bytes,
        "path": path,
    });
    Ok(Done::ok(text, json))
}

pub(crate) fn list_models() -> Result<Done, CliError> {
    let hub = Hub::from_env()?;
    let held = hub.list();
    let installed = model::installed(&Folders::from_env()?);
    let mut rows: Vec<Vec<String>> = held
        .iter()
        .map(|held| {
            let state = if held.missing.is_empty() {
                String::new()
            } else {
                format!("incomplete: {} missing", held.missing.join(", "))
            };
            vec![held.id.clone(), size(held.bytes), state]
        })
        .collect();
    if let Some(path) = &installed {
        let bytes = path.metadata().map_or(0, |found| found.len());
        rows.insert(
            0,
            vec![DEFAULT_MODEL.to_owned(), size(bytes), "from set-up".to_owned()],
        );
    }
    let text = if rows.is_empty() {
        "No models yet; `tunesmith models fetch owner/name` brings one".to_owned()
    } else {
        format!(
            "{}\n\ncache: {}",
            table(&["model", "size", ""], &rows),
            hub.cache().display()
        )
    };
    let json = json!({ "cache": hub.cache(), "installed": installed, "models": held });
    Ok(Done::ok(text, json))
}

/// The recipe with its model on this machine: one from a hub is fetched, after a yes, and named by its exact commit.
pub(super) fn with_model_here(
    mut recipe: Recipe,
    yes: bool,
    stop: &StopToken,
    terminal: &mut Terminal,
) -> Result<Recipe, CliError> {
    let Some(source) = recipe
        .model
        .source
        .as_deref()
        .filter(|source| *source != DEFAULT_MODEL)
    else {
        return Ok(recipe);
    };
    let hub = Hub::from_env()?;
    let asked: HubId = source.parse()?;
    let here = hub.find(&asked);
    let id = match here {
        // A commit is what it is: there is nothing to ask for.
        Ok((id, _)) if asked.is_pinned() || hub.is_offline() => id,
        Err(error) if hub.is_offline() => return Err(error.into()),
        here => match (hub.plan(&asked), here) {
            (Ok(plan), _) => {
                fetch(&hub, &plan, yes, stop, terminal)?;
                plan.id
            }
            (Err(error @ HubError::NotReached { .. }), Ok((id, _))) => {
                terminal.note(&format!("{error}; the copy on this machine is used, {id}"));
                id
            }
            (Err(error), _) => return Err(error.into()),
        },
    };
    recipe.model.source = Some(id.to_string());
    Ok(recipe)
}

/// Fetches what a plan lacks, after saying what it is and being told to.
fn fetch(
    hub: &Hub,
    plan: &Plan,
    yes: bool,
    stop: &StopToken,
    terminal: &mut Terminal,
) -> Result<std::path::PathBuf, CliError> {
    if plan.fetch_bytes > 0 {
        let what = format!(
            "{} is {} to fetch into {}, licence {}{}",
            plan.id,
            size(plan.fetch_bytes),
            hub.cache().display(),
            licence(plan),
            if plan.gated { ", gated" } else { "" }
        );
        if !yes && !agreed(&format!("{what}\nFetch it now?")) {
            return Err(CliError::NoConsent(what));
        }
        terminal.note(&what);
    }
    let mut pause = Pause::new(Folders::from_env()?.data());
    let path = hub.fetch(plan, free_bytes(hub.cache()), &mut |progress| {
        terminal.fetched(progress.file, progress.done, progress.total);
        pause.wait(|| stop.asked().is_some(), |text| terminal.note(text))
    });
    terminal.finish();
    Ok(path?)
}

fn licence(plan: &Plan) -> &str {
    plan.licence.as_deref().unwrap_or("not told")
}
