//! The kernel's log: resets and faults of the card since the start.
//!
//! What a line means is told by `explain`, which knows the words of every version; here it counts what state they show
//! this machine to be in.

use super::Outcome;
use super::kernel::has_amd;
use crate::doctor::subject::{Subject, is_nvidia};
use crate::doctor::{Cure, Needs};
use crate::explain::kernel_log::{KernelEvent, findings};

fn answer(
    subject: &Subject<'_>,
    applies: bool,
    events: &[KernelEvent],
    trouble: fn(String) -> Outcome,
) -> Outcome {
    if !applies || subject.windows() {
        return Outcome::NotApplicable;
    }
    let Some(log) = &subject.system.kernel_log else {
        return Outcome::unknown("the kernel's log cannot be read; sudo dmesg shows it");
    };
    let mut found = findings(log);
    found.retain(|finding| events.contains(&finding.event));
    match found.as_slice() {
        [] => Outcome::ok("no such line in the kernel's log"),
        [one] => trouble(one.text.trim().to_owned()),
        [.., last] => trouble(format!("{} times, last: {}", found.len(), last.text.trim())),
    }
}

pub(super) fn resets(subject: &Subject<'_>) -> Outcome {
    answer(
        subject,
        has_amd(subject),
        &[
            KernelEvent::GpuReset,
            KernelEvent::GpuResetFailed,
            KernelEvent::RingTimeout,
        ],
        |found| {
            Outcome::note(
            found,
            "The card hung and was reset since the start. Runs that were going on then are lost, and times measured \
             then are void.",
        )
        .cure(
            Cure::new("Close programs that use the card, and for a long run lower its power limit by a tenth and choose \
                 the compute profile.")
                .run("cat /sys/class/drm/card*/device/pp_power_profile_mode /sys/class/drm/card*/device/hwmon/hwmon*/power1_cap"),
        )
        },
    )
}

pub(super) fn scheduler(subject: &Subject<'_>) -> Outcome {
    answer(subject, has_amd(subject), &[KernelEvent::MesFailure], |found| {
        Outcome::note(
            found,
            "The card's scheduler (MES) stopped answering since the start; until a reboot the card may hang again.",
        )
        .cure(Cure::new("Reboot before a long run, and update kernel and firmware if it comes back.").needs(Needs::Reboot))
    })
}

pub(super) fn page_faults(subject: &Subject<'_>) -> Outcome {
    answer(subject, has_amd(subject), &[KernelEvent::GpuPageFault], |found| {
        Outcome::note(
            found,
            "A program made the card read memory that is not there. A gfx override, foreign kernels or bad firmware are \
             the usual reasons; the checks for these say which.",
        )
        .cure(Cure::new("Let the error's text be explained.").run("sudo dmesg | tunesmith explain -"))
    })
}

pub(super) fn atomics(subject: &Subject<'_>) -> Outcome {
    let outcome = answer(
        subject,
        has_amd(subject),
        &[KernelEvent::AtomicsRejected],
        |found| {
            Outcome::fails(
                found,
                "ROCm needs PCIe atomics, and the way from this slot to the processor does not route them.",
            )
            .cure(
                Cure::new("Put the card into the slot nearest to the processor, or update the BIOS.")
                    .needs(Needs::Bios),
            )
        },
    );
    outcome.only_a_note_if(subject.training_amd().next().is_none())
}

pub(super) fn small_window(subject: &Subject<'_>) -> Outcome {
    answer(subject, has_amd(subject), &[KernelEvent::SmallBar], |found| {
        Outcome::slows(
            found,
            "The processor reaches the card's memory through a small window, so copies are slower.",
        )
        .cure(Cure::new("Switch on Above 4G Decoding and Resizable BAR in the BIOS.").needs(Needs::Bios))
    })
}

pub(super) fn refused_module(subject: &Subject<'_>) -> Outcome {
    let loaded = subject
        .training()
        .any(|gpu| matches!(gpu.driver.as_deref(), Some("amdgpu" | "nvidia")));
    let outcome = answer(
        subject,
        !subject.system.gpus.is_empty(),
        &[KernelEvent::KeyRejected],
        |found| {
            Outcome::fails(found, "Secure Boot refused a driver because it does not know the key that signed it.").cure(
            Cure::new("Enrol the key that signs the module; the next start asks for the password that you choose now.")
                .run("sudo mokutil --import /var/lib/dkms/mok.pub")
                .needs(Needs::Reboot),
        )
        },
    );
    outcome.only_a_note_if(loaded)
}

pub(super) fn unknown_parameter(subject: &Subject<'_>) -> Outcome {
    answer(
        subject,
        has_amd(subject),
        &[KernelEvent::UnknownParameter],
        |found| {
            Outcome::limits(
                found,
                "The driver ignored a parameter whose name it does not know; it is probably misspelt.",
            )
            .cure(
                Cure::new("Correct the name on the boot line or in modprobe.d, and reboot.")
                    .run("grep -rnE 'amdgpu|ttm' /etc/modprobe.d /proc/cmdline")
                    .needs(Needs::Reboot),
            )
        },
    )
}

pub(super) fn allocation(subject: &Subject<'_>) -> Outcome {
    answer(
        subject,
        has_amd(subject),
        &[KernelEvent::PageAllocationFailure],
        |found| {
            Outcome::limits(
            found,
            "The kernel found no memory in one piece for the card although some was free, so a large model may not load.",
        )
        .cure(
            Cure::new("Let the kernel tidy memory before it is needed. If it comes back, reboot.")
                .run("sudo sysctl -w vm.compaction_proactiveness=20 vm.compact_unevictable_allowed=1"),
        )
        },
    )
}

pub(super) fn out_of_memory(subject: &Subject<'_>) -> Outcome {
    answer(subject, true, &[KernelEvent::OutOfMemoryKill], |found| {
        Outcome::note(
            found,
            "The machine ran out of memory since the start, and the kernel ended a program.",
        )
        .cure(
            Cure::new("Close what you do not need before a run, and watch the memory that is available.")
                .run("free -h"),
        )
    })
}

pub(super) fn xid(subject: &Subject<'_>) -> Outcome {
    answer(
        subject,
        subject.system.gpus.iter().any(is_nvidia),
        &[KernelEvent::NvidiaXid, KernelEvent::DeviceLost],
        |found| {
            Outcome::note(
            found,
            "NVIDIA's driver reported a fault of the card or of a program since the start; the number says which.",
        )
        .cure(Cure::new("Let the line be explained; reboot if the card no longer answers.").run("nvidia-smi"))
        },
    )
}

pub(super) fn start(subject: &Subject<'_>) -> Outcome {
    let events = [KernelEvent::FirmwareMissing, KernelEvent::InitFailed];
    let outcome = answer(subject, has_amd(subject), &events, |found| {
        Outcome::fails(
            found,
            "The driver could not start the card; a firmware file that is missing or too old is the usual reason.",
        )
        .cure(
            Cure::new("Install the distribution's current firmware package, and reboot.")
                .needs(Needs::Firmware),
        )
    });
    let works = subject.training_amd().any(|gpu| gpu.kfd_node.is_some());
    outcome.only_a_note_if(works || subject.training_amd().next().is_none())
}
