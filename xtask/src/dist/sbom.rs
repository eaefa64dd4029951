//! The bill of materials of a package: CycloneDX 1.5, as scanners for known faults read it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dependencies::{Dependencies, Package};

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    /// SHA-256 of the packed crate.
    checksum: Option<String>,
}

/// The bill for programs of the workspace. `lock` is the text of Cargo.lock, `epoch` the time that it bears, in seconds since 1970.
pub(super) fn sbom(
    dependencies: &Dependencies,
    programs: &[&str],
    version: &str,
    lock: &str,
    epoch: u64,
) -> Result<String> {
    let lock: Lock = toml::from_str(lock).context("Cargo.lock cannot be read")?;
    let checksums: BTreeMap<_, _> = lock
        .package
        .into_iter()
        .filter_map(|locked| Some(((locked.name, locked.version), locked.checksum?)))
        .collect();
    let linked = dependencies.linked_into(programs)?;
    let ids: BTreeSet<_> = linked.iter().map(|package| package.id.as_str()).collect();

    let components: Vec<_> = linked
        .iter()
        .map(|package| {
            let key = (package.name.clone(), package.version.clone());
            component(package, checksums.get(&key))
        })
        .collect();
    // The workspace's own crates are one thing to the outside.
    let direct: BTreeSet<_> = dependencies
        .own()
        .into_iter()
        .flat_map(|package| dependencies.links(&package.id))
        .filter(|id| ids.contains(id))
        .filter_map(|id| dependencies.package(id).map(purl))
        .collect();
    let mut edges = vec![json!({ "ref": "tunesmith", "dependsOn": direct })];
    for package in &linked {
        let wanted: BTreeSet<_> = dependencies
            .links(&package.id)
            .filter(|id| ids.contains(id))
            .filter_map(|id| dependencies.package(id).map(purl))
            .collect();
        edges.push(json!({ "ref": purl(package), "dependsOn": wanted }));
    }
    let time = jiff::Timestamp::from_second(i64::try_from(epoch)?)?;
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.to_string(),
            "component": {
                "type": "application",
                "bom-ref": "tunesmith",
                "name": "tunesmith",
                "version": version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": edges,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn component(package: &Package, checksum: Option<&String>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "purl": purl(package),
    });
    if let Some(description) = &package.description {
        component["description"] = description
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .into();
    }
    if let Some(license) = &package.license {
        // A slash is an old way to write a choice, which the format does not know.
        let choices: Vec<_> = license.split('/').map(str::trim).collect();
        component["licenses"] = json!([{ "expression": choices.join(" OR ") }]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(place) = &package.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": place }]);
    }
    component
}

/// A crate's name among all kinds of packages.
fn purl(package: &Package) -> String {
    // Of what a version may hold only the plus is written another way there.
    format!(
        "pkg:cargo/{}@{}",
        package.name,
        package.version.replace('+', "%2B")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependencies::testing::{REGISTRY, package, workspace};

    #[test]
    fn each_linked_crate_stands_in_the_bill_with_its_checksum() {
        let mut one = package("one", "MIT/Apache-2.0", REGISTRY);
        one["version"] = json!("1.2.3+z");
        let all = workspace(
            &[one, package("two", "MIT", REGISTRY)],
            &package("tool", "MIT", REGISTRY),
        );
        let lock = "[[package]]\nname = \"one\"\nversion = \"1.2.3+z\"\nchecksum = \"abc\"\n\
                    [[package]]\nname = \"app\"\nversion = \"1.2.3\"\n";
        let bill = sbom(&all, &["app"], "0.1.0", lock, 1_700_000_000).unwrap();
        let bill: Value = serde_json::from_str(&bill).unwrap();
        assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let components = bill["components"].as_array().unwrap();
        assert_eq!(components.len(), 2, "what only builds is in no program");
        assert_eq!(components[0]["purl"], "pkg:cargo/one@1.2.3%2Bz");
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[0]["hashes"][0]["content"], "abc");
        assert!(components[1].get("hashes").is_none());
        assert_eq!(
            bill["dependencies"][0]["dependsOn"],
            json!(["pkg:cargo/one@1.2.3%2Bz", "pkg:cargo/two@1.2.3"])
        );
    }
}
