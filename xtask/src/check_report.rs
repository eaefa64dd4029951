//! `cargo xtask check-report`: looks at reports as a validator, as somebody who cannot see, and as somebody with a phone does.
//! html-validate reads the mark-up; axe looks for what keeps people out, in a headless Chromium, in both themes and at three widths;
//! nothing may be wider than its window. With `--pictures` the pages are kept as pictures and as an A4 PDF to look at.
//!
//! It needs npm and Chromium, which the tests do not: a check to run before a report's page is changed for good.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace::Workspace;

/// What is fetched with npm, outside the clone.
const PACKAGES: [&str; 2] = ["html-validate@10.9.0", "axe-core@4.14.1"];

/// A phone, a tablet, a screen.
const WIDTHS: [u32; 3] = [375, 820, 1280];

const BROWSERS: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// Rules of mark-up that are switched off, each for a reason.
const RULES: &str = r#"{
  "extends": ["html-validate:recommended"],
  "rules": {
    "long-title": "off",
    "no-trailing-whitespace": "off",
    "no-raw-characters": ["error", { "relaxed": true }],
    "prefer-native-element": ["error", { "exclude": ["region", "img"] }]
  }
}
"#;

/// Runs axe on the page and tells the page around it, in lines without mark-up.
const AXE: &str = r#"
addEventListener("load", async () => {
  let lines = [];
  try {
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    const found = await axe.run(document, { resultTypes: ["violations"] });
    lines = found.violations.map((one) => `${one.impact} ${one.id}: ${one.help} (${one.nodes.length}), e.g. ${one.nodes[0].target.join(" ")}`);
    const page = document.documentElement;
    if (page.scrollWidth > innerWidth + 1) {
      const wide = [...document.querySelectorAll("main *")].find((part) => part.getBoundingClientRect().right > innerWidth + 1 && !part.closest(".scroll, svg"));
      lines.push(`serious too-wide: the page is ${page.scrollWidth} wide in a window of ${innerWidth}, e.g. ${wide ? wide.className || wide.tagName : "?"}`);
    }
  } catch (error) {
    lines = ["critical not-run: " + error];
  }
  parent.postMessage({ lines, height: document.documentElement.scrollHeight }, "*");
});
"#;

#[derive(Args)]
pub(crate) struct CheckReport {
    /// Pages to check; without any, samples of every kind are made
    #[arg(value_name = "REPORT.html")]
    pages: Vec<PathBuf>,
    /// Keep pictures at three widths, in both themes, and an A4 PDF of each page here
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

pub(crate) fn run(options: &CheckReport) -> Result<u8> {
    let workspace = Workspace::find()?;
    let browser = browser()?;
    let tools = workspace.target.join("report-check");
    fetch(&tools)?;
    let pages = if options.pages.is_empty() {
        samples(&workspace)?
    } else {
        options.pages.clone()
    };
    let mut faults = 0;
    for page in &pages {
        faults += validate(&tools, page)?;
        for dark in [false, true] {
            for width in WIDTHS {
                faults += look(&browser, &tools, page, width, dark)?;
                if let Some(folder) = &options.pictures {
                    picture(&browser, &tools, page, width, dark, folder)?;
                }
            }
        }
        if let Some(folder) = &options.pictures {
            print(&browser, page, folder)?;
        }
    }
    if faults > 0 {
        eprintln!("error: {faults} faults in {} pages", pages.len());
        return Ok(1);
    }
    eprintln!(
        "{} pages: valid, and nothing that keeps people out, at {WIDTHS:?} in both themes",
        pages.len()
    );
    Ok(0)
}

fn browser() -> Result<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find_map(|folder| {
            BROWSERS
                .iter()
                .map(|name| folder.join(name))
                .find(|program| program.is_file())
        })
    };
    named.or_else(on_path).context(
        "no Chromium is here; install your system's package `chromium`, or set CHROMIUM to the program of one",
    )
}

/// The two packages, once.
fn fetch(tools: &Path) -> Result<()> {
    let there = ["html-validate", "axe-core"]
        .iter()
        .all(|name| tools.join("node_modules").join(name).is_dir());
    if there {
        return Ok(());
    }
    std::fs::create_dir_all(tools)?;
    eprintln!(
        "fetching {} with npm into {}",
        PACKAGES.join(" and "),
        tools.display()
    );
    let status = Command::new("npm")
        .args([
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--no-save",
            "--prefix",
        ])
        .arg(tools)
        .args(PACKAGES)
        .status()
        .context("npm could not be started; it comes with Node.js")?;
    if !status.success() {
        bail!("npm could not fetch {}", PACKAGES.join(" and "));
    }
    Ok(())
}

/// Samples of every kind of report.
fn samples(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let folder = workspace.target.join("report-samples");
    let status = workspace
        .cargo()
        .args([
            "run",
            "--quiet",
            "-p",
            "tunesmith-report",
            "--example",
            "sample_report",
            "--",
        ])
        .arg(&folder)
        .status()
        .context("cargo could not be started")?;
    if !status.success() {
        bail!("the samples could not be made");
    }
    let mut pages: Vec<PathBuf> = std::fs::read_dir(&folder)?
        .flatten()
        .map(|entry| entry.path().join("report.html"))
        .filter(|page| page.is_file())
        .collect();
    pages.sort();
    Ok(pages)
}

fn validate(tools: &Path, page: &Path) -> Result<usize> {
    let rules = tools.join("rules.json");
    std::fs::write(&rules, RULES)?;
    let output = Command::new("node")
        .arg(tools.join("node_modules/html-validate/bin/html-validate.mjs"))
        .args(["--formatter", "text", "--config"])
        .arg(&rules)
        .arg(page)
        .output()
        .context("node could not be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines() {
        eprintln!("{line}");
    }
    if output.status.success() {
        return Ok(0);
    }
    let trouble = String::from_utf8_lossy(&output.stderr);
    if said.trim().is_empty() {
        bail!("html-validate could not run: {}", trouble.trim());
    }
    Ok(said.lines().filter(|line| line.contains("error")).count().max(1))
}

/// The page with a script in it, in a frame of a width: a browser's own window cannot be as narrow as a phone.
fn framed(tools: &Path, page: &Path, width: u32, dark: bool, script: &str) -> Result<PathBuf> {
    let mut html = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let policy = html.find("<meta http-equiv").context("the page has no policy")?;
    let end = policy + html[policy..].find('>').context("the page's policy has no end")? + 1;
    html.replace_range(policy..end, &format!("<script>{script}</script>"));
    if dark {
        html = html.replace("@media (prefers-color-scheme: dark)", "@media all");
    } else {
        html = html.replace("@media (prefers-color-scheme: dark)", "@media not all");
    }
    let inner = tools.join("page.html");
    std::fs::write(&inner, html)?;
    let outer = tools.join("frame.html");
    std::fs::write(
        &outer,
        format!(
            "<!doctype html><meta charset=utf-8><style>body{{margin:0}}iframe{{border:0;display:block}}pre{{display:none}}</style>\
             <iframe id=f width={width} height=900 src=page.html></iframe><pre id=out>waiting</pre><script>addEventListener('message', e => {{\
             f.height = e.data.height; out.textContent = '\\nBEGIN\\n' + e.data.lines.map(l => l.replace(/[<>&]/g, ' ')).join('\\n') + '\\nEND\\n';}})</script>"
        ),
    )?;
    Ok(outer)
}

fn headless(browser: &Path) -> Command {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
        "--virtual-time-budget=60000",
    ]);
    command
}

fn url(path: &Path) -> Result<String> {
    Ok(format!("file://{}", std::path::absolute(path)?.display()))
}

fn look(browser: &Path, tools: &Path, page: &Path, width: u32, dark: bool) -> Result<usize> {
    let axe = std::fs::read_to_string(tools.join("node_modules/axe-core/axe.min.js"))?;
    let frame = framed(tools, page, width, dark, &format!("{axe}\n{AXE}"))?;
    let output = headless(browser)
        .args(["--dump-dom", &url(&frame)?])
        .output()
        .context("Chromium could not be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = text
        .split_once("\nBEGIN\n")
        .and_then(|(_, rest)| rest.split_once("\nEND\n"))
        .map(|(told, _)| told.to_owned())
        .with_context(|| {
            let trouble = String::from_utf8_lossy(&output.stderr);
            format!(
                "axe told nothing; Chromium said: {}",
                trouble.lines().last().unwrap_or("nothing")
            )
        })?;
    let found: Vec<&str> = told.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in &found {
        let theme = if dark { "dark" } else { "light" };
        eprintln!("{}, {width} wide, {theme}: {line}", page.display());
    }
    Ok(found.len())
}

/// A picture of the whole page, up to a height that shows enough of it.
fn picture(browser: &Path, tools: &Path, page: &Path, width: u32, dark: bool, folder: &Path) -> Result<()> {
    const HEIGHT: u32 = 12_000;
    std::fs::create_dir_all(folder)?;
    let tell = "addEventListener('load', () => parent.postMessage({lines: [], height: document.documentElement.scrollHeight}, '*'));";
    let frame = framed(tools, page, width, dark, tell)?;
    let theme = if dark { "dark" } else { "light" };
    let file = folder.join(format!("{}-{width}-{theme}.png", name_of(page)));
    let status = headless(browser)
        .arg(format!("--screenshot={}", std::path::absolute(&file)?.display()))
        .arg(format!("--window-size={},{HEIGHT}", width.max(500)))
        .arg(url(&frame)?)
        .output()
        .context("Chromium could not be started")?
        .status;
    if !status.success() {
        bail!("no picture was taken of {}", page.display());
    }
    Ok(())
}

fn print(browser: &Path, page: &Path, folder: &Path) -> Result<()> {
    let file = folder.join(format!("{}.pdf", name_of(page)));
    let status = headless(browser)
        .arg(format!(
            "--print-to-pdf={}",
            std::path::absolute(&file)?.display()
        ))
        .arg("--no-pdf-header-footer")
        .arg(url(page)?)
        .output()
        .context("Chromium could not be started")?
        .status;
    if !status.success() {
        bail!("{} was not printed", page.display());
    }
    Ok(())
}

/// The folder's name, since every page has the same.
fn name_of(page: &Path) -> String {
    let folder = std::path::absolute(page).ok();
    folder
        .as_deref()
        .and_then(Path::parent)
        .and_then(Path::file_name)
        .map_or_else(|| "report".to_owned(), |name| name.to_string_lossy().into_owned())
}
