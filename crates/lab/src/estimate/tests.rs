//! Estimates on made machines with made runs.

use std::path::PathBuf;

use tunesmith_probe::testing::{AmdCard, TestMachine};
use tunesmith_protocol::{Calibration, CopyBandwidth, GemmMeasurement, Layout, ValueCheck};
use tunesmith_setup::{model, runtime};

use super::*;
use crate::{run::lines, testing::TestRun};

mod advice;
mod memory;

const GIB: u64 = 1 << 30;

/// A machine in files, with a home of its own.
struct Bench {
    _machine: TestMachine,
    system: System,
    home: tempfile::TempDir,
    folders: Folders,
    knowledge: Knowledge,
    calibration: Option<CalibrationRecord>,
    trials: Vec<Trial>,
}

impl Bench {
    fn new(machine: TestMachine) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self {
            system: machine.detect(),
            _machine: machine,
            folders: Folders::all_under(home.path()),
            home,
            knowledge: Knowledge::load(None).unwrap(),
            calibration: None,
            trials: Vec::new(),
        }
    }

    fn processor() -> Self {
        Self::new(TestMachine::linux().memory_gib(16))
    }

    fn card() -> Self {
        let card = AmdCard::rx_7900_xtx("0000:03:00.0");
        Self::new(TestMachine::linux().memory_gib(32).usable_devices().amd(card))
    }

    fn calibrated(mut self, tflops: f64, dtype: DType) -> Self {
        self.calibration = Some(CalibrationRecord {
            taken: "2026-01-01T00:00:00Z".to_owned(),
            result: Calibration {
                device: "cpu".to_owned(),
                threads: 2,
                gemm: vec![GemmMeasurement {
                    dtype,
                    layout: Layout::Nt,
                    side: 2048,
                    warmup: 3,
                    iterations: 10,
                    mean_tflops: tflops,
                    best_tflops: tflops,
                    median_tflops: tflops,
                    emulated: false,
                    values: ValueCheck {
                        max_error: 1e-7,
                        tolerance: 1e-5,
                        passed: true,
                    },
                }],
                kernels: Vec::new(),
                copy: CopyBandwidth {
                    bytes: 1 << 28,
                    iterations: 3,
                    best_gib_per_sec: 10.0,
                    median_gib_per_sec: 9.0,
                },
                time_boxed: false,
                ..Calibration::default()
            },
        });
        self
    }

    fn estimate(&self, recipe: &Recipe, device: Option<&str>) -> Result<Estimate, EstimateError> {
        self.with(recipe, device, None, None)
    }

    fn with(
        &self,
        recipe: &Recipe,
        device: Option<&str>,
        rows: Option<&RowsReport>,
        available_memory_bytes: Option<u64>,
    ) -> Result<Estimate, EstimateError> {
        let earlier = lines(&self.folders.runs(), &[]).unwrap();
        let wish = Wish {
            recipe,
            device,
            engine: Engine::Native,
            rows,
        };
        estimate(&wish, &self.known(&earlier, available_memory_bytes))
    }

    fn advice(&self, recipe: &Recipe, available_memory_bytes: Option<u64>) -> Advice {
        let earlier = lines(&self.folders.runs(), &[]).unwrap();
        let wish = Wish {
            recipe,
            device: None,
            engine: Engine::Native,
            rows: None,
        };
        advise(&wish, &self.known(&earlier, available_memory_bytes)).unwrap()
    }

    fn known<'a>(&'a self, earlier: &'a [Arc<RunLine>], available_memory_bytes: Option<u64>) -> Known<'a> {
        Known {
            system: &self.system,
            knowledge: &self.knowledge,
            folders: &self.folders,
            hub: None,
            calibration: self.calibration.as_ref(),
            earlier,
            trials: &self.trials,
            available_memory_bytes,
        }
    }

    fn runs(&self) -> PathBuf {
        self.folders.runs()
    }
}

fn recipe(name: &str) -> Recipe {
    Recipe::load(name).unwrap()
}

fn changed(name: &str, settings: &[&str]) -> Recipe {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    recipe(name).with_overrides(&settings).unwrap()
}

fn bytes(parts: &[Part], what: &str) -> Option<u64> {
    parts.iter().find(|part| part.what == what).unwrap().bytes
}

#[test]
fn a_bundled_recipe_is_estimated_without_its_model_and_without_a_network() {
    let bench = Bench::processor();
    let found = bench.estimate(&recipe("quickstart"), None).unwrap();
    assert_eq!((found.device.as_str(), found.dtype), ("cpu", DType::F32));
    // Four bytes a parameter.
    assert_eq!(bytes(&found.memory.parts, "frozen model"), Some(4 * 134_515_008));
    assert_eq!(total(&found.memory.parts), found.memory.bytes);
    assert_eq!(found.memory.fit, Fit::Fits, "{}", found.memory.reason);
    assert_eq!(found.memory.correction, None);
    assert_eq!(bytes(&found.download, "model"), Some(model::sizes().0));
    assert_eq!(
        bytes(&found.download, "torch and packages"),
        Some(runtime::sizes().0)
    );
    // Rank 16 on all seven projections of the default model has 4 884 480 parameters.
    assert_eq!(bytes(&found.disk, "checkpoints"), Some(3 * 4_884_480 * 12));
    assert_eq!(bytes(&found.disk, "rows"), None);
    assert_eq!(
        (found.time.train_secs, found.time.basis),
        (None, TimeBasis::Unknown)
    );
    assert_eq!(found.time.how, "unknown until this device is calibrated");
    assert_eq!(found.time.evaluate_secs, None);
}

#[test]
fn time_comes_from_runs_with_the_same_settings_first() {
    let bench = Bench::processor();
    TestRun::new("2026-01-01T00:00:00Z")
        .tokens_per_sec(500.0)
        .write(&bench.runs());
    TestRun::new("2026-01-02T00:00:00Z")
        .tokens_per_sec(500.0)
        .steps(40)
        .write(&bench.runs());
    let same = bench.estimate(&recipe("quickstart"), None).unwrap().time;
    assert_eq!(same.basis, TimeBasis::SameSettings);
    assert!(same.how.starts_with("2 runs earlier"), "{}", same.how);
    // 96 steps of 1500 tokens at 500 a second, and the loading before the first.
    assert!(
        (same.train_secs.unwrap() / (96.0 * 3.0 + 5.5) - 1.0).abs() < 0.03,
        "{same:?}"
    );
    assert!(!same.at_most && !same.time_boxed);
    assert_eq!(same.evaluate_secs, Some(60.0));
    let longer = bench
        .estimate(&changed("quickstart", &["train.steps=960"]), None)
        .unwrap()
        .time;
    assert!(longer.time_boxed && longer.train_secs.unwrap() > 9.0 * same.train_secs.unwrap());
}

#[test]
fn other_settings_of_the_same_model_are_counted_in_operations() {
    let bench = Bench::processor();
    TestRun::new("2026-01-01T00:00:00Z").write(&bench.runs());
    let at = |settings: &[&str]| {
        bench
            .estimate(&changed("quickstart", settings), None)
            .unwrap()
            .time
    };
    let (single, double) = (at(&["train.accumulation=4"]), at(&["train.accumulation=8"]));
    assert_eq!(single.basis, TimeBasis::SameModel);
    assert!(!single.at_most, "the rows are those of the earlier run");
    assert!((double.train_secs.unwrap() / single.train_secs.unwrap() - 2.0).abs() < 0.01);
    let unknown_rows = at(&["data.max_length=400"]);
    assert!(unknown_rows.at_most && unknown_rows.how.contains("rows are taken to be 400 tokens long"));
}

#[test]
fn a_calibration_needs_a_run_that_shows_what_is_reached() {
    let other = |bench: &Bench| {
        bench.estimate(
            &changed("sft-4gib", &["train.device=\"cpu\"", "train.dtype=\"f32\""]),
            None,
        )
    };
    let bench = Bench::processor().calibrated(1.0, DType::F32);
    let before = other(&bench).unwrap().time;
    assert_eq!((before.train_secs, before.basis), (None, TimeBasis::Unknown));
    assert!(before.how.contains("first training"), "{}", before.how);
    TestRun::new("2026-01-01T00:00:00Z").write(&bench.runs());
    let after = other(&bench).unwrap().time;
    assert_eq!(after.basis, TimeBasis::Calibration);
    assert!(after.train_secs.is_some() && after.at_most);
    assert!(after.how.contains("of the measured peak"), "{}", after.how);
}

#[test]
fn wrong_values_of_the_calibration_refuse_their_format_alone() {
    let mut bench = Bench::processor().calibrated(1.0, DType::F32);
    let refused = |bench: &Bench, dtype: &str| {
        let changes = ["train.device=\"cpu\"", &format!("train.dtype=\"{dtype}\"")];
        bench
            .estimate(&changed("sft-4gib", &changes), None)
            .unwrap()
            .refused
    };
    assert_eq!(refused(&bench, "f32"), None);
    if let Some(calibration) = &mut bench.calibration {
        calibration.result.gemm[0].values.passed = false;
    }
    let why = refused(&bench, "f32").unwrap();
    assert!(why.starts_with("f32 product, nt layout is off by"), "{why}");
    assert_eq!(refused(&bench, "bf16"), None);
}

#[test]
fn an_unknown_model_stays_unknown() {
    let bench = Bench::card();
    let found = bench
        .estimate(&changed("sft-4gib", &["model.source=\"some/model\""]), None)
        .unwrap();
    assert_eq!((found.memory.fit, found.memory.bytes), (Fit::Unknown, None));
    assert!(
        found.memory.reason.contains("not in the catalogue"),
        "{}",
        found.memory.reason
    );
    assert_eq!(bytes(&found.download, "model"), None);
    assert_eq!(total(&found.download), None);
    assert_eq!(bytes(&found.disk, "adapter"), None);
    let listed = bench.estimate(&recipe("sft-4gib"), None).unwrap();
    assert_eq!(bytes(&listed.download, "model"), Some(988_065_536));
}

#[test]
fn a_model_and_a_torch_that_are_here_are_not_fetched() {
    let bench = Bench::processor();
    let folder = bench.home.path().join("model");
    std::fs::create_dir_all(&folder).unwrap();
    let mut own = recipe("quickstart");
    own.model.source = None;
    own.model.path = Some(folder);
    let found = bench.estimate(&own, None).unwrap();
    assert_eq!(bytes(&found.download, "model"), Some(0));
    // It cannot be opened, so nothing is told of its size.
    assert_eq!(found.memory.fit, Fit::Unknown);
}
