//! What a row must hold, shown with a small tokenizer and templates written for the purpose.

use super::*;
use crate::Document;
use serde_json::json;
use tokenizers::TruncationParams;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const CHATML: &str = "{% for message in messages %}{{ '<s>' + message['role'] + '\n' + message['content'] + '</s>' \
                      + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}";
const VOCABULARY: usize = 256 + 1 + 2;

/// Bytes, one merge (two line breaks) and the two special tokens of [`CHATML`].
fn tokenizer() -> Tokenizer {
    tokenizer_with(&["<s>", "</s>"])
}

/// Bytes, one merge (two line breaks) and special tokens, the first of them with the id 257.
fn tokenizer_with(special: &[&str]) -> Tokenizer {
    let mut vocabulary: Vec<String> = ByteLevel::alphabet().iter().map(char::to_string).collect();
    vocabulary.sort_unstable();
    vocabulary.push("ĊĊ".to_owned());
    let vocabulary: serde_json::Map<_, _> = vocabulary
        .into_iter()
        .enumerate()
        .map(|(id, text)| (text, id.into()))
        .collect();
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let special: Vec<_> = special
        .iter()
        .zip(257..)
        .map(|(text, id)| {
            json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": special,
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [["Ċ", "Ċ"]]}
    });
    Tokenizer::from_bytes(file.to_string()).unwrap()
}

fn encoder_with(template: &str, context: usize) -> Encoder {
    let tokenizer = tokenizer();
    let end = tokenizer.token_to_id("</s>").unwrap();
    let template = ChatTemplate::new(template, Some("<s>"), Some("</s>")).unwrap();
    Encoder::from_parts(
        tokenizer,
        Some(template),
        &[end],
        context,
        VOCABULARY,
        Path::new("model"),
    )
}

pub(crate) fn encoder() -> Encoder {
    encoder_with(CHATML, 1000)
}

fn example(messages: &[(&str, &str)]) -> Example {
    let message = |(role, content): &(&str, &str)| Message {
        role: (*role).into(),
        content: (*content).into(),
    };
    Example {
        id: "e1".to_owned(),
        messages: messages.iter().map(message).collect(),
    }
}

fn marked(encoder: &Encoder, example: &Example) -> String {
    let row = encoder.row(example).unwrap();
    encoder.sample("", &row).unwrap().to_string()
}

fn code(template: &str, messages: &[(&str, &str)]) -> &'static str {
    encoder_with(template, 1000)
        .row(&example(messages))
        .unwrap_err()
        .code()
}

#[test]
fn the_answer_and_its_end_token_are_supervised_and_nothing_else() {
    let example = example(&[("system", "s"), ("user", "q"), ("assistant", "a b")]);
    assert_eq!(
        marked(&encoder(), &example),
        "<s>system\ns</s>\n<s>user\nq</s>\n<s>assistant\n⟦a b</s>⟧",
        "the line break after the last end token is cut off"
    );
}

#[test]
fn every_answer_of_a_conversation_is_supervised() {
    let example = example(&[
        ("user", "1"),
        ("assistant", "one"),
        ("user", "2"),
        ("assistant", "two"),
    ]);
    assert_eq!(
        marked(&encoder(), &example),
        "<s>user\n1</s>\n<s>assistant\n⟦one</s>⟧\n<s>user\n2</s>\n<s>assistant\n⟦two</s>⟧"
    );
}

#[test]
fn training_sees_the_prompt_that_generation_sees() {
    let encoder = encoder();
    // The answer begins with a line break, which one text would join to the line break before it.
    for answer in ["a", "\na", " a"] {
        let example = example(&[("user", "q"), ("assistant", answer)]);
        let row = encoder.row(&example).unwrap();
        let prompt = encoder.prompt(&example.messages[..1]).unwrap();
        assert!(row.input_ids.starts_with(&prompt));
        let supervised_from = row.supervised.iter().position(|mark| *mark).unwrap();
        assert_eq!(supervised_from, prompt.len());
        assert_eq!(
            encoder.decode(&row.input_ids[prompt.len()..]).unwrap(),
            format!("{answer}</s>")
        );
        assert_eq!(
            encoder.encode(&example).unwrap().boundary_differs,
            answer.starts_with('\n')
        );
    }
}

#[test]
fn text_that_the_tokenizer_leaves_out_is_counted() {
    let mut file: serde_json::Value = serde_json::from_str(&tokenizer().to_string(false).unwrap()).unwrap();
    file["model"]["vocab"]
        .as_object_mut()
        .unwrap()
        .remove("z")
        .unwrap();
    let template = ChatTemplate::new(CHATML, Some("<s>"), Some("</s>")).unwrap();
    let tokenizer = Tokenizer::from_bytes(file.to_string()).unwrap();
    let end = tokenizer.token_to_id("</s>").unwrap();
    let encoder = Encoder::from_parts(
        tokenizer,
        Some(template),
        &[end],
        1000,
        VOCABULARY,
        Path::new("model"),
    );
    let examples = ["ab", "az", "b"].map(|answer| example(&[("user", "q"), ("assistant", answer)]));
    let (_, report) = encoder
        .rows(&examples, Policy::default(), &mut |_, _| {})
        .unwrap();
    assert_eq!(report.altered_texts, 1);
}

#[test]
fn an_answer_that_the_template_rewrites_is_read_and_not_trained() {
    // Like templates that take an earlier answer's reasoning away once more follows.
    let only_last = "{% for message in messages %}{{ '<s>' + message['role'] + '\n' }}{% if loop.last or \
                     message['role'] == 'user' %}{{ message['content'] }}{% endif %}{{ '</s>' }}{% endfor %}\
                     {% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}";
    let conversation = example(&[
        ("user", "1"),
        ("assistant", "one"),
        ("user", "2"),
        ("assistant", "two"),
    ]);
    let encoder = encoder_with(only_last, 1000);
    assert_eq!(
        marked(&encoder, &conversation),
        "<s>user\n1</s><s>assistant\n</s><s>user\n2</s><s>assistant\n⟦two</s>⟧"
    );
    let (_, report) = encoder
        .rows(
            &[conversation.clone(), conversation],
            Policy::default(),
            &mut |_, _| {},
        )
        .unwrap();
    assert_eq!(report.rewritten_answers, 2);
    assert!(
        report
            .warnings()
            .iter()
            .any(|w| w.starts_with("2 answers are read and not trained"))
    );
}

#[test]
fn an_answer_that_no_prompt_leads_to_is_refused() {
    // A generation prompt that is no beginning of an answer.
    let other_prompt = CHATML.replace("'<s>assistant\n'", "'<s>model\n'");
    let error = encoder_with(&other_prompt, 1000)
        .row(&example(&[("user", "q"), ("assistant", "a")]))
        .unwrap_err();
    let DataError::TemplatePrefix { expected, found, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (expected.as_str(), found.as_str()),
        ("model\n", "assistant\na</s>\n")
    );
}

/// A family of models by its template, special tokens and end token.
fn family(template: &str, special: &[&str], end: &str) -> Encoder {
    let tokenizer = tokenizer_with(special);
    let end_id = tokenizer.token_to_id(end).unwrap();
    let template = ChatTemplate::new(template, Some(special[0]), Some(end)).unwrap();
    let vocabulary = 257 + special.len();
    Encoder::from_parts(
        tokenizer,
        Some(template),
        &[end_id],
        1000,
        vocabulary,
        Path::new("model"),
    )
}

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../../models/tests/models/templates/", $name))
    };
}

const CHATML_TOKENS: [&str; 2] = ["<|im_start|>", "<|im_end|>"];
const SYSTEM_AND_TWO_TURNS: [(&str, &str); 5] = [
    ("system", "s"),
    ("user", "1"),
    ("assistant", "one"),
    ("user", "2"),
    ("assistant", "two"),
];

#[test]
fn qwen25_and_smollm2_train_every_answer() {
    for template in [template!("qwen25.jinja"), template!("chatml.jinja")] {
        let encoder = family(template, &CHATML_TOKENS, "<|im_end|>");
        assert_eq!(
            marked(&encoder, &example(&SYSTEM_AND_TWO_TURNS)),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n⟦one<|im_end|>⟧\n\
             <|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n⟦two<|im_end|>⟧"
        );
    }
}

#[test]
fn qwen3_trains_the_newest_thoughts_and_reads_earlier_answers_without_theirs() {
    let encoder = family(template!("thinking.jinja"), &CHATML_TOKENS, "<|im_end|>");
    assert_eq!(
        marked(
            &encoder,
            &example(&[
                ("user", "1"),
                ("assistant", "<think>\nhm\n</think>\n\none"),
                ("user", "2"),
                ("assistant", "<think>\nyes\n</think>\n\ntwo"),
            ])
        ),
        "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\none<|im_end|>\n<|im_start|>user\n2<|im_end|>\n\
         <|im_start|>assistant\n⟦<think>yes</think>\ntwo<|im_end|>⟧"
    );
    // Without a user in between, both answers keep their thoughts: both are trained.
    let row = marked(
        &encoder,
        &example(&[
            ("user", "1"),
            ("assistant", "<think>a</think>look"),
            ("tool", "t"),
            ("assistant", "<think>b</think>done"),
        ]),
    );
    assert_eq!(row.matches('⟦').count(), 2, "{row}");
}

#[test]
fn llama3_trains_every_answer() {
    let special = [
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ];
    let encoder = family(template!("llama31.jinja"), &special, "<|eot_id|>");
    let row = marked(&encoder, &example(&SYSTEM_AND_TWO_TURNS));
    assert!(
        row.ends_with(
            "<|start_header_id|>assistant<|end_header_id|>\n\n⟦one<|eot_id|>⟧<|start_header_id|>user<|end_header_id|>\n\n\
             2<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n⟦two<|eot_id|>⟧"
        ),
        "{row}"
    );
}

#[test]
fn gemma_trains_every_answer_and_may_have_no_system_role() {
    let special = ["<bos>", "<start_of_turn>", "<end_of_turn>"];
    let encoder = family(template!("gemma.jinja"), &special, "<end_of_turn>");
    assert_eq!(
        marked(&encoder, &example(&SYSTEM_AND_TWO_TURNS)),
        "<bos><start_of_turn>user\ns\n\n1<end_of_turn>\n<start_of_turn>model\n⟦one<end_of_turn>⟧\n\
         <start_of_turn>user\n2<end_of_turn>\n<start_of_turn>model\n⟦two<end_of_turn>⟧"
    );
    let without = family(template!("gemma_without_system.jinja"), &special, "<end_of_turn>");
    let error = without.row(&example(&SYSTEM_AND_TWO_TURNS)).unwrap_err();
    assert_eq!(error.code(), "template_refuses");
    assert!(
        error.to_string().contains("this model takes no system message"),
        "{error}"
    );
    let row = marked(&without, &example(&SYSTEM_AND_TWO_TURNS[1..]));
    assert_eq!(row.matches('⟦').count(), 2, "{row}");
}

#[test]
fn mistral_trains_what_the_system_text_does_not_move() {
    let special = ["<s>", "</s>", "[INST]", "[/INST]"];
    let encoder = family(template!("mistral.jinja"), &special, "</s>");
    assert_eq!(
        marked(&encoder, &example(&SYSTEM_AND_TWO_TURNS)),
        "<s>[INST] 1[/INST] one</s>[INST] s\n\n2[/INST]⟦ two</s>⟧",
        "the first answer was given with the system text before it, which has moved on"
    );
    assert_eq!(
        marked(&encoder, &example(&SYSTEM_AND_TWO_TURNS[1..])),
        "<s>[INST] 1[/INST]⟦ one</s>⟧[INST] 2[/INST]⟦ two</s>⟧"
    );
    // Where the system text is gone as soon as there is an answer, training would never see it: refused, with a way out.
    let last = family(template!("mistral_last.jinja"), &special, "</s>");
    let error = last.row(&example(&SYSTEM_AND_TWO_TURNS[..3])).unwrap_err();
    assert_eq!(error.code(), "template_prefix");
    assert!(
        error.hints()[0].contains("put its text into the user's message"),
        "{:?}",
        error.hints()
    );
    assert!(last.row(&example(&SYSTEM_AND_TWO_TURNS[1..])).is_ok());
}

#[test]
fn a_model_without_a_template_says_so_when_a_conversation_comes() {
    let encoder = Encoder::from_parts(
        tokenizer(),
        None,
        &[258],
        1000,
        VOCABULARY,
        Path::new("some/base"),
    );
    let error = encoder
        .row(&example(&[("user", "q"), ("assistant", "a")]))
        .unwrap_err();
    assert_eq!(error.code(), "chat_template_missing");
    assert!(error.to_string().contains("some/base"), "{error}");
}

fn document(text: &str, markdown: bool) -> Document {
    Document {
        id: "notes.md".to_owned(),
        text: text.to_owned(),
        markdown,
    }
}

fn text_rows(encoder: &Encoder, documents: &[Document], max_length: usize) -> (Vec<String>, RowsReport) {
    let policy = Policy {
        max_length: Some(max_length),
        ..Policy::default()
    };
    let (rows, report) = encoder.text_rows(documents, policy, &mut |_, _| {}).unwrap();
    let texts = rows
        .rows
        .iter()
        .map(|row| encoder.sample("", row).unwrap().to_string())
        .collect();
    (texts, report)
}

#[test]
fn running_text_is_trained_in_full_in_rows_of_whole_paragraphs() {
    let text = "# One\n\nfirst words\n\nmore\n\n## Two\n\na line\nanother line that is long\n";
    let (rows, report) = text_rows(&encoder(), &[document(text, true)], 30);
    assert_eq!(
        rows,
        [
            "#⟦ One\n\nfirst words\n\nmore\n\n⟧",
            "#⟦# Two\n\na line\n⟧",
            "a⟦nother line that is long\n⟧"
        ]
    );
    assert_eq!(report.supervised_tokens, report.real_tokens - 3);
    assert_eq!((report.altered_texts, report.dropped_rows), (0, 0));
    assert_eq!(report.sample.id, "notes.md");
}

#[test]
fn a_word_longer_than_a_row_is_cut_between_letters() {
    let (rows, report) = text_rows(&encoder(), &[document("ääääääääää", false)], 7);
    // Two bytes a letter, so a row of seven tokens holds three letters.
    assert_eq!(rows.len(), 4);
    assert_eq!(report.longest, 6);
    assert_eq!(report.altered_texts, 0);
    let one = encoder().text_rows(&[document("a", false)], Policy::default(), &mut |_, _| {});
    assert_eq!(one.unwrap_err().code(), "too_few_rows");
}

#[test]
fn what_a_tokenizer_puts_before_a_text_stands_before_every_row() {
    let mut file: serde_json::Value = serde_json::from_str(&tokenizer().to_string(false).unwrap()).unwrap();
    file["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [257], "tokens": ["<s>"]}}
    });
    let tokenizer = Tokenizer::from_bytes(file.to_string()).unwrap();
    let encoder = Encoder::from_parts(tokenizer, None, &[258], 1000, VOCABULARY, Path::new("model"));
    let (rows, _) = text_rows(&encoder, &[document("one\n\ntwo", false)], 6);
    assert_eq!(rows, ["<s>⟦one\n\n⟧", "<s>⟦two⟧"]);
}

#[test]
fn an_answer_without_end_token_is_refused() {
    let endless = CHATML.replace("</s>", "");
    assert_eq!(
        code(&endless, &[("user", "q"), ("assistant", "a")]),
        "no_end_token"
    );
}

#[test]
fn an_end_token_within_the_text_is_refused() {
    assert_eq!(
        code(CHATML, &[("user", "q"), ("assistant", "a</s>b")]),
        "end_token_in_text"
    );
    assert_eq!(
        code(CHATML, &[("user", "q</s>"), ("assistant", "a")]),
        "end_token_in_text"
    );
}

#[test]
fn a_template_may_refuse_a_conversation() {
    let strict = format!("{{{{ raise_exception('roles must alternate') }}}}{CHATML}");
    let error = encoder_with(&strict, 1000)
        .row(&example(&[("user", "q"), ("assistant", "a")]))
        .unwrap_err();
    assert_eq!(error.code(), "template_refuses");
    assert!(error.to_string().contains("roles must alternate"), "{error}");
}

#[test]
fn a_tokenizer_that_truncates_is_kept_from_it() {
    let mut tokenizer = tokenizer();
    tokenizer
        .with_truncation(Some(TruncationParams {
            max_length: 5,
            ..Default::default()
        }))
        .unwrap();
    let end = tokenizer.token_to_id("</s>").unwrap();
    let template = ChatTemplate::new(CHATML, Some("<s>"), Some("</s>")).unwrap();
    let encoder = Encoder::from_parts(
        tokenizer,
        Some(template),
        &[end],
        1000,
        VOCABULARY,
        Path::new("model"),
    );
    assert!(
        marked(
            &encoder,
            &example(&[("user", "question"), ("assistant", "answer")])
        )
        .ends_with("⟦answer</s>⟧")
    );
}

#[test]
fn tokens_outside_the_vocabulary_are_refused() {
    let template = ChatTemplate::new(CHATML, Some("<s>"), Some("</s>")).unwrap();
    let end = VOCABULARY as u32 - 1;
    let encoder = Encoder::from_parts(
        tokenizer(),
        Some(template),
        &[end],
        1000,
        VOCABULARY - 1,
        Path::new("model"),
    );
    let error = encoder
        .row(&example(&[("user", "q"), ("assistant", "a")]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "row e1: token 258 is outside the model's vocabulary of 258"
    );
}

fn data_set() -> Vec<Example> {
    let short = example(&[("user", "q"), ("assistant", "a")]);
    let long = example(&[("user", "q"), ("assistant", "a much longer answer")]);
    vec![
        short.clone(),
        Example {
            id: "long".to_owned(),
            ..long
        },
        short,
    ]
}

#[test]
fn rows_are_counted() {
    let mut told = Vec::new();
    let (rows, report) = encoder()
        .rows(&data_set(), Policy::default(), &mut |done, all| {
            told.push((done, all));
        })
        .unwrap();
    assert_eq!(told, [(1, 3), (2, 3), (3, 3)]);
    assert_eq!((report.rows, report.dropped_rows, report.duplicates), (3, 0, 1));
    // <s>user\nq</s>\n<s>assistant\n are 20 tokens, then the answer and its end.
    assert_eq!((report.shortest, report.longest), (22, 41));
    assert_eq!((report.real_tokens, report.supervised_tokens), (85, 25));
    assert_eq!(report.real_tokens, rows.tokens());
    assert!((report.supervised_share - 25.0 / 85.0).abs() < 1e-12);
    assert_eq!((report.fewest_supervised, report.largest_token), (2, 258));
    assert_eq!(report.sample.to_string(), "<s>user\nq</s>\n<s>assistant\n⟦a</s>⟧");
}

#[test]
fn long_rows_are_named_or_dropped_but_never_cut() {
    let policy = |max_length, long_rows| Policy {
        max_length: Some(max_length),
        long_rows,
    };
    let rows = |policy| encoder().rows(&data_set(), policy, &mut |_, _| {});
    let error = rows(policy(40, LongRows::Error)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 of 3 rows are longer than 40 tokens; the longest is row long with 41 tokens"
    );
    assert!(
        error.hints()[0].contains("raise max_length"),
        "{:?}",
        error.hints()
    );
    let (kept, report) = rows(policy(40, LongRows::Drop)).unwrap();
    assert_eq!((kept.rows.len(), report.dropped_rows, report.longest), (2, 1, 22));
    assert!(rows(policy(41, LongRows::Error)).is_ok());
    assert_eq!(
        rows(policy(21, LongRows::Drop)).unwrap_err().code(),
        "too_few_rows"
    );
    for impossible in [0, 1, 1001] {
        assert_eq!(
            rows(policy(impossible, LongRows::Drop)).unwrap_err().code(),
            "max_length"
        );
    }
}

#[test]
fn a_row_longer_than_the_context_is_refused_without_being_asked() {
    let encoder = encoder_with(CHATML, 40);
    let error = encoder
        .rows(&data_set(), Policy::default(), &mut |_, _| {})
        .unwrap_err();
    assert_eq!(error.code(), "long_rows");
    assert!(
        error.hints()[0].contains("the model's context is 40 tokens"),
        "{:?}",
        error.hints()
    );
}

#[test]
fn hashes_tell_templates_and_tokenizers_apart() {
    let encoder = encoder();
    assert_eq!(
        encoder.tokenizer_sha256().unwrap(),
        encoder_with(CHATML, 10).tokenizer_sha256().unwrap()
    );
    assert_ne!(
        encoder.template_sha256(),
        encoder_with("{{ messages }}", 10).template_sha256()
    );
}

#[test]
fn a_finished_row_is_counted_beside_the_code_that_masks_it() {
    let encoder = encoder();
    let two_answers = example(&[
        ("user", "q"),
        ("assistant", "a b"),
        ("user", "r"),
        ("assistant", " c "),
    ]);
    let audit = |row: &Row| {
        let mut audit = Audit::default();
        let encoded = Encoded {
            row: row.clone(),
            ..encoder.encode(&two_answers).unwrap()
        };
        encoder.audit(&two_answers, &encoded, &mut audit).unwrap();
        (
            audit.answers,
            audit.answer_tokens,
            audit.answers_outside,
            audit.ends_untrained,
        )
    };
    let row = encoder.row(&two_answers).unwrap();
    assert_eq!(audit(&row), (2, 3 + 1, 0, 0));
    // Masked by the id of a padding token that is the end token.
    let mut no_end = row.clone();
    for (mark, id) in no_end.supervised.iter_mut().zip(&row.input_ids) {
        *mark &= *id != 258;
    }
    assert_eq!(audit(&no_end), (2, 4, 0, 1));
    // Shifted by two: the first answer lacks its beginning.
    let mut shifted = row.clone();
    shifted.supervised.rotate_right(2);
    assert_eq!(audit(&shifted).2, 1);
}
