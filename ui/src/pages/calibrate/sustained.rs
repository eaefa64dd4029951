//! Whether the device keeps its speed: a figure a second, against the short measurement of the same product (X9).

use egui::Ui;
use tunesmith_measure::calibration::{Steadiness, Sustainment, THROTTLED_DROP, sustainment};
use tunesmith_protocol::Calibration;
use tunesmith_report::format::percent;

use super::{CalibrateView, measured::figure, start_full, why_not};
use crate::{
    chart::{Along, LineChart, Series},
    commands::Commands,
    state::State,
    theme::Tone,
    widgets,
};

pub(super) fn sustained_ui(
    state: &State,
    result: &Calibration,
    view: &mut CalibrateView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let (Some(sustained), Some(found)) = (&result.sustained, sustainment(result)) else {
        return;
    };
    widgets::panel(ui, "Sustained speed", |ui| {
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, tone(found.steadiness), found.steadiness.label());
            ui.label(sentence(&found));
        });
        let mut series = Series::new();
        for point in &sustained.points {
            // Seconds of one measurement only go up; a record in which they do not has a shorter line.
            if series.push(point.at_secs, point.tflops).is_err() {
                break;
            }
        }
        let reference = found.reference.0;
        LineChart::new("Speed over time", "TFLOPS")
            .line("speed", &series)
            .along(Along::Seconds)
            .noise_band(reference * (1.0 - THROTTLED_DROP), reference, "within 5 %")
            .height(140.0)
            .show(ui, &mut view.sustained, &mut view.seconds);
        ui.horizontal_wrapped(|ui| {
            widgets::caption(ui, "What the word means:");
            widgets::term(ui, "throttling", out);
        });
        if found.steadiness == Steadiness::SteadySoFar && why_not(state).is_none() {
            let wish = widgets::small_button(ui, "Measure for 30 s")
                .on_hover_text("Measures everything again, and keeps the device busy for 30 s at the end");
            if wish.clicked() {
                start_full(state, out);
            }
        }
    });
}

/// How a verdict on the speed is meant.
fn tone(steadiness: Steadiness) -> Tone {
    match steadiness {
        Steadiness::Steady => Tone::Ok,
        Steadiness::SteadySoFar | Steadiness::Disturbed => Tone::Note,
        Steadiness::Throttled => Tone::Warn,
    }
}

/// What came of it, with its figures.
pub(super) fn sentence(found: &Sustainment) -> String {
    let change = if found.drop > 0.0 {
        format!("{} below", percent(found.drop))
    } else {
        format!("{} above", percent(-found.drop))
    };
    let figures = format!(
        "{} TFLOPS after {}, {change} the short measurement's {}",
        figure(found.sustained.0),
        widgets::whole_secs(found.secs),
        figure(found.reference.0)
    );
    let meaning = match found.steadiness {
        Steadiness::Steady => "it keeps its speed",
        Steadiness::SteadySoFar => "it keeps its speed so far; throttling shows after 30 s",
        Steadiness::Throttled => {
            "it throttles, and a training will run at this speed; look at temperature, power limit and airflow"
        }
        Steadiness::Disturbed => "other programs took time from it, so this is no proof of throttling",
    };
    format!("{figures}: {meaning}")
}
