//! Where the time goes, as the page shows it: the waterfall, the table behind it, what is not in it, and how fast answers are
//! written, which stands beside (M4, M5, U2).

use serde::Serialize;
use tunesmith_measure::Gib;
use tunesmith_measure::gap::{Decoding, GapStep, Ladder};

use super::words::with_spread;
use crate::draw::{Level, Waterfall};
use crate::format::{capitalised, number, percent, plural};
use crate::view::ChartView;

/// The top of every ladder.
const PEAK: &str = "large square products";

#[derive(Serialize)]
pub(super) struct LadderView {
    sentence: String,
    chart: ChartView,
    rows: Vec<[String; 6]>,
    not_measured: Vec<String>,
    decoding: Option<String>,
}

impl LadderView {
    pub(super) fn of(ladder: &Ladder) -> Self {
        let gap = &ladder.gap;
        let peak = [
            format!("{PEAK}, {}", ladder.dtype.name()),
            number(gap.peak.0),
            percent(1.0),
            "–".to_owned(),
            "–".to_owned(),
            "the measured peak of this device, from its calibration".to_owned(),
        ];
        let whole = [
            "the whole gap".to_owned(),
            String::new(),
            String::new(),
            number(gap.lost_tflops),
            percent(gap.lost_share),
            "the sum of what each level loses".to_owned(),
        ];
        Self {
            sentence: format!("{}.", capitalised(&ladder.sentence)),
            chart: ChartView {
                title: "Useful work, level by level".to_owned(),
                said: "TFLOPS; pale: lost on the way from the level before".to_owned(),
                svg: waterfall_of(ladder).svg(),
            },
            rows: [peak]
                .into_iter()
                .chain(gap.steps.iter().map(row))
                .chain([whole])
                .collect(),
            not_measured: ladder
                .not_measured
                .iter()
                .map(|level| format!("{}: {}", capitalised(&level.name), level.reason))
                .collect(),
            decoding: ladder.decoding.as_ref().map(decoding_sentence),
        }
    }
}

/// The drawing of a ladder.
pub(crate) fn waterfall_of(ladder: &Ladder) -> Waterfall<'static> {
    let levels = ladder.gap.steps.iter().map(|step| Level {
        label: step.name.clone(),
        reached: step.reached.mean,
    });
    Waterfall {
        title: "Where the time goes",
        unit: "TFLOPS of useful work",
        peak_label: PEAK.to_owned(),
        peak: ladder.gap.peak.0,
        levels: levels.collect(),
    }
}

fn row(step: &GapStep) -> [String; 6] {
    [
        step.name.clone(),
        with_spread(&step.reached),
        percent(step.peak_share),
        number(step.lost_tflops),
        percent(step.lost_share),
        step.why.clone(),
    ]
}

/// How fast answers are written, and what share of the memory's speed that is.
fn decoding_sentence(decoding: &Decoding) -> String {
    let share = decoding
        .token_bytes
        .zip(decoding.copy_share)
        .map_or_else(String::new, |(bytes, share)| {
            format!(
                " Each token reads {} GiB of weights, so that is {} of what copies within the memory reach.",
                number(Gib::from_bytes(bytes).0),
                percent(share)
            )
        });
    format!(
        "Answers written one at a time: {} tokens a second over {}.{share} This is limited by memory and not by arithmetic, so it is no level of the ladder.",
        with_spread(&decoding.tokens_per_sec),
        plural(decoding.tokens_per_sec.n as u64, "run")
    )
}

#[cfg(test)]
mod tests {
    use tunesmith_measure::Spread;

    use super::*;

    #[test]
    fn writing_is_told_with_its_share_of_the_memory_where_that_is_known() {
        let known = Decoding {
            name: "answers".to_owned(),
            tokens_per_sec: Spread::of(&[46.0, 47.0]).unwrap(),
            token_bytes: Some(6_171_877_376),
            copy_share: Some(0.387),
        };
        let told = decoding_sentence(&known);
        assert!(told.contains("46.5 ± 0.71 tokens a second over 2 runs"), "{told}");
        assert!(
            told.contains("5.75 GiB of weights") && told.contains("38.7 %"),
            "{told}"
        );
        let unknown = Decoding {
            copy_share: None,
            ..known
        };
        assert!(!decoding_sentence(&unknown).contains("copies"));
    }
}
