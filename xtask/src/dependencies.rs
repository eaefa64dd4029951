//! What the programs are made of, as cargo tells it: packages with their licences and sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::Workspace;

/// The workspace with all that it is made from, on some targets.
pub(crate) struct Dependencies {
    packages: BTreeMap<String, Package>,
    /// Ids of the workspace's own packages.
    members: BTreeSet<String>,
    /// Ids of all that is built.
    built: BTreeSet<String>,
}

/// A package as cargo describes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    /// By it other packages name it.
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    /// Where it came from; the workspace's own packages have none.
    pub(crate) source: Option<String>,
    /// What it asks for, by every feature and for every target.
    #[serde(default)]
    pub(crate) dependencies: Vec<Wish>,
}

impl Package {
    /// As `cargo tree --invert` takes it.
    pub(crate) fn spec(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// A dependency as a manifest asks for it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Wish {
    pub(crate) name: String,
    /// A version requirement.
    pub(crate) req: String,
    /// Set for a package beside it.
    pub(crate) path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

impl Dependencies {
    /// Asks cargo, which fetches what it has not unpacked yet.
    pub(crate) fn read(workspace: &Workspace, targets: &[&str]) -> Result<Self> {
        let mut command = workspace.cargo();
        command.args(["metadata", "--format-version", "1"]);
        for target in targets {
            command.args(["--filter-platform", target]);
        }
        let output = command.output().context("cargo could not be started")?;
        if !output.status.success() {
            bail!(
                "cargo cannot tell the dependencies: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Self::parse(&output.stdout)
    }

    /// From the JSON of `cargo metadata`.
    fn parse(json: &[u8]) -> Result<Self> {
        let metadata: Metadata = serde_json::from_slice(json).context("cargo's metadata cannot be read")?;
        let by_id = |package: Package| (package.id.clone(), package);
        Ok(Self {
            packages: metadata.packages.into_iter().map(by_id).collect(),
            members: metadata.workspace_members,
            built: metadata.resolve.nodes.into_iter().map(|node| node.id).collect(),
        })
    }

    /// All packages that anything here is built from, sorted by name.
    pub(crate) fn all(&self) -> Vec<&Package> {
        self.sorted(&self.built)
    }

    /// The workspace's own packages.
    pub(crate) fn own(&self) -> Vec<&Package> {
        self.sorted(&self.members)
    }

    fn sorted(&self, ids: &BTreeSet<String>) -> Vec<&Package> {
        let mut packages: Vec<_> = ids.iter().filter_map(|id| self.packages.get(id)).collect();
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        packages
    }
}

/// A made-up workspace.
#[cfg(test)]
pub(crate) mod testing {
    use serde_json::{Value, json};

    use super::Dependencies;

    pub(crate) const REGISTRY: &str = "registry+index";

    /// A package from a registry, or from the source that is given.
    pub(crate) fn package(name: &str, license: &str, source: &str) -> Value {
        json!({
            "id": name, "name": name, "version": "1.2.3", "license": license, "source": source, "dependencies": [],
        })
    }

    /// A workspace of one program `app` that is built from these.
    pub(crate) fn workspace(built: &[Value]) -> Dependencies {
        let mut app = package("app", "MIT", "");
        app["source"] = Value::Null;
        app["dependencies"] = json!([{ "name": "tool", "req": "^1", "path": null }]);
        let mut packages = built.to_vec();
        packages.push(app);
        let nodes: Vec<_> = packages
            .iter()
            .map(|package| json!({ "id": package["id"] }))
            .collect();
        let metadata = json!({
            "packages": packages, "workspace_members": ["app"], "resolve": { "nodes": nodes },
        });
        Dependencies::parse(metadata.to_string().as_bytes()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{REGISTRY, package, workspace};

    #[test]
    fn own_packages_and_those_from_elsewhere_are_told_apart() {
        let all = workspace(&[
            package("tool", "MIT", REGISTRY),
            package("linked", "MIT", REGISTRY),
        ]);
        let names = |packages: Vec<&super::Package>| -> Vec<String> {
            packages.iter().map(|package| package.name.clone()).collect()
        };
        assert_eq!(names(all.all()), ["app", "linked", "tool"]);
        assert_eq!(names(all.own()), ["app"]);
    }
}
