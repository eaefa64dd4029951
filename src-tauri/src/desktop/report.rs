//! The report's window: a process of its own with one webview and one page. The page may call nothing
//! (`capabilities/report.json` has no permission), run nothing and fetch nothing; a link leaves through the user's browser or
//! not at all. It ends with its parent.

use std::{
    io::{Read, stdin},
    path::Path,
    thread,
};

use anyhow::{Context, Result};
use tauri::{
    AppHandle, Url, WebviewUrl, WebviewWindowBuilder, Wry,
    http::{Response, StatusCode, header},
    menu::{Menu, MenuItem, Submenu},
    webview::NewWindowResponse,
};

use crate::{
    report::{self, Link, POLICY, SCHEME},
    shell::say_line,
};

/// The window's name, by which the capability is bound to it.
const LABEL: &str = "report";

/// Where the network would be: a port at which nobody listens, and nobody without rights can.
const NO_PROXY: &str = "http://127.0.0.1:1";

const PRINT: &str = "print";
const CLOSE: &str = "close";

/// Shows a report until its window is closed, or the parent ends; returns the exit status.
///
/// # Errors
/// Where the report cannot be read, or the window not be opened.
pub(crate) fn show(file: &Path) -> Result<u8> {
    let page = report::read(file)?;
    let title = file.file_stem().map_or_else(
        || "Report".to_owned(),
        |name| format!("{} — Tunesmith", name.to_string_lossy()),
    );
    let app = tauri::Builder::default()
        .register_uri_scheme_protocol(SCHEME, move |_window, request| {
            answer(&page, request.uri().path())
        })
        .setup(move |app| {
            open(app.handle(), &title)?;
            end_with_parent(app.handle().clone());
            Ok(())
        })
        .build(super::context())
        .context("the report's window does not open")?;
    let status = app.run_return(|_app, _event| {});
    Ok(u8::try_from(status).unwrap_or(1))
}

/// There is one page, and nothing beside it.
fn answer(page: &[u8], path: &str) -> Response<Vec<u8>> {
    let (status, body) = if matches!(path, "" | "/") {
        (StatusCode::OK, page.to_vec())
    } else {
        (StatusCode::NOT_FOUND, Vec::new())
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

fn open(app: &AppHandle, title: &str) -> tauri::Result<()> {
    let print = MenuItem::with_id(app, PRINT, "Print…", true, Some("CmdOrCtrl+P"))?;
    let close = MenuItem::with_id(app, CLOSE, "Close", true, Some("CmdOrCtrl+W"))?;
    let menu = Menu::with_items(
        app,
        &[&Submenu::with_items(app, "Report", true, &[&print, &close])?],
    )?;
    let address: Url = format!("{SCHEME}://localhost/")
        .parse()
        .map_err(tauri::Error::InvalidUrl)?;
    // Policies do not speak of connections that a page asks to be made ahead (`preconnect`); these end at the proxy.
    let nobody: Url = NO_PROXY.parse().map_err(tauri::Error::InvalidUrl)?;
    let window = WebviewWindowBuilder::<Wry, _>::new(app, LABEL, WebviewUrl::CustomProtocol(address))
        .title(title)
        .inner_size(1100.0, 860.0)
        .menu(menu)
        // A report has no scripts, so whatever has some is no report of ours.
        .disable_javascript()
        .incognito(true)
        .proxy_url(nobody)
        .disable_drag_drop_handler()
        .on_navigation(|address| may_go(address.as_str()))
        .on_new_window(|address, _features| {
            may_go(address.as_str());
            NewWindowResponse::Deny
        })
        .on_download(|_window, _event| false)
        .build()?;
    let shown = window.clone();
    window.on_menu_event(move |_window, event| {
        let done = match event.id().as_ref() {
            PRINT => shown.print(),
            CLOSE => shown.close(),
            _ => Ok(()),
        };
        if let Err(error) = done {
            say_line(&format!("error: {error}"));
        }
    });
    Ok(())
}

/// Whether the page may show what is at this address. What a browser can open goes there instead.
fn may_go(address: &str) -> bool {
    match report::link(address) {
        Link::Here => true,
        Link::Browser => {
            if let Err(error) = open::that_detached(address) {
                say_line(&format!(
                    "error: {address} could not be opened in a browser: {error}"
                ));
            }
            false
        }
        Link::Nowhere => false,
    }
}

/// No window outlives the app that opened it.
fn end_with_parent(app: AppHandle) {
    thread::spawn(move || {
        let mut nothing = [0; 64];
        while matches!(stdin().read(&mut nothing), Ok(bytes) if bytes > 0) {}
        app.exit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_is_there_with_its_policy_and_nothing_beside_it() {
        let response = answer(b"<p>hello", "/");
        assert_eq!(
            (response.status().as_u16(), response.body().as_slice()),
            (200, &b"<p>hello"[..])
        );
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap();
        assert!(policy.starts_with("default-src 'none'"));
        for path in ["/etc/passwd", "/../report.html", "/report.json"] {
            let response = answer(b"<p>hello", path);
            assert_eq!(response.status().as_u16(), 404);
            assert!(response.body().is_empty());
        }
    }

    #[test]
    fn what_is_no_page_goes_nowhere() {
        assert!(may_go("report://localhost/#loss"));
        assert!(!may_go("file:///etc/passwd"));
        assert!(!may_go("javascript:alert(1)"));
    }

    #[test]
    fn the_capability_of_the_page_permits_nothing() {
        let text = include_str!("../../capabilities/report.json");
        assert!(
            text.contains(&format!("\"windows\": [\"{LABEL}\"]")) && text.contains("\"permissions\": []")
        );
    }
}
