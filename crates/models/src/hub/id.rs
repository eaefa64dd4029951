//! `owner/name`, `owner/name@revision`, `owner/name:file.gguf@revision`: which model, which file of it, which state of it.

use std::fmt;
use std::str::FromStr;

use super::HubError;

/// The branch that is meant where none is named.
const MAIN: &str = "main";

/// A model on a hub, as asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HubId {
    /// `owner/name`.
    repository: String,
    /// One GGUF file of it, instead of its folder of weights.
    file: Option<String>,
    /// Branch, tag or commit; nothing for the main branch.
    revision: Option<String>,
}

impl HubId {
    /// `owner/name`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The GGUF file, where one is named.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Branch, tag or commit.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// Whether the revision is a commit, which never means anything else later.
    pub fn is_pinned(&self) -> bool {
        is_commit(self.revision())
    }

    /// The same model at one commit.
    #[must_use]
    pub fn at(&self, commit: &str) -> Self {
        Self {
            revision: Some(commit.to_owned()),
            ..self.clone()
        }
    }

    /// The id without its revision.
    pub fn name(&self) -> String {
        match &self.file {
            Some(file) => format!("{}:{file}", self.repository),
            None => self.repository.clone(),
        }
    }
}

/// Forty hexadecimal digits.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        match &self.revision {
            Some(revision) => write!(f, "@{revision}"),
            None => Ok(()),
        }
    }
}

impl FromStr for HubId {
    type Err = HubError;

    fn from_str(text: &str) -> Result<Self, HubError> {
        let wrong = |reason: &'static str| HubError::NotAnId {
            text: text.to_owned(),
            reason,
        };
        let (rest, revision) = match text.split_once('@') {
            Some((rest, revision)) => (rest, Some(revision)),
            None => (text, None),
        };
        let (repository, file) = match rest.split_once(':') {
            Some((repository, file)) => (repository, Some(file)),
            None => (rest, None),
        };
        let Some((owner, name)) = repository.split_once('/') else {
            return Err(wrong("it has no `/` between owner and name"));
        };
        if ![owner, name].into_iter().all(is_plain) {
            return Err(wrong("owner and name are letters, digits, `-`, `_` and `.`"));
        }
        if let Some(file) = file {
            let parts_are_plain = file.split('/').all(is_file_name);
            if !(parts_are_plain && file.to_lowercase().ends_with(".gguf")) {
                return Err(wrong("after `:` stands one .gguf file of the repository"));
            }
        }
        if let Some(revision) = revision
            && !revision.split('/').all(is_plain)
        {
            return Err(wrong("after `@` stands a branch, a tag or a commit"));
        }
        Ok(Self {
            repository: repository.to_owned(),
            file: file.map(str::to_owned),
            revision: revision.map(str::to_owned),
        })
    }
}

/// A name that cannot reach out of a folder, nor mean anything else in an address.
fn is_plain(name: &str) -> bool {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    is_file_name(name) && name.chars().all(good)
}

/// A part of a path that stays where it is.
pub(super) fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with('.')
        && !name.contains(|letter: char| {
            letter.is_control() || matches!(letter, '\\' | ':' | '?' | '#' | '%' | '"')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> HubId {
        text.parse().unwrap()
    }

    #[test]
    fn ids_are_read_and_written_alike() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for text in [
            "owner/name",
            "owner/name@main",
            "Org-1/Model_2.5@v1.0",
            "o/n@refs/pr/3",
            "o/n:sub/file.Q4_K_M.gguf",
            &format!("o/n:file.gguf@{commit}"),
        ] {
            assert_eq!(id(text).to_string(), text);
        }
        assert_eq!(id("o/n").revision(), "main");
        let pinned = id("o/n:f.gguf@v1").at(commit);
        assert_eq!(pinned.to_string(), format!("o/n:f.gguf@{commit}"));
        assert!(pinned.is_pinned() && !id("o/n@v1").is_pinned());
        assert_eq!(pinned.name(), "o/n:f.gguf");
    }

    #[test]
    fn what_is_no_id_says_why() {
        for (text, reason) in [
            ("name", "no `/`"),
            ("", "no `/`"),
            ("a/b/c", "letters, digits"),
            ("../secrets", "letters, digits"),
            ("a/b c", "letters, digits"),
            ("a/b:model.bin", ".gguf"),
            ("a/b:../x.gguf", ".gguf"),
            ("a/b@", "branch"),
            ("a/b@../x", "branch"),
            ("a/b@x?y", "branch"),
        ] {
            let error = text.parse::<HubId>().unwrap_err();
            assert_eq!(error.code(), "hub_id");
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }
}
