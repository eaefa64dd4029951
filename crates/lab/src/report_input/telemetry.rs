//! What a card's sensors told during a run, read from the samples in the run's folder.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use tunesmith_measure::cost::EnergyRead;
use tunesmith_probe::telemetry::{CardState, Energy, Sample};
use tunesmith_report::{Telemetry, TelemetryPoint};

/// A sample a line, beside the run's other files.
const FILE: &str = "telemetry.jsonl";

/// Most points that a report holds of a run.
const MOST_POINTS: usize = 600;

/// The samples of the one card that worked; `None` where there are none, or where several cards did, since which of them trained
/// is then not known.
pub(super) fn telemetry(run: &Path) -> Option<Telemetry> {
    let samples = samples(run);
    let awake: BTreeSet<&str> = samples
        .iter()
        .flat_map(|sample| &sample.gpus)
        .filter(|gpu| gpu.state == CardState::Awake)
        .map(|gpu| gpu.pci.as_str())
        .collect();
    let card = awake.first().filter(|_| awake.len() == 1)?;
    let of_card: Vec<_> = samples
        .iter()
        .filter_map(|sample| {
            let gpu = sample.gpus.iter().find(|gpu| gpu.pci == *card)?;
            Some((sample.at_secs, gpu))
        })
        .collect();
    let mut energy = Energy::default();
    for (at_secs, gpu) in &of_card {
        energy.add(*at_secs, gpu);
    }
    let every = of_card.len().div_ceil(MOST_POINTS).max(1);
    Some(Telemetry {
        energy: energy.watt_hours().map(|watt_hours| EnergyRead {
            watt_hours,
            covered_secs: energy.covered_secs(),
        }),
        points: of_card
            .iter()
            .step_by(every)
            .map(|(at_secs, gpu)| TelemetryPoint {
                at_secs: *at_secs,
                celsius: gpu.junction_celsius.or(gpu.edge_celsius),
                core_mhz: gpu.core_clock_mhz,
                watts: gpu.power_watts,
                load_percent: gpu.load_percent,
                vram_bytes: gpu.vram_used_bytes,
            })
            .collect(),
    })
}

/// A line that was cut off is passed over.
fn samples(run: &Path) -> Vec<Sample> {
    let Ok(file) = File::open(run.join(FILE)) else {
        return Vec::new();
    };
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tunesmith_probe::telemetry::GpuSample;

    fn line(at_secs: f64, cards: &[(&str, f64)]) -> String {
        let sample = Sample {
            at_secs,
            gpus: cards
                .iter()
                .map(|(pci, watts)| GpuSample {
                    pci: (*pci).to_owned(),
                    state: CardState::Awake,
                    power_watts: Some(*watts),
                    edge_celsius: Some(60.0),
                    junction_celsius: Some(80.0),
                    ..GpuSample::default()
                })
                .collect(),
            processes_hidden: false,
        };
        serde_json::to_string(&sample).unwrap() + "\n"
    }

    #[test]
    fn energy_and_curves_come_from_the_samples_of_the_card_that_worked() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(telemetry(folder.path()), None);
        let lines: String = (0..=3600)
            .map(|second| line(f64::from(second), &[("0000:03:00.0", 300.0)]))
            .collect();
        fs::write(folder.path().join(FILE), lines + "{\"at_secs\": 9").unwrap();
        let told = telemetry(folder.path()).unwrap();
        let energy = told.energy.unwrap();
        assert!((energy.watt_hours - 300.0).abs() < 0.2 && (energy.covered_secs - 3600.0).abs() < 1.0);
        assert!(told.points.len() <= MOST_POINTS && told.points[1].celsius == Some(80.0));
    }

    #[test]
    fn with_two_cards_at_work_nobody_knows_which_one_trained() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), line(0.0, &[("a", 100.0), ("b", 100.0)])).unwrap();
        assert_eq!(telemetry(folder.path()), None);
    }
}
