//! Names and versions of packages, compared as Python's installers compare them.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};

/// The one spelling of a package's name: `Flash_Attn` and `flash.attn` are `flash-attn`.
pub fn normal_name(name: &str) -> String {
    name.to_lowercase()
        .split(['-', '_', '.'])
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// `>=0.50.2,<1` as conditions; empty text is no condition.
pub(crate) fn parse_need(text: &str) -> Option<VersionSpecifiers> {
    if text.trim().is_empty() {
        return Some(VersionSpecifiers::empty());
    }
    VersionSpecifiers::from_str(text).ok()
}

/// Whether `version` meets `need`; none where one of them is no version.
pub(crate) fn meets(version: &str, need: &str) -> Option<bool> {
    Some(parse_need(need)?.contains(&Version::from_str(version).ok()?))
}

/// Whether the local part of a version, the text after its `+`, is `wanted` or a closer naming of it.
pub(crate) fn local_begins(version: &str, wanted: &str) -> bool {
    version
        .split_once('+')
        .and_then(|(_, local)| local.strip_prefix(wanted))
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_one_name_in_every_spelling() {
        for name in ["Flash_Attn", "flash.attn", "flash--attn", "flash-attn"] {
            assert_eq!(normal_name(name), "flash-attn");
        }
    }

    #[test]
    fn versions_compare_as_installers_do() {
        assert_eq!(meets("0.50.10", ">=0.50.2,<1"), Some(true));
        assert_eq!(meets("3.6.0+rocm7.13.0", "==3.6.0"), Some(true));
        assert_eq!(meets("3.6.0", "==3.6.0+rocm7.13.0"), Some(false));
        assert_eq!(meets("1.0", ""), Some(true));
        assert_eq!(meets("not a version", ">=1"), None);
    }

    #[test]
    fn a_local_part_is_not_mistaken_for_one_that_begins_alike() {
        assert!(local_begins("2.11.0+rocm7.2", "rocm7.2"));
        assert!(local_begins("2.11.0+rocm7.2.1", "rocm7.2"));
        assert!(!local_begins("2.11.0+rocm7.20", "rocm7.2"));
        assert!(!local_begins("2.11.0+cu128", "rocm7.2"));
        assert!(!local_begins("2.11.0", "rocm7.2"));
    }
}
