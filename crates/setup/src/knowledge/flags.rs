//! The rows of `flags.toml`: settings of the environment, when each is set, unset or left alone, and why.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::reading::{AsOf, KnowledgeError, KnowledgeFile, Text};
use super::targets::{Aotriton, Os, Targets, Vendor, within};
use crate::environments::Engine;

/// The setting that no plan ever sets.
pub const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// The setting for attention on cards that AOTriton calls experimental.
pub const AOTRITON: &str = "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL";

/// What a plan does with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It gets a value.
    Set,
    /// It is taken away.
    Unset,
    /// It stays as it is.
    Leave,
}

/// AOTriton in the chosen torch, as rules ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionIs {
    /// See [`Aotriton::Official`].
    Official,
    /// See [`Aotriton::Experimental`].
    Experimental,
    /// No kernels.
    None,
}

impl From<Option<Aotriton>> for AttentionIs {
    fn from(aotriton: Option<Aotriton>) -> Self {
        match aotriton {
            Some(Aotriton::Official) => Self::Official,
            Some(Aotriton::Experimental) => Self::Experimental,
            None => Self::None,
        }
    }
}

/// When a rule holds: everything that is named must be so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Whose card is used.
    pub vendors: Vec<Vendor>,
    /// Which system.
    pub systems: Vec<Os>,
    /// [`super::Target::id`].
    pub targets: Vec<String>,
    /// Attention in the chosen torch.
    pub attention: Option<AttentionIs>,
    /// [`super::Build::id`] of the chosen torch.
    pub builds: Vec<String>,
    /// The chosen torch, from this version.
    pub torch_from: Option<String>,
    /// The chosen torch, below this version.
    pub torch_below: Option<String>,
    /// Which engine.
    pub engines: Vec<Engine>,
    /// Whether there are cards to hide.
    pub hides_cards: Option<bool>,
    /// The value that was found is one of these.
    pub values: Vec<String>,
    /// The value that was found contains this.
    pub contains: Option<String>,
}

/// What conditions are held against.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// Whose card is used.
    pub vendor: Vendor,
    /// Which system.
    pub system: Os,
    /// [`super::Target::id`].
    pub target: &'a str,
    /// Attention in the chosen torch.
    pub attention: AttentionIs,
    /// [`super::Build::id`] of the chosen torch, where it is one of the table's.
    pub build: Option<&'a str>,
    /// Version of the chosen torch.
    pub torch: &'a str,
    /// Which engine.
    pub engine: Engine,
    /// Whether there are cards to hide.
    pub hides_cards: bool,
    /// The value that was found.
    pub found: Option<&'a str>,
}

impl When {
    /// Whether everything that is named is so.
    pub fn holds(&self, now: &Circumstances<'_>) -> bool {
        let any = |list: &[String], value: &str| list.is_empty() || list.iter().any(|of| of == value);
        (self.vendors.is_empty() || self.vendors.contains(&now.vendor))
            && (self.systems.is_empty() || self.systems.contains(&now.system))
            && any(&self.targets, now.target)
            && self.attention.is_none_or(|attention| attention == now.attention)
            && any(&self.builds, now.build.unwrap_or_default())
            && (self.torch_from.is_none() && self.torch_below.is_none()
                || within(now.torch, self.torch_from.as_deref(), self.torch_below.as_deref()))
            && (self.engines.is_empty() || self.engines.contains(&now.engine))
            && self.hides_cards.is_none_or(|hides| hides == now.hides_cards)
            && (self.values.is_empty() || now.found.is_some_and(|found| any(&self.values, found)))
            && self
                .contains
                .as_ref()
                .is_none_or(|part| now.found.is_some_and(|found| found.contains(part.as_str())))
    }
}

/// What is done with a setting, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// When it holds.
    #[serde(default)]
    pub when: When,
    /// What is done.
    pub action: Action,
    /// The value to set; `{mask}` stands for the cards to use.
    #[serde(default)]
    pub value: Option<String>,
    /// The condition, for people.
    pub condition: Text,
    /// Why.
    pub reason: Text,
    /// What shows it.
    pub evidence: Text,
}

/// How bad a value is that is set already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HarmLevel {
    /// Crashes, wrong values, no card.
    Harmful,
    /// Slow.
    Slow,
    /// No effect.
    Useless,
}

/// What a value that is set already does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harm {
    /// When.
    #[serde(default)]
    pub when: When,
    /// How bad it is.
    pub level: HarmLevel,
    /// What it does, for people.
    pub text: Text,
}

/// A setting of the environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flag {
    /// The variable.
    pub name: String,
    /// Older names and relatives that the same row speaks of.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Whose cards it concerns.
    pub vendors: Vec<Vendor>,
    /// Whether a plan shows it even where nothing is done.
    #[serde(default)]
    pub always: bool,
    /// What it means.
    pub meaning: Text,
    /// What guides say of it.
    #[serde(default)]
    pub guides: Option<Text>,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
    /// The first that holds decides; the last always holds.
    pub rules: Vec<Rule>,
    /// What values do that are set already; the first that holds is told.
    #[serde(default)]
    pub harm: Vec<Harm>,
}

impl Flag {
    /// Whether a variable is the row's, under any of its names. ROCm reads the override for one card from
    /// `HSA_OVERRIDE_GFX_VERSION_<node>`.
    pub fn is_about(&self, variable: &str) -> bool {
        let of_node = self.name == OVERRIDE
            && variable
                .strip_prefix(OVERRIDE)
                .and_then(|rest| rest.strip_prefix('_'))
                .is_some_and(|node| !node.is_empty() && node.bytes().all(|byte| byte.is_ascii_digit()));
        of_node || self.name == variable || self.aliases.iter().any(|alias| alias == variable)
    }

    /// The rule that decides; every flag has a last one that always holds.
    pub fn rule(&self, now: &Circumstances<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.when.holds(now))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    flag: Vec<Spanned<Flag>>,
}

pub(super) fn read(file: &KnowledgeFile, targets: &Targets) -> Result<Vec<Flag>, KnowledgeError> {
    let rows: File = file.parse()?;
    let mut flags: Vec<Flag> = Vec::new();
    for row in rows.flag {
        let offset = row.span().start;
        let flag = row.into_inner();
        let fail = |(key, message): (&str, String)| file.mistake(offset, key, message);
        if let Some(name) = std::iter::once(&flag.name)
            .chain(&flag.aliases)
            .find(|name| flags.iter().any(|other| other.is_about(name)))
        {
            return Err(fail(("name", format!("`{name}` is there twice"))));
        }
        check(&flag, targets).map_err(fail)?;
        flags.push(flag);
    }
    for name in [OVERRIDE, AOTRITON] {
        if !flags.iter().any(|flag| flag.name == name && flag.always) {
            return Err(file.mistake(0, "flag", format!("{name} must have a row with `always = true`")));
        }
    }
    Ok(flags)
}

fn check(flag: &Flag, targets: &Targets) -> Result<(), (&'static str, String)> {
    let is_variable = |name: &String| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !std::iter::once(&flag.name).chain(&flag.aliases).all(is_variable) {
        return Err((
            "name",
            "a variable's name has letters, digits and `_` alone".to_owned(),
        ));
    }
    if flag.rules.last().is_none_or(|rule| rule.when != When::default()) {
        return Err(("rules", "the last rule must hold without a condition".to_owned()));
    }
    for rule in &flag.rules {
        if (rule.action == Action::Set) != rule.value.is_some() {
            return Err(("value", "a value stands exactly where it is set".to_owned()));
        }
        if rule
            .value
            .as_ref()
            .is_some_and(|value| value.chars().any(char::is_control))
        {
            return Err(("value", "it holds a control character".to_owned()));
        }
        if flag.is_about(OVERRIDE) && rule.action == Action::Set {
            return Err((
                "action",
                format!("{OVERRIDE} is never set by a plan: it makes a card run another card's kernels"),
            ));
        }
    }
    let conditions = flag
        .rules
        .iter()
        .map(|rule| &rule.when)
        .chain(flag.harm.iter().map(|harm| &harm.when));
    for when in conditions {
        if let Some(name) = when.targets.iter().find(|name| targets.target(name).is_none()) {
            return Err(("targets", format!("`{name}` is no target of targets.toml")));
        }
        if let Some(name) = when.builds.iter().find(|name| targets.build(name).is_none()) {
            return Err(("builds", format!("`{name}` is no build of targets.toml")));
        }
    }
    Ok(())
}
