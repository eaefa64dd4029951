//! GGUF files: every weight format, the order of rows, and what happens to broken files.

use std::path::Path;

use tempfile::TempDir;
use tunesmith_models::{Architecture, Model, ModelConfig, ModelError, RopeScaling};

use crate::tiny::{self, BF16, F16, F32, GgufWriter};
use crate::{fixture, told};

/// A tensor whose rows are never reordered, with its Hugging Face name and shape.
const PLAIN: (&str, &str, [usize; 2]) = (
    "blk.0.ffn_gate.weight",
    "model.layers.0.mlp.gate_proj.weight",
    [32, 64],
);

fn open(file: &GgufWriter) -> Result<Model, ModelError> {
    open_bytes(&file.bytes())
}

fn open_bytes(bytes: &[u8]) -> Result<Model, ModelError> {
    // Opening reads headers only, so the folder may go again unless a test reads weights.
    let folder = TempDir::new().unwrap();
    open_in(&folder, bytes)
}

fn open_in(folder: &TempDir, bytes: &[u8]) -> Result<Model, ModelError> {
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    Model::open(&path)
}

fn llama() -> (ModelConfig, GgufWriter) {
    let config = tiny::config(Architecture::Llama);
    let file = GgufWriter::model(&config);
    (config, file)
}

#[test]
fn each_architecture_opens_tied_and_untied_with_its_own_tensors() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        for tied_embeddings in [true, false] {
            let config = ModelConfig {
                tied_embeddings,
                ..tiny::config(architecture)
            };
            let folder = TempDir::new().unwrap();
            let model = open_in(&folder, &GgufWriter::model(&config).bytes()).unwrap();
            assert_eq!(*model.config(), config);
            for (name, shape) in config.expected_tensors() {
                let (found, values) = model.read_f32(&name).unwrap();
                assert_eq!(
                    (found, values.len()),
                    (shape.clone(), shape.iter().product()),
                    "{name}"
                );
                if !name.contains("q_proj") && !name.contains("k_proj") {
                    assert_eq!(values, tiny::values(&name, values.len()), "{name}");
                }
            }
            assert_eq!(model.read_f32("lm_head.weight").is_err(), tied_embeddings);
        }
    }
}

#[test]
fn a_head_dimension_of_its_own_is_read() {
    let config = ModelConfig {
        head_dim: 64,
        ..tiny::config(Architecture::Qwen3)
    };
    let mut file = GgufWriter::model(&config);
    file.u32("qwen3.attention.key_length", 64);
    file.u32("qwen3.attention.value_length", 64);
    assert_eq!(*open(&file).unwrap().config(), config);
}

#[test]
fn plain_formats_are_exact() {
    let values: Vec<f32> = (0..32 * 64u16)
        .map(|at| f32::from(at % 128) / 8.0 - 4.0)
        .collect();
    let as_f16 = values
        .iter()
        .flat_map(|value| half::f16::from_f32(*value).to_le_bytes())
        .collect();
    let as_bf16 = values
        .iter()
        .flat_map(|value| half::bf16::from_f32(*value).to_le_bytes())
        .collect();
    for (code, bytes) in [(F32, tiny::f32_bytes(&values)), (F16, as_f16), (BF16, as_bf16)] {
        let (_, mut file) = llama();
        file.tensor(PLAIN.0, &PLAIN.2, code, bytes);
        let folder = TempDir::new().unwrap();
        assert_eq!(
            open_in(&folder, &file.bytes())
                .unwrap()
                .read_f32(PLAIN.1)
                .unwrap(),
            (PLAIN.2.to_vec(), values.clone())
        );
    }
}

/// The three most used block formats by hand: scale 0.5, minimum -1, and a different number in each place.
#[test]
fn common_block_formats_follow_their_definition() {
    let half = half::f16::from_f32(0.5).to_le_bytes();
    let minus_one = half::f16::from_f32(-1.0).to_le_bytes();
    // Element i lies in the low half of byte i, element i + 16 in its high half.
    let nibbles: Vec<u8> = (0..16u8).map(|at| at | ((15 - at) << 4)).collect();
    let numbers: Vec<f32> = (0..16u8).chain((0..16).rev()).map(f32::from).collect();
    let bytes: Vec<u8> = (0..32u8).map(|at| (at * 8).wrapping_sub(127)).collect();
    let cases: [(u32, Vec<u8>, Vec<f32>); 3] = [
        (
            2,
            [&half[..], &nibbles].concat(),
            numbers.iter().map(|number| 0.5 * (number - 8.0)).collect(),
        ),
        (
            3,
            [&half[..], &minus_one, &nibbles].concat(),
            numbers.iter().map(|number| 0.5 * number - 1.0).collect(),
        ),
        (
            8,
            [&half[..], &bytes].concat(),
            bytes
                .iter()
                .map(|byte| 0.5 * f32::from(byte.cast_signed()))
                .collect(),
        ),
    ];
    for (code, block, expected) in cases {
        let (_, mut file) = llama();
        file.tensor(PLAIN.0, &PLAIN.2, code, block.repeat(64));
        let folder = TempDir::new().unwrap();
        let (_, values) = open_in(&folder, &file.bytes())
            .unwrap()
            .read_f32(PLAIN.1)
            .unwrap();
        assert_eq!(values, expected.repeat(64), "format {code}");
    }
}

/// Every block format on random bytes, against the gguf package's own code (`fixtures/blocks.json`).
#[test]
fn all_block_formats_decode_as_the_gguf_package_decodes_them() {
    let rows = fixture(include_str!("fixtures/blocks.json"));
    assert_eq!(rows.len(), 10);
    for row in rows {
        let hex = row["bytes"].as_str().unwrap();
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let expected: Vec<f32> = serde_json::from_value(row["values"].clone()).unwrap();
        // As many rows of the two blocks as the smallest model that they fit into has.
        let config = ModelConfig {
            hidden_size: 512,
            head_dim: 256,
            ..tiny::config(Architecture::Llama)
        };
        let mut file = GgufWriter::model(&config);
        let repeats = 32 * 512 / expected.len();
        file.tensor(
            PLAIN.0,
            &[32, 512],
            row["code"].as_u64().unwrap() as u32,
            bytes.repeat(repeats),
        );
        let folder = TempDir::new().unwrap();
        let (_, values) = open_in(&folder, &file.bytes())
            .unwrap()
            .read_f32(PLAIN.1)
            .unwrap();
        for (at, (found, expected)) in values.iter().zip(expected.repeat(repeats)).enumerate() {
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs(),
                "{} at {at}: {found}, not {expected}",
                row["name"]
            );
        }
    }
}

#[test]
fn rows_of_q_and_k_come_back_as_halves_in_llama_files_alone() {
    for (architecture, neighbours) in [
        (Architecture::Llama, true),
        (Architecture::Qwen2, false),
        (Architecture::Qwen3, false),
    ] {
        let config = ModelConfig {
            qkv_bias: true,
            ..tiny::config(architecture)
        };
        let mut file = GgufWriter::model(&config);
        for (stored, heads) in [("attn_q", 2usize), ("attn_k", 1)] {
            let rows: Vec<f32> = (0..heads * 32).map(|row| row as f32).collect();
            let wide: Vec<f32> = rows.iter().flat_map(|row| [*row; 64]).collect();
            file.tensor(
                &format!("blk.0.{stored}.weight"),
                &[heads * 32, 64],
                F32,
                tiny::f32_bytes(&wide),
            );
            file.tensor(
                &format!("blk.0.{stored}.bias"),
                &[heads * 32],
                F32,
                tiny::f32_bytes(&rows),
            );
        }
        let folder = TempDir::new().unwrap();
        let model = open_in(&folder, &file.bytes()).unwrap();
        for (name, heads) in [("q_proj", 2usize), ("k_proj", 1)] {
            // Hugging Face's row (head, half, pair) is the file's row (head, pair, half).
            let from = |row: usize| (row / 32) * 32 + (row % 16) * 2 + (row % 32) / 16;
            let expected: Vec<f32> = (0..heads * 32)
                .map(|row| if neighbours { from(row) } else { row } as f32)
                .collect();
            let (_, bias) = model
                .read_f32(&format!("model.layers.0.self_attn.{name}.bias"))
                .unwrap();
            assert_eq!(bias, expected, "{architecture:?} {name}");
            let (_, weight) = model
                .read_f32(&format!("model.layers.0.self_attn.{name}.weight"))
                .unwrap();
            assert_eq!(
                weight.iter().step_by(64).copied().collect::<Vec<_>>(),
                expected,
                "{architecture:?} {name}"
            );
        }
    }
}

#[test]
fn rope_scaling_is_read_from_its_tensor_and_its_keys() {
    let (_, mut file) = llama();
    let divisors: Vec<f32> = (1..=16u8).map(f32::from).collect();
    file.tensor("rope_freqs.weight", &[16], F32, tiny::f32_bytes(&divisors));
    assert_eq!(
        open(&file).unwrap().config().rope_scaling,
        RopeScaling::Divisors(divisors)
    );

    file.tensor("rope_freqs.weight", &[8], F32, tiny::f32_bytes(&[1.0; 8]));
    assert_eq!(open(&file).unwrap_err().code(), "model_config");

    let (_, mut file) = llama();
    file.text("llama.rope.scaling.type", "linear");
    file.f32("llama.rope.scaling.factor", 4.0);
    assert_eq!(
        open(&file).unwrap().config().rope_scaling,
        RopeScaling::Linear { factor: 4.0 }
    );
}

#[test]
fn a_file_cut_anywhere_is_an_error_that_says_to_download_it_again() {
    let (_, file) = llama();
    let bytes = file.bytes();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cut.gguf");
    std::fs::write(&path, &bytes).unwrap();
    Model::open(&path).unwrap();
    let handle = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Every byte of the header, which is shorter than this, and every so many of the weights.
    for length in (0..bytes.len())
        .rev()
        .filter(|length| *length < 4096 || length % 61 == 60)
    {
        handle.set_len(length as u64).unwrap();
        let error = Model::open(&path).map(|_| length).unwrap_err();
        let ModelError::Truncated { missing, .. } = error else {
            panic!("{length} bytes: {error}")
        };
        assert!(missing > 0 && missing as usize <= bytes.len() - length);
        assert!(told(&error).contains("download it again"), "{}", told(&error));
    }
}

#[test]
fn a_cut_in_the_weights_says_exactly_how_much_is_missing() {
    let (_, file) = llama();
    let bytes = file.bytes();
    let error = open_bytes(&bytes[..bytes.len() - 1000]).unwrap_err();
    assert!(
        error.to_string().contains("at least 1000 bytes are missing"),
        "{error}"
    );
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    type Change = fn(&mut GgufWriter);
    let cases: [(Change, &str); 8] = [
        (|file| file.u32("llama.expert_count", 8), "mixture of experts"),
        (
            |file| file.u32("llama.attention.sliding_window", 16),
            "sliding attention window",
        ),
        (
            |file| file.u32("llama.attention.value_length", 16),
            "values of another width",
        ),
        (|file| file.text("llama.rope.scaling.type", "yarn"), "yarn"),
        (
            |file| file.tensor("blk.0.ffn_gate_exps.weight", &[8, 64], F32, vec![0; 2048]),
            "blk.0.ffn_gate_exps.weight",
        ),
        (
            |file| file.tensor("blk.1.attn_norm.weight", &[64], F32, vec![0; 256]),
            "model.layers.1.input_layernorm.weight",
        ),
        (
            |file| file.tensor("blk.0.attn_v.bias", &[32], F32, vec![0; 128]),
            "model.layers.0.self_attn.v_proj.bias",
        ),
        (|file| file.tensor(PLAIN.0, &PLAIN.2, 20, vec![0; 1152]), "IQ4_NL"),
    ];
    for (change, name) in cases {
        let (_, mut file) = llama();
        change(&mut file);
        let error = open(&file).map(|_| name).unwrap_err();
        assert!(
            matches!(
                error,
                ModelError::Unsupported { .. } | ModelError::UnexpectedTensor { .. }
            ),
            "{error}"
        );
        assert!(error.to_string().contains(name), "{error} does not name {name}");
    }
    let mut other = GgufWriter::new();
    other.text("general.architecture", "mamba");
    assert!(told(&open(&other).unwrap_err()).contains("mamba"));
}

#[test]
fn missing_and_misshapen_tensors_are_named() {
    let (_, mut file) = llama();
    file.without("blk.0.ffn_up.weight");
    let error = open(&file).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("lacks the tensor model.layers.0.mlp.up_proj.weight"),
        "{error}"
    );

    let (_, mut file) = llama();
    file.tensor("blk.0.ffn_up.weight", &[64, 32], F32, vec![0; 64 * 32 * 4]);
    let error = open(&file).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("[64, 32], but the configuration asks for [32, 64]"),
        "{error}"
    );
}

#[test]
fn impossible_numbers_in_the_metadata_are_refused() {
    for (key, size) in [
        ("attention.head_count", 0u32),
        ("attention.head_count_kv", 3),
        ("block_count", u32::MAX),
        ("context_length", 0),
    ] {
        let config = tiny::config(Architecture::Llama);
        let mut file = GgufWriter::new();
        file.text("general.architecture", "llama");
        for (name, value) in [
            ("embedding_length", 64),
            ("feed_forward_length", 32),
            ("block_count", 1),
            ("attention.head_count", 2),
            ("attention.head_count_kv", 1),
            ("context_length", 128),
        ] {
            file.u32(&format!("llama.{name}"), if name == key { size } else { value });
        }
        file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        file.tensor("token_embd.weight", &[16, config.hidden_size], F32, vec![0; 4096]);
        assert_eq!(
            open(&file).map(|_| key).unwrap_err().code(),
            "model_config",
            "{key}"
        );
    }
}

#[test]
fn the_fingerprint_is_the_contents_and_not_the_place() {
    let (_, mut file) = llama();
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = open_in(&one, &file.bytes()).unwrap().fingerprint().unwrap();
    assert_eq!(
        open_in(&two, &file.bytes()).unwrap().fingerprint().unwrap(),
        first
    );
    assert_eq!(first.len(), 64);
    file.tensor("output_norm.weight", &[64], F32, tiny::f32_bytes(&[1.0; 64]));
    assert_ne!(
        open_in(&two, &file.bytes()).unwrap().fingerprint().unwrap(),
        first
    );
}

#[test]
fn what_is_no_model_is_told_apart_from_what_is_broken() {
    let folder = TempDir::new().unwrap();
    assert_eq!(
        Model::open(Path::new("/no/such/model.gguf")).unwrap_err().code(),
        "model_not_found"
    );
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "hello").unwrap();
    assert_eq!(Model::open(&text).unwrap_err().code(), "not_a_model");
    let page = folder.path().join("page.gguf");
    std::fs::write(&page, "<html>Sign in to download</html>").unwrap();
    assert_eq!(Model::open(&page).unwrap_err().code(), "model_damaged");
    let (_, file) = llama();
    open_in(&folder, &file.bytes()).unwrap();
    let error = Model::open(folder.path()).unwrap_err();
    assert!(
        error.to_string().contains(".gguf, which can be opened itself"),
        "{error}"
    );
}
