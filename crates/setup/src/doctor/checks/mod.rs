//! The list of all checks, and the words in which a check answers.
//!
//! A check reads and compares; what changes with time stands in the rules. It has no effect, and no input makes it
//! fail: what it cannot tell it calls unknown.

mod access;
mod card;
mod cards;
mod environment;
mod hardware;
mod kernel;
mod log;
mod memory;
mod platform;
mod settings;

use tunesmith_probe::Gpu;

use super::rules::Weight;
use super::subject::Subject;
use super::{Cure, Group, PythonEnvironment, Stops};

/// One check: what it is called and how it is made.
pub(crate) struct Spec {
    /// Stable name.
    pub(crate) id: &'static str,
    /// What it belongs to.
    pub(crate) group: Group,
    /// What is checked.
    pub(crate) title: &'static str,
    /// Threads and documents that it rests on.
    pub(crate) sources: &'static [&'static str],
    /// How it is made.
    pub(crate) run: Run,
}

/// How a check is made: once, for each card, or for each environment.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    Machine(fn(&Subject<'_>) -> Outcome),
    Card(fn(&Subject<'_>, &Gpu) -> Outcome),
    Environment(fn(&Subject<'_>, &PythonEnvironment) -> Outcome),
}

/// What a check answers.
pub(crate) enum Outcome {
    /// The question has no meaning here.
    NotApplicable,
    /// In order, with what was read.
    Ok(String),
    /// It cannot be told, and why.
    Unknown(String),
    /// Something is the matter.
    Trouble(Box<Trouble>),
}

/// Something that is the matter.
pub(crate) struct Trouble {
    pub(crate) stops: Option<Stops>,
    pub(crate) found: String,
    pub(crate) means: String,
    pub(crate) cure: Option<Cure>,
    /// In place of the check's own, where a row of the rules decided.
    pub(crate) sources: Vec<String>,
}

impl Outcome {
    fn trouble(stops: Option<Stops>, found: impl Into<String>, means: impl Into<String>) -> Outcome {
        Outcome::Trouble(Box::new(Trouble {
            stops,
            found: found.into(),
            means: means.into(),
            cure: None,
            sources: Vec::new(),
        }))
    }

    /// The recommended recipe does not run, or computes wrongly.
    fn fails(found: impl Into<String>, means: impl Into<String>) -> Outcome {
        Outcome::trouble(Some(Stops::Recipe), found, means)
    }

    /// It runs slower.
    fn slows(found: impl Into<String>, means: impl Into<String>) -> Outcome {
        Outcome::trouble(Some(Stops::Speed), found, means)
    }

    /// It keeps larger models off.
    fn limits(found: impl Into<String>, means: impl Into<String>) -> Outcome {
        Outcome::trouble(Some(Stops::BiggerModels), found, means)
    }

    /// Worth knowing; it stops nothing.
    fn note(found: impl Into<String>, means: impl Into<String>) -> Outcome {
        Outcome::trouble(None, found, means)
    }

    /// As heavy as a row of the rules says.
    fn weighing(weight: Weight, found: impl Into<String>, means: impl Into<String>) -> Outcome {
        let stops = match weight {
            Weight::Recipe => Some(Stops::Recipe),
            Weight::Speed => Some(Stops::Speed),
            Weight::BiggerModels => Some(Stops::BiggerModels),
            Weight::Nothing => None,
        };
        Outcome::trouble(stops, found, means)
    }

    fn ok(found: impl Into<String>) -> Outcome {
        Outcome::Ok(found.into())
    }

    fn unknown(why: impl Into<String>) -> Outcome {
        Outcome::Unknown(why.into())
    }

    fn cure(mut self, cure: Cure) -> Outcome {
        if let Outcome::Trouble(trouble) = &mut self {
            trouble.cure = Some(cure);
        }
        self
    }

    fn source(mut self, source: &str) -> Outcome {
        if let Outcome::Trouble(trouble) = &mut self {
            trouble.sources.push(source.to_owned());
        }
        self
    }

    /// Takes the weight off what would stop the recipe: for a card that another can stand in for.
    fn only_a_note_if(mut self, light: bool) -> Outcome {
        if let Outcome::Trouble(trouble) = &mut self
            && light
        {
            trouble.stops = None;
        }
        self
    }
}

const fn machine(
    id: &'static str,
    group: Group,
    title: &'static str,
    sources: &'static [&'static str],
    run: fn(&Subject<'_>) -> Outcome,
) -> Spec {
    Spec {
        id,
        group,
        title,
        sources,
        run: Run::Machine(run),
    }
}

const fn card(
    id: &'static str,
    group: Group,
    title: &'static str,
    sources: &'static [&'static str],
    run: fn(&Subject<'_>, &Gpu) -> Outcome,
) -> Spec {
    Spec {
        id,
        group,
        title,
        sources,
        run: Run::Card(run),
    }
}

const fn environment(
    id: &'static str,
    title: &'static str,
    sources: &'static [&'static str],
    run: fn(&Subject<'_>, &PythonEnvironment) -> Outcome,
) -> Spec {
    Spec {
        id,
        group: Group::Environment,
        title,
        sources,
        run: Run::Environment(run),
    }
}

const GROUPS: &str = "rocm.docs.amd.com, install prerequisites: groups render and video";
const STRIX_PAGE: &str = "lemonade-sdk docs/gfx1151_linux.html";
const FLAGS: &str = "rocm.docs.amd.com, environment variables";
const UNSLOTH: &str = "unsloth 2026.10.9 on PyPI, studio/install_python_stack.py";

/// All checks, in the order in which a person would make them.
#[rustfmt::skip]
pub(crate) const CHECKS: &[Spec] = &[
    machine("card-present", Group::Card, "graphics cards", &["unslothai/unsloth#7301"], card::present),
    card("card-driver", Group::Card, "driver of the card", &["unslothai/unsloth#7301", "ROCm/legacy-rocm-build#4328"], card::driver),
    card("card-compute-driver", Group::Card, "compute driver of the card (KFD)", &["unslothai/unsloth#7301"], card::compute_driver),
    card("card-windows-driver", Group::Card, "driver of the card in Windows", &["learn.microsoft.com, Win32_VideoController"], card::windows_driver),
    card("card-target", Group::Card, "target of the card", &["kernel.org, KFD topology gfx_target_version"], card::target),
    card("card-route", Group::Card, "torch for the card", &["unslothai/unsloth#8473", "unslothai/unsloth#9138", "ROCm/TheRock RELEASES.md"], card::route),
    card("card-gradients", Group::Card, "gradients on the card", &["unslothai/unsloth studio/ROCM_RDNA2_APU.md"], card::gradients),
    card("card-bf16", Group::Card, "bf16 on the card", &["unslothai/unsloth#7923", "unslothai/unsloth#5337"], card::bf16),
    card("card-triton-buffers", Group::Card, "Triton's buffer instructions on RDNA1", &["unslothai/unsloth#11614"], card::triton_buffers),
    card("card-four-bit", Group::Card, "4-bit kernels for the card", &["bitsandbytes 0.50.2 on PyPI, docs"], card::four_bit),
    card("card-memory", Group::Card, "size of the card's memory", &["own: smallest recipe"], card::memory),
    card("card-capability", Group::Card, "compute capability", &["download.pytorch.org, cu126 and cu128 wheels"], card::capability_range),
    card("card-power-cap", Group::Card, "power limit of a laptop's card", &["own: captures of laptops"], card::power_cap),

    machine("kfd-device", Group::Access, "compute device /dev/kfd", &["unslothai/unsloth#7301", "debpalash/VoiceStudio#1274"], access::kfd_device),
    machine("kfd-access", Group::Access, "access to /dev/kfd", &["ROCm/legacy-rocm-build#3072", "ROCm/legacy-rocm-build#2838", "ROCm/legacy-rocm-build#5613", GROUPS], access::kfd_access),
    card("render-node", Group::Access, "render node of the card", &["ROCm/vllm#893"], access::render_node),
    card("render-access", Group::Access, "access to the card's render node", &["ROCm/vllm#893", "ROCm/legacy-rocm-build#3072", GROUPS], access::render_access),
    machine("container-groups", Group::Access, "groups of the container", &["debpalash/VoiceStudio#1274", "ROCm/ROCm-docker#116"], access::container_groups),
    card("container-card", Group::Access, "card in the container", &["ROCm/ROCm-docker#90", "rocr-runtime, libhsakmt topology.c"], access::container_card),
    machine("flatpak-devices", Group::Access, "devices in Flatpak", &["flatpak/flatpak#5383", "janhq/jan#8266"], access::flatpak),

    machine("platform", Group::Platform, "kind of system", &["rocm.docs.amd.com, supported systems"], platform::supported),
    machine("wsl-device", Group::Platform, "card in WSL (/dev/dxg)", &["ROCm/librocdxg README", "microsoft/WSL#40464"], platform::wsl_device),
    machine("wsl-librocdxg", Group::Platform, "AMD's bridge to Windows (librocdxg)", &["ROCm/librocdxg README"], platform::wsl_librocdxg),
    machine("wsl-detection", Group::Platform, "search for the card in WSL", &["unslothai/unsloth#9729", "ROCm/librocdxg#34"], platform::wsl_detection),
    machine("wsl-old-runtime", Group::Platform, "old ROCm runtime of the distribution", &["microsoft/WSL#40464", "unslothai/unsloth install.sh"], platform::wsl_old_runtime),
    card("wsl-memory", Group::Platform, "memory of the card in WSL", &["ROCm/legacy-rocm-build#6022"], platform::wsl_memory),
    card("wsl-free-memory", Group::Platform, "free memory of the card in WSL", &["ROCm/librocdxg#22"], platform::wsl_free_memory),
    machine("windows-build", Group::Platform, "build of Windows", &["ROCm/legacy-rocm-build#6323"], platform::windows_build),
    machine("windows-runtime", Group::Platform, "Visual C++ runtime", &[UNSLOTH], platform::windows_runtime),
    card("windows-carve-out", Group::Platform, "size set aside for graphics in Windows", &["ROCm/TheRock#3032", "ROCm/TheRock#3724", "unslothai/unsloth#8482"], platform::windows_carve_out),
    card("windows-rdna2-driver", Group::Platform, "driver for RDNA2 in Windows", &["ROCm/legacy-rocm-build#5871"], platform::windows_rdna2_driver),

    card("strix-register-sizes", Group::Kernel, "sizes for saving registers", &[STRIX_PAGE, "ROCm/TheRock#2991"], kernel::register_sizes),
    card("strix-mes-firmware", Group::Kernel, "firmware of the card's scheduler (MES)", &["ROCm/legacy-rocm-build#5724", "ROCm/legacy-rocm-build#5616", "ROCm/legacy-rocm-build#5747", "ROCm/legacy-rocm-build#5991"], kernel::mes_firmware),
    card("strix-dkms", Group::Kernel, "amdgpu from outside the kernel", &[STRIX_PAGE], kernel::strix_dkms),
    machine("secure-boot-dkms", Group::Kernel, "Secure Boot and the driver", &["ROCm/legacy-rocm-build#4328"], kernel::secure_boot),
    card("kernel-rdna4", Group::Kernel, "kernel for RDNA4", &["kernel.org, amdkfd for GFX12"], kernel::rdna4),
    card("kernel-faults", Group::Kernel, "known faults of the kernel", &["ROCm/legacy-rocm-build#5444", "ROCm/legacy-rocm-build#6530"], kernel::known_faults),
    machine("kernel-parameters", Group::Kernel, "names of kernel parameters", &["ROCm/legacy-rocm-build#5595"], kernel::misspelt),
    machine("kernel-iommu", Group::Kernel, "IOMMU", &["ROCm/legacy-rocm-build#5824", "kyuz0/amd-strix-halo-toolboxes README"], kernel::iommu),
    machine("kernel-changed", Group::Kernel, "changes since the last good run", &["ublue-os/bazzite#5729"], kernel::changed),

    machine("log-resets", Group::KernelLog, "resets of the card", &["ROCm/legacy-rocm-build#3166", "ROCm/legacy-rocm-build#2533", "ROCm/legacy-rocm-build#5933"], log::resets),
    machine("log-scheduler", Group::KernelLog, "answers of the card's scheduler", &["ROCm/legacy-rocm-build#2533", "ROCm/legacy-rocm-build#2429"], log::scheduler),
    machine("log-page-faults", Group::KernelLog, "page faults of the card", &["ROCm/rocm-libraries#6320", "ROCm/legacy-rocm-build#5724"], log::page_faults),
    machine("log-start", Group::KernelLog, "start of the card", &["ROCm/legacy-rocm-build#4328", "kernel.org, amdgpu firmware"], log::start),
    machine("log-atomics", Group::KernelLog, "PCIe atomics", &["ROCm/legacy-rocm-build#2429", "ROCm/legacy-rocm-build#1214", "ROCm/hip#3368"], log::atomics),
    machine("log-small-window", Group::KernelLog, "window to the card's memory in the kernel's log", &["ROCm/amdgpu#109", "xCuri0/ReBarUEFI#388"], log::small_window),
    machine("log-refused-module", Group::KernelLog, "refused drivers", &["ROCm/legacy-rocm-build#4328"], log::refused_module),
    machine("log-unknown-parameter", Group::KernelLog, "parameters that the driver did not know", &["ROCm/legacy-rocm-build#5595"], log::unknown_parameter),
    machine("log-allocation", Group::KernelLog, "fragmented graphics memory", &["h34v3nz0dex/strix-halo-llm-finetune-guide README"], log::allocation),
    machine("log-out-of-memory", Group::KernelLog, "programs ended for want of memory", &["kernel.org, out-of-memory killer"], log::out_of_memory),
    machine("log-xid", Group::KernelLog, "faults that NVIDIA's driver reported", &["docs.nvidia.com, Xid errors"], log::xid),

    machine("override", Group::Settings, "gfx override", &["ROCm/rocm-libraries#6320", "hyprstream/hyprstream#263", "ROCm/legacy-rocm-build#5824", "pytorch/pytorch#164346"], settings::gfx_override),
    machine("mask-empty", Group::Settings, "masks that hide every card", &[FLAGS, UNSLOTH], settings::mask_empty),
    machine("mask-hides-card", Group::Settings, "masks that hide the card to train on", &["ROCm/TheRock#3392", "oobabooga/textgen#7319"], settings::mask_hides),
    machine("masks-compound", Group::Settings, "masks on masks", &["rocm.docs.amd.com, GPU isolation"], settings::masks_compound),
    machine("library-path", Group::Settings, "library path", &["pytorch/pytorch#194447"], settings::library_path),
    machine("python-path", Group::Settings, "Python's path", &["kyuz0/amd-strix-halo-llm-finetuning README"], settings::python_path),
    machine("allocator-pair", Group::Settings, "pair of options of torch's allocator", &["ROCm/legacy-rocm-build#6603", "pytorch/pytorch#193400"], settings::allocator_pair),
    machine("allocator-segments", Group::Settings, "expandable segments on ROCm", &["pytorch/pytorch#187343", "pytorch/pytorch#177974", "ChenHongYu2026/llm-training-on-consumer-amd README"], settings::allocator_segments),
    machine("attention-flag", Group::Settings, "flag for fast attention", &["ROCm/aotriton", "Comfy-Org/ComfyUI#14249", "ROCm/legacy-rocm-build#6034"], settings::attention_flag),
    machine("hipblaslt-setting", Group::Settings, "library for matrix products", &["ROCm/legacy-rocm-build#5643", "ROCm/TheRock#1062"], settings::hipblaslt),
    machine("setting-sdma", Group::Settings, "copy engines", &[FLAGS], settings::sdma),
    machine("setting-interrupts", Group::Settings, "interrupts of the card", &["ROCm/legacy-rocm-build#6530"], settings::interrupts),
    machine("setting-tuning", Group::Settings, "tuning of matrix products", &["pytorch.org, TunableOp"], settings::tuning),
    machine("setting-queues", Group::Settings, "queues of the card", &[FLAGS], settings::queues),
    machine("setting-debugging", Group::Settings, "switches for debugging", &[FLAGS], settings::debugging),
    machine("setting-compile", Group::Settings, "torch.compile", &["pytorch.org, torch.compile"], settings::compile),

    machine("cards-integrated", Group::Cards, "processor's graphics beside a card", &["ROCm/TheRock#3392", "ROCm/TheRock#5543", "ROCm/legacy-rocm-build#5448", "oobabooga/textgen#7319", "pytorch/pytorch#119637", "unslothai/unsloth#7776"], cards::integrated),
    machine("cards-vendors", Group::Cards, "cards of two vendors", &["unslothai/unsloth#10450"], cards::vendors),
    machine("cards-alike", Group::Cards, "several cards to train on", &["own: one run uses one card"], cards::alike),
    machine("cards-families", Group::Cards, "cards of several families", &["unslothai/unsloth#11569"], cards::families),

    card("unified-limit", Group::Memory, "graphics' limit of main memory", &["ROCm/legacy-rocm-build#5595", "noamsto/nix-amd-ai#42", "rocm.docs.amd.com, Strix Halo"], memory::unified_limit),
    card("unified-old-parameter", Group::Memory, "parameter that sets the limit", &["ROCm/legacy-rocm-build#5595", "kyuz0/amd-strix-halo-vllm-toolboxes#11"], memory::old_parameter),
    card("unified-too-much", Group::Memory, "limit above the main memory", &["amd-gfx list, 23 March 2026"], memory::too_much),
    card("unified-carve-out", Group::Memory, "memory set aside for graphics", &["rocm.docs.amd.com, Strix Halo"], memory::carve_out),
    card("unified-pool", Group::Memory, "pool that ROCm takes memory from", &["ROCm/legacy-rocm-build#5444", "ROCm/TheRock#1054"], memory::pool),
    card("unified-runtime", Group::Memory, "memory that the runtime sees", &["ROCm/rocm-systems#5167"], memory::runtime),
    card("unified-container", Group::Memory, "memory limit of the container", &["own: captures of containers"], memory::container_limit),
    card("recipe-memory", Group::Memory, "memory for the recommended recipe", &["own: memory by formula"], memory::recipe_fits),
    card("card-memory-taken", Group::Memory, "memory of the card in use", &["ROCm/legacy-rocm-build#6389", "ggml-org/llama.cpp#24906"], memory::taken),
    machine("memory-total", Group::Memory, "main memory", &["own: loading holds a model once in main memory"], memory::total),
    machine("memory-available", Group::Memory, "main memory that is free now", &["own: below it the machine swaps"], memory::available),
    machine("memory-swap", Group::Memory, "swap space", &["own: small machines"], memory::swap),

    card("resizable-bar", Group::Hardware, "Resizable BAR", &["ROCm/amdgpu#109", "ROCm/legacy-rocm-build#6022"], hardware::resizable_bar),
    card("link-width", Group::Hardware, "PCI Express lanes", &["kernel.org, PCI sysfs current_link_width"], hardware::link_width),
    card("link-speed", Group::Hardware, "PCI Express generation", &["kernel.org, PCI sysfs max_link_speed"], hardware::link_speed),
    machine("processor-vectors", Group::Hardware, "vectors of the processor", &["pytorch.org, CPU capability"], hardware::vectors),
    machine("processor-bf16", Group::Hardware, "bf16 on the processor", &["pytorch.org, CPU capability"], hardware::bf16),
    machine("processor-limit", Group::Hardware, "cores for this process", &["kernel.org, cgroup cpu.max"], hardware::cores),
    machine("disk-cache", Group::Hardware, "room for downloads and environments", &["pypa/pip#13225", "ROCm/TheRock RELEASES.md"], hardware::cache_disk),
    machine("disk-data", Group::Hardware, "room for runs and models", &["own: checkpoints"], hardware::data_disk),
    machine("card-programs", Group::Hardware, "other programs on the card", &["ROCm/legacy-rocm-build#5933"], hardware::programs),
    machine("nvidia-driver-age", Group::Card, "age of NVIDIA's driver", &["unslothai/unsloth#2499"], card::nvidia_driver_age),

    environment("env-found", "Python environment", &["own"], environment::found),
    environment("env-torch", "torch in the environment", &["own"], environment::torch),
    environment("env-flavour", "torch against the card", &["ROCm/bitsandbytes#37", "Comfy-Org/ComfyUI#5122", "Comfy-Org/comfy-cli#289"], environment::flavour),
    environment("env-kernels", "kernels for the card", &["ROCm/legacy-rocm-build#6049", "pytorch/pytorch#147626", "pytorch/pytorch#179865", "unslothai/unsloth#11569"], environment::kernels),
    environment("env-known-faults", "known faults of this torch", &["ROCm/TheRock#7992", "ROCm/TheRock#5763"], environment::known_faults),
    environment("env-grouped-products", "grouped products (mixtures of experts)", &["ROCm/TheRock#5284", "ROCm/TheRock#4086", "ROCm/pytorch#3283"], environment::grouped_products),
    environment("env-engine", "torch for the native engine", &["own: the engine is made for one version of torch"], environment::engine),
    environment("env-python", "version of Python", &["amd/playbooks#315", "amd/playbooks#428"], environment::python),
    environment("env-pairs", "torchvision and torchaudio", &["ROCm/TheRock RELEASES.md"], environment::pairs),
    environment("env-rocm-packages", "versions of the ROCm packages", &["ROCm/TheRock RELEASES.md", "pytorch/pytorch#194498"], environment::rocm_packages),
    environment("env-two-tritons", "several Tritons", &["state-spaces/mamba#595", "unslothai/unsloth#11498"], environment::two_tritons),
    environment("env-triton-amd", "Triton's AMD back end", &["state-spaces/mamba#595"], environment::triton_amd),
    environment("env-triton-rocm", "ROCm of Triton and torch", &["ROCm/triton#626"], environment::triton_rocm),
    environment("env-4bit-library", "bitsandbytes' library for this ROCm", &["ROCm/bitsandbytes#82", "bitsandbytes-foundation/bitsandbytes#1799", "bitsandbytes-foundation/bitsandbytes#1890", "bitsandbytes-foundation/bitsandbytes#2014"], environment::four_bit_library),
    environment("env-4bit-version", "age of bitsandbytes", &["unslothai/unsloth#7535", "bitsandbytes-foundation/bitsandbytes#1885"], environment::four_bit_version),
    environment("env-4bit-leftover", "leftover folder of bitsandbytes", &["h34v3nz0dex/strix-halo-llm-finetune-guide README"], environment::four_bit_leftover),
    environment("env-xformers", "xformers", &["facebookresearch/xformers#1365"], environment::xformers),
    environment("env-trl", "TRL and transformers", &["huggingface/trl#6105"], environment::trl),
    environment("env-gemma", "transformers and Gemma", &["huggingface/transformers#45242", "unslothai/unsloth-zoo#813"], environment::gemma),
    environment("env-accelerate", "accelerate on Windows", &["huggingface/accelerate#4249"], environment::accelerate),
    environment("env-unsloth", "Unsloth's limits on versions", &["unsloth 2026.10.9 on PyPI, METADATA"], environment::unsloth),
    environment("env-torchao", "torchao on Windows", &[UNSLOTH], environment::torchao),
    environment("env-cuda-driver", "CUDA of torch and driver", &["unslothai/unsloth#2499", "unslothai/unsloth#5827"], environment::cuda_driver),
    environment("env-cuda-capability", "code for the NVIDIA card", &["download.pytorch.org, cu126 and cu128 wheels"], environment::cuda_capability),
    environment("env-override", "gfx override in the activation scripts", &["hyprstream/hyprstream#263"], environment::activation),
    environment("env-isolated", "packages of the system", &["kyuz0/amd-strix-halo-llm-finetuning README"], environment::isolated),
    environment("env-twice", "packages that are there twice", &["own: updates that broke off"], environment::twice),
];
