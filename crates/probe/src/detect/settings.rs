//! Settings of the environment that change what a card does, and the files that make them. A guide's
//! `HSA_OVERRIDE_GFX_VERSION` in `.bashrc` outlives the card that it was meant for, so the file and line matter.

use super::reader::Reader;
use crate::Setting;

/// Names that are kept as they are.
const NAMES: [&str; 27] = [
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_HIP_MEMORY_CACHING",
    "PYTORCH_ROCM_ARCH",
    "GPU_MAX_HW_QUEUES",
    "GPU_ARCHS",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONPATH",
    "PYTHONHOME",
    "ROCM_PATH",
    "ROCM_HOME",
    "HIP_PATH",
    "CUDA_HOME",
    "HIP_LAUNCH_BLOCKING",
    "CUDA_LAUNCH_BLOCKING",
    "FLASH_ATTENTION_TRITON_AMD_ENABLE",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "TOKENIZERS_PARALLELISM",
];
/// Beginnings of names that are kept.
const PREFIXES: [&str; 18] = [
    "HSA_",
    "AMD_",
    "AMDGCN_",
    "AMDGPU_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "PYTORCH_TUNABLEOP_",
    "MIOPEN_",
    "ROCBLAS_",
    "HIPBLASLT_",
    "TENSILE_",
    "TRITON_",
    "BNB_",
    "UNSLOTH_",
    "NVIDIA_",
    "NCCL_",
    "AOTRITON_",
];
/// Files for every user's shell.
const SYSTEM_FILES: [&str; 4] = [
    "etc/environment",
    "etc/profile",
    "etc/bash.bashrc",
    "etc/zsh/zshenv",
];
const SYSTEM_FOLDERS: [&str; 2] = ["etc/profile.d", "etc/environment.d"];
/// Files in a user's folder.
const USER_FILES: [&str; 8] = [
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".xprofile",
    ".config/fish/config.fish",
];
const USER_FOLDER: &str = ".config/environment.d";
/// What the process itself was given.
pub(crate) const PROCESS: &str = "the process's environment";
/// The capture writer's own record.
const CAPTURED: &str = "tunesmith-capture/settings.json";

/// Whether a name is kept. Tokens and keys have none of these names.
fn matters(name: &str) -> bool {
    let secret = ["TOKEN", "SECRET", "PASSWORD", "API_KEY"]
        .iter()
        .any(|word| name.contains(word));
    (!secret || name.starts_with("TOKENIZERS_"))
        && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// `environments` are files at a capture's top that hold lines `NAME=value`.
pub(crate) fn settings(reader: &Reader<'_>, environments: &[String]) -> Vec<Setting> {
    let mut settings = Vec::new();
    if reader.live() {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        settings.extend(
            variables
                .filter(|(name, _)| matters(name))
                .map(|(name, value)| Setting {
                    name,
                    value: super::reader::clean(&value.to_string_lossy()),
                    origin: PROCESS.to_owned(),
                    line: None,
                    in_effect: true,
                }),
        );
        settings.sort_by(|a: &Setting, b| a.name.cmp(&b.name));
    } else {
        if let Some(text) = reader.text(CAPTURED) {
            match super::reader::json(&text)
                .and_then(|value| serde_json::from_value::<Vec<Setting>>(value).ok())
            {
                Some(captured) => {
                    settings.extend(captured.into_iter().filter(|setting| matters(&setting.name)));
                }
                None => reader.note(CAPTURED, "it is no list of settings"),
            }
        }
        if let Ok(bytes) = reader.bytes("proc/self/environ") {
            let text = String::from_utf8_lossy(&bytes);
            let lines = text
                .split('\0')
                .filter_map(|line| line.split_once('='))
                .filter(|(name, _)| matters(name));
            settings.extend(lines.map(|(name, value)| Setting {
                name: name.to_owned(),
                value: super::reader::clean(value),
                origin: PROCESS.to_owned(),
                line: None,
                in_effect: true,
            }));
        }
        for path in environments {
            read_file(reader, path, path, true, &mut settings);
        }
    }
    for path in SYSTEM_FILES {
        read_file(reader, path, &format!("/{path}"), false, &mut settings);
    }
    for folder in SYSTEM_FOLDERS {
        for name in reader.names(folder) {
            let path = format!("{folder}/{name}");
            read_file(reader, &path, &format!("/{path}"), false, &mut settings);
        }
    }
    for home in homes(reader) {
        // The user's name stays out of what is shown.
        for file in USER_FILES {
            read_file(
                reader,
                &format!("{home}/{file}"),
                &format!("~/{file}"),
                false,
                &mut settings,
            );
        }
        for name in reader.names(&format!("{home}/{USER_FOLDER}")) {
            let file = format!("{USER_FOLDER}/{name}");
            read_file(
                reader,
                &format!("{home}/{file}"),
                &format!("~/{file}"),
                false,
                &mut settings,
            );
        }
    }
    // A capture holds its writer's record beside the files themselves.
    let mut once: Vec<Setting> = Vec::new();
    for setting in settings {
        let known = |other: &Setting| {
            (&other.name, &other.value, &other.origin, other.line)
                == (&setting.name, &setting.value, &setting.origin, setting.line)
        };
        if !once.iter().any(known) {
            once.push(setting);
        }
    }
    once
}

/// The folders of users: one's own on a live machine, those that a capture has.
fn homes(reader: &Reader<'_>) -> Vec<String> {
    if reader.live() {
        let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
        return home
            .map(|home| home.trim_start_matches('/').to_owned())
            .into_iter()
            .collect();
    }
    let users = reader
        .names("home")
        .into_iter()
        .take(20)
        .map(|name| format!("home/{name}"));
    users.chain(["root".to_owned()]).collect()
}

fn read_file(reader: &Reader<'_>, path: &str, origin: &str, in_effect: bool, settings: &mut Vec<Setting>) {
    // Whether another user's file may be read is no news.
    let Ok(text) = reader.try_text(path) else { return };
    for (at, line) in text.lines().enumerate() {
        for (name, value) in assignments(line) {
            if matters(&name) {
                settings.push(Setting {
                    name,
                    value,
                    origin: origin.to_owned(),
                    line: Some(at + 1),
                    in_effect,
                });
            }
        }
    }
}

/// The assignments of a line of a shell's file: `A=1`, `export A="1" B=2; C=3`, `set -gx A 1`.
fn assignments(line: &str) -> Vec<(String, String)> {
    let line = line.trim();
    if line.starts_with('#') {
        return Vec::new();
    }
    let fish = ["set -gx ", "set -x ", "set -Ux ", "setenv "]
        .iter()
        .find_map(|command| line.strip_prefix(command));
    if let Some(rest) = fish {
        let mut words = words(rest).into_iter();
        let name = words.next().unwrap_or_default();
        let value = words.collect::<Vec<_>>().join(" ");
        return if is_name(&name) {
            vec![(name, value)]
        } else {
            Vec::new()
        };
    }
    words(line)
        .into_iter()
        .filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            is_name(name).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.starts_with(|char: char| char.is_ascii_digit())
}

/// Words as a shell parts them, without quotes, up to a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    for char in line.chars() {
        match (quote, char) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None, ' ' | '\t' | ';' | '&') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (None, '#') if word.is_empty() => break,
            _ => word.push(char),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether a file holds nothing but lines `NAME=value`, of which at least one matters.
pub(crate) fn looks_like_environment(text: &str) -> bool {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .take(500)
        .collect();
    let name = |line: &str| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        line.split_once('=')
            .map(|(name, _)| name.to_owned())
            .filter(|name| is_name(name))
    };
    let names: Option<Vec<String>> = lines.iter().map(|line| name(line)).collect();
    names.is_some_and(|names| names.iter().any(|name| matters(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    #[test]
    fn assignments_are_found_in_the_forms_that_shells_know() {
        let one = |line: &str| assignments(line).into_iter().next().unwrap_or_default();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            one("HSA_OVERRIDE_GFX_VERSION=11.0.0"),
            pair("HSA_OVERRIDE_GFX_VERSION", "11.0.0")
        );
        assert_eq!(one("  export HSA_X=\"1 2\" # why"), pair("HSA_X", "1 2"));
        assert_eq!(one("set -gx HSA_X 1"), pair("HSA_X", "1"));
        assert_eq!(one("HIP_VISIBLE_DEVICES="), pair("HIP_VISIBLE_DEVICES", ""));
        assert_eq!(assignments("export A=1 B='2'; C=3").len(), 3);
        assert!(assignments("# export A=1").is_empty());
        assert!(assignments("[ \"$A\" = b ] && echo 5=6").is_empty());
    }

    #[test]
    fn a_setting_names_its_file_and_line_and_not_the_user() {
        let folder = tree(&[
            (
                "home/alice/.bashrc",
                "# mine\n\nexport HSA_OVERRIDE_GFX_VERSION=10.3.0\nexport HF_TOKEN=secret\n",
            ),
            ("etc/environment", "PATH=/bin\nROCR_VISIBLE_DEVICES=\"\"\n"),
            ("environment.txt", "HIP_VISIBLE_DEVICES=0\n"),
        ]);
        let found = settings(&Reader::new(folder.path()), &["environment.txt".to_owned()]);
        let short: Vec<_> = found
            .iter()
            .map(|setting| {
                (
                    setting.name.as_str(),
                    setting.origin.as_str(),
                    setting.line,
                    setting.in_effect,
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                ("HIP_VISIBLE_DEVICES", "environment.txt", Some(1), true),
                ("ROCR_VISIBLE_DEVICES", "/etc/environment", Some(2), false),
                ("HSA_OVERRIDE_GFX_VERSION", "~/.bashrc", Some(3), false),
            ]
        );
        assert_eq!(found[1].value, "", "an empty mask hides every card");
    }

    #[test]
    fn a_captured_process_is_read() {
        let folder = tree(&[
            (
                "proc/self/environ",
                "HOME=/x\0HSA_OVERRIDE_GFX_VERSION_1=11.0.0\0HF_TOKEN=a\0",
            ),
            ("tunesmith-capture/settings.json", "not json"),
        ]);
        let reader = Reader::new(folder.path());
        let found = settings(&reader, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].in_effect);
        assert_eq!(reader.into_notes().len(), 1);
    }

    #[test]
    fn an_environment_is_known_by_its_lines() {
        assert!(looks_like_environment(
            "HSA_OVERRIDE_GFX_VERSION=11.0.0\nHIP_VISIBLE_DEVICES=0\n"
        ));
        assert!(!looks_like_environment("A=1\n"));
        assert!(!looks_like_environment("HSA_X=1\nsome words\n"));
        assert!(!looks_like_environment(""));
    }
}
