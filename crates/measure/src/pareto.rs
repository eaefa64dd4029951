//! Memory against throughput (S3): which of several configurations none of the others beats, and which of them differ
//! by no more than their repeats do.

use crate::{
    Gib,
    comparison::{Noise, Tested},
};

/// What a configuration costs and what it gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tradeoff {
    /// Peak memory of the card.
    pub vram: Gib,
    /// Real tokens per second, steady state.
    pub tokens_per_sec: f64,
}

impl Tradeoff {
    fn is_finite(self) -> bool {
        self.vram.0.is_finite() && self.tokens_per_sec.is_finite()
    }
}

/// The configurations that no other one beats: none takes as little memory and is faster, or is as fast and takes less.
/// Gives their indexes by rising memory, which is by rising throughput as well. Of equal ones the first is named, and
/// one with a number that is not finite never is.
pub fn frontier(points: &[Tradeoff]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len())
        .filter(|&index| points[index].is_finite())
        .collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (points[a], points[b]);
        (a.vram.0.total_cmp(&b.vram.0)).then(b.tokens_per_sec.total_cmp(&a.tokens_per_sec))
    });
    let mut fastest = f64::NEG_INFINITY;
    order.retain(|&index| {
        let faster = points[index].tokens_per_sec > fastest;
        fastest = fastest.max(points[index].tokens_per_sec);
        faster
    });
    order
}

/// Whether the speeds of two configurations differ by no more than their noise, by the rules that hold for the arms of an
/// experiment ([`Tested::noise`]). `None` where it cannot be told: they differ, and one of them was not repeated.
pub fn within_noise(a: &[f64], b: &[f64]) -> Option<bool> {
    match Tested::of(a, b).ok()?.noise() {
        Noise::Within => Some(true),
        Noise::Beyond => Some(false),
        Noise::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(vram: f64, tokens_per_sec: f64) -> Tradeoff {
        Tradeoff {
            vram: Gib(vram),
            tokens_per_sec,
        }
    }

    fn beats(a: Tradeoff, b: Tradeoff) -> bool {
        a.vram.0 <= b.vram.0
            && a.tokens_per_sec >= b.tokens_per_sec
            && (a.vram.0 < b.vram.0 || a.tokens_per_sec > b.tokens_per_sec)
    }

    #[test]
    fn the_frontier_rises_in_both() {
        let points = [
            point(12.0, 1500.0),
            point(6.0, 900.0),
            // Beaten by the second.
            point(7.0, 850.0),
            point(9.0, 1400.0),
            // As much memory as the fourth, slower.
            point(9.0, 1300.0),
        ];
        assert_eq!(frontier(&points), [1, 3, 0]);
    }

    #[test]
    fn equal_points_are_named_once_and_no_number_never() {
        assert_eq!(frontier(&[point(6.0, 900.0), point(6.0, 900.0)]), [0]);
        assert_eq!(
            frontier(&[point(f64::NAN, 9e9), point(1.0, f64::INFINITY), point(6.0, 900.0)]),
            [2]
        );
        assert_eq!(frontier(&[]), Vec::<usize>::new());
    }

    #[test]
    fn noise_is_what_the_repeats_cannot_tell_apart() {
        let bf16 = [126.5, 130.6, 131.2];
        assert_eq!(within_noise(&bf16, &[122.2, 123.4, 123.6]), Some(false));
        assert_eq!(within_noise(&bf16, &[127.0, 129.9, 131.0]), Some(true));
        assert_eq!(within_noise(&bf16, &[123.0]), None);
        assert_eq!(within_noise(&[5.0, 5.0], &[5.0, 5.0]), Some(true));
        assert_eq!(within_noise(&[5.0, 5.0], &[6.0, 6.0]), Some(false));
        assert_eq!(within_noise(&[5.0], &[5.0]), Some(true));
        assert_eq!(within_noise(&bf16, &[f64::NAN, 1.0]), None);
    }

    proptest! {
        #[test]
        fn nothing_beats_the_frontier_and_it_beats_or_equals_the_rest(
            raw in prop::collection::vec((0_u8..12, 0_u8..12), 0..40),
        ) {
            let points: Vec<Tradeoff> =
                raw.iter().map(|&(vram, speed)| point(f64::from(vram), f64::from(speed))).collect();
            let best = frontier(&points);
            for (index, &candidate) in points.iter().enumerate() {
                if best.contains(&index) {
                    prop_assert!(!points.iter().any(|&other| beats(other, candidate)));
                } else {
                    prop_assert!(best.iter().any(|&on| beats(points[on], candidate) || points[on] == candidate));
                }
            }
            for pair in best.windows(2) {
                let (a, b) = (points[pair[0]], points[pair[1]]);
                prop_assert!(a.vram.0 < b.vram.0 && a.tokens_per_sec < b.tokens_per_sec);
            }
        }

        #[test]
        fn noise_does_not_depend_on_the_order(
            a in prop::collection::vec(1.0_f64..1e3, 0..6), b in prop::collection::vec(1.0_f64..1e3, 0..6),
        ) {
            prop_assert_eq!(within_noise(&a, &b), within_noise(&b, &a));
        }
    }
}
