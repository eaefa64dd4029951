//! The report as Markdown for a post in a forum: the same words as the page's, without its drawings. Every text is
//! escaped, so that a name with a bar or a star neither breaks a table nor begins to shout.

use minijinja::{AutoEscape, Environment, Value};

use crate::view::Page;
use crate::{Report, ReportError};

pub(crate) fn render(report: &Report) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(|out, _state, value| {
        let written = match value.as_str() {
            Some(text) if !value.is_safe() => out.write_str(&escape(text)),
            _ => write!(out, "{value}"),
        };
        Ok(written?)
    });
    environment.add_function("code", |text: String| Value::from_safe_string(code_block(&text)));
    environment.add_template("report.md", include_str!("../templates/report.md"))?;
    let text = environment
        .get_template("report.md")?
        .render(minijinja::value::Serde(Page::of(report)?))?;
    Ok(tidy(&text))
}

/// Text that Markdown shows as it is, on one line.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => out.extend(['\\', letter]),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' | '\r' => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// A block of code that its content cannot end.
fn code_block(text: &str) -> String {
    let longest = text
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// One empty line at most, and no space at the end of a line.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut empty = true;
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && empty) {
            out.push_str(line);
            out.push('\n');
        }
        empty = line.is_empty();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_markdown_would_take_for_its_own_is_escaped() {
        assert_eq!(escape("a|b *c* <d> e_f\ng"), "a\\|b \\*c\\* &lt;d&gt; e\\_f g");
    }

    #[test]
    fn a_block_of_code_cannot_be_ended_from_within() {
        assert_eq!(code_block("tunesmith train x"), "```\ntunesmith train x\n```");
        assert!(code_block("a ```` b").starts_with("`````\n"));
    }

    #[test]
    fn empty_lines_do_not_pile_up() {
        assert_eq!(tidy("\n\na  \n\n\nb\n"), "a\n\nb\n");
    }
}
