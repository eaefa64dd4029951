//! Figures that others published, with their setup and tier (C5, X17): data, built in from `assets/reference/*.toml`.
//!
//! They are facts about other people's machines. They stand beside a measured figure and never in the same series, and
//! only where something real is shared: the card's family, the model, what was done. Where a published figure is wrong,
//! the right one comes with it.

mod beside;

use serde::{Deserialize, Serialize};

pub use beside::{Beside, Subject, beside};

/// The files, in the order in which they are shown.
const FILES: [(&str, &str); 7] = [
    (
        "consumer-amd-post-training.toml",
        include_str!("../../../../assets/reference/consumer-amd-post-training.toml"),
    ),
    (
        "consumer-amd-three-layers.toml",
        include_str!("../../../../assets/reference/consumer-amd-three-layers.toml"),
    ),
    (
        "two-cards-text-to-sql.toml",
        include_str!("../../../../assets/reference/two-cards-text-to-sql.toml"),
    ),
    (
        "strix-halo-throughput.toml",
        include_str!("../../../../assets/reference/strix-halo-throughput.toml"),
    ),
    (
        "strix-halo-notebook.toml",
        include_str!("../../../../assets/reference/strix-halo-notebook.toml"),
    ),
    (
        "unsloth-on-amd.toml",
        include_str!("../../../../assets/reference/unsloth-on-amd.toml"),
    ),
    (
        "memory-and-speed-tables.toml",
        include_str!("../../../../assets/reference/memory-and-speed-tables.toml"),
    ),
];

/// Who measured, seen from what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tier {
    /// The maker of what was measured.
    #[serde(rename = "first-party")]
    FirstParty,
    /// Somebody else.
    #[serde(rename = "independent")]
    Independent,
}

impl Tier {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstParty => "first-party",
            Self::Independent => "independent",
        }
    }
}

/// What a figure is a figure of. Only figures of the same quantity can stand beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Matrix products.
    GemmTflops,
    /// Copies.
    CopyBandwidth,
    /// Tokens a second of training.
    TokensPerSec,
    /// Tokens a second of generating.
    DecodeTokensPerSec,
    /// Seconds an optimizer step.
    StepSecs,
    /// Seconds of a whole training.
    RunSecs,
    /// Most memory held.
    PeakMemory,
    /// Memory that one way saves against another.
    MemorySaved,
    /// Share of the measured peak by 6ND.
    MfuSixNdPractical,
    /// Right answers.
    Accuracy,
    /// How many times as fast.
    SpeedRatio,
    /// How many times as long.
    TimeRatio,
}

impl Quantity {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::GemmTflops => "Matrix products",
            Self::CopyBandwidth => "Copies",
            Self::TokensPerSec => "Training speed",
            Self::DecodeTokensPerSec => "Generation speed",
            Self::StepSecs => "Time of a step",
            Self::RunSecs => "Time of a training",
            Self::PeakMemory => "Peak memory",
            Self::MemorySaved => "Memory saved",
            Self::MfuSixNdPractical => "MFU, 6ND, of the measured peak",
            Self::Accuracy => "Right answers",
            Self::SpeedRatio => "Speed against another",
            Self::TimeRatio => "Time against another",
        }
    }
}

/// What was done when it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Products of square matrices.
    MatrixProducts,
    /// Copies on the card.
    Copies,
    /// Text was generated.
    Generation,
    /// Supervised training of an adapter.
    LoraSft,
    /// Supervised training of all weights.
    FullSft,
    /// Group-relative policy optimisation.
    Grpo,
}

impl Method {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::MatrixProducts => "matrix products",
            Self::Copies => "copies",
            Self::Generation => "generation",
            Self::LoraSft => "LoRA, supervised",
            Self::FullSft => "all weights, supervised",
            Self::Grpo => "GRPO",
        }
    }
}

/// Where figures come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Stable name, e.g. `unsloth-on-amd`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How to cite it.
    pub citation: String,
    /// Where it is, without a scheme; absent where no address is known.
    #[serde(default)]
    pub url: Option<String>,
    /// When it was published, as far as that is known.
    #[serde(default)]
    pub published: Option<String>,
    /// When it was read.
    pub as_of: String,
    /// Who measured.
    pub tier: Tier,
    /// Under which licence figures were taken over.
    pub licence: String,
    /// What a reader has to know of all its figures.
    pub note: String,
    /// What could not be found out about them.
    pub not_recovered: Vec<String>,
}

/// A published statement that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Stable name within its source.
    pub id: String,
    /// What it is about.
    pub what: String,
    /// What was printed.
    pub printed: String,
    /// What is right.
    pub right: String,
    /// Why.
    pub why: String,
    /// What the right figure was worked out from.
    pub source: String,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Stable name within its source.
    pub id: String,
    /// What it is a figure of.
    pub quantity: Quantity,
    /// The figure.
    pub value: f64,
    /// Its standard deviation, where it was told.
    #[serde(default)]
    pub plus_minus: Option<f64>,
    /// How many runs it is the mean of, where it was told.
    #[serde(default)]
    pub repeats: Option<u32>,
    /// Its unit as published: GB and GiB are kept apart.
    pub unit: String,
    /// The card.
    pub card: String,
    /// The card's gfx target, where it has one and it is known.
    #[serde(default)]
    pub gfx: Option<String>,
    /// The model, where there was one.
    #[serde(default)]
    pub model: Option<String>,
    /// What was done.
    pub method: Method,
    /// Number format of the weights.
    pub precision: String,
    /// Everything else that is known of how it was taken.
    pub setup: String,
    /// How it was counted.
    pub counted: String,
    /// Where it stands within the source.
    pub source: String,
    /// Id of the [`Correction`] that concerns it.
    #[serde(default)]
    pub correction: Option<String>,
}

/// A source with its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Where they come from.
    pub source: Source,
    /// What in it does not hold.
    #[serde(default)]
    pub correction: Vec<Correction>,
    /// The figures.
    pub figure: Vec<Figure>,
}

impl Published {
    /// The correction that concerns a figure.
    pub fn correction_of(&self, figure: &Figure) -> Option<&Correction> {
        let id = figure.correction.as_deref()?;
        self.correction.iter().find(|correction| correction.id == id)
    }
}

/// All published figures.
///
/// # Errors
/// A sentence that names the file and the place; none is known to happen, since a test reads them all.
pub fn all() -> Result<Vec<Published>, String> {
    FILES
        .iter()
        .map(|(name, text)| read(text).map_err(|error| format!("{name}: {error}")))
        .collect()
}

/// Reads one file.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Result<Published, String> {
    let published: Published = toml::from_str(text).map_err(|error| error.to_string())?;
    check(&published)?;
    Ok(published)
}

/// What the types do not say: nothing is empty, names are unique, and what is referred to is there.
fn check(published: &Published) -> Result<(), String> {
    let source = &published.source;
    let told = |what: &str, text: &str| {
        if text.trim().is_empty() {
            Err(format!("{what} is empty"))
        } else {
            Ok(())
        }
    };
    for (what, text) in [
        ("source.id", &source.id),
        ("source.title", &source.title),
        ("source.citation", &source.citation),
        ("source.as_of", &source.as_of),
        ("source.licence", &source.licence),
        ("source.note", &source.note),
    ] {
        told(what, text)?;
    }
    if source.as_of.parse::<jiff::civil::Date>().is_err() {
        return Err(format!("source.as_of is no date: {}", source.as_of));
    }
    let mut ids: Vec<&str> = published.figure.iter().map(|figure| figure.id.as_str()).collect();
    ids.extend(
        published
            .correction
            .iter()
            .map(|correction| correction.id.as_str()),
    );
    ids.sort_unstable();
    let twice = ids.iter().zip(ids.iter().skip(1)).find(|(one, next)| one == next);
    if let Some((id, _)) = twice {
        return Err(format!("{id} is there twice"));
    }
    for figure in &published.figure {
        let at = |error: String| format!("figure {}: {error}", figure.id);
        for (what, text) in [
            ("unit", &figure.unit),
            ("card", &figure.card),
            ("precision", &figure.precision),
            ("setup", &figure.setup),
            ("counted", &figure.counted),
            ("source", &figure.source),
        ] {
            told(what, text).map_err(at)?;
        }
        if !figure.value.is_finite() || figure.value <= 0.0 {
            return Err(at(format!("{} cannot be", figure.value)));
        }
        if figure.correction.is_some() && published.correction_of(figure).is_none() {
            return Err(at("its correction is not there".to_owned()));
        }
    }
    for correction in &published.correction {
        for text in [
            &correction.what,
            &correction.printed,
            &correction.right,
            &correction.why,
            &correction.source,
        ] {
            told(&format!("a part of correction {}", correction.id), text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_measure::stats;

    fn find(source: &str, figure: &str) -> Figure {
        let all = all().unwrap();
        let published = all.iter().find(|one| one.source.id == source).unwrap();
        published
            .figure
            .iter()
            .find(|one| one.id == figure)
            .unwrap()
            .clone()
    }

    #[test]
    fn every_row_has_a_source_a_tier_and_a_setup() {
        let all = all().unwrap();
        let mut sources: Vec<&str> = all.iter().map(|one| one.source.id.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        assert_eq!(sources.len(), all.len(), "a source is there twice");
        assert!(all.iter().map(|one| one.figure.len()).sum::<usize>() > 40);
        for one in &all {
            assert!(!one.source.not_recovered.is_empty(), "{}", one.source.id);
        }
    }

    #[test]
    fn a_row_without_its_setup_is_refused_by_name() {
        let text = FILES[0]
            .1
            .replacen("counted = \"2n³", "counted = \"\" # \"2n³", 1);
        let error = read(&text).unwrap_err();
        assert!(
            error.contains("gemm-peak") && error.contains("counted"),
            "{error}"
        );
        let error = read(&FILES[0].1.replacen("tier = \"independent\"", "", 1)).unwrap_err();
        assert!(error.contains("tier"), "{error}");
        let error = read(
            &FILES[0]
                .1
                .replacen("correction = \"welch-p\"", "correction = \"x\"", 1),
        )
        .unwrap_err();
        assert!(error.contains("not there"), "{error}");
    }

    /// The figures must be those of the raw values, and the corrections must follow from them (numbers 1.4, 1.5).
    #[test]
    fn the_papers_figures_follow_from_its_raw_values_and_so_do_the_corrections() {
        let (unsloth, hf) = ([126.5, 130.6, 131.2], [122.2, 123.4, 123.6]);
        let paper = "consumer-amd-post-training";
        for (id, raw) in [("grpo-unsloth-bf16", unsloth), ("grpo-hf-bf16", hf)] {
            let figure = find(paper, id);
            assert!((figure.value - stats::mean(&raw).unwrap()).abs() < 0.05, "{id}");
            assert!(
                (figure.plus_minus.unwrap() - stats::sd(&raw).unwrap()).abs() < 0.05,
                "{id}"
            );
        }
        let test = stats::welch(&unsloth, &hf).unwrap();
        let said = format!(
            "p = {:.3} (t = {:.2}, df = {:.2}, d = {:.2})",
            test.p_two_sided,
            test.t,
            test.df,
            stats::cohens_d(&unsloth, &hf).unwrap()
        );
        let all = all().unwrap();
        let correction = |id: &str| all[0].correction.iter().find(|one| one.id == id).unwrap();
        assert_eq!(correction("welch-p").right, said);
        // LoRA-exact work of the step without recomputation: 6.556 TFLOP in 0.343 s of 101.53 TFLOPS (numbers 3.3).
        let exact = 6_556_032_696_320.0 / 0.343 / 1e12;
        assert!(
            correction("six-nd-lora")
                .right
                .starts_with(&format!("{:.1} %", 100.0 * exact / 101.53))
        );
        assert!(correction("six-nd-lora").why.contains(&format!("{exact:.2}")));
        // Tokens over time of the published steps.
        assert!((find(paper, "sft-no-checkpointing").value - 10_240.0 / 6.86).abs() < 0.5);
        assert!((find(paper, "sft-checkpointing").value - 10_240.0 / 9.32).abs() < 0.5);
        let peak = 2.0 * 8192_f64.powi(3) * 50.0 / 0.5415 / 1e12;
        assert!((find(paper, "gemm-peak").value - peak).abs() < 0.02);
    }
}
