//! `cargo xtask deny`: holds what the project is made of to deny.toml, as far as cargo itself knows it: licences, crates that are
//! not wanted, and where crates come from. It reads the file of cargo-deny, so that both say the same, and needs no tool that
//! takes minutes to compile; only advisories need cargo-deny and its database.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use spdx::{Expression, Licensee, ParseMode};

use crate::dependencies::{Dependencies, Package};
use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct Deny {
    /// Print what was found as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// The parts of deny.toml that are held here; cargo-deny knows more.
#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    wildcards: Level,
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Level {
    Deny,
    Warn,
    Allow,
}

/// Something that the rules do not allow.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Fault {
    /// `licence`, `ban`, `wildcard` or `source`.
    kind: &'static str,
    /// Name and version.
    package: String,
    why: String,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Record {
    packages: usize,
    faults: Vec<Fault>,
}

pub(crate) fn run(options: &Deny) -> Result<u8> {
    let workspace = Workspace::find()?;
    let rules = Rules::load(&workspace.root.join("deny.toml"))?;
    let targets: Vec<_> = rules.graph.targets.iter().map(String::as_str).collect();
    let dependencies = Dependencies::read(&workspace, &targets)?;
    let record = Record {
        packages: dependencies.all().len(),
        faults: rules.faults(&dependencies)?,
    };
    if options.json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&record)?)?;
    }
    for fault in &record.faults {
        eprintln!("error: {}: {}: {}", fault.kind, fault.package, fault.why);
    }
    if record.faults.is_empty() {
        eprintln!(
            "{} packages: licences, bans and sources are as deny.toml allows",
            record.packages
        );
        return Ok(0);
    }
    eprintln!("hint: `cargo tree --invert NAME@VERSION --target all` shows what brings one in");
    Ok(1)
}

impl Rules {
    fn load(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Self::parse(&text).with_context(|| format!("{} cannot be read", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    fn faults(&self, dependencies: &Dependencies) -> Result<Vec<Fault>> {
        let foreign: Vec<_> = dependencies
            .all()
            .into_iter()
            .filter(|package| package.source.is_some())
            .collect();
        let mut faults = Vec::new();
        let mut blame = |kind, package: &Package, why: String| {
            let package = package.spec();
            faults.push(Fault { kind, package, why });
        };
        for package in &foreign {
            if let Some(why) = self.licence_fault(package)? {
                blame("licence", package, why);
            }
            if let Some(ban) = self.bans.deny.iter().find(|ban| ban.name == package.name) {
                blame("ban", package, ban.reason.clone());
            }
        }
        if self.bans.wildcards == Level::Deny {
            for package in dependencies.own() {
                let wishes = package.dependencies.iter();
                for wish in wishes.filter(|wish| wish.req == "*" && wish.path.is_none()) {
                    blame(
                        "wildcard",
                        package,
                        format!("any version of {} would do", wish.name),
                    );
                }
            }
        }
        // Git and other registries can change what a version is. The registry that most come from is the usual one.
        let sources: Vec<&str> = foreign
            .iter()
            .filter_map(|package| package.source.as_deref())
            .collect();
        let usual = most_common(&sources);
        for package in &foreign {
            let source = package.source.as_deref().unwrap_or_default();
            let denied = if source.starts_with("git+") {
                self.sources.unknown_git == Level::Deny
            } else {
                self.sources.unknown_registry == Level::Deny && Some(source) != usual
            };
            if denied {
                blame("source", package, format!("it comes from {source}"));
            }
        }
        Ok(faults)
    }

    /// Why a package's licence does not do, or nothing.
    fn licence_fault(&self, package: &Package) -> Result<Option<String>> {
        let Some(license) = &package.license else {
            return Ok(Some("it names no licence".to_owned()));
        };
        let Ok(expression) = Expression::parse_mode(license, ParseMode::LAX) else {
            return Ok(Some(format!("its licence is no SPDX expression: {license}")));
        };
        let exceptions = self
            .licenses
            .exceptions
            .iter()
            .filter(|exception| exception.name == package.name);
        let allowed = self
            .licenses
            .allow
            .iter()
            .chain(exceptions.flat_map(|exception| &exception.allow))
            .map(|name| {
                Licensee::parse(name).with_context(|| format!("deny.toml allows {name}, which is no licence"))
            })
            .collect::<Result<Vec<_>>>()?;
        let fine = expression.evaluate(|wanted| allowed.iter().any(|licence| licence.satisfies(wanted)));
        Ok((!fine).then(|| format!("its licence is not allowed: {license}")))
    }
}

fn most_common<'a>(all: &[&'a str]) -> Option<&'a str> {
    let count = |one: &str| all.iter().filter(|other| **other == one).count();
    all.iter().copied().max_by_key(|one| count(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependencies::testing::{REGISTRY, package, workspace};

    const RULES: &str = r#"
[graph]
targets = ["x86_64-unknown-linux-gnu"]
[licenses]
allow = ["MIT", "Apache-2.0"]
exceptions = [{ crate = "special", allow = ["MPL-2.0"] }]
[bans]
wildcards = "deny"
deny = [{ crate = "unwanted", reason = "there is another" }]
[sources]
unknown-registry = "deny"
unknown-git = "deny"
"#;

    /// Kind and package of each fault that such a package has beside one that has none.
    fn faults_of(name: &str, license: &str, source: &str) -> Vec<(&'static str, String)> {
        let good = [package("good", "MIT", REGISTRY), package("fine", "MIT", REGISTRY)];
        let all = workspace(&good, &package(name, license, source));
        let faults = Rules::parse(RULES).unwrap().faults(&all).unwrap();
        faults
            .into_iter()
            .map(|fault| (fault.kind, fault.package))
            .collect()
    }

    #[test]
    fn a_licence_is_allowed_by_name_by_choice_or_as_an_exception() {
        for license in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "MIT AND Apache-2.0",
            "(MIT OR GPL-2.0-only) AND Apache-2.0",
        ] {
            assert!(faults_of("some", license, REGISTRY).is_empty(), "{license}");
        }
        assert!(faults_of("special", "MPL-2.0", REGISTRY).is_empty());
        for license in [
            "MPL-2.0",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "Apache-2.0 WITH LLVM-exception",
            "none",
        ] {
            assert_eq!(
                faults_of("some", license, REGISTRY),
                [("licence", "some@1.2.3".to_owned())],
                "{license}"
            );
        }
    }

    #[test]
    fn unwanted_crates_and_other_sources_are_named() {
        assert_eq!(
            faults_of("unwanted", "MIT", REGISTRY),
            [("ban", "unwanted@1.2.3".to_owned())]
        );
        for source in ["git+https://example.org/some", "registry+elsewhere"] {
            assert_eq!(
                faults_of("some", "MIT", source),
                [("source", "some@1.2.3".to_owned())],
                "{source}"
            );
        }
    }

    #[test]
    fn the_rules_of_this_project_can_be_read() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
        let rules = Rules::load(&file).unwrap();
        assert!(rules.bans.wildcards == Level::Deny && rules.sources.unknown_git == Level::Deny);
        for name in rules
            .licenses
            .exceptions
            .iter()
            .flat_map(|exception| &exception.allow)
        {
            assert!(Licensee::parse(name).is_ok(), "{name}");
        }
    }
}
