//! Which recipe is recommended for the card, by the memory that its formula asks for, and what the next bigger one
//! lacks.

use tunesmith_measure::{LoraShape, MemoryNeed, MemoryWork, Projection, Scores, fit::left_to_host};
use tunesmith_protocol::DType;

use super::{NextRecipe, Planner, RecipeOffer, Recommended};
use crate::knowledge::{RecipeKind, RecipeRow, Vendor};
use crate::progress::human_bytes;

/// Of a card's own memory this much is used: the rest is the desktop's, and what torch takes outside its allocator
/// (setup 3.1; numbers 1.3 saw 1.5 to 2 GiB of it near the limit).
const CARD_SHARE: f64 = 0.9;

impl Planner<'_> {
    pub(super) fn recommend(&self) -> Recommended {
        let target = self.device.target;
        let Some(card) = &self.device.card else {
            return self.recommend_cpu();
        };
        let Some(trainable) = &card.gpu.trainable else {
            return Recommended {
                recipe: None,
                why: "the card's memory could not be read, so what fits cannot be told".to_owned(),
                next: None,
                budget_bytes: None,
                budget_how: "unknown".to_owned(),
            };
        };
        let (budget, how) = if card.integrated {
            let budget = self.shared_budget(trainable.value);
            let how = if budget == trainable.value {
                trainable.how.clone()
            } else {
                "main memory less what the system keeps".to_owned()
            };
            (budget, how)
        } else {
            let budget = (trainable.value as f64 * CARD_SHARE) as u64;
            (
                budget,
                format!(
                    "nine tenths of {} ({})",
                    human_bytes(trainable.value),
                    trainable.how
                ),
            )
        };
        let plain_attention = target.vendor == Vendor::Amd && target.attention.is_empty();
        let mut suited: Vec<(&RecipeRow, MemoryNeed, bool)> = self
            .knowledge
            .recipes
            .iter()
            .filter(|row| match row.kind {
                RecipeKind::Cpu => false,
                RecipeKind::Discrete | RecipeKind::Any => true,
                RecipeKind::Unified => card.integrated,
            })
            .map(|row| {
                (
                    row,
                    need(row, target.dtype, plain_attention),
                    row.dtype == target.dtype,
                )
            })
            .collect();
        // A recipe in the card's own number format comes before one whose format must be changed.
        if suited.iter().any(|(_, _, own)| *own) {
            suited.retain(|(_, _, own)| *own);
        }
        suited.sort_by_key(|(row, need, _)| (row.parameters, need.total_bytes()));
        let fitting = suited
            .iter()
            .rev()
            .find(|(_, need, _)| need.total_bytes() <= budget);
        let bigger = self.next_bigger(fitting.map(|(row, ..)| *row), plain_attention);
        let next = bigger.map(|(row, need)| NextRecipe {
            id: row.id.clone(),
            model: row.model.to_string(),
            needs_bytes: need.total_bytes(),
            lacks: lacks(row, &need, budget, target.dtype),
        });
        let (recipe, why) = match fitting {
            Some((row, need, own)) => (
                Some(offer(
                    row,
                    need,
                    if *own {
                        vec![]
                    } else {
                        vec![format!("train.dtype={}", target.dtype.name())]
                    },
                )),
                format!(
                    "{}; it needs {} of {}",
                    row.why,
                    human_bytes(need.total_bytes()),
                    human_bytes(budget)
                ),
            ),
            None => (
                None,
                match suited.iter().map(|(_, need, _)| need.total_bytes()).min() {
                    Some(least) => format!(
                        "the smallest recipe for this card needs {}, and {} may be used: calibrate it, and train on the processor",
                        human_bytes(least),
                        human_bytes(budget)
                    ),
                    None => "there is no recipe for its number format".to_owned(),
                },
            ),
        };
        Recommended {
            recipe,
            why,
            next,
            budget_bytes: Some(budget),
            budget_how: how,
        }
    }

    fn recommend_cpu(&self) -> Recommended {
        let row = self
            .knowledge
            .recipes
            .iter()
            .find(|row| row.kind == RecipeKind::Cpu);
        let memory = self.system.machine.usable_memory_bytes();
        Recommended {
            recipe: row.map(|row| offer(row, &need(row, DType::F32, false), vec![])),
            why: row.map_or_else(
                || "there is no recipe for the processor".to_owned(),
                |row| row.why.to_string(),
            ),
            next: self.next_bigger(row, false).map(|(row, need)| NextRecipe {
                id: row.id.clone(),
                model: row.model.to_string(),
                needs_bytes: need.total_bytes(),
                lacks: format!("a card with {}: on a processor it takes hours", row.class),
            }),
            budget_bytes: memory,
            budget_how: "main memory that this process may use".to_owned(),
        }
    }

    /// The smallest recipe with a bigger model, of whatever kind, in the number format that it would be trained in.
    fn next_bigger(
        &self,
        than: Option<&RecipeRow>,
        plain_attention: bool,
    ) -> Option<(&RecipeRow, MemoryNeed)> {
        let parameters = than.map_or(0, |row| row.parameters);
        let own = self.device.target.dtype;
        let in_format = |row: &RecipeRow| if own == DType::F32 { own } else { row.dtype };
        self.knowledge
            .recipes
            .iter()
            .filter(|row| row.kind != RecipeKind::Cpu && row.parameters > parameters)
            .filter(|row| row.dtype != DType::F16 || own == DType::F16)
            .map(|row| (row, need(row, in_format(row), plain_attention)))
            .min_by_key(|(row, need)| (row.parameters, need.total_bytes()))
    }

    /// What recipes may use of main memory that graphics share: running out of it stops the whole machine, so the host
    /// keeps what the limit of a run leaves it too.
    fn shared_budget(&self, trainable: u64) -> u64 {
        self.system
            .machine
            .usable_memory_bytes()
            .map_or(trainable, |total| trainable.min(total - left_to_host(total)))
    }
}

fn need(row: &RecipeRow, dtype: DType, plain_attention: bool) -> MemoryNeed {
    let lora = LoraShape {
        rank: row.rank,
        target_modules: Projection::ALL.to_vec(),
    };
    let scores = if plain_attention || row.plain_attention {
        Scores::ByTorch
    } else {
        Scores::NotKept
    };
    let work = MemoryWork {
        scores,
        on_processor: row.kind == RecipeKind::Cpu,
        ..MemoryWork::of_rows(row.micro_batch, row.max_length, row.recompute, dtype)
    };
    MemoryNeed::of(&row.shape, &lora, &work)
}

fn offer(row: &RecipeRow, need: &MemoryNeed, settings: Vec<String>) -> RecipeOffer {
    RecipeOffer {
        id: row.id.clone(),
        class: row.class.to_string(),
        model: row.model.to_string(),
        model_source: row.model_source.clone(),
        license: row.license.to_string(),
        download_bytes: row.download_bytes,
        settings,
        needs: *need,
        needs_bytes: need.total_bytes(),
        unverified: row.unverified.clone(),
    }
}

fn lacks(row: &RecipeRow, need: &MemoryNeed, budget: u64, dtype: DType) -> String {
    let total = need.total_bytes();
    let mut missing = Vec::new();
    if total > budget {
        missing.push(format!(
            "{} of memory: it needs {} and {} may be used",
            human_bytes(total - budget),
            human_bytes(total),
            human_bytes(budget)
        ));
    }
    // f32 takes the place of any other format, at twice the memory.
    if row.dtype != dtype && dtype != DType::F32 {
        missing.push(format!("{} arithmetic", row.dtype.name()));
    }
    if missing.is_empty() {
        "nothing in memory; it is made for graphics that share main memory".to_owned()
    } else {
        missing.join(", and ")
    }
}
