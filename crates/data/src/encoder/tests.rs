//! What a row must hold, shown with a small tokenizer and templates written for the purpose.

use super::*;
use serde_json::json;
use tokenizers::TruncationParams;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const CHATML: &str = "{% for message in messages %}{{ '<s>' + message['role'] + '\n' + message['content'] + '</s>' \
                      + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}";
const VOCABULARY: usize = 256 + 1 + 2;

/// Bytes, one merge (two line breaks) and the two special tokens of [`CHATML`].
fn tokenizer() -> Tokenizer {
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
    let special = |id: u32, text: &str| {
        json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [special(257, "<s>"), special(258, "</s>")],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [["Ċ", "Ċ"]]}
    });
    Tokenizer::from_bytes(file.to_string()).unwrap()
}

fn encoder_with(template: &str, context: usize) -> Encoder {
    let tokenizer = tokenizer();
    let end = tokenizer.token_to_id("</s>").unwrap();
    let template = ChatTemplate::new(template, Some("<s>"), Some("</s>")).unwrap();
    Encoder::from_parts(tokenizer, template, &[end], context, VOCABULARY)
}

fn encoder() -> Encoder {
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
    let encoder = Encoder::from_parts(tokenizer, template, &[end], 1000, VOCABULARY);
    let examples = ["ab", "az", "b"].map(|answer| example(&[("user", "q"), ("assistant", answer)]));
    let (_, report) = encoder
        .rows(&examples, Policy::default(), &mut |_, _| {})
        .unwrap();
    assert_eq!(report.altered_texts, 1);
}

#[test]
fn a_template_that_rewrites_earlier_text_is_refused() {
    // Like templates that take an earlier answer's reasoning away once more follows.
    let only_last = "{% for message in messages %}{{ '<s>' + message['role'] + '\n' }}{% if loop.last or \
                     message['role'] == 'user' %}{{ message['content'] }}{% endif %}{{ '</s>' }}{% endfor %}\
                     {% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}";
    let turns = [
        ("user", "1"),
        ("assistant", "one"),
        ("user", "2"),
        ("assistant", "two"),
    ];
    let error = encoder_with(only_last, 1000).row(&example(&turns)).unwrap_err();
    assert_eq!(error.code(), "template_prefix");
    assert!(error.to_string().contains("message 2 follows"), "{error}");
    assert!(encoder_with(only_last, 1000).row(&example(&turns[..2])).is_ok());
    // A generation prompt that is no beginning of an answer.
    let other_prompt = CHATML.replace("'<s>assistant\n'", "'<s>model\n'");
    let error = encoder_with(&other_prompt, 1000)
        .row(&example(&turns[..2]))
        .unwrap_err();
    let DataError::TemplatePrefix { expected, found, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (expected.as_str(), found.as_str()),
        ("model\n", "assistant\none</s>\n")
    );
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
    let encoder = Encoder::from_parts(tokenizer, template, &[end], 1000, VOCABULARY);
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
    let encoder = Encoder::from_parts(tokenizer(), template, &[end], 1000, VOCABULARY - 1);
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
