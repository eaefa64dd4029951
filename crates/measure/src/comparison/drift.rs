//! A long run over time: whether it is as fast at its end as at its beginning (S6, M20). Heat, a fragmented allocator
//! or another program show here and not in a mean.

use serde::{Deserialize, Serialize};

use crate::StepPoint;

/// A span of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftWindow {
    /// Seconds of training before it.
    pub from_secs: f64,
    /// Seconds of training at its end.
    pub to_secs: f64,
    /// Real tokens a second in it.
    pub tokens_per_sec: f64,
    /// Most memory held in it, in GiB, where the engine can tell.
    pub peak_gib: Option<f64>,
}

/// How a run's speed went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Spans of equal length; the last one may be shorter and is left out below half of it.
    pub windows: Vec<DriftWindow>,
    /// Speed of the last span over that of the first.
    pub last_over_first: f64,
    /// Speed of the slowest span over that of the fastest.
    pub least_over_most: f64,
    /// The same in a sentence without full stop.
    pub sentence: String,
}

/// A run that loses less between its spans is called even: spans of one quiet run differ by about as much.
const EVEN: f64 = 0.03;

/// The speed of a run in spans of so many seconds. Steps that do not count, and those of the warm-up, are left out.
/// Nothing where there are not at least two spans.
pub fn drift(points: &[StepPoint], window_secs: f64) -> Option<Drift> {
    let mut windows: Vec<DriftWindow> = Vec::new();
    let (mut at, mut start, mut tokens, mut secs) = (0.0, 0.0, 0.0, 0.0);
    let mut peak: Option<f64> = None;
    for point in points.iter().filter(|point| point.valid && point.steady) {
        at += point.dt_secs;
        secs += point.dt_secs;
        tokens += point.tokens_per_sec.unwrap_or(0.0) * point.dt_secs;
        peak = [peak, point.peak_gib.map(|gib| gib.0)]
            .into_iter()
            .flatten()
            .reduce(f64::max);
        if secs >= window_secs {
            windows.push(DriftWindow {
                from_secs: start,
                to_secs: at,
                tokens_per_sec: tokens / secs,
                peak_gib: peak,
            });
            (start, tokens, secs, peak) = (at, 0.0, 0.0, None);
        }
    }
    if secs >= window_secs / 2.0 && secs > 0.0 {
        windows.push(DriftWindow {
            from_secs: start,
            to_secs: at,
            tokens_per_sec: tokens / secs,
            peak_gib: peak,
        });
    }
    let (first, last) = (windows.first()?, windows.last()?);
    if windows.len() < 2 {
        return None;
    }
    let speeds = || windows.iter().map(|window| window.tokens_per_sec);
    let most = speeds().reduce(f64::max)?;
    let least = speeds().reduce(f64::min)?;
    let last_over_first = last.tokens_per_sec / first.tokens_per_sec;
    let minutes = last.to_secs / 60.0;
    let sentence = if last_over_first < 1.0 - EVEN {
        format!(
            "after {minutes:.0} minutes the speed is {:.1} % below that of the beginning",
            100.0 * (1.0 - last_over_first)
        )
    } else {
        format!(
            "the speed holds over {minutes:.0} minutes: the slowest span is {:.1} % below the fastest",
            100.0 * (1.0 - least / most)
        )
    };
    Some(Drift {
        last_over_first,
        least_over_most: least / most,
        sentence,
        windows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gib;

    fn point(step: u64, tokens_per_sec: f64) -> StepPoint {
        StepPoint {
            step,
            loss: Some(1.0),
            grad_norm: Some(1.0),
            lr: 1e-3,
            dt_secs: 1.0,
            tokens_per_sec: Some(tokens_per_sec),
            mfu_exact_practical: None,
            peak_gib: Some(Gib(1.0)),
            valid: true,
            reason: None,
            steady: step > 2,
        }
    }

    #[test]
    fn a_card_that_slows_down_is_seen() {
        let points: Vec<StepPoint> = (1..=42)
            .map(|step| point(step, if step <= 22 { 100.0 } else { 90.0 }))
            .collect();
        let found = drift(&points, 10.0).unwrap();
        assert_eq!(found.windows.len(), 4);
        assert!((found.last_over_first - 0.9).abs() < 1e-12);
        assert!(
            found.sentence.contains("10.0 % below that of the beginning"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn an_even_run_is_called_so_and_a_short_one_is_not_judged() {
        let points: Vec<StepPoint> = (1..=32).map(|step| point(step, 100.0)).collect();
        let found = drift(&points, 10.0).unwrap();
        assert!((found.least_over_most - 1.0).abs() < 1e-12);
        assert!(found.sentence.contains("holds"), "{}", found.sentence);
        assert_eq!(drift(&points[..12], 10.0), None);
        assert_eq!(drift(&[], 10.0), None);
    }
}
