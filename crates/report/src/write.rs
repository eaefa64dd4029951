//! Puts a report into a folder, each file written beside its place and then renamed.

use std::path::{Path, PathBuf};

use crate::{Report, ReportError};

/// Name of the HTML file.
pub const HTML_FILE: &str = "report.html";
/// Name of the JSON file.
pub const JSON_FILE: &str = "report.json";

/// The files of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The HTML file.
    pub html: PathBuf,
    /// The JSON file.
    pub json: PathBuf,
}

/// Writes [`HTML_FILE`] and [`JSON_FILE`] into a folder, over older ones.
///
/// # Errors
/// [`ReportError`]; files that were there stay whole.
pub fn write(dir: &Path, report: &Report) -> Result<Written, ReportError> {
    let (html, json) = (report.to_html()?, report.to_json()?);
    Ok(Written {
        json: put(dir, JSON_FILE, &json)?,
        html: put(dir, HTML_FILE, &html)?,
    })
}

fn put(dir: &Path, name: &str, text: &str) -> Result<PathBuf, ReportError> {
    let path = dir.join(name);
    let beside = dir.join(format!(".{name}.{}.partial", std::process::id()));
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, &path))
        .map_err(|source| {
            // The half-written file is of no use to anyone; that it may not be there is fine.
            let _ = std::fs::remove_file(&beside);
            ReportError::Write {
                path: path.clone(),
                source,
            }
        })?;
    Ok(path)
}
