//! Which published figures stand beside a measured run or calibration, and what is different about each of them (X17).
//!
//! The rule: a figure stands beside a run only where both are of the same quantity and the same kind of work, and
//! where the card's family or the model is the same; a peak of matrix products or copies needs the same card's family. A run on a
//! processor has no card's family, so a figure of a card never stands beside its speed unless the model is the same.

use serde::{Deserialize, Serialize};

use super::{Method, Published, Quantity, Tier};

/// What was measured here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subject {
    /// The card's name; the processor's where no card computed.
    pub device: String,
    /// The card's true gfx target.
    pub gfx: Option<String>,
    /// The model, as its hub or file calls it.
    pub model: Option<String>,
    /// Number format of the weights, e.g. `bf16` or `nf4`.
    pub precision: String,
    /// Whether an adapter was trained; else only the device was measured.
    pub trained: bool,
}

/// A published figure that stands beside this report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Id of source and figure, `source/figure`.
    pub id: String,
    /// What it is a figure of.
    pub quantity: Quantity,
    /// The figure.
    pub value: f64,
    /// Its standard deviation, where it was told.
    #[serde(default)]
    pub plus_minus: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// The card.
    pub card: String,
    /// The model.
    #[serde(default)]
    pub model: Option<String>,
    /// How it was taken and counted.
    pub setup: String,
    /// Who measured.
    pub tier: Tier,
    /// How to cite it.
    pub citation: String,
    /// In what it differs from what was measured here, one clause each, beyond that it was another program with other rows,
    /// lengths and batches.
    pub differs: Vec<String>,
    /// What is wrong with it as printed, and what is right.
    #[serde(default)]
    pub correction: Option<String>,
}

/// The published figures that may stand beside this, the nearest first.
pub fn beside(published: &[Published], subject: &Subject) -> Vec<Beside> {
    let mut found: Vec<(usize, Beside)> = Vec::new();
    for source in published {
        for figure in &source.figure {
            let same_card = subject.gfx.is_some() && subject.gfx == figure.gfx;
            let same_model = figure
                .model
                .as_deref()
                .zip(subject.model.as_deref())
                .is_some_and(|(one, other)| bare(one) == bare(other));
            let fits = match figure.method {
                Method::MatrixProducts | Method::Copies => same_card,
                Method::LoraSft => subject.trained && (same_card || same_model) && is_level(figure.quantity),
                Method::Generation | Method::FullSft | Method::Grpo => false,
            };
            if !fits {
                continue;
            }
            let mut differs = Vec::new();
            if !same_card {
                differs.push("another card".to_owned());
            } else if !subject.device.contains(&figure.card) {
                differs.push("another card of the same family".to_owned());
            }
            if figure.model.is_some() && !same_model {
                differs.push("another model".to_owned());
            }
            if figure.precision != subject.precision && figure.model.is_some() {
                differs.push(format!("weights in {}", figure.precision));
            }
            let correction = source.correction_of(figure).map(|correction| {
                format!(
                    "{}: printed {}, right is {}; {}",
                    correction.what, correction.printed, correction.right, correction.why
                )
            });
            let closeness = 2 * usize::from(same_card) + usize::from(same_model);
            found.push((
                closeness,
                Beside {
                    id: format!("{}/{}", source.source.id, figure.id),
                    quantity: figure.quantity,
                    value: figure.value,
                    plus_minus: figure.plus_minus,
                    unit: figure.unit.clone(),
                    card: figure.card.clone(),
                    model: figure.model.clone(),
                    setup: format!("{}; {}", figure.setup, figure.counted),
                    tier: source.source.tier,
                    citation: source.source.citation.clone(),
                    differs,
                    correction,
                },
            ));
        }
    }
    found.sort_by_key(|(closeness, _)| std::cmp::Reverse(*closeness));
    found.into_iter().map(|(_, beside)| beside).collect()
}

/// A figure of its own, not one way of doing something against another.
fn is_level(quantity: Quantity) -> bool {
    !matches!(
        quantity,
        Quantity::SpeedRatio
            | Quantity::TimeRatio
            | Quantity::MemorySaved
            | Quantity::Accuracy
            | Quantity::RunSecs
    )
}

/// A model's name without owner, revision and the words for its fine-tuned form.
fn bare(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let name = name.trim_end_matches(".gguf");
    let words: Vec<&str> = name
        .split(['-', '_', ' '])
        .filter(|word| !["meta", "instruct", "it", "chat", "base"].contains(word))
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::all;

    fn ids(subject: &Subject) -> Vec<String> {
        beside(&all().unwrap(), subject)
            .into_iter()
            .map(|beside| beside.id)
            .collect()
    }

    fn card(model: &str) -> Subject {
        Subject {
            device: "Radeon RX 7900 XTX".into(),
            gfx: Some("gfx1100".into()),
            model: Some(model.into()),
            precision: "bf16".into(),
            trained: true,
        }
    }

    #[test]
    fn the_same_card_and_model_come_first_and_say_what_still_differs() {
        let found = beside(&all().unwrap(), &card("Qwen/Qwen2.5-3B-Instruct@abc"));
        assert_eq!(found[0].id, "consumer-amd-post-training/sft-no-checkpointing");
        assert_eq!(found[0].differs, Vec::<String>::new());
        let mfu = found
            .iter()
            .find(|one| one.id.ends_with("/sft-mfu-no-checkpointing"))
            .unwrap();
        assert!(mfu.correction.as_ref().unwrap().contains("18.8 %"), "{mfu:?}");
    }

    #[test]
    fn what_was_not_done_here_is_not_laid_beside() {
        let found = ids(&card("Qwen2.5-3B-Instruct"));
        assert!(
            found
                .iter()
                .all(|id| !id.contains("grpo") && !id.contains("inference")),
            "{found:?}"
        );
        let calibrated = ids(&Subject {
            trained: false,
            model: None,
            ..card("")
        });
        assert_eq!(
            calibrated,
            [
                "consumer-amd-post-training/gemm-peak",
                "consumer-amd-three-layers/copy-bandwidth"
            ]
        );
    }

    #[test]
    fn a_processor_gets_no_card_beside_it_unless_the_model_is_the_same() {
        let processor = |model: &str| Subject {
            device: "some processor".into(),
            gfx: None,
            precision: "f32".into(),
            ..card(model)
        };
        assert_eq!(
            ids(&processor("SmolLM2-135M-Instruct.gguf")),
            Vec::<String>::new()
        );
        let found = beside(&all().unwrap(), &processor("meta-llama/Llama-3.2-3B"));
        assert!(!found.is_empty() && found.iter().all(|one| one.differs[0].starts_with("another card")));
    }

    #[test]
    fn names_of_one_model_are_one() {
        assert_eq!(bare("Qwen/Qwen2.5-3B-Instruct@main"), bare("qwen2.5-3b"));
        assert_eq!(bare("meta-llama/Meta-Llama-3.1-8B"), bare("Llama-3.1-8B"));
        assert_ne!(bare("Qwen2.5-3B"), bare("Qwen2.5-7B"));
    }
}
