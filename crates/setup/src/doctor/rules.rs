//! The part of the checks that time changes: thresholds, versions, lists of targets, known bad builds.
//!
//! It lies in `assets/knowledge/checks.toml`, every row with its day and its source; the code only reads a machine and
//! compares. A user may put a newer file in its place, so a mistake names the file, the line and the key.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::version::{Range, Version};
use crate::knowledge::{AsOf, KnowledgeError, KnowledgeFile, Text};
use tunesmith_probe::{GpuVendor, Platform};

const FILE: (&str, &str) = (
    "checks.toml",
    include_str!("../../../../assets/knowledge/checks.toml"),
);

/// What the checks compare a machine with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    pub(crate) threshold: Thresholds,
    pub(crate) version: Versions,
    pub(crate) gfx: GfxSets,
    pub(crate) kernel: Vec<KernelRow>,
    pub(crate) setting: Vec<SettingRow>,
    pub(crate) parameter: Vec<ParameterRow>,
    pub(crate) torch: Vec<TorchRow>,
    pub(crate) clash: Vec<ClashRow>,
    pub(crate) pair: Vec<PairRow>,
    pub(crate) python: Vec<PythonRow>,
    pub(crate) cuda_wheel: Vec<CudaWheelRow>,
    pub(crate) nvidia_driver: Vec<NvidiaDriverRow>,
}

impl Rules {
    /// The rules in `checks.toml` of `folder`, or the built-in ones where it has no such file.
    ///
    /// # Errors
    /// [`KnowledgeError`] where the file cannot be read, or the first mistake with its file, line and key.
    pub fn load(folder: Option<&Path>) -> Result<Rules, KnowledgeError> {
        let (name, built_in) = FILE;
        KnowledgeFile::find(folder, name, built_in)?.parse()
    }
}

/// What a finding stops, as a rule's row says it. `nothing` is a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Weight {
    Recipe,
    Speed,
    BiggerModels,
    Nothing,
}

macro_rules! rows {
    ($(#[doc = $doc:literal] $name:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* })*) => { $(
        #[doc = $doc]
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "day and reason are for the reader of the file")]
        pub(crate) struct $name {
            $($(#[$attribute])* pub(crate) $field: $kind,)*
            pub(crate) as_of: AsOf,
            pub(crate) source: Text,
        }
    )* };
}

rows! {
    /// A number.
    Threshold { value: f64, unit: Text, reason: Text, }
    /// A version that something changes at.
    VersionRow { value: Range, reason: Text, }
    /// Targets that share a trait.
    GfxSet { targets: Vec<String>, reason: Text, }
    /// A kernel with a known fault for some targets.
    KernelRow { gfx: Vec<String>, kernel: Range, stops: Weight, means: Text, cure: Text, }
    /// Text in the kernel's log that tell of a fault.
    LogRow { check: Text, any: Vec<String>, #[serde(default)] also: Vec<String>, }
    /// A variable that costs something when it has one of these values.
    SettingRow {
        check: Text, name: Text, values: Vec<String>, #[serde(default)] vendor: Option<GpuVendor>,
        stops: Weight, means: Text,
    }
    /// A kernel parameter that does not exist, and the one that was meant.
    ParameterRow { wrong: Text, right: Text, }
    /// Builds of torch with a known fault on some targets.
    TorchRow {
        id: Text, gfx: Vec<String>, #[serde(default)] torch: Option<Range>, #[serde(default)] rocm: Option<Range>,
        #[serde(default)] built_by: Option<BuiltBy>, #[serde(default)] dates: Option<[u32; 2]>,
        #[serde(default)] with_setting: Option<String>, #[serde(default)] without_package: Option<String>,
        stops: Weight, means: Text, cure: Text,
    }
    /// Versions of packages that do not go together.
    ClashRow {
        check: Text, packages: BTreeMap<String, Range>, #[serde(default)] platform: Option<Platform>,
        #[serde(default)] vendor: Option<GpuVendor>, stops: Weight, means: Text, install: Text,
    }
    /// Packages that belong to a torch.
    PairRow { torch: Range, torchvision: Range, torchaudio: Range, }
    /// The versions of Python that a torch has wheels for.
    PythonRow { platform: Platform, torch: Range, python: Range, }
    /// The compute capabilities that wheels for a CUDA version hold code for.
    CudaWheelRow { tag: Text, capability: Range, }
    /// The newest CUDA of a series of NVIDIA's driver.
    NvidiaDriverRow { driver: Range, cuda: Text, }
}

/// Who built a wheel, told by its tag: PyTorch writes `rocm7.2`, AMD `rocm7.13.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BuiltBy {
    Pytorch,
    Amd,
}

impl BuiltBy {
    pub(crate) fn of_tag(tag: &str) -> Option<BuiltBy> {
        let numbers = tag.strip_prefix("rocm")?;
        match numbers.split('.').count() {
            2 => Some(BuiltBy::Pytorch),
            _ => Some(BuiltBy::Amd),
        }
    }
}

macro_rules! table {
    ($(#[doc = $doc:literal] $name:ident of $row:ident { $($field:ident,)* })*) => { $(
        #[doc = $doc]
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name { $(pub(crate) $field: $row,)* }
    )* };
}

table! {
    /// Every number that a check compares with; one that is missing from the file is a mistake in it.
    Thresholds of Threshold {
        small_card_bytes,
        small_memory_bytes,
        low_available_bytes,
        carve_out_share,
        carve_out_bytes,
        half_of_memory_share,
        host_reserve_bytes,
        host_reserve_share,
        vram_taken_share,
        slow_link_gt_per_sec,
        narrow_link_lanes,
        cache_free_bytes,
        data_free_bytes,
        laptop_power_watts,
        windows_build,
        pool_short_share,
        bad_mes_firmware,
        bad_linux_firmware,
    }
    /// Every version that a check compares with.
    Versions of VersionRow {
        kernel_without_rdna4,
        kernel_with_small_pool,
        flatpak_with_kfd,
        rocm_that_finds_dxg,
        wsl_old_hsa,
        windows_rdna2_driver,
        bitsandbytes_too_old,
        bitsandbytes_decimal_names,
        grouped_mm_crash,
        capability_without_route,
        oldest_cuda_driver,
        native_torch,
    }
    /// Every list of targets that a check looks into.
    GfxSets of GfxSet {
        wrong_gradients,
        buffer_ops_broken,
        shadowing,
        no_hipblaslt,
        strix,
        needs_register_sizes,
        mes_fault,
        rdna4,
        rdna,
        grouped_mm_crash,
    }
}

impl GfxSet {
    pub(crate) fn has(&self, gfx: &str) -> bool {
        self.targets.iter().any(|target| target == gfx)
    }
}

impl VersionRow {
    pub(crate) fn has(&self, version: &Version) -> bool {
        self.value.contains(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_file_line_and_key() {
        let built_in = FILE.1;
        let mistakes = [
            ("value = 4000000000", "value = \"four\"", "value"),
            ("as_of = \"2026-11-30\"", "as_of = \"yesterday\"", "as_of"),
            ("value = \"<6.12\"", "value = \"old\"", "value"),
            (
                "[version.flatpak_with_kfd]",
                "[version.flatpack_with_kfd]",
                "flatpack_with_kfd",
            ),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (right, wrong, key) in mistakes {
            assert!(built_in.contains(right), "{right}");
            let text = built_in.replacen(right, wrong, 1);
            let line = 1 + text[..text.find(wrong).unwrap()].matches('\n').count();
            std::fs::write(folder.path().join(FILE.0), text).unwrap();
            let error = Rules::load(Some(folder.path())).unwrap_err().to_string();
            assert!(
                error.contains("checks.toml") && error.contains(&line.to_string()),
                "{error}"
            );
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_folder_without_the_file_takes_the_built_in_rules() {
        let folder = tempfile::tempdir().unwrap();
        let rules = Rules::load(Some(folder.path())).unwrap();
        assert!(!rules.torch.is_empty() && !rules.clash.is_empty());
    }
}
