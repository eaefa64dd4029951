//! The rows of `faults.toml`: by which text each fault is known, what it means, what to do about it on which machine.

use std::ops::Range;

use regex::bytes::{RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use tunesmith_probe::{GpuVendor, Platform};

/// The file's name in a folder of knowledge.
pub const FAULTS_FILE: &str = "faults.toml";

const BUILT_IN: &str = include_str!("../../../../assets/knowledge/faults.toml");

/// All patterns together may take this much memory once they are compiled.
const COMPILED_BYTES: usize = 64 << 20;

/// The automaton's cache. Where it is too small, matching falls back to a slower way.
const CACHE_BYTES: usize = 32 << 20;

/// A setting that no cure may give a value to.
const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// A mistake in a file of faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}, key `{key}`: {message}")]
pub struct FaultsError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The key that is wrong, or that is missing.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The work stops.
    Error,
    /// The work goes on and its results are wrong.
    Silent,
    /// The work goes on, slower or with less.
    Warning,
    /// Nothing needs doing.
    Harmless,
}

/// How sure a text is of its fault. The order is from sure to unsure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// The text has one meaning.
    Certain,
    /// It has one usual meaning.
    Likely,
    /// It has several.
    Possible,
}

/// A known fault.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its name, stable across versions: words joined by `-`.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// How bad it is.
    pub kind: Kind,
    /// Whether this is a class for texts that no other row knows.
    #[serde(default)]
    pub general: bool,
    /// How sure the text is.
    pub sure: Sureness,
    /// Regular expressions; a line that matches one of them shows the fault.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Groups of regular expressions; all of a group must match near each other.
    #[serde(default)]
    pub together: Vec<Vec<String>>,
    /// How people describe it, in plain words; `…` stands for anything on the line.
    #[serde(default)]
    pub said: Vec<String>,
    /// Lines that match one of these do not count.
    #[serde(default)]
    pub except: Vec<String>,
    /// What it means.
    pub means: String,
    /// What causes it.
    pub causes: Vec<String>,
    /// Faults that follow from this one.
    #[serde(default)]
    pub consequences: Vec<String>,
    /// The doctor's checks that look at the same thing.
    pub checks: Vec<String>,
    /// Where this holds, the machine shows the fault too.
    #[serde(default)]
    pub confirmed: Option<When>,
    /// Where this holds, the machine shows the opposite.
    #[serde(default)]
    pub contradicted: Option<When>,
    /// What to do, by machine.
    #[serde(default)]
    pub cure: Vec<Advice>,
    /// What to do where no rule holds, or nothing is known of the machine.
    pub otherwise: Advice,
    /// What to collect, for a general class.
    #[serde(default)]
    pub collect: Vec<String>,
    /// Its numbers in the project's notes.
    pub entries: Vec<String>,
    /// The day on which this was true, e.g. `2026-11-30`.
    pub as_of: String,
    /// Where it was read.
    pub source: String,
}

/// What to do, with one command to copy for each system. Braces stand for values of the machine: `{gfx}`,
/// `{override}`, `{override_origin}`, `{setting}`, `{setting_origin}`, `{kernel}`, `{group_flags}`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// On which machines; on all where it is left out.
    #[serde(default)]
    pub when: When,
    /// What and why.
    pub text: String,
    /// The command, where it is the same on all systems.
    #[serde(default)]
    pub command: Option<String>,
    /// The command on Linux.
    #[serde(default)]
    pub linux: Option<String>,
    /// The command in WSL, where it is another than on Linux.
    #[serde(default)]
    pub wsl: Option<String>,
    /// The command on Windows (PowerShell).
    #[serde(default)]
    pub windows: Option<String>,
}

impl Advice {
    /// All commands.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        [&self.command, &self.linux, &self.wsl, &self.windows]
            .into_iter()
            .filter_map(|command| command.as_deref())
    }
}

/// What must be so on the machine; everything that is named, and known.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// A card to train on has one of these targets; `*` stands for any end.
    pub gfx: Vec<String>,
    /// There is a card of this maker.
    pub vendor: Option<GpuVendor>,
    /// The system is one of these.
    pub platform: Vec<Platform>,
    /// This runs in a container.
    pub container: Option<bool>,
    /// A processor's graphics and a card of its own are there, both of AMD.
    pub integrated_beside_discrete: Option<bool>,
    /// Cards of AMD and of NVIDIA are there.
    pub both_vendors: Option<bool>,
    /// A card to train on shares its memory with the processor.
    pub unified: Option<bool>,
    /// HSA_OVERRIDE_GFX_VERSION has a value somewhere.
    pub override_set: Option<bool>,
    /// That value is not the target of a card here.
    pub override_wrong: Option<bool>,
    /// The kernel is older than this.
    pub kernel_below: Option<String>,
    /// The state of /dev/kfd.
    pub kfd: Option<KfdState>,
    /// The account is in the group that owns a device, and this session is not.
    pub needs_login: Option<bool>,
    /// One of these variables is set.
    pub setting: Vec<String>,
    /// amdgpu is a DKMS module.
    pub amdgpu_dkms: Option<bool>,
    /// Secure Boot is on.
    pub secure_boot: Option<bool>,
    /// KFD exports the sizes that gfx1151 needs for saving registers.
    pub cwsr_exported: Option<bool>,
    /// The MES firmware of a card has this number.
    pub mes_firmware: Option<u64>,
    /// ttm.pages_limit is set at boot or in modprobe.d.
    pub pages_limit_set: Option<bool>,
    /// A card of its own has Resizable BAR in use.
    pub resizable_bar: Option<bool>,
}

/// The state of `/dev/kfd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KfdState {
    /// It is not there.
    Missing,
    /// It is there and this process may not use it.
    Closed,
    /// This process may use it.
    Open,
}

/// What a pattern is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// One line is enough.
    Line,
    /// The line does not count.
    Except,
    /// A part of a group, with its number among all groups.
    Part {
        /// The group.
        group: usize,
        /// Whether it is the first, whose line is quoted.
        first: bool,
    },
}

/// A pattern's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Index of its fault.
    pub(crate) fault: usize,
    /// What it is for.
    pub(crate) role: Role,
}

/// All known faults, ready for matching.
#[derive(Clone, Debug)]
pub struct Faults {
    rows: Vec<Fault>,
    patterns: Vec<Pattern>,
    groups: Vec<usize>,
    set: RegexSet,
}

impl PartialEq for Faults {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    fault: Vec<Spanned<Fault>>,
}

impl Faults {
    /// The faults that the program came with.
    ///
    /// # Errors
    /// Never in a released program: a test reads them.
    pub fn built_in() -> Result<Self, FaultsError> {
        Self::parse(FAULTS_FILE, BUILT_IN)
    }

    /// Reads the faults of a file; `file` is how messages call it.
    ///
    /// # Errors
    /// The first mistake, with its line and key.
    pub fn parse(file: &str, text: &str) -> Result<Self, FaultsError> {
        let source = Source { file, text };
        let read: File = toml::from_str(text).map_err(|error| source.toml_mistake(&error))?;
        let mut ids: Vec<String> = Vec::new();
        for row in &read.fault {
            let span = row.span();
            let row = row.get_ref();
            check(row).map_err(|(key, message)| source.mistake(&span, key, message))?;
            if ids.contains(&row.id) {
                return Err(source.mistake(&span, "id", format!("`{}` is there twice", row.id)));
            }
            ids.push(row.id.clone());
        }
        for row in &read.fault {
            let unknown = row.get_ref().consequences.iter().find(|id| !ids.contains(id));
            if let Some(id) = unknown {
                return Err(source.mistake(
                    &row.span(),
                    "consequences",
                    format!("`{id}` is no fault of this file"),
                ));
            }
        }
        let spans: Vec<Range<usize>> = read.fault.iter().map(Spanned::span).collect();
        let rows: Vec<Fault> = read.fault.into_iter().map(Spanned::into_inner).collect();
        let (patterns, groups, regexes) = patterns_of(&rows);
        let built = compile(&regexes);
        let set = match built {
            Ok(set) => set,
            Err(error) => {
                let bad = regexes
                    .iter()
                    .position(|regex| compile(std::slice::from_ref(regex)).is_err());
                let bad = bad.map(|index| (index, compile(std::slice::from_ref(&regexes[index])).err()));
                let (index, error) = bad.map_or((0, error.to_string()), |(index, own)| {
                    (index, own.map_or_else(String::new, |own| own.to_string()))
                });
                return Err(source.pattern(
                    &spans,
                    &patterns,
                    &regexes,
                    index,
                    &format!("is no regular expression: {error}"),
                ));
            }
        };
        if let Some(index) = set.matches(b"").into_iter().next() {
            return Err(source.pattern(&spans, &patterns, &regexes, index, "matches every line"));
        }
        Ok(Self {
            rows,
            patterns,
            groups,
            set,
        })
    }

    /// The rows, in the file's order.
    pub fn rows(&self) -> &[Fault] {
        &self.rows
    }

    /// The row with this id.
    pub fn get(&self, id: &str) -> Option<&Fault> {
        self.rows.iter().find(|row| row.id == id)
    }

    pub(crate) fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// How many parts each group has.
    pub(crate) fn groups(&self) -> &[usize] {
        &self.groups
    }

    pub(crate) fn set(&self) -> &RegexSet {
        &self.set
    }
}

/// Places, groups and texts of all patterns, in the order in which they are compiled.
fn patterns_of(rows: &[Fault]) -> (Vec<Pattern>, Vec<usize>, Vec<String>) {
    let (mut patterns, mut groups, mut regexes) = (Vec::new(), Vec::new(), Vec::new());
    for (fault, row) in rows.iter().enumerate() {
        let mut add = |role, regex: String| {
            patterns.push(Pattern { fault, role });
            regexes.push(regex);
        };
        row.lines.iter().for_each(|line| add(Role::Line, line.clone()));
        row.said.iter().for_each(|said| add(Role::Line, regex_of(said)));
        row.except.iter().for_each(|line| add(Role::Except, line.clone()));
        for parts in &row.together {
            let group = groups.len();
            groups.push(parts.len());
            for (index, part) in parts.iter().enumerate() {
                let first = index == 0;
                add(Role::Part { group, first }, part.clone());
            }
        }
    }
    (patterns, groups, regexes)
}

/// The regular expression for plain words: spaces and quotation marks of any kind, `…` for anything.
fn regex_of(said: &str) -> String {
    let anything = |part: &str| {
        let words = part.split_whitespace().map(|word| {
            let word = regex::escape(word);
            word.replace(['\'', '"', '`', '“', '”', '’'], "[^\\sA-Za-z0-9]{0,3}")
        });
        words.collect::<Vec<_>>().join(r"[\s`'\x22]+")
    };
    said.split('…').map(anything).collect::<Vec<_>>().join(".*")
}

fn check(row: &Fault) -> Result<(), (&'static str, String)> {
    let is_slug = |id: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !id.is_empty() && id.chars().all(plain)
    };
    if !is_slug(&row.id) {
        return Err(("id", "an id has small letters, digits and `-` alone".to_owned()));
    }
    let texts = [
        ("title", &row.title),
        ("means", &row.means),
        ("source", &row.source),
    ];
    for (key, text) in texts {
        check_words(text).map_err(|message| (key, message))?;
    }
    let lists = [
        ("causes", &row.causes),
        ("collect", &row.collect),
        ("checks", &row.checks),
    ];
    for (key, list) in lists {
        list.iter()
            .try_for_each(|text| check_words(text))
            .map_err(|message| (key, message))?;
    }
    if row.causes.is_empty() {
        return Err(("causes", "it is empty".to_owned()));
    }
    if !is_day(&row.as_of) {
        return Err((
            "as_of",
            format!("{:?} is not a day such as 2026-11-30", row.as_of),
        ));
    }
    if row.lines.is_empty() && row.together.is_empty() && row.said.is_empty() {
        return Err((
            "lines",
            "a fault needs `lines`, `together` or `said` to be known by".to_owned(),
        ));
    }
    if row.general == row.collect.is_empty() {
        return Err((
            "collect",
            "a general class says what to collect, and no other row does".to_owned(),
        ));
    }
    if row.together.iter().any(|parts| parts.len() < 2) {
        return Err(("together", "a group has at least two parts".to_owned()));
    }
    if row
        .said
        .iter()
        .any(|said| said.split('…').all(|part| part.trim().len() < 4))
    {
        return Err((
            "said",
            "a description this short would be found everywhere".to_owned(),
        ));
    }
    for rule in &row.cure {
        if rule.when == When::default() {
            return Err(("when", "a cure without a condition is `otherwise`".to_owned()));
        }
        check_advice(rule).map_err(|message| ("cure", message))?;
    }
    if row.otherwise.when != When::default() {
        return Err((
            "otherwise",
            "it holds without a condition; a `cure` has one".to_owned(),
        ));
    }
    check_advice(&row.otherwise).map_err(|message| ("otherwise", message))
}

fn check_advice(advice: &Advice) -> Result<(), String> {
    check_words(&advice.text)?;
    if advice.commands().next().is_none() {
        return Err("a cure has a command for at least one system".to_owned());
    }
    for command in advice.commands() {
        check_words(command)?;
        if gives_override(command) {
            return Err(format!(
                "a cure never gives {OVERRIDE} a value: it makes a card run another card's code"
            ));
        }
    }
    Ok(())
}

/// Whether a command sets the override, in any shell.
fn gives_override(command: &str) -> bool {
    command.match_indices(OVERRIDE).any(|(at, _)| {
        let before = command[..at].to_lowercase();
        let after = command[at + OVERRIDE.len()..].trim_start();
        after.starts_with('=') || before.trim_end().ends_with("setx") || after.starts_with("\",")
    })
}

fn check_words(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("it holds a control character".to_owned());
    }
    Ok(())
}

fn compile(regexes: &[String]) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(regexes)
        .case_insensitive(true)
        .unicode(false)
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .build()
}

fn is_day(text: &str) -> bool {
    let shape = |(index, byte): (usize, u8)| {
        if index == 4 || index == 7 {
            byte == b'-'
        } else {
            byte.is_ascii_digit()
        }
    };
    let number = |range: Range<usize>| text.get(range).and_then(|part| part.parse::<u32>().ok());
    text.len() == 10
        && text.bytes().enumerate().all(shape)
        && number(5..7).is_some_and(|month| (1..=12).contains(&month))
        && number(8..10).is_some_and(|day| (1..=31).contains(&day))
}

/// A file's text, for saying where in it a mistake stands.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn toml_mistake(&self, error: &toml::de::Error) -> FaultsError {
        let message = error.message();
        let at = error.span().map_or(0, |span| span.start).min(self.text.len());
        let line = self.text.get(..at).unwrap_or_default().matches('\n').count();
        let quoted = ["missing field `", "unknown field `"]
            .iter()
            .find_map(|start| message.strip_prefix(start))
            .and_then(|rest| rest.split_once('`'))
            .map(|(field, _)| field.to_owned());
        let key = quoted.unwrap_or_else(|| {
            let line = self.text.lines().nth(line).unwrap_or_default();
            let left = line.split('=').next().unwrap_or_default();
            left.trim().trim_matches(['[', ']']).to_owned()
        });
        self.error(line + 1, &key, message)
    }

    /// A mistake in the row that begins at `row`: at the key's line, or at the row's where it has no such key.
    fn mistake(&self, row: &Range<usize>, key: &str, message: impl Into<String>) -> FaultsError {
        let start = row.start.min(self.text.len());
        let first = self.text.get(..start).unwrap_or_default().matches('\n').count();
        let rest = self.text.lines().skip(first).enumerate();
        let is_key = |line: &str| {
            let line = line
                .trim_start()
                .trim_start_matches('[')
                .trim_start_matches("fault.");
            line.strip_prefix(key)
                .is_some_and(|rest| rest.trim_start().starts_with(['=', ']']))
        };
        let line = rest
            .take_while(|(index, line)| *index == 0 || line.trim() != "[[fault]]")
            .find(|(_, line)| is_key(line))
            .map_or(first, |(index, _)| first + index);
        self.error(line + 1, key, message)
    }

    /// A mistake in one of the patterns.
    fn pattern(
        &self,
        rows: &[Range<usize>],
        patterns: &[Pattern],
        regexes: &[String],
        index: usize,
        what: &str,
    ) -> FaultsError {
        let (row, key) = patterns.get(index).map_or((0..0, "fault"), |pattern| {
            let key = match pattern.role {
                Role::Line => "lines",
                Role::Except => "except",
                Role::Part { .. } => "together",
            };
            (rows[pattern.fault].clone(), key)
        });
        let regex = regexes.get(index).map_or("", String::as_str);
        self.mistake(&row, key, format!("{regex:?} {what}"))
    }

    fn error(&self, line: usize, key: &str, message: impl Into<String>) -> FaultsError {
        let message = message.into();
        FaultsError {
            file: self.file.to_owned(),
            line,
            key: key.to_owned(),
            // A regular expression's error is drawn over several lines.
            message: message.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"# a comment
[[fault]]
id = "one"
title = "a title"
kind = "error"
sure = "certain"
lines = ['first text']
means = "a meaning"
causes = ["a cause"]
consequences = []
checks = []
entries = []
as_of = "2026-11-30"
source = "own"

[[fault.cure]]
when = { gfx = ["gfx11*"] }
text = "do"
linux = "true"

[fault.otherwise]
text = "do"
command = "true"
"#;

    fn mistake(from: &str, to: &str) -> (usize, String, String) {
        assert!(ROW.contains(from), "{from}");
        let error = Faults::parse("my/faults.toml", &ROW.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.file, "my/faults.toml");
        assert!(error.to_string().starts_with("my/faults.toml, line "), "{error}");
        (error.line, error.key, error.message)
    }

    #[test]
    fn a_right_file_is_read() {
        let faults = Faults::parse("faults.toml", ROW).unwrap();
        assert_eq!(faults.rows().len(), 1);
        assert_eq!(faults.get("one").unwrap().cure[0].when.gfx, ["gfx11*"]);
    }

    #[test]
    fn the_built_in_rows_are_complete() {
        let faults = Faults::built_in().unwrap();
        assert!(faults.rows().len() > 100);
        for row in faults.rows() {
            assert!(row.title.len() < 100, "{}", row.id);
            assert!(!row.source.is_empty(), "{}", row.id);
        }
    }

    #[test]
    fn a_mistake_names_file_line_and_key() {
        let cases = [
            (r#"kind = "error""#, r#"kind = "bad""#, 5, "kind"),
            (r#"title = "a title""#, r#"titel = "a title""#, 4, "titel"),
            (r#"source = "own""#, "", 2, "source"),
            (r#"source = "own""#, r#"source = " ""#, 14, "source"),
            (r#"as_of = "2026-11-30""#, r#"as_of = "2026-13-30""#, 13, "as_of"),
            (r#"as_of = "2026-11-30""#, r#"as_of = "yesterday""#, 13, "as_of"),
            ("lines = ['first text']", "lines = ['first (text']", 7, "lines"),
            ("lines = ['first text']", "lines = ['(first)?']", 7, "lines"),
            ("lines = ['first text']", "lines = []", 7, "lines"),
            (
                "lines = ['first text']",
                "together = [['one part']]",
                7,
                "together",
            ),
            (
                "consequences = []",
                r#"consequences = ["two"]"#,
                10,
                "consequences",
            ),
            (r#"id = "one""#, r#"id = "One!""#, 3, "id"),
            (
                r#"means = "a meaning""#,
                r#"means = "a \u001b meaning""#,
                8,
                "means",
            ),
            (r#"gfx = ["gfx11*"]"#, r#"gxf = ["gfx11*"]"#, 17, "gxf"),
            (r#"when = { gfx = ["gfx11*"] }"#, "when = {}", 17, "when"),
            ("[[fault]]", "[[fault", 2, "fault"),
        ];
        for (from, to, line, key) in cases {
            let (found_line, found_key, message) = mistake(from, to);
            assert_eq!((found_line, found_key.as_str()), (line, key), "{to}: {message}");
            assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
        }
    }

    #[test]
    fn a_row_twice_is_a_mistake() {
        let error = Faults::parse("faults.toml", &format!("{ROW}\n{ROW}")).unwrap_err();
        assert_eq!((error.line, error.key.as_str()), (27, "id"));
    }

    #[test]
    fn no_cure_may_give_the_override_a_value() {
        for command in [
            "export HSA_OVERRIDE_GFX_VERSION=11.0.0",
            "HSA_OVERRIDE_GFX_VERSION=10.3.0 python train.py",
            "$env:HSA_OVERRIDE_GFX_VERSION = '11.0.0'",
            "setx HSA_OVERRIDE_GFX_VERSION 11.0.0",
        ] {
            let (_, key, message) = mistake(r#"linux = "true""#, &format!("linux = {command:?}"));
            assert_eq!(key, "cure", "{message}");
        }
        let unset = ROW.replace(r#"linux = "true""#, r#"linux = "unset HSA_OVERRIDE_GFX_VERSION""#);
        assert!(Faults::parse("faults.toml", &unset).is_ok());
    }

    #[test]
    fn plain_words_are_found_whatever_the_quotation_marks() {
        let regex = regex::bytes::Regex::new(&regex_of("loss ~10–16 with `x` … no error")).unwrap();
        assert!(regex.is_match("loss ~10–16  with \"x\", and there was no error".as_bytes()));
        assert!(!regex.is_match("loss 10 with x".as_bytes()));
    }
}
