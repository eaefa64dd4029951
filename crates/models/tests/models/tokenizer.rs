//! Tokenizers built from GGUF metadata: each pre-tokenizer cuts text its own way.

use tempfile::TempDir;
use tokenizers::Tokenizer;
use tunesmith_models::{Architecture, Model, ModelConfig, ModelError};

use crate::tiny::{self, GgufWriter};

/// Merges that show where text was cut: a merge over a cut never happens.
const MERGES: [&str; 10] = [
    "1 2", "12 3", "Ġ 1", "' L", "'L L", "a b", "Ġ ab", "Ċ Ċ", ". Ċ", "e Ìģ",
];
/// Byte-level letters for `Ì` and `ģ` are the two bytes of the combining acute accent.
const MERGED: [&str; 10] = ["12", "123", "Ġ1", "'L", "'LL", "ab", "Ġab", "ĊĊ", ".Ċ", "eÌģ"];

fn letters() -> Vec<String> {
    let mut letters: Vec<String> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
        .into_iter()
        .map(String::from)
        .collect();
    letters.sort();
    letters
}

fn empty() -> GgufWriter {
    GgufWriter::model(&ModelConfig {
        vocab_size: 512,
        ..tiny::config(Architecture::Llama)
    })
}

fn file(model: &str, pre: &str) -> GgufWriter {
    let mut file = empty();
    let letters = letters();
    let mut tokens: Vec<&str> = vec!["<|end|>", "<tool>"];
    let mut kinds = vec![3, 4];
    tokens.extend(letters.iter().map(String::as_str));
    // The accent as one token of two bytes comes before the merge that uses it.
    tokens.push("Ìģ");
    tokens.extend(MERGED);
    kinds.resize(tokens.len(), 1);
    file.text("tokenizer.ggml.model", model);
    file.text("tokenizer.ggml.pre", pre);
    file.texts("tokenizer.ggml.tokens", tokens);
    file.i32s("tokenizer.ggml.token_type", &kinds);
    file.texts("tokenizer.ggml.merges", std::iter::once("Ì ģ").chain(MERGES));
    file
}

fn build(file: &GgufWriter) -> Result<Tokenizer, ModelError> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, file.bytes()).unwrap();
    Model::open(&path).unwrap().tokenizer()
}

fn tokens(pre: &str, text: &str) -> Vec<String> {
    build(&file("gpt2", pre))
        .unwrap()
        .encode(text, false)
        .unwrap()
        .get_tokens()
        .to_vec()
}

#[test]
fn digits_are_cut_as_each_family_cuts_them() {
    assert_eq!(tokens("smollm", "1234"), ["1", "2", "3", "4"]);
    assert_eq!(tokens("llama-bpe", "1234"), ["123", "4"]);
    assert_eq!(tokens("qwen2", "1234"), ["1", "2", "3", "4"]);
    assert_eq!(tokens("smollm", "ab 12"), ["ab", "Ġ", "1", "2"]);
    assert_eq!(tokens("llama-bpe", "ab 12"), ["ab", "Ġ", "12"]);
}

#[test]
fn contractions_line_ends_and_accents_are_cut_as_each_family_cuts_them() {
    assert_eq!(
        tokens("smollm", "'LL"),
        ["'", "L", "L"],
        "GPT-2 knows small letters only"
    );
    assert_eq!(tokens("llama-bpe", "'LL"), ["'LL"]);
    assert_eq!(tokens("qwen2", "'LL"), ["'LL"]);
    assert_eq!(tokens("smollm", ".\n"), [".", "Ċ"]);
    assert_eq!(tokens("llama3", ".\n"), [".Ċ"]);
    assert_eq!(tokens("qwen2", ".\n"), [".Ċ"]);
    assert_eq!(tokens("qwen2", "e\u{301}"), ["Ã", "©"], "composed first");
    assert_eq!(
        tokens("llama-v3", "e\u{301}"),
        ["e", "Ìģ"],
        "cut before the accent"
    );
}

#[test]
fn control_tokens_are_special_and_user_defined_ones_are_not() {
    let tokenizer = build(&file("gpt2", "smollm")).unwrap();
    let ids = tokenizer.encode("ab<|end|><tool> ab", true).unwrap();
    assert_eq!(ids.get_tokens(), ["ab", "<|end|>", "<tool>", "Ġab"]);
    assert_eq!(ids.get_ids()[1..3], [0, 1]);
    assert_eq!(tokenizer.decode(ids.get_ids(), true).unwrap(), "ab<tool> ab");
    assert_eq!(
        tokenizer.decode(ids.get_ids(), false).unwrap(),
        "ab<|end|><tool> ab"
    );
}

#[test]
fn any_text_comes_back_unchanged() {
    for pre in ["smollm", "llama-bpe", "qwen2"] {
        let tokenizer = build(&file("gpt2", pre)).unwrap();
        for text in [
            "",
            " ",
            "  a\t\n\n b  ",
            "naïve 東京 🙂",
            "SELECT 'x''y' -- 1.5\r\n",
            "\u{0}\u{7f}",
        ] {
            let ids = tokenizer.encode(text, false).unwrap();
            assert_eq!(tokenizer.decode(ids.get_ids(), false).unwrap(), text, "{pre}");
        }
    }
}

#[test]
fn other_tokenizers_are_refused_by_name() {
    for (model, pre, name) in [
        ("llama", "smollm", "\"llama\""),
        ("gpt2", "deepseek-coder", "\"deepseek-coder\""),
        ("gpt2", "", "\"\""),
    ] {
        let error = build(&file(model, pre)).unwrap_err();
        assert_eq!(error.code(), "model_unsupported");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn broken_vocabularies_are_told() {
    type Change = fn(&mut GgufWriter);
    let cases: [(Change, &str); 5] = [
        (|file| file.texts("tokenizer.ggml.tokens", ["a", "a"]), "twice"),
        (|file| file.i32s("tokenizer.ggml.tokens", &[1]), "not a text"),
        (
            |file| {
                file.texts("tokenizer.ggml.tokens", ["a"]);
                file.texts("tokenizer.ggml.merges", ["ab"]);
            },
            "not a pair",
        ),
        (
            |file| {
                file.texts("tokenizer.ggml.tokens", ["a"]);
                file.texts("tokenizer.ggml.merges", ["a b"]);
            },
            "vocabulary",
        ),
        (
            |file| {
                file.texts("tokenizer.ggml.tokens", ["a", "b"]);
                file.texts("tokenizer.ggml.merges", []);
                file.i32s("tokenizer.ggml.token_type", &[1]);
            },
            "2 tokens but 1 token types",
        ),
    ];
    for (change, words) in cases {
        let mut file = empty();
        file.text("tokenizer.ggml.model", "gpt2");
        file.text("tokenizer.ggml.pre", "smollm");
        change(&mut file);
        let error = build(&file).unwrap_err();
        assert_eq!(error.code(), "tokenizer");
        assert!(error.to_string().contains(words), "{error} does not say {words}");
    }
}

#[test]
fn a_vocabulary_larger_than_the_embedding_is_refused() {
    let mut file = file("gpt2", "smollm");
    file.tensor("token_embd.weight", &[16, 64], tiny::F32, vec![0; 4096]);
    let error = build(&file).unwrap_err();
    assert!(
        error.to_string().contains("but the embedding has only 16 rows"),
        "{error}"
    );
}
