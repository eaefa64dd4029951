//! Text of an answer while its tokens come: pieces that, one after the other, are the text of all tokens together. A
//! character of several tokens comes whole or not yet.

use tokenizers::Tokenizer;

/// What a decoder writes for bytes that are no character, or not yet one.
const NO_CHARACTER: char = '\u{FFFD}';

/// Turns tokens into pieces of text.
pub struct Pieces<'a> {
    tokenizer: &'a Tokenizer,
    tokens: Vec<u32>,
    /// What was given out.
    given: String,
}

impl<'a> Pieces<'a> {
    /// Begins a text.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self {
            tokenizer,
            tokens: Vec::new(),
            given: String::new(),
        }
    }

    /// The text that is sure to come next, now that this token is there; `None` where there is none yet. Special tokens
    /// have no text.
    pub fn push(&mut self, token: u32) -> Option<String> {
        self.tokens.push(token);
        if self.tells_nothing_yet(token) {
            return None;
        }
        // All of it each time: what a token means to some decoders depends on what stands before it. An answer has
        // hundreds of tokens, and a model takes far longer for one of them.
        let text = self.tokenizer.decode(&self.tokens, true).ok()?;
        // The bytes at the end may become a character with the next token.
        self.give(text.trim_end_matches(NO_CHARACTER))
    }

    /// What is left of the whole text; `None` where nothing is.
    pub fn finish(mut self, text: &str) -> Option<String> {
        self.give(text)
    }

    fn give(&mut self, text: &str) -> Option<String> {
        let piece = text
            .strip_prefix(self.given.as_str())
            .filter(|piece| !piece.is_empty())?
            .to_owned();
        self.given.push_str(&piece);
        Some(piece)
    }

    /// A vocabulary may hold single bytes as `<0x41>`. A row of them is decoded as a whole: one byte more can undo
    /// characters before it. A special token has no text, and does not end such a row.
    fn tells_nothing_yet(&self, token: u32) -> bool {
        self.tokenizer.id_to_token(token).is_some_and(|text| {
            let is_byte = text.len() == 6 && text.starts_with("<0x") && text.ends_with('>');
            is_byte || self.tokenizer.get_added_vocabulary().is_special_token(&text)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokenizers::decoders::byte_fallback::ByteFallback;
    use tokenizers::decoders::byte_level::ByteLevel;
    use tokenizers::decoders::fuse::Fuse;
    use tokenizers::decoders::sequence::Sequence;
    use tokenizers::models::bpe::{BPE, Vocab};
    use tokenizers::{AddedToken, DecoderWrapper};

    use super::*;

    /// A token for every byte, as GPT-2's vocabulary writes it, and a special one.
    fn byte_level() -> Tokenizer {
        let mut letters: Vec<char> = ByteLevel::alphabet().into_iter().collect();
        letters.sort_unstable();
        let tokens = letters.iter().map(ToString::to_string);
        with_decoder(tokens, ByteLevel::new(false, true, true).into())
    }

    /// A token for every byte, written as its number, and some words.
    fn byte_fallback() -> Tokenizer {
        let bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
        let words = [" and", "é", "日本"].map(str::to_owned);
        let decoder = Sequence::new(vec![ByteFallback::new().into(), Fuse::new().into()]);
        with_decoder(bytes.chain(words), decoder.into())
    }

    fn with_decoder(tokens: impl Iterator<Item = String>, decoder: DecoderWrapper) -> Tokenizer {
        let vocabulary: Vocab = tokens.zip(0..).collect();
        let model = BPE::builder()
            .vocab_and_merges(vocabulary, Vec::new())
            .build()
            .unwrap();
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_decoder(Some(decoder));
        tokenizer
            .add_special_tokens([AddedToken::from("<|end|>", true)])
            .unwrap();
        tokenizer
    }

    fn pieces(tokenizer: &Tokenizer, tokens: &[u32]) -> (Vec<String>, String) {
        let whole = tokenizer.decode(tokens, true).unwrap();
        let mut pieces = Pieces::new(tokenizer);
        let mut given: Vec<String> = tokens.iter().filter_map(|token| pieces.push(*token)).collect();
        given.extend(pieces.finish(&whole));
        (given, whole)
    }

    fn spelled(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        let encoder = ByteLevel::new(false, true, false);
        let mut words = tokenizers::PreTokenizedString::from(text);
        tokenizers::PreTokenizer::pre_tokenize(&encoder, &mut words).unwrap();
        let spelled: String = words
            .get_splits(
                tokenizers::OffsetReferential::Normalized,
                tokenizers::OffsetType::Byte,
            )
            .into_iter()
            .map(|(text, _, _)| text.to_owned())
            .collect();
        spelled
            .chars()
            .map(|letter| tokenizer.token_to_id(&letter.to_string()).unwrap())
            .collect()
    }

    #[test]
    fn a_character_of_several_tokens_comes_whole() {
        let tokenizer = byte_level();
        let text = "Grüße, 日本 😀!";
        let (given, whole) = pieces(&tokenizer, &spelled(&tokenizer, text));
        assert_eq!(whole, text);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(given, characters);
    }

    #[test]
    fn bytes_that_never_become_a_character_are_part_of_the_text_too() {
        let tokenizer = byte_level();
        let smile = spelled(&tokenizer, "😀");
        let a = spelled(&tokenizer, "a");
        let tokens = [&smile[..2], &a[..], &smile[..3]].concat();
        let (given, whole) = pieces(&tokenizer, &tokens);
        assert_eq!(given, ["\u{FFFD}a", "\u{FFFD}"]);
        assert_eq!(given.concat(), whole);
    }

    #[test]
    fn special_tokens_have_no_text() {
        let tokenizer = byte_level();
        let end = tokenizer.token_to_id("<|end|>").unwrap();
        let a = spelled(&tokenizer, "a")[0];
        assert_eq!(pieces(&tokenizer, &[end, a, end]).0, ["a"]);
    }

    proptest! {
        #[test]
        fn the_pieces_of_any_tokens_are_their_text(tokens in prop::collection::vec(0..257_u32, 0..40)) {
            let (given, whole) = pieces(&byte_level(), &tokens);
            prop_assert_eq!(given.concat(), whole);
        }

        #[test]
        fn the_pieces_of_any_bytes_and_words_are_their_text(tokens in prop::collection::vec(
            prop_oneof![0x40..0x60_u32, 0x80..0x100_u32, 256..260_u32], 0..40)) {
            let (given, whole) = pieces(&byte_fallback(), &tokens);
            prop_assert_eq!(given.concat(), whole);
        }
    }
}
