//! Bus, processor, disks, and other programs on the card.

use std::path::Path;

use tunesmith_probe::Gpu;

use super::Outcome;
use crate::doctor::rules::Threshold;
use crate::doctor::subject::{Subject, asleep, gib, quoted};
use crate::doctor::{Cure, DiskSpace, GpuProcess, Needs};

pub(super) fn resizable_bar(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if gpu.integrated != Some(false) || !subject.trains(gpu) || subject.wsl() {
        return Outcome::NotApplicable;
    }
    let window = match (gpu.visible_vram_bytes, gpu.vram_bytes) {
        (Some(visible), Some(total)) => format!("{} of {} visible", gib(visible), gib(total)),
        _ => "the card's window in the PCI settings".to_owned(),
    };
    match gpu.resizable_bar {
        None => Outcome::unknown("how much of its memory the card shows was not read"),
        Some(true) => Outcome::ok(window),
        Some(false) => Outcome::slows(
            window,
            "Resizable BAR is off: copies between machine and card go through a small window. Training itself is not \
             known to fail by it.",
        )
        .cure(Cure::new("Switch on Above 4G Decoding and Resizable BAR (Smart Access Memory) in the BIOS.").needs(Needs::Bios)),
    }
}

pub(super) fn link_width(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(link) = gpu
        .link
        .as_ref()
        .filter(|_| gpu.integrated != Some(true) && subject.trains(gpu))
    else {
        return Outcome::NotApplicable;
    };
    if asleep(gpu) {
        return Outcome::unknown("the card is asleep; reading its link would wake it");
    }
    let (Some(width), most) = (link.width, link.max_width) else {
        return Outcome::unknown("the link's width was not read");
    };
    let found = match most {
        Some(most) => format!("{width} of {most} lanes"),
        None => format!("{width} lanes"),
    };
    let row = &subject.rules.threshold.narrow_link_lanes;
    // A card that has four lanes by design has no other slot to go to.
    if f64::from(width) >= row.value || most.is_some_and(|most| f64::from(most) < row.value && width >= most)
    {
        return Outcome::ok(found);
    }
    Outcome::slows(
        found,
        "The card has fewer lanes than it can use, as in a second slot or through a riser. Loading and offloading slow \
         down; training within the card hardly does.",
    )
    .cure(Cure::new("Put the card into the slot nearest to the processor, firmly.").needs(Needs::Bios))
    .source(&row.source)
}

pub(super) fn link_speed(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(link) = gpu
        .link
        .as_ref()
        .filter(|_| gpu.integrated != Some(true) && subject.trains(gpu))
    else {
        return Outcome::NotApplicable;
    };
    if asleep(gpu) {
        return Outcome::unknown("the card is asleep; reading its link would wake it");
    }
    // The speed of the moment says nothing: an idle card slows its link down.
    let Some(fastest) = link.max_speed_gt_per_sec else {
        return Outcome::unknown("the link's fastest rate was not read");
    };
    let row = &subject.rules.threshold.slow_link_gt_per_sec;
    let found = format!("up to {fastest} GT/s");
    if fastest >= row.value {
        return Outcome::ok(found);
    }
    Outcome::slows(
        found,
        "The slot is of PCI Express 2 or older; loading and offloading take long.",
    )
    .cure(Cure::new("Choose a faster slot, or a higher generation for it in the BIOS.").needs(Needs::Bios))
    .source(&row.source)
}

pub(super) fn vectors(subject: &Subject<'_>) -> Outcome {
    let features = &subject.system.machine.cpu_features;
    let found = subject
        .system
        .machine
        .cpu_model
        .clone()
        .unwrap_or_else(|| "the processor".to_owned());
    match (features.avx2, features.arm_bf16) {
        (Some(true), _) => Outcome::ok(format!("{found}: AVX2")),
        (_, Some(_)) => Outcome::NotApplicable,
        (None, None) => Outcome::unknown("the processor's features were not read"),
        (Some(false), None) => {
            let outcome: fn(String, &'static str) -> Outcome = if subject.training().next().is_none() {
                |found, means| Outcome::slows(found, means)
            } else {
                |found, means| Outcome::note(found, means)
            };
            outcome(
                format!("{found}: no AVX2"),
                "torch then works with vectors of half the width: data and small steps on the processor are slow.",
            )
            .cure(Cure::new("In a virtual machine pass the host's processor through; on old processors nothing helps."))
        }
    }
}

pub(super) fn bf16(subject: &Subject<'_>) -> Outcome {
    // With a card the processor's bf16 matters little.
    if subject.training().next().is_some() {
        return Outcome::NotApplicable;
    }
    match subject.system.machine.bf16_in_hardware() {
        Some(true) => Outcome::ok("bf16 in hardware"),
        None => Outcome::unknown("the processor's features were not read"),
        Some(false) => Outcome::note(
            "no bf16 in hardware",
            "bf16 is imitated on this processor and slower than fp32. Recipes for it are in fp32.",
        )
        .cure(Cure::new(
            "Nothing to do: Tunesmith picks fp32. In other programs leave bf16 off.",
        )),
    }
}

pub(super) fn cores(subject: &Subject<'_>) -> Outcome {
    let machine = &subject.system.machine;
    let (Some(all), Some(usable)) = (machine.cores_logical, machine.usable_cores()) else {
        return Outcome::unknown("the number of cores was not read");
    };
    if usable == all {
        return Outcome::ok(format!("{all} logical processors"));
    }
    Outcome::note(
        format!("{usable} of {all} logical processors"),
        "A container or a service limits this process; preparing data is slower, and so is training on the processor.",
    )
    .cure(Cure::new("Raise the limit where the container or service is started, if it is not meant."))
}

fn disk(
    subject: &Subject<'_>,
    disk: Option<&DiskSpace>,
    row: &Threshold,
    needed: u64,
    what: &str,
) -> Outcome {
    let Some(disk) = disk else {
        return Outcome::unknown("the disk was not looked at");
    };
    let folder = disk.folder.display();
    let Some(free) = disk.free_bytes else {
        return Outcome::unknown(format!("the system does not tell how much is free for {folder}"));
    };
    let found = format!("{} free for {folder}", gib(free));
    let needed = needed.max(row.value as u64);
    if free >= needed {
        return Outcome::ok(found);
    }
    Outcome::fails(found, format!("{what} takes up to {}.", gib(needed)))
        .cure(free_up(subject, &disk.folder))
        .source(&row.source)
}

fn free_up(subject: &Subject<'_>, folder: &Path) -> Cure {
    let cure = Cure::new("Make room on that disk, or choose a folder on another one.");
    if subject.windows() {
        return cure;
    }
    cure.run(format!(
        "du -xh --max-depth=2 {} | sort -h | tail",
        quoted(&folder.display().to_string())
    ))
}

pub(super) fn cache_disk(subject: &Subject<'_>) -> Outcome {
    let download = subject
        .around
        .recipe
        .as_ref()
        .and_then(|recipe| recipe.download_bytes)
        .unwrap_or(0);
    // The download and what is unpacked from it lie there at the same time.
    let needed = download.saturating_mul(2);
    let row = &subject.rules.threshold.cache_free_bytes;
    disk(
        subject,
        subject.around.cache_disk.as_ref(),
        row,
        needed,
        "Torch for a card, its download and its packages",
    )
}

pub(super) fn data_disk(subject: &Subject<'_>) -> Outcome {
    let row = &subject.rules.threshold.data_free_bytes;
    disk(
        subject,
        subject.around.data_disk.as_ref(),
        row,
        0,
        "A model with its checkpoints",
    )
}

pub(super) fn programs(subject: &Subject<'_>) -> Outcome {
    if subject.training().next().is_none() {
        return Outcome::NotApplicable;
    }
    let Some(programs) = &subject.around.gpu_processes else {
        return Outcome::unknown("which programs compute on the card was not read");
    };
    if programs.is_empty() {
        return Outcome::ok("none");
    }
    let texts: Vec<String> = programs
        .iter()
        .take(5)
        .map(|program| {
            let memory = program
                .vram_bytes
                .map_or(String::new(), |bytes| format!(", {}", gib(bytes)));
            format!("{} (process {}{memory})", program.name, program.pid)
        })
        .collect();
    Outcome::slows(
        texts.join(", "),
        "Another program computes on the card: both are slower, and measured times are void. On a processor's graphics \
         two at a time are reported to crash.",
    )
    .cure(let_go(programs))
}

/// The command that frees the card, and the one that brings the program back; neither is ever run from here.
fn let_go(programs: &[GpuProcess]) -> Cure {
    let stoppable = programs.iter().find(|program| program.stop.is_some());
    let text = match stoppable.and_then(|program| Some((program, program.start.as_ref()?))) {
        Some((program, start)) => format!(
            "Stop {} before a run, if it is yours to stop; afterwards `{start}` brings it back.",
            program.name
        ),
        None => "End it before a run, if it is yours to end.".to_owned(),
    };
    Cure::new(text).run_if_known(stoppable.and_then(|program| program.stop.as_deref()))
}
