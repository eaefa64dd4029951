//! Reads a text once and notes where each known fault shows: line by line, with a bound on every line, so that time
//! grows with the text and memory does not.
//!
//! Logs come with colours, carriage returns of progress bars, prefixes of containers, and lines that a console broke
//! at its width. Control characters are taken out before matching (zero bytes too, so a text in UTF-16 can be read),
//! and two lines of which the first is long are also looked at as one.

use std::io::{self, BufRead, Read};

use super::faults::{Faults, Role};

/// How many lines a finding names.
pub(super) const SHOWN_LINES: usize = 10;

/// A longer line is read in pieces of this size, in bytes.
const PIECE_BYTES: usize = 8 << 10;

/// So many bytes of a piece are looked at again with the next one.
const OVERLAP_BYTES: usize = 512;

/// Consoles break lines at 60 columns and more; so much is looked at on both sides of the break.
const BROKEN_FROM_BYTES: usize = 60;
const BROKEN_TAIL_BYTES: usize = 240;

/// How near to each other the parts of a group are, in lines.
const TOGETHER_LINES: u64 = 80;

/// Length of a quoted line, in characters.
const QUOTE_CHARS: usize = 240;

/// A fault that was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hit {
    /// The first lines that show it, from 1.
    pub(super) lines: Vec<u64>,
    /// How many lines show it.
    pub(super) count: u64,
    /// The first of them, cleaned.
    pub(super) quote: String,
}

impl Hit {
    pub(super) fn first_line(&self) -> u64 {
        self.lines.first().copied().unwrap_or_default()
    }

    fn see(&mut self, line: u64, quote: impl FnOnce() -> String) {
        if self.lines.last() == Some(&line) {
            return;
        }
        if self.count == 0 {
            self.quote = quote();
        }
        self.count += 1;
        if self.lines.len() < SHOWN_LINES {
            self.lines.push(line);
        }
    }
}

/// The last time that a part of a group was seen.
#[derive(Clone, Debug)]
struct Seen {
    line: u64,
    quote: String,
}

/// A text as far as it was read.
pub(super) struct Scan<'a> {
    faults: &'a Faults,
    hits: Vec<Option<Hit>>,
    parts: Vec<Option<Seen>>,
    line: u64,
    has_text: bool,
    /// The line before, cleaned, and what matched in it.
    before: Vec<u8>,
    before_matched: Vec<usize>,
    cleaned: Vec<u8>,
    joined: Vec<u8>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(faults: &'a Faults) -> Self {
        Self {
            faults,
            hits: vec![None; faults.rows().len()],
            parts: vec![None; faults.patterns().len()],
            line: 0,
            has_text: false,
            before: Vec::new(),
            before_matched: Vec::new(),
            cleaned: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// What was seen, one place for each fault.
    pub(super) fn hits(&self) -> &[Option<Hit>] {
        &self.hits
    }

    pub(super) fn lines_read(&self) -> u64 {
        self.line
    }

    /// Whether there was anything but white space.
    pub(super) fn has_text(&self) -> bool {
        self.has_text
    }

    /// Reads a text that is in memory.
    pub(super) fn text(&mut self, text: &[u8]) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        for line in text.split(|byte| *byte == b'\n') {
            self.line += 1;
            let mut start = 0;
            loop {
                let end = (start + PIECE_BYTES).min(line.len());
                self.piece(&line[start..end]);
                if end == line.len() {
                    break;
                }
                start = end - OVERLAP_BYTES;
            }
        }
    }

    /// Reads a text piece by piece.
    pub(super) fn read(&mut self, mut reader: impl BufRead) -> io::Result<()> {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let mut line_goes_on = false;
        loop {
            let room = (PIECE_BYTES - piece.len()) as u64;
            let read = reader.by_ref().take(room).read_until(b'\n', &mut piece)?;
            if read == 0 {
                return Ok(());
            }
            if !line_goes_on {
                self.line += 1;
            }
            let ends = piece.pop_if(|byte| *byte == b'\n').is_some();
            self.piece(&piece);
            line_goes_on = !ends;
            let keep = if ends { 0 } else { piece.len().min(OVERLAP_BYTES) };
            piece.drain(..piece.len() - keep);
        }
    }

    /// A line, or a piece of one.
    fn piece(&mut self, piece: &[u8]) {
        for part in piece.split(|byte| *byte == b'\r') {
            let mut cleaned = std::mem::take(&mut self.cleaned);
            clean(part, &mut cleaned);
            if !cleaned.trim_ascii().is_empty() {
                self.has_text = true;
                self.cleaned_line(&cleaned);
            }
            self.cleaned = cleaned;
        }
    }

    fn cleaned_line(&mut self, line: &[u8]) {
        let matched = self.matches(line);
        if !matched.is_empty() {
            self.note(&matched, self.line, line);
        }
        if self.before.len() >= BROKEN_FROM_BYTES {
            self.broken_line(line, &matched);
        }
        self.before.clear();
        let tail = line.len().saturating_sub(BROKEN_TAIL_BYTES);
        self.before.extend_from_slice(&line[tail..]);
        self.before_matched = matched;
    }

    /// Looks at the line before and this one as one, broken at a space or within a word.
    fn broken_line(&mut self, line: &[u8], matched: &[usize]) {
        let rest = line.trim_ascii_start();
        let rest = &rest[..rest.len().min(BROKEN_TAIL_BYTES)];
        let at_space = self.before.trim_ascii_end().len();
        let mut joined = std::mem::take(&mut self.joined);
        let word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let within_word = word(self.before[..at_space].last()) && word(rest.first());
        let ways = if within_word { 2 } else { 1 };
        for between in [&b" "[..], &b""[..]].into_iter().take(ways) {
            joined.clear();
            joined.extend_from_slice(&self.before[..at_space]);
            joined.extend_from_slice(between);
            joined.extend_from_slice(rest);
            let new: Vec<usize> = self
                .matches(&joined)
                .into_iter()
                .filter(|pattern| !matched.contains(pattern) && !self.before_matched.contains(pattern))
                .collect();
            if new
                .iter()
                .any(|pattern| self.faults.patterns()[*pattern].role == Role::Line)
            {
                self.note(&new, self.line.saturating_sub(1).max(1), &joined);
                break;
            }
        }
        self.joined = joined;
    }

    fn matches(&self, line: &[u8]) -> Vec<usize> {
        let set = self.faults.set();
        if set.is_match(line) {
            set.matches(line).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    fn note(&mut self, matched: &[usize], number: u64, line: &[u8]) {
        let patterns = self.faults.patterns();
        let excepted: Vec<usize> = matched
            .iter()
            .filter(|pattern| patterns[**pattern].role == Role::Except)
            .map(|pattern| patterns[*pattern].fault)
            .collect();
        for index in matched {
            let pattern = patterns[*index];
            if excepted.contains(&pattern.fault) {
                continue;
            }
            match pattern.role {
                Role::Line => self.hits[pattern.fault]
                    .get_or_insert_default()
                    .see(number, || quote(line)),
                Role::Except => {}
                Role::Part { group, .. } => {
                    self.parts[*index] = Some(Seen {
                        line: number,
                        quote: quote(line),
                    });
                    self.complete(group, pattern.fault, number);
                }
            }
        }
    }

    /// Notes the fault where all parts of the group were seen near each other.
    fn complete(&mut self, group: usize, fault: usize, number: u64) {
        let of_group = |pattern: &super::faults::Pattern| matches!(pattern.role, Role::Part { group: own, .. } if own == group);
        let patterns = self.faults.patterns();
        let Some(start) = patterns.iter().position(of_group) else {
            return;
        };
        let parts = start..start + self.faults.groups()[group];
        let near = |part: &Option<Seen>| {
            part.as_ref()
                .is_some_and(|seen| number.abs_diff(seen.line) <= TOGETHER_LINES)
        };
        if !self.parts[parts.clone()].iter().all(near) {
            return;
        }
        // The first part is the one that is quoted.
        let mut seen: Vec<Seen> = self.parts[parts].iter_mut().filter_map(Option::take).collect();
        let first = seen.remove(0);
        let hit = self.hits[fault].get_or_insert_default();
        let new = hit.count == 0;
        hit.see(first.line, || first.quote);
        if new {
            seen.sort_by_key(|part| part.line);
            for part in seen {
                if !hit.lines.contains(&part.line) && hit.lines.len() < SHOWN_LINES {
                    hit.lines.push(part.line);
                }
            }
        }
    }
}

/// Takes out terminal sequences and control characters; a tab becomes a space.
fn clean(line: &[u8], into: &mut Vec<u8>) {
    into.clear();
    if line
        .iter()
        .all(|byte| *byte >= 0x20 && *byte != 0x7f && *byte != 0xc2 && *byte != 0xff)
    {
        into.extend_from_slice(line);
        return;
    }
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            0x1b => escape(&mut bytes),
            b'\t' => into.push(b' '),
            // The second half of the control characters, as UTF-8 writes them.
            0xc2 if bytes.peek().is_some_and(|next| (0x80..0xa0).contains(next)) => {
                bytes.next();
            }
            0x00..0x20 | 0x7f | 0xff => {}
            _ => into.push(byte),
        }
    }
}

/// Skips what follows an escape character.
fn escape(bytes: &mut std::iter::Peekable<impl Iterator<Item = u8>>) {
    match bytes.peek() {
        Some(b'[') => {
            bytes.next();
            // Parameters, up to a letter; anything else is no sequence and is kept.
            while bytes.next_if(|byte| (0x20..0x40).contains(byte)).is_some() {}
            bytes.next_if(|byte| (0x40..0x7f).contains(byte));
        }
        Some(b']') => {
            bytes.next();
            // A title or a link, up to a bell or to another escape.
            while let Some(byte) = bytes.next_if(|byte| *byte != 0x1b) {
                if byte == 0x07 {
                    return;
                }
            }
            if bytes.next().is_some() {
                bytes.next_if_eq(&b'\\');
            }
        }
        Some(0x20..0x7f) => {
            bytes.next();
        }
        _ => {}
    }
}

/// The line for people: valid, on one line, without characters that change how it is shown, not too long.
pub(super) fn quote(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.trim_ascii());
    let shown = |c: &char| {
        let steers = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        !c.is_control() && !steers
    };
    let mut quote: String = text.chars().filter(shown).take(QUOTE_CHARS + 1).collect();
    if quote.chars().count() > QUOTE_CHARS {
        quote = quote.chars().take(QUOTE_CHARS - 1).collect();
        quote.push('…');
    }
    quote
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(line: &str) -> String {
        let mut into = Vec::new();
        clean(line.as_bytes(), &mut into);
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn colours_titles_and_control_characters_are_taken_out() {
        assert_eq!(cleaned("\u{1b}[1;31merror\u{1b}[0m: x"), "error: x");
        assert_eq!(cleaned("\u{1b}]0;title\u{7}text"), "text");
        assert_eq!(cleaned("\u{1b}]8;;https://x\u{1b}\\link"), "link");
        assert_eq!(cleaned("a\u{8}b\u{9b}c\td\u{7f}"), "abc d");
        assert_eq!(cleaned("é → plain"), "é → plain");
        assert_eq!(cleaned("\u{1b}[31"), "");
        assert_eq!(cleaned("\u{1b}"), "");
    }

    #[test]
    fn a_quote_is_one_short_line() {
        let quote = quote("\u{202e}  ä".repeat(300).as_bytes());
        assert_eq!(quote.chars().count(), QUOTE_CHARS);
        assert!(quote.ends_with('…'));
        assert!(!quote.contains('\u{202e}'));
    }
}
