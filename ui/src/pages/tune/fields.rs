//! The fields of a recipe as people meet them: name, unit, range and what each is for. A test holds them to the recipe's
//! keys, so that none is forgotten.

use super::form::{MODULES, START_FROM};

/// How a field is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number is typed.
    Number,
    /// A few words are typed.
    Words,
    /// One of a few, each with its word.
    Choice(&'static [(&'static str, &'static str)]),
    /// Some of the projections.
    Modules,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// The recipe's key.
    pub key: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Unit of a number.
    pub unit: &'static str,
    /// What may be typed.
    pub range: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// The glossary's term, where it is one.
    pub term: Option<&'static str>,
    /// How it is set.
    pub kind: Kind,
}

const fn number(
    key: &'static str,
    name: &'static str,
    unit: &'static str,
    range: &'static str,
    help: &'static str,
) -> Field {
    Field {
        key,
        name,
        unit,
        range,
        help,
        term: None,
        kind: Kind::Number,
    }
}

const fn words(key: &'static str, name: &'static str, range: &'static str, help: &'static str) -> Field {
    Field {
        kind: Kind::Words,
        ..number(key, name, "", range, help)
    }
}

const fn choice(
    key: &'static str,
    name: &'static str,
    choices: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Field {
    Field {
        kind: Kind::Choice(choices),
        ..number(key, name, "", "", help)
    }
}

impl Field {
    const fn term(self, term: &'static str) -> Self {
        Self {
            term: Some(term),
            ..self
        }
    }
}

/// Headings, and how many of [`FIELDS`] stand under each.
pub(super) const GROUPS: [(&str, usize); 6] = [
    ("Length and batch", 5),
    ("Learning rate and optimizer", 8),
    ("Adapter", 4),
    ("Memory and arithmetic", 7),
    ("Rows and evaluation", 5),
    ("Run", 4),
];

/// All fields, group after group.
pub(super) const FIELDS: [Field; 33] = [
    // Length and batch
    number(
        "train.steps",
        "Steps",
        "steps",
        "1 to 10,000,000",
        "How often the adapter is changed; each step looks at micro-batch × accumulation rows",
    ),
    number(
        "train.micro_batch",
        "Micro-batch",
        "rows",
        "1 to 65,536",
        "Rows that are computed together; more are faster a row and take more memory",
    )
    .term("micro-batch"),
    number(
        "train.accumulation",
        "Accumulation",
        "passes",
        "1 to 65,536",
        "Passes that make one step; more rows a step without more memory",
    )
    .term("accumulation"),
    number(
        "data.max_length",
        "Longest row",
        "tokens",
        "2 to the model's context",
        "Rows that are longer are never cut; what happens to them is said below. Shorter rows take less memory",
    ),
    number(
        "train.time_box_minutes",
        "Time box",
        "minutes",
        "above 0",
        "The training stops after this time, saves what it has and is scored all the same",
    ),
    // Learning rate and optimizer
    number(
        "optimizer.learning_rate",
        "Learning rate",
        "",
        "above 0, below 1; LoRA works with 1e-4 to 2e-3",
        "How far a step goes, at its peak. Too large, and the loss jumps; too small, and nothing is learned",
    )
    .term("learning rate"),
    choice(
        "optimizer.schedule",
        "Schedule",
        &[
            ("cosine", "cosine"),
            ("linear", "linear"),
            ("constant", "constant"),
        ],
        "What the rate does after the warm-up: falls along half a cosine, falls in a straight line, or stays",
    ),
    number(
        "optimizer.warmup_steps",
        "Warm-up",
        "steps",
        "0 to the number of steps",
        "Steps in which the rate rises from zero to its peak; a tenth of the steps is usual",
    )
    .term("warm-up"),
    number(
        "optimizer.max_grad_norm",
        "Largest gradient norm",
        "",
        "0 or more; 0 turns it off",
        "A gradient that is larger is scaled down to this",
    )
    .term("clipping"),
    number(
        "optimizer.weight_decay",
        "Weight decay",
        "",
        "0 or more; 0 turns it off",
        "How strongly the adapter's weights are pulled towards zero at every step",
    )
    .term("weight decay"),
    number(
        "optimizer.beta1",
        "Beta 1",
        "",
        "0 to below 1; 0.9 is usual",
        "How long the optimizer remembers gradients",
    ),
    number(
        "optimizer.beta2",
        "Beta 2",
        "",
        "0 to below 1; 0.999 is usual",
        "How long it remembers their size",
    ),
    number(
        "optimizer.eps",
        "Epsilon",
        "",
        "above 0; 1e-8 is usual",
        "Keeps a division from zero",
    ),
    // Adapter
    number(
        "lora.rank",
        "Rank",
        "",
        "1 to 1024; 8, 16 and 32 are usual",
        "Inner dimension of the adapter: more can learn more and takes more memory",
    )
    .term("rank"),
    number(
        "lora.alpha",
        "Alpha",
        "",
        "above 0; twice the rank is usual",
        "The adapter counts with alpha ÷ rank",
    )
    .term("alpha"),
    Field {
        kind: Kind::Modules,
        term: Some("target modules"),
        ..number(
            MODULES,
            "Target modules",
            "",
            "one or more",
            "The projections that get an adapter: attention's four, and the three of the MLP",
        )
    },
    words(
        START_FROM,
        "Go on from",
        "a folder with an adapter of the same form; empty for a fresh one",
        "An adapter that was trained before, and is trained on",
    ),
    // Memory and arithmetic
    choice(
        "model.quantization",
        "Base stored in",
        &[("none", "its number format"), ("nf4", "4 bits")],
        "A base in 4 bits takes about a quarter of the memory and is not quite the same model: QLoRA",
    ),
    choice(
        "train.recompute",
        "Recompute",
        &[("none", "nothing"), ("mlp", "MLP"), ("layer", "whole layer")],
        "What the backward pass computes again instead of keeping it: less memory, more time",
    )
    .term("recompute"),
    choice(
        "train.dtype",
        "Number format",
        &[("auto", "auto"), ("bf16", "bf16"), ("f16", "f16"), ("f32", "f32")],
        "Of weights and activations. Auto is bf16 on a card and f32 on a processor",
    )
    .term("dtype"),
    choice(
        "train.packing",
        "Packing",
        &[("true", "on"), ("false", "off")],
        "Rows lie side by side without padding; off pads every row to the longest of its pass",
    ),
    choice(
        "train.attention",
        "Attention",
        &[("sdpa", "fused"), ("eager", "plain")],
        "Plain attention keeps all scores and is there to compare with; fused needs less memory and time",
    ),
    words(
        "train.memory_limit",
        "Memory limit",
        "auto, off, a share such as 80%, or a size such as 10 GiB",
        "What torch may take of the card at most. Auto is 90 % of what is free, and leaves a shared memory its part",
    ),
    words(
        "train.device",
        "Device",
        "auto, cpu, or cuda:0 (ROCm cards are called cuda too)",
        "Auto is the device that is chosen on the page Your card; one that is named here counts against it",
    ),
    // Rows and evaluation
    choice(
        "data.long_rows",
        "Rows that are too long",
        &[("error", "do not start"), ("drop", "leave out")],
        "They are never cut: half an answer teaches half answers",
    ),
    number(
        "evaluate.questions",
        "Test questions",
        "questions",
        "0 to 300; 0 turns it off",
        "Asked before and after, from the fixed test split of the text-to-SQL data; other data is not scored",
    ),
    number(
        "evaluate.batch_size",
        "Answered together",
        "questions",
        "1 or more; 16 is usual",
        "Questions that are answered at once",
    ),
    number(
        "evaluate.max_new_tokens",
        "Longest answer",
        "tokens",
        "1 or more; 96 holds most queries",
        "An answer that is longer is cut off and counts as wrong",
    ),
    number(
        "train.seed",
        "Seed",
        "",
        "a whole number",
        "Decides the adapter's start and the order of the rows: the same seed makes the same run",
    )
    .term("seed"),
    // Run
    number(
        "train.checkpoint_every",
        "Checkpoint every",
        "steps",
        "0 or more; 0 writes none",
        "From the newest checkpoint a run that was cut short goes on",
    )
    .term("checkpoint"),
    words(
        "name",
        "Name",
        "1 to 40 letters, digits, - and _",
        "Part of the name of the run's folder",
    ),
    words("title", "Title", "any text", "One line for lists and the report"),
    words("description", "Description", "any text", "What it is for"),
];

/// A field by its key.
pub(super) fn field(key: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_stands_under_a_heading_and_says_what_it_takes() {
        assert_eq!(GROUPS.iter().map(|(_, count)| count).sum::<usize>(), FIELDS.len());
        for field in FIELDS {
            let told = matches!(field.kind, Kind::Choice(_)) || !field.range.is_empty();
            assert!(
                told && !field.name.is_empty() && !field.help.is_empty(),
                "{}",
                field.key
            );
            if let Some(term) = field.term {
                assert!(crate::glossary::sentence(term).is_some(), "{term}");
            }
        }
    }
}
