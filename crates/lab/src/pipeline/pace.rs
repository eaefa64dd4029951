//! How far a training is and how long it still takes, by its steps: for every engine alike, whether it tells of its progress
//! or not, and with the time box that may end it first.

use std::time::Duration;

use tunesmith_protocol::{Progress, Step};

/// Steps behind the first after which it is said that the time box will end the training before its last step.
const SETTLED_STEPS: u64 = 4;

/// The pace of a training.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Number and clock of the first step of this engine: loading, and what is done once only, lie before its end.
    first: Option<(u64, f64)>,
}

impl Pace {
    /// How far a training of `steps` steps is after this one, whose clock counts from the engine's start as the time box
    /// does. Where the box ends it before its steps do (a soak has more than an hour holds), it is as far as its time is.
    pub(super) fn after(&mut self, step: &Step, steps: u64, time_box: Option<Duration>) -> Progress {
        let (first, began_secs) = *self.first.get_or_insert((step.step, step.elapsed_secs));
        let paced = step.step.saturating_sub(first);
        let steps_left = steps.saturating_sub(step.step) as f64;
        let eta_secs = (step.elapsed_secs - began_secs) / paced as f64 * steps_left;
        let eta_secs = Some(eta_secs).filter(|secs| secs.is_finite() && *secs >= 0.0);
        let by_steps = Progress {
            stage: "train".to_owned(),
            done: step.step,
            total: steps,
            unit: "steps".to_owned(),
            eta_secs,
        };
        let (Some(eta_secs), Some(time_box)) = (eta_secs, time_box) else {
            return by_steps;
        };
        let box_secs = time_box.as_secs_f64();
        let left_secs = (box_secs - step.elapsed_secs).max(0.0);
        if eta_secs <= left_secs {
            return by_steps;
        }
        if paced < SETTLED_STEPS {
            return Progress {
                eta_secs: Some(left_secs),
                ..by_steps
            };
        }
        Progress {
            done: step.elapsed_secs.min(box_secs) as u64,
            total: box_secs as u64,
            unit: "seconds".to_owned(),
            eta_secs: Some(left_secs),
            ..by_steps
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loading takes 10 s, the first step 5 s more than the others.
    fn step(number: u64, secs: f64) -> Step {
        Step {
            step: number,
            loss: Some(1.0),
            grad_norm: Some(1.0),
            lr: 1e-3,
            dt_secs: secs,
            elapsed_secs: 15.0 + number as f64 * secs,
            real_tokens: 10 * number,
            padded_tokens: 10 * number,
            supervised_tokens: 5 * number,
            squared_lengths: 100,
            peak_bytes: None,
        }
    }

    fn last(upto: u64, secs: f64, steps: u64, box_secs: u64) -> Progress {
        let mut pace = Pace::default();
        let time_box = Some(Duration::from_secs(box_secs));
        let mut far = pace.after(&step(1, secs), steps, time_box);
        for number in 2..=upto {
            far = pace.after(&step(number, secs), steps, time_box);
        }
        far
    }

    #[test]
    fn a_training_that_fits_its_box_is_as_far_as_its_steps_are() {
        assert_eq!(last(1, 2.0, 96, 900).eta_secs, None, "one step has no pace");
        let far = last(16, 2.0, 96, 900);
        assert_eq!((far.done, far.total, far.unit.as_str()), (16, 96, "steps"));
        assert!((far.eta_secs.unwrap() - 160.0).abs() < 1e-9);
        assert_eq!(last(96, 2.0, 96, 900).eta_secs, Some(0.0));
    }

    #[test]
    fn a_soak_is_as_far_as_its_hour_is() {
        let early = last(3, 2.0, 1_000_005, 3600);
        assert_eq!(early.unit, "steps");
        assert!((early.eta_secs.unwrap() - (3600.0 - 21.0)).abs() < 1e-9);
        let far = last(600, 2.0, 1_000_005, 3600);
        assert_eq!((far.done, far.total, far.unit.as_str()), (1215, 3600, "seconds"));
        assert!((far.eta_secs.unwrap() - 2385.0).abs() < 1e-9);
        assert_eq!(last(2000, 2.0, 1_000_005, 3600).eta_secs, Some(0.0));
    }

    #[test]
    fn a_run_that_goes_on_counts_from_where_it_goes_on() {
        let mut pace = Pace::default();
        let _ = pace.after(&step(41, 2.0), 96, None);
        let far = pace.after(&step(46, 2.0), 96, None);
        assert_eq!((far.done, far.total), (46, 96));
        assert!((far.eta_secs.unwrap() - 100.0).abs() < 1e-9);
    }
}
