//! This machine on systems without `/proc`. The general library knows less, and what it does not know stays unknown.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::{Load, Machine};

pub(crate) fn machine() -> Machine {
    let kinds = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(MemoryRefreshKind::nothing().with_ram());
    let mut machine = Machine {
        os: System::long_os_version().ok(),
        kernel: System::kernel_version().ok(),
        cores_physical: System::physical_core_count().ok(),
        ..Machine::default()
    };
    if let Ok(system) = System::new_with_specifics(kinds) {
        let cpus = system.cpus();
        let brand = cpus.first().map(|cpu| cpu.brand().trim().to_owned());
        machine.cpu_model = brand.filter(|brand| !brand.is_empty());
        machine.cores_logical = Some(cpus.len()).filter(|count| *count > 0);
        machine.memory_bytes = Some(system.total_memory()).filter(|bytes| *bytes > 0);
    }
    machine
}

pub(crate) fn load() -> Load {
    let kinds = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(kinds).ok();
    // Windows has no such average; zeros in its place would look like an idle machine.
    let average = if cfg!(unix) {
        System::load_average().ok()
    } else {
        None
    };
    Load {
        load_average_1m: average.map(|average| average.one),
        available_memory_bytes: system
            .map(|system| system.available_memory())
            .filter(|bytes| *bytes > 0),
        ..Load::default()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_basics_are_known_everywhere() {
        let machine = super::machine();
        assert!(machine.cores_logical.unwrap() >= 1);
        assert!(machine.memory_bytes.unwrap() > 0);
        assert!(super::load().available_memory_bytes.unwrap() <= machine.memory_bytes.unwrap());
    }
}
