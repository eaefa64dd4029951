//! Fuzz targets: for every kind of file or line that comes from outside, a function that takes any bytes as one and must
//! neither panic nor run long nor fill the memory.
//!
//! This crate exists so that the same functions serve twice: `cargo xtask fuzz` builds a program for each (feature
//! `libfuzzer`, folder `fuzz_targets`), and ordinary tests replay the kept inputs through them on a stable toolchain. A target
//! does with an input all that the programs would do with it, and checks on the way what must hold for any input that was
//! accepted.

pub mod files;
pub mod text;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use tunesmith_data::Encoder;
use tunesmith_models::Model;

/// The tiny model that stands around a fuzzed file of a model's folder; made by `make_seeds.py`.
const FIXTURE: [(&str, &[u8]); 4] = [
    ("config.json", include_bytes!("../fixture/config.json")),
    ("tokenizer.json", include_bytes!("../fixture/tokenizer.json")),
    (
        "tokenizer_config.json",
        include_bytes!("../fixture/tokenizer_config.json"),
    ),
    (WEIGHTS, include_bytes!("../fixture/model.safetensors")),
];
const WEIGHTS: &str = "model.safetensors";

/// Does with an input all that the programs would do with it.
pub type Target = fn(&Bench, &[u8]);

/// All targets by name, as the folders of `corpus` are called.
pub const TARGETS: [(&str, Target); 8] = [
    ("chat_template", text::chat_template),
    ("config", files::config),
    ("gguf", files::gguf),
    ("protocol", text::protocol),
    ("recipe", text::recipe),
    ("rows", files::rows),
    ("safetensors", files::safetensors),
    ("tokenizer", files::tokenizer),
];

/// What a target needs: a folder of its own with the tiny model in it.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
    target: Target,
    encoder: OnceLock<Encoder>,
}

impl Bench {
    /// Prepares a target.
    ///
    /// # Panics
    /// The tiny model cannot be written.
    pub fn new(target: Target) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        for (file, content) in FIXTURE {
            write(&folder.path().join(file), content);
        }
        Self {
            folder,
            target,
            encoder: OnceLock::new(),
        }
    }

    /// Runs one input.
    ///
    /// # Panics
    /// The input shows a fault.
    pub fn run(&self, input: &[u8]) {
        (self.target)(self, input);
    }

    /// The tiny model's tokenizer and template; made where a target asks for it, so that the others are built without.
    fn encoder(&self) -> &Encoder {
        self.encoder.get_or_init(|| {
            let model = Model::open(self.folder.path()).expect("the tiny model opens");
            Encoder::new(&model).expect("the tiny model has a tokenizer and a template")
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Whether panics are told where they happen; see [`start`].
static TELL_PANICS: AtomicBool = AtomicBool::new(false);
static BENCH: OnceLock<Bench> = OnceLock::new();

/// Prepares the program of a target.
///
/// libFuzzer's binding ends the process at every panic, by a hook. Our crates catch the panics of some others, and such a panic
/// is no fault: so the hook is replaced by a silent one, and [`run`] ends the process when a panic has come all the way up.
///
/// A program names its target instead of looking it up, so that only what the target needs is linked: libFuzzer looks at all
/// of a program's code after each input.
///
/// # Panics
/// The tiny model cannot be written.
pub fn start(target: Target) {
    std::panic::set_hook(Box::new(|info| {
        if TELL_PANICS.load(Ordering::Relaxed) {
            eprintln!("{info}");
        }
    }));
    BENCH.get_or_init(|| Bench::new(target));
}

/// Runs one input in the program of a target; a panic that nobody caught is told and ends the process.
pub fn run(input: &[u8]) {
    let Some(bench) = BENCH.get() else { return };
    let run = || bench.run(input);
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
        // Once more, aloud.
        TELL_PANICS.store(true, Ordering::Relaxed);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        std::process::abort();
    }
}

fn write(path: &Path, content: &[u8]) {
    std::fs::write(path, content).expect("a file in the folder for temporary files");
}

/// What every refusal owes: a code that scripts can rely on and a sentence of readable length.
fn told(code: &str, sentence: &str, input: &[u8]) {
    assert!(!code.is_empty() && !sentence.is_empty());
    // A text of the input may be repeated, escaped, but a small input must not become a large message.
    assert!(
        sentence.len() <= 4096 + 16 * input.len(),
        "a message of {} bytes about an input of {}",
        sentence.len(),
        input.len()
    );
}
