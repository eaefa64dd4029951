//! A Python environment against the card: whether what is installed can run on it, and whether it goes together.
//!
//! All of it is read from files. Whether a kernel computes rightly is not in any file; that is the calibration's work.

use std::collections::BTreeSet;

use tunesmith_probe::{Gpu, Platform};

use super::Outcome;
use super::card::driver_cuda;
use crate::TORCH_MINOR;
use crate::doctor::rules::{BuiltBy, ClashRow, TorchRow};
use crate::doctor::subject::{Subject, capability, card_name, is_amd, is_nvidia, quoted};
use crate::doctor::version::{Version, cuda_of_tag, date_of_tag, local_tag, rocm_of_tag};
use crate::doctor::{Cure, PythonEnvironment, Torch};
use crate::knowledge::Os;

/// Installs into the environment, whatever tool made it.
fn install(env: &PythonEnvironment, arguments: &str) -> String {
    format!("uv pip install --python {} {arguments}", quoted(&env.name()))
}

/// The torch that fits the card: as the plan installs it, else the first build for the target that has wheels here.
fn right_torch(subject: &Subject<'_>, env: &PythonEnvironment, gfx: Option<&str>) -> Cure {
    let of_plan = subject
        .around
        .torch_install
        .iter()
        .find(|row| Some(row.gfx.as_str()) == gfx);
    let command = of_plan.map(|row| row.command.clone()).or_else(|| {
        let gfx = gfx?;
        let os = match subject.system.platform {
            Platform::Linux => Os::Linux,
            Platform::Wsl => Os::Wsl,
            Platform::Windows => Os::Windows,
            Platform::Macos | Platform::Unknown => return None,
        };
        let routes = subject.targets.target(gfx)?.routes.iter();
        let mut builds = routes.filter_map(|route| subject.targets.build(&route.build));
        let build = builds.find(|build| build.systems.contains(&os))?;
        let index = build
            .index
            .as_ref()
            .map_or(String::new(), |index| format!(" --index-url {}", quoted(index)));
        Some(install(
            env,
            &format!("--reinstall {}{index}", quoted(&build.requirement(gfx))),
        ))
    });
    match command {
        Some(command) => {
            Cure::new("Install the torch for this card over the one that is there.").run(command)
        }
        None => Cure::new("See which torch the plan names for this card.").run("tunesmith plan"),
    }
}

fn tag(torch: &Torch) -> &str {
    local_tag(&torch.version).unwrap_or_default()
}

fn rocm(torch: &Torch) -> Option<Version> {
    // The tag counts: torch.version.hip of AMD's builds is another number.
    rocm_of_tag(tag(torch)).or_else(|| Version::parse(torch.hip.as_deref()?))
}

fn is_rocm(torch: &Torch) -> bool {
    torch.hip.is_some() || tag(torch).starts_with("rocm")
}

fn is_cuda(torch: &Torch) -> bool {
    torch.cuda.is_some() || tag(torch).starts_with("cu")
}

fn torch_number(torch: &Torch) -> Option<Version> {
    Version::parse(&torch.version)
}

/// The torch of an environment that is one, where the machine has an AMD card to train on.
fn amd_torch<'a>(subject: &Subject<'_>, env: &'a PythonEnvironment) -> Option<&'a Torch> {
    let torch = env.torch.as_ref()?;
    subject.training_amd().next()?;
    is_rocm(torch).then_some(torch)
}

fn wants_bitsandbytes(env: &PythonEnvironment) -> bool {
    env.has("bitsandbytes") || env.bitsandbytes_rocm.is_some()
}

pub(super) fn found(_: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    match &env.site {
        Some(_) => Outcome::ok(format!(
            "Python {}, {} packages",
            env.python.as_deref().unwrap_or("of unknown version"),
            env.packages.len()
        )),
        None => Outcome::fails(
            format!("{} has no site-packages", env.name()),
            "It is no Python environment, or it is not there.",
        )
        .cure(Cure::new(
            "Name the folder of an environment, the one with pyvenv.cfg in it.",
        )),
    }
}

pub(super) fn torch(_: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if env.site.is_none() {
        return Outcome::NotApplicable;
    }
    match (&env.torch, env.version("torch")) {
        (Some(torch), _) => Outcome::ok(format!("torch {}", torch.version)),
        (None, Some(version)) => Outcome::fails(
            format!("torch {version} is listed, torch/version.py is not there"),
            "The installation broke off or was removed in part.",
        )
        .cure(Cure::new("Install it anew.").run(install(env, "--reinstall torch"))),
        (None, None) => Outcome::fails("no torch", "Nothing here can train.")
            .cure(Cure::new("See what the plan would install.").run("tunesmith plan")),
    }
}

pub(super) fn flavour(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let Some(torch) = &env.torch else {
        return Outcome::NotApplicable;
    };
    let amd = subject.training_amd().next();
    let nvidia = subject.training().find(|gpu| is_nvidia(gpu));
    let kind = match (is_rocm(torch), is_cuda(torch)) {
        (true, _) => "ROCm",
        (_, true) => "CUDA",
        _ => "the processor alone",
    };
    let found = format!("torch {} is built for {kind}", torch.version);
    let fits = is_rocm(torch) && amd.is_some() || is_cuda(torch) && nvidia.is_some();
    match (amd, nvidia) {
        (None, None) => Outcome::NotApplicable,
        _ if fits => Outcome::ok(found),
        (Some(card), _) => Outcome::fails(
            found,
            format!(
                "{} needs a torch for ROCm. PyPI's torch is for CUDA on Linux and for the processor on Windows, and \
                 installing another package may put it in place of the right one.",
                card_name(card)
            ),
        )
        .cure(right_torch(subject, env, card.gfx.as_deref())),
        (None, Some(card)) => Outcome::fails(found, format!("{} needs a torch for CUDA.", card_name(card)))
            .cure(Cure::new("See which torch the plan names for this card.").run("tunesmith plan")),
    }
}

pub(super) fn kernels(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if amd_torch(subject, env).is_none() {
        return Outcome::NotApplicable;
    }
    let Some(targets) = env.rocblas_targets.as_ref().filter(|targets| !targets.is_empty()) else {
        return Outcome::unknown(
            "no data files of rocBLAS were found, so the targets of this torch are not known",
        );
    };
    let has = |gfx: &str| targets.iter().any(|target| target == gfx);
    let found = format!("rocBLAS has data for {}", targets.join(", "));
    let cards: Vec<(&Gpu, &str)> = subject
        .training_amd()
        .filter_map(|gpu| Some((gpu, gpu.gfx.as_deref()?)))
        .collect();
    if cards.is_empty() {
        return Outcome::unknown(format!("{found}; the card's target is not known"));
    }
    let Some((card, gfx)) = cards.iter().find(|(_, gfx)| !has(gfx)) else {
        return Outcome::ok(found);
    };
    Outcome::fails(
        found,
        format!(
            "{} is {gfx}, which is not among them: the first matrix product ends with `TensileLibrary.dat: Illegal seek` or \
             `invalid device function`.",
            card_name(card)
        ),
    )
    .cure(right_torch(subject, env, Some(gfx)))
    .only_a_note_if(cards.iter().any(|(_, gfx)| has(gfx)))
}

fn has_fault(subject: &Subject<'_>, env: &PythonEnvironment, torch: &Torch, row: &TorchRow) -> bool {
    let of_card = subject.training_amd().filter_map(|gpu| gpu.gfx.as_deref());
    let gfx = of_card
        .filter(|gfx| row.gfx.is_empty() || row.gfx.iter().any(|target| target == gfx))
        .count()
        > 0;
    let inside = |range: &Option<crate::doctor::Range>, version: Option<Version>| {
        range
            .as_ref()
            .is_none_or(|range| version.is_some_and(|version| range.contains(&version)))
    };
    let date = row
        .dates
        .is_none_or(|[first, last]| date_of_tag(tag(torch)).is_some_and(|day| (first..=last).contains(&day)));
    gfx && date
        && inside(&row.torch, torch_number(torch))
        && inside(&row.rocm, rocm(torch))
        && row
            .built_by
            .is_none_or(|by| BuiltBy::of_tag(tag(torch)) == Some(by))
        && row.with_setting.as_ref().is_none_or(|setting| {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let set = subject
                .settings(name)
                .chain(env.settings.iter().filter(|setting| setting.name == name));
            let mut set = set.filter(|setting| value.is_empty() || setting.value == value);
            set.next().is_some()
        })
        && row
            .without_package
            .as_ref()
            .is_none_or(|package| !env.has(package))
}

pub(super) fn known_faults(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let Some(torch) = amd_torch(subject, env) else {
        return Outcome::NotApplicable;
    };
    let found = format!("torch {}", torch.version);
    let hits: Vec<&TorchRow> = subject
        .rules
        .torch
        .iter()
        .filter(|row| has_fault(subject, env, torch, row))
        .collect();
    // The rows stand with the worst first.
    let Some(row) = hits.first() else {
        return Outcome::ok(format!("{found}: no known fault on this card"));
    };
    let gfx = subject.training_amd().find_map(|gpu| gpu.gfx.as_deref());
    let mut cure = right_torch(subject, env, gfx);
    cure.text = row.cure.to_string();
    Outcome::weighing(
        row.stops,
        format!("{found}, rule {}", row.id),
        row.means.to_string(),
    )
    .cure(cure)
    .source(&row.source)
}

pub(super) fn grouped_products(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let set = &subject.rules.gfx.grouped_mm_crash;
    let gfx = subject
        .training_amd()
        .filter_map(|gpu| gpu.gfx.as_deref())
        .find(|gfx| set.has(gfx));
    let (Some(torch), Some(gfx)) = (amd_torch(subject, env), gfx) else {
        return Outcome::NotApplicable;
    };
    let row = &subject.rules.version.grouped_mm_crash;
    match rocm(torch) {
        None => Outcome::unknown(format!("the ROCm of torch {} is not known", torch.version)),
        Some(version) if row.has(&version) => Outcome::limits(
            format!("torch {} on {gfx}", torch.version),
            "torch._grouped_mm ends the process here, so mixtures of experts do not train; other models do.",
        )
        .cure(right_torch(subject, env, Some(gfx)))
        .source(&row.source),
        Some(_) => Outcome::ok(format!("torch {}", torch.version)),
    }
}

pub(super) fn engine(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let Some(torch) = &env.torch else {
        return Outcome::NotApplicable;
    };
    match torch_number(torch) {
        None => Outcome::unknown(format!("the version {} of torch has no number", torch.version)),
        Some(version) if version.minor() == TORCH_MINOR => Outcome::ok(format!("torch {}", torch.version)),
        Some(_) => Outcome::note(
            format!("torch {}", torch.version),
            format!(
                "The native engine is made for torch {TORCH_MINOR} and cannot use another; the engines in Python can, and \
                 are slower to start."
            ),
        )
        .cure(right_torch(subject, env, subject.training_amd().find_map(|gpu| gpu.gfx.as_deref())))
        .source(&subject.rules.version.native_torch.source),
    }
}

pub(super) fn python(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if env.site.is_none() {
        return Outcome::NotApplicable;
    }
    let Some(python) = env.python.as_deref().and_then(Version::parse) else {
        return Outcome::unknown("the version of its Python was not read");
    };
    let found = format!("Python {}", python.minor());
    let platform = if subject.wsl() {
        Platform::Linux
    } else {
        subject.system.platform
    };
    let torch = env.torch.as_ref().and_then(torch_number);
    let row =
        subject.rules.python.iter().find(|row| {
            row.platform == platform && torch.as_ref().is_none_or(|torch| row.torch.contains(torch))
        });
    let Some(row) = row else {
        return Outcome::unknown(format!(
            "{found}; for which versions this torch has wheels is not known"
        ));
    };
    if row.python.contains(&python) {
        return Outcome::ok(found);
    }
    let means = format!(
        "Wheels of torch for ROCm are there for Python {}.",
        row.python.text()
    );
    let cure = Cure::new("Make the environment anew with Python 3.12, which every source has wheels for.")
        .run(format!("uv venv --python 3.12 --clear {}", quoted(&env.name())));
    // What is installed already needs no wheel any more.
    Outcome::fails(found, means)
        .cure(cure)
        .source(&row.source)
        .only_a_note_if(env.torch.is_some())
}

pub(super) fn pairs(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let Some(torch) = env.torch.as_ref().and_then(torch_number) else {
        return Outcome::NotApplicable;
    };
    let companions = [
        ("torchvision", env.number("torchvision")),
        ("torchaudio", env.number("torchaudio")),
    ];
    if companions.iter().all(|(_, version)| version.is_none()) {
        return Outcome::NotApplicable;
    }
    let Some(row) = subject.rules.pair.iter().find(|row| row.torch.contains(&torch)) else {
        return Outcome::unknown(format!(
            "which versions belong to torch {} is not known",
            torch.minor()
        ));
    };
    for (name, version) in companions {
        let range = if name == "torchvision" {
            &row.torchvision
        } else {
            &row.torchaudio
        };
        if version.as_ref().is_some_and(|version| !range.contains(version)) {
            return Outcome::note(
                format!("torch {} with {name} {}", torch.minor(), env.version(name).unwrap_or_default()),
                format!("{name} for this torch is {}. Another one ends with an undefined symbol when it is imported.", range.text()),
            )
            .cure(Cure::new("Take it out; text models need neither of the two.").run(format!(
                "uv pip uninstall --python {} {name}",
                quoted(&env.name())
            )))
            .source(&row.source);
        }
    }
    Outcome::ok("they belong together")
}

pub(super) fn rocm_packages(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let Some(torch) = amd_torch(subject, env) else {
        return Outcome::NotApplicable;
    };
    let parts: Vec<_> = env
        .packages
        .iter()
        .filter(|package| package.name == "rocm" || package.name.starts_with("rocm-sdk-"))
        .collect();
    if parts.is_empty() {
        return Outcome::NotApplicable;
    }
    let minors: BTreeSet<String> = parts
        .iter()
        .filter_map(|package| Some(Version::parse(&package.version)?.minor()))
        .chain(rocm_of_tag(tag(torch)).map(|version| version.minor()))
        .collect();
    let found = format!(
        "torch {}, {}",
        torch.version,
        parts
            .iter()
            .map(|package| format!("{} {}", package.name, package.version))
            .collect::<Vec<_>>()
            .join(", ")
    );
    if minors.len() == 1 {
        return Outcome::ok(found);
    }
    Outcome::fails(
        found,
        "Parts of several versions of ROCm lie in one environment: the first call ends with a crash or sees no card.",
    )
    .cure(right_torch(subject, env, subject.training_amd().find_map(|gpu| gpu.gfx.as_deref())))
}

const TRITONS: [&str; 4] = ["triton", "pytorch-triton-rocm", "triton-rocm", "triton-windows"];

fn tritons(env: &PythonEnvironment) -> Vec<String> {
    let named = env
        .packages
        .iter()
        .filter(|package| TRITONS.contains(&package.name.as_str()));
    named
        .map(|package| format!("{} {}", package.name, package.version))
        .collect()
}

pub(super) fn two_tritons(_: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let found = tritons(env);
    match found.as_slice() {
        [] => Outcome::NotApplicable,
        [one] => Outcome::ok(one.clone()),
        _ => Outcome::fails(
            found.join(" and "),
            "All of them lie in one folder, so the one installed last has overwritten the others in part. One open report \
             of GPU resets shows this pair.",
        )
        .cure(
            Cure::new("Take them all out, then install the one that belongs to this torch from torch's own index.").run(format!(
                "uv pip uninstall --python {} {}",
                quoted(&env.name()),
                TRITONS.join(" ")
            )),
        ),
    }
}

pub(super) fn triton_amd(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if amd_torch(subject, env).is_none() {
        return Outcome::NotApplicable;
    }
    let Some(backends) = &env.triton_backends else {
        return Outcome::NotApplicable;
    };
    let found = format!(
        "triton/backends: {}",
        if backends.is_empty() {
            "empty".to_owned()
        } else {
            backends.join(", ")
        }
    );
    if backends.iter().any(|backend| backend == "amd") {
        return Outcome::ok(found);
    }
    Outcome::fails(
        found,
        "This Triton is made for CUDA alone: compiled kernels end with `0 active drivers`. PyPI's `triton` was put over \
         torch's own.",
    )
    .cure(right_torch(subject, env, subject.training_amd().find_map(|gpu| gpu.gfx.as_deref())))
}

pub(super) fn triton_rocm(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let Some(torch) = amd_torch(subject, env) else {
        return Outcome::NotApplicable;
    };
    let of_tag = TRITONS
        .iter()
        .find_map(|name| rocm_of_tag(local_tag(env.version(name)?)?))
        .map(|version| version.part(0));
    let (Some(triton), Some(own)) = (
        of_tag.or(env.triton_rocm_major),
        rocm(torch).map(|version| version.part(0)),
    ) else {
        return if tritons(env).is_empty() {
            Outcome::NotApplicable
        } else {
            Outcome::unknown("the ROCm that Triton was built for is in none of its names")
        };
    };
    let found = format!("Triton of ROCm {triton}, torch of ROCm {own}");
    if triton == own {
        return Outcome::ok(found);
    }
    Outcome::fails(
        found,
        "Two versions of the HIP runtime are loaded into one process, which ends in crashes.",
    )
    .cure(right_torch(
        subject,
        env,
        subject.training_amd().find_map(|gpu| gpu.gfx.as_deref()),
    ))
}

/// (7, 14) of `714`: the first digit is the major version.
fn library_version(digits: &str) -> Option<(u64, u64)> {
    let (major, minor) = digits.split_at_checked(1)?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Which library bitsandbytes loads: the exact one, else the next lower of the same major version, else the next higher.
fn chosen_library(libraries: &[String], wanted: (u64, u64)) -> Option<&str> {
    let of_major = || {
        libraries
            .iter()
            .filter_map(|digits| Some((digits.as_str(), library_version(digits)?)))
            .filter(|(_, (major, _))| *major == wanted.0)
    };
    let lower = of_major()
        .filter(|(_, version)| *version <= wanted)
        .max_by_key(|(_, version)| *version);
    let higher = || {
        of_major()
            .filter(|(_, version)| *version > wanted)
            .min_by_key(|(_, version)| *version)
    };
    lower.or_else(higher).map(|(digits, _)| digits)
}

pub(super) fn four_bit_library(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let (Some(torch), Some(libraries)) = (amd_torch(subject, env), &env.bitsandbytes_rocm) else {
        return Outcome::NotApplicable;
    };
    let list = if libraries.is_empty() {
        "no library for ROCm".to_owned()
    } else {
        format!("libraries for ROCm {}", libraries.join(", "))
    };
    let forced = subject
        .setting("BNB_ROCM_VERSION")
        .map(|setting| setting.value.trim().to_owned());
    if let Some(digits) = forced.filter(|digits| !digits.is_empty()) {
        let found = format!("{list}; BNB_ROCM_VERSION={digits}");
        if libraries.contains(&digits) {
            return Outcome::ok(found);
        }
        return Outcome::limits(
            found,
            "The library that the variable asks for is not there, so nothing trains in 4 bit.",
        )
        .cure(
            Cure::new("Take the variable away, or name a library that is there.").run(if subject.windows() {
                "Remove-Item Env:BNB_ROCM_VERSION"
            } else {
                "unset BNB_ROCM_VERSION"
            }),
        );
    }
    let Some(version) = rocm(torch) else {
        return Outcome::unknown(format!(
            "{list}; the ROCm of torch {} is not known",
            torch.version
        ));
    };
    let number = env.number("bitsandbytes");
    let decimal = &subject.rules.version.bitsandbytes_decimal_names;
    let exact_only = number.as_ref().is_some_and(|number| decimal.has(number));
    let update = || {
        Cure::new("Install a bitsandbytes that has one, or train in 16 bit.")
            .run(install(env, "--upgrade --no-deps 'bitsandbytes>=0.50.2'"))
    };
    if exact_only {
        // These versions took major x 10 + minor for the name: 7.12 asks for 82.
        let hip = torch.hip.as_deref().and_then(Version::parse).unwrap_or(version);
        let wanted = (hip.part(0) * 10 + hip.part(1)).to_string();
        let found = format!("{list}; this version asks for {wanted}");
        if libraries.contains(&wanted) {
            return Outcome::ok(found);
        }
        return Outcome::limits(
            found,
            "It ends with `Configured ROCm binary not found`, so nothing trains in 4 bit.",
        )
        .cure(update())
        .source(&decimal.source);
    }
    let found = format!("{list}; torch is of ROCm {}", version.minor());
    match chosen_library(libraries, (version.part(0), version.part(1))) {
        Some(digits) => {
            let needs_new = subject.training_amd().find(|gpu| {
                let gfx = gpu.gfx.as_deref().unwrap_or_default();
                gfx.starts_with("gfx103") && library_version(digits).is_some_and(|version| version < (7, 14))
            });
            match needs_new {
                Some(card) => Outcome::limits(
                    format!("{found}; {digits} is taken"),
                    format!(
                        "That library has no code for {}; the one for 7.14 has.",
                        card_name(card)
                    ),
                )
                .cure(
                    Cure::new(
                        "Name the library for 7.14; whether it works with this torch the calibration shows.",
                    )
                    .run(if subject.windows() {
                        "$env:BNB_ROCM_VERSION = \"714\""
                    } else {
                        "export BNB_ROCM_VERSION=714"
                    }),
                ),
                None => Outcome::ok(format!("{found}; {digits} is taken")),
            }
        }
        None => Outcome::limits(
            found,
            "None of them serves this ROCm, so nothing trains in 4 bit.",
        )
        .cure(update()),
    }
}

pub(super) fn four_bit_version(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if amd_torch(subject, env).is_none() || !wants_bitsandbytes(env) {
        return Outcome::NotApplicable;
    }
    let Some(version) = env.number("bitsandbytes") else {
        return Outcome::unknown("the version of bitsandbytes was not read");
    };
    let found = format!("bitsandbytes {}", env.version("bitsandbytes").unwrap_or_default());
    let row = &subject.rules.version.bitsandbytes_too_old;
    if row.has(&version) {
        return Outcome::limits(
            found,
            "Versions before 0.50 compute 4-bit products wrongly on AMD cards, as NaN or as garbage. Which cards it hits is \
             told differently in different threads; the calibration measures it.",
        )
        .cure(Cure::new("Update it.").run(install(env, "--upgrade --no-deps 'bitsandbytes>=0.50.2'")))
        .source(&row.source);
    }
    Outcome::ok(found)
}

pub(super) fn four_bit_leftover(_: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if !wants_bitsandbytes(env) {
        return Outcome::NotApplicable;
    }
    if !env.bitsandbytes_is_hollow {
        return Outcome::ok("its code is there");
    }
    let folder = env
        .site
        .as_ref()
        .map(|site| site.join("bitsandbytes").display().to_string())
        .unwrap_or_default();
    Outcome::limits(
        format!("{folder} has no __init__.py"),
        "A folder that an earlier build left behind passes for an empty package: bitsandbytes is imported and has nothing \
         in it.",
    )
    .cure(Cure::new("Take the folder away and install the package anew.").run(format!(
        "rm -r {} && {}",
        quoted(&folder),
        install(env, "--reinstall --no-deps 'bitsandbytes>=0.50.2'")
    )))
}

pub(super) fn xformers(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let rdna = subject.training_amd().find(|gpu| {
        gpu.gfx
            .as_deref()
            .is_some_and(|gfx| subject.rules.gfx.rdna.has(gfx))
    });
    let (Some(card), Some(_)) = (rdna, &env.site) else {
        return Outcome::NotApplicable;
    };
    match env.version("xformers") {
        None => Outcome::ok("not installed"),
        Some(version) => Outcome::note(
            format!("xformers {version}"),
            format!("Its kernels are for data-centre cards; on {} they do not run, and it may pull in another torch.", card_name(card)),
        )
        .cure(
            Cure::new("Take it out; torch's own attention serves.")
                .run(format!("uv pip uninstall --python {} xformers", quoted(&env.name()))),
        ),
    }
}

/// Whether the packages of a row are there in the versions that clash.
fn clashes(subject: &Subject<'_>, env: &PythonEnvironment, row: &ClashRow) -> bool {
    let platform = row
        .platform
        .is_none_or(|platform| platform == subject.system.platform);
    let vendor = row
        .vendor
        .is_none_or(|vendor| subject.training().any(|gpu| gpu.vendor == Some(vendor)));
    platform
        && vendor
        && row
            .packages
            .iter()
            .all(|(name, range)| env.number(name).is_some_and(|version| range.contains(&version)))
}

fn clash(subject: &Subject<'_>, env: &PythonEnvironment, check: &str) -> Outcome {
    let rows: Vec<&ClashRow> = subject
        .rules
        .clash
        .iter()
        .filter(|row| *row.check == *check)
        .collect();
    let named: BTreeSet<&String> = rows.iter().flat_map(|row| row.packages.keys()).collect();
    let texts: Vec<String> = named
        .iter()
        .filter_map(|name| Some(format!("{name} {}", env.version(name)?)))
        .collect();
    // Nothing is said of packages that are not there.
    let any_whole = rows.iter().any(|row| {
        row.packages.keys().all(|name| env.has(name))
            && row
                .platform
                .is_none_or(|platform| platform == subject.system.platform)
    });
    if !any_whole {
        return Outcome::NotApplicable;
    }
    let found = texts.join(", ");
    match rows.into_iter().find(|row| clashes(subject, env, row)) {
        None => Outcome::ok(found),
        Some(row) => Outcome::weighing(row.stops, found, row.means.to_string())
            .cure(Cure::new("Install versions that go together.").run(install(env, &row.install)))
            .source(&row.source),
    }
}

pub(super) fn trl(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    clash(subject, env, "env-trl")
}

pub(super) fn gemma(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    clash(subject, env, "env-gemma")
}

pub(super) fn accelerate(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    clash(subject, env, "env-accelerate")
}

pub(super) fn unsloth(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    clash(subject, env, "env-unsloth")
}

pub(super) fn torchao(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    clash(subject, env, "env-torchao")
}

/// The CUDA that a torch was built for.
fn torch_cuda(torch: &Torch) -> Option<Version> {
    cuda_of_tag(tag(torch)).or_else(|| Version::parse(torch.cuda.as_deref()?))
}

pub(super) fn cuda_driver(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let torch = env
        .torch
        .as_ref()
        .filter(|torch| is_cuda(torch) && subject.training().any(is_nvidia));
    let Some(wheel) = torch.and_then(torch_cuda) else {
        return Outcome::NotApplicable;
    };
    let Some((driver, how)) = driver_cuda(subject) else {
        return Outcome::unknown("the CUDA version of the driver was not read");
    };
    let found = format!("{how}; torch is built for CUDA {}", wheel.minor());
    let update = "Update NVIDIA's driver, or install a torch for an older CUDA; the plan names one.";
    if driver.part(0) < wheel.part(0) {
        return Outcome::fails(
            found,
            "torch ends with `The NVIDIA driver on your system is too old`.",
        )
        .cure(Cure::new(update).run("tunesmith plan"));
    }
    if driver < wheel {
        return Outcome::note(
            found,
            "Within one major version this usually works; kernels that are compiled at run time may not.",
        )
        .cure(Cure::new(update).run("tunesmith plan"));
    }
    Outcome::ok(found)
}

pub(super) fn cuda_capability(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    let card = subject.training().find(|gpu| is_nvidia(gpu));
    let (Some(torch), Some(card)) = (env.torch.as_ref().filter(|torch| is_cuda(torch)), card) else {
        return Outcome::NotApplicable;
    };
    let Some(capability) = capability(card) else {
        return Outcome::unknown("the card's compute capability was not read");
    };
    let Some(row) = subject
        .rules
        .cuda_wheel
        .iter()
        .find(|row| *row.tag == *tag(torch))
    else {
        return Outcome::unknown(format!(
            "which cards torch {} has code for is not known",
            torch.version
        ));
    };
    let found = format!(
        "torch {}, compute capability {}",
        torch.version,
        capability.minor()
    );
    if row.capability.contains(&capability) {
        return Outcome::ok(found);
    }
    let fitting = subject
        .rules
        .cuda_wheel
        .iter()
        .find(|row| row.capability.contains(&capability));
    let cure = match fitting {
        Some(row) => Cure::new("Install the torch that has code for this card.").run(install(
            env,
            &format!(
                "--reinstall torch==2.11.0 --index-url https://download.pytorch.org/whl/{}",
                row.tag
            ),
        )),
        None => Cure::new("No torch of this version has code for this card."),
    };
    Outcome::fails(
        found,
        "It has no code for this card: every kernel ends with `no kernel image is available`.",
    )
    .cure(cure)
    .source(&row.source)
}

pub(super) fn activation(subject: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if env.site.is_none() || !subject.amd().any(is_amd) {
        return Outcome::NotApplicable;
    }
    let bad = |name: &str| name.starts_with("HSA_OVERRIDE_GFX_VERSION");
    let Some(setting) = env
        .settings
        .iter()
        .find(|setting| bad(&setting.name) && !setting.value.is_empty())
    else {
        return Outcome::ok("its activation scripts set no gfx override");
    };
    let place = setting
        .line
        .map_or(String::new(), |line| format!(", line {line}"));
    Outcome::note(
        format!("{}={} in {}{place}", setting.name, setting.value, setting.origin),
        "Every shell that activates this environment runs code for another card than the one that is there; a script that \
         did so is why one machine trained on the processor without a word.",
    )
    .cure(Cure::new("Take the line out of the script.").run_if_known(
        (!subject.windows()).then(|| format!("sed -i.bak '/{}/d' {}", setting.name, quoted(&setting.origin))).as_deref(),
    ))
}

pub(super) fn isolated(_: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    match env.system_site_packages {
        None => Outcome::NotApplicable,
        Some(false) => Outcome::ok("include-system-site-packages = false"),
        Some(true) => Outcome::note(
            "include-system-site-packages = true in pyvenv.cfg",
            "Packages of the system are seen too, so a torch or Triton from there may be loaded, and an update of the \
             system may change a run.",
        )
        .cure(Cure::new("Make the environment anew without the system's packages.").run(format!(
            "uv venv --python 3.12 --clear {}",
            quoted(&env.name())
        ))),
    }
}

pub(super) fn twice(_: &Subject<'_>, env: &PythonEnvironment) -> Outcome {
    if env.site.is_none() {
        return Outcome::NotApplicable;
    }
    let pairs = env
        .packages
        .windows(2)
        .filter(|pair| pair[0].name == pair[1].name);
    let found: Vec<String> = pairs
        .map(|pair| format!("{} {} and {}", pair[0].name, pair[0].version, pair[1].version))
        .collect();
    let Some(first) = env.packages.windows(2).find(|pair| pair[0].name == pair[1].name) else {
        return Outcome::ok("none");
    };
    Outcome::note(
        found.join(", "),
        "An update broke off: which files lie there now is not certain.",
    )
    .cure(Cure::new("Install the package anew.").run(install(
        env,
        &format!("--reinstall --no-deps {}=={}", first[0].name, first[1].version),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitsandbytes_takes_the_library_that_its_rule_names() {
        let libraries = ["64", "70", "72", "714"].map(str::to_owned);
        let chosen = |major, minor| chosen_library(&libraries, (major, minor));
        assert_eq!(chosen(7, 2), Some("72"));
        assert_eq!(chosen(7, 13), Some("72"));
        assert_eq!(chosen(7, 15), Some("714"));
        // Only newer ones of that major version.
        assert_eq!(chosen(6, 1), Some("64"));
        assert_eq!(chosen(10, 0), None);
    }
}
