//! What lies in a Python environment, read from its files alone: no Python is run, and none need be there.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tunesmith_probe::Setting;

use super::version::Version;

/// Most that is read of one file; what matters stands at its beginning.
const MAX_BYTES: u64 = 64 * 1024;
/// Most entries that are looked at in one folder.
const MAX_ENTRIES: usize = 20_000;
/// Longest name or value that is kept.
const MAX_CHARS: usize = 300;

/// A Python environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PythonEnvironment {
    /// The folder that was asked about.
    pub path: PathBuf,
    /// Its `site-packages`; `None` where there is none.
    pub site: Option<PathBuf>,
    /// Version of its Python, e.g. `3.12.3`.
    pub python: Option<String>,
    /// It also sees the packages of the Python that made it.
    pub system_site_packages: Option<bool>,
    /// The packages, by name; a name may be there twice after an update that went wrong.
    pub packages: Vec<Package>,
    /// What `torch/version.py` says.
    pub torch: Option<Torch>,
    /// Names in `triton/backends`; `None` where there is no `triton`.
    pub triton_backends: Option<Vec<String>>,
    /// The major version of ROCm that Triton's own libraries are for, where it brings some.
    pub triton_rocm_major: Option<u64>,
    /// `64`, `72`, `714`, …: the libraries that bitsandbytes has for ROCm; `None` where there is no bitsandbytes.
    pub bitsandbytes_rocm: Option<Vec<String>>,
    /// A folder of bitsandbytes is there without its code: Python takes it for an empty package.
    pub bitsandbytes_is_hollow: bool,
    /// The targets that rocBLAS has data for; `None` where there is no rocBLAS.
    pub rocblas_targets: Option<Vec<String>>,
    /// Variables that its activation scripts set.
    pub settings: Vec<Setting>,
}

/// An installed package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Name in lower case with hyphens.
    pub name: String,
    /// Version with its tag.
    pub version: String,
}

/// What a torch says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torch {
    /// e.g. `2.11.0+rocm7.13.0`.
    pub version: String,
    /// The CUDA that it was built for.
    pub cuda: Option<String>,
    /// The HIP that it was built for. It need not be the number in the tag.
    pub hip: Option<String>,
}

impl PythonEnvironment {
    /// Reads the environment in `folder`: a virtual environment, one of conda's, or a `site-packages` folder. What is
    /// not there is left out; a folder that is no environment has no `site`.
    pub fn read(folder: &Path) -> PythonEnvironment {
        let config = text(&folder.join("pyvenv.cfg")).unwrap_or_default();
        let (site, python_of_site) = find_site(folder);
        let mut env = PythonEnvironment {
            path: folder.to_owned(),
            python: config_value(&config, "version_info")
                .or_else(|| config_value(&config, "version"))
                .map(clean)
                .or(python_of_site),
            system_site_packages: config_value(&config, "include-system-site-packages")
                .map(|value| value.eq_ignore_ascii_case("true")),
            settings: activation_settings(folder),
            ..PythonEnvironment::default()
        };
        let Some(site) = site else { return env };
        env.packages = packages(&site);
        env.torch = text(&site.join("torch/version.py")).and_then(|text| torch(&text));
        let triton = site.join("triton");
        env.triton_backends = triton.is_dir().then(|| names(&triton.join("backends")));
        env.triton_rocm_major = triton_rocm_major(&triton);
        let bitsandbytes = site.join("bitsandbytes");
        if bitsandbytes.is_dir() {
            let libraries = names(&bitsandbytes);
            let digits = libraries.iter().filter_map(|name| rocm_digits(name));
            env.bitsandbytes_rocm = Some(digits.collect());
            env.bitsandbytes_is_hollow = !bitsandbytes.join("__init__.py").exists();
        }
        env.rocblas_targets = rocblas_targets(&site);
        env.site = Some(site);
        env
    }

    /// The version of a package; of a package that is there twice the first.
    pub fn version(&self, name: &str) -> Option<&str> {
        let package = self.packages.iter().find(|package| package.name == name)?;
        Some(&package.version)
    }

    pub(crate) fn number(&self, name: &str) -> Option<Version> {
        Version::parse(self.version(name)?)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.version(name).is_some()
    }

    /// The folder in words.
    pub(crate) fn name(&self) -> String {
        clean(&self.path.display().to_string())
    }
}

/// `site-packages` and, from the path to it, the version of Python.
fn find_site(folder: &Path) -> (Option<PathBuf>, Option<String>) {
    let windows = folder.join("Lib/site-packages");
    if windows.is_dir() {
        return (Some(windows), None);
    }
    for lib in ["lib", "lib64"] {
        for name in names(&folder.join(lib)) {
            let site = folder.join(lib).join(&name).join("site-packages");
            if let Some(version) = name.strip_prefix("python").filter(|_| site.is_dir()) {
                return (Some(site), Some(version.to_owned()));
            }
        }
    }
    let is_site = names(folder).iter().any(|name| name.ends_with(".dist-info"));
    (is_site.then(|| folder.to_owned()), None)
}

fn config_value<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn packages(site: &Path) -> Vec<Package> {
    let mut found: Vec<Package> = names(site)
        .iter()
        .filter_map(|name| {
            let of_folder = name.strip_suffix(".dist-info")?;
            let metadata = text(&site.join(name).join("METADATA")).unwrap_or_default();
            // The head ends at the first empty line; the description below it may hold anything.
            let head = metadata.split("\n\n").next().unwrap_or_default();
            let field = |key: &str| {
                head.lines()
                    .find_map(|line| line.strip_prefix(key))
                    .map(str::trim)
            };
            let (folder_name, folder_version) = of_folder.split_once('-')?;
            Some(Package {
                name: normal_name(field("Name:").unwrap_or(folder_name)),
                version: clean(field("Version:").unwrap_or(folder_version)),
            })
        })
        .collect();
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    found
}

fn normal_name(name: &str) -> String {
    clean(name).to_ascii_lowercase().replace(['_', '.'], "-")
}

fn torch(text: &str) -> Option<Torch> {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            // cuda: Optional[str] = '12.8'
            let (left, right) = line.split_once('=')?;
            let found = left.split(':').next()?.trim();
            (found == name).then(|| right.trim())
        })
    };
    let string = |name: &str| {
        let quoted = value(name)?;
        let inner = quoted
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
            .or_else(|| quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')))?;
        Some(clean(inner)).filter(|inner| !inner.is_empty())
    };
    Some(Torch {
        version: string("__version__")?,
        cuda: string("cuda"),
        hip: string("hip"),
    })
}

/// Triton's own HIP runtime carries its major version in its name: `libamdhip64.so.6`.
fn triton_rocm_major(triton: &Path) -> Option<u64> {
    ["backends/amd/lib", "third_party/rocm/lib", "third_party/hip/lib"]
        .iter()
        .flat_map(|folder| names(&triton.join(folder)))
        .find_map(|name| Some(Version::parse(name.strip_prefix("libamdhip64.so.")?)?.part(0)))
}

/// `72` of `libbitsandbytes_rocm72.so`.
fn rocm_digits(name: &str) -> Option<String> {
    let rest = name.strip_prefix("libbitsandbytes_rocm")?;
    let (digits, _) = rest.split_once('.')?;
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| digits.to_owned())
}

/// The targets in the names of rocBLAS's data, of torch's own copy and of AMD's thin wheels.
fn rocblas_targets(site: &Path) -> Option<Vec<String>> {
    let mut libraries = vec![site.join("torch/lib/rocblas/library")];
    for name in names(site) {
        if name.starts_with("_rocm_sdk_") {
            libraries.push(site.join(&name).join("lib/rocblas/library"));
            libraries.push(site.join(&name).join("bin/rocblas/library"));
        }
    }
    libraries.retain(|library| library.is_dir());
    if libraries.is_empty() {
        return None;
    }
    let mut targets: Vec<String> = libraries
        .iter()
        .flat_map(|library| names(library))
        .filter(|name| name.starts_with("TensileLibrary"))
        .filter_map(|name| target_in(&name))
        .collect();
    targets.sort();
    targets.dedup();
    Some(targets)
}

/// `gfx1100` of `TensileLibrary_lazy_gfx1100.dat`.
fn target_in(name: &str) -> Option<String> {
    let from = name.find("gfx")?;
    let digits: String = name[from + 3..]
        .chars()
        .take_while(char::is_ascii_hexdigit)
        .collect();
    (digits.len() >= 3).then(|| format!("gfx{digits}"))
}

fn activation_settings(folder: &Path) -> Vec<Setting> {
    let mut scripts: Vec<PathBuf> = [
        "bin/activate",
        "bin/activate.fish",
        "bin/activate.csh",
        "Scripts/activate.bat",
        "Scripts/Activate.ps1",
        "Scripts/activate",
    ]
    .iter()
    .map(|script| folder.join(script))
    .collect();
    let hooks = folder.join("etc/conda/activate.d");
    scripts.extend(names(&hooks).iter().map(|name| hooks.join(name)));
    let mut found = Vec::new();
    for script in scripts {
        let Some(content) = text(&script) else { continue };
        for (place, line) in content.lines().enumerate() {
            if let Some((name, value)) = assignment(line) {
                found.push(Setting {
                    name,
                    value,
                    origin: clean(&script.display().to_string()),
                    line: Some(place + 1),
                    in_effect: false,
                });
            }
        }
    }
    found
}

/// What a line of a shell script sets, for the variables that change what a card does.
fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ':']) || line.to_ascii_lowercase().starts_with("rem ") {
        return None;
    }
    let starts = ["export ", "set -gx ", "setenv ", "set ", "SET ", "$env:", "$Env:"];
    let rest = starts
        .iter()
        .find_map(|start| line.strip_prefix(start))
        .unwrap_or(line)
        .trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (name, value) = rest.split_at(end);
    let prefixes = [
        "HSA_",
        "HIP_",
        "ROCR_",
        "CUDA_VISIBLE",
        "GPU_DEVICE",
        "PYTORCH_",
        "TORCH_",
        "BNB_",
    ];
    let known = prefixes.iter().any(|prefix| name.starts_with(prefix))
        || ["LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME"].contains(&name);
    let value = value.trim_start().trim_start_matches('=').trim();
    let value = value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .trim_matches(['"', '\'']);
    known.then(|| (name.to_owned(), clean(value)))
}

/// A name from outside without control characters, at most [`MAX_CHARS`] long.
pub(crate) fn clean(name: &str) -> String {
    let printable = name
        .trim()
        .chars()
        .filter(|c| !c.is_control() && !is_invisible(*c));
    printable.take(MAX_CHARS).collect()
}

/// Marks that turn the direction of writing or hide letters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    // A pipe or a device would block or never end.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

/// Names in a folder, sorted; none where it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_ENTRIES)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    const VERSION: &str = "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n\
        __version__ = '2.11.0+rocm7.2'\ndebug = False\ncuda: Optional[str] = None\ngit_version = 'abc'\n\
        hip: Optional[str] = '7.2.53211'\nxpu: Optional[str] = None\n";

    #[test]
    fn a_linux_environment_is_read_from_its_files() {
        let site = "lib/python3.12/site-packages";
        let in_site = |path: &str| format!("{site}/{path}");
        let files = [
            (
                "pyvenv.cfg".to_owned(),
                "home = /usr/bin\ninclude-system-site-packages = true\nversion_info = 3.12.3\n",
            ),
            (in_site("torch/version.py"), VERSION),
            (
                in_site("torch-2.11.0+rocm7.2.dist-info/METADATA"),
                "Name: torch\nVersion: 2.11.0+rocm7.2\n\nVersion: 9\n",
            ),
            // Without its METADATA the folder's name tells.
            (in_site("Pytorch_Triton_ROCm-3.5.1.dist-info/RECORD"), ""),
            (in_site("triton/backends/amd/lib/libamdhip64.so.6"), ""),
            (in_site("triton/backends/nvidia/x"), ""),
            (in_site("bitsandbytes/libbitsandbytes_rocm72.so"), ""),
            (in_site("bitsandbytes/libbitsandbytes_cuda128.so"), ""),
            (
                in_site("torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat"),
                "",
            ),
            (
                in_site("torch/lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat"),
                "",
            ),
            (
                in_site("torch/lib/rocblas/library/Kernels.so-000-gfx1010.hsaco"),
                "",
            ),
            (
                in_site("_rocm_sdk_libraries_gfx1151/lib/rocblas/library/TensileLibrary_lazy_gfx1151.dat"),
                "",
            ),
            (
                "bin/activate".to_owned(),
                "# export HSA_A=1\nPS1=x\nexport HSA_OVERRIDE_GFX_VERSION=\"11.0.0\"\n",
            ),
            ("bin/activate.fish".to_owned(), "set -gx HIP_VISIBLE_DEVICES 0\n"),
        ];
        let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let root = tree(&borrowed);
        let env = PythonEnvironment::read(root.path());
        assert_eq!(env.python.as_deref(), Some("3.12.3"));
        assert_eq!(env.system_site_packages, Some(true));
        assert_eq!(env.version("torch"), Some("2.11.0+rocm7.2"));
        assert_eq!(env.version("pytorch-triton-rocm"), Some("3.5.1"));
        let torch = env.torch.as_ref().unwrap();
        assert_eq!(
            (torch.cuda.as_deref(), torch.hip.as_deref()),
            (None, Some("7.2.53211"))
        );
        assert_eq!(env.triton_backends.as_ref().unwrap(), &["amd", "nvidia"]);
        assert_eq!(env.triton_rocm_major, Some(6));
        assert_eq!(env.bitsandbytes_rocm.as_ref().unwrap(), &["72"]);
        assert!(env.bitsandbytes_is_hollow);
        assert_eq!(
            env.rocblas_targets.as_ref().unwrap(),
            &["gfx1100", "gfx1151", "gfx90a"]
        );
        let set: Vec<_> = env
            .settings
            .iter()
            .map(|s| (s.name.as_str(), s.value.as_str(), s.line))
            .collect();
        assert_eq!(
            set,
            [
                ("HSA_OVERRIDE_GFX_VERSION", "11.0.0", Some(3)),
                ("HIP_VISIBLE_DEVICES", "0", Some(1))
            ]
        );
    }

    #[test]
    fn a_windows_environment_has_its_own_layout() {
        let root = tree(&[
            (
                "pyvenv.cfg",
                "version = 3.12.9\r\ninclude-system-site-packages = false\r\n",
            ),
            (
                "Lib/site-packages/torch/version.py",
                "__version__ = '2.11.0+cpu'\r\ncuda = None\r\n",
            ),
            (
                "Lib/site-packages/_rocm_sdk_libraries/bin/rocblas/library/TensileLibrary_lazy_gfx1201.dat",
                "",
            ),
            (
                "Scripts/activate.bat",
                "@echo off\r\nset HSA_OVERRIDE_GFX_VERSION=10.3.0\r\n",
            ),
            ("Scripts/Activate.ps1", "$env:BNB_ROCM_VERSION = \"72\"\r\n"),
        ]);
        let env = PythonEnvironment::read(root.path());
        assert_eq!(env.python.as_deref(), Some("3.12.9"));
        assert_eq!(env.torch.as_ref().unwrap().version, "2.11.0+cpu");
        assert_eq!(env.rocblas_targets.as_ref().unwrap(), &["gfx1201"]);
        let set: Vec<_> = env
            .settings
            .iter()
            .map(|s| (s.name.as_str(), s.value.as_str()))
            .collect();
        assert_eq!(
            set,
            [("HSA_OVERRIDE_GFX_VERSION", "10.3.0"), ("BNB_ROCM_VERSION", "72")]
        );
    }

    #[test]
    fn a_folder_that_is_no_environment_says_so_and_hostile_names_are_cleaned() {
        assert_eq!(PythonEnvironment::read(Path::new("/nowhere/at/all")).site, None);
        let root = tree(&[(
            "torch-1\u{1b}[31m.dist-info/METADATA",
            "Name: to\u{7}rch\nVersion: 1\u{202e}\n",
        )]);
        let env = PythonEnvironment::read(root.path());
        assert_eq!(
            env.packages,
            [Package {
                name: "torch".to_owned(),
                version: "1".to_owned()
            }]
        );
        // Binary rubbish in place of text.
        let root = tree(&[("x-1.dist-info/METADATA", ""), ("torch/lib/x", "")]);
        fs::write(root.path().join("torch/version.py"), [0xff, 0x00, b'=', b'\n']).unwrap();
        assert_eq!(PythonEnvironment::read(root.path()).torch, None);
    }
}
