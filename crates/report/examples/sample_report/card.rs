//! A made-up card: what it can do, and the machine around it.

use tunesmith_measure::Tflops;
use tunesmith_measure::cost::Prices;
use tunesmith_protocol::{
    AllocatorOverhead, AttentionBackend, AttentionMeasurement, AttentionShape, Calibration, CalibrationStage,
    Contention, CopyBandwidth, DType, GemmMeasurement, InputSize, KernelCheck, KernelName, Layout,
    LinearMeasurement, OverheadSource, StageTime, Sustained, SustainedPoint, ValueCheck,
};
use tunesmith_report::{DeviceRecord, DoctorFinding, DoctorRecord, DoctorStatus, EngineRecord, ReportInput};

use crate::noise;

/// A record without a training: a made-up card and what it can do.
pub(crate) fn card() -> anyhow::Result<ReportInput> {
    Ok(ReportInput {
        training: None,
        experiment: None,
        device: DeviceRecord {
            name: "Synthetic Card 9000".into(),
            gfx: Some("gfx1100".into()),
            backend: "hip".into(),
        },
        dtype: DType::Bf16,
        manifest: serde_json::from_str(MANIFEST)?,
        calibration: Some(of_a_card()),
        calibrated: Some("2026-01-02T02:00:00Z".into()),
        spec_peak: Some(Tflops(122.8)),
        doctor: Some(doctor()),
        telemetry: None,
        prices: Prices::default(),
        repeat: Some("tunesmith calibrate --again".into()),
        counting_rules: Vec::new(),
        redactions: vec![
            "The home folder was replaced by ~ 3 times".into(),
            "The host name was replaced by (host) once".into(),
        ],
        engine: EngineRecord {
            name: "synthetic-engine".into(),
            version: "0.1.0".into(),
        },
        program_version: "0.1.0".into(),
        date: "2026-01-02T03:04:05Z".into(),
    })
}

fn doctor() -> DoctorRecord {
    DoctorRecord {
        taken: "2026-01-02T03:00:00Z".into(),
        opening: "synthetic: the recommended recipe runs, and something makes it slower than it need be"
            .into(),
        in_order: 41,
        unknown: 3,
        findings: vec![DoctorFinding {
            id: "second-gpu".into(),
            group: "cards".into(),
            title: "Graphics of the processor beside the card".into(),
            status: DoctorStatus::Warn,
            found: "synthetic: gfx1036 is listed as a second device".into(),
            cure: Some("export HIP_VISIBLE_DEVICES=0".into()),
        }],
        flags: vec![[
            "TORCH_BLAS_PREFER_HIPBLASLT".into(),
            "1".into(),
            "synthetic: its products are faster on this card".into(),
        ]],
    }
}

fn of_a_card() -> Calibration {
    let right = |max_error, tolerance| ValueCheck {
        max_error,
        tolerance,
        passed: true,
    };
    let gemm = |dtype, layout, mean_tflops: f64| GemmMeasurement {
        dtype,
        layout,
        side: 8192,
        warmup: 10,
        iterations: 50,
        mean_tflops,
        best_tflops: mean_tflops * 1.02,
        median_tflops: mean_tflops * 1.003,
        emulated: false,
        values: right(3.1e-3, 1e-2),
    };
    let kernel = |kernel, inputs| KernelCheck {
        kernel,
        dtype: DType::Bf16,
        inputs,
        values: right(4.4e-3, 2e-2),
    };
    let attention =
        |backend, dispatched, secs: Option<f64>, proof: Option<&str>, unavailable: Option<&str>| {
            AttentionMeasurement {
                backend,
                dtype: DType::Bf16,
                shape: AttentionShape {
                    rows: 4,
                    heads: 16,
                    kv_heads: 4,
                    length: 1024,
                    head_dim: 128,
                },
                dispatched,
                proof: proof.map(str::to_owned),
                forward_secs: secs,
                backward_secs: secs.map(|secs| secs * 2.6),
                iterations: 20,
                peak_bytes: secs.map(|_| 96 << 20),
                values: secs.map(|_| right(5.0e-3, 2e-2)),
                unavailable: unavailable.map(str::to_owned),
            }
        };
    Calibration {
        device: "cuda:0".into(),
        threads: 16,
        gemm: vec![
            gemm(DType::Bf16, Layout::Nt, 101.5),
            gemm(DType::Bf16, Layout::Nn, 96.2),
            gemm(DType::Bf16, Layout::Tn, 71.8),
            gemm(DType::F32, Layout::Nt, 27.4),
        ],
        kernels: vec![
            kernel(KernelName::AttentionForward, InputSize::Ordinary),
            kernel(KernelName::AttentionBackward, InputSize::Large),
            kernel(KernelName::LoraLayerForward, InputSize::Ordinary),
            kernel(KernelName::LoraLayerBackward, InputSize::Ordinary),
            kernel(KernelName::Nf4RoundTrip, InputSize::Ordinary),
        ],
        copy: CopyBandwidth {
            bytes: 1 << 30,
            iterations: 50,
            best_gib_per_sec: 703.0,
            median_gib_per_sec: 691.0,
        },
        time_boxed: false,
        linears: vec![LinearMeasurement {
            name: "down_proj".into(),
            dtype: DType::Bf16,
            layout: Layout::Nt,
            m: 4096,
            n: 2048,
            k: 11_008,
            iterations: 30,
            mean_tflops: 78.0,
            best_tflops: 81.0,
            median_tflops: 78.4,
        }],
        sustained: Some(Sustained {
            dtype: DType::Bf16,
            layout: Layout::Nt,
            side: 8192,
            points: (1..=30_u32)
                .map(|second| SustainedPoint {
                    at_secs: f64::from(second),
                    tflops: 101.0 - 6.5 * (1.0 - (-f64::from(second) / 9.0).exp())
                        + 0.4 * noise(u64::from(second)),
                })
                .collect(),
        }),
        attention: vec![
            attention(
                AttentionBackend::Flash,
                true,
                Some(1.9e-3),
                Some("ScaledDotProductFlashAttentionBackward0"),
                None,
            ),
            attention(
                AttentionBackend::Efficient,
                false,
                Some(2.2e-3),
                Some("ScaledDotProductEfficientAttentionBackward0"),
                None,
            ),
            attention(
                AttentionBackend::Math,
                false,
                Some(9.8e-3),
                Some("SoftmaxBackward0"),
                None,
            ),
            attention(
                AttentionBackend::Cudnn,
                false,
                None,
                None,
                Some("synthetic: not part of this torch"),
            ),
        ],
        allocator: Some(AllocatorOverhead {
            source: OverheadSource::Device,
            used_bytes: 1_900_000_000,
            allocator_bytes: 1_200_000_000,
            others_bytes: Some(200_000_000),
        }),
        stages: vec![StageTime {
            stage: CalibrationStage::Gemm,
            secs: 18.2,
            cut: false,
        }],
        variants: Vec::new(),
        contention: Some(Contention {
            before_cores: Some(0.1),
            during_cores: Some(0.2),
            after_cores: Some(0.1),
            others: Vec::new(),
            card_growth_bytes: Some(0),
            disturbed: Some(false),
        }),
    }
}

const MANIFEST: &str = r#"{
  "note": "synthetic: no machine stands behind this report",
  "machine": {"processor": "Synthetic CPU, 2 cores", "memory_gib": 22.9, "gpus": [{"name": "Synthetic Card 9000", "vram_gib": 24.0}], "system": "Linux 6.1"},
  "software": {"tunesmith": "0.1.0", "torch": "2.11.0", "backend": "hip", "threads": 16},
  "model": {"name": "synthetic", "revision": "none", "sha256": "0000000000000000000000000000000000000000000000000000000000000000", "path": "~/models/synthetic.gguf"},
  "data": {"train_rows": 5000, "train_sha256": "1111111111111111", "test_questions": 300, "split_seed": 42},
  "environment": {"OMP_NUM_THREADS": null, "HSA_OVERRIDE_GFX_VERSION": null},
  "contention": {"checked": true, "other_load_percent": 3.5, "disk_busy": false}
}"#;
