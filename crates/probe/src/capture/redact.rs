//! Takes out of a text what names a person or one single machine, and counts it.
//!
//! Identifiers are not blanked but replaced by made-up ones, the same for the same and others for others within a
//! capture: two like cards must stay two, and a mask that names one by its id must still name that one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};

use crate::tree::{entries, line_at, text};

/// What was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redaction {
    /// Names of users, e-mail addresses.
    UserNames,
    /// The machine's names.
    HostNames,
    /// Folders of users.
    HomeFolders,
    /// Serial numbers, and the part of Windows' device names that differs from machine to machine.
    Serials,
    /// UUIDs and the unique ids of cards.
    UniqueIds,
    /// Addresses of network cards.
    MacAddresses,
    /// Passwords, keys and tokens.
    Secrets,
    /// Values in the boot line that do not concern the cards, e.g. that of `root=`.
    BootParameters,
    /// Names of control groups, which can hold those of containers and users.
    ControlGroups,
}

/// Names that thousands of machines share, or that mean something in the files: they give nobody away.
const COMMON_NAMES: [&str; 40] = [
    "root",
    "user",
    "users",
    "admin",
    "administrator",
    "guest",
    "nobody",
    "test",
    "home",
    "default",
    "public",
    "ubuntu",
    "debian",
    "fedora",
    "arch",
    "archlinux",
    "nixos",
    "bazzite",
    "cachyos",
    "linux",
    "linuxbrew",
    "localhost",
    "localdomain",
    "deck",
    "steamdeck",
    "desktop",
    "laptop",
    "amd",
    "amdgpu",
    "nvidia",
    "nouveau",
    "radeon",
    "rocm",
    "cuda",
    "gpu",
    "render",
    "video",
    "kfd",
    "ttm",
    "python",
];

/// GUIDs with a meaning that is the same on all machines: the class of display adapters, UEFI's own variables.
const COMMON_GUIDS: [&str; 2] = [
    "4d36e968-e325-11ce-bfc1-08002be10318",
    "8be4df61-93ca-11d2-aa0d-00e098032b8c",
];

/// Boot parameters whose values matter for the cards and tell nothing else.
const BOOT_PREFIXES: [&str; 12] = [
    "amdgpu.",
    "amdttm.",
    "ttm.",
    "radeon.",
    "nvidia",
    "nouveau.",
    "vfio",
    "iommu",
    "amd_iommu",
    "intel_iommu",
    "pci",
    "module_blacklist",
];
const BOOT_NAMES: [&str; 9] = [
    "modprobe.blacklist",
    "rd.driver.blacklist",
    "rd.driver.pre",
    "mem",
    "hugepages",
    "mitigations",
    "nomodeset",
    "amd_pstate",
    "preempt",
];

/// Names of control groups that every machine has.
const COMMON_GROUPS: [&str; 14] = [
    "user.slice",
    "system.slice",
    "machine.slice",
    "app.slice",
    "session.slice",
    "background.slice",
    "init.scope",
    "docker",
    "docker.service",
    "kubepods",
    "kubepods.slice",
    "lxc",
    "lxc.payload",
    "libpod_parent",
];

// Patterns are fixed, and a test builds them all; one that does not compile would match nothing.
macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
    };
}

pattern!(
    UUID,
    r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
);
// ROCm's masks take 16 digits, CUDA's the beginning of a UUID.
pattern!(
    GPU_ID,
    r"\bGPU-([0-9a-fA-F]{16}|[0-9a-fA-F]{4,8})\b(-[0-9a-fA-F]{4})?"
);
pattern!(
    UNIQUE_ID,
    r#"(?i)\b(unique[ _-]?id["']?\s*[:=]?\s*(?:0x)?)([0-9a-f]{8,20})\b"#
);
pattern!(
    MAC,
    r"(?i)\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b|\b[0-9a-f]{2}(?:-[0-9a-f]{2}){5}\b"
);
pattern!(
    SERIAL,
    r#"(?i)\b(serial(?:[ _-]?(?:number|no|num))?["']?(?:\s*[:=]\s*|\s+is\s+|>)["']?)([A-Za-z0-9][A-Za-z0-9._/-]*)"#
);
pattern!(
    PNP_INSTANCE,
    r"((?:PCI|ROOT)\\+VEN_[^\\\s]+\\+)([0-9A-Fa-f]+(?:&[0-9A-Fa-f]+)+)"
);
pattern!(
    HOME,
    r#"(/(?:var/|usr/|export/)?home/|/Users/|(?i:[a-z]:\\+users\\+)|/(?:run/)?media/)([^/\\\s"':;,<>()]+)"#
);
pattern!(
    KEY_VALUE,
    r#"(?i)\b([a-z0-9_.-]*(?:token|secret|passwd|password|passphrase|credential|api[_-]?key|access[_-]?key|_key)s?["']?\s*[=:]\s*["']?)([^\s"',;<>]+)"#
);
pattern!(PLAIN_KEY, r#"(?i)(^|[\s?&;,])(key=)([^\s"',;&<>]+)"#);
pattern!(
    TOKEN,
    r"\b(?:hf_[A-Za-z0-9]{8,}|gh[opsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[bap]-[\w-]{10,})"
);
pattern!(BEARER, r"(?i)\b(bearer\s+)([\w.~+/=-]{8,})");
pattern!(LOGIN_IN_URL, r"(://)([^/\s@]+)(@)");
pattern!(MAIL, r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b");
pattern!(BUILDER, r"\(([\w.+-]+@[\w.+-]+)\)");

/// Words of one machine, and what they were replaced by.
#[derive(Default)]
pub(super) struct Redactor {
    /// What to replace, longest first.
    words: Vec<(String, String, Redaction)>,
    homes: HashMap<String, String>,
    unique_ids: HashMap<u64, u64>,
    uuids: BTreeMap<String, String>,
    serials: HashMap<String, String>,
    macs: HashMap<String, String>,
    groups: HashMap<String, String>,
    counts: BTreeMap<Redaction, usize>,
}

impl Redactor {
    /// Learns the names of the machine below `root`; of this one also from the environment.
    pub(super) fn of_machine(root: &Path) -> Self {
        let mut this = Self::default();
        let mut users = BTreeSet::new();
        let mut hosts = BTreeSet::new();
        for line in text(root, "etc/passwd").unwrap_or_default().lines() {
            this.learn_account(line, &mut users);
        }
        for folder in entries(&root.join("home")) {
            users.extend(
                folder
                    .file_name()
                    .and_then(|name| name.to_str())
                    .map(str::to_owned),
            );
        }
        for file in ["proc/sys/kernel/hostname", "etc/hostname"] {
            hosts.extend(line_at(&root.join(file)));
        }
        if let Some(id) = line_at(&root.join("etc/machine-id")) {
            this.learn(&id, "machine-id", Redaction::UniqueIds);
        }
        if root == Path::new(crate::LIVE) {
            let of_environment = |name: &&str| std::env::var(name).ok();
            users.extend(
                ["USER", "LOGNAME", "SUDO_USER", "USERNAME"]
                    .iter()
                    .filter_map(of_environment),
            );
            hosts.extend(["HOSTNAME", "COMPUTERNAME"].iter().filter_map(of_environment));
            for home in ["HOME", "USERPROFILE"].iter().filter_map(of_environment) {
                this.learn_home(&home);
            }
        }
        for user in users {
            let number = this.homes.len() + 1;
            let made_up = this
                .homes
                .entry(user.to_lowercase())
                .or_insert(format!("user{number}"))
                .clone();
            this.learn(&user, &made_up, Redaction::UserNames);
        }
        for host in hosts {
            let first = host.split('.').next().unwrap_or_default().to_owned();
            this.learn(&host, "host", Redaction::HostNames);
            this.learn(&first, "host", Redaction::HostNames);
        }
        this.words
            .sort_by_key(|(word, _, _)| std::cmp::Reverse(word.len()));
        this
    }

    /// What was taken out so far.
    pub(super) fn counts(&self) -> &BTreeMap<Redaction, usize> {
        &self.counts
    }

    /// A line of `/etc/passwd`.
    fn learn_account(&mut self, line: &str, users: &mut BTreeSet<String>) {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, _, full_name, home, ..] = fields.as_slice() else {
            return;
        };
        // People's accounts; those below belong to the system, the highest is `nobody`.
        if uid.parse::<u32>().is_ok_and(|uid| (1000..65_534).contains(&uid)) {
            users.insert((*name).to_owned());
            self.learn_home(home);
            let full_name = full_name.split(',').next().unwrap_or_default().trim();
            self.learn(full_name, "name", Redaction::UserNames);
        }
    }

    fn learn_home(&mut self, home: &str) {
        // Those in the usual places are found by their form.
        let usual = HOME.as_ref().is_some_and(|pattern| pattern.is_match(home));
        if !usual && home.len() > 5 && home.starts_with('/') && home != "/root" {
            self.words
                .push((home.to_owned(), "/home/user".to_owned(), Redaction::HomeFolders));
        }
    }

    fn learn(&mut self, word: &str, made_up: &str, kind: Redaction) {
        let word = word.trim();
        let common = COMMON_NAMES
            .iter()
            .any(|common| common.eq_ignore_ascii_case(word));
        let telling = word.len() >= 3 && word.chars().any(char::is_alphabetic) && !common;
        if telling && !self.words.iter().any(|(known, _, _)| known == word) {
            self.words.push((word.to_owned(), made_up.to_owned(), kind));
        }
    }

    fn count(&mut self, kind: Redaction, times: usize) {
        if times > 0 {
            *self.counts.entry(kind).or_default() += times;
        }
    }

    /// A text that may hold anything: messages, settings, outputs of tools.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut text = self.identifiers(text);
        text = self.replace(&KEY_VALUE, &text, Redaction::Secrets, |_, found| {
            hidden(found, 1, 2)
        });
        text = self.replace(&PLAIN_KEY, &text, Redaction::Secrets, |_, found| {
            Some(format!("{}{}redacted", &found[1], &found[2]))
        });
        text = self.replace(&BEARER, &text, Redaction::Secrets, |_, found| hidden(found, 1, 2));
        text = self.replace(&LOGIN_IN_URL, &text, Redaction::Secrets, |_, _| {
            Some("://redacted@".to_owned())
        });
        text = self.replace(&SERIAL, &text, Redaction::Serials, |this, found| {
            let is_value = found[2].len() > 3 && !found[2].eq_ignore_ascii_case("none");
            is_value.then(|| {
                let made_up = numbered(&mut this.serials, &found[2], |n| format!("serial-{n}"));
                format!("{}{made_up}", &found[1])
            })
        });
        text = self.replace(&PNP_INSTANCE, &text, Redaction::Serials, |this, found| {
            let made_up = numbered(&mut this.serials, &found[2], |n| format!("0&{n:08}&0&0000"));
            Some(format!("{}{made_up}", &found[1]))
        });
        text = self.replace(&HOME, &text, Redaction::HomeFolders, |this, found| {
            let made_up = numbered(&mut this.homes, &found[2].to_lowercase(), |n| format!("user{n}"));
            Some(format!("{}{made_up}", &found[1]))
        });
        text = self.replace(&MAIL, &text, Redaction::UserNames, |_, _| {
            Some("name@example.org".to_owned())
        });
        text = self.replace(&BUILDER, &text, Redaction::UserNames, |_, _| {
            Some("(user@host)".to_owned())
        });
        self.known_words(&text)
    }

    /// A text of the kernel's own words: only identifiers can be in it, and its words must stay as they are.
    pub(super) fn kernel_text(&mut self, text: &str) -> String {
        self.identifiers(text)
    }

    /// The only content of a file `unique_id`: hexadecimal digits.
    pub(super) fn unique_id_file(&mut self, text: &str) -> String {
        let digits = text.trim().trim_start_matches("0x");
        match u64::from_str_radix(digits, 16) {
            Ok(id) if id != 0 => {
                self.count(Redaction::UniqueIds, 1);
                format!("{:016x}\n", self.unique_id(id))
            }
            // Empty or zero: the graphics of a processor, which have none.
            Ok(_) => text.to_owned(),
            Err(_) if digits.is_empty() => text.to_owned(),
            Err(_) => String::new(),
        }
    }

    /// KFD's properties of a node: the same id in decimal digits.
    pub(super) fn kfd_properties(&mut self, text: &str) -> String {
        let redacted = |line: &str| match line.strip_prefix("unique_id ").map(|id| id.trim().parse()) {
            Some(Ok(id)) if id != 0 => {
                self.count(Redaction::UniqueIds, 1);
                format!("unique_id {}\n", self.unique_id(id))
            }
            _ => format!("{line}\n"),
        };
        text.lines().map(redacted).collect()
    }

    /// The boot line.
    pub(super) fn boot_line(&mut self, line: &str) -> String {
        let mut words = Vec::new();
        for word in line.split_whitespace() {
            let Some((name, _)) = word.split_once('=') else {
                words.push(word.to_owned());
                continue;
            };
            let matters =
                BOOT_NAMES.contains(&name) || BOOT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if matters {
                words.push(word.to_owned());
            } else {
                self.count(Redaction::BootParameters, 1);
                words.push(format!("{name}=redacted"));
            }
        }
        self.text(&words.join(" ")) + "\n"
    }

    /// The path of a control group; one with odd parts becomes `/`, as which it is read.
    pub(super) fn control_group(&mut self, path: &str) -> String {
        let path = Path::new(path.trim_start_matches('/'));
        let mut made_up = String::new();
        for part in path.components() {
            let Component::Normal(name) = part else {
                return "/".to_owned();
            };
            made_up.push('/');
            made_up.push_str(&self.control_group_name(&name.to_string_lossy()));
        }
        if made_up.is_empty() {
            "/".to_owned()
        } else {
            made_up
        }
    }

    fn control_group_name(&mut self, name: &str) -> String {
        if COMMON_GROUPS.contains(&name) {
            return name.to_owned();
        }
        self.count(Redaction::ControlGroups, 1);
        // The kind of container is told by these words.
        let kind = ["kubepods", "docker", "libpod", "lxc"]
            .iter()
            .find(|kind| name.contains(*kind));
        let kind = kind.map_or(String::new(), |kind| format!("{kind}-"));
        numbered(&mut self.groups, name, |n| format!("{kind}group-{n}"))
    }

    /// A file's name, below the root, that somebody chose.
    pub(super) fn path(&mut self, path: &str) -> String {
        self.known_words(path)
    }

    fn identifiers(&mut self, text: &str) -> String {
        let mut text = self.replace(&UUID, text, Redaction::UniqueIds, |this, found| {
            let uuid = found[0].to_ascii_lowercase();
            let common = COMMON_GUIDS.contains(&uuid.as_str()) || uuid.starts_with("00000000-0000-0000");
            (!common).then(|| this.uuid(&uuid))
        });
        text = self.replace(&GPU_ID, &text, Redaction::UniqueIds, |this, found| {
            if found.get(2).is_some() {
                // A whole UUID, which was looked at already.
                return None;
            }
            let digits = found[1].to_ascii_lowercase();
            if digits.len() == 16 {
                let id = u64::from_str_radix(&digits, 16).ok()?;
                return Some(format!("GPU-{:016x}", this.unique_id(id)));
            }
            // The beginning of a UUID stands for the card that has it; one of no known card stays distinct.
            let known = this.uuids.iter().find(|(uuid, _)| uuid.starts_with(&digits));
            let made_up = match known {
                Some((_, made_up)) => made_up.clone(),
                None if this.uuids.values().any(|made_up| made_up.starts_with(&digits)) => return None,
                None => this.uuid(&digits),
            };
            Some(format!("GPU-{}", made_up.split('-').next()?))
        });
        text = self.replace(&UNIQUE_ID, &text, Redaction::UniqueIds, |this, found| {
            // Decimal where the kernel's list of nodes was printed, hexadecimal elsewhere.
            let radix = if found[2].len() > 16 { 10 } else { 16 };
            let id = u64::from_str_radix(&found[2], radix).ok().filter(|id| *id != 0)?;
            let made_up = this.unique_id(id);
            let made_up = if radix == 10 {
                made_up.to_string()
            } else {
                format!("{made_up:016x}")
            };
            Some(format!("{}{made_up}", &found[1]))
        });
        text = self.replace(&MAC, &text, Redaction::MacAddresses, |this, found| {
            let address = found[0].to_ascii_lowercase().replace('-', ":");
            Some(numbered(&mut this.macs, &address, |n| {
                format!("02:00:00:00:{:02x}:{:02x}", n >> 8 & 0xff, n & 0xff)
            }))
        });
        self.replace(&TOKEN, &text, Redaction::Secrets, |_, _| {
            Some("redacted-token".to_owned())
        })
    }

    fn uuid(&mut self, uuid: &str) -> String {
        if self.uuids.values().any(|made_up| made_up == uuid) {
            // A text that was redacted before, of this very capture.
            return uuid.to_owned();
        }
        let number = self.uuids.len() + 1;
        self.uuids
            .entry(uuid.to_owned())
            .or_insert_with(|| format!("{number:08x}-0000-4000-8000-000000000000"))
            .clone()
    }

    fn unique_id(&mut self, id: u64) -> u64 {
        if self.unique_ids.values().any(|made_up| *made_up == id) {
            return id;
        }
        let number = self.unique_ids.len() as u64 + 1;
        *self
            .unique_ids
            .entry(id)
            .or_insert(0x1000_0000_0000_0000 + number)
    }

    /// Replaces what `pattern` finds by what `by` makes of it; what it returns `None` for stays.
    fn replace(
        &mut self,
        pattern: &LazyLock<Option<Regex>>,
        text: &str,
        kind: Redaction,
        mut by: impl FnMut(&mut Self, &Captures<'_>) -> Option<String>,
    ) -> String {
        let Some(pattern) = pattern.as_ref() else {
            return text.to_owned();
        };
        let mut times = 0;
        let replaced = pattern.replace_all(text, |found: &Captures<'_>| match by(self, found) {
            Some(made_up) => {
                times += usize::from(made_up != found[0]);
                made_up
            }
            None => found[0].to_owned(),
        });
        let replaced = replaced.into_owned();
        self.count(kind, times);
        replaced
    }

    fn known_words(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        let mut counts = Vec::new();
        for (word, made_up, kind) in &self.words {
            let (replaced, times) = replace_word(&text, word, made_up);
            text = replaced;
            counts.push((*kind, times));
        }
        for (kind, times) in counts {
            self.count(kind, times);
        }
        text
    }
}

fn hidden(found: &Captures<'_>, before: usize, secret: usize) -> Option<String> {
    (&found[secret] != "redacted").then(|| format!("{}redacted", &found[before]))
}

/// The made-up name for `name`, the next number where it has none yet.
fn numbered(names: &mut HashMap<String, String>, name: &str, make: impl Fn(usize) -> String) -> String {
    if names.values().any(|made_up| made_up == name) {
        return name.to_owned();
    }
    let number = names.len() + 1;
    names
        .entry(name.to_owned())
        .or_insert_with(|| make(number))
        .clone()
}

/// Replaces a word where it stands alone, whatever its case.
fn replace_word(text: &str, word: &str, by: &str) -> (String, usize) {
    let lower_text = text.to_ascii_lowercase();
    let lower_word = word.to_ascii_lowercase();
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (mut replaced, mut from, mut times) = (String::new(), 0, 0);
    // Lower case of ASCII alone leaves every position where it was.
    for (at, _) in lower_text.match_indices(&lower_word) {
        let end = at + word.len();
        let alone = !is_part(text[..at].chars().next_back()) && !is_part(text[end..].chars().next());
        if alone {
            replaced.push_str(&text[from..at]);
            replaced.push_str(by);
            from = end;
            times += 1;
        }
    }
    replaced.push_str(&text[from..]);
    (replaced, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    fn redactor() -> Redactor {
        let machine = tree(&[
            (
                "etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/bin/false\n\
                 annika:x:1000:1000:Annika Muster,,,:/home/annika:/bin/bash\nbo:x:1001:1001::/srv/data/bo:/bin/sh\n\
                 video:x:1002:1002::/home/video:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
            ),
            ("etc/hostname", "workbench-42.example.net\n"),
            ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ]);
        Redactor::of_machine(machine.path())
    }

    #[test]
    fn every_pattern_compiles() {
        for pattern in [
            &UUID,
            &GPU_ID,
            &UNIQUE_ID,
            &MAC,
            &SERIAL,
            &PNP_INSTANCE,
            &HOME,
            &KEY_VALUE,
            &PLAIN_KEY,
            &TOKEN,
            &BEARER,
            &LOGIN_IN_URL,
            &MAIL,
            &BUILDER,
        ] {
            assert!(pattern.is_some());
        }
    }

    #[test]
    fn names_go_where_they_stand_alone() {
        let mut redactor = redactor();
        let text = redactor.text(
            "Annika on WORKBENCH-42 (workbench-42.example.net), annikas, /srv/data/bo/x, Annika Muster, video amdgpu",
        );
        assert_eq!(
            text,
            "user1 on host (host), annikas, /home/user/x, name, video amdgpu"
        );
        assert_eq!(redactor.counts()[&Redaction::HostNames], 2);
        assert_eq!(
            redactor.text("id 0123456789abcdef0123456789abcdef"),
            "id machine-id"
        );
    }

    #[test]
    fn folders_of_users_keep_their_form() {
        let mut redactor = redactor();
        for (before, after) in [
            ("/home/annika/.bashrc", "/home/user1/.bashrc"),
            ("C:\\\\Users\\\\Annika\\\\x", "C:\\\\Users\\\\user1\\\\x"),
            ("export X=/var/home/someone/rocm:/opt", "export X=/var/home/"),
        ] {
            let text = redactor.text(before);
            assert!(text.starts_with(after), "{text}");
            assert!(
                !text.to_lowercase().contains("annika") && !text.contains("someone"),
                "{text}"
            );
        }
    }

    #[test]
    fn identifiers_are_replaced_by_others_that_stay_distinct() {
        let mut redactor = redactor();
        let (a, b) = (
            "8a7b6c5d-0123-4567-89ab-cdef01234567",
            "11111111-2222-3333-4444-555555555555",
        );
        let text = redactor.text(&format!("GPU-{a} GPU-{b} {a} CUDA_VISIBLE_DEVICES=GPU-8a7b6c5d"));
        let words: Vec<&str> = text.split(' ').collect();
        assert_ne!(words[0], words[1]);
        assert_eq!(words[0], format!("GPU-{}", words[2]));
        assert!(
            words[0].starts_with(words[3].split_once('=').unwrap().1),
            "the short form still names the same card"
        );
        assert!(!text.contains("8a7b") && !text.contains("1111111"));

        // The same id in three forms.
        assert_eq!(
            redactor.unique_id_file("d0fe2a1b3c4d5e6f\n"),
            "1000000000000001\n"
        );
        let decimal = 0xd0fe_2a1b_3c4d_5e6f_u64;
        let properties =
            redactor.kfd_properties(&format!("simd_count 192\nunique_id {decimal}\nnum_xcc 1\n"));
        assert_eq!(
            properties,
            format!(
                "simd_count 192\nunique_id {}\nnum_xcc 1\n",
                0x1000_0000_0000_0001_u64
            )
        );
        assert_eq!(
            redactor.text("HIP_VISIBLE_DEVICES=GPU-d0fe2a1b3c4d5e6f"),
            "HIP_VISIBLE_DEVICES=GPU-1000000000000001"
        );
        assert_eq!(redactor.unique_id_file("\n"), "\n", "no id is no id");
        assert_eq!(redactor.kfd_properties("unique_id 0\n"), "unique_id 0\n");
        assert_eq!(
            redactor.text("Unique ID: 0xd0fe2a1b3c4d5e6f"),
            "Unique ID: 0x1000000000000001"
        );
    }

    #[test]
    fn serials_addresses_and_secrets_are_taken_out() {
        let mut redactor = redactor();
        let text = redactor.text(
            "<serial>1322121034567</serial> Serial Number: PF3XYZ12 eth0 9c:6b:00:12:34:56 hf_AbCdEfGhIjKlMnOp \
             HF_TOKEN=abcdef key=hunter2 Authorization: Bearer abcdefghij https://me:pw@example.org/x \
             someone@example.com Linux version 6.18 (builder@rig) \
             PCI\\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\\6&1A2B3C4D&0&00000019 wandb_api_key: 1234abcd",
        );
        for secret in [
            "1322121034567",
            "PF3XYZ12",
            "9c:6b",
            "hf_AbC",
            "abcdef",
            "hunter2",
            "me:pw",
            "someone",
            "builder@rig",
            "1A2B3C4D",
            "1234abcd",
        ] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(text.contains("PCI\\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\\"));
        for kind in [
            Redaction::Serials,
            Redaction::MacAddresses,
            Redaction::Secrets,
            Redaction::UserNames,
        ] {
            assert!(redactor.counts()[&kind] > 0, "{kind:?}");
        }
    }

    #[test]
    fn what_names_no_one_stays() {
        let mut redactor = redactor();
        for text in [
            "0000:03:00.0 VGA compatible controller [0300]: AMD [1002:744c] (rev c8)",
            "amdgpu 0000:03:00.0: [drm] ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
            "HKLM\\SYSTEM\\{4d36e968-e325-11ce-bfc1-08002be10318}\\0009",
            "<serial>N/A</serial> <uuid>GPU-00000000-0000-0000-0000-000000000001</uuid>",
            "tokenizer_class: LlamaTokenizer, max_tokens 5, keyboard",
            "options amdgpu gttsize=126976 noretry=0",
            "HSA_OVERRIDE_GFX_VERSION=11.0.0",
        ] {
            assert_eq!(redactor.text(text), text);
        }
        assert!(redactor.counts().is_empty(), "{:?}", redactor.counts());
    }

    #[test]
    fn the_boot_line_keeps_what_concerns_the_cards() {
        let mut redactor = redactor();
        let line = redactor.boot_line(
            "BOOT_IMAGE=/boot/vmlinuz-6.18 root=UUID=8a7b6c5d-0123-4567-89ab-cdef01234567 quiet amdgpu.gttsize=126976 \
             ttm.pages_limit=32505856 amd_iommu=off ip=10.0.0.5::10.0.0.1:255.255.255.0:workbench-42 luks.key=hunter2\n",
        );
        assert_eq!(
            line,
            "BOOT_IMAGE=redacted root=redacted quiet amdgpu.gttsize=126976 ttm.pages_limit=32505856 amd_iommu=off \
             ip=redacted luks.key=redacted\n"
        );
        assert_eq!(redactor.counts()[&Redaction::BootParameters], 4);
    }

    #[test]
    fn control_groups_keep_their_kind_and_shape() {
        let mut redactor = redactor();
        let group = redactor.control_group("/user.slice/user-1000.slice/app-annika.scope");
        assert_eq!(group, "/user.slice/group-1/group-2");
        assert_eq!(
            redactor.control_group("/user.slice/user-1000.slice"),
            "/user.slice/group-1"
        );
        assert_eq!(redactor.control_group("/docker/0123abcd"), "/docker/group-3");
        assert_eq!(
            redactor.control_group("/system.slice/docker-0123.scope"),
            "/system.slice/docker-group-4"
        );
        assert_eq!(redactor.control_group("/"), "/");
        assert_eq!(redactor.control_group("/../x"), "/");
    }

    #[test]
    fn a_text_that_was_redacted_before_stays_as_it_is() {
        let mut redactor = redactor();
        let once = redactor
            .text("GPU-8a7b6c5d-0123-4567-89ab-cdef01234567 /home/annika serial: ABCDEF 9c:6b:00:12:34:56");
        let counts = redactor.counts().clone();
        assert_eq!(redactor.text(&once), once);
        assert_eq!(redactor.counts(), &counts);
    }
}
