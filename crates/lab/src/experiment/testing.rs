//! Experiments' folders made without an engine, for tests of what shows them. Plan and lines are written by the code that
//! writes real ones.

use std::{fs, path::PathBuf};

use tunesmith_measure::gap::Measures;
use tunesmith_probe::Load;
use tunesmith_protocol::{AnswerStats, DType, Layout, LinearMeasurement};
use tunesmith_setup::Folders;

use crate::{
    pipeline::LevelRecord,
    run::{ContentionSample, now},
    testing::TestRun,
};

use super::{
    Experiment, Plan, experiments_dir,
    record::{Folder, Line},
};

/// What came of a slot.
#[derive(Clone, Debug)]
pub enum TestSlot {
    /// This run.
    Run(TestRun),
    /// No run, for this reason.
    Failed(String),
    /// Products alone, at so many TFLOPS in f32.
    Products(f64),
    /// Answers one at a time, so many tokens a second.
    Decoding(f64),
}

/// Begins an experiment on a device, with what came of its first slots in their order; the others wait. Gives its
/// folder.
///
/// # Panics
/// Where it cannot be planned or written.
pub fn write_experiment(
    folders: &Folders,
    experiment: &Experiment,
    device: &str,
    slots: &[TestSlot],
) -> PathBuf {
    let experiment = experiment.on_device(device);
    let plan = Plan::new(&experiment, device).expect("an experiment that can be planned");
    let experiments = experiments_dir(folders.data());
    let folder = Folder::begin(&experiments, &experiment, &plan, false).expect("a folder that can be made");
    for (slot, came) in slots.iter().enumerate() {
        let line = match came {
            TestSlot::Run(run) => {
                let run = run.write(&folders.runs());
                Line::Run {
                    slot,
                    run: run.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                    at: now(),
                }
            }
            TestSlot::Products(tflops) => level(&folder, slot, &products(*tflops)),
            TestSlot::Decoding(tokens_per_sec) => level(&folder, slot, &decoding(*tokens_per_sec)),
            TestSlot::Failed(message) => Line::Failed {
                slot,
                code: "not_possible".to_owned(),
                message: message.clone(),
                at: now(),
            },
        };
        folder.append(&line).expect("a line that can be written");
    }
    folder.path
}

/// Keeps a measurement that trains nothing where a real one lies.
fn level(folder: &Folder, slot: usize, record: &LevelRecord) -> Line {
    let name = format!("slot-{slot:03}-1");
    let path = folder.answers(&name);
    fs::create_dir_all(&path).expect("a folder that can be made");
    record.write(&path).expect("a record that can be written");
    Line::Run {
        slot,
        run: name,
        at: now(),
    }
}

fn products(tflops: f64) -> LevelRecord {
    LevelRecord {
        linears: vec![LinearMeasurement {
            name: "down_proj".to_owned(),
            dtype: DType::F32,
            layout: Layout::Nt,
            m: 512,
            n: 576,
            k: 1536,
            iterations: 10,
            mean_tflops: tflops,
            best_tflops: tflops,
            median_tflops: tflops,
        }],
        ..measured(Measures::Products)
    }
}

/// Ten answers in ten seconds; the first token of each is none of writing.
fn decoding(tokens_per_sec: f64) -> LevelRecord {
    LevelRecord {
        answers: Some(AnswerStats {
            answers: 10,
            prompt_tokens: 1000,
            generated_tokens: 10 + (10.0 * tokens_per_sec) as u64,
            prefill_secs: 1.0,
            decode_secs: 10.0,
            weight_bytes: None,
            other_base: None,
        }),
        ..measured(Measures::Decoding)
    }
}

fn measured(measures: Measures) -> LevelRecord {
    LevelRecord {
        measures,
        dtype: DType::F32,
        linears: Vec::new(),
        answers: None,
        wall_secs: 12.0,
        contention: ContentionSample {
            stage: "calibrate".to_owned(),
            at: now(),
            seen: Load::default(),
        },
    }
}
