//! `cargo xtask dist sign`: what lies beside packages so that installed apps take them for an update: the signature of each, as
//! `tauri signer sign` makes it, and `latest.json`, which names the version, and for each package its address and signature.
//! Only packages that Tauri's updater can install are signed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use serde::Serialize;

use super::{VERSION, programs, write_sums};
use crate::workspace::Workspace;

/// Holds the key's password, as for Tauri's own tool. Where it is not set the password is empty.
const PASSWORD: &str = "TAURI_SIGNING_PRIVATE_KEY_PASSWORD";

/// Ends of packages' names in small letters, and what the updater calls their system and kind.
const KINDS: [(&str, &str, &str); 5] = [
    (".deb", "linux", "deb"),
    (".rpm", "linux", "rpm"),
    (".appimage", "linux", "appimage"),
    ("-setup.exe", "windows", "nsis"),
    (".msi", "windows", "msi"),
];

/// Processors as packages' names have them, and as the updater calls them.
const PROCESSORS: [(&str, &str); 5] = [
    ("amd64", "x86_64"),
    ("x86_64", "x86_64"),
    ("x64", "x86_64"),
    ("arm64", "aarch64"),
    ("aarch64", "aarch64"),
];

#[derive(Args)]
pub(super) struct Sign {
    /// The secret key; `npx @tauri-apps/cli signer generate --write-keys FILE` makes one
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Address of the folder that installed apps will find the packages in
    #[arg(long, value_name = "URL")]
    address: String,
}

/// latest.json.
#[derive(Serialize)]
struct Latest<'a> {
    version: &'a str,
    /// By system, processor and kind, e.g. `linux-x86_64-deb`.
    platforms: BTreeMap<String, Offered>,
}

/// A package there.
#[derive(Serialize)]
struct Offered {
    url: String,
    signature: String,
}

/// Signs the packages of this version that lie in target/dist/packages.
pub(super) fn run(options: &Sign) -> Result<u8> {
    let folder = programs::build_folder(&Workspace::find()?).join("packages");
    let key = secret_key(&options.key, std::env::var(PASSWORD).unwrap_or_default())?;
    for name in sign(&folder, VERSION, &options.address, &key)? {
        eprintln!("signed: {name}");
    }
    write_sums(&folder)?;
    eprintln!(
        "{} and the packages belong at {}\nusers name this key in updates.toml: {}",
        folder.join("latest.json").display(),
        options.address,
        public_key(&key)?
    );
    Ok(0)
}

/// A key as `tauri signer generate` writes it: the file of minisign in base64.
fn secret_key(file: &Path, password: String) -> Result<SecretKey> {
    let file_name = file.display();
    ensure!(
        file.is_file(),
        "the key {file_name} is not there; `npx @tauri-apps/cli signer generate --write-keys {file_name}` makes one, and the \
         public key beside it"
    );
    let no_key = || format!("{file_name} is no key as `tauri signer generate` makes it");
    let text = fs::read_to_string(file).with_context(|| file_name.to_string())?;
    let text = BASE64_STANDARD.decode(text.trim()).with_context(no_key)?;
    let sealed = SecretKeyBox::from(String::from_utf8(text).with_context(no_key)?);
    // One that was made without a password is not sealed.
    if let Ok(key) = sealed.clone().into_unencrypted_secret_key() {
        return Ok(key);
    }
    sealed
        .into_secret_key(Some(password))
        .with_context(|| format!("{file_name} cannot be opened with the password in {PASSWORD}"))
}

/// The key that a signature is verified with, as `tauri signer generate` writes it.
fn public_key(key: &SecretKey) -> Result<String> {
    let text = PublicKey::from_secret_key(key)?.to_box()?.into_string();
    Ok(BASE64_STANDARD.encode(text))
}

/// Signs a version's packages in a folder, and writes latest.json there. Returns their names.
fn sign(folder: &Path, version: &str, address: &str, key: &SecretKey) -> Result<Vec<String>> {
    ensure!(
        address.starts_with("https://"),
        "{address} does not begin with https://, and apps fetch from nowhere else"
    );
    let mut platforms = BTreeMap::new();
    let mut signed = Vec::new();
    for name in names(folder)? {
        let Some(platform) = platform(&name, version) else {
            continue;
        };
        let signature = signature(&folder.join(&name), &name, version, key)?;
        let beside = folder.join(format!("{name}.sig"));
        fs::write(&beside, &signature).with_context(|| beside.display().to_string())?;
        let url = format!("{}/{name}", address.trim_end_matches('/'));
        let another = platforms.insert(platform.clone(), Offered { url, signature });
        ensure!(another.is_none(), "there is more than one package for {platform}");
        signed.push(name);
    }
    ensure!(
        !signed.is_empty(),
        "{} has no package of version {version} that an app can install; `cargo xtask dist` makes them",
        folder.display()
    );
    let latest = serde_json::to_string_pretty(&Latest { version, platforms })?;
    let file = folder.join("latest.json");
    fs::write(&file, latest + "\n").with_context(|| file.display().to_string())?;
    Ok(signed)
}

/// The files in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| {
        format!(
            "{} has no packages; `cargo xtask dist` makes them",
            folder.display()
        )
    })?;
    let mut names = Vec::new();
    for entry in entries {
        // What has no name in UTF-8 was not made here.
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// What the updater looks for where a package of this version can be installed; none where the file is something else.
fn platform(name: &str, version: &str) -> Option<String> {
    let name = name.to_lowercase();
    let rest = name.strip_prefix("tunesmith")?.strip_prefix(['_', '-'])?;
    let rest = rest.strip_prefix(version)?.strip_prefix(['_', '-'])?;
    // An rpm numbers its builds.
    let rest = rest.strip_prefix("1.").unwrap_or(rest);
    let (_, processor) = PROCESSORS.iter().find(|(word, _)| rest.starts_with(*word))?;
    let (_, system, kind) = KINDS.iter().find(|(end, ..)| rest.ends_with(*end))?;
    Some(format!("{system}-{processor}-{kind}"))
}

/// The signature of a file in base64. Its comment, which is signed too, tells the version: apps refuse one that was made for
/// another than the one they were promised.
fn signature(file: &Path, name: &str, version: &str, key: &SecretKey) -> Result<String> {
    let content = File::open(file).with_context(|| file.display().to_string())?;
    let now = jiff::Timestamp::now().as_second();
    let comment = format!("timestamp:{now}\tfile:{name}\tversion:{version}");
    let public = PublicKey::from_secret_key(key)?;
    let signature = minisign::sign(
        Some(&public),
        key,
        content,
        Some(&comment),
        Some("signature of a package of Tunesmith"),
    )
    .with_context(|| format!("{name} could not be signed"))?;
    Ok(BASE64_STANDARD.encode(signature.into_string()))
}

#[cfg(test)]
mod tests {
    use minisign::KeyPair;
    use minisign_verify as verify;
    use serde_json::Value;

    use super::*;

    const WORD: &str = "a word";
    const ADDRESS: &str = "https://example.org/tunesmith/";

    /// A key's file as Tauri's tool leaves it, below a folder.
    fn key_file(folder: &Path) -> PathBuf {
        let pair = KeyPair::generate_encrypted_keypair(Some(WORD.to_owned())).unwrap();
        let file = folder.join("tunesmith.key");
        let text = pair.sk.to_box(None).unwrap().into_string();
        fs::write(&file, BASE64_STANDARD.encode(text)).unwrap();
        file
    }

    fn decoded(text: &str) -> String {
        String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
    }

    /// As the updater does it.
    fn verified(content: &[u8], signature: &str, public_key: &str) -> Result<String, verify::Error> {
        let key = verify::PublicKey::decode(&decoded(public_key))?;
        let signature = verify::Signature::decode(&decoded(signature))?;
        key.verify(content, &signature, true)?;
        Ok(signature.trusted_comment().to_owned())
    }

    #[test]
    fn what_is_signed_is_good_for_its_bytes_and_its_version() {
        let (home, packages) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let key = secret_key(&key_file(home.path()), WORD.to_owned()).unwrap();
        let names = [
            "tunesmith-1.2.3-1.x86_64.rpm",
            "tunesmith_1.2.3_amd64.deb",
            "tunesmith_1.2.2_amd64.deb",
            "tunesmith-1.2.3-linux-x86_64.tar.gz",
            "SHA256SUMS",
        ];
        for name in names {
            fs::write(packages.path().join(name), format!("content of {name}")).unwrap();
        }
        // A second time changes nothing but the time.
        for _ in 0..2 {
            assert_eq!(sign(packages.path(), "1.2.3", ADDRESS, &key).unwrap(), names[..2]);
        }
        let text = fs::read_to_string(packages.path().join("latest.json")).unwrap();
        let latest: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(latest["version"], "1.2.3");
        assert_eq!(latest["platforms"].as_object().unwrap().len(), 2);
        let public_key = public_key(&key).unwrap();
        for (name, platform) in names.into_iter().zip(["linux-x86_64-rpm", "linux-x86_64-deb"]) {
            let offered = &latest["platforms"][platform];
            assert_eq!(offered["url"], format!("https://example.org/tunesmith/{name}"));
            let signature = offered["signature"].as_str().unwrap();
            let beside = fs::read_to_string(packages.path().join(format!("{name}.sig"))).unwrap();
            assert_eq!(signature, beside);
            let mut content = format!("content of {name}").into_bytes();
            let comment = verified(&content, signature, &public_key).unwrap();
            assert!(
                comment.split('\t').any(|field| field == "version:1.2.3"),
                "{comment}"
            );
            content[3] ^= 1;
            assert!(verified(&content, signature, &public_key).is_err());
        }
        assert!(!packages.path().join("tunesmith_1.2.2_amd64.deb.sig").exists());
    }

    #[test]
    fn a_key_that_is_missing_or_closed_is_told_of() {
        let home = tempfile::tempdir().unwrap();
        let missing = secret_key(&home.path().join("none.key"), String::new()).unwrap_err();
        assert!(missing.to_string().contains("signer generate"), "{missing}");
        let closed = secret_key(&key_file(home.path()), "another word".to_owned()).unwrap_err();
        assert!(closed.to_string().contains(PASSWORD), "{closed}");
        let other = home.path().join("other.key");
        fs::write(&other, "RWQ").unwrap();
        let other = secret_key(&other, String::new()).unwrap_err();
        assert!(other.to_string().contains("is no key"), "{other}");
    }

    #[test]
    fn packages_go_where_apps_fetch_from_and_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate_unencrypted_keypair().unwrap().sk;
        let open = sign(folder.path(), "1.2.3", "http://example.org", &key).unwrap_err();
        assert!(open.to_string().contains("https://"), "{open}");
        let none = sign(folder.path(), "1.2.3", ADDRESS, &key).unwrap_err();
        assert!(none.to_string().contains("cargo xtask dist"), "{none}");
        assert!(!folder.path().join("latest.json").exists());
    }

    #[test]
    fn the_updater_is_told_systems_processors_and_kinds_in_its_words() {
        for (name, told) in [
            ("tunesmith_0.1.0_amd64.deb", Some("linux-x86_64-deb")),
            ("tunesmith_0.1.0_arm64.deb", Some("linux-aarch64-deb")),
            ("tunesmith-0.1.0-1.aarch64.rpm", Some("linux-aarch64-rpm")),
            ("Tunesmith_0.1.0_amd64.AppImage", Some("linux-x86_64-appimage")),
            ("Tunesmith_0.1.0_x64-setup.exe", Some("windows-x86_64-nsis")),
            ("Tunesmith_0.1.0_x64_en-US.msi", Some("windows-x86_64-msi")),
            // What no app can install, and other versions.
            ("Tunesmith_0.1.0_aarch64.dmg", None),
            ("tunesmith-0.1.0-linux-x86_64.tar.gz", None),
            ("tunesmith_0.1.0_amd64.deb.sig", None),
            ("tunesmith_0.1.0-beta.1_amd64.deb", None),
            ("tunesmith_10.1.0_amd64.deb", None),
            ("latest.json", None),
        ] {
            assert_eq!(platform(name, "0.1.0").as_deref(), told, "{name}");
        }
    }
}
