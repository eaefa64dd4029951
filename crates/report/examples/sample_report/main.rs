//! Writes sample reports in every form, to look at their layout: `cargo run -p tunesmith-report --example sample_report -- FOLDER [report.json]`.
//!
//! With a `report.json` it renders that report again. Without one it makes up a training, three experiments and a calibration whose every
//! title says that they are synthetic: nothing in them was measured anywhere.

mod card;
mod experiments;
mod training;

use std::path::PathBuf;

use anyhow::Context;
use tunesmith_report::{Format, Report, write_as};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().context("give the folder to write into")?;
    let reports = match arguments.next() {
        Some(path) => {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            vec![("again", Report::from_json(&text)?)]
        }
        None => vec![
            ("training", Report::new(training::training()?)),
            ("experiment", Report::new(experiments::experiment()?)),
            ("sweep", Report::new(experiments::sweep()?)),
            ("ladder", Report::new(experiments::ladder()?)),
            ("calibration", Report::new(card::card()?)),
        ],
    };
    for (name, report) in reports {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        for form in Format::ALL {
            let path = folder.join(format!("report.{}", form.ending()));
            write_as(&path, form, &report)?;
            eprintln!("{}", path.display());
        }
    }
    Ok(())
}

/// A small generator of numbers between 0 and 1, so that the sample is the same every time.
pub(crate) fn noise(seed: u64) -> f64 {
    let mixed = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(31)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1_u64 << 53) as f64
}
