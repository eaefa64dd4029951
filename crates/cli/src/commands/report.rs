//! `report`: a run's, an experiment's or the device's own, in any form, and beside somebody else's. Only the device's own asks
//! which engine is here; everything else is read from disk.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use tunesmith_lab::{
    experiment,
    files::make_folder,
    pipeline::{LabError, Observer, stored_calibration},
    report_input::{
        calibration_folder, keep_prices, prices, report_at_prices, report_of_calibration,
        report_of_experiment, write_report,
    },
    run::Run,
};
use tunesmith_measure::cost::Prices;
use tunesmith_report::{Format, HTML_FILE, JSON_FILE, Report, ReportError, SideBySide, write, write_as};
use tunesmith_setup::Folders;

use crate::{
    Done,
    args::{self, Global, ReportForm},
    errors::CliError,
    settings,
    terminal::Terminal,
};

/// Longest file that is read as a report, in bytes: the largest real ones have a few million.
const LONGEST: u64 = 256 << 20;

/// A report with the folder that its files belong in.
struct Made {
    report: Report,
    folder: PathBuf,
    id: String,
}

pub(crate) fn report(
    args: &args::Report,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let prices = prices_of(args)?;
    let made = make(args, prices, global, terminal)?;
    if let Some(theirs) = &args.compare {
        return compare(args, &made, theirs);
    }
    let form = form_of(args);
    match (&args.output, form) {
        (Some(path), _) if path.as_os_str() == "-" => to_stdout(&made, form.unwrap_or(Format::Markdown)),
        (Some(path), form) => {
            let form = form.unwrap_or(Format::Html);
            write_as(path, form, &made.report)?;
            Ok(said(&made, &[(form, path.clone())]))
        }
        (None, Some(form)) => {
            let path = made.folder.join(format!("report.{}", form.ending()));
            write_as(&path, form, &made.report)?;
            Ok(said(&made, &[(form, path)]))
        }
        (None, None) => {
            let written = write(&made.folder, &made.report)?;
            Ok(said(
                &made,
                &[(Format::Html, written.html), (Format::Json, written.json)],
            ))
        }
    }
}

/// The kept prices with those of this command over them.
fn prices_of(args: &args::Report) -> Result<Prices, CliError> {
    let folders = Folders::from_env()?;
    let kept = prices(folders.config())?;
    let prices = Prices {
        currency: args.currency.clone().unwrap_or(kept.currency),
        per_kwh: args.tariff.or(kept.per_kwh),
        card: args.card_price.or(kept.card),
        card_hours: args.card_hours.or(kept.card_hours),
    };
    if args.keep_prices {
        keep_prices(folders.config(), &prices)?;
    }
    Ok(prices)
}

fn make(
    args: &args::Report,
    prices: Prices,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<Made, CliError> {
    if args.calibration {
        return of_calibration(global, terminal);
    }
    let folders = Folders::from_env()?;
    if let Some(name) = &args.experiment {
        let folder = experiment::find(folders.data(), name)?;
        let state = experiment::read(&folder, &folders.runs())?;
        return Ok(Made {
            report: report_of_experiment(&state, &folders.runs())?,
            folder,
            id: state.id,
        });
    }
    let run = Run::find(&folders.runs(), args.run.as_deref().unwrap_or("last"))?;
    // The run's own files are made anew whatever else is asked for, and the machine is looked at where nobody has.
    write_report(&run)?;
    Ok(Made {
        report: report_at_prices(&run, prices)?,
        folder: run.folder,
        id: run.id,
    })
}

fn of_calibration(global: &Global, terminal: &mut dyn Observer) -> Result<Made, CliError> {
    let settings = settings(global)?;
    let device = settings.device_to_calibrate(terminal)?;
    let stored = stored_calibration(&settings, &device).ok_or_else(|| LabError::NotPossible {
        message: format!("{device} has no calibration that holds under the present conditions"),
        hints: vec!["`tunesmith calibrate` measures it".to_owned()],
    })?;
    let id = stored
        .path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let folder = calibration_folder(&stored);
    make_folder(&folder)?;
    Ok(Made {
        report: report_of_calibration(&stored, &settings)?,
        folder,
        id,
    })
}

fn form_of(args: &args::Report) -> Option<Format> {
    let asked = args.format.map(|form| match form {
        ReportForm::Html => Format::Html,
        ReportForm::Json => Format::Json,
        ReportForm::Markdown => Format::Markdown,
        ReportForm::Png => Format::Png,
    });
    let ending = || {
        let path = args.output.as_deref()?;
        Format::of_ending(&path.extension()?.to_string_lossy())
    };
    asked.or_else(ending)
}

fn to_stdout(made: &Made, form: Format) -> Result<Done, CliError> {
    let bytes = form.render(&made.report)?;
    if form == Format::Png {
        // Pixels are no text, so they do not go through what is printed at the end.
        io::stdout()
            .lock()
            .write_all(&bytes)
            .map_err(|source| ReportError::Write {
                path: PathBuf::from("-"),
                source,
            })?;
        return Ok(Done::ok(String::new(), json!({ "id": made.id, "written": "-" })));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let object = json!({ "id": made.id, "format": form.name(), "text": text });
    Ok(Done::ok(text, object))
}

fn said(made: &Made, files: &[(Format, PathBuf)]) -> Done {
    let width = files.iter().map(|(form, _)| form.name().len()).max().unwrap_or(0);
    let lines: Vec<String> = files
        .iter()
        .map(|(form, path)| format!("{:<width$}  {}", form.name(), path.display()))
        .collect();
    let text = format!(
        "{}\n{}\n\n{}",
        made.report.headline.sentence,
        made.report.validity.sentence,
        lines.join("\n")
    );
    let mut object = json!({
        "id": made.id,
        "about": made.report.about,
        "headline": made.report.headline,
        "validity": made.report.validity,
    });
    for (form, path) in files {
        // The page is called `report`, as it always was.
        let key = if *form == Format::Html {
            "report"
        } else {
            form.name()
        };
        object[key] = json!(path);
    }
    Done::ok(text, object)
}

fn compare(args: &args::Report, made: &Made, theirs: &Path) -> Result<Done, CliError> {
    let other = read(theirs)?;
    let sides = SideBySide::of(&made.report, &other);
    let text = format!(
        "first   {}\nsecond  {}\n\n{}",
        made.report.headline.sentence,
        other.headline.sentence,
        sides.to_markdown()
    );
    if let Some(path) = args.output.as_ref().filter(|path| path.as_os_str() != "-") {
        tunesmith_lab::files::write_whole(path, text.as_bytes())?;
    }
    Ok(Done::ok(
        text,
        json!({ "first": made.id, "second": theirs, "beside": sides }),
    ))
}

/// Reads a report. Of a report's page it takes the JSON that lies beside it.
fn read(path: &Path) -> Result<Report, CliError> {
    let ending = path
        .extension()
        .and_then(|ending| Format::of_ending(&ending.to_string_lossy()));
    let path = match (ending, path.is_dir()) {
        (_, true) => path.join(JSON_FILE),
        (Some(Format::Html), _) if path.file_name().is_some_and(|name| name == HTML_FILE) => {
            path.with_file_name(JSON_FILE)
        }
        (Some(Format::Html), _) => path.with_extension("json"),
        _ => path.to_owned(),
    };
    let unreadable = |source| CliError::Unreadable {
        path: path.clone(),
        source,
    };
    let length = fs::metadata(&path).map_err(unreadable)?.len();
    if length > LONGEST {
        return Err(unreadable(io::Error::other("it is longer than any report")));
    }
    let bytes = fs::read(&path).map_err(unreadable)?;
    Ok(Report::from_json(&String::from_utf8_lossy(&bytes))?)
}
