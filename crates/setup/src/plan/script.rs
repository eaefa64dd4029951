//! A plan as a script that a person can read and run: bash, or PowerShell. Every word is quoted, whatever is in it.

use std::fmt::Write;

use super::install::{ENV, OVERRIDES};
use super::{Plan, VerdictKind};
use crate::knowledge::Action;

/// A language for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash, on Linux and under WSL.
    Bash,
    /// PowerShell, on Windows.
    PowerShell,
}

/// The plan as a script: it installs the environment into a folder beside it, writes the override file, and sets
/// the settings for what is started after it in the same shell. Steps that change the system are left to people, as
/// comments.
pub fn script(plan: &Plan, shell: Shell) -> String {
    let name = plan
        .install
        .as_ref()
        .map_or("tunesmith", |spec| spec.name.as_str());
    let mut out = String::new();
    header(&mut out, plan, shell);
    if plan.install.is_some() {
        let variable = |name: &str, value: &str| match shell {
            Shell::Bash => format!("{name}={}\n", bash(value)),
            Shell::PowerShell => format!("${name} = {}\n", power_shell(value)),
        };
        out += &variable("tunesmith_env", name);
        if !plan.override_file.is_empty() {
            out += &variable("tunesmith_overrides", &format!("{name}.overrides.txt"));
            out += &override_file(plan, shell);
        }
        // uv reads neither the user's configuration nor another index.
        out += &set("UV_NO_CONFIG", "1", shell);
    }
    for step in &plan.steps {
        let _ = writeln!(out, "\n# {}", comment(&step.title));
        if step.command.is_empty()
            || step.reboot
            || step.command.first().is_some_and(|word| word == "tunesmith")
        {
            let words = step.command.iter().map(|word| match shell {
                Shell::Bash => bash(word),
                Shell::PowerShell => power_shell(word),
            });
            let _ = writeln!(
                out,
                "# by hand: {}",
                comment(&words.collect::<Vec<_>>().join(" "))
            );
            let _ = writeln!(out, "# changes: {}", comment(&step.changes));
        } else {
            out += &command(&step.command, shell);
        }
    }
    let _ = writeln!(
        out,
        "\n# what is started from here on uses the card as the plan says"
    );
    for row in &plan.environment {
        if row.action == Action::Leave {
            continue;
        }
        // Older names would speak against what is set here.
        let mut names: Vec<&str> = vec![&row.name];
        names.extend(row.aliases.iter().map(String::as_str));
        for found in &row.found {
            if !names.contains(&found.name.as_str()) {
                names.push(&found.name);
            }
        }
        for name in names {
            match (row.action, &row.value) {
                (Action::Set, Some(value)) if name == row.name => out += &set(name, value, shell),
                _ => out += &unset(name, shell),
            }
        }
    }
    out
}

fn header(out: &mut String, plan: &Plan, shell: Shell) {
    if shell == Shell::Bash {
        *out += "#!/usr/bin/env bash\n";
    }
    let _ = writeln!(
        out,
        "# Tunesmith's plan for the engine {}: {}",
        plan.engine,
        comment(&plan.verdict.reason)
    );
    if plan.verdict.kind == VerdictKind::Blocked {
        *out += "# Cure that first: until then nothing below can use the card.\n";
    }
    *out += match shell {
        Shell::Bash => "# Source it (`. ./script.sh`) if the settings shall hold in this shell.\n\n",
        Shell::PowerShell => "$ErrorActionPreference = 'Stop'\n\n",
    };
}

fn override_file(plan: &Plan, shell: Shell) -> String {
    let lines = plan.override_file.lines();
    match shell {
        Shell::Bash => {
            let quoted: Vec<_> = lines.map(bash).collect();
            format!("printf '%s\\n' {} > \"$tunesmith_overrides\"\n", quoted.join(" "))
        }
        Shell::PowerShell => {
            let quoted: Vec<_> = lines.map(power_shell).collect();
            format!(
                "Set-Content -LiteralPath $tunesmith_overrides -Value @({})\n",
                quoted.join(", ")
            )
        }
    }
}

fn command(words: &[String], shell: Shell) -> String {
    let quoted: Vec<_> = words
        .iter()
        .map(|word| match (word.as_str(), shell) {
            (ENV, Shell::Bash) => "\"$tunesmith_env\"".to_owned(),
            (ENV, Shell::PowerShell) => "$tunesmith_env".to_owned(),
            (OVERRIDES, Shell::Bash) => "\"$tunesmith_overrides\"".to_owned(),
            (OVERRIDES, Shell::PowerShell) => "$tunesmith_overrides".to_owned(),
            (word, Shell::Bash) => bash(word),
            (word, Shell::PowerShell) => power_shell(word),
        })
        .collect();
    match shell {
        Shell::Bash => format!("{} || return 1 2>/dev/null || exit 1\n", quoted.join(" ")),
        Shell::PowerShell => format!(
            "& {}\nif ($LASTEXITCODE -ne 0) {{ throw 'the step failed' }}\n",
            quoted.join(" ")
        ),
    }
}

fn set(name: &str, value: &str, shell: Shell) -> String {
    match shell {
        Shell::Bash => format!("export {name}={}\n", bash(value)),
        Shell::PowerShell => format!("$env:{name} = {}\n", power_shell(value)),
    }
}

fn unset(name: &str, shell: Shell) -> String {
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return String::new();
    }
    match shell {
        Shell::Bash => format!("unset {name}\n"),
        Shell::PowerShell => format!("Remove-Item -ErrorAction SilentlyContinue Env:{name}\n"),
    }
}

/// One word of bash.
pub(super) fn bash(word: &str) -> String {
    let printable: String = word.chars().filter(|letter| !letter.is_control()).collect();
    // Only a NUL cannot be quoted, and control characters are gone.
    shlex::try_quote(&printable).map_or_else(|_| "''".to_owned(), std::borrow::Cow::into_owned)
}

/// One word of PowerShell: in single quotes, where nothing but a single quote has a meaning. PowerShell takes the
/// typographic ones for the same.
fn power_shell(word: &str) -> String {
    let mut quoted = String::from("'");
    for letter in word.chars().filter(|letter| !letter.is_control()) {
        if matches!(letter, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}') {
            quoted.push(letter);
        }
        quoted.push(letter);
    }
    quoted.push('\'');
    quoted
}

/// Text that cannot end a comment.
fn comment(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const HOSTILE: [&str; 7] = [
        "it's",
        "a b",
        "$(touch /tmp/x)`id`",
        "; rm -rf \"$HOME\"",
        "torch[device-gfx1031]==2.11.0+rocm7.14.0",
        "triton; sys_platform == \"never\"",
        "\u{2019}; Write-Output x",
    ];

    #[test]
    fn bash_reads_back_what_was_quoted() {
        for word in HOSTILE {
            let output = Command::new("bash")
                .args(["-c", &format!("printf %s {}", bash(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(bash("a\nb\u{1b}[31m"), "'ab[31m'");
    }

    #[test]
    fn power_shell_doubles_every_kind_of_single_quote() {
        assert_eq!(power_shell("it's"), "'it''s'");
        assert_eq!(power_shell("$(x) \"y\" `z"), "'$(x) \"y\" `z'");
        assert_eq!(power_shell("\u{2019}; x"), "'\u{2019}\u{2019}; x'");
        assert_eq!(power_shell("a\r\nb"), "'ab'");
    }
}
