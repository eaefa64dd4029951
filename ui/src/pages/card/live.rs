//! The live figures of the card that trains: memory, load, temperature and power of the last minutes.

use egui::{Align, Layout, Ui};
use egui_extras::Column;
use tunesmith_probe::{
    Gpu,
    telemetry::{CardState, GpuSample, Sample},
};
use tunesmith_report::format::{duration, number, plural};

use crate::{
    chart::Sparkline,
    state::{State, Telemetry},
    theme::{self, Tone},
    widgets,
};

const GIB: f64 = 1_073_741_824.0;
/// Narrower than this, strips stand one below the other.
const TWO_COLUMNS: f32 = 560.0;
/// Readings in the table, newest first.
const ROWS: usize = 60;
const TABLE_HEIGHT: f32 = 220.0;

/// A figure that is shown over time.
struct Figure {
    label: &'static str,
    unit: &'static str,
    read: fn(&GpuSample) -> Option<f64>,
    /// The most that it can be, where that is known.
    most: Option<f64>,
}

fn figure(
    label: &'static str,
    unit: &'static str,
    read: fn(&GpuSample) -> Option<f64>,
    most: Option<f64>,
) -> Figure {
    Figure {
        label,
        unit,
        read,
        most,
    }
}

fn figures(gpu: &Gpu) -> [Figure; 4] {
    let trainable = gpu
        .trainable
        .as_ref()
        .map(|trainable| trainable.value as f64 / GIB);
    // The processor's graphics live on main memory that is mapped for them.
    let memory = if gpu.integrated == Some(true) {
        all_memory
    } else {
        own_memory
    };
    [
        figure("Memory", "GiB", memory, trainable),
        figure("Load", "%", |sample| sample.load_percent, Some(100.0)),
        figure(
            "Temperature",
            "°C",
            |sample| sample.junction_celsius.or(sample.edge_celsius),
            None,
        ),
        figure("Power", "W", |sample| sample.power_watts, gpu.power_limit_watts),
    ]
}

fn own_memory(sample: &GpuSample) -> Option<f64> {
    Some(sample.vram_used_bytes? as f64 / GIB)
}

fn all_memory(sample: &GpuSample) -> Option<f64> {
    let own = sample.vram_used_bytes;
    let mapped = sample.gtt_used_bytes;
    let used = match (own, mapped) {
        (None, None) => return None,
        (own, mapped) => own.unwrap_or(0) + mapped.unwrap_or(0),
    };
    Some(used as f64 / GIB)
}

/// What can be said instead of figures, or beside them; none while the card is read.
pub(super) fn state_words(telemetry: &Telemetry, pci: Option<&str>) -> Option<(Tone, &'static str)> {
    let Some(pci) = pci else {
        return Some((
            Tone::Unknown,
            "The system tells no PCI address of this card, so its live figures cannot be found",
        ));
    };
    if telemetry.samples().len() == 0 {
        return Some((Tone::Note, "Waiting for the first reading"));
    }
    match telemetry.latest(pci).map(|sample| sample.state) {
        Some(CardState::Awake) => None,
        Some(CardState::Resting) => Some((
            Tone::Note,
            "Idle, and left alone for some seconds so that it can go to sleep",
        )),
        Some(CardState::Asleep) => Some((
            Tone::Note,
            "Asleep to save power; it is not read, since reading would wake it",
        )),
        Some(CardState::Missing) | None => Some((
            Tone::Warn,
            "It does not answer: it is being reset, was taken out, or no library reaches it",
        )),
    }
}

/// How long the readings reach back: `last 2 min 05 s`.
fn window(telemetry: &Telemetry) -> String {
    let mut times = telemetry.samples().map(|sample| sample.at_secs);
    let first = times.next().unwrap_or(0.0);
    let last = times.last().unwrap_or(first);
    format!("last {}", duration((last - first).round()))
}

/// The strips, or their table.
pub(super) fn live_ui(state: &State, gpu: &Gpu, table: &mut bool, ui: &mut Ui) {
    let telemetry = &state.telemetry;
    let words = state_words(telemetry, gpu.pci.as_deref());
    if let Some((tone, words)) = words {
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, tone, tone.word());
            ui.label(words);
        });
    }
    let Some(pci) = gpu.pci.as_deref().filter(|_| telemetry.samples().len() > 0) else {
        return;
    };
    let figures = figures(gpu);
    if *table {
        table_ui(telemetry, pci, &figures, ui);
    } else {
        ui.scope(|ui| strips_ui(telemetry, pci, &figures, ui));
    }
    ui.horizontal_wrapped(|ui| {
        let text = if *table {
            "Show as strips"
        } else {
            "Show as a table"
        };
        if widgets::link_button(ui, text).clicked() {
            *table = !*table;
        }
        if let Some(users) = telemetry.latest(pci).and_then(users) {
            widgets::caption(ui, &users);
        }
    });
}

fn strips_ui(telemetry: &Telemetry, pci: &str, figures: &[Figure; 4], ui: &mut Ui) {
    let window = window(telemetry);
    let columns = if ui.available_width() < TWO_COLUMNS { 1 } else { 2 };
    ui.spacing_mut().item_spacing.x = theme::GAP;
    for row in figures.chunks(columns) {
        ui.columns(columns, |columns| {
            for (ui, figure) in columns.iter_mut().zip(row) {
                let series = telemetry.series(pci, figure.read);
                let values: Vec<f64> = series.into_iter().map(|(_, value)| value).collect();
                let mut strip = Sparkline::new(figure.label, figure.unit, &window, &values);
                if let Some(most) = figure.most {
                    strip = strip.scale(0.0, most);
                }
                strip.show(ui);
            }
        });
        ui.add_space(2.0 * theme::GRID);
    }
}

fn table_ui(telemetry: &Telemetry, pci: &str, figures: &[Figure; 4], ui: &mut Ui) {
    let samples: Vec<&Sample> = telemetry.samples().collect();
    let last = samples.last().map_or(0.0, |sample| sample.at_secs);
    let newest: Vec<&Sample> = samples.into_iter().rev().take(ROWS).collect();
    let right = Layout::right_to_left(Align::Center);
    let head = |ui: &mut Ui, text: &str| {
        ui.with_layout(right, |ui| widgets::caption(ui, text));
    };
    widgets::table(ui, "readings")
        .columns(Column::remainder().at_least(64.0), 1 + figures.len())
        .max_scroll_height(TABLE_HEIGHT)
        .header(theme::ROW, |mut header| {
            header.col(|ui| head(ui, "Seconds ago"));
            for figure in figures {
                header.col(|ui| head(ui, &format!("{} ({})", figure.label, figure.unit)));
            }
        })
        .body(|body| {
            body.rows(theme::ROW, newest.len(), |mut row| {
                let sample = newest[row.index()];
                let gpu = sample.gpus.iter().find(|gpu| gpu.pci == pci);
                let mut cell = |text: String| {
                    row.col(|ui| {
                        ui.with_layout(right, |ui| ui.label(text));
                    });
                };
                cell(number((last - sample.at_secs).round()));
                for figure in figures {
                    let value = gpu.and_then(figure.read);
                    cell(value.map_or_else(|| "none".to_owned(), number));
                }
            });
        });
}

/// The programs that hold memory of the card.
fn users(sample: &GpuSample) -> Option<String> {
    let names: Vec<&str> = sample
        .processes
        .iter()
        .filter_map(|process| process.name.as_deref())
        .collect();
    let first = names.first()?;
    Some(match names.len() {
        1 => format!("{first} uses it"),
        count => format!("{first} and {} use it", plural(count as u64 - 1, "other program")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_secs: f64, state: CardState) -> Sample {
        Sample {
            at_secs,
            gpus: vec![GpuSample {
                pci: "0000:03:00.0".to_owned(),
                state,
                vram_used_bytes: Some(3 << 30),
                gtt_used_bytes: Some(1 << 30),
                ..GpuSample::default()
            }],
            processes_hidden: false,
        }
    }

    #[test]
    fn a_card_that_is_not_read_says_why() {
        let mut telemetry = Telemetry::default();
        let words =
            |telemetry: &Telemetry| state_words(telemetry, Some("0000:03:00.0")).map(|(_, words)| words);
        assert!(words(&telemetry).unwrap().contains("first reading"));
        telemetry.add(reading(0.0, CardState::Awake));
        assert_eq!(words(&telemetry), None);
        telemetry.add(reading(1.0, CardState::Asleep));
        assert!(words(&telemetry).unwrap().contains("Asleep"));
        assert!(state_words(&telemetry, None).is_some());
        assert!(
            state_words(&telemetry, Some("0000:0d:00.0"))
                .unwrap()
                .1
                .contains("does not answer")
        );
    }

    #[test]
    fn graphics_of_a_processor_use_main_memory_too() {
        let sample = &reading(0.0, CardState::Awake).gpus[0];
        assert_eq!(own_memory(sample), Some(3.0));
        assert_eq!(all_memory(sample), Some(4.0));
        assert_eq!(all_memory(&GpuSample::default()), None);
    }

    #[test]
    fn the_window_is_what_the_readings_span() {
        let mut telemetry = Telemetry::default();
        for second in 0..75 {
            telemetry.add(reading(f64::from(second), CardState::Awake));
        }
        assert_eq!(window(&telemetry), "last 1 min 14 s");
    }
}
