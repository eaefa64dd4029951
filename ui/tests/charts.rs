//! The charts as somebody meets them who looks, points, presses keys or has them read out.

#![allow(clippy::unwrap_used)]

use egui::{Key, Ui, Vec2, vec2};
use egui_kittest::{Harness, kittest::Queryable};
use tunesmith_ui::chart::{
    Along, Bar, Bars, ChartView, Cursor, LineChart, Pareto, ParetoPoint, PointState, Series, Sparkline,
    StackedBar,
};
use tunesmith_ui::theme;

/// What a page with all kinds of charts keeps.
#[derive(Default)]
struct Page {
    loss: Series,
    curves: [Series; 3],
    memory: Series,
    points: Vec<ParetoPoint>,
    live: [Vec<f64>; 4],
    views: [ChartView; 7],
    cursor: Cursor,
    clicked: Option<usize>,
}

fn wobble(step: u32) -> f64 {
    f64::from(step.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24) - 0.5
}

fn falling(steps: u32, start: f64, end: f64) -> Series {
    let mut series = Series::new();
    for step in 1..=steps {
        let falls = (start - end) * (-f64::from(step) / 28.0).exp();
        series
            .push(f64::from(step), end + falls + 0.16 * wobble(step + steps))
            .unwrap();
    }
    series
}

fn point(name: &str, vram: f64, speeds: &[f64], state: PointState) -> ParetoPoint {
    ParetoPoint {
        name: name.to_owned(),
        vram_gib: vec![vram],
        tokens_per_sec: speeds.to_vec(),
        state,
    }
}

fn page() -> Page {
    let mut loss = Series::new().smoothed_by(0.85);
    for step in 1..=120_u32 {
        let at = f64::from(step);
        let value = 0.42 + 1.9 * (-at / 25.0).exp() + 0.3 * wobble(step);
        match step {
            41 | 42 => loss.push(at, f64::NAN).unwrap(),
            77 => loss.push_invalid(at, 1.25).unwrap(),
            _ => loss.push(at, value).unwrap(),
        }
    }
    let mut memory = Series::new();
    for second in 0..300_u32 {
        let at = f64::from(second);
        let value = if second < 24 {
            2.0 + at / 6.0
        } else {
            6.9 + 0.5 * wobble(second / 9)
        };
        memory.push(at, value).unwrap();
    }
    let live = |base: f64, swing: f64| {
        (0..60)
            .map(|at| base + swing * wobble(at / 3))
            .collect::<Vec<f64>>()
    };
    let mut load = live(88.0, 18.0);
    load[30] = f64::NAN;
    Page {
        loss,
        curves: [
            falling(120, 2.4, 0.42),
            falling(120, 2.6, 0.58),
            falling(90, 2.3, 0.5),
        ],
        memory,
        points: vec![
            point("bf16, r16", 11.8, &[1212.0, 1240.0, 1226.0], PointState::Measured),
            point(
                "bf16, r16, recompute",
                8.1,
                &[968.0, 990.0, 979.0],
                PointState::Measured,
            ),
            point("nf4, r16", 5.2, &[706.0, 724.0, 716.0], PointState::Measured),
            point("bf16, r64", 12.6, &[1205.0, 1232.0, 1219.0], PointState::Measured),
            point(
                "nf4, r16, batch 8",
                9.4,
                &[742.0, 758.0, 749.0],
                PointState::Measured,
            ),
            point("bf16, batch 4", 14.2, &[1390.0], PointState::Predicted),
            point(
                "bf16, own kernel",
                10.3,
                &[1338.0],
                PointState::Invalid("loss does not fall".into()),
            ),
            point(
                "bf16, batch 8",
                15.9,
                &[],
                PointState::Failed("out of memory".into()),
            ),
        ],
        live: [live(7.4, 1.4), load, live(71.0, 4.0), live(214.0, 60.0)],
        ..Page::default()
    }
}

/// The same page with many more values than its charts have columns of pixels: noise with a spike and a gap, a steep
/// curve, steps, and a flat line.
fn dense_page() -> Page {
    let series = |steps: u32, value: &dyn Fn(f64, u32) -> f64| {
        let mut series = Series::new();
        for step in 1..=steps {
            let share = f64::from(step) / f64::from(steps);
            series.push(f64::from(step), value(share, step)).unwrap();
        }
        series
    };
    let loss = series(30_000, &|share, step| match step {
        12_345 => 9.0,
        20_000..21_500 => f64::NAN,
        _ => 0.42 + 1.9 * (-6.0 * share).exp() + 0.3 * wobble(step),
    });
    Page {
        loss: loss.smoothed_by(0.98),
        curves: [
            series(20_000, &|share, _| 1.0 + (40.0 * share).sin()),
            series(9_000, &|share, _| 1.2 + 0.4 * (6.0 * share).floor()),
            series(5_000, &|_, _| 0.5),
        ],
        memory: series(2_000, &|_, step| 8.0 + 2.0 * wobble(step)),
        ..page()
    }
}

fn panel(ui: &mut Ui, add: impl FnOnce(&mut Ui)) {
    let tokens = theme::tokens(ui);
    egui::Frame::new()
        .fill(tokens.panel)
        .stroke(egui::Stroke::new(1.0, tokens.line))
        .corner_radius(theme::CORNER)
        .inner_margin(theme::INSET)
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            add(ui);
        });
}

fn page_ui(ui: &mut Ui, page: &mut Page) {
    const PARTS: [(&str, f64); 5] = [
        ("base weights", 5.75),
        ("activations", 3.1),
        ("gradients and optimizer", 0.62),
        ("logits", 1.21),
        ("runtime", 0.8),
    ];
    const PEAKS: [Bar<'static>; 4] = [
        Bar {
            label: "Matrix product, bf16",
            value: Some(101.5),
            reference: Some(122.8),
        },
        Bar {
            label: "Matrix product, fp16",
            value: Some(109.2),
            reference: Some(122.8),
        },
        Bar {
            label: "Attention, bf16",
            value: Some(48.3),
            reference: Some(122.8),
        },
        Bar {
            label: "4-bit product",
            value: None,
            reference: Some(122.8),
        },
    ];
    let Page {
        views: [loss, curves, memory, pareto, peaks, need, _],
        cursor,
        ..
    } = page;
    let tokens = theme::tokens(ui);
    ui.painter()
        .rect_filled(ui.ctx().viewport_rect(), 0, tokens.ground);
    egui::Frame::new()
        .fill(tokens.ground)
        .inner_margin(theme::GAP)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing = Vec2::splat(theme::GAP);
            ui.columns(4, |columns| {
                let strips = [
                    ("Memory", "GiB"),
                    ("Load", "%"),
                    ("Temperature", "°C"),
                    ("Power", "W"),
                ];
                for ((ui, values), (label, unit)) in columns.iter_mut().zip(&page.live).zip(strips) {
                    panel(ui, |ui| {
                        Sparkline::new(label, unit, "last minute", values).show(ui);
                    });
                }
            });
            ui.columns(2, |columns| {
                panel(&mut columns[0], |ui| {
                    LineChart::new("Loss", "nats")
                        .line("", &page.loss)
                        .log_y(true)
                        .warm_up(1.0, 20.0)
                        .show(ui, loss, cursor);
                });
                panel(&mut columns[1], |ui| {
                    LineChart::new("Loss of three runs", "nats")
                        .line("bf16, r16", &page.curves[0])
                        .line("nf4, r16", &page.curves[1])
                        .line("bf16, r64, a long name that is cut", &page.curves[2])
                        .noise_band(0.38, 0.5, "noise")
                        .from_zero()
                        .show(ui, curves, cursor);
                });
            });
            ui.columns(2, |columns| {
                panel(&mut columns[0], |ui| {
                    LineChart::new("Memory", "GiB")
                        .along(Along::Seconds)
                        .line("", &page.memory)
                        .from_zero()
                        .reference(11.98, "limit")
                        .reference(7.14, "measured peak")
                        .show(ui, memory, &mut Cursor::default());
                });
                panel(&mut columns[1], |ui| {
                    Bars::new("Peaks of this card", "TFLOPS", "spec sheet", &PEAKS).show(ui, peaks);
                });
            });
            panel(ui, |ui| {
                page.clicked = Pareto::new("VRAM and throughput", &page.points)
                    .current(Some(1))
                    .limit(15.98, "memory of this card")
                    .show(ui, pareto)
                    .or(page.clicked);
            });
            panel(ui, |ui| {
                StackedBar::new("Memory need", "GiB", &PARTS)
                    .limit(15.98, "memory of this card")
                    .show(ui, need);
            });
        });
}

fn harness(page: Page, size: Vec2, dark: bool) -> Harness<'static, Page> {
    let theme = if dark {
        egui::Theme::Dark
    } else {
        egui::Theme::Light
    };
    Harness::builder()
        .with_size(size)
        .with_theme(theme)
        .with_render_cursor(false)
        .with_context_setup(theme::install)
        .wgpu()
        .build_ui_state(page_ui, page)
}

const SIZE: Vec2 = vec2(1100.0, 1310.0);

fn copied(harness: &Harness<'_, Page>) -> Option<String> {
    harness
        .output()
        .platform_output
        .commands
        .iter()
        .find_map(|command| match command {
            egui::OutputCommand::CopyText(text) => Some(text.clone()),
            _ => None,
        })
}

#[test]
fn every_chart_says_itself_in_a_sentence() {
    let harness = harness(page(), SIZE, true);
    for sentence in [
        "Loss falls from",
        "2 steps are not finite (×); 1 step is invalid (◇)",
        "Loss of three runs between steps 1 and 120: bf16, r16 ends at",
        "Memory rises from 2.00 to",
        "Matrix product, bf16 reaches 101.5 of 122.8 TFLOPS (82.7 %)",
        "bf16, r16 and bf16, r64 are within noise",
        "11.5 GiB in all, 4.50 GiB below the memory of this card",
        "GiB in the last minute",
    ] {
        assert!(harness.query_by_label_contains(sentence).is_some(), "{sentence}");
    }
}

#[test]
fn a_table_is_reached_by_keyboard_and_copied() {
    let mut harness = harness(page(), SIZE, true);
    harness.get_by_label("Show loss as a table").focus();
    harness.run();
    harness.key_press(Key::Space);
    harness.run();
    assert!(harness.state().views[0].table);
    assert!(harness.query_by_label("Loss (nats)").is_some());
    assert!(harness.query_by_label("chart of loss").is_none());

    harness.get_by_label("Copy the table of loss").click();
    harness.step();
    let text = copied(&harness).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "step\tLoss (nats)");
    assert_eq!(lines.len(), 121);
    assert_eq!(lines[41], "41\tNaN");
    assert_eq!(lines[77], "77\t1.25");

    harness.get_by_label("Show loss as a table").click();
    harness.run();
    assert!(harness.query_by_label("chart of loss").is_some());
}

#[test]
fn rows_of_a_table_that_are_not_seen_are_not_drawn() {
    let mut page = page();
    page.views[0].table = true;
    let harness = harness(page, SIZE, true);
    let invalid = harness.query_by_label("1.250 invalid");
    assert!(invalid.is_none(), "step 77 is far below");
    let drawn = (1..=120).filter(|step| harness.query_all_by_label(&step.to_string()).count() > 0);
    let drawn = drawn.count();
    assert!((4..40).contains(&drawn), "{drawn}");
}

#[test]
fn pointing_at_a_chart_tells_the_values_of_all_charts_there() {
    let mut harness = harness(page(), SIZE, true);
    let chart = harness.get_by_label("chart of loss").rect();
    harness.hover_at(chart.center());
    harness.run();
    let at = harness.state().cursor.x().unwrap();
    let step = format!("step {}, loss ", at.round());
    assert!(harness.query_by_label_contains(&step).is_some(), "{step}");
    let other = format!("step {}, bf16, r16 ", at.round());
    assert!(harness.query_by_label_contains(&other).is_some(), "{other}");

    harness.hover_at(chart.left_top() - vec2(4.0, 40.0));
    harness.run();
    assert_eq!(harness.state().cursor.x(), None);
    assert!(harness.query_by_label_contains(&step).is_none());
}

#[test]
fn a_step_without_a_number_says_so_under_the_pointer() {
    let mut page = page();
    page.loss.truncate_after(0.0);
    page.loss.push(1.0, 2.0).unwrap();
    page.loss.push(2.0, f64::INFINITY).unwrap();
    page.loss.push_invalid(3.0, 1.0).unwrap();
    let mut harness = harness(page, SIZE, true);
    let chart = harness.get_by_label("chart of loss").rect();
    harness.hover_at(chart.center());
    harness.run();
    assert!(harness.query_by_label("step 2, loss not finite (inf)").is_some());
}

#[test]
fn a_point_is_told_and_chosen() {
    let mut harness = harness(page(), SIZE, true);
    let name = "bf16, r16: 1,226 ± 14.0 tokens/s over 3 repeats, 11.8 GiB";
    harness.get_by_label(name).hover();
    harness.run();
    assert!(
        harness
            .query_by_label_contains(
                "on the frontier: nothing with as little memory is faster, within noise of bf16, r64"
            )
            .is_some()
    );
    harness.get_by_label(name).click();
    harness.run();
    assert_eq!(harness.state().clicked, Some(0));
    harness.get_by_label("bf16, batch 8: 15.9 GiB").focus();
    harness.run();
    assert!(harness.query_by_label_contains("failed: out of memory").is_some());
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(harness.state().clicked, Some(7));
}

#[test]
fn charts_without_points_say_what_will_be_there() {
    let mut harness = harness(Page::default(), SIZE, true);
    assert_eq!(
        harness
            .query_all_by_label("Nothing has been recorded yet")
            .count(),
        3
    );
    assert!(harness.query_by_label_contains("Load unknown").is_some());
    harness
        .get_by_label("Show VRAM and throughput as a table")
        .click();
    harness.run();
    assert!(harness.query_by_label("memory (GiB)").is_some());
}

#[test]
fn a_narrow_window_still_shows_all_charts() {
    for size in [vec2(300.0, 2400.0), vec2(560.0, 1400.0)] {
        let mut harness = harness(page(), size, false);
        harness.run();
        assert!(harness.query_by_label("chart of memory need").is_some());
    }
}

#[test]
fn many_values_take_few_triangles() {
    let harness = harness(dense_page(), SIZE, true);
    let vertices = harness
        .output()
        .shapes
        .iter()
        .filter_map(|clipped| match &clipped.shape {
            egui::Shape::Mesh(mesh) => Some(mesh.vertices.len()),
            _ => None,
        });
    let vertices: Vec<usize> = vertices.collect();
    // Loss and smoothed loss, three curves, memory.
    assert_eq!(vertices.len(), 6);
    let most = 4 * (SIZE.x as usize / 2);
    assert!(vertices.iter().all(|count| *count < most), "{vertices:?}");
}

#[test]
fn a_picture_of_charts_with_many_more_values_than_columns() {
    let mut harness = harness(dense_page(), SIZE, true);
    harness.run();
    harness.snapshot("charts_dense");
}

#[test]
fn a_dark_picture_of_all_charts() {
    let mut harness = harness(page(), SIZE, true);
    let chart = harness.get_by_label("chart of loss").rect();
    harness.hover_at(chart.left_top() + vec2(260.0, 60.0));
    harness.run();
    harness.snapshot("charts_dark");
}

#[test]
fn a_light_picture_of_all_charts() {
    let mut page = page();
    page.views[1].table = true;
    let mut harness = harness(page, SIZE, false);
    harness
        .get_by_label("bf16, r16: 1,226 ± 14.0 tokens/s over 3 repeats, 11.8 GiB")
        .hover();
    harness.run();
    harness.snapshot("charts_light");
}
