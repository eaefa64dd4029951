"""Three references for a tokenizer that is read from a GGUF file, because none of them alone settles the question.

* `assembled`: the `tokenizers` library with the file's vocabulary and merges, the pre-tokenizer put together here after what
  `tokenizer.ggml.pre` says: each digit alone, then the pattern of GPT-2. It shares its library with the engine's side.
* `plain`: the same rules in plain Python (a pattern, a byte table, merges by rank), which shares nothing with it.
* `transformers`: `AutoTokenizer` with `gguf_file=`. It drops the digit splitter, so it counts for texts without numbers alone.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import regex
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.models import BPE

CONTROL_TOKEN = 3
NUMBER = regex.compile(r"\p{N}")
GPT2_PATTERN = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


class GgufVocabulary:
    """Tokens, merges and special tokens as the file has them."""

    def __init__(self, path: Path) -> None:
        fields = GGUFReader(str(path)).fields
        model, pre = fields["tokenizer.ggml.model"].contents(), fields["tokenizer.ggml.pre"].contents()
        if (model, pre) != ("gpt2", "smollm"):
            raise ValueError(f"these references know gpt2/smollm, the file says {model}/{pre}")
        self.tokens: list[str] = fields["tokenizer.ggml.tokens"].contents()
        self.merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
        types = fields["tokenizer.ggml.token_type"].contents()
        self.special = [token for token, kind in zip(self.tokens, types, strict=True) if kind == CONTROL_TOKEN]
        self.ids = {token: index for index, token in enumerate(self.tokens)}


def assembled(vocabulary: GgufVocabulary) -> Tokenizer:
    """The file's tokenizer, with its digit splitter."""
    tokenizer = Tokenizer(BPE(vocab=vocabulary.ids, merges=vocabulary.merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in vocabulary.special])
    return tokenizer


def byte_characters() -> list[str]:
    """The character that stands for each byte: itself where it is visible, the next one above 255 where it is not."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters, next_free = [], 0x100
    for byte in range(0x100):
        if byte in visible:
            characters.append(chr(byte))
        else:
            characters.append(chr(next_free))
            next_free += 1
    return characters


class PlainBpe:
    """Byte-level BPE in a page of Python. A byte that the vocabulary lacks is left out, as the model's own tokenizer does."""

    def __init__(self, vocabulary: GgufVocabulary) -> None:
        self.ids = vocabulary.ids
        self.ranks = {merge: rank for rank, merge in enumerate(vocabulary.merges)}
        self.bytes = byte_characters()
        self.special = regex.compile("(" + "|".join(regex.escape(token) for token in sorted(vocabulary.special, key=len, reverse=True)) + ")")
        self.known_special = set(vocabulary.special)
        self.word_ids = lru_cache(maxsize=100_000)(self._word_ids)

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        ids: list[int] = []
        for part in self.special.split(text):
            if part in self.known_special:
                ids.append(self.ids[part])
            else:
                for piece in self._split_numbers(part):
                    for word in GPT2_PATTERN.findall(piece):
                        ids.extend(self.word_ids(word))
        return ids

    @staticmethod
    def _split_numbers(text: str) -> list[str]:
        pieces, start = [], 0
        for match in NUMBER.finditer(text):
            pieces += [text[start : match.start()], match.group()]
            start = match.end()
        return [piece for piece in [*pieces, text[start:]] if piece]

    def _word_ids(self, word: str) -> list[int]:
        symbols = [self.bytes[byte] for byte in word.encode("utf-8")]
        symbols = [symbol for symbol in symbols if symbol in self.ids]
        while len(symbols) > 1:
            pairs = list(zip(symbols, symbols[1:], strict=False))
            best = min(pairs, key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            merged, index = [], 0
            while index < len(symbols):
                if tuple(symbols[index : index + 2]) == best:
                    merged.append(symbols[index] + symbols[index + 1])
                    index += 2
                else:
                    merged.append(symbols[index])
                    index += 1
            symbols = merged
        return [self.ids[symbol] for symbol in symbols]
