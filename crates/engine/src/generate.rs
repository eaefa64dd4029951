//! Answers: prompts are read packed, then decoded together with a key-value cache.
//!
//! Prompts stand right-aligned in the cache, so that every row writes its next key at the same column; a mask
//! hides the columns before a row begins. Finished rows leave the batch once half of it is done.

use std::collections::HashMap;
use std::time::Instant;

use tch::{Device, Kind, Tensor};
use tunesmith_data::Row;
use tunesmith_models::Pieces;
use tunesmith_protocol::{Answer, AnswerJob, AnswerStats, Event, Finish, Outcome, Piece, Prompt, Sampling};

use crate::batch::{Packed, rotary};
use crate::error::JobError;
use crate::logits::{Opened, check_prompts, read_prompts};
use crate::model::Decoder;
use crate::out::{Stop, emit, progress};

/// How to choose and when to end.
pub(crate) struct Rules<'a> {
    pub(crate) stop_tokens: &'a [u32],
    pub(crate) max_new_tokens: usize,
    pub(crate) sampling: Option<&'a Sampling>,
}

/// What one prompt came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    /// Index of the prompt.
    pub(crate) prompt: usize,
    /// Tokens, the end token included.
    pub(crate) tokens: Vec<u32>,
    pub(crate) finish: Finish,
}

/// Keys and values of one layer, `[rows, kv_heads, capacity, head_dim]`.
struct LayerCache {
    k: Tensor,
    v: Tensor,
}

/// Rows that are being decoded.
struct Decoding {
    caches: Vec<LayerCache>,
    /// f32 `[rows, 1, 1, capacity]` in the compute format: 0 where a row has a token, −∞ before it begins.
    mask: Tensor,
    /// f32 `[rows]`: position of the next token.
    positions: Tensor,
    /// Columns in use.
    width: i64,
    /// Index of each row's prompt.
    prompts: Vec<usize>,
}

impl Decoding {
    /// Reads the prompts and gives the logits of the token after each, f32 `[rows, vocabulary]`.
    fn prefill(decoder: &Decoder, prompts: &[(usize, &[u32])], capacity_after: usize) -> (Self, Tensor) {
        let rows: Vec<Row> = prompts
            .iter()
            .map(|(_, ids)| Row {
                input_ids: ids.to_vec(),
                supervised: vec![false; ids.len()],
            })
            .collect();
        let batch = Packed::new(
            &rows.iter().collect::<Vec<_>>(),
            &decoder.inverse_frequencies,
            decoder.kind,
        );
        let spans = batch.spans();
        let width = spans.iter().map(|&(_, length)| length).max().unwrap_or(0);
        let capacity = width + capacity_after as i64;
        let count = rows.len() as i64;
        let options = (decoder.kind, decoder.device);
        let (kv_heads, head_dim) = (decoder.config.kv_heads as i64, decoder.config.head_dim as i64);
        let mask = Tensor::zeros([count, 1, 1, capacity], options);
        for (row, &(_, length)) in spans.iter().enumerate() {
            let _ = mask
                .select(0, row as i64)
                .narrow(-1, 0, width - length)
                .fill_(f64::NEG_INFINITY);
        }
        let mut caches = Vec::with_capacity(decoder.layers.len());
        let mut x = decoder.embed(&batch.input_ids);
        for layer in &decoder.layers {
            let weights = layer.unpacked();
            let (normed, _) = layer.input_norm.forward(&x);
            let qkv = layer.qkv(&weights, &normed, &batch.cos, &batch.sin);
            let cache = LayerCache {
                k: Tensor::zeros([count, kv_heads, capacity, head_dim], options),
                v: Tensor::zeros([count, kv_heads, capacity, head_dim], options),
            };
            for (row, &(start, length)) in spans.iter().enumerate() {
                for (total, part) in [(&cache.k, &qkv.k), (&cache.v, &qkv.v)] {
                    let part = part.narrow(0, start, length).transpose(0, 1);
                    total
                        .select(0, row as i64)
                        .narrow(1, width - length, length)
                        .copy_(&part);
                }
            }
            x = layer.after_attention(&weights, &x, &layer.attend_only(&qkv, &batch.groups));
            caches.push(cache);
        }
        let last: Vec<i64> = spans.iter().map(|(start, length)| start + length - 1).collect();
        let x = x.index_select(0, &Tensor::from_slice(&last).to_device(decoder.device));
        let positions: Vec<f32> = spans.iter().map(|&(_, length)| length as f32).collect();
        let decoding = Self {
            caches,
            mask,
            positions: Tensor::from_slice(&positions).to_device(decoder.device),
            width,
            prompts: prompts.iter().map(|(index, _)| *index).collect(),
        };
        (decoding, head_logits(decoder, &x))
    }

    /// Takes one token per row, i64 `[rows]`, and gives the logits of the next.
    fn step(&mut self, decoder: &Decoder, ids: &Tensor) -> Tensor {
        let (cos, sin) = rotary(&self.positions, &decoder.inverse_frequencies, decoder.kind);
        let _ = self.positions.g_add_scalar_(1.0);
        let at = self.width;
        self.width += 1;
        let mask = self.mask.narrow(-1, 0, self.width);
        let rows = ids.size()[0];
        let mut x = decoder.embed(ids);
        for (layer, cache) in decoder.layers.iter().zip(&self.caches) {
            let weights = layer.unpacked();
            let (normed, _) = layer.input_norm.forward(&x);
            let qkv = layer.qkv(&weights, &normed, &cos, &sin);
            cache.k.select(2, at).copy_(&qkv.k);
            cache.v.select(2, at).copy_(&qkv.v);
            let attended = Tensor::scaled_dot_product_attention(
                &qkv.q.unsqueeze(2),
                &cache.k.narrow(2, 0, self.width),
                &cache.v.narrow(2, 0, self.width),
                Some(&mask),
                0.0,
                false,
                None,
                layer.heads != layer.kv_heads,
            );
            x = layer.after_attention(&weights, &x, &attended.reshape([rows, -1]));
        }
        head_logits(decoder, &x)
    }

    /// Keeps the given rows only.
    fn keep(&mut self, rows: &[i64]) {
        let index = Tensor::from_slice(rows).to_device(self.mask.device());
        for cache in &mut self.caches {
            cache.k = cache.k.index_select(0, &index);
            cache.v = cache.v.index_select(0, &index);
        }
        self.mask = self.mask.index_select(0, &index);
        self.positions = self.positions.index_select(0, &index);
        self.prompts = rows.iter().map(|&row| self.prompts[row as usize]).collect();
    }
}

/// x `[rows, hidden]` → f32 `[rows, vocabulary]`.
fn head_logits(decoder: &Decoder, x: &Tensor) -> Tensor {
    decoder
        .final_norm
        .forward(x)
        .0
        .matmul(&decoder.head.tr())
        .to_kind(Kind::Float)
}

/// logits f32 `[rows, vocabulary]` → i64 `[rows]`.
fn choose(logits: &Tensor, sampling: Option<&Sampling>) -> Tensor {
    let Some(sampling) = sampling else {
        return logits.argmax(-1, false);
    };
    let mut logits = logits / sampling.temperature;
    if sampling.top_k > 0 {
        let k = sampling.top_k.min(logits.size()[1]);
        let smallest = logits.topk(k, -1, true, true).0.narrow(-1, k - 1, 1);
        logits = logits.masked_fill(&logits.lt_tensor(&smallest), f64::NEG_INFINITY);
    }
    let (sorted, order) = logits.softmax(-1, Kind::Float).sort(-1, true);
    // A token stays while the ones before it have not reached top_p; the first always stays.
    let before = sorted.cumsum(-1, Kind::Float) - &sorted;
    let kept = sorted.masked_fill(&before.ge(sampling.top_p.min(1.0)), 0.0);
    let drawn = kept.multinomial(1, false);
    order.gather(-1, &drawn, false).squeeze_dim(-1)
}

/// Decodes prompts together. `prompts` are `(index, tokens)`; a wish to stop ends it between tokens. `on_token` sees the
/// index of the prompt with each token as it comes, but for end tokens.
pub(crate) fn generate(
    decoder: &Decoder,
    prompts: &[(usize, &[u32])],
    rules: &Rules<'_>,
    stop: &Stop,
    seconds: &mut (f64, f64),
    on_token: &mut dyn FnMut(usize, u32),
) -> Result<Vec<Generated>, JobError> {
    let started = Instant::now();
    let (mut decoding, mut logits) = Decoding::prefill(decoder, prompts, rules.max_new_tokens);
    let mut chosen = choose(&logits, rules.sampling);
    let mut tokens: Vec<u32> = to_host(&chosen)?;
    seconds.0 += started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut done = Vec::new();
    let mut texts: Vec<Vec<u32>> = vec![vec![]; prompts.len()];
    // A row is live until it ends; ended rows go on being computed until the batch is compacted.
    let mut live: Vec<bool> = vec![true; prompts.len()];
    loop {
        for (row, &token) in tokens
            .iter()
            .enumerate()
            .filter(|(row, _)| live[*row])
            .collect::<Vec<_>>()
        {
            texts[row].push(token);
            let ended = rules.stop_tokens.contains(&token);
            if !ended {
                on_token(decoding.prompts[row], token);
            }
            if ended || texts[row].len() == rules.max_new_tokens {
                live[row] = false;
                done.push(Generated {
                    prompt: decoding.prompts[row],
                    tokens: std::mem::take(&mut texts[row]),
                    finish: if ended { Finish::Stop } else { Finish::Length },
                });
            }
        }
        let alive: Vec<i64> = (0..live.len() as i64).filter(|&row| live[row as usize]).collect();
        if alive.is_empty() {
            break;
        }
        if stop.requested().is_some() {
            return Err(JobError::Stopped);
        }
        if alive.len() * 2 <= live.len() {
            decoding.keep(&alive);
            chosen = chosen.index_select(0, &Tensor::from_slice(&alive).to_device(decoder.device));
            texts = alive
                .iter()
                .map(|&row| std::mem::take(&mut texts[row as usize]))
                .collect();
            live = vec![true; alive.len()];
        }
        logits = decoding.step(decoder, &chosen);
        chosen = choose(&logits, rules.sampling);
        tokens = to_host(&chosen)?;
    }
    seconds.1 += started.elapsed().as_secs_f64();
    Ok(done)
}

fn to_host(ids: &Tensor) -> Result<Vec<u32>, JobError> {
    let ids = Vec::<i64>::try_from(ids.to_device(Device::Cpu))?;
    Ok(ids.into_iter().map(|id| id as u32).collect())
}

/// Answers every prompt of the job, longest prompts first so that a batch that is too large fails at once.
pub(crate) fn answer(job: &AnswerJob, device: Device, stop: &Stop) -> Result<Outcome, JobError> {
    let _guard = tch::no_grad_guard();
    if job.max_new_tokens == 0 || job.batch_size == 0 {
        return Err(JobError::Request(
            "`max_new_tokens` and `batch_size` must be at least 1".into(),
        ));
    }
    if let Some(sampling) = &job.sampling {
        if !(sampling.temperature > 0.0 && sampling.top_p > 0.0) {
            return Err(JobError::Request(
                "`temperature` and `top_p` must be above 0; leave sampling out for greedy".into(),
            ));
        }
        tch::manual_seed(sampling.seed as i64);
    }
    let prompts = read_prompts(&job.prompts)?;
    let Opened {
        model,
        decoder,
        other_base,
    } = Opened::new(
        &job.model,
        job.adapter.as_deref(),
        device,
        (job.dtype, job.quantization),
    )?;
    check_prompts(&prompts, &decoder)?;
    check_lengths(&prompts, job.max_new_tokens, decoder.config.context_length)?;
    let tokenizer = model.tokenizer()?;
    let mut order: Vec<usize> = (0..prompts.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(prompts[index].input_ids.len()));
    let rules = Rules {
        stop_tokens: &job.stop_tokens,
        max_new_tokens: job.max_new_tokens,
        sampling: job.sampling.as_ref(),
    };
    let mut stats = AnswerStats {
        answers: 0,
        prompt_tokens: 0,
        generated_tokens: 0,
        prefill_secs: 0.0,
        decode_secs: 0.0,
        weight_bytes: Some(decoder.weight_bytes()),
        other_base,
    };
    let mut seconds = (0.0, 0.0);
    let started = Instant::now();
    for batch in order.chunks(job.batch_size) {
        let inputs: Vec<(usize, &[u32])> = batch
            .iter()
            .map(|&index| (index, prompts[index].input_ids.as_slice()))
            .collect();
        let mut streams: HashMap<usize, Pieces<'_>> = HashMap::new();
        let mut on_token = |index: usize, token: u32| {
            if job.stream {
                let pieces = streams.entry(index).or_insert_with(|| Pieces::new(&tokenizer));
                emit_piece(&prompts[index], pieces.push(token));
            }
        };
        for generated in generate(&decoder, &inputs, &rules, stop, &mut seconds, &mut on_token)? {
            let text_tokens = match generated.finish {
                Finish::Stop => &generated.tokens[..generated.tokens.len() - 1],
                Finish::Length => &generated.tokens[..],
            };
            let text = tokenizer.decode(text_tokens, true).map_err(|error| {
                JobError::Request(format!("the answer's tokens cannot be decoded: {error}"))
            })?;
            let prompt = &prompts[generated.prompt];
            if let Some(pieces) = streams.remove(&generated.prompt) {
                emit_piece(prompt, pieces.finish(&text));
            }
            stats.answers += 1;
            stats.prompt_tokens += prompt.input_ids.len() as u64;
            stats.generated_tokens += generated.tokens.len() as u64;
            emit(&Event::Answer(Answer {
                id: prompt.id.clone(),
                text,
                tokens: generated.tokens.len() as u64,
                finish: generated.finish,
            }));
        }
        progress("answer", stats.answers, prompts.len() as u64, "prompts", started);
    }
    (stats.prefill_secs, stats.decode_secs) = seconds;
    Ok(Outcome::Answer(stats))
}

fn emit_piece(prompt: &Prompt, text: Option<String>) {
    if let Some(text) = text {
        let id = prompt.id.clone();
        emit(&Event::Piece(Piece { id, text }));
    }
}

fn check_lengths(prompts: &[Prompt], max_new_tokens: usize, context: usize) -> Result<(), JobError> {
    match prompts
        .iter()
        .find(|prompt| prompt.input_ids.len() + max_new_tokens > context)
    {
        Some(prompt) => Err(JobError::Request(format!(
            "prompt `{}` has {} tokens; with {max_new_tokens} new ones that is more than the {context} the model reads",
            prompt.id,
            prompt.input_ids.len()
        ))),
        None => Ok(()),
    }
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use std::path::Path;

    use serde::Deserialize;
    use tunesmith_models::Model;
    use tunesmith_protocol::{DType, Quantization};

    use super::*;
    use crate::adapter::Adapter;

    #[derive(Deserialize)]
    struct Expected {
        generation: ExpectedGeneration,
    }

    #[derive(Deserialize)]
    struct ExpectedGeneration {
        prompts: Vec<Vec<u32>>,
        base: ExpectedTokens,
        adapter: ExpectedTokens,
    }

    #[derive(Deserialize)]
    struct ExpectedTokens {
        tokens: Vec<Vec<u32>>,
    }

    fn fixture(model: &str) -> (Decoder, ExpectedGeneration, Adapter) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(model);
        let decoder = Decoder::load(
            &Model::open(&dir).unwrap(),
            Device::Cpu,
            DType::F32,
            Quantization::None,
        )
        .unwrap();
        let text = std::fs::read_to_string(dir.join("expected.json")).unwrap();
        let expected: Expected = serde_json::from_str(&text).unwrap();
        let adapter = Adapter::load(
            &dir.join("adapter_start"),
            &decoder.config,
            Device::Cpu,
            Kind::Float,
            false,
        )
        .unwrap();
        (decoder, expected.generation, adapter)
    }

    fn run(decoder: &Decoder, prompts: &[Vec<u32>], rules: &Rules<'_>) -> Vec<Generated> {
        let inputs: Vec<(usize, &[u32])> = prompts.iter().map(Vec::as_slice).enumerate().collect();
        let mut heard: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
        let mut on_token = |prompt: usize, token: u32| heard[prompt].push(token);
        let seconds = &mut (0.0, 0.0);
        let stop = Stop::default();
        let mut got =
            tch::no_grad(|| generate(decoder, &inputs, rules, &stop, seconds, &mut on_token)).unwrap();
        got.sort_by_key(|generated| generated.prompt);
        // Whoever listens hears each prompt's own tokens, and no end token.
        for (generated, heard) in got.iter().zip(&heard) {
            let ended = usize::from(generated.finish == Finish::Stop);
            assert_eq!(generated.tokens[..generated.tokens.len() - ended], heard[..]);
        }
        got
    }

    fn greedy(stop_tokens: &[u32]) -> Rules<'_> {
        Rules {
            stop_tokens,
            max_new_tokens: 12,
            sampling: None,
        }
    }

    #[test]
    fn greedy_answers_to_prompts_of_different_length_are_those_of_transformers() {
        for model in ["llama", "qwen2", "qwen3"] {
            let (mut decoder, expected, adapter) = fixture(model);
            let tokens = |got: Vec<Generated>| got.into_iter().map(|one| one.tokens).collect::<Vec<_>>();
            assert_eq!(
                tokens(run(&decoder, &expected.prompts, &greedy(&[]))),
                expected.base.tokens,
                "{model}"
            );
            decoder.attach(&adapter);
            assert_eq!(
                tokens(run(&decoder, &expected.prompts, &greedy(&[]))),
                expected.adapter.tokens,
                "{model}"
            );
        }
    }

    #[test]
    fn an_answer_ends_at_its_end_token_and_the_others_go_on_unchanged() {
        let (decoder, expected, _) = fixture("llama");
        // Five prompts, of which some end early: the batch is compacted on the way.
        let prompts: Vec<Vec<u32>> = (0..5).map(|index| expected.prompts[index % 2].clone()).collect();
        let end = expected.base.tokens[0][2];
        let got = run(&decoder, &prompts, &greedy(&[end]));
        for (index, generated) in got.iter().enumerate() {
            let full = &expected.base.tokens[index % 2];
            let length = full
                .iter()
                .position(|&token| token == end)
                .map_or(full.len(), |at| at + 1);
            assert_eq!(generated.tokens, full[..length], "{index}");
            let finish = if length < full.len() {
                Finish::Stop
            } else {
                Finish::Length
            };
            assert_eq!(generated.finish, finish);
        }
    }

    #[test]
    fn sampling_repeats_with_its_seed_and_top_k_of_one_is_greedy() {
        let (decoder, expected, _) = fixture("qwen2");
        let sample = |seed: u64, top_k: i64| {
            tch::manual_seed(seed as i64);
            let sampling = Sampling {
                temperature: 1.5,
                top_p: 0.95,
                top_k,
                seed,
            };
            let rules = Rules {
                sampling: Some(&sampling),
                ..greedy(&[])
            };
            run(&decoder, &expected.prompts, &rules)
                .into_iter()
                .map(|one| one.tokens)
                .collect::<Vec<_>>()
        };
        assert_eq!(sample(1, 0), sample(1, 0));
        assert_ne!(sample(1, 0), sample(2, 0));
        assert_eq!(sample(3, 1), expected.base.tokens);
    }
}
