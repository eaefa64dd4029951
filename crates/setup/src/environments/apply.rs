//! Makes an environment from the plan's steps, by the one way that every stage of set-up goes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::site::{packages, site_packages};
use super::spec::{Expectations, InstallSpec, Layout};
use super::store::{self, Environment, Stamp};
use super::verify::{Verification, verify};
use crate::disk::folder_bytes;
use crate::engine_env::read_version;
use crate::error::SetupError;
use crate::install::{Installation, Ready, Setup, Task, Work, rehearse};
use crate::progress::{Report, Stage};
use crate::python::{Python, find_python, find_python_in, python_in};
use crate::uv::{Destination, step_command, venv_command};

impl Setup {
    /// Makes the environment that `spec` describes, and uv first where there is none; see [`Setup::apply`].
    ///
    /// # Errors
    /// As [`Setup::ensure_uv`] and [`Setup::apply`].
    pub fn carry_out(
        &self,
        spec: &InstallSpec,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Environment, SetupError> {
        let uv = self.ensure_uv(report)?.value;
        Ok(self.apply(&uv, spec, report)?.value)
    }

    /// Makes the environment that `spec` describes, with the help of `uv`, and lets its engine use it. One that is
    /// there already, from the same spec and as the spec expects, is only put to use.
    ///
    /// It is built beside its place and checked from its files before it takes the place of an older one of the same
    /// name. Whatever stops it, a kill included, the older one stays; finished downloads stay in uv's cache, so the
    /// next call does not fetch them again. What it needs is reported before anything is downloaded, and every
    /// command before it runs.
    ///
    /// # Errors
    /// See [`SetupError`]; [`SetupError::NotAsExpected`] where the commands went well and the result is wrong.
    pub fn apply(
        &self,
        uv: &Path,
        spec: &InstallSpec,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Ready<Environment>, SetupError> {
        self.with_work(uv, spec, &mut |installation, work| {
            self.install(installation, work, report)
        })?
        .try_map(|_| store::choose(&self.folders, &spec.name))
    }

    /// Reports what [`Setup::apply`] would need and run, and runs nothing. Returns the commands.
    ///
    /// # Errors
    /// [`SetupError::SpecFaulty`], or where there is no Python for it.
    pub fn preview(
        &self,
        uv: &Path,
        spec: &InstallSpec,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Vec<String>, SetupError> {
        self.with_work(uv, spec, &mut |installation, work| {
            Ok(rehearse(installation, work, report))
        })
    }

    fn with_work<T>(
        &self,
        uv: &Path,
        spec: &InstallSpec,
        act: &mut dyn FnMut(&Installation, &Work<'_>) -> Result<T, SetupError>,
    ) -> Result<T, SetupError> {
        let faults = spec.faults();
        if !faults.is_empty() {
            return Err(SetupError::SpecFaulty {
                name: spec.name.clone(),
                faults,
            });
        }
        let interpreter = self.interpreter(spec)?;
        let stage = Stage::Environment(spec.engine);
        let target = self.folders.environments().join(&spec.name);
        let titles: Vec<_> = spec.steps.iter().map(|step| step.title.as_str()).collect();
        let start = Instant::now();
        act(
            &Installation {
                stage,
                what: format!("{}: {}", spec.name, titles.join(", ")),
                licence: "each package under its own licence, which its metadata names",
                download_bytes: spec.download_bytes(),
                disk_bytes: spec.disk_bytes(),
                // uv links what it unpacks into its cache, so it lies there once; half as much again is for what is
                // unpacked while something is replaced, and for the system.
                needed_bytes: spec.disk_bytes().map(|bytes| bytes.saturating_add(bytes / 2)),
                replaceable: true,
                target: target.clone(),
            },
            &Work {
                complete: &|| {
                    store::read_stamp(&target).is_ok_and(|stamp| stamp.spec == *spec)
                        && check(stage, spec, &target).is_ok()
                },
                tasks: &|folder| self.tasks(uv, spec, &interpreter, folder),
                verify: &|folder| check(stage, spec, folder).map(|_| ()),
                stamp: &|folder, commands| {
                    let stamp = stamp(uv, spec, &interpreter, folder, commands, start);
                    // Strings, numbers and lists: they always become JSON.
                    serde_json::to_value(stamp).unwrap_or_default()
                },
            },
        )
    }

    /// A Python to install for. Packages in a plain folder are chosen for any version, so there any Python does.
    fn interpreter(&self, spec: &InstallSpec) -> Result<Interpreter, SetupError> {
        let own = self.python.as_deref();
        let (python, other_minor) = match (find_python_in(own, spec.python), spec.engine.layout()) {
            (Ok(python), _) => (python, None),
            (Err(_), Layout::Site) => (find_python(own)?, Some(spec.python.preferred)),
            (Err(error), Layout::Venv) => return Err(error),
        };
        Ok(Interpreter { python, other_minor })
    }

    fn tasks(&self, uv: &Path, spec: &InstallSpec, interpreter: &Interpreter, folder: &Path) -> Vec<Task> {
        let Interpreter { python, other_minor } = interpreter;
        let mut tasks = Vec::new();
        let destination = match spec.engine.layout() {
            Layout::Site => Destination::Target {
                python,
                version: *other_minor,
                folder,
            },
            Layout::Venv => {
                tasks.push(Task {
                    title: "an empty environment".to_owned(),
                    why: "nothing that you have installed is used or changed".to_owned(),
                    command: venv_command(uv, &self.folders, python, folder),
                    files: Vec::new(),
                });
                Destination::Venv(python_in(folder))
            }
        };
        for (at, step) in spec.steps.iter().enumerate() {
            let overrides = (!step.overrides.is_empty())
                .then(|| folder.join(format!(".tunesmith-overrides-{}.txt", at + 1)));
            tasks.push(Task {
                title: step.title.clone(),
                why: step.why.clone(),
                command: step_command(uv, &self.folders, &destination, step, overrides.as_deref()),
                files: overrides
                    .map(|path| (path, step.overrides.join("\n") + "\n"))
                    .into_iter()
                    .collect(),
            });
        }
        tasks
    }
}

/// The Python that uv asks which wheels fit.
struct Interpreter {
    python: Python,
    /// The version that wheels are chosen for, where it is not this Python's.
    other_minor: Option<super::spec::PythonVersion>,
}

impl Interpreter {
    fn version(&self) -> String {
        self.other_minor
            .map_or_else(|| format!("3.{}", self.python.minor), |minor| minor.to_string())
    }
}

/// Whether the environment in `folder` is what `spec` expects.
fn check(stage: Stage, spec: &InstallSpec, folder: &Path) -> Result<Verification, SetupError> {
    let wrong = |unmet| SetupError::NotAsExpected { stage, unmet };
    let site = site_packages(folder).ok_or_else(|| wrong(vec!["there are no packages in it".to_owned()]))?;
    if spec.engine.layout() == Layout::Venv && !starts(&python_in(folder)) {
        return Err(wrong(vec!["its Python does not start".to_owned()]));
    }
    let result = verify(&site, &spec.verify);
    if result.unmet.is_empty() {
        Ok(result)
    } else {
        Err(wrong(result.unmet))
    }
}

fn starts(python: &Path) -> bool {
    Command::new(python)
        .args(["-I", "-c", ""])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn stamp(
    uv: &Path,
    spec: &InstallSpec,
    interpreter: &Interpreter,
    folder: &Path,
    commands: &[String],
    start: Instant,
) -> Stamp {
    let site = site_packages(folder).unwrap_or_else(|| folder.to_path_buf());
    Stamp {
        spec: spec.clone(),
        python: interpreter.version(),
        uv: version_of(uv),
        torch: read_version(&site).ok().map(|torch| torch.text().to_owned()),
        packages: packages(&site),
        commands: commands.to_vec(),
        made_at: jiff::Timestamp::now().to_string(),
        took_secs: start.elapsed().as_secs_f64(),
        disk_bytes: folder_bytes(&[folder]),
        unknown: unknown(&site, &spec.verify),
    }
}

fn unknown(site: &Path, expected: &Expectations) -> Vec<String> {
    verify(site, expected).unknown
}

fn version_of(uv: &Path) -> Option<String> {
    let output = Command::new(uv)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
