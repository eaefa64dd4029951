//! `completions` and `man`: what shells and readers of manuals are told about this program, made from its command line
//! itself, so that neither can say something that the program does not know.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;
use tunesmith_lab::files::{make_folder, write_whole};

use crate::Done;
use crate::args::Cli;
use crate::errors::CliError;

pub(crate) fn completions(shell: Shell) -> Done {
    let script = script(shell);
    let json = json!({ "shell": shell.to_string(), "script": script });
    Done::ok(script, json)
}

/// Writes a page for the program and one for each command that its help shows.
pub(crate) fn manual(folder: &Path) -> Result<Done, CliError> {
    make_folder(folder)?;
    let mut names = Vec::new();
    for (name, page) in pages() {
        write_whole(&folder.join(&name), &page)?;
        names.push(name);
    }
    let text = format!("{} manual pages in {}", names.len(), folder.display());
    Ok(Done::ok(text, json!({ "folder": folder, "pages": names })))
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tunesmith", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// File names with their content, sorted.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut program = Cli::command().disable_help_subcommand(true);
    // Only a built command knows its full name and the options that it shares with all.
    program.build();
    let mut pages = Vec::new();
    let mut waiting = vec![program];
    while let Some(command) = waiting.pop() {
        let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        waiting.extend(shown.cloned());
        let man = Man::new(command).manual("Tunesmith");
        let mut page = Vec::new();
        // A vector takes every byte.
        let _ = man.render(&mut page);
        pages.push((man.get_filename(), page));
    }
    pages.sort();
    pages
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use clap::ValueEnum as _;

    use super::*;

    fn shown_commands() -> Vec<String> {
        let program = Cli::command();
        let shown = program.get_subcommands().filter(|inner| !inner.is_hide_set());
        shown.map(|inner| inner.get_name().to_owned()).collect()
    }

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for name in shown_commands() {
                assert!(script.contains(&name), "{shell} does not know {name}");
            }
            assert!(
                script.contains("--memory-limit") || script.contains("-l memory-limit"),
                "{shell}"
            );
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn bash_reads_its_script() {
        let mut bash = Command::new("bash")
            .arg("-n")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = bash.stdin.take().unwrap();
        input.write_all(script(Shell::Bash).as_bytes()).unwrap();
        drop(input);
        assert!(bash.wait().unwrap().success());
    }

    #[test]
    fn each_command_has_a_page_that_names_its_options() {
        let pages = pages();
        let page = |name: &str| {
            let (_, page) = pages.iter().find(|(known, _)| known == name).unwrap();
            String::from_utf8(page.clone()).unwrap()
        };
        for name in shown_commands() {
            assert!(page("tunesmith.1").contains(&name.replace('-', "\\-")), "{name}");
            assert!(page(&format!("tunesmith-{name}.1")).starts_with(".ie"), "{name}");
        }
        assert!(page("tunesmith-train.1").contains("\\-\\-no\\-eval"));
        assert!(page("tunesmith-runs-resume.1").contains("SYNOPSIS"));
        for hidden in ["guard", "serve", "man"] {
            let file = format!("tunesmith-{hidden}.1");
            assert!(pages.iter().all(|(name, _)| *name != file), "{file}");
        }
    }

    #[test]
    fn pages_are_written_beside_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let done = manual(&folder.path().join("man1")).unwrap();
        let names = done.json["pages"].as_array().unwrap();
        assert!(names.len() > shown_commands().len());
        for name in names {
            let file = folder.path().join("man1").join(name.as_str().unwrap());
            assert!(std::fs::metadata(file).unwrap().len() > 100, "{name}");
        }
    }
}
