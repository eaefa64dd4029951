//! From a conversation to tokens and the mask that says which of them are trained.
//!
//! The answer's place is found by prefix difference: the template renders the conversation up to the answer, with the
//! generation prompt, and the same with the answer; what the second adds is the answer. No knowledge of any one
//! template is needed, and a template that would break the rule is an error instead of a wrong mask. Masking by the
//! id of the padding token, as is often done, would hide the end token where both are the same.
//!
//! Some templates rewrite an earlier answer once more follows (they take its thoughts away, or move the system text).
//! Such an answer stands in the row as generation would see it, but is not trained: nobody would ever write it so. The
//! last answer is always trained, or the conversation is refused.

mod text;

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokenizers::Tokenizer;
use tunesmith_models::{ChatTemplate, Message, Model, ModelError, caught};

use crate::files::hash_bytes;
use crate::{DataError, Example, Row, Rows, RowsInfo, RowsReport, Sample, SamplePart};

/// What to do with rows that are too long. They are never cut: half an answer teaches to stop halfway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongRows {
    /// Refuse the data set and name them.
    #[default]
    Error,
    /// Leave them out and count them.
    Drop,
}

/// What rows may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Longest row in tokens; the model's context where absent.
    pub max_length: Option<usize>,
    /// What to do with longer ones.
    pub long_rows: LongRows,
}

/// A model's tokenizer and chat template, ready to make rows and prompts.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    /// Base models have none, which matters once a conversation is to be rendered.
    template: Option<ChatTemplate>,
    end_tokens: Vec<EndToken>,
    pad: Option<u32>,
    context: usize,
    vocabulary: usize,
    /// Where the model lies, for errors.
    model: PathBuf,
}

#[derive(Debug)]
struct EndToken {
    id: u32,
    text: String,
}

/// What a finished row holds of its answers, counted over all rows beside the code that masks them.
#[derive(Default)]
struct Audit {
    answers: usize,
    answer_tokens: usize,
    answers_outside: usize,
    ends_untrained: usize,
}

/// A row before the checks that need all rows.
struct Encoded {
    row: Row,
    boundary_differs: bool,
    text_altered: bool,
    /// Answers that stand in the row without being trained, by their place among the messages.
    rewritten: Vec<usize>,
}

/// Where an answer stands in the text of a whole conversation.
enum Place {
    /// In these bytes, its end token included, as when it was the last one.
    Stable(Range<usize>),
    /// The template makes something else of it, or of what stands before it.
    Rewritten(DataError),
}

/// What was found out about rows beyond the rows.
#[derive(Default)]
struct Findings {
    boundary_differences: usize,
    altered_texts: usize,
    rewritten_answers: usize,
    audit: Audit,
}

impl Encoder {
    /// Takes tokenizer, chat template, end tokens, context and vocabulary from the model. A model without a chat
    /// template makes rows of running text and nothing else.
    ///
    /// # Errors
    /// [`DataError::Model`] when the model lacks one of the others.
    pub fn new(model: &Model) -> Result<Self, DataError> {
        let config = model.config();
        let template = match model.chat_template() {
            Ok(template) => Some(template),
            Err(ModelError::NoChatTemplate { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            pad: model.pad_token()?,
            ..Self::from_parts(
                model.tokenizer()?,
                template,
                &model.stop_tokens()?,
                config.context_length,
                config.vocab_size,
                model.path(),
            )
        })
    }

    fn from_parts(
        mut tokenizer: Tokenizer,
        template: Option<ChatTemplate>,
        stop_tokens: &[u32],
        context: usize,
        vocabulary: usize,
        model: &Path,
    ) -> Self {
        // A tokenizer file may ask for truncation or padding, both of which would change rows without a word.
        // Switching truncation off cannot fail.
        let _ = tokenizer.with_truncation(None);
        tokenizer.with_padding(None);
        let end_tokens = stop_tokens
            .iter()
            .filter_map(|&id| tokenizer.id_to_token(id).map(|text| EndToken { id, text }))
            .filter(|token| !token.text.is_empty())
            .collect();
        Self {
            tokenizer,
            template,
            end_tokens,
            pad: None,
            context,
            vocabulary,
            model: model.to_owned(),
        }
    }

    /// The row of one conversation, every answer in it supervised from its first token to its end token, except for
    /// those that the template rewrites once more follows. What the template writes after the last end token is cut
    /// off. The length is not limited here.
    ///
    /// # Errors
    /// [`DataError`] when the template or the tokenizer does not accept the conversation, or the answers cannot be
    /// located in it.
    pub fn row(&self, example: &Example) -> Result<Row, DataError> {
        Ok(self.encode(example)?.row)
    }

    /// The tokens of a conversation that waits for an answer: what generation starts from, and exactly what stands
    /// before the answer in a row.
    ///
    /// # Errors
    /// [`DataError`] when the template or the tokenizer does not accept the conversation.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>, DataError> {
        let id = "prompt";
        self.refuse_end_tokens(id, messages)?;
        let text = self.render(id, messages, true)?;
        self.tokenize(id, &text)
    }

    /// The rows of a data set with what was counted. `progress` is told (examples done, all examples).
    ///
    /// # Errors
    /// As [`Encoder::row`], and [`DataError::LongRows`], [`DataError::TooFewRows`], [`DataError::MaxLength`].
    pub fn rows(
        &self,
        examples: &[Example],
        policy: Policy,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Rows, RowsReport), DataError> {
        let limit = self.limit(policy)?;
        let mut kept = Vec::with_capacity(examples.len());
        let mut long: Vec<(usize, &str)> = Vec::new();
        let mut findings = Findings::default();
        for (index, example) in examples.iter().enumerate() {
            #[cfg_attr(not(feature = "inject-faults"), allow(unused_mut))]
            let mut encoded = self.encode(example)?;
            #[cfg(feature = "inject-faults")]
            crate::faults::spoil(&mut encoded.row, &self.end_ids(), self.vocabulary);
            let length = encoded.row.input_ids.len();
            if length > limit {
                long.push((length, &example.id));
            } else {
                findings.boundary_differences += usize::from(encoded.boundary_differs);
                findings.altered_texts += usize::from(encoded.text_altered);
                findings.rewritten_answers += encoded.rewritten.len();
                self.audit(example, &encoded, &mut findings.audit)?;
                kept.push((example.id.as_str(), encoded.row));
            }
            progress(index as u64 + 1, examples.len() as u64);
        }
        if policy.long_rows == LongRows::Error
            && let Some(&(longest, longest_id)) = long.iter().max_by_key(|(length, _)| *length)
        {
            return Err(DataError::LongRows {
                count: long.len(),
                total: examples.len(),
                limit,
                longest,
                longest_id: longest_id.to_owned(),
                context: self.context,
            });
        }
        if kept.len() < 2 {
            return Err(DataError::TooFewRows {
                left: kept.len(),
                total: examples.len(),
                limit,
            });
        }
        let sample = self.sample(kept[0].0, &kept[0].1)?;
        let rows = Rows {
            rows: kept.into_iter().map(|(_, row)| row).collect(),
        };
        let report = self.count(&rows, long.len(), &findings, sample);
        Ok((rows, report))
    }

    /// Longest row that the policy allows with this model, in tokens.
    ///
    /// # Errors
    /// [`DataError::MaxLength`] when it asks for more than the model's context, or for less than two tokens.
    pub fn limit(&self, policy: Policy) -> Result<usize, DataError> {
        let max_length = policy.max_length.unwrap_or(self.context);
        if !(2..=self.context).contains(&max_length) {
            return Err(DataError::MaxLength {
                max_length,
                context: self.context,
            });
        }
        Ok(max_length)
    }

    /// The description to write beside the rows.
    ///
    /// # Errors
    /// As [`Encoder::limit`] and [`Encoder::tokenizer_sha256`].
    pub fn info(
        &self,
        source: &str,
        source_sha256: &str,
        policy: Policy,
        report: &RowsReport,
    ) -> Result<RowsInfo, DataError> {
        Ok(RowsInfo {
            source: source.to_owned(),
            source_sha256: source_sha256.to_owned(),
            template_sha256: self.template_sha256(),
            tokenizer_sha256: self.tokenizer_sha256()?,
            max_length: self.limit(policy)?,
            report: report.clone(),
        })
    }

    /// SHA-256 of what the chat template makes of fixed conversations: equal for templates that do the same, whatever
    /// their wording, and another one each day for a template that writes the date, as the rows then are too.
    pub fn template_sha256(&self) -> String {
        let turns = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "v")];
        let turns = turns.map(|(role, content)| Message {
            role: role.to_owned(),
            content: content.to_owned(),
        });
        let mut texts = String::new();
        for messages in [&turns[..2], &turns[..3], &turns, &turns[1..2], &turns[1..3]] {
            for generation_prompt in [false, true] {
                // A conversation that the template refuses is a property of it too.
                let template = self.template.as_ref();
                let text = template.and_then(|template| template.render(messages, generation_prompt).ok());
                texts.push_str(&text.unwrap_or_default());
                texts.push('\0');
            }
        }
        hash_bytes(texts.as_bytes())
    }

    /// SHA-256 of the tokenizer in the form of a `tokenizer.json` without white space.
    ///
    /// # Errors
    /// [`DataError::Tokenize`] when it cannot be written in that form.
    pub fn tokenizer_sha256(&self) -> Result<String, DataError> {
        let json = self
            .tokenizer
            .to_string(false)
            .map_err(|e| tokenize_error("tokenizer", &e))?;
        Ok(hash_bytes(json.as_bytes()))
    }

    /// The text of tokens, special ones included.
    ///
    /// # Errors
    /// [`DataError::Tokenize`] when the tokenizer cannot decode them.
    pub fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        let id = "decoded text";
        caught(|| self.tokenizer.decode(ids, false))
            .map_err(|reason| tokenize_panic(id, reason))?
            .map_err(|e| tokenize_error(id, &e))
    }

    fn encode(&self, example: &Example) -> Result<Encoded, DataError> {
        let Example { id, messages } = example;
        self.refuse_end_tokens(id, messages)?;
        let whole = self.render(id, messages, false)?;
        let mut row = Row {
            input_ids: Vec::new(),
            supervised: Vec::new(),
        };
        let (mut done, mut rewritten) = (0, Vec::new());
        for index in (0..messages.len()).filter(|&index| messages[index].role == "assistant") {
            let answer = match self.place_of_answer(id, messages, index, &whole, done)? {
                Place::Stable(answer) => answer,
                Place::Rewritten(error) if index + 1 == messages.len() => return Err(error),
                Place::Rewritten(_) => {
                    rewritten.push(index);
                    continue;
                }
            };
            let context = self.tokenize(id, &whole[done..answer.start])?;
            row.push(&context, false);
            let tokens = self.tokenize(id, &whole[answer.clone()])?;
            if !tokens
                .last()
                .is_some_and(|last| self.end_tokens.iter().any(|token| token.id == *last))
            {
                return Err(self.no_end_token(id));
            }
            row.push(&tokens, true);
            done = answer.end;
        }
        // Nothing stands before the first token that could predict it.
        if let Some(first) = row.supervised.first_mut() {
            *first = false;
        }
        self.refuse_unknown_tokens(id, &row.input_ids)?;
        let boundary_differs = !self.tokenize(id, &whole)?.starts_with(&row.input_ids);
        // A byte-level tokenizer without an unknown token leaves out what it has no token for, without a word.
        let text_altered = self.decode(&row.input_ids)? != whole[..done];
        Ok(Encoded {
            row,
            boundary_differs,
            text_altered,
            rewritten,
        })
    }

    /// Looks at a finished row as a stranger would: are the answers of its example what it trains?
    fn audit(&self, example: &Example, encoded: &Encoded, audit: &mut Audit) -> Result<(), DataError> {
        let row = &encoded.row;
        let trained: Vec<u32> = row
            .input_ids
            .iter()
            .zip(&row.supervised)
            .filter_map(|(id, supervised)| supervised.then_some(*id))
            .collect();
        let trained = self.decode(&trained)?;
        let mut outside = false;
        for (index, message) in example.messages.iter().enumerate() {
            if message.role != "assistant" || encoded.rewritten.contains(&index) {
                continue;
            }
            let tokens = self.tokenize(&example.id, message.content.trim())?;
            audit.answers += 1;
            audit.answer_tokens += tokens.len();
            // Decoded again, since a tokenizer may have no token for some character.
            outside |= !trained.contains(self.decode(&tokens)?.trim());
        }
        audit.answers_outside += usize::from(outside);
        let last = row.input_ids.last().zip(row.supervised.last());
        audit.ends_untrained += usize::from(last.is_some_and(|(id, supervised)| {
            !supervised && self.end_tokens.iter().any(|token| token.id == *id)
        }));
        Ok(())
    }

    #[cfg(feature = "inject-faults")]
    fn end_ids(&self) -> Vec<u32> {
        self.end_tokens.iter().map(|token| token.id).collect()
    }

    fn refuse_unknown_tokens(&self, id: &str, tokens: &[u32]) -> Result<(), DataError> {
        match tokens.iter().find(|token| **token as usize >= self.vocabulary) {
            None => Ok(()),
            Some(&token) => Err(DataError::OutsideVocabulary {
                place: format!("row {id}"),
                token,
                vocabulary: self.vocabulary,
            }),
        }
    }

    /// Where the answer `messages[index]` stands in the text `whole`. `done` is where the answer before it ended.
    fn place_of_answer(
        &self,
        id: &str,
        messages: &[Message],
        index: usize,
        whole: &str,
        done: usize,
    ) -> Result<Place, DataError> {
        let changed = |expected: &str, found: &str| {
            let (expected, found) = where_they_part(expected, found);
            Ok(Place::Rewritten(DataError::TemplatePrefix {
                id: id.to_owned(),
                message: index + 1,
                expected,
                found,
            }))
        };
        let prefix = self.render(id, &messages[..index], true)?;
        let with_answer = self.render(id, &messages[..=index], false)?;
        let Some(added) = with_answer.strip_prefix(&prefix) else {
            return changed(&prefix, &with_answer);
        };
        // No message contains an end token as text, so the first one is the answer's.
        let ends = self
            .end_tokens
            .iter()
            .filter_map(|token| Some(added.find(&token.text)? + token.text.len()));
        let end = prefix.len() + ends.min().ok_or_else(|| self.no_end_token(id))?;
        // In the whole conversation this answer must stand as it did when it was the last one.
        if !whole.starts_with(&with_answer[..end]) {
            return changed(&with_answer[..end], whole);
        }
        if prefix.len() < done {
            return changed(&whole[..done], &prefix);
        }
        Ok(Place::Stable(prefix.len()..end))
    }

    fn refuse_end_tokens(&self, id: &str, messages: &[Message]) -> Result<(), DataError> {
        for (index, message) in messages.iter().enumerate() {
            if let Some(token) = self
                .end_tokens
                .iter()
                .find(|token| message.content.contains(&token.text))
            {
                let (id, token) = (id.to_owned(), token.text.clone());
                return Err(DataError::EndTokenInText {
                    id,
                    message: index + 1,
                    token,
                });
            }
        }
        Ok(())
    }

    fn render(&self, id: &str, messages: &[Message], generation_prompt: bool) -> Result<String, DataError> {
        let template = self.template.as_ref().ok_or_else(|| ModelError::NoChatTemplate {
            path: self.model.clone(),
        })?;
        template
            .render(messages, generation_prompt)
            .map_err(|source| DataError::Template {
                id: id.to_owned(),
                source,
            })
    }

    /// Special tokens are written by the template, so the tokenizer adds none.
    fn tokenize(&self, id: &str, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = caught(|| self.tokenizer.encode_fast(text, false))
            .map_err(|reason| tokenize_panic(id, reason))?
            .map_err(|e| tokenize_error(id, &e))?;
        Ok(encoding.get_ids().to_vec())
    }

    fn no_end_token(&self, id: &str) -> DataError {
        let tokens: Vec<&str> = self.end_tokens.iter().map(|token| token.text.as_str()).collect();
        let tokens = if tokens.is_empty() {
            "it has none".to_owned()
        } else {
            tokens.join(", ")
        };
        DataError::NoEndToken {
            id: id.to_owned(),
            tokens,
        }
    }

    /// A row as text, in pieces that are supervised or not.
    ///
    /// # Errors
    /// [`DataError::Tokenize`] when the tokenizer cannot decode it.
    pub fn sample(&self, id: &str, row: &Row) -> Result<Sample, DataError> {
        let mut parts = Vec::new();
        let mut start = 0;
        for marks in row.supervised.chunk_by(|a, b| a == b) {
            let end = start + marks.len();
            parts.push(SamplePart {
                supervised: marks[0],
                text: self.decode(&row.input_ids[start..end])?,
            });
            start = end;
        }
        Ok(Sample {
            id: id.to_owned(),
            parts,
        })
    }

    fn count(&self, rows: &Rows, dropped_rows: usize, findings: &Findings, sample: Sample) -> RowsReport {
        let lengths = || rows.rows.iter().map(|row| row.input_ids.len());
        let (real_tokens, supervised_tokens) = (rows.tokens(), rows.supervised_tokens());
        let distinct: HashSet<&Row> = rows.rows.iter().collect();
        RowsReport {
            rows: rows.rows.len(),
            dropped_rows,
            duplicates: rows.rows.len() - distinct.len(),
            real_tokens,
            supervised_tokens,
            supervised_share: supervised_tokens as f64 / real_tokens as f64,
            fewest_supervised: rows
                .rows
                .iter()
                .map(Row::supervised_tokens)
                .min()
                .unwrap_or_default(),
            longest: lengths().max().unwrap_or_default(),
            shortest: lengths().min().unwrap_or_default(),
            mean_length: real_tokens as f64 / rows.rows.len() as f64,
            boundary_differences: findings.boundary_differences,
            altered_texts: findings.altered_texts,
            rewritten_answers: findings.rewritten_answers,
            most_supervised: rows
                .rows
                .iter()
                .map(Row::supervised_tokens)
                .max()
                .unwrap_or_default(),
            answers: findings.audit.answers,
            answer_tokens: findings.audit.answer_tokens,
            answers_outside: findings.audit.answers_outside,
            ends_untrained: findings.audit.ends_untrained,
            pad_is_end: self
                .pad
                .is_some_and(|pad| self.end_tokens.iter().any(|token| token.id == pad)),
            largest_token: rows
                .rows
                .iter()
                .flat_map(|row| &row.input_ids)
                .copied()
                .max()
                .unwrap_or_default(),
            vocabulary: self.vocabulary,
            sample,
        }
    }
}

impl Row {
    fn push(&mut self, tokens: &[u32], supervised: bool) {
        self.input_ids.extend_from_slice(tokens);
        self.supervised.resize(self.input_ids.len(), supervised);
    }
}

fn tokenize_panic(id: &str, reason: String) -> DataError {
    DataError::Tokenize {
        id: id.to_owned(),
        reason,
    }
}

fn tokenize_error(id: &str, error: &tokenizers::Error) -> DataError {
    DataError::Tokenize {
        id: id.to_owned(),
        reason: error.to_string(),
    }
}

/// The first difference of two texts, each with a little of what follows.
fn where_they_part(expected: &str, found: &str) -> (String, String) {
    let same: usize = expected
        .chars()
        .zip(found.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    let excerpt = |text: &str| text[same..].chars().take(40).collect();
    (excerpt(expected), excerpt(found))
}

#[cfg(test)]
pub(crate) mod tests;
