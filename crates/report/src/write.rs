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

/// The two files that a report saved as `html` has: the JSON has the same name with another ending.
pub fn files_at(html: &Path) -> Written {
    Written {
        html: html.to_owned(),
        json: html.with_extension("json"),
    }
}

/// Writes [`HTML_FILE`] and [`JSON_FILE`] into a folder, over older ones.
///
/// # Errors
/// [`ReportError`]; files that were there stay whole.
pub fn write(dir: &Path, report: &Report) -> Result<Written, ReportError> {
    write_at(&dir.join(HTML_FILE), report)
}

/// Writes the HTML file to a path and the JSON beside it, see [`files_at`], over older ones.
///
/// # Errors
/// [`ReportError`]; files that were there stay whole.
pub fn write_at(html: &Path, report: &Report) -> Result<Written, ReportError> {
    let (page, data) = (report.to_html()?, report.to_json()?);
    let files = files_at(html);
    put(&files.json, &data)?;
    put(&files.html, &page)?;
    Ok(files)
}

fn put(path: &Path, text: &str) -> Result<(), ReportError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|source| {
            // The half-written file is of no use to anyone; that it may not be there is fine.
            let _ = std::fs::remove_file(&beside);
            ReportError::Write {
                path: path.to_owned(),
                source,
            }
        })
}
