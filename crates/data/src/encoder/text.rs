//! Rows of running text: every token is trained, and a row ends where a paragraph ends, wherever one ends in time.

use tokenizers::Encoding;

use super::{Encoder, Findings, Policy, tokenize_error};
use crate::text::Borders;
use crate::{Content, DataError, Document, Row, Rows, RowsReport};

/// Text is tokenised in pieces of at least this many bytes, so that a book does not fill the memory with its tokens'
/// places. A piece ends with a paragraph.
const PIECE_BYTES: usize = 256 * 1024;

impl Encoder {
    /// The rows of a data set of either kind. `progress` is told (examples or documents done, all of them).
    ///
    /// # Errors
    /// As [`Encoder::rows`] and [`Encoder::text_rows`].
    pub fn rows_of(
        &self,
        content: &Content,
        policy: Policy,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Rows, RowsReport), DataError> {
        match content {
            Content::Conversations(examples) => self.rows(examples, policy, progress),
            Content::Text(documents) => self.text_rows(documents, policy, progress),
        }
    }

    /// The rows of running text, each as long as the policy allows and whole paragraphs allow. Every token but a row's
    /// first is supervised; what the tokenizer puts before a text (a beginning token) stands before every row.
    ///
    /// A paragraph that is longer than a row is cut between lines, and a line that is longer between tokens.
    ///
    /// # Errors
    /// [`DataError::TooFewRows`], [`DataError::MaxLength`], [`DataError::Tokenize`], [`DataError::OutsideVocabulary`].
    pub fn text_rows(
        &self,
        documents: &[Document],
        policy: Policy,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Rows, RowsReport), DataError> {
        let limit = self.limit(policy)?;
        let opening = self.opening()?;
        let Some(room) = limit.checked_sub(opening.len()).filter(|room| *room > 0) else {
            return Err(DataError::MaxLength {
                max_length: limit,
                context: self.context,
            });
        };
        let mut rows = Vec::new();
        let (mut findings, mut left_out) = (Findings::default(), 0);
        for (index, document) in documents.iter().enumerate() {
            for piece in pieces(document) {
                let encoding = self
                    .tokenizer
                    .encode(piece, false)
                    .map_err(|error| tokenize_error(&document.id, &error))?;
                self.refuse_unknown_tokens(&document.id, encoding.get_ids())?;
                let starts: Vec<usize> = encoding.get_offsets().iter().map(|(start, _)| *start).collect();
                let mut start = 0;
                for end in ends_of_rows(&starts, &Borders::of(piece, document.markdown), room) {
                    let ids = &encoding.get_ids()[start..end];
                    let text = &piece[starts[start]..starts.get(end).copied().unwrap_or(piece.len())];
                    start = end;
                    let row = text_row(&opening, ids);
                    if row.supervised_tokens() == 0 {
                        left_out += 1;
                        continue;
                    }
                    // White space at the borders belongs to a token whose place begins after it.
                    findings.altered_texts += usize::from(self.decode(ids)?.trim() != text.trim());
                    rows.push(row);
                }
            }
            progress(index as u64 + 1, documents.len() as u64);
        }
        if rows.len() < 2 {
            return Err(DataError::TooFewRows {
                left: rows.len(),
                total: rows.len() + left_out,
                limit,
            });
        }
        let id = documents.first().map_or("", |document| document.id.as_str());
        let sample = self.sample(id, &rows[0])?;
        let rows = Rows { rows };
        let report = self.count(&rows, left_out, &findings, sample);
        Ok((rows, report))
    }

    /// What the tokenizer puts before a text by itself.
    fn opening(&self) -> Result<Vec<u32>, DataError> {
        let encode = |special: bool| -> Result<Encoding, DataError> {
            self.tokenizer
                .encode("a", special)
                .map_err(|error| tokenize_error("a", &error))
        };
        let (plain, special) = (encode(false)?, encode(true)?);
        let text = plain.get_ids();
        let before = special
            .get_ids()
            .windows(text.len().max(1))
            .position(|window| window == text)
            .unwrap_or(0);
        Ok(special.get_ids()[..before].to_vec())
    }
}

fn text_row(opening: &[u32], ids: &[u32]) -> Row {
    let input_ids: Vec<u32> = opening.iter().chain(ids).copied().collect();
    let mut supervised = vec![false; opening.len()];
    supervised.resize(input_ids.len(), true);
    // Nothing stands before the first token that could predict it.
    if let Some(first) = supervised.first_mut() {
        *first = false;
    }
    Row {
        input_ids,
        supervised,
    }
}

fn pieces(document: &Document) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for border in Borders::of(&document.text, document.markdown).paragraphs {
        if border - start >= PIECE_BYTES {
            pieces.push(&document.text[start..border]);
            start = border;
        }
    }
    pieces.push(&document.text[start..]);
    pieces
}

/// The number of the token after the last one of each row, in ascending order; the last is the number of tokens.
/// `starts` are the tokens' places in the text, in bytes; a row holds at most `room` tokens.
fn ends_of_rows(starts: &[usize], borders: &Borders, room: usize) -> Vec<usize> {
    let first_token = |border: &usize| starts.partition_point(|start| start < border);
    let paragraphs: Vec<usize> = borders.paragraphs.iter().map(first_token).collect();
    let lines: Vec<usize> = borders.lines.iter().map(first_token).collect();
    let mut ends = Vec::new();
    let mut from = 0;
    while starts.len() - from > room {
        let furthest = from + room;
        let last_of = |ends: &[usize]| {
            let fitting = ends.partition_point(|end| *end <= furthest);
            fitting
                .checked_sub(1)
                .map(|at| ends[at])
                .filter(|end| *end > from)
        };
        // A letter may be several tokens, which have one place: a cut within it would leave two halves of nothing.
        let between_letters = || {
            (from + 1..=furthest)
                .rev()
                .find(|&end| starts[end] != starts[end - 1])
        };
        from = last_of(&paragraphs)
            .or_else(|| last_of(&lines))
            .or_else(between_letters)
            .unwrap_or(furthest);
        ends.push(from);
    }
    if from < starts.len() {
        ends.push(starts.len());
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_with_paragraphs_then_lines_then_letters() {
        let borders = |paragraphs: &[usize], lines: &[usize]| Borders {
            paragraphs: paragraphs.to_vec(),
            lines: lines.to_vec(),
        };
        let starts: Vec<usize> = (0..10).collect();
        assert_eq!(ends_of_rows(&starts, &borders(&[3, 5], &[3, 4, 5]), 6), [5, 10]);
        assert_eq!(ends_of_rows(&starts, &borders(&[9], &[4, 8]), 6), [4, 10]);
        assert_eq!(ends_of_rows(&starts, &borders(&[], &[]), 4), [4, 8, 10]);
        // The letter that begins at byte 3 is three tokens.
        assert_eq!(
            ends_of_rows(&[0, 1, 2, 3, 3, 3, 6], &borders(&[], &[]), 5),
            [3, 7]
        );
        assert_eq!(ends_of_rows(&[0, 0, 0, 0], &borders(&[], &[]), 2), [2, 4]);
        assert_eq!(ends_of_rows(&[], &borders(&[], &[]), 2), [0; 0]);
    }
}
