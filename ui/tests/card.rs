//! The page of the card: what it says of machines that people have, and what can be chosen on it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Shown, look_again, looked_at, show};
use egui::{Key, Modifiers, accesskit::Role};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tunesmith_probe::{
    telemetry::{CardState, GpuSample, Sample},
    testing::{AmdCard, TestMachine, machines},
};
use tunesmith_protocol::TaskWork;
use tunesmith_ui::{
    commands::Command,
    pages::card::{CardView, card_ui},
    saved::DeviceWish,
    state::{Page, State},
};

const SIZE: [f32; 2] = [1280.0, 1600.0];
const XTX: &str = "0000:03:00.0";
const IGPU: &str = "0000:13:00.0";

fn page<'a>(state: State) -> Harness<'a, Shown<CardView>> {
    let mut harness = show(state, card_ui, SIZE, true, false);
    harness.run_ok();
    harness
}

fn of(machine: &TestMachine) -> State {
    looked_at(machine, std::path::Path::new("/nonexistent/tunesmith"))
}

/// The same machine with the torch that the plan wants.
fn with_torch(state: &mut State) {
    let mut machine = state.machine.get().unwrap().clone();
    machine.plan.as_mut().unwrap().install = None;
    state.machine.apply(Ok(machine));
}

fn reading(at_secs: f64, pci: &str) -> Sample {
    Sample {
        at_secs,
        gpus: vec![GpuSample {
            pci: pci.to_owned(),
            state: CardState::Awake,
            vram_used_bytes: Some((4 << 30) + (at_secs as u64) * (64 << 20)),
            load_percent: Some((at_secs * 7.0) % 100.0),
            junction_celsius: Some(52.0 + at_secs / 10.0),
            power_watts: Some(90.0 + 3.0 * at_secs),
            ..GpuSample::default()
        }],
        processes_hidden: false,
    }
}

fn has(harness: &Harness<'_, Shown<CardView>>, text: &str) -> bool {
    harness.query_all_by_label_contains(text).next().is_some()
}

#[test]
fn the_hidden_graphics_of_the_processor_are_told_in_the_title() {
    let mut harness = page(of(&machines::rx_7900_xtx_with_igpu()));
    harness.get_by_label("AMD Radeon RX 7900 XTX trains; the processor's own graphics are hidden from it");
    assert!(has(&harness, "ROCR_VISIBLE_DEVICES="));
    harness.get_by_label("hidden");
    harness.get_by_label_contains("gfx1100");
    // What torch needs is not there yet.
    harness.get_by_label("Set it up").click();
    harness.run_ok();
    assert!(matches!(
        harness.state().asked.as_slice(),
        [Command::Go(Page::Setup)]
    ));
}

#[test]
fn with_its_torch_the_next_thing_is_to_calibrate() {
    let mut state = of(&machines::rx_7900_xtx());
    with_torch(&mut state);
    let mut harness = page(state);
    harness.get_by_label("AMD Radeon RX 7900 XTX trains");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(matches!(
        harness.state().asked.as_slice(),
        [Command::Go(Page::Calibrate)]
    ));
}

#[test]
fn what_must_be_cured_leads_to_the_set_up() {
    let machine = TestMachine::linux()
        .amd(AmdCard::rx_7900_xtx(XTX).driver(None))
        .usable_devices();
    let mut harness = page(of(&machine));
    harness.get_by_label("AMD Radeon RX 7900 XTX cannot train yet");
    harness.get_by_label("cannot train yet");
    assert!(has(&harness, "none is bound"));
    harness.get_by_label("See what to cure").click();
    harness.run_ok();
    assert!(matches!(
        harness.state().asked.as_slice(),
        [Command::Go(Page::Setup)]
    ));
}

#[test]
fn without_a_card_the_processor_trains_and_is_described() {
    let harness = page(of(&machines::no_gpu()));
    harness.get_by_label("No card that can train was found; the processor trains");
    harness.get_by_label_contains("8 cores, 16 threads");
    harness.get_by_label_contains("AVX2");
    harness.get_by_label("imitated, and slower than f32");
    assert!(!has(&harness, "Right now"));
}

#[test]
fn another_card_and_the_processor_can_be_chosen() {
    let machine = machines::rx_7900_xtx_with_igpu();
    let mut harness = page(of(&machine));
    harness.get_by_label_contains(&format!("at {IGPU}")).click();
    harness.run_ok();
    harness.get_by_label("Train on the processor").click();
    harness.run_ok();
    let asked = std::mem::take(&mut harness.state_mut().asked);
    let wishes: Vec<DeviceWish> = asked
        .into_iter()
        .filter_map(|command| match command {
            Command::Device(wish) => Some(wish),
            _ => None,
        })
        .collect();
    assert_eq!(wishes, [DeviceWish::Card(IGPU.to_owned()), DeviceWish::Cpu]);

    let state = &mut harness.state_mut().state;
    state.saved.device = DeviceWish::Cpu;
    look_again(state);
    harness.run_ok();
    harness.get_by_label("The processor trains, as you chose");
    harness.get_by_label("Let Tunesmith choose").click();
    harness.run_ok();
    assert!(matches!(
        harness.state().asked.as_slice(),
        [Command::Device(DeviceWish::Auto)]
    ));
}

#[test]
fn a_card_that_cannot_train_says_why_and_is_not_offered() {
    let harness = page(of(&machines::steam_deck()));
    harness.get_by_label("No card here can train; the processor does");
    harness.get_by_label("cannot train");
    assert!(has(&harness, "gradient"), "the reason of the knowledge file");
    let offers = harness
        .query_all_by_role(Role::Button)
        .filter(|node| format!("{node:?}").contains("Train on"));
    assert_eq!(offers.count(), 0);
}

#[test]
fn a_chosen_card_that_is_gone_leads_back_to_the_plans_choice() {
    let machine = machines::rx_7900_xtx();
    let mut state = of(&machine);
    state.saved.device = DeviceWish::Card("0000:99:00.0".to_owned());
    look_again(&mut state);
    let mut harness = page(state);
    harness.get_by_label("The card that was chosen cannot be used");
    assert!(has(&harness, "there is no card `0000:99:00.0`"));
    harness.get_by_label("Let Tunesmith choose").click();
    harness.run_ok();
    assert!(matches!(
        harness.state().asked.as_slice(),
        [Command::Device(DeviceWish::Auto)]
    ));
}

#[test]
fn nothing_can_be_chosen_while_a_task_runs() {
    let mut state = of(&machines::rx_7900_xtx_with_igpu());
    let work = TaskWork::Resume { run: "r1".to_owned() };
    state.tasks.begin(work, 0.0);
    let mut harness = page(state);
    assert!(has(&harness, "Fine-tuning is under way on this device"));
    harness.get_by_label("Train on the processor").click();
    harness.run_ok();
    assert!(harness.state().asked.is_empty());
}

#[test]
fn an_override_stands_beside_the_truth() {
    let harness = page(of(&machines::rx_7600_xt_with_override()));
    harness.get_by_label("gfx1102");
    assert!(has(
        &harness,
        "HSA_OVERRIDE_GFX_VERSION=11.0.0: programs take it for gfx1100"
    ));
}

#[test]
fn live_figures_are_strips_in_words_too_and_a_table() {
    let mut state = of(&machines::rx_7900_xtx());
    for second in 0..60 {
        state.telemetry.add(reading(f64::from(second), XTX));
    }
    let mut harness = page(state);
    harness.get_by_label("Power 267 W, 90.0 to 267 W in the last 59.0 s");
    harness.get_by_label("Show as a table").click();
    harness.run_ok();
    harness.get_by_label("Power (W)");
    harness.get_by_label("Show as strips");
    harness.state_mut().state.telemetry.add(Sample {
        at_secs: 60.0,
        gpus: vec![GpuSample {
            pci: XTX.to_owned(),
            state: CardState::Asleep,
            ..GpuSample::default()
        }],
        processes_hidden: false,
    });
    harness.run_ok();
    assert!(has(&harness, "reading would wake it"));
}

#[test]
fn every_fact_tells_where_it_comes_from() {
    let mut harness = page(of(&machines::rx_7900_xtx()));
    assert!(!has(&harness, "Read from KFD"));
    harness.get_by_label("Show where each comes from").click();
    harness.run_ok();
    harness.get_by_label("Read from KFD");
    assert!(
        harness
            .query_all_by_label_contains("The card table, as of")
            .count()
            > 2
    );
    harness.get_by_label("gfx target").click();
    harness.run_ok();
    assert!(matches!(
        harness.state().asked.as_slice(),
        [Command::Explain("gfx target")]
    ));
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    for dark in [true, false] {
        let mut state = of(&machines::rx_7900_xtx_with_igpu());
        for second in 0..90 {
            state.telemetry.add(reading(f64::from(second), XTX));
        }
        let mut harness = show(state, card_ui, [1280.0, 820.0], dark, true);
        harness.run_ok();
        results.add(harness.try_snapshot(if dark { "card-dark" } else { "card-light" }));
    }
}
