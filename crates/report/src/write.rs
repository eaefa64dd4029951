//! Puts a report into a folder in any of its forms, each file written beside its place and then renamed.

use std::path::{Path, PathBuf};

use crate::{Report, ReportError, card};

/// Name of the HTML file.
pub const HTML_FILE: &str = "report.html";
/// Name of the JSON file.
pub const JSON_FILE: &str = "report.json";

/// A form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One self-contained page.
    Html,
    /// For programs, and for comparing.
    Json,
    /// For a post in a forum.
    Markdown,
    /// A picture of 1200 by 630 for sharing.
    Png,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Html, Self::Json, Self::Markdown, Self::Png];

    /// The name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Json => "json",
            Self::Markdown => "markdown",
            Self::Png => "png",
        }
    }

    /// Ending of its files, without the dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            other => other.name(),
        }
    }

    /// The form that files with this ending have.
    pub fn of_ending(ending: &str) -> Option<Self> {
        match ending.to_ascii_lowercase().as_str() {
            "html" | "htm" => Some(Self::Html),
            "json" => Some(Self::Json),
            "md" | "markdown" => Some(Self::Markdown),
            "png" => Some(Self::Png),
            _ => None,
        }
    }

    /// A report in this form.
    ///
    /// # Errors
    /// [`ReportError`]; none is known to happen.
    pub fn render(self, report: &Report) -> Result<Vec<u8>, ReportError> {
        Ok(match self {
            Self::Html => report.to_html()?.into_bytes(),
            Self::Json => report.to_json()?.into_bytes(),
            Self::Markdown => report.to_markdown()?.into_bytes(),
            Self::Png => card::png(report)?,
        })
    }
}

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
    put(&files.json, data.as_bytes())?;
    put(&files.html, page.as_bytes())?;
    Ok(files)
}

/// Writes a report in one form to a path, over an older file.
///
/// # Errors
/// [`ReportError`]; a file that was there stays whole.
pub fn write_as(path: &Path, format: Format, report: &Report) -> Result<(), ReportError> {
    put(path, &format.render(report)?)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    std::fs::write(&beside, bytes)
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
