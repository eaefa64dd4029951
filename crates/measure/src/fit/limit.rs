//! The hard limit that a run gets before its engine starts. Running out of a card's memory hangs some machines instead
//! of raising an error (Strix Halo, RDNA4), and elsewhere pushes tensors into main memory: torch must refuse before.
//!
//! Nine tenths of what a card of its own has free now; where main memory is shared, what is left when the host keeps 16
//! GiB or a fifth, whichever is more (setup 3.1), but never more than half: a small machine could not train at all.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Share of a card's free memory that torch may take. What it needs outside its allocator is in the rest.
const CARD_SHARE: f64 = 0.9;
/// Least that a host keeps of memory that it shares, in bytes and as a share of all.
const HOST_LEAST: u64 = 16 << 30;
const HOST_SHARE: u64 = 5;
/// Share of the main memory that is free now which stays free, where other programs hold more than the host keeps.
const FREE_SHARE: u64 = 10;

/// A card's memory, as its driver tells it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardMemory {
    /// All that torch calls the card's memory, in bytes.
    pub total_bytes: u64,
    /// What nobody uses, in bytes; `None` where the driver does not tell.
    pub free_bytes: Option<u64>,
    /// Main memory, where the card has none of its own.
    pub host: Option<HostMemory>,
}

/// Main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// All that this machine, or its container, may use, in bytes.
    pub total_bytes: u64,
    /// What can be had without swapping, in bytes.
    pub available_bytes: Option<u64>,
}

/// How much of the card a run may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LimitWish {
    /// By what is free when it starts.
    #[default]
    Auto,
    /// A share of all of the card's memory, above 0 and at most 1.
    Share(f64),
    /// So many bytes.
    Bytes(u64),
    /// No limit.
    Off,
}

/// Why a text is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no limit of memory")]
pub struct LimitError {
    /// The text.
    text: String,
}

impl LimitError {
    /// What to write.
    pub fn hint() -> &'static str {
        "write `auto`, a share of the card such as `0.8`, a size such as `20 GiB`, or `off`"
    }
}

impl FromStr for LimitWish {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let wrong = || LimitError {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        match trimmed {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Off),
            _ => {}
        }
        let (number, unit) = match trimmed.find(|c: char| !c.is_ascii_digit() && c != '.') {
            Some(at) => (&trimmed[..at], trimmed[at..].trim()),
            None => (trimmed, ""),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let wish = match unit {
            "" => Self::Share(number),
            "%" => Self::Share(number / 100.0),
            "GiB" => Self::Bytes((number * f64::from(1 << 30)) as u64),
            "MiB" => Self::Bytes((number * f64::from(1 << 20)) as u64),
            _ => return Err(wrong()),
        };
        match wish {
            Self::Share(share) if !(share > 0.0 && share <= 1.0) => Err(wrong()),
            Self::Bytes(0) => Err(wrong()),
            wish => Ok(wish),
        }
    }
}

impl fmt::Display for LimitWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Share(share) => write!(f, "{share}"),
            Self::Bytes(bytes) if bytes % (1 << 30) == 0 => write!(f, "{} GiB", bytes >> 30),
            Self::Bytes(bytes) => write!(f, "{} MiB", bytes >> 20),
        }
    }
}

impl Serialize for LimitWish {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LimitWish {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| serde::de::Error::custom(format!("{error}: {}", LimitError::hint())))
    }
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitRule {
    /// Nine tenths of what is free on the card.
    FreeOnCard,
    /// Nine tenths of the whole card: its driver does not tell what is free.
    WholeCard,
    /// What the host leaves of memory that it shares.
    LeftByHost,
    /// The user's wish.
    Wish,
}

/// How much torch may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// As torch takes it: a share of all of the card's memory, rounded down to a ten-thousandth.
    pub fraction: f64,
    /// The same in bytes.
    pub bytes: u64,
    /// All of the card's memory, in bytes.
    pub total_bytes: u64,
    /// What of it was free, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Where it comes from.
    pub rule: LimitRule,
}

impl MemoryLimit {
    /// The limit for a run that starts now; `None` where none is wanted, or the card tells nothing.
    pub fn of(memory: &CardMemory, wish: LimitWish) -> Option<Self> {
        let total = memory.total_bytes;
        if total == 0 {
            return None;
        }
        let (bytes, rule) = match (wish, memory.host, memory.free_bytes) {
            (LimitWish::Off, ..) => return None,
            (LimitWish::Share(share), ..) => ((total as f64 * share) as u64, LimitRule::Wish),
            (LimitWish::Bytes(bytes), ..) => (bytes, LimitRule::Wish),
            (LimitWish::Auto, Some(host), free) => {
                let held = host.available_bytes.map_or(0, |free| {
                    host.total_bytes.saturating_sub(free) + free / FREE_SHARE
                });
                let left = left_to_host(host.total_bytes).max(held);
                let bytes = host.total_bytes.saturating_sub(left);
                (bytes.min(free.unwrap_or(total)), LimitRule::LeftByHost)
            }
            (LimitWish::Auto, None, Some(free)) => (
                (free.min(total) as f64 * CARD_SHARE) as u64,
                LimitRule::FreeOnCard,
            ),
            (LimitWish::Auto, None, None) => ((total as f64 * CARD_SHARE) as u64, LimitRule::WholeCard),
        };
        // A share that is whole but for the last place of its number is whole.
        let fraction = (bytes.min(total) as f64 / total as f64 * 1e4 + 1e-6).floor() / 1e4;
        Some(Self {
            fraction,
            bytes: (total as f64 * fraction).round() as u64,
            total_bytes: total,
            free_bytes: memory.free_bytes,
            rule,
        })
    }
}

/// What a host keeps of main memory that a card shares: 16 GiB or a fifth, whichever is more, but at most half.
pub fn left_to_host(total_bytes: u64) -> u64 {
    HOST_LEAST.max(total_bytes / HOST_SHARE).min(total_bytes / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn card(total: u64, free: Option<u64>) -> CardMemory {
        CardMemory {
            total_bytes: total,
            free_bytes: free,
            host: None,
        }
    }

    fn shared(pool: u64, total: u64, available: Option<u64>) -> CardMemory {
        CardMemory {
            total_bytes: pool,
            free_bytes: Some(pool),
            host: Some(HostMemory {
                total_bytes: total,
                available_bytes: available,
            }),
        }
    }

    #[test]
    fn a_card_gives_nine_tenths_of_what_is_free_now() {
        let limit = MemoryLimit::of(&card(24 * GIB, Some(20 * GIB)), LimitWish::Auto).unwrap();
        assert_eq!((limit.fraction, limit.rule), (0.75, LimitRule::FreeOnCard));
        assert_eq!((limit.bytes, limit.free_bytes), (18 * GIB, Some(20 * GIB)));
        let unknown = MemoryLimit::of(&card(24 * GIB, None), LimitWish::Auto).unwrap();
        assert_eq!((unknown.fraction, unknown.rule), (0.9, LimitRule::WholeCard));
        assert_eq!(MemoryLimit::of(&card(0, None), LimitWish::Auto), None);
    }

    #[test]
    fn a_host_keeps_sixteen_gib_or_a_fifth_of_what_it_shares() {
        let at = |memory: CardMemory| MemoryLimit::of(&memory, LimitWish::Auto).unwrap().bytes / GIB;
        // Strix Halo with 128 GiB, all of it a pool of 120: a fifth is 25.6.
        assert_eq!(at(shared(120 * GIB, 128 * GIB, Some(125 * GIB))), 102);
        assert_eq!(at(shared(62 * GIB, 64 * GIB, Some(60 * GIB))), 47);
        assert_eq!(
            at(shared(15 * GIB, 32 * GIB, Some(30 * GIB))),
            15,
            "the pool is smaller"
        );
        assert_eq!(
            at(shared(16 * GIB, 16 * GIB, Some(15 * GIB))),
            8,
            "half of a small machine"
        );
        // Others hold 60 of 128: a tenth of what is left stays free.
        assert_eq!(at(shared(120 * GIB, 128 * GIB, Some(68 * GIB))), 61);
        assert_eq!(left_to_host(128 * GIB), 128 * GIB / 5);
    }

    #[test]
    fn a_wish_is_taken_as_it_is_but_never_above_the_card() {
        let of = |wish| MemoryLimit::of(&card(16 * GIB, Some(GIB)), wish);
        assert_eq!(of(LimitWish::Share(0.5)).unwrap().bytes, 8 * GIB);
        assert!((of(LimitWish::Bytes(4 * GIB)).unwrap().fraction - 0.25).abs() < 1e-12);
        assert!((of(LimitWish::Bytes(64 * GIB)).unwrap().fraction - 1.0).abs() < 1e-12);
        assert_eq!(of(LimitWish::Off), None);
    }

    #[test]
    fn a_wish_is_written_as_it_is_read() {
        for (text, wish) in [
            ("auto", LimitWish::Auto),
            ("off", LimitWish::Off),
            ("0.8", LimitWish::Share(0.8)),
            ("20 GiB", LimitWish::Bytes(20 * GIB)),
            ("1536 MiB", LimitWish::Bytes(1536 << 20)),
        ] {
            assert_eq!(text.parse(), Ok(wish));
            assert_eq!(wish.to_string(), text);
        }
        assert_eq!("80%".parse(), Ok(LimitWish::Share(0.8)));
        assert_eq!("1.5GiB".parse(), Ok(LimitWish::Bytes(GIB * 3 / 2)));
        for wrong in ["", "-1", "0", "1.1", "120 %", "20 GB", "lots", "0 GiB", "0.8.1"] {
            let read: Result<LimitWish, _> = wrong.parse();
            assert!(read.is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_limit_is_above_the_card_or_what_is_free(total in 1u64..1 << 40, free in 0u64..1 << 40) {
            let limit = MemoryLimit::of(&card(total, Some(free)), LimitWish::Auto).unwrap();
            prop_assert!((0.0..=0.9).contains(&limit.fraction));
            prop_assert!(limit.bytes <= total && limit.bytes <= free);
        }
    }
}
