//! Ten trainings that are well, of every form that a recipe can have: the judge has nothing to say about any of them.
//! A judge that cries wolf is one that people stop reading.

use std::fs;

use crate::{
    context::{Home, RunIt},
    tiny_model,
};

/// A training that is well.
struct Recipe {
    model: &'static str,
    data: Data,
    /// `[lora]`, `[optimizer]` and `[train]`, as `--set` takes them.
    settings: &'static [&'static str],
}

/// What the rows are like.
#[derive(Clone, Copy)]
enum Data {
    /// Short prompts and completions of nearly one length.
    Short,
    /// Lengths from a dozen to two hundred tokens.
    Mixed,
    /// Nearly every token is trained.
    AllAnswer,
    /// Long prompts, short answers.
    LongPrompt,
    /// Conversations with a system message and two answers each.
    Chat,
    /// Instruction, input and output.
    Instruction,
    /// One row twice over, which an epoch holds once.
    TwoRows,
}

impl Data {
    fn rows(self) -> String {
        let row = |index: usize| {
            let n = index + 1;
            match self {
                Self::Short | Self::TwoRows => {
                    format!(
                        r#"{{"prompt": "How much is {n} and one?", "completion": "It is {}"}}"#,
                        n + 1
                    )
                }
                Self::Mixed => format!(
                    r#"{{"prompt": "Count{}", "completion": "{}"}}"#,
                    " up".repeat(index * 5 % 23),
                    "one more ".repeat(1 + index * 3 % 11)
                ),
                Self::AllAnswer => format!(
                    r#"{{"prompt": "?", "completion": "{} and that is {n}"}}"#,
                    "All of this is an answer. ".repeat(6)
                ),
                Self::LongPrompt => format!(
                    r#"{{"prompt": "{} What is number {n}?", "completion": "Number {n}, a fine one"}}"#,
                    "A table with a column. ".repeat(7)
                ),
                Self::Chat => format!(
                    r#"{{"messages": [{{"role": "system", "content": "Be brief"}}, {{"role": "user", "content": "Is it {n}?"}}, {{"role": "assistant", "content": "Yes, {n}"}}, {{"role": "user", "content": "Sure?"}}, {{"role": "assistant", "content": "Quite sure"}}]}}"#
                ),
                Self::Instruction => format!(
                    r#"{{"instruction": "Add one", "input": "{n}", "output": "It is {} — füglich 🎈"}}"#,
                    n + 1
                ),
            }
        };
        let count = if matches!(self, Self::TwoRows) { 2 } else { 9 };
        (0..count).map(|index| row(index) + "\n").collect()
    }
}

const RECIPES: [Recipe; 10] = [
    Recipe {
        model: "llama",
        data: Data::Short,
        settings: &["lora.rank=8", "train.micro_batch=4", "train.steps=40"],
    },
    Recipe {
        model: "qwen2",
        data: Data::Short,
        settings: &[
            "lora.rank=1",
            "train.accumulation=2",
            "train.recompute=layer",
            "train.steps=25",
        ],
    },
    Recipe {
        model: "qwen3",
        data: Data::Mixed,
        settings: &[
            "lora.rank=16",
            "train.accumulation=4",
            "train.micro_batch=1",
            "train.steps=40",
        ],
    },
    Recipe {
        model: "llama",
        data: Data::AllAnswer,
        settings: &[
            "train.recompute=layer",
            "optimizer.warmup_steps=5",
            "optimizer.schedule=linear",
            "train.steps=20",
        ],
    },
    Recipe {
        model: "qwen2",
        data: Data::LongPrompt,
        settings: &[
            "lora.rank=4",
            "train.micro_batch=3",
            "train.accumulation=2",
            "train.steps=20",
        ],
    },
    Recipe {
        model: "qwen3",
        data: Data::Chat,
        settings: &[
            "optimizer.warmup_steps=3",
            "train.accumulation=2",
            "train.steps=35",
        ],
    },
    Recipe {
        model: "llama",
        data: Data::Instruction,
        settings: &[
            "lora.target_modules=q_proj,v_proj",
            "lora.rank=32",
            "train.steps=30",
        ],
    },
    Recipe {
        model: "qwen2",
        data: Data::TwoRows,
        settings: &[
            "train.micro_batch=1",
            "optimizer.schedule=constant",
            "train.steps=40",
        ],
    },
    Recipe {
        model: "qwen3",
        data: Data::Mixed,
        settings: &[
            "train.dtype=bf16",
            "train.micro_batch=4",
            "optimizer.max_grad_norm=0",
            "train.steps=20",
        ],
    },
    Recipe {
        model: "llama",
        data: Data::Chat,
        settings: &[
            "train.steps=4",
            "optimizer.weight_decay=0.1",
            "train.accumulation=4",
        ],
    },
];

/// Checks that a training of these few steps on a processor need not reach: an adapter to go on from, the baseline of
/// steps 5 to 20 and ten more, ten steps of loss, two rows a step.
const MAY_BE_UNCHECKED: [&str; 5] = [
    "adapter_base",
    "step_time",
    "memory",
    "loss_falls",
    "gradient_scale",
];

#[test]
fn ten_healthy_trainings_are_green_in_every_check() {
    for (number, recipe) in RECIPES.iter().enumerate() {
        let home = Home::new();
        tiny_model::write_fixture(recipe.model, &home.path("model"));
        fs::write(home.path("rows.jsonl"), recipe.data.rows()).unwrap();
        let mut train = home.tunesmith_for_real();
        train.args(["train", &home.recipe(), "--json"]);
        for setting in recipe.settings {
            train.args(["--set", setting]);
        }
        let run = train.ran().expect_status(0).json();
        assert_eq!(run["status"], "ok", "recipe {number}");
        let findings = run["judge"]["findings"].as_array().unwrap();
        for finding in findings {
            assert_eq!(finding["severity"], "green", "recipe {number}: {finding}");
        }
        let unchecked = run["judge"]["not_checked"].as_array().unwrap();
        assert!(
            unchecked
                .iter()
                .all(|id| MAY_BE_UNCHECKED.contains(&id.as_str().unwrap())),
            "recipe {number} was not checked for {unchecked:?}"
        );
        assert_eq!(findings.len() + unchecked.len(), 20, "recipe {number}");
        assert_eq!(run["judge"]["last_good_step"], run["total_steps"]);
    }
}
