//! What lies in a `site-packages` folder, read from its files: no Python runs.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::versions::normal_name;
use crate::hash::sha256_of;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Its name in the one spelling of [`normal_name`].
    pub name: String,
    /// Its version with the local part, for example `2.11.0+rocm7.2`.
    pub version: String,
}

/// Whether rocBLAS has kernels for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// It has files for it.
    Present,
    /// It has files, none of them for it.
    Missing,
    /// No folder with rocBLAS's files was found.
    Unknown,
}

/// The `site-packages` folder of an environment: `folder` itself if packages lie in it, else the one of the virtual
/// or conda environment at `folder`.
pub fn site_packages(folder: &Path) -> Option<PathBuf> {
    let windows = folder.join("Lib").join("site-packages");
    let mut candidates = vec![folder.to_path_buf()];
    for child in sorted_children(&folder.join("lib")) {
        if file_name(&child).starts_with("python3") {
            candidates.push(child.join("site-packages"));
        }
    }
    candidates.push(windows);
    candidates.into_iter().find(|site| {
        site.join("torch/version.py").is_file()
            || (site.is_dir() && (site != folder || !dist_infos(site).is_empty()))
    })
}

/// Every package of which `site` has the metadata, by name. A package whose metadata cannot be read is taken from
/// its folder's name.
pub fn packages(site: &Path) -> Vec<Package> {
    let mut packages: Vec<_> = dist_infos(site)
        .iter()
        .filter_map(|info| package_of(info))
        .collect();
    packages.sort();
    packages
}

/// The back ends of the Triton in `site`: `amd`, `nvidia`. None where there is no Triton.
pub fn triton_backends(site: &Path) -> Option<Vec<String>> {
    if !site.join("triton").is_dir() {
        return None;
    }
    let names = sorted_children(&site.join("triton").join("backends"))
        .iter()
        .filter(|child| child.is_dir())
        .map(|child| file_name(child))
        .filter(|name| !name.starts_with('_'))
        .collect();
    Some(names)
}

/// The packages that say that they filled the folder `triton`, and whether the compiled part that lies there is
/// theirs. More than one of them means that the last one installed overwrote the others.
pub fn triton_owners(site: &Path) -> Vec<TritonOwner> {
    dist_infos(site)
        .iter()
        .filter(|info| file_name(info).to_lowercase().contains("triton"))
        .filter_map(|info| {
            let record = fs::read_to_string(info.join("RECORD")).ok()?;
            let entries: Vec<_> = record
                .lines()
                .filter(|line| line.starts_with("triton/"))
                .collect();
            if entries.is_empty() {
                return None;
            }
            Some(TritonOwner {
                package: package_of(info)?,
                intact: entries
                    .iter()
                    .filter(|line| line.starts_with("triton/_C/"))
                    .all(|line| matches_record(site, line)),
            })
        })
        .collect()
}

/// A package that filled the folder `triton`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TritonOwner {
    /// Which.
    pub package: Package,
    /// Whether its compiled part is what lies there, by size and SHA-256.
    pub intact: bool,
}

/// Whether the rocBLAS in `site` has kernels for `gfx`. torch's own index puts it inside torch, AMD's beside it.
///
/// Source: the loader asks for `TensileLibrary_lazy_<gfx>.dat` and aborts without it (pytorch#179865).
pub fn rocblas_kernels(site: &Path, gfx: &str) -> Kernels {
    let mut found = Kernels::Unknown;
    let beside = sorted_children(site)
        .into_iter()
        .filter(|child| file_name(child).starts_with("_rocm_sdk"))
        .flat_map(|sdk| [sdk.join("lib"), sdk.join("bin")]);
    for libraries in std::iter::once(site.join("torch/lib")).chain(beside) {
        let files = sorted_children(&libraries.join("rocblas/library"));
        if files.iter().any(|file| is_tensile_of(&file_name(file), gfx)) {
            return Kernels::Present;
        }
        if !files.is_empty() {
            found = Kernels::Missing;
        }
    }
    found
}

/// `TensileLibrary_lazy_gfx1100.dat` is of gfx1100, and not of gfx110.
fn is_tensile_of(name: &str, gfx: &str) -> bool {
    name.starts_with("TensileLibrary")
        && name
            .match_indices(gfx)
            .any(|(at, _)| !name[at + gfx.len()..].starts_with(|next: char| next.is_ascii_alphanumeric()))
}

fn dist_infos(site: &Path) -> Vec<PathBuf> {
    let mut folders = sorted_children(site);
    folders.retain(|folder| folder.extension().is_some_and(|end| end == "dist-info"));
    folders
}

fn package_of(info: &Path) -> Option<Package> {
    let header = read_beginning(&info.join("METADATA"));
    let stem = file_name(info);
    let stem = stem.strip_suffix(".dist-info")?;
    let (name, version) = stem.rsplit_once('-').unwrap_or((stem, ""));
    Some(Package {
        name: normal_name(&printable(field(&header, "Name").unwrap_or(name))),
        version: printable(field(&header, "Version").unwrap_or(version)),
    })
}

/// Name and version stand in the first lines; a description can be long.
fn read_beginning(file: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(file) {
        // What could be read still counts.
        let _ = file.take(16 * 1024).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header
        .lines()
        .take_while(|line| !line.is_empty())
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

/// A line of a RECORD: `path,sha256=<base64 without padding>,<bytes>`.
fn matches_record(site: &Path, line: &str) -> bool {
    let mut fields = line.rsplitn(3, ',');
    let (Some(bytes), Some(hash), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    let file = site.join(path);
    let Ok(meta) = fs::metadata(&file) else {
        return false;
    };
    if bytes.parse().is_ok_and(|bytes: u64| bytes != meta.len()) {
        return false;
    }
    match hash.strip_prefix("sha256=") {
        Some(wanted) => sha256_of(&file).is_ok_and(|found| url_base64(&found) == wanted),
        None => true,
    }
}

/// Base64 with `-` and `_` and without padding, the form of RECORD files (PEP 376).
fn url_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .enumerate()
            .fold(0u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..=group.len() {
            text.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize] as char);
        }
    }
    text
}

/// Names come from other people's files: nothing in them may steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter })
        .collect()
}

pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

pub(crate) fn sorted_children(folder: &Path) -> Vec<PathBuf> {
    let mut children: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    children.sort();
    children
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(site: &Path, file: &str, text: &str) {
        let path = site.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn packages_are_read_from_their_metadata() {
        let temp = tempfile::tempdir().unwrap();
        let site = temp.path();
        write(
            site,
            "torch-2.11.0+rocm7.2.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0+rocm7.2\n\nName: not a field\n",
        );
        write(site, "Flash_Attn-2.8.dist-info/RECORD", "");
        write(
            site,
            "evil-1.dist-info/METADATA",
            "Name: e\u{1b}[31mvil\nVersion: 1\u{7}\n\n",
        );
        let listed: Vec<_> = packages(site)
            .into_iter()
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        assert_eq!(
            listed,
            [
                "e\u{fffd}[31mvil 1\u{fffd}",
                "flash-attn 2.8",
                "torch 2.11.0+rocm7.2"
            ]
        );
    }

    #[test]
    fn the_site_packages_of_every_kind_of_environment_are_found() {
        let temp = tempfile::tempdir().unwrap();
        let at = |folder: &str| temp.path().join(folder);
        fs::create_dir_all(at("venv/lib/python3.12/site-packages")).unwrap();
        fs::create_dir_all(at("windows/Lib/site-packages")).unwrap();
        write(&at("target"), "torch/version.py", "");
        fs::create_dir_all(at("neither/lib")).unwrap();
        assert_eq!(
            site_packages(&at("venv")),
            Some(at("venv/lib/python3.12/site-packages"))
        );
        assert_eq!(
            site_packages(&at("windows")),
            Some(at("windows/Lib/site-packages"))
        );
        assert_eq!(site_packages(&at("target")), Some(at("target")));
        assert_eq!(site_packages(&at("neither")), None);
    }

    #[test]
    fn kernels_are_those_of_the_very_target() {
        let temp = tempfile::tempdir().unwrap();
        let site = temp.path();
        assert_eq!(rocblas_kernels(site, "gfx1100"), Kernels::Unknown);
        write(
            site,
            "torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat",
            "",
        );
        assert_eq!(rocblas_kernels(site, "gfx1100"), Kernels::Present);
        assert_eq!(rocblas_kernels(site, "gfx110"), Kernels::Missing);
        write(
            site,
            "_rocm_sdk_libraries_gfx103X_all/lib/rocblas/library/TensileLibrary_lazy_gfx1031.dat",
            "",
        );
        assert_eq!(rocblas_kernels(site, "gfx1031"), Kernels::Present);
    }

    #[test]
    fn a_triton_that_was_overwritten_is_not_intact() {
        let temp = tempfile::tempdir().unwrap();
        let site = temp.path();
        write(site, "triton/_C/libtriton.so", "hello");
        // The SHA-256 of "hello".
        let record =
            "triton/_C/libtriton.so,sha256=LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ,5\ntriton/x.py,,\n";
        write(site, "triton_rocm-3.6.0.dist-info/RECORD", record);
        write(
            site,
            "triton_kernels-1.0.dist-info/RECORD",
            "triton_kernels/a.py,,\n",
        );
        let owners = triton_owners(site);
        assert_eq!(owners.len(), 1);
        assert_eq!(owners[0].package.name, "triton-rocm");
        assert!(owners[0].intact);

        write(site, "triton/_C/libtriton.so", "other");
        assert!(!triton_owners(site)[0].intact);
        assert_eq!(triton_backends(site), Some(vec![]));
        fs::create_dir_all(site.join("triton/backends/amd")).unwrap();
        assert_eq!(triton_backends(site), Some(vec!["amd".to_owned()]));
    }
}
