//! The work that decides the memory: exactly, once the rows are made; before that the most that they can be.

use tunesmith_data::{Rows, RowsReport, epoch_order};
use tunesmith_measure::{AnswerWork, LoraShape, MemoryNeed, MemoryWork, ModelShape, Scores, Trainer};
use tunesmith_protocol::{Attention, DType};
use tunesmith_setup::environments::Engine;

use crate::recipe::{Recipe, TEXT_TO_SQL};

/// Micro-batches that are looked at; a longer training has seen every kind by then.
const MOST_LOOKED_AT: usize = 200_000;

/// Where a training runs and by whom, as far as memory depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// On a processor.
    pub on_processor: bool,
    /// The number format.
    pub dtype: DType,
    /// The torch has no attention kernels for the card.
    pub plain_attention: bool,
    /// Who trains.
    pub engine: Engine,
}

/// Who trains, in the words of the formula.
fn trainer(engine: Engine) -> Trainer {
    match engine {
        Engine::Native => Trainer::Native,
        Engine::Hf | Engine::Unsloth => Trainer::Transformers,
    }
}

/// The largest micro-batch of rows that have at most `row_tokens` tokens, as the recipe trains them: every row as long as
/// that and every token trained, or as many as the rows' report says.
pub fn work_at_most(recipe: &Recipe, place: Place, row_tokens: u64, rows: Option<&RowsReport>) -> MemoryWork {
    let micro_batch = recipe.train.micro_batch as u64;
    let most_supervised = rows
        .map(|rows| rows.most_supervised as u64)
        .filter(|most| *most > 0)
        .unwrap_or(row_tokens);
    let one_length = rows.is_none_or(|rows| rows.longest == rows.shortest);
    MemoryWork {
        supervised: micro_batch * most_supervised.min(row_tokens),
        one_length: one_length || micro_batch == 1 || is_padded(recipe),
        ..of_place(
            recipe,
            place,
            MemoryWork::of_rows(micro_batch, row_tokens, recipe.train.recompute, place.dtype),
        )
    }
}

/// The micro-batch of a training that needs most, found by walking its rows in the order in which it takes them.
pub fn work_of_rows(
    recipe: &Recipe,
    place: Place,
    rows: &Rows,
    shape: &ModelShape,
    lora: &LoraShape,
) -> Option<MemoryWork> {
    let train = &recipe.train;
    let longest = rows.rows.iter().map(|row| row.input_ids.len() as u64).max()?;
    let base = of_place(
        recipe,
        place,
        MemoryWork::of_rows(train.micro_batch as u64, longest, train.recompute, place.dtype),
    );
    let passes = usize::try_from(train.steps).unwrap_or(usize::MAX);
    let passes = passes.saturating_mul(train.accumulation).min(MOST_LOOKED_AT);
    let mut walk = (0..).flat_map(|epoch| epoch_order(rows.rows.len(), train.seed, epoch));
    let mut most: Option<(u64, MemoryWork)> = None;
    for _ in 0..passes {
        let lengths_of = walk.by_ref().take(train.micro_batch).map(|index| {
            let row = &rows.rows[index];
            (row.input_ids.len() as u64, row.supervised_tokens() as u64)
        });
        let batch: Vec<(u64, u64)> = lengths_of.collect();
        let work = of_batch(&base, &batch, is_padded(recipe));
        let larger = most.as_ref().is_none_or(|(_, most)| {
            work.tokens > most.tokens
                || work.supervised > most.supervised
                || work.squared_lengths > most.squared_lengths
        });
        if larger {
            let bytes = MemoryNeed::of(shape, lora, &work).step_bytes();
            if most.as_ref().is_none_or(|(most, _)| bytes > *most) {
                most = Some((bytes, work));
            }
        }
    }
    most.map(|(_, work)| work)
}

/// A micro-batch of rows with these lengths and supervised tokens.
fn of_batch(base: &MemoryWork, rows: &[(u64, u64)], padded: bool) -> MemoryWork {
    let longest = rows.iter().map(|(length, _)| *length).max().unwrap_or(0);
    let one_length = padded || rows.iter().all(|(length, _)| *length == longest);
    let length = |row: &(u64, u64)| if padded { longest } else { row.0 };
    MemoryWork {
        tokens: rows.iter().map(length).sum(),
        supervised: rows.iter().map(|(_, supervised)| *supervised).sum(),
        squared_lengths: rows.iter().map(|row| length(row).pow(2)).sum(),
        one_length,
        ..*base
    }
}

/// What does not depend on the rows.
fn of_place(recipe: &Recipe, place: Place, rows: MemoryWork) -> MemoryWork {
    let train = &recipe.train;
    let evaluate = &recipe.evaluate;
    let asked = recipe.data.source.as_deref() == Some(TEXT_TO_SQL) && evaluate.questions > 0;
    MemoryWork {
        rows_per_step: (train.micro_batch * train.accumulation) as u64,
        quantization: recipe.model.quantization,
        scores: match train.attention {
            Attention::Eager => Scores::Probabilities,
            Attention::Sdpa if place.plain_attention => Scores::ByTorch,
            Attention::Sdpa => Scores::NotKept,
        },
        on_processor: place.on_processor,
        trainer: trainer(place.engine),
        answers: asked.then_some(AnswerWork {
            batch: evaluate.batch_size.min(evaluate.questions) as u64,
            // A question is its row without the answer.
            prompt_tokens: rows.row_tokens,
            new_tokens: evaluate.max_new_tokens as u64,
        }),
        ..rows
    }
}

/// Whether rows are padded to the longest of their micro-batch.
fn is_padded(recipe: &Recipe) -> bool {
    !recipe.train.packing
}

#[cfg(test)]
mod tests {
    use tunesmith_data::Row;
    use tunesmith_measure::Projection;

    use super::*;

    fn row(length: usize, supervised: usize) -> Row {
        Row {
            input_ids: vec![1; length],
            supervised: (0..length).map(|at| at >= length - supervised).collect(),
        }
    }

    const PLACE: Place = Place {
        on_processor: true,
        dtype: DType::F32,
        plain_attention: false,
        engine: Engine::Native,
    };

    fn recipe(settings: &[&str]) -> Recipe {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Recipe::load("quickstart")
            .unwrap()
            .with_overrides(&settings)
            .unwrap()
    }

    fn of(recipe: &Recipe, rows: &[Row]) -> MemoryWork {
        let shape = ModelShape {
            hidden: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            intermediate: 128,
            vocab: 1000,
            tied: true,
            qkv_bias: false,
            qk_norm: false,
        };
        let lora = LoraShape {
            rank: 4,
            target_modules: Projection::ALL.to_vec(),
        };
        let rows = Rows { rows: rows.to_vec() };
        work_of_rows(recipe, PLACE, &rows, &shape, &lora).unwrap()
    }

    #[test]
    fn the_largest_micro_batch_of_the_whole_walk_counts() {
        // Whatever the order, one pass has the longest row, and each row comes once an epoch.
        let rows = [row(10, 2), row(50, 5), row(20, 20), row(12, 1)];
        let one = of(
            &recipe(&[
                "train.micro_batch=1",
                "train.accumulation=1",
                "train.steps=4",
                "optimizer.warmup_steps=0",
            ]),
            &rows,
        );
        assert_eq!((one.tokens, one.supervised, one.row_tokens), (50, 5, 50));
        let all = of(
            &recipe(&[
                "train.micro_batch=4",
                "train.accumulation=1",
                "train.steps=1",
                "optimizer.warmup_steps=0",
            ]),
            &rows,
        );
        assert_eq!((all.tokens, all.supervised), (92, 28));
        assert_eq!(all.squared_lengths, 100 + 2500 + 400 + 144);
        assert!(!all.one_length && all.answers.is_some());
        let padded = of(
            &recipe(&[
                "train.micro_batch=4",
                "train.accumulation=1",
                "train.packing=false",
            ]),
            &rows,
        );
        assert_eq!((padded.tokens, padded.squared_lengths), (200, 4 * 2500));
        assert!(padded.one_length);
    }

    #[test]
    fn before_the_rows_are_made_the_most_is_taken() {
        let work = work_at_most(&recipe(&["model.quantization=nf4"]), PLACE, 512, None);
        assert_eq!(
            (work.tokens, work.supervised, work.rows_per_step),
            (2048, 2048, 8)
        );
        assert_eq!(work.quantization.name(), "nf4");
        let eager = work_at_most(&recipe(&["train.attention=eager"]), PLACE, 512, None);
        assert_eq!(
            (eager.scores, work.scores),
            (Scores::Probabilities, Scores::NotKept)
        );
    }
}
