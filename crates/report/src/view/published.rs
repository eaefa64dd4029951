//! Published figures beside measured ones (X17): in a table of their own, each with its setup, its tier and in what it
//! differs.

use serde::Serialize;

use crate::ReportInput;
use crate::format::{count, plural};
use crate::published::{self, Beside, Subject};

/// More are left to the list of all published figures.
const MOST: usize = 12;

#[derive(Serialize)]
pub(super) struct PublishedView {
    sentence: String,
    rows: Vec<PublishedRow>,
    sources: Vec<String>,
    corrections: Vec<String>,
}

#[derive(Serialize)]
struct PublishedRow {
    quantity: &'static str,
    value: String,
    on: String,
    tier: &'static str,
    setup: String,
    differs: String,
    /// Number of its source, from 1.
    source: usize,
    corrected: bool,
}

/// The published figures that may stand beside this record.
pub(crate) fn published_beside(record: &ReportInput) -> Vec<Beside> {
    // A file that cannot be read leaves the report without published figures; a test reads them all.
    let published = published::all().unwrap_or_default();
    let model = super::model(record);
    let four_bit = record
        .training
        .as_ref()
        .is_some_and(|training| training.four_bit_base);
    published::beside(
        &published,
        &Subject {
            device: record.device.name.clone(),
            gfx: record.device.gfx.clone(),
            model: (!model.is_empty()).then(|| model.to_owned()),
            precision: if four_bit {
                "nf4".to_owned()
            } else {
                record.dtype.name().to_owned()
            },
            trained: record.training.is_some() || record.experiment.is_some(),
        },
    )
}

impl PublishedView {
    pub(super) fn of(beside: &[Beside]) -> Self {
        let sentence = match beside.len() {
            0 => "No published figure that Tunesmith knows was taken on this card's family or with this model, so none stands here."
                .to_owned(),
            known => format!(
                "{} the card's family or the model with this report. They were taken elsewhere, by others, with other programs, rows, lengths and batches; they prove nothing here.",
                if known == 1 { "One published figure shares".to_owned() } else { format!("{} share", plural(known as u64, "published figure")) }
            ),
        };
        let mut corrections: Vec<String> = Vec::new();
        for correction in beside.iter().take(MOST).filter_map(|one| one.correction.as_ref()) {
            if !corrections.contains(correction) {
                corrections.push(correction.clone());
            }
        }
        let mut sources: Vec<String> = Vec::new();
        let mut number = |citation: &String| {
            let known = sources.iter().position(|source| source == citation);
            known.unwrap_or_else(|| {
                sources.push(citation.clone());
                sources.len() - 1
            }) + 1
        };
        let numbers: Vec<usize> = beside
            .iter()
            .take(MOST)
            .map(|one| number(&one.citation))
            .collect();
        Self {
            sentence,
            corrections,
            sources,
            rows: beside
                .iter()
                .take(MOST)
                .zip(numbers)
                .map(|(one, source)| PublishedRow {
                    quantity: one.quantity.title(),
                    value: match one.plus_minus {
                        Some(sd) => format!("{} ± {} {}", as_printed(one.value), as_printed(sd), one.unit),
                        None => format!("{} {}", as_printed(one.value), one.unit),
                    },
                    on: match &one.model {
                        Some(model) => format!("{model}, {}", one.card),
                        None => one.card.clone(),
                    },
                    tier: one.tier.name(),
                    setup: one.setup.clone(),
                    differs: one.differs.join("; "),
                    source,
                    corrected: one.correction.is_some(),
                })
                .collect(),
        }
    }
}

/// A figure with the digits that it was published with.
fn as_printed(value: f64) -> String {
    let text = value.to_string();
    match text.split_once('.') {
        Some((whole, part)) => format!(
            "{}.{part}",
            whole.parse().map_or_else(|_| whole.to_owned(), count)
        ),
        None => text.parse().map_or(text, count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_figure_keeps_its_digits() {
        for (value, text) in [
            (1492.6, "1,492.6"),
            (27.2, "27.2"),
            (9.0, "9"),
            (3083.0, "3,083"),
            (0.8, "0.8"),
        ] {
            assert_eq!(as_printed(value), text);
        }
    }
}
