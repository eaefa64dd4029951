//! Which setting of the environment won (X10).

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{AttentionMeasurement, GemmMeasurement, Layout, Variant};

use super::attention_secs;

/// Share by which one setting must beat the other to have won: less is noise of two runs.
pub const TELLING_GAIN: f64 = 0.03;

/// What a variable of the environment came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// The variable.
    pub variable: String,
    /// The value that won; `None` where no value is better than the others beyond noise, or none could be measured.
    pub value: Option<String>,
    /// Each value's figure, in the order in which they were measured; `None` where it failed or computed wrong values.
    pub figures: Vec<(String, Option<f64>)>,
    /// Unit of the figures. Of both units more is better.
    pub unit: &'static str,
    /// Why, in a clause without a full stop.
    pub why: String,
}

/// Which setting won, for each variable (X10). A setting whose values are wrong cannot win, and one that gains less than
/// [`TELLING_GAIN`] has not won.
pub fn winners(variants: &[Variant]) -> Vec<Winner> {
    let mut names: Vec<&str> = Vec::new();
    for variant in variants {
        if !names.contains(&variant.variable.as_str()) {
            names.push(&variant.variable);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let of_this: Vec<&Variant> = variants
                .iter()
                .filter(|variant| variant.variable == name)
                .collect();
            winner(name, &of_this)
        })
        .collect()
}

fn winner(name: &str, variants: &[&Variant]) -> Winner {
    let multiplies = variants.iter().any(|variant| !variant.gemm.is_empty());
    let figures: Vec<(String, Option<f64>)> = variants
        .iter()
        .map(|variant| {
            let figure = if multiplies {
                lora_gemm_tflops(&variant.gemm)
            } else {
                attention_rate(&variant.attention)
            };
            (variant.value.clone(), figure)
        })
        .collect();
    let mut measured: Vec<(&str, f64)> = figures
        .iter()
        .filter_map(|(value, figure)| Some((value.as_str(), (*figure)?)))
        .collect();
    measured.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (value, why) = match measured.as_slice() {
        [] => (None, "no setting gave right values".to_owned()),
        [(value, _)] if figures.len() > 1 => (
            Some((*value).to_owned()),
            "the other one failed or computed wrong values".to_owned(),
        ),
        [_] => (None, "there is nothing to compare it with".to_owned()),
        [(value, best), (_, second), ..] => {
            let gain = best / second - 1.0;
            if gain > TELLING_GAIN {
                (
                    Some((*value).to_owned()),
                    format!("{:.0} % faster than the other", 100.0 * gain),
                )
            } else {
                (
                    None,
                    format!("within noise: they differ by {:.1} %", 100.0 * gain),
                )
            }
        }
    };
    Winner {
        variable: name.to_owned(),
        value,
        figures,
        unit: if multiplies { "TFLOPS" } else { "passes/s" },
        why,
    }
}

/// Speed of one forward product and one for the input's gradient together: what a LoRA training multiplies.
fn lora_gemm_tflops(gemm: &[GemmMeasurement]) -> Option<f64> {
    let speed = |layout| {
        let of = gemm.iter().find(|gemm| gemm.layout == layout)?;
        (of.values.passed && !of.emulated && of.mean_tflops > 0.0).then_some(of.mean_tflops)
    };
    let (forward, gradient) = (speed(Layout::Nt)?, speed(Layout::Nn)?);
    Some(2.0 / (1.0 / forward + 1.0 / gradient))
}

/// Forward and backward passes a second of what torch dispatches.
fn attention_rate(attention: &[AttentionMeasurement]) -> Option<f64> {
    let of = attention.iter().find(|of| of.dispatched)?;
    attention_secs(of).map(|secs| 1.0 / secs)
}
