//! From values to places on the screen and back, and where the few grid lines go.

use std::hash::{Hash, Hasher};

use egui::Rangef;
use tunesmith_report::format::{duration, number, tick};

/// What runs along the bottom of a line chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Along {
    /// Training steps.
    #[default]
    Steps,
    /// Seconds since the beginning.
    Seconds,
}

impl Along {
    /// Its name beside the axis.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steps => "step",
            Self::Seconds => "time",
        }
    }

    /// One place in words: `step 57`, `12.3 s`.
    pub(super) fn place(self, x: f64) -> String {
        match self {
            Self::Steps => format!("step {}", number_of_step(x)),
            Self::Seconds => duration(x),
        }
    }

    /// A stretch in words: `between steps 1 and 120`, `between 0 s and 34 s`.
    pub(super) fn stretch(self, from: f64, to: f64) -> String {
        match self {
            Self::Steps => format!(
                "between steps {} and {}",
                number_of_step(from),
                number_of_step(to)
            ),
            Self::Seconds => format!("between {} and {}", duration(from), duration(to)),
        }
    }

    /// What points are called: `1 step`, `2 values`.
    pub(super) fn points(self, count: usize) -> String {
        let word = match self {
            Self::Steps => "step",
            Self::Seconds => "value",
        };
        tunesmith_report::format::plural(count as u64, word)
    }
}

fn number_of_step(x: f64) -> String {
    if (0.0..1e15).contains(&x) && x.fract() <= 0.0 {
        tunesmith_report::format::count(x as u64)
    } else {
        number(x)
    }
}

/// A grid line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// A stretch of values laid on a stretch of the screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    log: bool,
    screen: Rangef,
}

impl Axis {
    /// `screen` runs from where `low` lies to where `high` lies, so downwards for a vertical axis.
    pub(super) fn new(low: f64, high: f64, log: bool, screen: Rangef) -> Self {
        Self {
            low,
            high,
            log,
            screen,
        }
    }

    /// Place on the screen, in points.
    pub(super) fn place(&self, value: f64) -> f32 {
        let share = (self.bend(value) - self.bend(self.low)) / (self.bend(self.high) - self.bend(self.low));
        // Far outside nothing is seen, and the tessellator wants numbers that it can square.
        let share = share.clamp(-10.0, 11.0) as f32;
        self.screen.min + share * (self.screen.max - self.screen.min)
    }

    /// Whether a value has a place: a number, and on a logarithmic axis one above zero.
    pub(super) fn can_show(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// Place of a value; of one that has none, where `low` lies.
    pub(super) fn place_or_low(&self, value: f64) -> f32 {
        if self.can_show(value) {
            self.place(value)
        } else {
            self.screen.min
        }
    }

    /// The stretch of the screen, from where `low` lies to where `high` lies.
    pub(super) fn screen(&self) -> Rangef {
        self.screen
    }

    /// Value at a place on the screen.
    pub(super) fn value(&self, place: f32) -> f64 {
        let share = f64::from((place - self.screen.min) / (self.screen.max - self.screen.min));
        let bent = self.bend(self.low) + share * (self.bend(self.high) - self.bend(self.low));
        if self.log { 10_f64.powf(bent) } else { bent }
    }

    fn bend(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }
}

/// Axes that lay values alike hash alike.
impl Hash for Axis {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            low,
            high,
            log,
            screen,
        } = self;
        (low.to_bits(), high.to_bits(), log).hash(state);
        (screen.min.to_bits(), screen.max.to_bits()).hash(state);
    }
}

/// About this many ticks at round values between two values.
pub(super) fn linear_ticks(low: f64, high: f64, about: usize) -> Vec<Tick> {
    let step = round_step(high - low, about);
    ticks_every(low, high, step, |value| tick(value, step))
}

/// Ticks for seconds: at round times, told as `0:30`, `12:00` or `1:30:00` where seconds alone would be long.
pub(super) fn time_ticks(low: f64, high: f64, about: usize) -> Vec<Tick> {
    const STEPS: [f64; 13] = [
        15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 43_200.0, 86_400.0,
    ];
    if high < 90.0 {
        let mut ticks = linear_ticks(low, high, about);
        for tick in &mut ticks {
            tick.label.push_str(" s");
        }
        return ticks;
    }
    let wanted = (high - low) / about.max(1) as f64;
    let step = STEPS.into_iter().find(|&step| step >= wanted);
    let step = step.unwrap_or_else(|| round_step((high - low) / 86_400.0, about) * 86_400.0);
    ticks_every(low, high, step, clock)
}

fn clock(secs: f64) -> String {
    let whole = secs.round().max(0.0) as u64;
    let (hours, minutes, secs) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{secs:02}")
    } else {
        format!("{minutes}:{secs:02}")
    }
}

/// Ticks at 1, 2 and 5 times powers of ten, or at powers of ten alone where those are many.
pub(super) fn log_ticks(low: f64, high: f64, about: usize) -> Vec<Tick> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = (last - first).max(1) as usize;
    let every = decades.div_ceil(about.max(1)) as i32;
    let factors: &[f64] = match decades {
        1..=2 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let mut ticks = Vec::new();
    for power in (first..=last).filter(|power| power.rem_euclid(every) == 0) {
        for factor in factors {
            let value = factor * 10_f64.powi(power);
            if value >= low && value <= high {
                ticks.push(Tick {
                    value,
                    label: tick(value, value),
                });
            }
        }
    }
    ticks
}

/// A stretch with round ends that holds both values, for a linear axis, and its ticks, which stand on both ends.
pub(super) fn round_stretch(low: f64, high: f64, about: usize) -> (f64, f64, Vec<Tick>) {
    let (low, high) = widened(low, high);
    let step = round_step(high - low, about);
    let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
    let ticks = ticks_every(low, high, step, |value| tick(value, step));
    (low, high, ticks)
}

/// A stretch with a little room on both sides, for a logarithmic axis.
pub(super) fn log_stretch(low: f64, high: f64) -> (f64, f64) {
    let room = ((high / low).ln() * 0.05).max(0.05).exp();
    (low / room, high * room)
}

fn widened(low: f64, high: f64) -> (f64, f64) {
    if high > low {
        return (low, high);
    }
    let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
    (low - room, high + room)
}

fn round_step(span: f64, about: usize) -> f64 {
    let wanted = (span / about.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(wanted.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= wanted);
    factor.unwrap_or(10.0) * power
}

fn ticks_every(low: f64, high: f64, step: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
    let first = (low / step - 1e-9).ceil();
    let count = ((high / step + 1e-9).floor() - first).clamp(-1.0, 100.0) as i64;
    (0..=count)
        .map(|index| {
            let value = (first + index as f64) * step;
            Tick {
                value,
                label: label(value),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(labels(&linear_ticks(0.0, 2.4, 4)), ["0", "1", "2"]);
        assert_eq!(
            labels(&linear_ticks(1.0, 120.0, 6)),
            ["20", "40", "60", "80", "100", "120"]
        );
        assert_eq!(labels(&log_ticks(0.3, 4.0, 5)), ["0.5", "1", "2"]);
        assert_eq!(labels(&log_ticks(0.001, 900.0, 3)), ["0.01", "1", "100"]);
        assert_eq!(labels(&time_ticks(0.0, 34.0, 4)), ["0 s", "10 s", "20 s", "30 s"]);
        assert_eq!(
            labels(&time_ticks(0.0, 300.0, 5)),
            ["0:00", "1:00", "2:00", "3:00", "4:00", "5:00"]
        );
        assert_eq!(
            labels(&time_ticks(0.0, 7200.0, 2)),
            ["0:00", "1:00:00", "2:00:00"]
        );
    }

    #[test]
    fn places_are_said_in_words() {
        assert_eq!(Along::Steps.stretch(1.0, 1200.0), "between steps 1 and 1,200");
        assert_eq!(Along::Seconds.place(12.34), "12.3 s");
        assert_eq!(Along::Steps.points(1), "1 step");
        assert_eq!(Along::Seconds.points(2), "2 values");
    }

    proptest! {
        #[test]
        fn a_place_leads_back_to_its_value(low in -1e3_f64..1e3, span in 1e-3_f64..1e3, share in 0.0_f64..1.0) {
            let axis = Axis::new(low, low + span, false, Rangef::new(100.0, 900.0));
            let value = low + share * span;
            prop_assert!((axis.value(axis.place(value)) - value).abs() < span * 1e-4);
        }

        #[test]
        fn a_place_leads_back_on_a_log_axis(power in -6.0_f64..6.0, span in 0.1_f64..6.0, share in 0.0_f64..1.0) {
            let axis = Axis::new(10_f64.powf(power), 10_f64.powf(power + span), true, Rangef::new(300.0, 20.0));
            let value = 10_f64.powf(power + share * span);
            prop_assert!((axis.value(axis.place(value)) / value - 1.0).abs() < 1e-2);
        }

        #[test]
        fn a_round_stretch_holds_both_ends_and_few_ticks(low in -1e6_f64..1e6, span in 0.0_f64..1e6) {
            let (from, to, ticks) = round_stretch(low, low + span, 4);
            let slack = (to - from) * 1e-9;
            prop_assert!(from <= low + slack && to >= low + span - slack && to > from);
            prop_assert!((2..=8).contains(&ticks.len()), "{ticks:?}");
            prop_assert!((ticks[0].value - from).abs() <= slack);
            prop_assert!((ticks[ticks.len() - 1].value - to).abs() <= slack);
        }
    }
}
