//! Takes the SQL out of a model's answer, and reduces SQL to a form in which spelling does not count.
//!
//! The rule is the same before and after training. Untuned models wrap their SQL in prose and code fences; if
//! that alone were counted as wrong, most of the gain of training would be formatting.

/// The rule of [`extract_sql`] in words, for reports.
pub const EXTRACTION_RULE: &str = "If a code fence marked as SQL holds a query, only the first such fence is \
searched; otherwise, if any other code fence holds a query, only the first such fence; otherwise the whole \
answer. In it the query begins at the first SELECT, or WITH <name> AS (, that begins a line, or failing \
that at the first one anywhere, in capitals or not. It ends before the first semicolon outside quotes, the \
first blank line, a closing code fence, or the end. Nothing else is repaired. An answer without such a word \
has no SQL and counts as wrong.";

/// Takes the SQL out of an answer by the fixed rule [`EXTRACTION_RULE`].
///
/// Returns the query without its semicolon and outer white space, or `None` if the answer holds no query:
///
/// 1. Where to look: the first code fence marked `sql`, `sqlite` or `sqlite3` that holds a query; else the first
///    other fence that does; else the whole answer. A fence that is never closed ends with the answer.
/// 2. Where it begins: the first `SELECT`, or `WITH name AS (`, that begins a line; else the first anywhere.
///    Both are whole words and in any case, so "selection" and "the books with a price" begin nothing.
/// 3. Where it ends: before the first `;` outside quotes, the first blank line, a closing fence, or, if the
///    query stands in single backticks, before the closing one.
pub fn extract_sql(answer: &str) -> Option<String> {
    let mut fences = fences(answer);
    fences.retain(|fence| start_of_query(fence.content).is_some());
    let fence = fences.iter().find(|fence| fence.is_sql).or(fences.first());
    let area = fence.map_or(answer, |fence| fence.content);
    let start = start_of_query(area)?;
    let in_backticks = area[..start].ends_with('`');
    let query = &area[start..];
    let end = end_of_query(query, in_backticks);
    Some(query[..end].trim().to_owned())
}

struct Fence<'a> {
    is_sql: bool,
    content: &'a str,
}

/// The code fences of an answer, in order. The first word after the opening fence is its mark.
fn fences(answer: &str) -> Vec<Fence<'_>> {
    // Every second piece between ``` marks is inside a fence.
    answer
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|piece| {
            let mark_end = piece
                .find(|letter: char| !letter.is_ascii_alphanumeric())
                .unwrap_or(piece.len());
            let mark = piece[..mark_end].to_ascii_lowercase();
            let is_sql = matches!(mark.as_str(), "sql" | "sqlite" | "sqlite3");
            // Only what is known to be a mark is cut off: "```SELECT …```" has none.
            Fence {
                is_sql,
                content: if is_sql { &piece[mark_end..] } else { piece },
            }
        })
        .collect()
}

/// Byte offset at which a query begins: at the start of a line if possible, else anywhere.
fn start_of_query(text: &str) -> Option<usize> {
    let starts: Vec<usize> = words(text)
        .filter(|&(start, word)| begins_query(text, start, word))
        .map(|w| w.0)
        .collect();
    let begins_line = |start: usize| {
        let line = &text[..start];
        line[line.rfind('\n').map_or(0, |index| index + 1)..]
            .trim()
            .is_empty()
    };
    starts
        .iter()
        .copied()
        .find(|&start| begins_line(start))
        .or_else(|| starts.first().copied())
}

fn begins_query(text: &str, start: usize, word: &str) -> bool {
    if word.eq_ignore_ascii_case("select") {
        return true;
    }
    if !word.eq_ignore_ascii_case("with") {
        return false;
    }
    // WITH [RECURSIVE] name [(columns)] AS [NOT MATERIALIZED] ( … : the English word has no such tail.
    let mut tail = text[start + word.len()..].trim_start();
    if let Some(rest) = strip_word(tail, "recursive") {
        tail = rest;
    }
    let name_end = tail.find(|letter: char| !is_word(letter)).unwrap_or(tail.len());
    tail = tail[name_end..].trim_start();
    if let Some(columns) = tail.strip_prefix('(') {
        tail = columns.split_once(')').map_or("", |(_, rest)| rest).trim_start();
    }
    let Some(mut tail) = strip_word(tail, "as") else {
        return false;
    };
    for word in ["not", "materialized"] {
        tail = strip_word(tail, word).unwrap_or(tail);
    }
    name_end > 0 && tail.starts_with('(')
}

/// `text` without the leading `word` (in any case) and the white space after it, if it begins with that word.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    let rest = &text[word.len()..];
    (head.eq_ignore_ascii_case(word) && !rest.starts_with(is_word)).then(|| rest.trim_start())
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The words of a text with their byte offsets.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(|letter: char| !is_word(letter))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// Byte offset at which a query that begins at 0 ends.
fn end_of_query(query: &str, in_backticks: bool) -> usize {
    let mut quote = None;
    let mut line_is_blank = false;
    for (index, letter) in query.char_indices() {
        match (quote, letter) {
            // Inside quotes only a blank line or a fence ends the query: a quote that is never closed must not
            // swallow the explanation that follows.
            (_, '\n') if line_is_blank => return index,
            (_, '`') if in_backticks || query[index..].starts_with("```") => return index,
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ';') => return index,
            _ => {}
        }
        line_is_blank = letter == '\n' || (line_is_blank && letter.is_whitespace());
    }
    query.len()
}

/// SQL reduced to what counts for an exact match (E2).
///
/// Outside quotes, letters become lower-case and spaces stand only between words; double quotes become single
/// ones; a final semicolon goes. Inside quotes nothing changes.
pub fn normalise_sql(sql: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    let mut space = false;
    for letter in sql
        .trim()
        .trim_end_matches(|letter: char| letter == ';' || letter.is_whitespace())
        .chars()
    {
        if let Some(open) = quote {
            if letter == open {
                quote = None;
                out.push('\'');
            } else {
                out.push(letter);
            }
            continue;
        }
        if letter.is_whitespace() {
            space = true;
            continue;
        }
        let joins_words = out.ends_with(|last: char| is_word(last) || last == '\'')
            && (is_word(letter) || matches!(letter, '\'' | '"'));
        // A doubled quote inside a string ('O''Neil') arrives here without a space between and stays as it is.
        if space && joins_words {
            out.push(' ');
        }
        space = false;
        if matches!(letter, '\'' | '"') {
            quote = Some(letter);
            out.push('\'');
        } else {
            out.extend(letter.to_lowercase());
        }
    }
    out
}
