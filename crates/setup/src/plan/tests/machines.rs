//! Machines as detection describes them, from folders that the detection's own test machines are made of.

use tunesmith_probe::testing::{AmdCard, TestMachine, machines};
use tunesmith_probe::{Gpu, System};

pub(super) fn rx_7900_xtx() -> System {
    machines::rx_7900_xtx().detect()
}

pub(super) fn rx_7900_xtx_with_igpu() -> System {
    machines::rx_7900_xtx_with_igpu().detect()
}

pub(super) fn two_rx_7900_xtx() -> System {
    machines::two_rx_7900_xtx().detect()
}

pub(super) fn strix_halo() -> System {
    machines::strix_halo().detect()
}

pub(super) fn strix_halo_raised() -> System {
    machines::strix_halo_raised().detect()
}

pub(super) fn radeon_780m_laptop() -> System {
    machines::radeon_780m_laptop().detect()
}

pub(super) fn rx_9070_xt() -> System {
    machines::rx_9070_xt().detect()
}

pub(super) fn rx_6700_xt() -> System {
    machines::rx_6700_xt().detect()
}

pub(super) fn rx_5700() -> System {
    machines::rx_5700().detect()
}

pub(super) fn steam_deck() -> System {
    machines::steam_deck().detect()
}

pub(super) fn wsl_rx_7900_xtx() -> System {
    machines::wsl_rx_7900_xtx().detect()
}

pub(super) fn rtx_3090() -> System {
    machines::rtx_3090().detect()
}

pub(super) fn rtx_5090() -> System {
    machines::rtx_5090().detect()
}

pub(super) fn gtx_1080() -> System {
    machines::gtx_1080().detect()
}

pub(super) fn nvidia_and_amd() -> System {
    machines::nvidia_and_amd().detect()
}

pub(super) fn no_gpu() -> System {
    machines::no_gpu().detect()
}

pub(super) fn rx_7600_xt_with_override() -> System {
    TestMachine::linux()
        .amd(AmdCard::rx_7600_xt("0000:03:00.0"))
        .line("etc/environment", "PATH=/usr/bin")
        .line("etc/environment", "HSA_OVERRIDE_GFX_VERSION=11.0.0")
        .usable_devices()
        .detect()
}

/// On Windows the graphics of the processor are listed first, as they often are.
pub(super) fn windows_rx_7900_xtx() -> System {
    let mut system = machines::windows_rx_7900_xtx().detect();
    let graphics = Gpu {
        name: Some("AMD Radeon(TM) Graphics".to_owned()),
        gfx: Some("gfx1036".to_owned()),
        integrated: Some(true),
        vendor: system.gpus[0].vendor,
        ..Gpu::default()
    };
    system.gpus.insert(0, graphics);
    system.train_on = Some(vec![1]);
    system
}
