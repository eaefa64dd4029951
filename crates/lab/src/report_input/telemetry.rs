//! What a card's sensors told during a run, in the words of the report.

use std::path::Path;

use tunesmith_report::{Telemetry, TelemetryPoint};

use crate::run::{CardPoint, card_record};

/// Of a run; `None` where no card was watched, or where it is not known which one trained.
pub(super) fn telemetry(run: &Path) -> Option<Telemetry> {
    let card = card_record(run)?;
    Some(Telemetry {
        energy: card.energy,
        points: card.points.iter().map(point).collect(),
    })
}

fn point(point: &CardPoint) -> TelemetryPoint {
    TelemetryPoint {
        at_secs: point.at_secs,
        celsius: point.celsius,
        core_mhz: point.core_clock_mhz,
        watts: point.power_watts,
        load_percent: point.load_percent,
        vram_bytes: point.vram_used_bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tunesmith_measure::cost::Prices;
    use tunesmith_probe::telemetry::{CardState, GpuSample, Sample};

    use crate::{report_input::report_at_prices, run::Run, testing::TestRun};

    fn prices() -> Prices {
        Prices {
            currency: "EUR".to_owned(),
            per_kwh: Some(0.3),
            card: Some(999.0),
            card_hours: Some(10_000.0),
        }
    }

    #[test]
    fn a_training_on_a_card_has_thermals_energy_and_cost_in_its_report() {
        let home = tempfile::tempdir().unwrap();
        let folder = TestRun::new("2026-01-01T00:00:00Z")
            .device("cuda:0")
            .without_scores()
            .write(home.path());
        let run = Run::open(&folder).unwrap();
        let training = run.training().unwrap().unwrap();
        let samples: String = (0..=training.wall_secs.ceil() as u32)
            .map(|second| {
                let gpu = GpuSample {
                    pci: "0000:03:00.0".to_owned(),
                    state: CardState::Awake,
                    power_watts: Some(300.0),
                    junction_celsius: Some(85.0),
                    ..GpuSample::default()
                };
                let sample = Sample {
                    at_secs: f64::from(second),
                    gpus: vec![gpu],
                    processes_hidden: false,
                };
                serde_json::to_string(&sample).unwrap() + "\n"
            })
            .collect();
        fs::write(folder.join("telemetry.jsonl"), samples).unwrap();
        let report = report_at_prices(&run, prices()).unwrap();
        let telemetry = report.record.telemetry.unwrap();
        assert_eq!(telemetry.points[0].celsius, Some(85.0));
        let cost = report.cost.unwrap();
        assert!((cost.mean_watts.unwrap() - 300.0).abs() < 1e-6);
        let watt_hours = 300.0 * training.wall_secs / 3600.0;
        assert!((cost.watt_hours.unwrap() - watt_hours).abs() < 1e-6);
        let millions = training.real_tokens as f64 / 1e6;
        assert!((cost.wh_per_million_tokens.unwrap() - watt_hours / millions).abs() < 1e-6);
        assert!(cost.total_price.unwrap() > cost.energy_price.unwrap());
    }

    #[test]
    fn on_a_processor_energy_is_not_measured_and_none_is_made_up() {
        let home = tempfile::tempdir().unwrap();
        let folder = TestRun::new("2026-01-01T00:00:00Z")
            .without_scores()
            .write(home.path());
        let report = report_at_prices(&Run::open(&folder).unwrap(), prices()).unwrap();
        assert_eq!(report.record.telemetry, None);
        let cost = report.cost.unwrap();
        assert_eq!(
            (cost.mean_watts, cost.energy_price, cost.total_price),
            (None, None, None)
        );
    }
}
