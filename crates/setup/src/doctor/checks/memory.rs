//! Memory: what the card may use, what is taken, what the machine has for loading.
//!
//! Of a processor's graphics ROCm takes one pool: what the kernel lets graphics map of main memory (GTT), or the part
//! set aside in the BIOS where that is larger; never both.

use tunesmith_probe::Gpu;

use super::Outcome;
use crate::doctor::subject::{GIB, Subject, asleep, gib, is_amd};
use crate::doctor::{Cure, Needs, distribution};

/// Pages of 4 KiB in a GiB.
const PAGES_PER_GIB: u64 = GIB / PAGE_BYTES;
const PAGE_BYTES: u64 = 4096;

/// Graphics of a processor under Linux that train.
fn unified<'a>(subject: &Subject<'_>, gpu: &'a Gpu) -> Option<&'a Gpu> {
    let applies = subject.linux() && is_amd(gpu) && gpu.integrated == Some(true) && subject.trains(gpu);
    applies.then_some(gpu)
}

/// What graphics may take of the main memory when the rest of the machine keeps its share, in whole GiB.
fn sensible_gib(subject: &Subject<'_>, memory_bytes: u64) -> u64 {
    let threshold = &subject.rules.threshold;
    let share = memory_bytes as f64 * threshold.host_reserve_share.value;
    let reserve = threshold.host_reserve_bytes.value.max(share) as u64;
    memory_bytes.saturating_sub(reserve) / GIB
}

fn raise_limit(subject: &Subject<'_>, gibibytes: u64) -> Cure {
    let pages = gibibytes * PAGES_PER_GIB;
    let options = format!("options ttm pages_limit={pages} page_pool_size={pages}");
    let rebuild =
        distribution::rebuild_start_image(subject).map_or(String::new(), |command| format!(" && {command}"));
    Cure::new(format!(
        "Set ttm.pages_limit to {pages} ({gibibytes} GiB x {PAGES_PER_GIB} pages) and reboot; amd-ttm --set {gibibytes} of \
         AMD's amd-debug-tools does the same. amdgpu's maintainer warns that more than half of the memory can make the \
         system unstable: leave some for the rest."
    ))
    .run(format!("echo '{options}' | sudo tee /etc/modprobe.d/ttm.conf{rebuild}"))
    .needs(Needs::Reboot)
}

pub(super) fn unified_limit(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gpu) = unified(subject, gpu) else {
        return Outcome::NotApplicable;
    };
    let (Some(gtt), Some(memory)) = (gpu.gtt_bytes, subject.system.machine.memory_bytes) else {
        return Outcome::unknown("the graphics' limit (mem_info_gtt_total) or the main memory was not read");
    };
    let found = format!("{} of {} main memory for graphics", gib(gtt), gib(memory));
    let half = &subject.rules.threshold.half_of_memory_share;
    let sensible = sensible_gib(subject, memory);
    if gpu.vram_bytes.is_some_and(|vram| vram > gtt) {
        return Outcome::ok(format!("{found}; the part set aside is larger and counts"));
    }
    if gtt as f64 > memory as f64 * half.value || sensible * GIB <= gtt.saturating_add(GIB) {
        return Outcome::ok(found);
    }
    let by = match subject.system.kernel.ttm_pages_limit {
        Some(pages) => format!("{found} (ttm.pages_limit is {pages})"),
        None => found,
    };
    Outcome::limits(
        by,
        format!(
            "By default the kernel lets graphics take half of the main memory. With a higher limit models of up to \
             {sensible} GiB fit; smaller ones run as they are."
        ),
    )
    .cure(raise_limit(subject, sensible))
}

pub(super) fn old_parameter(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if unified(subject, gpu).is_none() {
        return Outcome::NotApplicable;
    }
    let kernel = &subject.system.kernel;
    if kernel.command_line.is_none() && kernel.modprobe_lines.is_empty() {
        return Outcome::unknown("neither the boot line nor modprobe.d was read");
    }
    let old = subject.kernel_parameter("amdgpu.gttsize");
    let new = subject
        .kernel_parameter("ttm.pages_limit")
        .or_else(|| subject.kernel_parameter("amdttm.pages_limit"));
    match (old, new) {
        (Some((file, value)), None) => {
            let gibibytes = value
                .parse::<u64>()
                .ok()
                .map(|mebibytes| mebibytes / 1024)
                .filter(|size| *size > 0);
            let most = subject
                .system
                .machine
                .memory_bytes
                .map(|memory| sensible_gib(subject, memory));
            let wanted = gibibytes
                .map(|size| most.map_or(size, |most| size.min(most)))
                .or(most)
                .filter(|size| *size > 0);
            let outcome = Outcome::limits(
                format!("amdgpu.gttsize={value} in {file}, no ttm.pages_limit"),
                "gttsize is deprecated; what ROCm may allocate is decided by ttm.pages_limit alone.",
            );
            match wanted {
                Some(size) => outcome.cure(raise_limit(subject, size)),
                None => outcome,
            }
        }
        (_, Some((file, value))) => Outcome::ok(format!("pages_limit={value} in {file}")),
        (None, None) => Outcome::ok("no limit is set by hand"),
    }
}

pub(super) fn too_much(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if unified(subject, gpu).is_none() {
        return Outcome::NotApplicable;
    }
    let (Some(pages), Some(memory)) = (
        subject.system.kernel.ttm_pages_limit,
        subject.system.machine.memory_bytes,
    ) else {
        return Outcome::unknown("ttm.pages_limit or the main memory was not read");
    };
    let bytes = pages.saturating_mul(PAGE_BYTES);
    let found = format!("ttm.pages_limit is {pages}: {} of {}", gib(bytes), gib(memory));
    if bytes <= memory {
        return Outcome::ok(found);
    }
    Outcome::note(
        found,
        "The limit is above the memory that there is, as after a change of the part set aside. A run that takes it all \
         freezes the machine in place of an error.",
    )
    .cure(raise_limit(subject, sensible_gib(subject, memory).max(1)))
}

pub(super) fn carve_out(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gpu) = unified(subject, gpu) else {
        return Outcome::NotApplicable;
    };
    let (Some(aside), Some(memory)) = (gpu.vram_bytes, subject.system.machine.memory_bytes) else {
        return Outcome::unknown("the memory set aside, or the main memory, was not read");
    };
    let threshold = &subject.rules.threshold;
    let share = aside as f64 / aside.saturating_add(memory).max(1) as f64;
    let found = format!("{} set aside for graphics, {} left", gib(aside), gib(memory));
    if (aside as f64) < threshold.carve_out_bytes.value || share < threshold.carve_out_share.value {
        return Outcome::ok(found);
    }
    Outcome::limits(
        found,
        "Memory set aside is lost to the processor, and graphics may use one of the two pools only. A small part set \
         aside with a high limit serves both.",
    )
    .cure(
        Cure::new("Set the smallest size (512 MB) for graphics in the BIOS, then raise ttm.pages_limit.").needs(Needs::Bios),
    )
    .source(&threshold.carve_out_share.source)
}

pub(super) fn pool(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gpu) = unified(subject, gpu) else {
        return Outcome::NotApplicable;
    };
    let (Some(pool), Some(aside), Some(gtt)) = (gpu.pool_bytes, gpu.vram_bytes, gpu.gtt_bytes) else {
        return Outcome::unknown(
            "ROCm's pool (KFD's memory bank), the part set aside or the limit was not read",
        );
    };
    let found = format!(
        "ROCm's pool is {}; set aside {}, limit {}",
        gib(pool),
        gib(aside),
        gib(gtt)
    );
    let is_small = pool.abs_diff(aside) < GIB / 4 && gtt > aside.saturating_add(aside / 2);
    if !is_small {
        return Outcome::ok(found);
    }
    let row = &subject.rules.version.kernel_with_small_pool;
    let kernel = subject
        .system
        .machine
        .kernel
        .as_deref()
        .unwrap_or("of unknown version");
    Outcome::limits(
        found,
        format!("This kernel ({kernel}) gives ROCm the part set aside alone; from 6.10 on it gives the larger pool."),
    )
    .cure(
        Cure::new("Update to a current kernel and reboot.")
            .run_if_known(distribution::update_kernel(subject))
            .needs(Needs::Reboot),
    )
    .source(&row.source)
}

pub(super) fn runtime(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gpu) = unified(subject, gpu) else {
        return Outcome::NotApplicable;
    };
    let (Some(pool), Some(gtt)) = (gpu.pool_bytes, gpu.gtt_bytes) else {
        return Outcome::unknown("ROCm's pool or the kernel's limit was not read");
    };
    let given = gtt.max(gpu.vram_bytes.unwrap_or(0));
    let row = &subject.rules.threshold.pool_short_share;
    let found = format!("the kernel gives {}, ROCm sees {}", gib(given), gib(pool));
    let small_pool = gpu.vram_bytes.is_some_and(|aside| pool.abs_diff(aside) < GIB / 4);
    if given == 0 || small_pool || pool as f64 >= given as f64 * row.value {
        return Outcome::ok(found);
    }
    Outcome::limits(
        found,
        "The settings are right and the runtime halves what it sees: a fault of some ROCm builds after 7.2.1.",
    )
    .cure(Cure::new("Use the ROCm build that the plan names.").run("tunesmith plan"))
    .source(&row.source)
}

pub(super) fn container_limit(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gpu) = unified(subject, gpu) else {
        return Outcome::NotApplicable;
    };
    let Some(limit) = subject.system.machine.limits.memory_max_bytes else {
        return Outcome::NotApplicable;
    };
    let Some(card) = gpu.pool_bytes.or(gpu.gtt_bytes) else {
        return Outcome::unknown("what the card may use was not read");
    };
    let found = format!("this process may use {}, the card {}", gib(limit), gib(card));
    if limit >= card {
        return Outcome::ok(found);
    }
    Outcome::limits(
        found,
        "The card's memory is main memory here, and more of it than the limit ends the process.",
    )
    .cure(
        Cure::new("Start the container with a higher limit.")
            .run(format!("docker run --memory {}g …", card.div_ceil(GIB)))
            .at(crate::doctor::Place::Host),
    )
}

pub(super) fn recipe_fits(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(recipe) = subject.around.recipe.as_ref().filter(|_| subject.trains(gpu)) else {
        return Outcome::NotApplicable;
    };
    let (Some(needs), Some(has)) = (
        recipe.memory_bytes,
        gpu.trainable.as_ref().map(|trainable| trainable.value),
    ) else {
        return Outcome::unknown("what the recipe needs or what the card has is not known");
    };
    let found = format!("{} needs {}, the card has {}", recipe.name, gib(needs), gib(has));
    if needs <= has {
        return Outcome::ok(found);
    }
    // Another card of several may take it.
    let fits_elsewhere = subject.training().any(|other| {
        other
            .trainable
            .as_ref()
            .is_some_and(|trainable| trainable.value >= needs)
    });
    Outcome::fails(found, "The recipe does not fit this card.")
        .cure(Cure::new("Take the recipe that the plan names for this card.").run("tunesmith plan"))
        .only_a_note_if(fits_elsewhere)
}

pub(super) fn taken(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.trains(gpu) || asleep(gpu) || gpu.integrated == Some(true) {
        return Outcome::NotApplicable;
    }
    let (Some(used), Some(total)) = (gpu.vram_used_bytes, gpu.vram_bytes.filter(|total| *total > 0)) else {
        return Outcome::unknown("how much of the card's memory is in use was not read");
    };
    let row = &subject.rules.threshold.vram_taken_share;
    let found = format!("{} of {} in use", gib(used), gib(total));
    if (used as f64) < total as f64 * row.value {
        return Outcome::ok(found);
    }
    Outcome::limits(
        found,
        "Other programs hold the card's memory, a browser or a desktop among them; ROCm's own figure of free memory \
         leaves them out, so a run may fail that should fit.",
    )
    .cure(Cure::new("Close programs that draw or compute on the card before a run that needs it all."))
    .source(&row.source)
}

pub(super) fn total(subject: &Subject<'_>) -> Outcome {
    let Some(bytes) = subject.system.machine.usable_memory_bytes() else {
        return Outcome::unknown("the main memory was not read");
    };
    let row = &subject.rules.threshold.small_memory_bytes;
    if (bytes as f64) < row.value {
        return Outcome::limits(
            format!("{} main memory", gib(bytes)),
            "A model passes through main memory when it is loaded, so the largest that fits the card may not load.",
        )
        .cure(Cure::new("More main memory, or in a container a higher limit, lets larger models load."))
        .source(&row.source);
    }
    Outcome::ok(format!("{} main memory", gib(bytes)))
}

pub(super) fn available(subject: &Subject<'_>) -> Outcome {
    let Some(bytes) = subject.around.available_memory_bytes else {
        return Outcome::unknown("the memory that is free now was not read");
    };
    let row = &subject.rules.threshold.low_available_bytes;
    if (bytes as f64) < row.value {
        return Outcome::slows(
            format!("{} available now", gib(bytes)),
            "The machine would swap while it trains, or the kernel would end the run.",
        )
        .cure(
            Cure::new("Close programs that you do not need.")
                .run_if_known((!subject.windows()).then_some("ps -eo rss,comm --sort=-rss | head")),
        )
        .source(&row.source);
    }
    Outcome::ok(format!("{} available now", gib(bytes)))
}

pub(super) fn swap(subject: &Subject<'_>) -> Outcome {
    // A container has its host's.
    if !subject.linux() || subject.container().is_some() {
        return Outcome::NotApplicable;
    }
    let (Some(swap), Some(memory)) = (subject.around.swap_bytes, subject.system.machine.memory_bytes) else {
        return Outcome::unknown("the swap space or the main memory was not read");
    };
    if swap == 0 && (memory as f64) < 2.0 * subject.rules.threshold.small_memory_bytes.value {
        return Outcome::note(
            format!("no swap space, {} main memory", gib(memory)),
            "Loading a model takes a short peak of memory; without swap space the kernel ends the run there.",
        )
        .cure(
            Cure::new("Add a swap file.")
                .run("sudo fallocate -l 8G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile && sudo swapon /swapfile"),
        );
    }
    Outcome::ok(format!("{} swap space", gib(swap)))
}
