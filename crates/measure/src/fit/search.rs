//! The search for the largest batch or row length that runs (S4): candidates in turn, or doubling and then halving the
//! gap. It is arithmetic on what the tries came to, so it goes on from tries that were recorded earlier.

use serde::{Deserialize, Serialize};

/// One value that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// The value.
    pub value: u64,
    /// Whether it ran.
    pub ran: bool,
}

/// What a search has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The largest value that ran; none where not even the smallest did.
    pub largest: Option<u64>,
    /// The smallest that did not run; none where all did up to the end of the search.
    pub too_large: Option<u64>,
}

/// Which values are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// These, from the smallest on until one does not run.
    Candidates(Vec<u64>),
    /// Whole numbers: doubling from `from` on until one does not run or `most` is reached, then halving the gap until it
    /// is below `step`.
    Doubling {
        /// The first value.
        from: u64,
        /// The last that makes sense.
        most: u64,
        /// Values closer together are not told apart.
        step: u64,
    },
}

impl Search {
    /// Candidates in rising order, each once; zeros are no values.
    pub fn candidates(values: &[u64]) -> Self {
        let mut values: Vec<u64> = values.iter().copied().filter(|value| *value > 0).collect();
        values.sort_unstable();
        values.dedup();
        Self::Candidates(values)
    }

    /// What is known so far. A value counts as too large where any try of it or of a smaller one failed.
    pub fn found(&self, tries: &[Try]) -> Found {
        let too_large = tries.iter().filter(|one| !one.ran).map(|one| one.value).min();
        let ran = tries.iter().filter(|one| one.ran).map(|one| one.value);
        Found {
            largest: ran
                .filter(|value| too_large.is_none_or(|limit| *value < limit))
                .max(),
            too_large,
        }
    }

    /// The next value to try; `None` where the search is over.
    pub fn next(&self, tries: &[Try]) -> Option<u64> {
        let Found { largest, too_large } = self.found(tries);
        match self {
            Self::Candidates(values) => values
                .iter()
                .copied()
                .find(|value| largest.is_none_or(|done| *value > done))
                .filter(|value| too_large.is_none_or(|limit| *value < limit)),
            Self::Doubling { from, most, step } => {
                let (from, most, step) = ((*from).max(1), *most, (*step).max(1));
                match (largest, too_large) {
                    (None, None) => (from <= most).then_some(from),
                    // Not even the first: halve down to the step.
                    (None, Some(limit)) => {
                        let next = limit / 2 / step * step;
                        (next >= 1).then_some(next)
                    }
                    (Some(done), None) => (done < most).then(|| done.saturating_mul(2).min(most)),
                    (Some(done), Some(limit)) => {
                        let next = (done + (limit - done) / 2) / step * step;
                        (next > done && next < limit).then_some(next)
                    }
                }
            }
        }
    }

    /// Tries that are left at most, for showing how far a search is.
    pub fn left(&self, tries: &[Try]) -> usize {
        if self.next(tries).is_none() {
            return 0;
        }
        let Found { largest, too_large } = self.found(tries);
        let left = match self {
            Self::Candidates(values) => values
                .iter()
                .filter(|value| largest.is_none_or(|done| **value > done))
                .filter(|value| too_large.is_none_or(|limit| **value < limit))
                .count(),
            Self::Doubling { from, most, step } => {
                let step = (*step).max(1);
                let halvings = |gap: u64| (gap / step).max(1).ilog2() as usize;
                match (largest, too_large) {
                    (None, None) => {
                        let doublings = (most / (*from).max(1)).max(1).ilog2() as usize;
                        1 + doublings + halvings(most / 2)
                    }
                    (None, Some(limit)) => halvings(limit),
                    (Some(done), None) => {
                        let doublings = (most / done.max(1)).max(1).ilog2() as usize;
                        doublings + halvings(most / 2)
                    }
                    (Some(done), Some(limit)) => halvings(limit - done),
                }
            }
        };
        left.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a search on a machine where everything up to `limit` runs.
    fn run(search: &Search, limit: u64) -> (Found, Vec<u64>) {
        let mut tries = Vec::new();
        while let Some(value) = search.next(&tries) {
            assert!(tries.len() < 100, "the search does not end: {tries:?}");
            assert!(search.left(&tries) >= 1, "{tries:?}");
            tries.push(Try {
                value,
                ran: value <= limit,
            });
        }
        (search.found(&tries), tries.iter().map(|one| one.value).collect())
    }

    #[test]
    fn candidates_are_tried_until_one_does_not_run() {
        let search = Search::candidates(&[8, 1, 4, 2, 0, 2]);
        assert_eq!(run(&search, 5).1, [1, 2, 4, 8]);
        assert_eq!(run(&search, 5).0.largest, Some(4));
        assert_eq!(
            run(&search, 0),
            (
                Found {
                    largest: None,
                    too_large: Some(1)
                },
                vec![1]
            )
        );
        assert_eq!(
            run(&search, 100).0,
            Found {
                largest: Some(8),
                too_large: None
            }
        );
        assert_eq!(Search::candidates(&[]).next(&[]), None);
    }

    #[test]
    fn doubling_and_then_halving_finds_the_limit() {
        let search = Search::Doubling {
            from: 1,
            most: 64,
            step: 1,
        };
        let (found, tried) = run(&search, 11);
        assert_eq!(
            found,
            Found {
                largest: Some(11),
                too_large: Some(12)
            }
        );
        assert_eq!(tried, [1, 2, 4, 8, 16, 12, 10, 11]);
        assert_eq!(run(&search, 1000).1, [1, 2, 4, 8, 16, 32, 64]);
        let lengths = Search::Doubling {
            from: 512,
            most: 8192,
            step: 128,
        };
        let (found, tried) = run(&lengths, 1500);
        assert_eq!(found.largest, Some(1408));
        assert!(tried.iter().all(|length| length % 128 == 0), "{tried:?}");
        assert_eq!(run(&lengths, 300).0.largest, Some(256), "also below the first");
        assert_eq!(run(&lengths, 0).0.largest, None);
    }

    #[test]
    fn a_search_goes_on_from_recorded_tries() {
        let search = Search::Doubling {
            from: 1,
            most: 64,
            step: 1,
        };
        let tries = [(1, true), (2, true), (4, false)].map(|(value, ran)| Try { value, ran });
        assert_eq!(search.next(&tries), Some(3));
        // A larger one that ran by luck does not count against a smaller one that did not.
        let odd = [(8, true), (4, false)].map(|(value, ran)| Try { value, ran });
        assert_eq!(
            search.found(&odd),
            Found {
                largest: None,
                too_large: Some(4)
            }
        );
    }

    proptest! {
        #[test]
        fn every_search_ends_at_the_limit(from in 1u64..40, most in 1u64..5000, step in 1u64..9, limit in 0u64..6000) {
            let search = Search::Doubling { from, most, step };
            let (found, tried) = run(&search, limit);
            prop_assert!(tried.len() <= 40);
            if let Some(largest) = found.largest {
                prop_assert!(largest <= limit && largest <= most);
                if let Some(too_large) = found.too_large {
                    // What lies between is closer than two steps.
                    prop_assert!(too_large - largest <= 2 * step);
                } else {
                    prop_assert_eq!(largest, most);
                }
            }
        }
    }
}
