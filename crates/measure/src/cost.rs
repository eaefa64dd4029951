//! What a training costs: energy as a card's sensors told it, and money at prices that the user states (U8). Nothing
//! here has a price or a consumption of its own: what was not read or not stated stays `None`.

use serde::{Deserialize, Serialize};

/// Least share of the time that readings must cover before their mean power is taken for the whole of it.
const LEAST_COVERED: f64 = 0.5;

/// Energy that was read during a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyRead {
    /// Watt-hours over the seconds that the readings cover.
    pub watt_hours: f64,
    /// Seconds that the readings cover; gaps between readings are not among them.
    pub covered_secs: f64,
}

impl EnergyRead {
    /// Mean power over the covered seconds, in watts; `None` where nothing is covered.
    pub fn mean_watts(&self) -> Option<f64> {
        let watts = self.watt_hours * 3600.0 / self.covered_secs;
        (self.covered_secs > 0.0 && self.watt_hours >= 0.0 && watts.is_finite()).then_some(watts)
    }
}

/// What the user says things cost. Each part may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// The currency as it is written, e.g. `EUR`.
    #[serde(default)]
    pub currency: String,
    /// A kilowatt-hour.
    #[serde(default)]
    pub per_kwh: Option<f64>,
    /// The card.
    #[serde(default)]
    pub card: Option<f64>,
    /// Hours of work over which the card's price is spread.
    #[serde(default)]
    pub card_hours: Option<f64>,
}

/// What a training used and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Mean power in watts.
    pub mean_watts: Option<f64>,
    /// Share of the time that was read, 0 to 1.
    pub covered_share: Option<f64>,
    /// Energy of the whole time: mean power times time. `None` where less than half of the time was read.
    pub watt_hours: Option<f64>,
    /// That for a million real tokens.
    pub wh_per_million_tokens: Option<f64>,
    /// Price of the energy.
    pub energy_price: Option<f64>,
    /// The part of the card's price that the time took: price × hours ÷ hours of its life.
    pub card_price: Option<f64>,
    /// Both; `None` unless both are known.
    pub total_price: Option<f64>,
    /// What is known of the price, for a million real tokens: both parts, else the energy alone.
    pub price_per_million_tokens: Option<f64>,
    /// Real tokens a second for each hundred units of the card's price.
    pub tokens_per_sec_per_hundred: Option<f64>,
}

/// What is priced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priced {
    /// Energy that was read during it, where a sensor was.
    pub energy: Option<EnergyRead>,
    /// How long it took.
    pub secs: f64,
    /// Real tokens that it trained.
    pub real_tokens: u64,
    /// Its steady speed in real tokens a second.
    pub tokens_per_sec: Option<f64>,
}

impl Cost {
    /// Of a training, at these prices. A price, a time or a count that is not above zero counts as unknown.
    pub fn of(work: &Priced, prices: &Prices) -> Self {
        let secs = above_zero(work.secs);
        let millions = above_zero(work.real_tokens as f64 / 1e6);
        let covered_share = work
            .energy
            .zip(secs)
            .map(|(energy, secs)| energy.covered_secs / secs)
            .filter(|share| share.is_finite())
            .map(|share| share.clamp(0.0, 1.0));
        let mean_watts = work.energy.and_then(|energy| energy.mean_watts());
        let enough = covered_share.is_some_and(|share| share >= LEAST_COVERED);
        let watt_hours = mean_watts
            .zip(secs)
            .filter(|_| enough)
            .map(|(watts, secs)| watts * secs / 3600.0);
        let energy_price = watt_hours
            .zip(prices.per_kwh.and_then(above_zero))
            .map(|(wh, per_kwh)| wh / 1e3 * per_kwh);
        let card = prices.card.and_then(above_zero);
        let card_price = match (card, prices.card_hours.and_then(above_zero), secs) {
            (Some(card), Some(hours), Some(secs)) => Some(card * secs / 3600.0 / hours),
            _ => None,
        };
        let total_price = energy_price.zip(card_price).map(|(energy, card)| energy + card);
        let per_million = |value: Option<f64>| value.zip(millions).map(|(value, millions)| value / millions);
        Self {
            mean_watts,
            covered_share,
            watt_hours,
            wh_per_million_tokens: per_million(watt_hours),
            energy_price,
            card_price,
            total_price,
            price_per_million_tokens: per_million(total_price.or(energy_price)),
            tokens_per_sec_per_hundred: work
                .tokens_per_sec
                .and_then(above_zero)
                .zip(card)
                .map(|(speed, card)| speed / (card / 100.0)),
        }
    }
}

fn above_zero(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An hour at 300 W and two million tokens.
    fn hour() -> Priced {
        Priced {
            energy: Some(EnergyRead {
                watt_hours: 300.0,
                covered_secs: 3600.0,
            }),
            secs: 3600.0,
            real_tokens: 2_000_000,
            tokens_per_sec: Some(600.0),
        }
    }

    fn prices() -> Prices {
        Prices {
            currency: "EUR".into(),
            per_kwh: Some(0.30),
            card: Some(1000.0),
            card_hours: Some(10_000.0),
        }
    }

    #[test]
    fn an_hour_at_three_hundred_watts() {
        let cost = Cost::of(&hour(), &prices());
        let near = |value: Option<f64>, wanted: f64| {
            assert!(
                (value.unwrap() - wanted).abs() < 1e-9,
                "{value:?} is not {wanted}"
            );
        };
        near(cost.mean_watts, 300.0);
        near(cost.covered_share, 1.0);
        near(cost.watt_hours, 300.0);
        near(cost.wh_per_million_tokens, 150.0);
        near(cost.energy_price, 0.09);
        near(cost.card_price, 0.10);
        near(cost.total_price, 0.19);
        near(cost.price_per_million_tokens, 0.095);
        near(cost.tokens_per_sec_per_hundred, 60.0);
    }

    #[test]
    fn without_readings_no_energy_is_made_up() {
        let work = Priced {
            energy: None,
            ..hour()
        };
        let cost = Cost::of(&work, &prices());
        assert_eq!(
            (
                cost.mean_watts,
                cost.watt_hours,
                cost.energy_price,
                cost.total_price
            ),
            (None, None, None, None)
        );
        assert!(cost.card_price.is_some(), "the card's part needs no sensor");
        assert_eq!(cost.price_per_million_tokens, None);
    }

    #[test]
    fn gaps_are_told_and_too_many_of_them_leave_the_energy_unknown() {
        let read = |covered_secs: f64| Priced {
            energy: Some(EnergyRead {
                watt_hours: 300.0 * covered_secs / 3600.0,
                covered_secs,
            }),
            ..hour()
        };
        let most = Cost::of(&read(2700.0), &Prices::default());
        assert_eq!(most.covered_share, Some(0.75));
        assert!((most.watt_hours.unwrap() - 300.0).abs() < 1e-9);
        let little = Cost::of(&read(360.0), &Prices::default());
        assert!((little.mean_watts.unwrap() - 300.0).abs() < 1e-9);
        assert_eq!((little.watt_hours, little.wh_per_million_tokens), (None, None));
    }

    #[test]
    fn what_is_not_stated_costs_nothing_and_is_not_zero() {
        assert_eq!(
            Cost::of(&hour(), &Prices::default()).price_per_million_tokens,
            None
        );
        let nonsense = Prices {
            per_kwh: Some(-1.0),
            card: Some(0.0),
            card_hours: Some(f64::NAN),
            ..prices()
        };
        let cost = Cost::of(&hour(), &nonsense);
        assert_eq!(
            (cost.energy_price, cost.card_price, cost.total_price),
            (None, None, None)
        );
    }

    proptest! {
        #[test]
        fn nothing_is_ever_no_number(
            watt_hours in prop::num::f64::ANY, covered_secs in prop::num::f64::ANY, secs in prop::num::f64::ANY,
            real_tokens in 0_u64..10, price in prop::num::f64::ANY,
        ) {
            let work = Priced {
                energy: Some(EnergyRead { watt_hours, covered_secs }), secs, real_tokens, tokens_per_sec: Some(price),
            };
            let prices = Prices { currency: String::new(), per_kwh: Some(price), card: Some(price), card_hours: Some(secs) };
            let cost = Cost::of(&work, &prices);
            for value in [cost.mean_watts, cost.covered_share] {
                prop_assert!(value.is_none_or(|value| !value.is_nan() && value >= 0.0));
            }
        }
    }
}
