//! Small wheels with the names, versions, tags and dependencies of real ones.

use std::fmt::Write as _;
use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;

/// A wheel that a test writes.
#[derive(Debug, Clone)]
pub(crate) struct Wheel {
    pub(crate) name: String,
    pub(crate) version: String,
    tag: String,
    requires: Vec<String>,
    extras: Vec<String>,
    files: Vec<(String, String)>,
}

impl Wheel {
    /// A wheel for every system, with one module.
    pub(crate) fn new(name: &str, version: &str) -> Self {
        let module = name.replace('-', "_");
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            tag: "py3-none-any".to_owned(),
            requires: Vec::new(),
            extras: Vec::new(),
            files: vec![(format!("{module}/__init__.py"), String::new())],
        }
    }

    /// Instead: a wheel for this system and the Python 3 of this minor version.
    pub(crate) fn binary(mut self, minor: u32) -> Self {
        self.tag = format!("cp3{minor}-cp3{minor}-linux_{}", std::env::consts::ARCH);
        self
    }

    /// Instead: a wheel for a system that this one is not.
    pub(crate) fn for_windows(mut self) -> Self {
        "cp311-cp311-win_amd64".clone_into(&mut self.tag);
        self
    }

    pub(crate) fn requires(mut self, requirement: &str) -> Self {
        self.requires.push(requirement.to_owned());
        self
    }

    pub(crate) fn extra(mut self, extra: &str, requirement: &str) -> Self {
        self.extras.push(extra.to_owned());
        self.requires(&format!("{requirement} ; extra == '{extra}'"))
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// What torch says of itself. `built_for` is a line of `torch/version.py`.
    pub(crate) fn torch(version: &str, built_for: &str) -> Self {
        Self::new("torch", version)
            .file(
                "torch/version.py",
                &format!("__version__ = '{version}'\n{built_for}\n"),
            )
            .file("torch/lib/libtorch_cpu.so", "")
    }

    /// A Triton with one back end, under any of its packages' names.
    pub(crate) fn triton(name: &str, version: &str, backend: &str) -> Self {
        let mut wheel = Self::new(name, version);
        wheel.files.clear();
        wheel
            .file("triton/__init__.py", &format!("# {backend}\n"))
            .file("triton/_C/libtriton.so", &format!("compiled for {backend}"))
            .file(&format!("triton/backends/{backend}/driver.py"), "")
    }

    pub(crate) fn file_name(&self) -> String {
        format!(
            "{}-{}-{}.whl",
            self.name.replace('-', "_"),
            self.version,
            self.tag
        )
    }

    pub(crate) fn metadata(&self) -> String {
        let mut text = format!(
            "Metadata-Version: 2.1\nName: {}\nVersion: {}\n",
            self.name, self.version
        );
        for extra in &self.extras {
            writeln!(text, "Provides-Extra: {extra}").unwrap();
        }
        for requirement in &self.requires {
            writeln!(text, "Requires-Dist: {requirement}").unwrap();
        }
        text + "\n"
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let info = format!("{}-{}.dist-info", self.name.replace('-', "_"), self.version);
        let mut files = self.files.clone();
        files.push((format!("{info}/METADATA"), self.metadata()));
        files.push((
            format!("{info}/WHEEL"),
            format!(
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {}\n",
                self.tag
            ),
        ));
        let mut record = String::new();
        for (path, text) in &files {
            writeln!(record, "{path},,{}", text.len()).unwrap();
        }
        writeln!(record, "{info}/RECORD,,").unwrap();
        files.push((format!("{info}/RECORD"), record));

        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        for (path, text) in files {
            archive.start_file(path, options).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }
}
