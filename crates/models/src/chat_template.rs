//! Chat templates: from messages to the exact text that a model was trained on.
//!
//! Templates are Jinja programs that come with the model, so they run as transformers runs them (same white-space rules, same
//! helpers) and with a budget: one from outside cannot hang or fill the memory.

use std::fmt::Write as _;
use std::io;

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, State, Value, context};
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};

use crate::ModelError;

/// Steps of the template machine that one rendering may take; a hundred messages take a few thousand.
const FUEL: u64 = 2_000_000;
const MAX_SOURCE_BYTES: usize = 1 << 20;
const NAME: &str = "chat_template";

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message by `role` that says `content`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
        }
    }
}

/// A parsed chat template with the special tokens that it may write.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: Option<String>,
    eos: Option<String>,
}

impl ChatTemplate {
    /// Parses a template; `bos` and `eos` are the texts of those tokens, where the model has them.
    ///
    /// # Errors
    /// The source is not a template, with the line where it goes wrong.
    pub fn new(source: &str, bos: Option<&str>, eos: Option<&str>) -> Result<Self, ModelError> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(ModelError::ChatTemplate {
                reason: format!("is {} bytes long, which no template is", source.len()),
            });
        }
        let mut environment = Environment::new();
        let syntax = minijinja::syntax::SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(|error| template_error("cannot be parsed", &error))?);
        environment.set_unknown_method_callback(python_method);
        environment.set_fuel(Some(FUEL));
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("tojson", to_json);
        environment
            .add_template_owned(NAME, without_generation_marks(source))
            .map_err(|error| template_error("cannot be parsed", &error))?;
        Ok(Self {
            environment,
            bos: bos.map(str::to_owned),
            eos: eos.map(str::to_owned),
        })
    }

    /// Renders messages to text; with `add_generation_prompt` the text ends where the assistant's answer begins.
    ///
    /// The text holds every special token that the model wants: encode it without adding more.
    ///
    /// # Errors
    /// The template refuses the messages (in its own words), fails, or runs longer than any real one.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, ModelError> {
        // Tokens that the model lacks stay undefined, as transformers leaves them.
        let token = |text: &Option<String>| text.as_deref().map_or(Value::UNDEFINED, Value::from);
        let template = self
            .environment
            .get_template(NAME)
            .map_err(|error| template_error("failed", &error))?;
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| context! { role => &message.role, content => &message.content })
            .collect();
        let values = context! {
            messages => messages,
            add_generation_prompt => add_generation_prompt,
            bos_token => token(&self.bos),
            eos_token => token(&self.eos),
            tools => Value::from(()),
            documents => Value::from(()),
        };
        template.render(values).map_err(|error| match error.kind() {
            ErrorKind::OutOfFuel => ModelError::ChatTemplate {
                reason: "ran too long and was stopped".to_owned(),
            },
            _ => template_error("failed", &error),
        })
    }
}

fn template_error(what: &str, error: &Error) -> ModelError {
    let line = error
        .line()
        .map(|line| format!(" in line {line}"))
        .unwrap_or_default();
    let detail = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    ModelError::ChatTemplate {
        reason: format!("{what}{line}: {detail}"),
    }
}

/// Python's methods on texts, lists and maps. `str.format` is the one that makes as much text as its argument asks for
/// without counting it against the budget, so a width that no template needs is refused here.
fn python_method(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    const MAX_WIDTH_DIGITS: usize = 4;
    if method == "format"
        && let Some(text) = value.as_str()
        && text
            .split(|sign: char| !sign.is_ascii_digit())
            .any(|number| number.len() > MAX_WIDTH_DIGITS)
    {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "format with a number of more than four digits is not supported",
        ));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments)
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, &jiff::Zoned::now()).map_err(|error| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("strftime_now cannot use {format:?}: {error}"),
        )
    })
}

/// JSON as Python's `json.dumps` writes it, without the HTML escapes of Jinja's own filter; this is what transformers does.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the form in which the template engine calls a filter"
)]
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    const MAX_INDENT: usize = 16;
    const MAX_SEPARATOR: usize = 16;
    let failed = |error: String| Error::new(ErrorKind::InvalidOperation, format!("tojson failed: {error}"));
    let indent: Option<usize> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sorted: Option<bool> = options.get("sort_keys")?;
    let separators: Option<(String, String)> =
        options.get::<Option<Vec<String>>>("separators")?.map(|pair| {
            let mut pair = pair.into_iter();
            (pair.next().unwrap_or_default(), pair.next().unwrap_or_default())
        });
    options.assert_all_used()?;
    if let Some(width) = indent.filter(|width| *width > MAX_INDENT) {
        return Err(failed(format!("it cannot indent by {width}")));
    }
    if separators
        .iter()
        .any(|(item, key)| item.len().max(key.len()) > MAX_SEPARATOR)
    {
        return Err(failed("its separators are longer than any".to_owned()));
    }
    let (item, key) = separators.unwrap_or_else(|| {
        let item = if indent.is_some() { "," } else { ", " };
        (item.to_owned(), ": ".to_owned())
    });
    let formatter = PythonJson {
        indent,
        item,
        key,
        depth: 0,
        filled: false,
    };
    let mut json = serde_json::to_value(value).map_err(|error| failed(error.to_string()))?;
    if sorted == Some(true) {
        json.sort_all_objects();
    }
    let mut bytes = Vec::new();
    json.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
    Ok(if ascii == Some(true) { escaped(&text) } else { text })
}

/// Letters outside of ASCII stand within texts only, so each can be replaced where it is.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            out.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

/// The spaces, line breaks and separators of `json.dumps`.
struct PythonJson {
    indent: Option<usize>,
    item: String,
    key: String,
    depth: usize,
    /// Whether what is written holds anything: an empty list stays on its line.
    filled: bool,
}

impl PythonJson {
    fn begin<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.new_line(writer)
    }

    fn end<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled {
            self.new_line(writer)?;
        }
        // It is part of what is around it.
        self.filled = true;
        writer.write_all(bracket)
    }

    fn new_line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        match self.indent {
            Some(width) => write!(writer, "\n{}", " ".repeat(width * self.depth)),
            None => Ok(()),
        }
    }
}

impl Formatter for PythonJson {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

/// Replaces transformers' own `{% generation %}` and `{% endgeneration %}`, which mark the assistant's text for a mask and
/// print nothing, by an `if` that always holds: that keeps the white-space signs of the tags and what they do.
fn without_generation_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        // Behind the opening, whose percent sign is not part of the end: `{%}` opens a tag and ends none.
        let Some(inner) = tag[2..].find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(inner + 4);
        let inner = &tag[2..inner + 2];
        match inner.trim_matches(|sign: char| sign.is_whitespace() || matches!(sign, '-' | '+')) {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
