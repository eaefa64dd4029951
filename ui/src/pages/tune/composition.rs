//! What the model's parameters are, and which of them a base in 4 bits can touch (T6): said before anybody expects a model
//! to shrink to a quarter.

use egui::Ui;
use tunesmith_lab::estimate::Estimate;
use tunesmith_measure::{Composition, QuantisationSaving};
use tunesmith_report::format::{number, percent, size};

use crate::{
    chart::{ChartView, StackedBar},
    theme, widgets,
};

const MILLION: f64 = 1e6;

pub(super) fn composition_ui(estimate: &Estimate, view: &mut ChartView, ui: &mut Ui) {
    let (Some(parameters), Some(saving)) = (&estimate.composition, &estimate.saving) else {
        return;
    };
    ui.add_space(theme::GRID);
    StackedBar::new("Parameters", "million", &parts(parameters)).show(ui, view);
    widgets::caption(ui, &sentence(parameters, saving));
}

/// The parts, those that 4 bits can touch first; none that is not there.
fn parts(parameters: &Composition) -> Vec<(&'static str, f64)> {
    [
        ("linear layers (4 bits can store these)", parameters.linear),
        ("embedding", parameters.embedding),
        ("head", parameters.head),
        ("norms and biases", parameters.norms_and_biases),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| (name, count as f64 / MILLION))
    .collect()
}

/// What 4 bits would come to.
fn sentence(parameters: &Composition, saving: &QuantisationSaving) -> String {
    format!(
        "4 bits can touch {} of the parameters ({} million): the weights would take {} and not {}; while it trains, the matrices of one layer are unpacked beside them",
        percent(parameters.quantisable_share()),
        number(parameters.linear as f64 / MILLION),
        size(saving.quantised_bytes),
        size(saving.plain_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_what_can_be_stored_in_4_bits_and_what_comes_of_it() {
        let parameters = Composition {
            linear: 2_774_532_096,
            embedding: 311_164_928,
            head: 0,
            norms_and_biases: 241_664,
        };
        let saving = QuantisationSaving {
            plain_bytes: 6_171_877_376,
            quantised_bytes: 2_054_000_000,
        };
        let said = sentence(&parameters, &saving);
        assert!(
            said.starts_with("4 bits can touch 89.9 % of the parameters (2,775 million)"),
            "{said}"
        );
        assert!(said.contains("take 1.9 GiB and not 5.7 GiB"), "{said}");
        let names: Vec<&str> = parts(&parameters).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names.len(),
            3,
            "a head that is the embedding is no part: {names:?}"
        );
    }
}
