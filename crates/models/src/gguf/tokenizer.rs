//! The tokenizer that a GGUF file describes: vocabulary and merges from its metadata, and around them the pre-tokenizer that
//! the name in `tokenizer.ggml.pre` stands for, as the model's own `tokenizer.json` has it.

use std::collections::BTreeMap;
use std::path::Path;

use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

use super::header::Value;
use crate::{ModelError, caught};

/// Words, numbers of up to three digits, punctuation and white space: how Llama 3 cuts text before merging.
const LLAMA3_PIECES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with single digits: Qwen2 and Qwen3.
const QWEN2_PIECES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Token types of GGUF that become added tokens.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

#[derive(Clone, Copy, PartialEq)]
enum Pre {
    Smollm,
    Llama3,
    Qwen2,
}

/// Builds the tokenizer; `path` is the file, for errors.
pub(super) fn build(metadata: &BTreeMap<String, Value>, path: &Path) -> Result<Tokenizer, ModelError> {
    let text = |key: &str| match metadata.get(key) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    let unsupported = |what: String| ModelError::Unsupported {
        path: path.to_owned(),
        what,
        supported: "a gpt2 tokenizer with the pre-tokenizer smollm, llama-bpe or qwen2".to_owned(),
    };
    let model = text("tokenizer.ggml.model");
    if model != "gpt2" {
        return Err(unsupported(format!("the tokenizer model {model:?}")));
    }
    let pre = match text("tokenizer.ggml.pre") {
        "smollm" => Pre::Smollm,
        "llama-bpe" | "llama3" | "llama-v3" => Pre::Llama3,
        "qwen2" => Pre::Qwen2,
        other => return Err(unsupported(format!("the pre-tokenizer {other:?}"))),
    };
    let assembled = caught(|| assemble(metadata, pre)).and_then(|built| built);
    assembled.map_err(|reason| ModelError::Tokenizer {
        path: path.to_owned(),
        reason,
    })
}

fn assemble(metadata: &BTreeMap<String, Value>, pre: Pre) -> Result<Tokenizer, String> {
    let tokens = texts(metadata, "tokenizer.ggml.tokens")?;
    let mut vocabulary = Vocab::default();
    for (id, token) in tokens.iter().enumerate() {
        if vocabulary.insert((*token).to_owned(), id as u32).is_some() {
            return Err(format!("the token {token:?} stands in its vocabulary twice"));
        }
    }
    let merges = texts(metadata, "tokenizer.ggml.merges")?
        .into_iter()
        .map(|merge| {
            let (left, right) = merge
                .split_once(' ')
                .ok_or_else(|| format!("the merge {merge:?} is not a pair"))?;
            Ok((left.to_owned(), right.to_owned()))
        })
        .collect::<Result<Merges, String>>()?;

    let words = |error: tokenizers::Error| error.to_string();
    let bpe = BPE::builder()
        .vocab_and_merges(vocabulary, merges)
        .ignore_merges(pre == Pre::Llama3)
        .build()
        .map_err(words)?;
    let mut tokenizer = Tokenizer::new(bpe);
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer(pre)?));
    if pre == Pre::Qwen2 {
        tokenizer.with_normalizer(Some(NFC)).map_err(words)?;
    }
    tokenizer.with_decoder(Some(ByteLevel::new(true, true, true)));

    // All of them are in the vocabulary, so they keep their ids.
    let added = token_types(metadata, tokens.len())?
        .into_iter()
        .zip(&tokens)
        .filter_map(|(kind, token)| match kind {
            CONTROL => Some(AddedToken::from(*token, true).normalized(false)),
            USER_DEFINED => Some(AddedToken::from(*token, false).normalized(false)),
            _ => None,
        });
    let (special, plain): (Vec<_>, Vec<_>) = added.partition(|token| token.special);
    tokenizer.add_special_tokens(special).map_err(words)?;
    tokenizer.add_tokens(plain).map_err(words)?;
    Ok(tokenizer)
}

fn pre_tokenizer(pre: Pre) -> Result<PreTokenizerWrapper, String> {
    let pieces = |regex: &str| {
        Split::new(
            SplitPattern::Regex(regex.to_owned()),
            SplitDelimiterBehavior::Isolated,
            false,
        )
        .map_err(|error| error.to_string())
    };
    let steps: [PreTokenizerWrapper; 2] = match pre {
        Pre::Smollm => [Digits::new(true).into(), ByteLevel::new(false, true, true).into()],
        Pre::Llama3 => [
            pieces(LLAMA3_PIECES)?.into(),
            ByteLevel::new(false, true, false).into(),
        ],
        Pre::Qwen2 => [
            pieces(QWEN2_PIECES)?.into(),
            ByteLevel::new(false, true, false).into(),
        ],
    };
    Ok(Sequence::new(steps.into()).into())
}

fn texts<'a>(metadata: &'a BTreeMap<String, Value>, key: &str) -> Result<Vec<&'a str>, String> {
    let Some(Value::List(values)) = metadata.get(key) else {
        return Err(format!("{key} is missing"));
    };
    values
        .iter()
        .map(|value| match value {
            Value::Text(text) => Ok(text.as_str()),
            other => Err(format!("{key} holds {other:?}, which is not a text")),
        })
        .collect()
}

fn token_types(metadata: &BTreeMap<String, Value>, tokens: usize) -> Result<Vec<i64>, String> {
    let Some(Value::List(values)) = metadata.get("tokenizer.ggml.token_type") else {
        return Err("tokenizer.ggml.token_type is missing, so its special tokens are not known".to_owned());
    };
    if values.len() != tokens {
        return Err(format!("it has {tokens} tokens but {} token types", values.len()));
    }
    values
        .iter()
        .map(|value| match value {
            Value::Signed(kind) => Ok(*kind),
            Value::Unsigned(kind) => Ok(*kind as i64),
            other => Err(format!("a token type is {other:?}")),
        })
        .collect()
}
