//! The settings of torch's allocator for a card, which stand in one variable as `key:value` pairs. A run's limit of
//! memory is one of them (the key is that of torch 2.10 and later); what the user has set beside it stays.

/// The variables that torch looks at, in its order: the first that is set counts alone (torch 2.11,
/// c10/core/AllocatorConfig.cpp).
pub const ALLOCATOR_VARIABLES: [&str; 3] = [
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
];

/// The share of a card's memory that a process may take; more is an error and not a hang.
const MEMORY_FRACTION: &str = "per_process_memory_fraction";

/// The pairs of a setting. Commas inside brackets belong to a value.
fn pairs(setting: &str) -> Vec<&str> {
    let mut pairs = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, letter) in setting.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                pairs.push(&setting[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pairs.push(&setting[start..]);
    pairs
        .into_iter()
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .collect()
}

fn is_fraction(pair: &str) -> bool {
    pair.split_once(':')
        .is_some_and(|(key, _)| key.trim() == MEMORY_FRACTION)
}

/// The share that a setting holds already.
pub fn memory_fraction(setting: &str) -> Option<f64> {
    let pair = pairs(setting).into_iter().rfind(|pair| is_fraction(pair))?;
    pair.split_once(':')?.1.trim().parse().ok()
}

/// The setting with this share as its limit, every other key as it was.
pub fn with_memory_fraction(setting: &str, fraction: f64) -> String {
    let mut kept: Vec<String> = pairs(setting)
        .into_iter()
        .filter(|pair| !is_fraction(pair))
        .map(str::to_owned)
        .collect();
    kept.push(format!("{MEMORY_FRACTION}:{fraction:.4}"));
    kept.join(",")
}

/// The setting without such a limit, its pairs in the order of their names: what of it decides how the allocator works, and
/// not how much it may take. Empty where nothing is left.
pub fn without_memory_fraction(setting: &str) -> String {
    let mut kept: Vec<&str> = pairs(setting)
        .into_iter()
        .filter(|pair| !is_fraction(pair))
        .collect();
    kept.sort_unstable();
    kept.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_has_set_stays() {
        assert_eq!(
            with_memory_fraction("", 0.75),
            "per_process_memory_fraction:0.7500"
        );
        assert_eq!(
            with_memory_fraction("expandable_segments:True", 0.9),
            "expandable_segments:True,per_process_memory_fraction:0.9000"
        );
        let nested = "roundup_power2_divisions:[256:1,512:2,>:8] , garbage_collection_threshold:0.8,";
        assert_eq!(
            with_memory_fraction(nested, 0.5),
            "roundup_power2_divisions:[256:1,512:2,>:8],garbage_collection_threshold:0.8,per_process_memory_fraction:0.5000"
        );
    }

    #[test]
    fn what_is_left_without_a_limit_is_the_same_in_whichever_order() {
        let left = "garbage_collection_threshold:0.8,roundup_power2_divisions:[256:1,>:8]";
        for setting in [
            "roundup_power2_divisions:[256:1,>:8],garbage_collection_threshold:0.8",
            "garbage_collection_threshold:0.8, per_process_memory_fraction:0.5,roundup_power2_divisions:[256:1,>:8]",
        ] {
            assert_eq!(without_memory_fraction(setting), left);
        }
        assert_eq!(without_memory_fraction("per_process_memory_fraction:0.9"), "");
    }

    #[test]
    fn a_limit_that_is_there_is_read_and_replaced() {
        let own = "per_process_memory_fraction:0.5,max_split_size_mb:64";
        assert_eq!(memory_fraction(own), Some(0.5));
        assert_eq!(
            with_memory_fraction(own, 0.25),
            "max_split_size_mb:64,per_process_memory_fraction:0.2500"
        );
        for none in [
            "",
            "max_split_size_mb:64",
            "per_process_memory_fraction",
            "per_process_memory_fraction:x",
        ] {
            assert_eq!(memory_fraction(none), None, "{none}");
        }
    }
}
