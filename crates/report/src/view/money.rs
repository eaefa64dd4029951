//! Energy and cost of a training (U8): what a sensor told and what the user's own prices make of it. What was not read
//! or not stated is called unknown, with the way to get it.

use serde::Serialize;
use tunesmith_measure::cost::{Cost, Priced, Prices};

use crate::format::{number, percent, significant};
use crate::{ReportInput, TrainingRecord};

#[derive(Serialize)]
pub(super) struct MoneyView {
    sentence: String,
    rows: Vec<[String; 3]>,
    known: bool,
    /// Whether something is unknown, and says why.
    missing: bool,
}

/// What a training used and cost.
pub(crate) fn cost_of(record: &ReportInput, training: &TrainingRecord) -> Cost {
    let summary = &training.summary;
    let work = Priced {
        energy: record.telemetry.as_ref().and_then(|telemetry| telemetry.energy),
        secs: summary.wall_secs,
        real_tokens: summary.real_tokens,
        tokens_per_sec: summary.steady_tokens_per_sec,
    };
    Cost::of(&work, &record.prices)
}

impl MoneyView {
    pub(super) fn of(cost: &Cost, prices: &Prices) -> Self {
        let currency = if prices.currency.is_empty() {
            "units of the price"
        } else {
            &prices.currency
        };
        let sentence = match (cost.mean_watts, cost.wh_per_million_tokens) {
            (Some(watts), Some(wh)) => format!(
                "The card took {} W on average, {} Wh for a million real tokens.",
                number(watts),
                number(wh)
            ),
            (Some(watts), None) => format!(
                "The card took {} W while it was read, which is too little of the time to tell its energy.",
                number(watts)
            ),
            (None, _) => {
                "Not measured: no sensor told power or energy, so what the training used is unknown."
                    .to_owned()
            }
        };
        let unread = "not measured: no sensor told";
        let unstated = "give --tariff, the price of a kilowatt-hour";
        let no_card = "give --card-price and --card-hours";
        let row = |name: &str, value: Option<String>, unit: &str, missing: &str| {
            let known = value.is_some();
            [
                name.to_owned(),
                value.map_or_else(
                    || "unknown".to_owned(),
                    |value| format!("{value} {unit}").trim().to_owned(),
                ),
                if known { String::new() } else { missing.to_owned() },
            ]
        };
        let money = |value: Option<f64>| value.map(|value| significant(value, 3));
        let no_energy_price = if cost.watt_hours.is_none() {
            unread
        } else {
            unstated
        };
        let mut rows = vec![
            row("Mean power", cost.mean_watts.map(number), "W", unread),
            row(
                "Energy of the training",
                cost.watt_hours.map(number),
                "Wh",
                unread,
            ),
            row(
                "Energy for a million real tokens",
                cost.wh_per_million_tokens.map(number),
                "Wh",
                unread,
            ),
            row(
                "Price of the energy",
                money(cost.energy_price),
                currency,
                no_energy_price,
            ),
            row(
                "Part of the card's price",
                money(cost.card_price),
                currency,
                no_card,
            ),
            row(
                "Both",
                money(cost.total_price),
                currency,
                "one of the two is unknown",
            ),
            row(
                "Price for a million real tokens",
                money(cost.price_per_million_tokens),
                currency,
                no_energy_price,
            ),
            row(
                "Speed for the card's price",
                cost.tokens_per_sec_per_hundred.map(number),
                &format!("tokens/s for 100 {currency}"),
                "give --card-price",
            ),
        ];
        if let Some(share) = cost.covered_share.filter(|share| *share < 0.995) {
            rows.insert(
                1,
                row("Share of the time that was read", Some(percent(share)), "", ""),
            );
        }
        Self {
            sentence,
            known: rows.iter().any(|row| row[1] != "unknown"),
            missing: rows.iter().any(|row| !row[2].is_empty()),
            rows,
        }
    }
}
