//! Several cards in one machine.

use std::collections::BTreeSet;

use tunesmith_probe::Gpu;

use super::Outcome;
use crate::doctor::Cure;
use crate::doctor::subject::{Subject, card_name, is_amd, is_nvidia};

/// The processor's graphics that programs would take for a card, beside a real one of AMD.
fn shadowing<'a>(subject: &Subject<'a>) -> Vec<&'a Gpu> {
    let has_card = subject
        .amd()
        .any(|gpu| gpu.integrated != Some(true) && subject.wanted(gpu));
    let set = &subject.rules.gfx.shadowing;
    subject
        .amd()
        .filter(|gpu| has_card && gpu.integrated == Some(true))
        .filter(|gpu| gpu.gfx.as_deref().is_none_or(|gfx| set.has(gfx)))
        .collect()
}

pub(super) fn integrated(subject: &Subject<'_>) -> Outcome {
    let graphics = shadowing(subject);
    let Some(first) = graphics.first() else {
        return Outcome::NotApplicable;
    };
    let found = format!("{} beside {}", card_name(first), subject.trains_on());
    match subject.amd_visible() {
        None => {
            return Outcome::unknown(format!(
                "{found}; a mask is set, and what it hides cannot be told"
            ));
        }
        Some(visible)
            if !visible
                .iter()
                .any(|gpu| graphics.iter().any(|other| std::ptr::eq(*gpu, *other))) =>
        {
            return Outcome::ok(format!("{found}, hidden by a mask"));
        }
        Some(_) => {}
    }
    Outcome::note(
        found,
        "Programs may take the processor's graphics for the first card: work then goes there, or ends with `device \
         kernel image is invalid`. Tunesmith's own runs hide it; other programs need a mask.",
    )
    .cure(mask(subject))
    .source(&subject.rules.gfx.shadowing.source)
}

/// The mask that leaves the cards to train on. Which number a card has is read from KFD; it is 0 on one machine and 1
/// on the next, so without it none is named.
fn mask(subject: &Subject<'_>) -> Cure {
    let cards: Vec<&Gpu> = subject.amd().collect();
    let keep: Vec<usize> = (0..cards.len())
        .filter(|&place| subject.trains(cards[place]))
        .collect();
    let order_is_known = cards.iter().all(|gpu| gpu.kfd_node.is_some());
    if !order_is_known || keep.is_empty() {
        return Cure::new("Hide it by a mask; the plan names the one for this machine.")
            .run("tunesmith plan");
    }
    let numbers: Vec<String> = keep.iter().map(usize::to_string).collect();
    let numbers = numbers.join(",");
    let text = format!(
        "Hide it: number {numbers} in KFD's order is {}.",
        subject.trains_on()
    );
    let command = if subject.windows() {
        format!("$env:HIP_VISIBLE_DEVICES = \"{numbers}\"")
    } else {
        format!("export ROCR_VISIBLE_DEVICES={numbers}")
    };
    Cure::new(text).run(command)
}

pub(super) fn vendors(subject: &Subject<'_>) -> Outcome {
    let has = |is: fn(&Gpu) -> bool| {
        subject
            .system
            .gpus
            .iter()
            .find(|gpu| is(gpu) && subject.wanted(gpu))
    };
    match (has(is_amd), has(is_nvidia)) {
        (Some(amd), Some(nvidia)) => Outcome::note(
            format!("{} and {}", card_name(amd), card_name(nvidia)),
            "No torch serves both: each vendor needs an environment of its own, and installers that see NVIDIA's card \
             pick CUDA for both.",
        )
        .cure(Cure::new("See the plan for each vendor and choose the card.").run("tunesmith plan")),
        (None, None) => Outcome::NotApplicable,
        _ => Outcome::ok("one vendor"),
    }
}

pub(super) fn alike(subject: &Subject<'_>) -> Outcome {
    let of_vendor =
        |is: fn(&Gpu) -> bool| -> Vec<&Gpu> { subject.training().filter(|gpu| is(gpu)).collect() };
    let (amd, nvidia) = (of_vendor(is_amd), of_vendor(is_nvidia));
    let most = if nvidia.len() > amd.len() { nvidia } else { amd };
    let [first, _, ..] = most.as_slice() else {
        return match most.len() {
            0 => Outcome::NotApplicable,
            _ => Outcome::ok("one card to train on"),
        };
    };
    Outcome::note(
        format!("{} cards to train on", most.len()),
        format!(
            "One run uses one card, and its memory counts alone: {} cards do not make one card of their sum. {} is taken \
             unless another is named.",
            most.len(),
            card_name(first),
        ),
    )
    .cure(
        Cure::new("See which card the plan takes; two runs may go on two cards at the same time.")
            .run("tunesmith plan"),
    )
}

pub(super) fn families(subject: &Subject<'_>) -> Outcome {
    let targets: BTreeSet<&str> = subject
        .training_amd()
        .filter_map(|gpu| gpu.gfx.as_deref())
        .collect();
    if targets.is_empty() {
        return Outcome::NotApplicable;
    }
    let names: Vec<&str> = targets.iter().copied().collect();
    // A family shares all but the last digit, as gfx1100 and gfx1102.
    let families: BTreeSet<&str> = names
        .iter()
        .map(|gfx| gfx.get(..gfx.len().saturating_sub(1)).unwrap_or(gfx))
        .collect();
    if families.len() < 2 {
        return Outcome::ok(names.join(", "));
    }
    Outcome::note(
        names.join(", "),
        "AMD's wheels for one family hold no code for the other: a card that such a torch lists may end every program.",
    )
    .cure(Cure::new("Use one environment for each family, or the multi-arch wheels with an extra for each card.").run("tunesmith plan"))
}
