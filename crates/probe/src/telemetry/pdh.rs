//! Windows: the counters of its performance monitor, which know the use of a card by everyone.
//!
//! The system calls write a listing of one `path<tab>value` a line; this module reads it, on every system. Paths are
//! in English whatever the language of Windows:
//! `\GPU Adapter Memory(luid_0x00000000_0x0000D1B5_phys_0)\Dedicated Usage` and
//! `\GPU Engine(pid_1234_luid_0x00000000_0x0000D1B5_phys_0_eng_0_engtype_3D)\Utilization Percentage`.
//!
//! The names of the memory counters were not yet seen on a Windows machine by this program.

use std::collections::BTreeMap;

use super::{CardState, GpuProcess, GpuSample};

/// Figures of each adapter in a listing, by its LUID (`0x00000000_0x0000d1b5`), which Windows gives anew at each start.
/// The sample's address is left empty: a LUID names no place on the bus.
///
/// Engines work side by side, so the load is that of the busiest kind of engine, never the sum over kinds.
pub fn samples(listing: &str) -> BTreeMap<String, GpuSample> {
    let mut adapters: BTreeMap<String, Adapter> = BTreeMap::new();
    for (path, value) in listing
        .lines()
        .filter_map(|line| line.trim_end().rsplit_once('\t'))
    {
        let Some(counter) = Counter::parse(path) else {
            continue;
        };
        let Some(value) = value
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite() && *value >= 0.0)
        else {
            continue;
        };
        adapters
            .entry(counter.luid.clone())
            .or_default()
            .add(&counter, value);
    }
    adapters
        .into_iter()
        .map(|(luid, adapter)| (luid, adapter.sample()))
        .collect()
}

struct Counter<'a> {
    object: &'a str,
    name: &'a str,
    luid: String,
    pid: Option<u32>,
    engine: Option<&'a str>,
}

impl<'a> Counter<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        // A path may begin with the machine's name, as in `\\NAME\GPU Engine(…)\…`.
        let (before, rest) = path.split_once('(')?;
        let (instance, name) = rest.split_once(")\\")?;
        let luid = instance.split_once("luid_")?.1;
        let mut parts = luid.splitn(3, '_');
        let (high, low) = (parts.next()?, parts.next()?);
        let pid = instance
            .strip_prefix("pid_")
            .and_then(|rest| rest.split('_').next()?.parse().ok());
        Some(Self {
            object: before.rsplit('\\').next()?,
            name,
            luid: format!("{high}_{low}").to_ascii_lowercase(),
            pid,
            engine: instance.split_once("engtype_").map(|(_, engine)| engine),
        })
    }
}

#[derive(Default)]
struct Adapter {
    dedicated: Option<f64>,
    shared: Option<f64>,
    engines: BTreeMap<String, f64>,
    processes: BTreeMap<u32, GpuProcess>,
}

impl Adapter {
    fn add(&mut self, counter: &Counter<'_>, value: f64) {
        let sum = |total: &mut Option<f64>| *total = Some(total.unwrap_or(0.0) + value);
        // PowerShell writes all of it in small letters.
        let (object, name) = (
            counter.object.to_ascii_lowercase(),
            counter.name.to_ascii_lowercase(),
        );
        match (object.as_str(), name.as_str(), counter.pid) {
            ("gpu adapter memory", "dedicated usage", _) => sum(&mut self.dedicated),
            ("gpu adapter memory", "shared usage", _) => sum(&mut self.shared),
            ("gpu engine", "utilization percentage", _) => {
                if let Some(engine) = counter.engine {
                    *self.engines.entry(engine.to_owned()).or_default() += value;
                }
            }
            ("gpu process memory", name, Some(pid)) => {
                let process = self.processes.entry(pid).or_default();
                process.pid = pid;
                match name {
                    "dedicated usage" => process.vram_bytes = Some(value as u64),
                    "shared usage" => process.gtt_bytes = Some(value as u64),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn sample(self) -> GpuSample {
        GpuSample {
            state: CardState::Awake,
            vram_used_bytes: self.dedicated.map(|bytes| bytes as u64),
            gtt_used_bytes: self.shared.map(|bytes| bytes as u64),
            load_percent: self
                .engines
                .into_values()
                .max_by(f64::total_cmp)
                .map(|load| load.min(100.0)),
            processes: self.processes.into_values().collect(),
            ..GpuSample::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "luid_0x00000000_0x0000D1B5_phys_0";

    #[test]
    fn use_of_an_adapter_and_of_its_processes() {
        let listing = format!(
            "\\GPU Adapter Memory({CARD})\\Dedicated Usage\t8589934592\r\n\
             \\GPU Adapter Memory({CARD})\\Shared Usage\t1048576\r\n\
             \\GPU Engine(pid_10_{CARD}_eng_0_engtype_3D)\\Utilization Percentage\t20.5\n\
             \\GPU Engine(pid_11_{CARD}_eng_0_engtype_3D)\\Utilization Percentage\t30\n\
             \\GPU Engine(pid_11_{CARD}_eng_1_engtype_Compute 0)\\Utilization Percentage\t40\n\
             \\GPU Process Memory(pid_11_{CARD})\\Dedicated Usage\t4096\n\
             \\\\DESKTOP\\GPU Adapter Memory(luid_0x00000000_0x0000AAAA_phys_0)\\Dedicated Usage\t1\n"
        );
        let samples = samples(&listing);
        let card = &samples["0x00000000_0x0000d1b5"];
        assert_eq!(
            (card.vram_used_bytes, card.gtt_used_bytes),
            (Some(8 << 30), Some(1 << 20))
        );
        assert_eq!(card.load_percent, Some(50.5));
        assert_eq!(card.processes.len(), 1);
        assert_eq!(
            (card.processes[0].pid, card.processes[0].vram_bytes),
            (11, Some(4096))
        );
        assert_eq!(samples["0x00000000_0x0000aaaa"].vram_used_bytes, Some(1));
    }

    #[test]
    fn what_is_no_counter_is_left_out() {
        let odd = format!(
            "\nno tab\n\\GPU Engine({CARD})\\Utilization Percentage\tnan\n\\Memory\\Available\t5\n(\t1\n"
        );
        assert_eq!(samples(&odd), BTreeMap::new());
        let no_load = samples(&format!("\\GPU Adapter Memory({CARD})\\Dedicated Usage\t5\n"));
        assert_eq!(
            no_load["0x00000000_0x0000d1b5"].load_percent, None,
            "the first sample has no load"
        );
    }
}
