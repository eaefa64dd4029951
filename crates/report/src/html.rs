//! The report as one HTML file. Text is escaped by the template (its name ends in `.html`); only the drawings, which
//! escape what they are given, go in as they are.

use minijinja::Environment;

use crate::view::Page;
use crate::{Report, ReportError};

pub(crate) fn render(report: &Report) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.add_template("report.css", include_str!("../templates/report.css"))?;
    environment.add_template("chart.css", include_str!("../templates/chart.css"))?;
    environment.add_template("macros.html", include_str!("../templates/macros.html"))?;
    environment.add_template("report.html", include_str!("../templates/report.html"))?;
    Ok(environment
        .get_template("report.html")?
        .render(minijinja::value::Serde(Page::of(report)?))?
        .trim_start()
        .to_owned())
}
