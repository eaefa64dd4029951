//! Chat templates against transformers' own renderings (`fixtures/chats.json`), and those that mean harm.

use tunesmith_models::{ChatTemplate, Message, ModelError};

use crate::{fixture, told};

macro_rules! templates {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("templates/", $name)))),*] };
}

const TEMPLATES: [(&str, &str); 11] = templates![
    "blocks.jinja",
    "chatml.jinja",
    "gemma.jinja",
    "gemma_without_system.jinja",
    "headers.jinja",
    "json.jinja",
    "llama31.jinja",
    "mistral.jinja",
    "mistral_last.jinja",
    "qwen25.jinja",
    "thinking.jinja"
];

/// The source of a template by its name.
fn source(name: &str) -> &'static str {
    TEMPLATES.iter().find(|(known, _)| *known == name).unwrap().1
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, Some("<bos>"), Some("<eos>")).unwrap_or_else(|error| panic!("{error}"))
}

fn render(source: &str) -> Result<String, ModelError> {
    template(source).render(&[Message::new("user", "hello")], true)
}

#[test]
fn a_tag_that_would_end_in_its_own_opening_is_refused_or_text() {
    for source in ["{%}", "{%}{% generation %}x{% endgeneration %}", "{%%}", "{%"] {
        if let Err(error) = ChatTemplate::new(source, None, None) {
            assert!(told(&error).contains("cannot be parsed"), "{source}: {error}");
        }
    }
}

#[test]
fn templates_render_as_transformers_renders_them() {
    let rows = fixture(include_str!("fixtures/chats.json"));
    assert_eq!(rows.len(), TEMPLATES.len() * 12);
    for row in rows {
        let name = row["template"].as_str().unwrap();
        let messages: Vec<Message> = serde_json::from_value(row["messages"].clone()).unwrap();
        let rendered = template(source(name)).render(&messages, row["prompt"].as_bool().unwrap());
        match (row["text"].as_str(), row["error"].as_str(), rendered) {
            (Some(expected), None, Ok(text)) => assert_eq!(text, expected, "{name} with {}", row["messages"]),
            // What transformers is refused with, word for word.
            (None, Some(words), Err(error)) => assert!(error.to_string().ends_with(words), "{name}: {error}"),
            (_, _, rendered) => panic!("{name} with {}: {rendered:?}", row["messages"]),
        }
    }
}

#[test]
fn a_template_that_refuses_the_messages_is_quoted() {
    let error = template(source("headers.jinja"))
        .render(&[Message::new("tool", "4")], false)
        .unwrap_err();
    assert!(
        told(&error).contains("only users and assistants speak here, not tool"),
        "{}",
        told(&error)
    );
    assert_eq!(error.code(), "chat_template");
}

#[test]
fn a_mistake_in_a_template_names_its_line() {
    let error = ChatTemplate::new("one\ntwo {% if %}", None, None).unwrap_err();
    assert!(
        error.to_string().contains("cannot be parsed in line 2"),
        "{error}"
    );
    let error = render("one\n{{ messages[0].content.no_such_method() }}").unwrap_err();
    assert!(error.to_string().contains("failed in line 2"), "{error}");
}

#[test]
fn a_missing_special_token_prints_nothing() {
    let template = ChatTemplate::new("{{ bos_token }}|{{ eos_token is defined }}", None, None).unwrap();
    assert_eq!(template.render(&[], false).unwrap(), "|False");
}

#[test]
fn hostile_templates_are_stopped() {
    let doubling = format!(
        "{{% set ns = namespace(s='x') %}}{}",
        "{% set ns.s = ns.s ~ ns.s %}".repeat(60)
    );
    let cases = [
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{{ 'x' * 100000000000 }}",
        "{{ ('x' * 100000000) | length }}{{ ('x' * 100000000) | length }}",
        "{{ '{:>99999999999}'.format(1) }}",
        "{{ '{:.99999999999f}'.format(1.5) }}",
        "{{ '{:>{}}'.format(1, 99999999999) }}",
        "{{ '%99999999999d' | format(1) }}",
        "{{ '%*d' | format(99999999999, 1) }}",
        "{{ '%99999999999d' % 1 }}",
        "{{ 'x' | indent(99999999999, true) }}",
        "{{ [1] | batch(99999999999, 'x') | list }}",
        "{{ [1] | slice(99999999999) | list }}",
        "{{ [1] * 99999999999 }}",
        "{{ 'xxxxxxxx'.replace('', 'x' * 1000000) | length }}{{ ('xxxxxxxx' * 100000).replace('x', 'x' * 100000) | length }}",
        "{{ ('x,' * 1000000).split(',') | join('y' * 1000000) | length }}",
        "{{ range(99999999999) | list | length }}",
        "{{ messages | tojson(indent=99999999999) }}",
        &doubling,
    ];
    for source in cases {
        let shown: String = source.chars().take(80).collect();
        let error = render(source).expect_err(&shown);
        assert!(
            matches!(error, ModelError::ChatTemplate { .. }),
            "{shown}: {error}"
        );
    }
    assert!(ChatTemplate::new(&"{% if true %}".repeat(100_000), None, None).is_err());
    assert!(ChatTemplate::new(&"(".repeat(100_000).replacen('(', "{{ (", 1), None, None).is_err());
}
