//! The files of an AMD card that are read at each sample.
//!
//! Sensors are found by their labels, since their numbers differ from card to card. Names and units are those of the
//! kernel's `amdgpu` documentation ("GPU Power/Thermal Controls and Monitoring").

use std::path::{Path, PathBuf};

use super::kept_file::{KeptFile, Reading};
use super::{CardState, GpuSample};
use crate::tree::{entries, line_at};

/// Most sensors of a kind that are looked at.
const MAX_SENSORS: u32 = 16;

pub(super) struct AmdFiles {
    /// The folder that the sensors were found in.
    pub(super) sensors: Option<PathBuf>,
    vram_used: Option<KeptFile>,
    gtt_used: Option<KeptFile>,
    load: Option<KeptFile>,
    memory_load: Option<KeptFile>,
    core_clock: Option<KeptFile>,
    memory_clock: Option<KeptFile>,
    core_clock_steps: Option<KeptFile>,
    memory_clock_steps: Option<KeptFile>,
    edge: Option<KeptFile>,
    junction: Option<KeptFile>,
    memory_temperature: Option<KeptFile>,
    /// Which of the two exists differs from driver to driver; the first that gives a number counts.
    power: [Option<KeptFile>; 2],
    fan: Option<KeptFile>,
    fan_duty: Option<KeptFile>,
    fan_duty_max: Option<f64>,
}

/// The card's folder of sensors, which the kernel numbers in the order of their appearance.
pub(super) fn sensor_folder(device: &Path) -> Option<PathBuf> {
    entries(&device.join("hwmon"))
        .into_iter()
        .find(|folder| folder.join("name").exists())
}

impl AmdFiles {
    pub(super) fn open(device: &Path, sensors: Option<PathBuf>) -> Self {
        let of_device = |name: &str| KeptFile::open(&device.join(name));
        let of_sensors = |name: &str| KeptFile::open(&sensors.as_ref()?.join(name));
        let labelled =
            |kind: &str, label: &str| of_sensors(&input_with_label(sensors.as_ref()?, kind, label)?);
        let has_labels = sensors
            .as_ref()
            .is_some_and(|folder| folder.join("temp1_label").exists());
        Self {
            vram_used: of_device("mem_info_vram_used"),
            gtt_used: of_device("mem_info_gtt_used"),
            load: of_device("gpu_busy_percent"),
            memory_load: of_device("mem_busy_percent"),
            core_clock: labelled("freq", "sclk"),
            memory_clock: labelled("freq", "mclk"),
            core_clock_steps: of_device("pp_dpm_sclk"),
            memory_clock_steps: of_device("pp_dpm_mclk"),
            // Cards before Vega have one temperature without a label: that of the chip.
            edge: if has_labels {
                labelled("temp", "edge")
            } else {
                of_sensors("temp1_input")
            },
            junction: labelled("temp", "junction"),
            memory_temperature: labelled("temp", "mem"),
            power: [of_sensors("power1_average"), of_sensors("power1_input")],
            fan: of_sensors("fan1_input"),
            fan_duty: of_sensors("pwm1"),
            fan_duty_max: sensors
                .as_ref()
                .and_then(|folder| line_at(&folder.join("pwm1_max"))?.parse().ok())
                .filter(|max| *max > 0.0),
            sensors,
        }
    }

    /// Reads everything; true beside it when the device behind the files is gone.
    pub(super) fn read(&mut self) -> (GpuSample, bool) {
        let mut lost = false;
        let mut number =
            |file: &mut Option<KeptFile>| value(file, &mut lost, |text| text.parse::<f64>().ok());
        let vram_used = number(&mut self.vram_used);
        let gtt_used = number(&mut self.gtt_used);
        let load_percent = number(&mut self.load);
        let memory_load_percent = number(&mut self.memory_load);
        let core_hertz = number(&mut self.core_clock);
        let memory_hertz = number(&mut self.memory_clock);
        let edge = number(&mut self.edge);
        let junction = number(&mut self.junction);
        let memory_temperature = number(&mut self.memory_temperature);
        let [average, instant] = &mut self.power;
        let microwatts = number(average).or_else(|| number(instant));
        let fan_rpm = number(&mut self.fan);
        let duty = number(&mut self.fan_duty);
        let mut clock = |hertz: Option<f64>, steps: &mut Option<KeptFile>| {
            hertz
                .map(|hertz| hertz / 1e6)
                .or_else(|| value(steps, &mut lost, active_step_mhz))
        };
        let sample = GpuSample {
            state: CardState::Awake,
            vram_used_bytes: vram_used.map(|bytes| bytes as u64),
            gtt_used_bytes: gtt_used.map(|bytes| bytes as u64),
            load_percent,
            memory_load_percent,
            core_clock_mhz: clock(core_hertz, &mut self.core_clock_steps),
            memory_clock_mhz: clock(memory_hertz, &mut self.memory_clock_steps),
            edge_celsius: edge.map(|millis| millis / 1e3),
            junction_celsius: junction.map(|millis| millis / 1e3),
            memory_celsius: memory_temperature.map(|millis| millis / 1e3),
            power_watts: microwatts.map(|micros| micros / 1e6),
            fan_rpm,
            fan_percent: duty.zip(self.fan_duty_max).map(|(duty, max)| 100.0 * duty / max),
            ..GpuSample::default()
        };
        if lost {
            return (GpuSample::default(), true);
        }
        (sample, false)
    }
}

/// e.g. `temp2_input` for the temperature whose label is `junction`.
fn input_with_label(sensors: &Path, kind: &str, label: &str) -> Option<String> {
    (1..=MAX_SENSORS)
        .find(|number| line_at(&sensors.join(format!("{kind}{number}_label"))).as_deref() == Some(label))
        .map(|number| format!("{kind}{number}_input"))
}

fn value<T>(
    file: &mut Option<KeptFile>,
    lost: &mut bool,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    match file.as_mut()?.read(parse) {
        Reading::Value(value) => Some(value),
        Reading::Gap => None,
        Reading::Lost => {
            *lost = true;
            None
        }
    }
}

/// The clock with the star in lines such as `1: 2482Mhz *`; RDNA4 has a line `S: 19Mhz *` for deep sleep, and a card
/// may have no star at all.
fn active_step_mhz(steps: &str) -> Option<f64> {
    let line = steps.lines().find_map(|line| line.trim_end().strip_suffix('*'))?;
    let clock = line.split_once(':')?.1.trim().to_ascii_lowercase();
    clock.strip_suffix("mhz")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_starred_clock_counts() {
        assert_eq!(
            active_step_mhz("0: 500Mhz\n1: 2482Mhz *\n2: 2526Mhz\n"),
            Some(2482.0)
        );
        assert_eq!(active_step_mhz("S: 19Mhz *\n0: 96Mhz\n"), Some(19.0));
        for none in ["", "0: 500Mhz\n1: 800Mhz\n", "0: fast *"] {
            assert_eq!(active_step_mhz(none), None, "{none:?}");
        }
    }
}
