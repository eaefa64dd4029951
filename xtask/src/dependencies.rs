//! What the programs are made of, as cargo tells it: packages with licence and source, and which of them end up in a program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::Workspace;

/// The workspace with all that it is made from, on some targets.
pub(crate) struct Dependencies {
    packages: BTreeMap<String, Package>,
    nodes: BTreeMap<String, Node>,
    /// Ids of the workspace's own packages.
    members: BTreeSet<String>,
}

/// A package as cargo describes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    /// By it other packages name it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    pub(crate) license_file: Option<PathBuf>,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    #[serde(default)]
    pub(crate) authors: Vec<String>,
    /// Where it came from; the workspace's own packages have none.
    pub(crate) source: Option<String>,
    manifest_path: PathBuf,
    /// What it asks for, by every feature and for every target.
    #[serde(default)]
    pub(crate) dependencies: Vec<Wish>,
}

impl Package {
    /// The folder that it was unpacked to.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new(""))
    }

    /// As `cargo tree -i` takes it.
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
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `build`, `dev`, or nothing for what is linked.
    kind: Option<String>,
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
            nodes: metadata
                .resolve
                .nodes
                .into_iter()
                .map(|node| (node.id.clone(), node))
                .collect(),
            members: metadata.workspace_members,
        })
    }

    /// All packages that anything here is built from, sorted by name.
    pub(crate) fn all(&self) -> Vec<&Package> {
        self.sorted(self.nodes.keys())
    }

    /// The workspace's own packages.
    pub(crate) fn own(&self) -> Vec<&Package> {
        self.sorted(self.members.iter())
    }

    /// Packages from elsewhere that are linked into the programs of these packages of the workspace; what only builds or
    /// tests them is left out.
    ///
    /// # Errors
    /// Where the workspace has no package of such a name.
    pub(crate) fn linked_into(&self, programs: &[&str]) -> Result<Vec<&Package>> {
        let mut waiting = Vec::new();
        for program in programs {
            let package = self.own().into_iter().find(|package| package.name == *program);
            waiting.push(
                package
                    .with_context(|| format!("the workspace has no {program}"))?
                    .id
                    .as_str(),
            );
        }
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if seen.insert(id) {
                waiting.extend(self.links(id));
            }
        }
        seen.retain(|id| !self.members.contains(*id));
        Ok(self.sorted(seen))
    }

    /// Ids of what a package links.
    pub(crate) fn links<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a str> {
        let edges = self.nodes.get(id).map(|node| node.deps.as_slice());
        edges
            .unwrap_or_default()
            .iter()
            .filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()))
            .map(|edge| edge.pkg.as_str())
    }

    /// The package of an id that [`Dependencies::links`] gave.
    pub(crate) fn package(&self, id: &str) -> Option<&Package> {
        self.packages.get(id)
    }

    fn sorted(&self, ids: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<&Package> {
        let mut packages: Vec<_> = ids
            .into_iter()
            .filter_map(|id| self.packages.get(id.as_ref()))
            .collect();
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
            "id": name, "name": name, "version": "1.2.3", "license": license, "license_file": null,
            "description": "d", "repository": format!("https://example.org/{name}"), "authors": ["Ann <ann@example.org>"],
            "source": source, "manifest_path": format!("/registry/{name}-1.2.3/Cargo.toml"), "dependencies": [],
        })
    }

    /// A workspace of one program `app` that links `linked`, and needs `tool` to be built.
    pub(crate) fn workspace(linked: &[Value], tool: &Value) -> Dependencies {
        let mut app = package("app", "MIT", "");
        app["source"] = Value::Null;
        app["dependencies"] = json!([{ "name": "tool", "req": "^1", "path": null }]);
        let edge =
            |package: &Value, kind: Value| json!({ "pkg": package["id"], "dep_kinds": [{ "kind": kind }] });
        let mut deps: Vec<Value> = linked.iter().map(|package| edge(package, Value::Null)).collect();
        deps.push(edge(tool, "build".into()));
        let mut packages = linked.to_vec();
        packages.extend([tool.clone(), app]);
        let leaf = |package: &Value| json!({ "id": package["id"], "deps": [] });
        let mut nodes: Vec<Value> = linked.iter().map(leaf).collect();
        nodes.extend([leaf(tool), json!({ "id": "app", "deps": deps })]);
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
    fn what_only_builds_is_not_linked() {
        let linked = package("linked", "MIT", REGISTRY);
        let all = workspace(&[linked], &package("tool", "MIT", REGISTRY));
        let names = |packages: Vec<&super::Package>| -> Vec<String> {
            packages.iter().map(|package| package.name.clone()).collect()
        };
        assert_eq!(names(all.all()), ["app", "linked", "tool"]);
        assert_eq!(names(all.own()), ["app"]);
        assert_eq!(names(all.linked_into(&["app"]).unwrap()), ["linked"]);
        assert!(all.linked_into(&["other"]).is_err());
    }
}
