//! The page for the calibration, by what a user reads and presses.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::Shown;
use egui::{Key, Modifiers};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use serde_json::{Value, json};
use tunesmith_lab::{
    pipeline::{StaleCalibration, StoredCalibration},
    run::CalibrationRecord,
};
use tunesmith_probe::{System, testing::machines};
use tunesmith_protocol::{
    AllocatorOverhead, AttentionBackend, AttentionMeasurement, AttentionShape, Calibration, CalibrationStage,
    Contention, CopyBandwidth, DType, EngineError, GemmMeasurement, InputSize, KernelCheck, KernelName,
    Layout, Level, LinearMeasurement, Notice, OverheadSource, Progress, RunStatus, StageTime, StopHow,
    Sustained, SustainedPoint, TaskWork, ValueCheck, Variant,
};
use tunesmith_setup::{
    doctor::{Rules, Surroundings, doctor},
    environments::Engine,
    knowledge::Knowledge,
    plan::{PlanRequest, plan},
};
use tunesmith_ui::{
    commands::Command,
    pages::calibrate::{CalibrateView, Stored, calibrate_ui, needs, task_ended},
    problem,
    saved::DeviceWish,
    state::{Loadable, Machine, Page, Problem, State},
};

type ShownCalibrate = Shown<CalibrateView>;

fn values(max_error: f64, tolerance: f64) -> ValueCheck {
    ValueCheck {
        max_error,
        tolerance,
        passed: max_error <= tolerance,
    }
}

fn gemm(dtype: DType, layout: Layout, mean_tflops: f64) -> GemmMeasurement {
    let tolerance = if dtype == DType::F32 { 2e-5 } else { 8e-3 };
    GemmMeasurement {
        dtype,
        layout,
        side: 8192,
        warmup: 10,
        iterations: 50,
        mean_tflops,
        best_tflops: mean_tflops * 1.02,
        median_tflops: mean_tflops * 1.005,
        emulated: false,
        values: values(tolerance / 4.0, tolerance),
    }
}

/// A card's calibration, in the order in which the engine measures.
fn of_a_card() -> Calibration {
    let kernels = [
        KernelName::AttentionForward,
        KernelName::AttentionBackward,
        KernelName::LoraLayerForward,
        KernelName::LoraLayerBackward,
        KernelName::Nf4RoundTrip,
    ];
    Calibration {
        device: "cuda:0".to_owned(),
        threads: 8,
        gemm: vec![
            gemm(DType::Bf16, Layout::Nt, 101.5),
            gemm(DType::Bf16, Layout::Nn, 96.2),
            gemm(DType::Bf16, Layout::Tn, 88.9),
            gemm(DType::F32, Layout::Nt, 27.4),
            gemm(DType::F32, Layout::Nn, 26.8),
            gemm(DType::F32, Layout::Tn, 25.1),
        ],
        kernels: kernels
            .into_iter()
            .map(|kernel| KernelCheck {
                kernel,
                dtype: DType::Bf16,
                inputs: InputSize::Ordinary,
                values: values(2.1e-3, 1e-2),
            })
            .collect(),
        copy: CopyBandwidth {
            bytes: 1 << 30,
            iterations: 10,
            best_gib_per_sec: 812.4,
            median_gib_per_sec: 806.0,
        },
        time_boxed: false,
        linears: vec![
            linear("qkv_proj", Layout::Nt, 960, 576, 41.2),
            linear("down_proj", Layout::Nn, 1536, 576, 52.8),
        ],
        sustained: Some(sustained(|second| if second < 9 { 100.9 } else { 92.7 })),
        attention: vec![
            attention(AttentionBackend::Math, 9.4, false),
            attention(AttentionBackend::Flash, 1.1, true),
            AttentionMeasurement {
                unavailable: Some(
                    "this torch has no efficient kernel for this device, format and size".to_owned(),
                ),
                forward_secs: None,
                backward_secs: None,
                proof: None,
                values: None,
                peak_bytes: None,
                iterations: 0,
                ..attention(AttentionBackend::Efficient, 1.0, false)
            },
        ],
        allocator: Some(AllocatorOverhead {
            source: OverheadSource::Device,
            used_bytes: 1900 << 20,
            allocator_bytes: 600 << 20,
            others_bytes: Some(760 << 20),
        }),
        variants: vec![setting("0", 71.0), setting("1", 101.2)],
        contention: Some(Contention {
            before_cores: Some(0.1),
            during_cores: Some(0.1),
            after_cores: Some(0.1),
            disturbed: Some(false),
            ..Contention::default()
        }),
        ..Calibration::default()
    }
}

fn linear(name: &str, layout: Layout, n: i64, k: i64, tflops: f64) -> LinearMeasurement {
    LinearMeasurement {
        name: name.to_owned(),
        dtype: DType::Bf16,
        layout,
        m: 4096,
        n,
        k,
        iterations: 20,
        mean_tflops: tflops,
        best_tflops: tflops * 1.03,
        median_tflops: tflops,
    }
}

fn sustained(speed: impl Fn(u32) -> f64) -> Sustained {
    Sustained {
        dtype: DType::Bf16,
        layout: Layout::Nt,
        side: 8192,
        points: (1..=30)
            .map(|second| SustainedPoint {
                at_secs: f64::from(second),
                tflops: speed(second),
            })
            .collect(),
    }
}

/// Of this many milliseconds, forward and backward together.
fn attention(backend: AttentionBackend, millis: f64, dispatched: bool) -> AttentionMeasurement {
    let proof = match backend {
        AttentionBackend::Math => "UnsafeViewBackward0",
        _ => "ScaledDotProductFlashAttentionBackward0",
    };
    AttentionMeasurement {
        backend,
        dtype: DType::Bf16,
        shape: AttentionShape {
            rows: 4,
            heads: 16,
            kv_heads: 2,
            length: 1024,
            head_dim: 128,
        },
        dispatched,
        proof: Some(proof.to_owned()),
        forward_secs: Some(millis / 3000.0),
        backward_secs: Some(millis / 1500.0),
        iterations: 20,
        peak_bytes: Some(180 << 20),
        values: Some(values(1.2e-2, 6e-2)),
        unavailable: None,
    }
}

fn setting(value: &str, tflops: f64) -> Variant {
    Variant {
        variable: "TORCH_BLAS_PREFER_HIPBLASLT".to_owned(),
        value: value.to_owned(),
        gemm: vec![
            gemm(DType::Bf16, Layout::Nt, tflops),
            gemm(DType::Bf16, Layout::Nn, tflops),
        ],
        attention: Vec::new(),
        failure: None,
    }
}

/// A measurement that does not hold any more, for this reason.
fn stale(reason: &str) -> StaleCalibration {
    let mut result = of_a_card();
    for gemm in &mut result.gemm {
        gemm.mean_tflops *= 0.9;
    }
    StaleCalibration {
        stored: StoredCalibration {
            record: CalibrationRecord {
                taken: "2026-10-02T09:30:00Z".to_owned(),
                result,
            },
            conditions: None,
            reused: true,
            path: "/data/calibration/fedcba9876543210.json".into(),
        },
        file: "/data/calibration/fedcba9876543210.json".into(),
        reasons: vec![reason.to_owned()],
    }
}

fn with_stale(mut state: State, stale: Vec<StaleCalibration>) -> State {
    if let Loadable::Ready(stored) = &mut state.pages.calibrate.stored {
        stored.stale = stale;
    }
    state
}

const NEW_DRIVER: &str = "the driver is amdgpu 6.12 now, it was amdgpu 6.10";

fn looked_at(system: System) -> Machine {
    let knowledge = Knowledge::load(None).unwrap();
    let plan = plan(&system, &knowledge, &PlanRequest::new(Engine::Native)).map_err(|error| problem!(error));
    let rules = Rules::load(None).unwrap();
    let diagnosis = doctor(&system, &knowledge, &rules, &Surroundings::default(), &[]);
    Machine {
        system,
        knowledge: Arc::new(knowledge),
        diagnosis,
        plan,
    }
}

/// A machine that was looked at, where nothing has been measured yet.
fn state_of(system: System, device: &str) -> State {
    let mut state = State::for_tests();
    state.machine.apply(Ok(looked_at(system)));
    state.pages.calibrate.stored = Loadable::Ready(Stored {
        device: device.to_owned(),
        measured: None,
        stale: Vec::new(),
        is_capture: false,
    });
    state
}

fn xtx() -> State {
    state_of(machines::rx_7900_xtx().detect(), "cuda:0")
}

fn begin(state: &mut State) -> u64 {
    let work = TaskWork::Calibrate {
        device: Some("cuda:0".to_owned()),
        again: false,
        full: false,
    };
    state.tasks.begin(work, 1.0)
}

fn end(state: &mut State, status: RunStatus, result: Value, failure: Option<EngineError>) {
    let task = state.tasks.running().unwrap().id;
    let notice = Notice::Ended {
        task,
        status,
        run: None,
        result,
        failure,
        last_lines: Vec::new(),
    };
    assert_eq!(state.tasks.apply(notice, 20.0), Some(task));
    state.now_secs = 20.0;
    task_ended(state, task);
}

/// As the service tells a calibration.
fn told(result: &Calibration) -> Value {
    json!({
        "taken": "2026-11-30T21:14:05Z", "reused": false, "file": "/data/calibration/0123456789abcdef.json",
        "result": result,
    })
}

fn measured(mut state: State, result: &Calibration) -> State {
    begin(&mut state);
    end(&mut state, RunStatus::Ok, told(result), None);
    state
}

fn shown<'a>(state: State) -> Harness<'a, ShownCalibrate> {
    let mut harness = common::show(state, calibrate_ui, [1100.0, 2200.0], true, false);
    harness.run_ok();
    harness
}

fn press(harness: &mut Harness<'_, ShownCalibrate>, label: &str) {
    harness.get_by_label(label).click();
    harness.run_ok();
}

fn asked(harness: &mut Harness<'_, ShownCalibrate>) -> Vec<Command> {
    std::mem::take(&mut harness.state_mut().asked)
}

#[test]
fn one_button_measures() {
    let mut harness = shown(xtx());
    assert!(
        harness
            .query_by_label("How fast this card really is has not been measured yet")
            .is_some()
    );
    // The stages, and four engines under other settings.
    assert!(
        harness
            .query_by_label_contains("It takes 2 min 30 s at most")
            .is_some()
    );
    assert!(harness.query_by_label("Back ends of attention").is_some());
    let wanted = TaskWork::Calibrate {
        device: Some("cuda:0".to_owned()),
        again: false,
        full: false,
    };
    press(&mut harness, "Measure this card");
    assert!(matches!(&asked(&mut harness)[..], [Command::Start(work)] if **work == wanted));
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(matches!(&asked(&mut harness)[..], [Command::Start(work)] if **work == wanted));
}

#[test]
fn while_a_training_runs_it_is_refused_with_the_reason() {
    let mut state = xtx();
    state.tasks.begin(TaskWork::Resume { run: "r1".to_owned() }, 1.0);
    let mut harness = shown(state);
    assert!(
        harness
            .query_by_label_contains("Fine-tuning is under way: a measurement beside it would be wrong")
            .is_some()
    );
    press(&mut harness, "Measure this card");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(asked(&mut harness).is_empty());
}

#[test]
fn without_an_engine_it_leads_to_the_set_up() {
    let mut state = xtx();
    state.pages.calibrate.stored = Loadable::Failed(Problem::new(
        "torch_not_installed",
        "the engine needs libtorch, and none is installed",
        Vec::new(),
    ));
    let mut harness = shown(state);
    press(&mut harness, "Go to the set-up");
    assert!(matches!(&asked(&mut harness)[..], [Command::Go(Page::Setup)]));
}

#[test]
fn a_capture_is_not_measured() {
    let mut state = State::for_tests();
    state
        .machine
        .apply(Ok(looked_at(machines::rx_7900_xtx().detect())));
    needs(&mut state).unwrap().run()(&mut state);
    assert!(needs(&mut state).is_none(), "it is read once after each look");
    let mut harness = shown(state);
    assert!(
        harness
            .query_by_label_contains("only the machine itself can be measured")
            .is_some()
    );
    press(&mut harness, "Measure this card");
    assert!(asked(&mut harness).is_empty());
}

fn linears_under_way(task: u64) -> Notice {
    Notice::Progress {
        task,
        progress: Progress {
            stage: CalibrationStage::Linears.name().to_owned(),
            done: 37,
            total: 90,
            unit: "seconds".to_owned(),
            eta_secs: Some(53.0),
        },
    }
}

#[test]
fn a_measurement_shows_how_far_it_is_and_can_be_stopped() {
    let mut state = xtx();
    let task = begin(&mut state);
    for notice in [
        Notice::Stage {
            task,
            stage: "calibrate".to_owned(),
            title: "measuring the device".to_owned(),
        },
        linears_under_way(task),
    ] {
        state.tasks.apply(notice, 5.0);
    }
    let mut harness = shown(state);
    assert!(harness.query_by_label("Measuring this card").is_some());
    assert!(
        harness
            .query_by_label("37 of 90 seconds, about 53 s left")
            .is_some()
    );
    let told = |word| harness.query_all_by_label(word).count();
    assert_eq!((told("done"), told("now"), told("waiting")), (2, 1, 4));
    press(&mut harness, "Stop");
    assert!(matches!(&asked(&mut harness)[..], [Command::Stop(StopHow::Now)]));
}

#[test]
fn the_title_is_what_the_card_does_of_what_it_promises() {
    let mut harness = shown(measured(xtx(), &of_a_card()));
    // 96 units, 512 operations a clock, 2500 MHz.
    assert!(
        harness
            .query_by_label("This card does 101.5 of its 122.9 TFLOPS in bf16")
            .is_some()
    );
    assert!(
        harness
            .query_by_label_contains("against the spec sheet the same training looks 17.4 % worse")
            .is_some()
    );
    assert!(
        harness
            .query_by_label(
                "6 matrix products and 5 checks of attention, the LoRA layer and 4-bit weights agree with float64"
            )
            .is_some()
    );
    assert!(
        harness
            .query_by_label_contains("4-bit weights are stored and unpacked rightly")
            .is_some()
    );
    assert!(harness.query_by_label("measured just now").is_some());
    press(&mut harness, "Measure again");
    let begun = asked(&mut harness);
    assert!(
        matches!(&begun[..], [Command::Start(work)] if matches!(**work, TaskWork::Calibrate { again: true, .. }))
    );
    press(&mut harness, "Copy the measurement");
    let copied = asked(&mut harness);
    assert!(
        matches!(&copied[..], [Command::Copy { text, .. }] if text.contains("bf16 nt 8192x8192: 101.5 TFLOPS mean"))
    );
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(matches!(&asked(&mut harness)[..], [Command::Go(Page::Tune)]));
}

#[test]
fn its_report_is_a_click_away() {
    let mut harness = shown(measured(xtx(), &of_a_card()));
    press(&mut harness, "Report");
    assert!(common::carry_out(harness.state_mut()).is_empty());
    assert_eq!(harness.state().state.page, Page::Report);
}

#[test]
fn a_wrong_value_fails_the_card_whatever_its_speed() {
    let mut result = of_a_card();
    result.gemm[0].values = values(0.12, 8e-3);
    let mut harness = shown(measured(xtx(), &result));
    assert!(
        harness
            .query_by_label("This card computes wrong values: bf16 product, nt layout")
            .is_some()
    );
    assert!(
        harness
            .query_by_label("bf16 product, nt layout: off by 0.120, allowed is 0.00800")
            .is_some()
    );
    assert!(harness.query_by_label("Choose what to train").is_none());
    // Its speed is no peak either: the next layout's is.
    assert!(harness.query_by_label_contains("bf16 reaches 96.2").is_some());
    press(&mut harness, "See what the set-up says");
    assert!(matches!(&asked(&mut harness)[..], [Command::Go(Page::Setup)]));
}

#[test]
fn an_imitated_format_is_labelled_and_is_no_peak() {
    let mut result = of_a_card();
    result.device = "cpu".to_owned();
    result.gemm.retain(|gemm| gemm.dtype == DType::F32);
    for gemm in &mut result.gemm {
        gemm.mean_tflops /= 100.0;
    }
    result.gemm.push(GemmMeasurement {
        emulated: true,
        ..gemm(DType::Bf16, Layout::Nt, 0.012)
    });
    result.time_boxed = true;
    result.stages = vec![StageTime {
        stage: CalibrationStage::Gemm,
        secs: 12.0,
        cut: true,
    }];
    let harness = shown(measured(state_of(machines::no_gpu().detect(), "cpu"), &result));
    assert!(
        harness
            .query_by_label("This processor does 0.2740 TFLOPS in f32; its spec-sheet peak is not known")
            .is_some()
    );
    assert!(
        harness
            .query_by_label("bf16 is emulated here: 0.01200 TFLOPS, which is no peak")
            .is_some()
    );
    assert!(
        harness
            .query_by_label_contains("repeated it less often: matrix products in three layouts")
            .is_some()
    );
}

#[test]
fn a_card_that_throttles_is_flagged_with_its_curve() {
    let harness = shown(measured(xtx(), &of_a_card()));
    assert!(
        harness
            .query_by_label_contains(
                "92.70 TFLOPS after 30 s, 8.7 % below the short measurement's 101.5: it throttles"
            )
            .is_some()
    );
    assert!(harness.query_by_label_contains("Speed over time falls").is_some());
    let mut steady = of_a_card();
    steady.sustained = Some(sustained(|_| 101.0));
    let harness = shown(measured(xtx(), &steady));
    assert!(harness.query_by_label_contains("it keeps its speed").is_some());
    assert!(harness.query_by_label("Measure for 30 s").is_none());
}

#[test]
fn a_processor_can_be_measured_for_longer() {
    let mut result = of_a_card();
    result.device = "cpu".to_owned();
    let short = result.sustained.as_mut().unwrap();
    short.points = sustained(|_| 101.0).points[..5].to_vec();
    let mut harness = shown(measured(state_of(machines::no_gpu().detect(), "cpu"), &result));
    assert!(
        harness
            .query_by_label_contains("throttling shows after 30 s")
            .is_some()
    );
    press(&mut harness, "Measure for 30 s");
    let begun = asked(&mut harness);
    assert!(
        matches!(&begun[..], [Command::Start(work)] if matches!(**work, TaskWork::Calibrate { again: true, full: true, .. }))
    );
}

#[test]
fn the_attention_that_torch_takes_is_marked_and_proven() {
    let harness = shown(measured(xtx(), &of_a_card()));
    assert!(
        harness
            .query_by_label(
                "In bf16 torch takes flash, the fastest of those that are right; proven by ScaledDotProductFlashAttentionBackward0"
            )
            .is_some()
    );
    assert!(
        harness
            .query_by_label_contains("bf16 flash, taken by torch is 1.10 ms")
            .is_some()
    );
    let mut silent = of_a_card();
    silent.attention[0].dispatched = true;
    silent.attention[1].dispatched = false;
    let harness = shown(measured(xtx(), &silent));
    assert!(
        harness
            .query_by_label_contains("In bf16 torch takes math, and flash would be 8.55 times as fast")
            .is_some()
    );
}

#[test]
fn settings_layers_and_memory_outside_the_allocator_are_told() {
    let harness = shown(measured(xtx(), &of_a_card()));
    for said in [
        "TORCH_BLAS_PREFER_HIPBLASLT: 1 wins, 43 % faster than the other",
        "of the peak",
        "540 MiB of the card lie outside torch's allocator",
    ] {
        assert!(harness.query_by_label_contains(said).is_some(), "{said}");
    }
}

#[test]
fn others_that_used_the_device_are_named() {
    let mut result = of_a_card();
    result.contention = Some(Contention {
        others: vec!["ollama".to_owned()],
        disturbed: Some(true),
        ..Contention::default()
    });
    let harness = shown(measured(xtx(), &result));
    assert!(
        harness
            .query_by_label("Disturbed: ollama used the device meanwhile, so its speeds are too low")
            .is_some()
    );
    assert!(
        harness
            .query_by_label_contains("no proof of throttling")
            .is_some()
    );
}

#[test]
fn what_does_not_hold_any_more_says_why_and_asks_to_measure_again() {
    let mut harness = shown(with_stale(xtx(), vec![stale(NEW_DRIVER)]));
    assert!(
        harness
            .query_by_label("The measurement of this card does not hold any more")
            .is_some()
    );
    assert!(
        harness
            .query_by_label("The driver is amdgpu 6.12 now, it was amdgpu 6.10")
            .is_some()
    );
    assert!(
        harness
            .query_by_label("bf16 91.35 TFLOPS, f32 24.66 TFLOPS")
            .is_some()
    );
    press(&mut harness, "Measure again");
    assert!(matches!(&asked(&mut harness)[..], [Command::Start(_)]));
    // Beside one that holds it stays to be seen.
    let harness = shown(with_stale(measured(xtx(), &of_a_card()), vec![stale(NEW_DRIVER)]));
    assert!(harness.query_by_label(NEW_DRIVER).is_some());
    assert!(harness.query_by_label_contains("This card does 101.5").is_some());
}

#[test]
fn warnings_of_the_log_stand_beside_the_figures() {
    let mut state = xtx();
    let task = begin(&mut state);
    let text = "other programs (firefox) kept 1.4 cores busy during this stage";
    let notice = Notice::Log {
        task,
        level: Level::Warn,
        text: text.to_owned(),
    };
    state.tasks.apply(notice, 5.0);
    end(&mut state, RunStatus::Ok, told(&of_a_card()), None);
    assert!(shown(state).query_by_label(text).is_some());
}

#[test]
fn a_measurement_grows_old_and_belongs_to_its_device() {
    let mut state = measured(xtx(), &of_a_card());
    state.now_secs = 20.0 + 3.0 * 3600.0 + 301.0;
    let mut harness = shown(state);
    assert!(harness.query_by_label("measured 3 h 05 min ago").is_some());
    harness.state_mut().state.saved.device = DeviceWish::Cpu;
    harness.run_ok();
    assert!(harness.query_by_label_contains("101.5").is_none());
    assert!(
        harness
            .query_by_label_contains("has not been measured yet")
            .is_some()
    );
}

#[test]
fn what_cannot_be_understood_or_failed_is_told() {
    let mut state = xtx();
    begin(&mut state);
    end(&mut state, RunStatus::Ok, json!({ "taken": 7 }), None);
    let harness = shown(state);
    assert!(
        harness
            .query_by_label("The measurement cannot be shown")
            .is_some()
    );
    let mut state = xtx();
    begin(&mut state);
    let error = EngineError {
        code: "device_in_use".to_owned(),
        message: "another run uses the device".to_owned(),
        hints: vec!["wait until it has ended".to_owned()],
    };
    end(&mut state, RunStatus::Crashed, Value::Null, Some(error));
    let harness = shown(state);
    assert!(
        harness
            .query_by_label("The measurement did not end well")
            .is_some()
    );
    assert!(harness.query_by_label("wait until it has ended").is_some());
    let mut state = xtx();
    begin(&mut state);
    end(&mut state, RunStatus::Cancelled, Value::Null, None);
    assert!(
        shown(state)
            .query_by_label_contains("Stopped before there was a result")
            .is_some()
    );
}

#[test]
fn it_is_read_at_every_size() {
    for size in [[840.0, 560.0], [1270.0, 850.0], [512.0, 320.0]] {
        let mut harness =
            common::show::<CalibrateView>(measured(xtx(), &of_a_card()), calibrate_ui, size, false, false);
        harness.run_ok();
        assert!(harness.query_by_label_contains("This card does 101.5").is_some());
    }
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    let whole = || with_stale(measured(xtx(), &of_a_card()), vec![stale(NEW_DRIVER)]);
    let measuring = || {
        let mut state = xtx();
        let task = begin(&mut state);
        state.tasks.apply(linears_under_way(task), 5.0);
        state
    };
    let outdated = || with_stale(xtx(), vec![stale(NEW_DRIVER)]);
    let pictures: [(&str, &dyn Fn() -> State, f32, bool); 4] = [
        // The curve and the back ends of attention, then the whole page.
        ("calibrate-dark", &whole, 1360.0, true),
        ("calibrate-light", &whole, 2900.0, false),
        ("calibrate-measuring-dark", &measuring, 560.0, true),
        ("calibrate-stale-light", &outdated, 772.0, false),
    ];
    for (name, state, height, dark) in pictures {
        let mut harness = common::show::<CalibrateView>(state(), calibrate_ui, [1112.0, height], dark, true);
        harness.run_ok();
        harness.snapshot(name);
        results.extend_harness(&mut harness);
    }
}
