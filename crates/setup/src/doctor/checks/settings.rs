//! Settings of the environment: overrides, masks, library paths, switches that guides recommend.
//!
//! A variable that only a file sets, and that does not hold for this process yet, is named and weighs nothing: the next
//! log-in makes it count.

use tunesmith_probe::{Gpu, Setting};

use super::Outcome;
use crate::doctor::subject::{AMD_MASKS, Subject, card_name, is_amd, is_nvidia, quoted, setting_text};
use crate::doctor::{Cure, Needs, PythonEnvironment};
use crate::knowledge::{AOTRITON, Aotriton, OVERRIDE, Target};

/// What takes a variable away, here and where a file sets it.
fn remove(subject: &Subject<'_>, name: &str) -> Cure {
    let files =
        subject.system.settings.iter().filter(|setting| {
            setting.name == name && setting.line.is_some() && setting.origin.starts_with('/')
        });
    let file = files.map(|setting| setting.origin.as_str()).next();
    let unset = if subject.windows() {
        format!("Remove-Item Env:{name}")
    } else {
        format!("unset {name}")
    };
    let Some(file) = file else {
        let text = format!(
            "Take {name} away where it is set: no file that was read sets it, so a shell or a starter does."
        );
        return Cure::new(text).run(unset);
    };
    let text = format!(
        "Take the line out of {file}, and log out and in; for this shell the command does it at once."
    );
    if subject.windows() {
        return Cure::new(text).run(unset).needs(Needs::LogOut);
    }
    let sudo = if file.starts_with("/etc/") { "sudo " } else { "" };
    Cure::new(text)
        .run(format!("{sudo}sed -i.bak '/{name}/d' {}; {unset}", quoted(file)))
        .needs(Needs::LogOut)
}

/// `gfx1100` of `11.0.0`, with the digits as HSA reads them.
fn gfx_of(value: &str) -> Option<String> {
    let numbers: Vec<u32> = value
        .trim()
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    match numbers.as_slice() {
        [major, minor, step] if *minor < 16 && *step < 16 => Some(format!("gfx{major}{minor:x}{step:x}")),
        _ => None,
    }
}

/// The cards that an override hits: all of AMD's, or the one node that its name carries.
fn hit<'a>(subject: &Subject<'a>, name: &str) -> Vec<&'a Gpu> {
    let node = name
        .strip_prefix(OVERRIDE)
        .and_then(|rest| rest.strip_prefix('_'))
        .and_then(|node| node.parse().ok());
    subject
        .amd()
        .filter(|gpu| node.is_none() || gpu.kfd_node == node)
        .collect()
}

/// Every environment asked about has code for the foreign target and none for the card's own: without the override
/// nothing there would run.
fn environments_need_it(environments: &[PythonEnvironment], own: &str, foreign: &str) -> bool {
    !environments.is_empty()
        && environments.iter().all(|env| {
            let targets = env.rocblas_targets.as_deref().unwrap_or_default();
            let has = |gfx: &str| targets.iter().any(|target| target == gfx);
            has(foreign) && !has(own)
        })
}

pub(super) fn gfx_override(subject: &Subject<'_>) -> Outcome {
    if subject.amd().next().is_none() {
        return Outcome::NotApplicable;
    }
    let mut set: Vec<&Setting> = subject
        .system
        .settings
        .iter()
        .filter(|setting| setting.name == OVERRIDE || setting.name.starts_with("HSA_OVERRIDE_GFX_VERSION_"))
        .filter(|setting| !setting.value.trim().is_empty())
        .collect();
    // The one that holds decides; the file that sets it is named beside it.
    set.sort_by_key(|setting| (!setting.in_effect, setting.line.is_none()));
    let Some(first) = set.first() else {
        return Outcome::ok(format!("{OVERRIDE} is not set"));
    };
    let texts: Vec<String> = set.iter().map(|setting| setting_text(setting)).collect();
    let found = texts.join("; ");
    let cure = remove(subject, &first.name);
    if subject.windows() {
        return Outcome::note(
            found,
            "Windows does not go through HSA: the variable does nothing there.",
        )
        .cure(cure);
    }
    let Some(asked) = gfx_of(&first.value) else {
        return Outcome::fails(
            found,
            "The value is no version such as 11.0.0, so ROCm stops or ignores it.",
        )
        .cure(cure)
        .only_a_note_if(!first.in_effect);
    };
    let hit = hit(subject, &first.name);
    let differs: Vec<&Gpu> = hit
        .iter()
        .copied()
        .filter(|gpu| gpu.gfx.as_deref().is_some_and(|gfx| gfx != asked))
        .collect();
    if differs.is_empty() {
        if hit.iter().any(|gpu| gpu.gfx.is_none()) {
            return Outcome::unknown(format!("{found}; the card's own target is not known"));
        }
        return Outcome::note(
            found,
            format!("It asks for {asked}, which the card is: it does nothing, and turns harmful with the next card."),
        )
        .cure(cure);
    }
    let training = differs.iter().copied().find(|gpu| subject.trains(gpu));
    let Some(card) = training else {
        return Outcome::note(
            found,
            format!(
                "It makes {} pass for {asked} too, since it holds for every card; programs that use it may crash.",
                card_name(differs[0])
            ),
        )
        .cure(cure);
    };
    let own = card.gfx.as_deref().unwrap_or_default();
    if environments_need_it(subject.environments, own, &asked) {
        return Outcome::note(
            found,
            format!(
                "The environments asked about have code for {asked} and none for {own}, so they run by this override \
                 alone, which nobody supports. A torch with code for {own} needs none."
            ),
        )
        .cure(Cure::new("See the plan: it names a torch with code for this card.").run("tunesmith plan"));
    }
    let later = if first.in_effect {
        ""
    } else {
        " It holds from the next log-in on."
    };
    Outcome::fails(
        found,
        format!(
            "{} is {own}; the override makes ROCm run code for {asked} on it, which ends in memory faults, hangs or wrong \
             numbers.{later}",
            card_name(card)
        ),
    )
    .cure(cure)
    .only_a_note_if(!first.in_effect)
}

fn hides_everything(value: &str) -> bool {
    matches!(
        value.split(',').next().unwrap_or_default().trim(),
        "" | "-1" | "NoDevFiles"
    )
}

/// The masks that hold for a vendor's cards.
fn masks<'a>(subject: &Subject<'a>) -> Vec<&'a Setting> {
    let has_amd = subject.training().any(is_amd);
    let has_nvidia = subject.training().any(is_nvidia);
    AMD_MASKS
        .iter()
        .filter(|name| has_amd || has_nvidia && **name == "CUDA_VISIBLE_DEVICES")
        .filter_map(|name| subject.setting(name))
        .collect()
}

pub(super) fn mask_empty(subject: &Subject<'_>) -> Outcome {
    if subject.training().next().is_none() {
        return Outcome::NotApplicable;
    }
    let masks = masks(subject);
    match masks.iter().find(|mask| hides_everything(&mask.value)) {
        Some(mask) => Outcome::fails(
            setting_text(mask),
            "An empty mask, or -1, hides every card: programs say that there is none. On AMD this holds for \
             CUDA_VISIBLE_DEVICES too.",
        )
        .cure(remove(subject, &mask.name)),
        None if masks.is_empty() => Outcome::ok("no mask is set"),
        None => Outcome::ok(
            masks
                .iter()
                .map(|mask| setting_text(mask))
                .collect::<Vec<_>>()
                .join(", "),
        ),
    }
}

pub(super) fn mask_hides(subject: &Subject<'_>) -> Outcome {
    let training: Vec<&Gpu> = subject.training_amd().collect();
    let masks = masks(subject);
    if training.is_empty() || masks.iter().any(|mask| hides_everything(&mask.value)) {
        return Outcome::NotApplicable;
    }
    if masks.is_empty() {
        return Outcome::ok("no mask is set");
    }
    let found = masks
        .iter()
        .map(|mask| setting_text(mask))
        .collect::<Vec<_>>()
        .join(", ");
    let Some(visible) = subject.amd_visible() else {
        return Outcome::unknown(format!("{found}; which card has which number is not known here"));
    };
    let is_visible = |gpu: &Gpu| visible.iter().any(|other| std::ptr::eq(*other, gpu));
    let hidden: Vec<String> = training
        .iter()
        .filter(|gpu| !is_visible(gpu))
        .map(|gpu| card_name(gpu))
        .collect();
    if hidden.is_empty() {
        return Outcome::ok(found);
    }
    let all = hidden.len() == training.len();
    Outcome::fails(
        found,
        format!(
            "It hides {}. Which number a card has differs from machine to machine.",
            hidden.join(" and ")
        ),
    )
    .cure(remove(subject, &masks[0].name))
    .only_a_note_if(!all)
}

pub(super) fn masks_compound(subject: &Subject<'_>) -> Outcome {
    if subject.training_amd().next().is_none() {
        return Outcome::NotApplicable;
    }
    let masks = masks(subject);
    if masks.len() < 2 {
        return Outcome::ok(
            masks
                .first()
                .map_or("no mask is set".to_owned(), |mask| setting_text(mask)),
        );
    }
    Outcome::note(
        masks.iter().map(|mask| setting_text(mask)).collect::<Vec<_>>().join(", "),
        "Masks compound: the numbers of HIP's and CUDA's count what ROCR's left, so two of them may hide every card.",
    )
    .cure(remove(subject, &masks[masks.len() - 1].name))
}

pub(super) fn library_path(subject: &Subject<'_>) -> Outcome {
    if !subject.linux() && !subject.wsl() || subject.amd().next().is_none() {
        return Outcome::NotApplicable;
    }
    let foreign = subject.settings("LD_LIBRARY_PATH").find(|setting| {
        setting
            .value
            .split(':')
            .any(|folder| folder.starts_with("/opt/rocm"))
    });
    match foreign {
        Some(setting) => Outcome::note(
            setting_text(setting),
            "torch brings its own ROCm; with the system's on the path two versions mix, and torch may see no card. \
             Tunesmith's own runs put torch's first.",
        )
        .cure(remove(subject, "LD_LIBRARY_PATH")),
        None => Outcome::ok("LD_LIBRARY_PATH holds no /opt/rocm"),
    }
}

pub(super) fn python_path(subject: &Subject<'_>) -> Outcome {
    if subject.nothing_was_read() {
        return Outcome::unknown("nothing was read");
    }
    let set = ["PYTHONPATH", "PYTHONHOME"]
        .iter()
        .find_map(|name| subject.setting(name));
    match set.filter(|setting| !setting.value.is_empty()) {
        Some(setting) => Outcome::note(
            setting_text(setting),
            "Python takes packages from there before an environment's own, so another torch may be loaded than the one \
             that was installed.",
        )
        .cure(remove(subject, &setting.name)),
        None => Outcome::ok("PYTHONPATH and PYTHONHOME are not set"),
    }
}

/// The options of torch's allocator that hold, under its new name and its old ones.
fn allocator<'a>(subject: &Subject<'a>) -> Option<&'a Setting> {
    let names = [
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_HIP_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
    ];
    names.iter().find_map(|name| subject.setting(name))
}

fn has_segments(value: &str) -> bool {
    value
        .replace(' ', "")
        .to_ascii_lowercase()
        .contains("expandable_segments:true")
}

pub(super) fn allocator_pair(subject: &Subject<'_>) -> Outcome {
    if subject.training_amd().next().is_none() {
        return Outcome::NotApplicable;
    }
    match allocator(subject) {
        Some(setting) if has_segments(&setting.value) && setting.value.contains("max_split_size_mb") => Outcome::fails(
            setting_text(setting),
            "Together these two options turn live values into zeros on ROCm 7.14 and let reserved memory grow without \
             end on others, without an error.",
        )
        .cure(remove(subject, &setting.name)),
        Some(setting) => Outcome::ok(setting_text(setting)),
        None => Outcome::ok("torch's allocator has no options"),
    }
}

pub(super) fn allocator_segments(subject: &Subject<'_>) -> Outcome {
    if subject.training_amd().next().is_none() {
        return Outcome::NotApplicable;
    }
    match allocator(subject) {
        Some(setting) if has_segments(&setting.value) && !setting.value.contains("max_split_size_mb") => Outcome::note(
            setting_text(setting),
            "On ROCm this is either unknown to torch, which then warns and goes on, or young: one owner reports crashes \
             that AMD could not repeat. It is better left off.",
        )
        .cure(remove(subject, &setting.name)),
        _ => Outcome::ok("expandable_segments is not set by itself"),
    }
}

pub(super) fn attention_flag(subject: &Subject<'_>) -> Outcome {
    let targets: Vec<&Target> = subject
        .training_amd()
        .filter_map(|gpu| subject.target(gpu))
        .collect();
    // Which torch it is for decides: that of the environment asked about, else the engine's.
    let torch = subject.environments.iter().find_map(|env| env.torch.as_ref());
    let torch = torch.map_or(crate::TORCH_MINOR, |torch| &torch.version);
    let is = |kind| move |target: &&&Target| target.aotriton(torch) == kind;
    let experimental = targets.iter().find(is(Some(Aotriton::Experimental)));
    let without = targets.iter().find(is(None));
    match (subject.setting(AOTRITON), experimental, without) {
        _ if targets.is_empty() => Outcome::NotApplicable,
        (Some(setting), Some(target), _) if setting.value == "0" => Outcome::slows(
            setting_text(setting),
            format!(
                "On {} torch then uses its slow attention, whose memory grows with the square of the length.",
                target.id
            ),
        )
        .cure(remove(subject, AOTRITON))
        .source(&target.source),
        (Some(setting), None, Some(target)) => Outcome::note(
            setting_text(setting),
            format!(
                "AOTriton has no code for {}, so the flag does nothing here.",
                target.id
            ),
        )
        .cure(remove(subject, AOTRITON))
        .source(&target.source),
        (Some(setting), ..) => Outcome::ok(setting_text(setting)),
        (None, Some(target), _) => Outcome::ok(format!(
            "{AOTRITON} is not set; Tunesmith's own runs set it for {} where torch needs it",
            target.id
        )),
        (None, ..) => Outcome::ok(format!("{AOTRITON} is not set and not needed")),
    }
}

pub(super) fn hipblaslt(subject: &Subject<'_>) -> Outcome {
    let set = &subject.rules.gfx.no_hipblaslt;
    let mut targets = subject
        .training_amd()
        .filter_map(|gpu| gpu.gfx.as_deref())
        .peekable();
    if targets.peek().is_none() {
        return Outcome::NotApplicable;
    }
    let without = targets.find(|gfx| set.has(gfx));
    match (subject.setting("TORCH_BLAS_PREFER_HIPBLASLT"), without) {
        (Some(setting), Some(gfx)) if setting.value == "1" => Outcome::note(
            setting_text(setting),
            format!("hipBLASLt has no code for {gfx}: torch warns and takes the other library, or ends with an error."),
        )
        .cure(remove(subject, "TORCH_BLAS_PREFER_HIPBLASLT"))
        .source(&set.source),
        (Some(setting), _) => Outcome::ok(setting_text(setting)),
        (None, _) => Outcome::ok("torch chooses by itself"),
    }
}

/// Variables that cost something at certain values, as the rules list them.
fn listed(subject: &Subject<'_>, check: &str) -> Outcome {
    let applies = |vendor| match vendor {
        None => subject.training().next().is_some(),
        Some(vendor) => subject.training().any(|gpu| gpu.vendor == Some(vendor)),
    };
    let rows: Vec<_> = subject
        .rules
        .setting
        .iter()
        .filter(|row| *row.check == *check && applies(row.vendor))
        .collect();
    if rows.is_empty() {
        return Outcome::NotApplicable;
    }
    for row in &rows {
        let set = subject.setting(&row.name).filter(|setting| {
            let value = setting.value.trim();
            row.values.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
        });
        if let Some(setting) = set {
            return Outcome::weighing(row.stops, setting_text(setting), row.means.to_string())
                .cure(remove(subject, &row.name))
                .source(&row.source);
        }
    }
    let names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
    Outcome::ok(format!("{}: as usual", names.join(", ")))
}

pub(super) fn sdma(subject: &Subject<'_>) -> Outcome {
    listed(subject, "setting-sdma")
}

pub(super) fn interrupts(subject: &Subject<'_>) -> Outcome {
    listed(subject, "setting-interrupts")
}

pub(super) fn tuning(subject: &Subject<'_>) -> Outcome {
    listed(subject, "setting-tuning")
}

pub(super) fn queues(subject: &Subject<'_>) -> Outcome {
    listed(subject, "setting-queues")
}

pub(super) fn debugging(subject: &Subject<'_>) -> Outcome {
    listed(subject, "setting-debugging")
}

pub(super) fn compile(subject: &Subject<'_>) -> Outcome {
    listed(subject, "setting-compile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_is_decoded_as_hsa_does() {
        assert_eq!(gfx_of("11.0.0").as_deref(), Some("gfx1100"));
        assert_eq!(gfx_of(" 9.0.10 ").as_deref(), Some("gfx90a"));
        assert_eq!(gfx_of("10.3.6").as_deref(), Some("gfx1036"));
        for odd in ["", "gfx1100", "11.0", "11.0.0.0", "11.16.0", "-1.0.0"] {
            assert_eq!(gfx_of(odd), None, "{odd}");
        }
    }
}
