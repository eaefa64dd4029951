//! The report's window is a process of its own: what a report may do to it, a crash of WebKit for one, does not reach what
//! leads trainings, its memory is gone when it is closed, and its variables are its own. Here is all of it that needs no
//! webview: what is shown, what the page may do, where its links lead, and the process.

use std::{
    env,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

/// Largest report that is shown; one of a long training has a few megabytes.
const MOST_BYTES: u64 = 64 << 20;

/// What the page may do: show itself. No scripts, no network, no forms, no frames; its styles stand in it, and pictures
/// only as a part of it.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; \
                                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-popups";

/// By this WebKit is told not to draw through the card by DMA-BUF. It must be there before WebKit starts.
const NO_DMABUF: &str = "WEBKIT_DISABLE_DMABUF_RENDERER";

/// Where the page is, for the webview.
pub(crate) const SCHEME: &str = "report";

/// Why a report cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("{} is no report: reports are HTML files", .0.display())]
    NoReport(PathBuf),
    #[error("{} cannot be read: {source}", file.display())]
    Unreadable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is larger than {} MiB", .0.display(), MOST_BYTES >> 20)]
    TooLarge(PathBuf),
    #[error("{} is no report: its text is not UTF-8", .0.display())]
    NotText(PathBuf),
    #[error("{} is no report: it leads away by itself", .0.display())]
    LeadsAway(PathBuf),
    #[error("the report's window was not started: {0}")]
    NotStarted(#[source] io::Error),
}

/// Reads a report.
///
/// # Errors
/// [`ReportError`] where it is none, too large, or cannot be read.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, ReportError> {
    let unreadable = |source| ReportError::Unreadable {
        file: file.to_owned(),
        source,
    };
    if file.extension().is_none_or(|extension| extension != "html") {
        return Err(ReportError::NoReport(file.to_owned()));
    }
    let mut page = Vec::new();
    let read = File::open(file)
        .and_then(|open| open.take(MOST_BYTES + 1).read_to_end(&mut page))
        .map_err(unreadable)?;
    if read as u64 > MOST_BYTES {
        return Err(ReportError::TooLarge(file.to_owned()));
    }
    let text = str::from_utf8(&page).map_err(|_| ReportError::NotText(file.to_owned()))?;
    if leads_away(text) {
        return Err(ReportError::LeadsAway(file.to_owned()));
    }
    Ok(page)
}

/// Whether a page gives orders in the manner of a server, other than the policy that reports have: one of them is to go
/// elsewhere after a while, which no policy forbids and which would look like a link that was followed.
fn leads_away(page: &str) -> bool {
    let page = page.to_ascii_lowercase();
    page.split("http-equiv").skip(1).any(|rest| {
        let value = rest.trim_start().strip_prefix('=').map(str::trim_start);
        let value = value.map(|value| value.trim_start_matches(['"', '\'']));
        !value.is_some_and(|value| value.starts_with("content-security-policy"))
    })
}

/// What becomes of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It leads to another place of the page.
    Here,
    /// The user's browser opens it.
    Browser,
    /// Nothing: a file, a script, a mail, another program's scheme.
    Nowhere,
}

/// What becomes of a link to this address.
pub(crate) fn link(address: &str) -> Link {
    let lower = address.to_ascii_lowercase();
    // Windows' webview has the page at an address of HTTP.
    let pages = [
        format!("{SCHEME}://localhost"),
        format!("http://{SCHEME}.localhost"),
        format!("https://{SCHEME}.localhost"),
    ];
    let is_page = pages.iter().any(|page| {
        lower
            .strip_prefix(page.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '#', '?']))
    });
    if is_page {
        Link::Here
    } else if lower.starts_with("https://") || lower.starts_with("http://") {
        Link::Browser
    } else {
        Link::Nowhere
    }
}

/// The report's window, where one is open.
#[derive(Default)]
pub(crate) struct ReportWindow(Mutex<Option<Child>>);

impl ReportWindow {
    /// Shows a report, in place of the one that is shown.
    ///
    /// # Errors
    /// [`ReportError`] where it cannot be read or shown.
    pub(crate) fn show(&self, file: &Path) -> Result<(), ReportError> {
        read(file)?;
        let mut command = Command::new(env::current_exe().map_err(ReportError::NotStarted)?);
        command
            .arg("report")
            .arg(file)
            // It leaves when this ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        // DMA-BUF shows nothing on some drivers, and a page without motion gains nothing from it.
        if cfg!(target_os = "linux") && env::var_os(NO_DMABUF).is_none() {
            command.env(NO_DMABUF, "1");
        }
        let child = command.spawn().map_err(ReportError::NotStarted)?;
        self.replace(Some(child));
        Ok(())
    }

    /// Closes it, where it is open; it is gone when this returns.
    pub(crate) fn close(&self) {
        self.replace(None);
    }

    fn replace(&self, child: Option<Child>) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut before) = std::mem::replace(&mut *open, child) {
            // Nothing is lost with it; it may be gone already.
            let _ = before.kill();
            let _ = before.wait();
        }
    }
}

impl Drop for ReportWindow {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_within_the_page_to_the_browser_or_nowhere() {
        for address in [
            "report://localhost/",
            "report://localhost/#loss",
            "report://localhost",
            "http://report.localhost/#loss",
        ] {
            assert_eq!(link(address), Link::Here, "{address}");
        }
        for address in [
            "https://example.org/",
            "HTTP://example.org/a?b",
            "http://report.localhost.example.org/",
            "https://report.localhostile/",
        ] {
            assert_eq!(link(address), Link::Browser, "{address}");
        }
        for address in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/html,<script>alert(1)</script>",
            "about:blank",
            "mailto:a@example.org",
            "smb://host/share",
            "report://elsewhere/",
            "",
        ] {
            assert_eq!(link(address), Link::Nowhere, "{address}");
        }
    }

    #[test]
    fn a_page_may_do_nothing_but_show_itself() {
        let directives: Vec<&str> = POLICY.split("; ").collect();
        assert_eq!(directives[0], "default-src 'none'");
        let open: Vec<&&str> = directives
            .iter()
            .filter(|directive| !directive.ends_with("'none'"))
            .collect();
        assert_eq!(
            open,
            [
                &"style-src 'unsafe-inline'",
                &"img-src data:",
                &"font-src data:",
                &"sandbox allow-popups"
            ]
        );
    }

    #[test]
    fn only_a_report_of_a_sensible_size_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let odd = path("a \"report\"\nof Jürgen.html");
        std::fs::write(&odd, "<p>hello").unwrap();
        assert_eq!(read(&odd).unwrap(), b"<p>hello");
        std::fs::write(path("report.txt"), "").unwrap();
        assert!(matches!(read(&path("report.txt")), Err(ReportError::NoReport(_))));
        assert!(matches!(
            read(&path("none.html")),
            Err(ReportError::Unreadable { .. })
        ));
        for (name, page) in [
            (
                "one.html",
                "<meta HTTP-EQUIV = 'Refresh' content='0; url=https://example.org/'>",
            ),
            ("two.html", "<meta http-equiv=\"&#114;efresh\" content=0>"),
            ("three.html", "<meta http-equiv>"),
        ] {
            std::fs::write(path(name), page).unwrap();
            assert!(
                matches!(read(&path(name)), Err(ReportError::LeadsAway(_))),
                "{page}"
            );
        }
        let own = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\">";
        std::fs::write(path("own.html"), own).unwrap();
        assert!(read(&path("own.html")).is_ok());
        std::fs::write(path("utf-16.html"), b"\xff\xfe<\0p\0").unwrap();
        assert!(matches!(read(&path("utf-16.html")), Err(ReportError::NotText(_))));
        let large = File::create(path("large.html")).unwrap();
        large.set_len(MOST_BYTES + 1).unwrap();
        assert!(matches!(read(&path("large.html")), Err(ReportError::TooLarge(_))));
    }
}
