//! Outputs of tools that lie at the top of a capture: often all that somebody who asks for help has posted. They are
//! recognised by what they hold, since everybody names them differently.

mod amd_tools;
mod lspci;
mod nvidia_smi;
mod rocminfo;
mod tables;
mod windows;

use super::found::Source;
use super::reader::{Reader, json};

/// A capture's top has a dozen files; more than this are not all looked at.
const MAX_FILES: usize = 300;

/// What the tools' outputs say.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Best first.
    pub(crate) sources: Vec<Source>,
    /// A tool of Linux, or one that says that it runs under WSL.
    pub(crate) linux: bool,
    pub(crate) wsl: bool,
    /// Listings of Windows.
    pub(crate) windows: bool,
    /// Versions of display drivers that Windows lists, by vendor name.
    pub(crate) windows_drivers: Vec<(String, String)>,
    pub(crate) nvidia_driver: Option<String>,
    pub(crate) cuda: Option<String>,
    pub(crate) rocm: Option<String>,
    /// Main memory in bytes, as rocminfo's processor agent has it.
    pub(crate) memory_bytes: Option<u64>,
    /// Files that hold a kernel's log.
    pub(crate) logs: Vec<String>,
    /// Files that hold lines `NAME=value`.
    pub(crate) environments: Vec<String>,
}

/// How far a source is trusted among the tools: smaller is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    AmdgpuTopDump,
    AmdgpuTopSample,
    RocmSmi,
    NvidiaSmiXml,
    NvidiaSmiQuery,
    NvidiaSmiTable,
    Rocminfo,
    Lspci,
    Table,
    Summary,
    Windows,
}

/// What one file holds.
#[derive(Default)]
struct Content {
    sources: Vec<(Rank, Source)>,
}

impl Content {
    fn add(&mut self, rank: Rank, source: Source) {
        if !source.cards.is_empty() {
            self.sources.push((rank, source));
        }
    }
}

/// The files at a capture's top, as (name, text).
pub(crate) fn top_files(reader: &Reader<'_>) -> Vec<(String, String)> {
    let names = reader.names("").into_iter().take(MAX_FILES);
    // Folders, and files that cannot be read, have no text; whether they matter cannot be told.
    names
        .filter_map(|name| Some((name.clone(), reader.try_text(&name).ok()?)))
        .collect()
}

/// What texts say that tools wrote, or that are made like theirs.
pub(crate) fn outputs(reader: &Reader<'_>, texts: &[(String, String)]) -> Outputs {
    let mut outputs = Outputs::default();
    let mut content = Content::default();
    let mut windows = windows::Listings::default();
    for (name, text) in texts {
        recognise(name, text, &mut outputs, &mut content, &mut windows);
    }
    if let Some(listed) = windows.finish(reader) {
        outputs.windows = true;
        outputs.windows_drivers = listed.drivers;
        content.add(Rank::Windows, listed.source);
    }
    content.sources.sort_by_key(|(rank, _)| *rank);
    outputs.sources = content.sources.into_iter().map(|(_, source)| source).collect();
    outputs
}

fn recognise(
    name: &str,
    text: &str,
    outputs: &mut Outputs,
    content: &mut Content,
    windows: &mut windows::Listings,
) {
    // Before JSON: a log may begin with the bracket of its first time.
    if super::log::looks_like_log(text) {
        outputs.logs.push(name.to_owned());
        return;
    }
    if text.trim_start().starts_with(['{', '[']) {
        if let Some(value) = json(text) {
            if windows.read_json(name, &value) {
                return;
            }
            let rocm = value
                .get("ROCm version")
                .or_else(|| value.pointer("/0/ROCm Version"));
            let rocm = rocm.and_then(serde_json::Value::as_str).map(str::to_owned);
            outputs.rocm = outputs.rocm.take().or(rocm);
            let dump = value.is_array();
            let found = amd_tools::amdgpu_top(&value);
            let rank = if dump {
                Rank::AmdgpuTopDump
            } else {
                Rank::AmdgpuTopSample
            };
            outputs.linux |= !found.is_empty();
            content.add(rank, Source::new(name, found));
            let found = amd_tools::rocm_smi_json(&value);
            outputs.linux |= !found.is_empty();
            content.add(Rank::RocmSmi, Source::new(name, found));
            content.add(Rank::RocmSmi, Source::new(name, amd_tools::amd_smi_json(&value)));
            content.add(
                Rank::Table,
                Source::new(name, tables::torch_json(&value)).in_rocm_order(),
            );
        }
        // Broken JSON may still be a list of another kind, but none is known that begins so.
        return;
    }
    if text.contains("<nvidia_smi_log") {
        let log = nvidia_smi::xml(text);
        outputs.nvidia_driver = outputs.nvidia_driver.take().or(log.driver);
        outputs.cuda = outputs.cuda.take().or(log.cuda);
        content.add(Rank::NvidiaSmiXml, Source::new(name, log.cards));
        return;
    }
    if text.contains("NVIDIA-SMI") && text.contains("Driver Version:") {
        let log = nvidia_smi::table(text);
        outputs.nvidia_driver = outputs.nvidia_driver.take().or(log.driver);
        outputs.cuda = outputs.cuda.take().or(log.cuda);
        content.add(Rank::NvidiaSmiTable, Source::new(name, log.cards));
        return;
    }
    if text.contains("NVSMI LOG") {
        let log = nvidia_smi::report(text);
        outputs.nvidia_driver = outputs.nvidia_driver.take().or(log.driver);
        outputs.cuda = outputs.cuda.take().or(log.cuda);
        content.add(Rank::NvidiaSmiQuery, Source::new(name, log.cards));
        return;
    }
    if let Some(log) = nvidia_smi::query(text) {
        outputs.nvidia_driver = outputs.nvidia_driver.take().or(log.driver);
        content.add(Rank::NvidiaSmiQuery, Source::new(name, log.cards));
        return;
    }
    if text.contains("HSA Agents") {
        let listing = rocminfo::full(text);
        outputs.linux = true;
        outputs.wsl |= text.contains("WSL environment detected");
        outputs.memory_bytes = outputs.memory_bytes.or(listing.memory_bytes);
        content.add(Rank::Rocminfo, Source::new(name, listing.cards).in_rocm_order());
        return;
    }
    if super::settings::looks_like_environment(text) {
        outputs.environments.push(name.to_owned());
        return;
    }
    let cards = lspci::lspci(text);
    if !cards.is_empty() {
        outputs.linux = true;
        content.add(Rank::Lspci, Source::new(name, cards));
        return;
    }
    let cards = amd_tools::amd_smi_table(text);
    if !cards.is_empty() {
        content.add(Rank::RocmSmi, Source::new(name, cards));
        return;
    }
    let cards = amd_tools::rocm_smi_text(text);
    if !cards.is_empty() {
        outputs.linux = true;
        content.add(Rank::RocmSmi, Source::new(name, cards));
        return;
    }
    let cards = rocminfo::summary(text);
    if !cards.is_empty() {
        outputs.linux = true;
        content.add(Rank::Summary, Source::new(name, cards).in_rocm_order());
        return;
    }
    if windows.read_text(text) {
        return;
    }
    content.add(Rank::Table, tables::table(name, text));
}
