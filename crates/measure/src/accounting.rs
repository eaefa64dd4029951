//! Whether a published number of tokens is right: a counter that counts from the start of a run must not be added up
//! over its reports (M15).

use serde::{Deserialize, Serialize};

/// Share by which the factor may be off from what adding up a steady counter gives: steps differ in length.
const ALIKE: f64 = 0.05;
/// Share by which two counts may differ and still be called the same.
const SAME: f64 = 0.01;

/// What a claimed count comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountCause {
    /// It is the final count.
    Agrees,
    /// A cumulative counter was added up over its reports: n reports of an even run give (n + 1) ÷ 2 times the tokens.
    SummedCumulative,
    /// It is another number for another reason.
    Unexplained,
}

/// A claimed count beside the right one: the original is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountCheck {
    /// Tokens as claimed.
    pub claimed: f64,
    /// The counter's last value.
    pub counted: f64,
    /// Claimed over counted.
    pub factor: f64,
    /// What that comes from.
    pub cause: CountCause,
    /// The same in a sentence without full stop.
    pub sentence: String,
}

/// Checks a claimed number of tokens against the last value of the run's cumulative counter, which was reported
/// `reports` times. Nothing where the counter is not above zero or a number is not finite.
pub fn check_count(claimed: f64, counted: f64, reports: usize) -> Option<CountCheck> {
    let factor = claimed / counted;
    if !(counted > 0.0 && factor.is_finite()) {
        return None;
    }
    let summed = f64::midpoint(reports as f64, 1.0);
    let cause = if (factor - 1.0).abs() <= SAME {
        CountCause::Agrees
    } else if reports > 1 && (factor / summed - 1.0).abs() <= ALIKE {
        CountCause::SummedCumulative
    } else {
        CountCause::Unexplained
    };
    let sentence = match cause {
        CountCause::Agrees => "the claimed tokens are the counter's last value".to_owned(),
        CountCause::SummedCumulative => format!(
            "the claimed tokens are {factor:.2} times the counter's last value: a counter that counts from the start was added up over its {reports} reports, which gives about {summed:.1} times"
        ),
        CountCause::Unexplained => {
            format!(
                "the claimed tokens are {factor:.2} times the counter's last value, for a reason that is not known"
            )
        }
    };
    Some(CountCheck {
        claimed,
        counted,
        factor,
        cause,
        sentence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::published;

    #[test]
    fn the_published_overcounts_are_found_in_all_runs() {
        for run in &published().runs {
            let claimed = run.claimed_tokens_per_sec * run.secs;
            let found = check_count(claimed, run.final_tokens, run.reports).unwrap();
            assert_eq!(found.cause, CountCause::SummedCumulative, "{}", run.name);
            assert!(
                (found.factor - run.overcount_factor).abs() < 0.02,
                "{}: {found:?}",
                run.name
            );
            let range = if run.name.starts_with("B1_") {
                10.4..=10.6
            } else {
                5.4..=5.65
            };
            assert!(range.contains(&found.factor), "{}: {found:?}", run.name);
            // The corrected speed is the counter over the wall time.
            let corrected = run.final_tokens / run.secs;
            assert!(
                (corrected - run.corrected_tokens_per_sec).abs() < 0.06,
                "{}",
                run.name
            );
        }
    }

    #[test]
    fn a_right_count_agrees_and_another_fault_is_not_explained() {
        assert_eq!(check_count(1000.0, 1000.0, 20).unwrap().cause, CountCause::Agrees);
        assert_eq!(check_count(1000.0, 1000.0, 1).unwrap().cause, CountCause::Agrees);
        assert_eq!(
            check_count(3000.0, 1000.0, 20).unwrap().cause,
            CountCause::Unexplained
        );
        assert_eq!(check_count(3000.0, 0.0, 20), None);
        assert_eq!(check_count(f64::NAN, 5.0, 20), None);
    }
}
