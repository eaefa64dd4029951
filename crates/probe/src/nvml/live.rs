//! The library of this machine, through the crate `nvml-wrapper`, which loads it at run time.
//!
//! A card answers `not supported` to single questions; the card is kept and the field stays `None`.

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::{Device, Nvml, NvmlError, kernel_address, multiprocessors};
use crate::detect::clean;
use crate::telemetry::{CardState, GpuProcess, GpuSample};

pub(super) struct Library(nvml_wrapper::Nvml);

impl Library {
    pub(super) fn load() -> Result<Self, NvmlError> {
        use nvml_wrapper::error::NvmlError as Error;
        nvml_wrapper::Nvml::init().map(Self).map_err(|error| match error {
            Error::LibloadingError(_) | Error::LibraryNotFound => NvmlError::NoLibrary(error.to_string()),
            error => no_answer(error),
        })
    }

    fn card(&self, pci: &str) -> Result<nvml_wrapper::Device<'_>, NvmlError> {
        self.0.device_by_pci_bus_id(pci).map_err(no_answer)
    }
}

// By value, so that it can be given to `map_err` as it is.
#[allow(clippy::needless_pass_by_value)]
fn no_answer(error: nvml_wrapper::error::NvmlError) -> NvmlError {
    NvmlError::NoAnswer(error.to_string())
}

impl Nvml for Library {
    fn driver_version(&self) -> Option<String> {
        self.0.sys_driver_version().ok().map(|version| clean(&version))
    }

    fn cuda_driver_version(&self) -> Option<String> {
        // 13000 is 13.0, 12080 is 12.8.
        let version = self
            .0
            .sys_cuda_driver_version()
            .ok()
            .filter(|version| *version > 0)?;
        Some(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    fn addresses(&self) -> Result<Vec<String>, NvmlError> {
        let count = self.0.device_count().map_err(no_answer)?;
        let address = |index| self.0.device_by_index(index).ok()?.pci_info().ok();
        Ok((0..count)
            .filter_map(address)
            .map(|info| kernel_address(&info.bus_id))
            .collect())
    }

    fn device(&self, pci: &str) -> Result<Device, NvmlError> {
        let card = self.card(pci)?;
        let ids = card.pci_info().ok();
        let memory = card.memory_info().ok();
        let capability = card.cuda_compute_capability().ok();
        let cores = card.num_cores().ok();
        Ok(Device {
            pci: pci.to_owned(),
            // Both are pairs of model and maker, the maker in the lower half.
            device_id: ids
                .as_ref()
                .map(|ids| format!("0x{:04x}", ids.pci_device_id >> 16)),
            subsystem: ids
                .and_then(|ids| ids.pci_sub_system_id)
                .filter(|id| *id != 0)
                .map(|id| format!("{:04x}:{:04x}", id & 0xffff, id >> 16)),
            name: card.name().ok().map(|name| clean(&name)),
            uuid: card.uuid().ok().map(|uuid| clean(&uuid)),
            multiprocessors: capability
                .as_ref()
                .zip(cores)
                .and_then(|(capability, cores)| multiprocessors(cores, capability.major, capability.minor)),
            compute_capability: capability
                .map(|capability| format!("{}.{}", capability.major, capability.minor)),
            memory_bytes: memory
                .as_ref()
                .map(|memory| memory.total)
                .filter(|bytes| *bytes > 0),
            memory_used_bytes: memory.filter(|memory| memory.total > 0).map(|memory| memory.used),
            bar1_bytes: card
                .bar1_memory_info()
                .ok()
                .map(|memory| memory.total)
                .filter(|bytes| *bytes > 0),
            power_limit_watts: card
                .enforced_power_limit()
                .ok()
                .map(|milliwatts| f64::from(milliwatts) / 1e3),
            link_generation: card.current_pcie_link_gen().ok(),
            link_width: card.current_pcie_link_width().ok(),
            max_link_generation: card.max_pcie_link_gen().ok(),
            max_link_width: card.max_pcie_link_width().ok(),
        })
    }

    fn reading(&self, pci: &str) -> Result<GpuSample, NvmlError> {
        let card = self.card(pci)?;
        let load = card.utilization_rates().ok();
        let mut processes: Vec<GpuProcess> = Vec::new();
        let lists = [
            card.running_compute_processes(),
            card.running_graphics_processes(),
        ];
        for process in lists.into_iter().flatten().flatten() {
            add_process(&mut processes, &process);
        }
        Ok(GpuSample {
            pci: pci.to_owned(),
            state: CardState::Awake,
            vram_used_bytes: card
                .memory_info()
                .ok()
                .filter(|memory| memory.total > 0)
                .map(|memory| memory.used),
            gtt_used_bytes: None,
            load_percent: load.as_ref().map(|load| f64::from(load.gpu)),
            memory_load_percent: load.map(|load| f64::from(load.memory)),
            core_clock_mhz: card.clock_info(Clock::Graphics).ok().map(f64::from),
            memory_clock_mhz: card.clock_info(Clock::Memory).ok().map(f64::from),
            edge_celsius: card.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            junction_celsius: None,
            memory_celsius: None,
            power_watts: card
                .power_usage()
                .ok()
                .map(|milliwatts| f64::from(milliwatts) / 1e3),
            energy_joules: card
                .total_energy_consumption()
                .ok()
                .map(|millijoules| millijoules as f64 / 1e3),
            fan_rpm: None,
            fan_percent: card.fan_speed(0).ok().map(f64::from),
            evicted_vram_bytes: None,
            processes,
        })
    }
}

/// A program that computes and draws is in both lists, with the same memory.
fn add_process(processes: &mut Vec<GpuProcess>, process: &ProcessInfo) {
    let vram_bytes = match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    match processes.iter_mut().find(|known| known.pid == process.pid) {
        Some(known) => known.vram_bytes = known.vram_bytes.max(vram_bytes),
        None => processes.push(GpuProcess {
            pid: process.pid,
            vram_bytes,
            ..GpuProcess::default()
        }),
    }
}
