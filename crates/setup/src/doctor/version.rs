//! Version numbers of kernels, drivers and Python packages, as far as comparing them needs.
//!
//! Only the leading numbers count: `6.18.4-arch1` is 6.18.4 and `0.50.3.dev0` is 0.50.3. That is coarser than each
//! scheme's own rules and the same for all of them; no rule here turns on a pre-release.

use std::cmp::Ordering;

use serde::Deserialize;

/// The leading numbers of a version; missing ones count as zero when two are compared.
#[derive(Clone, Debug)]
pub struct Version(Vec<u64>);

impl Version {
    /// Reads the numbers at the start of `text`; `None` where there is none.
    pub fn parse(text: &str) -> Option<Version> {
        let mut numbers = Vec::new();
        let mut rest = text.trim();
        loop {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let Ok(number) = rest[..digits].parse() else { break };
            numbers.push(number);
            match rest[digits..].strip_prefix('.') {
                Some(more) => rest = more,
                None => break,
            }
        }
        (!numbers.is_empty()).then_some(Version(numbers))
    }

    /// The number at `place`, from 0; zero where there is none.
    pub fn part(&self, place: usize) -> u64 {
        self.0.get(place).copied().unwrap_or(0)
    }

    /// The first two numbers, e.g. `2.11`.
    pub fn minor(&self) -> String {
        format!("{}.{}", self.part(0), self.part(1))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let places = self.0.len().max(other.0.len());
        (0..places)
            .map(|place| self.part(place).cmp(&other.part(place)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

/// Versions that fulfil every bound of a text such as `>=2.11,<2.12`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Range {
    text: String,
    bounds: Vec<(Bound, Version)>,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast,
    Above,
    AtMost,
    Below,
    Equal,
    NotEqual,
}

impl Range {
    /// Whether `version` fulfils every bound.
    pub fn contains(&self, version: &Version) -> bool {
        self.bounds.iter().all(|(bound, limit)| {
            let order = version.cmp(limit);
            match bound {
                Bound::AtLeast => order.is_ge(),
                Bound::Above => order.is_gt(),
                Bound::AtMost => order.is_le(),
                Bound::Below => order.is_lt(),
                Bound::Equal => order.is_eq(),
                Bound::NotEqual => order.is_ne(),
            }
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Range, String> {
        let signs = [
            (">=", Bound::AtLeast),
            ("<=", Bound::AtMost),
            ("==", Bound::Equal),
            ("!=", Bound::NotEqual),
            (">", Bound::Above),
            ("<", Bound::Below),
        ];
        let bounds = text
            .split(',')
            .map(|part| {
                let part = part.trim();
                signs
                    .iter()
                    .find_map(|(sign, bound)| Some((*bound, Version::parse(part.strip_prefix(sign)?)?)))
                    .ok_or_else(|| format!("`{part}` is no bound such as `>=2.11`"))
            })
            .collect::<Result<Vec<_>, String>>()?;
        Ok(Range { text, bounds })
    }
}

/// What stands behind the `+` of a Python version, e.g. `rocm7.13.0` or `cu128`.
pub(super) fn local_tag(version: &str) -> Option<&str> {
    version.split_once('+').map(|(_, tag)| tag)
}

/// The ROCm version in a wheel's tag: 7.13.0 of `rocm7.13.0a20260610`.
pub(super) fn rocm_of_tag(tag: &str) -> Option<Version> {
    Version::parse(tag.strip_prefix("rocm")?)
}

/// The CUDA version in a wheel's tag: 12.8 of `cu128`.
pub(super) fn cuda_of_tag(tag: &str) -> Option<Version> {
    let digits: String = tag
        .strip_prefix("cu")?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    // One digit for the minor version, as in cu118, cu128 and cu130.
    let split = digits.len().checked_sub(1).filter(|split| *split > 0)?;
    Version::parse(&format!("{}.{}", &digits[..split], &digits[split..]))
}

/// The day in a nightly build's tag: 20260610 of `rocm7.14.0a20260610`.
pub(super) fn date_of_tag(tag: &str) -> Option<u32> {
    tag.split(|c: char| !c.is_ascii_digit())
        .find(|digits| digits.len() == 8 && digits.starts_with("20"))
        .and_then(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn versions_compare_by_number_and_not_by_letter() {
        assert!(version("6.18.4-arch1") > version("6.9"));
        assert!(version("6.18") < version("6.18.4"));
        assert_eq!(version("2.11"), version("2.11.0+rocm7.13.0"));
        assert_eq!(version("0.50.3.dev0"), version("0.50.3"));
        assert_eq!(version("2.13.0a0+rocm7.14").minor(), "2.13");
        for odd in ["", "git", "+rocm7", "99999999999999999999999"] {
            assert_eq!(Version::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_range_needs_every_bound() {
        let range = Range::try_from(">=2.12,<2.13,!=2.12.1".to_owned()).unwrap();
        assert!(range.contains(&version("2.12.0")));
        for outside in ["2.11.9", "2.12.1", "2.13"] {
            assert!(!range.contains(&version(outside)), "{outside}");
        }
        assert!(Range::try_from(">=2.12,nonsense".to_owned()).is_err());
        assert!(Range::try_from(String::new()).is_err());
    }

    #[test]
    fn tags_of_wheels_are_read() {
        assert_eq!(local_tag("2.11.0+rocm7.13.0"), Some("rocm7.13.0"));
        assert_eq!(local_tag("2.11.0"), None);
        assert_eq!(rocm_of_tag("rocm7.13.0a20260610"), Some(version("7.13")));
        assert_eq!(rocm_of_tag("cu128"), None);
        assert_eq!(cuda_of_tag("cu128"), Some(version("12.8")));
        assert_eq!(cuda_of_tag("cu130"), Some(version("13.0")));
        for odd in ["cu", "cu1", "cpu", "rocm7"] {
            assert_eq!(cuda_of_tag(odd), None, "{odd}");
        }
        assert_eq!(date_of_tag("rocm7.14.0a20260610"), Some(20_260_610));
        assert_eq!(date_of_tag("rocm7.14.0"), None);
    }
}
