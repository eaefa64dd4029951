//! What follows from what was read: memory that a trainer may use, peak rates, bandwidth, and on which cards to train.

use super::found::Found;
use crate::{Card, CardTable, Derived, Gpu, GpuVendor, Kernel, Machine, Peak, Unit};

const GIB: f64 = 1_073_741_824.0;
const PAGE: u64 = 4096;
/// Targets for which no library has kernels for training, whatever the memory (detection.md sections 3 and 5).
const CANNOT_TRAIN: [&str; 7] = [
    "gfx803", "gfx902", "gfx904", "gfx909", "gfx90c", "gfx1013", "gfx1033",
];
/// Two compute units, as in desktop processors, are slower than the processor beside them.
const FEWEST_UNITS: u32 = 4;
/// The oldest NVIDIA cards for which torch still has a build (setup.md section 4: CUDA 12.6 covers sm_50).
const OLDEST_CAPABILITY: u32 = 5;

/// Main memory at the moment of reading.
#[derive(Clone, Copy, Default)]
pub(crate) struct HostMemory {
    pub(crate) total: Option<u64>,
    pub(crate) available: Option<u64>,
}

/// Bytes that a trainer may use on a card.
///
/// A discrete card: its memory. A processor's graphics: the one pool from which ROCm allocates, and while that is main
/// memory never more than the limits leave (detection.md section 4). The two are never added.
pub(crate) fn trainable(
    gpu: &Gpu,
    kernel: &Kernel,
    machine: &Machine,
    host: HostMemory,
) -> Option<Derived<u64>> {
    let derived = |value: u64, how: String| Some(Derived { value, how });
    if gpu.integrated == Some(false) {
        return match (gpu.vram_bytes, gpu.pool_bytes) {
            (Some(vram), Some(pool)) if pool < vram => derived(
                pool,
                "the pool that the driver gives of the card's memory".to_owned(),
            ),
            (Some(vram), _) => derived(vram, "the card's memory".to_owned()),
            (None, _) => None,
        };
    }
    gpu.integrated?;
    let (mut value, mut how) = match (gpu.pool_bytes, gpu.gtt_bytes, gpu.vram_bytes) {
        (Some(pool), ..) => (pool, "the one pool that ROCm allocates from".to_owned()),
        (None, Some(gtt), vram) if vram.is_none_or(|vram| vram < gtt) => {
            (gtt, "main memory that the graphics may map (GTT)".to_owned())
        }
        (None, _, Some(vram)) => (vram, "the memory that is set aside for the graphics".to_owned()),
        _ => return None,
    };
    // The carve-out is the graphics' own; nobody else can take it.
    if gpu.vram_bytes.is_some_and(|vram| value <= vram) {
        return derived(value, how);
    }
    let mut at_most = |limit: Option<u64>, name: String| {
        if let Some(limit) = limit.filter(|limit| *limit < value) {
            value = limit;
            how = name;
        }
    };
    at_most(
        kernel.ttm_pages_limit.and_then(|pages| pages.checked_mul(PAGE)),
        "the limit ttm.pages_limit".to_owned(),
    );
    let total = host.total.or(machine.memory_bytes);
    if let Some(total) = total {
        let reserve = (6 << 30).max(total / 100 * 8);
        let (free, what) = match host.available {
            Some(available) => (available, "free main memory"),
            None => (total, "main memory"),
        };
        let how = format!("{what} less {:.1} GiB for the system", reserve as f64 / GIB);
        at_most(Some(free.saturating_sub(reserve)), how);
    }
    at_most(
        machine.limits.memory_max_bytes,
        "the container's memory limit".to_owned(),
    );
    derived(value, how)
}

/// Peak rates by the vendor's boost clock, or by the driver's limit for a card that the table lacks.
pub(crate) fn peak(found: &Found, card: Option<&Card>, cards: &CardTable) -> Option<Peak> {
    let gpu = &found.gpu;
    let (family, units, clock_mhz, vendor_clock) = if let Some(card) = card {
        let units = card.compute_units.or(card.multiprocessors)?;
        (cards.family(&card.family)?, units, card.boost_mhz?, true)
    } else {
        // A laptop's NVIDIA part has its desktop name and another chip: no peak without a row of its own.
        let family = cards.family_of_gfx(gpu.gfx.as_deref()?)?;
        (family, gpu.compute_units?, found.clock_mhz?, false)
    };
    let rate =
        |flop: Option<u32>| flop.map(|flop| f64::from(units) * f64::from(flop) * f64::from(clock_mhz) * 1e6);
    let unit = match family.unit {
        Unit::ComputeUnit => "CUs",
        Unit::Multiprocessor => "SMs",
    };
    let clock = if vendor_clock {
        "boost clock of the card table"
    } else {
        "the driver's limit, not the vendor's boost clock"
    };
    let flop = family.fp16_flop_per_clock?;
    Some(Peak {
        fp16_flops_per_sec: rate(family.fp16_flop_per_clock),
        bf16_flops_per_sec: rate(family.bf16_flop_per_clock),
        how: format!("{units} {unit} x {flop} FLOP/clock x {clock_mhz} MHz ({clock})"),
        vendor_clock,
    })
}

pub(crate) fn bandwidth(card: &Card) -> Option<Derived<f64>> {
    let gigabytes = card.bandwidth_gb_per_sec?;
    Some(Derived {
        value: gigabytes * 1e9,
        how: format!("{gigabytes} GB/s by the card table ({})", card.name),
    })
}

/// The cards to train on: the discrete ones that can, those with a driver before those without; where there are none,
/// the processor's graphics if they can.
pub(crate) fn train_on(gpus: &[Gpu]) -> Vec<usize> {
    let chosen = |integrated: bool, with_driver: bool| -> Vec<usize> {
        let fits = |gpu: &Gpu| {
            gpu.integrated == Some(integrated) && can_train(gpu) && (!with_driver || has_driver(gpu))
        };
        (0..gpus.len()).filter(|at| fits(&gpus[*at])).collect()
    };
    [(false, true), (false, false), (true, true), (true, false)]
        .into_iter()
        .map(|(integrated, with_driver)| chosen(integrated, with_driver))
        .find(|chosen| !chosen.is_empty())
        .unwrap_or_default()
}

fn can_train(gpu: &Gpu) -> bool {
    // A card that a virtual machine has, or that a container hides, is not ours.
    if gpu.driver.as_deref() == Some("vfio-pci") || gpu.kfd_forbidden {
        return false;
    }
    match gpu.vendor {
        Some(GpuVendor::Amd) => {
            gpu.gfx.as_deref().is_none_or(|gfx| !CANNOT_TRAIN.contains(&gfx))
                && (gpu.integrated != Some(true)
                    || gpu.compute_units.is_none_or(|units| units >= FEWEST_UNITS))
        }
        Some(GpuVendor::Nvidia) => {
            let major = gpu
                .compute_capability
                .as_deref()
                .and_then(|version| version.split('.').next()?.parse().ok());
            major.is_none_or(|major: u32| major >= OLDEST_CAPABILITY)
        }
        None => false,
    }
}

/// Whether the driver that computes is there; an unknown one may be.
fn has_driver(gpu: &Gpu) -> bool {
    gpu.driver_bound != Some(false) && gpu.driver.as_deref() != Some("nouveau") && !gpu.basic_display_driver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    const G: u64 = 1 << 30;

    fn apu(vram: u64, gtt: u64, pool: Option<u64>) -> Gpu {
        Gpu {
            integrated: Some(true),
            vram_bytes: Some(vram),
            gtt_bytes: Some(gtt),
            pool_bytes: pool,
            ..Gpu::default()
        }
    }

    fn bytes(gpu: &Gpu, pages: Option<u64>, container: Option<u64>, host: HostMemory) -> u64 {
        let kernel = Kernel {
            ttm_pages_limit: pages,
            ..Kernel::default()
        };
        let limits = Limits {
            memory_max_bytes: container,
            ..Limits::default()
        };
        trainable(
            gpu,
            &kernel,
            &Machine {
                limits,
                ..Machine::default()
            },
            host,
        )
        .unwrap()
        .value
    }

    const FREE: HostMemory = HostMemory {
        total: Some(124 * G),
        available: Some(120 * G),
    };

    #[test]
    fn the_pool_is_one_or_the_other_and_never_both() {
        let unlimited = HostMemory::default();
        assert_eq!(
            bytes(&apu(G / 2, 62 * G, Some(62 * G)), None, None, unlimited),
            62 * G
        );
        assert_eq!(bytes(&apu(G / 2, 62 * G, None), None, None, unlimited), 62 * G);
        assert_eq!(bytes(&apu(96 * G, 16 * G, None), None, None, unlimited), 96 * G);
        let discrete = Gpu {
            integrated: Some(false),
            vram_bytes: Some(24 * G),
            gtt_bytes: Some(32 * G),
            ..Gpu::default()
        };
        assert_eq!(bytes(&discrete, None, None, FREE), 24 * G);
    }

    #[test]
    fn limits_cut_the_pool_while_it_is_main_memory() {
        let big = apu(G / 2, 120 * G, Some(120 * G));
        assert_eq!(bytes(&big, Some(62 * G / 4096), None, FREE), 62 * G);
        let reserve = 124 * G / 100 * 8;
        assert_eq!(bytes(&big, None, None, FREE), 120 * G - reserve);
        assert_eq!(bytes(&big, None, Some(96 * G), FREE), 96 * G);
        assert_eq!(
            bytes(
                &apu(96 * G, 16 * G, Some(96 * G)),
                None,
                None,
                HostMemory {
                    total: Some(32 * G),
                    available: Some(20 * G)
                }
            ),
            96 * G,
            "a carve-out is not free memory"
        );
        assert_eq!(
            bytes(
                &big,
                None,
                None,
                HostMemory {
                    total: Some(124 * G),
                    available: Some(G)
                }
            ),
            0
        );
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        let none = |gpu: &Gpu| trainable(gpu, &Kernel::default(), &Machine::default(), FREE);
        assert_eq!(none(&Gpu::default()), None);
        assert_eq!(
            none(&Gpu {
                integrated: Some(true),
                ..Gpu::default()
            }),
            None
        );
        assert_eq!(
            none(&Gpu {
                vram_bytes: Some(G),
                ..Gpu::default()
            }),
            None,
            "integrated or not is not known"
        );
    }

    #[test]
    fn discrete_cards_come_first_and_some_never() {
        let card = |gfx: &str, integrated: bool| Gpu {
            vendor: Some(GpuVendor::Amd),
            gfx: Some(gfx.to_owned()),
            integrated: Some(integrated),
            ..Gpu::default()
        };
        assert_eq!(train_on(&[card("gfx1103", true), card("gfx1100", false)]), [1]);
        assert_eq!(train_on(&[card("gfx1103", true)]), [0]);
        for never in ["gfx1033", "gfx90c"] {
            assert!(train_on(&[card(never, true)]).is_empty());
        }
        assert!(train_on(&[card("gfx803", false)]).is_empty());
        let small = Gpu {
            compute_units: Some(2),
            ..card("gfx1036", true)
        };
        assert!(train_on(&[small]).is_empty());
        let passed_on = Gpu {
            driver: Some("vfio-pci".to_owned()),
            ..card("gfx1100", false)
        };
        assert!(train_on(std::slice::from_ref(&passed_on)).is_empty());
        let hidden = Gpu {
            kfd_forbidden: true,
            ..card("gfx1100", false)
        };
        assert!(train_on(&[hidden]).is_empty());
        let nouveau = Gpu {
            vendor: Some(GpuVendor::Nvidia),
            integrated: Some(false),
            driver: Some("nouveau".to_owned()),
            ..Gpu::default()
        };
        assert_eq!(train_on(&[nouveau.clone(), card("gfx1100", false)]), [1]);
        assert_eq!(
            train_on(&[nouveau]),
            [0],
            "it is the card, once its driver is there"
        );
    }
}
