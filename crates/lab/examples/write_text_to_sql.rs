//! Writes the text-to-SQL data set into `assets/text-to-sql`, or checks that the files there are what the
//! generator makes: `cargo run -p tunesmith-lab --example write_text_to_sql -- [--check]`.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use tunesmith_lab::text_to_sql::generate::generate;

fn main() -> ExitCode {
    match run() {
        Ok(message) => {
            eprintln!("{message}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = match arguments.as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err("usage: write_text_to_sql [--check]".into()),
    };
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/text-to-sql"));
    let files = generate()?;
    for (name, content) in files.named() {
        let path = folder.join(name);
        if check {
            if std::fs::read_to_string(&path)? != content {
                return Err(
                    format!("{name} is not what the generator makes; run this without --check").into(),
                );
            }
            continue;
        }
        let beside = folder.join(format!("{name}.part"));
        std::fs::write(&beside, content)?;
        std::fs::rename(&beside, &path)?;
    }
    let questions = |text: &str| text.lines().count();
    Ok(format!(
        "{}: {} training and {} test questions",
        if check { "unchanged" } else { "written" },
        questions(&files.train),
        questions(&files.test)
    ))
}
