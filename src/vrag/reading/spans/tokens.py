"""The tokens and sentences of running text in any script, with the properties that spans are made of.

Words of scripts with spaces are one token each; runs of katakana too. Every other Chinese, Japanese or Thai
character is a token of its own, since boundaries of words are not written there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vrag.text.folding import DIGIT_SEPARATORS, INVISIBLE, MARKS, fold_case
from vrag.text.terms import stem


class TokenKind(IntEnum):
    """The script or class of a token."""

    PUNCTUATION = 0
    WORD = 1
    NUMBER = 2
    KATAKANA = 3
    IDEOGRAPH = 4
    HIRAGANA = 5
    SYLLABLE = 6
    """A character of another script without spaces between words."""


_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々〇"
_LETTERS = rf"(?:[^\W\d_\u0e00-\u0eff\u3040-\u30ff{_IDEOGRAPHS}]|[{MARKS}]|(?<=\w)[{INVISIBLE}]+(?=\w))+"
_TOKEN = re.compile(
    rf"""(?P<number>\d+(?:[.,:{DIGIT_SEPARATORS}]\d+)*(?:(?:st|nd|rd|th|s)\b)?)
    | (?P<clitic>['’]s\b)
    | (?P<katakana>[\u30a1-\u30faー\uff66-\uff9f]+)
    | (?P<ideograph>[{_IDEOGRAPHS}])
    | (?P<hiragana>[\u3041-\u3096])
    | (?P<syllable>[\u0e00-\u0eff][\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*)
    | (?P<word>(?:[A-Z]\.){{2,}} | {_LETTERS}(?:['’](?!s\b){_LETTERS})*)
    | (?P<punctuation>[^\w\s]|_)""",
    re.VERBOSE,
)
_KINDS = {
    "number": TokenKind.NUMBER,
    "clitic": TokenKind.PUNCTUATION,
    "katakana": TokenKind.KATAKANA,
    "ideograph": TokenKind.IDEOGRAPH,
    "hiragana": TokenKind.HIRAGANA,
    "syllable": TokenKind.SYLLABLE,
    "word": TokenKind.WORD,
    "punctuation": TokenKind.PUNCTUATION,
}
MAX_TOKEN = 60
"""Longer words are garbage of a text layer; they are compared by their beginning."""
MAX_SENTENCE = 120
"""Tokens of a sentence; a longer one is cut."""

_SENTENCE_END = re.compile(
    r"""[。！？!?।؟]+["”’」』)）]* | (?<![A-Z])(?<!\bDr)(?<!\bMr)(?<!\bSt)(?<!Mrs)(?<!\bvs)(?<!\bNo)(?<!\bca)
    [.;]["”’)\]]*(?=\s+[^a-z\s]) | \n\s*\n | \n(?=\s*[-•*▪●◦–]\s)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """The tokens of a text as arrays."""

    text: str
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    kinds: NDArray[np.int8]
    words: tuple[str, ...]
    """The tokens, case folded."""
    stems: tuple[str, ...]
    capital: NDArray[np.bool_]
    """Begins with a capital letter."""
    joined: NDArray[np.bool_]
    """No space before the token."""
    sentence: NDArray[np.int32]
    """The number of the sentence of each token."""
    bounds: NDArray[np.int32]
    """The first token of each sentence, and the count of tokens; shape (sentences + 1,)."""

    def __len__(self) -> int:
        return len(self.words)


def tokenize(text: str, segments: Sequence[tuple[int, int]] = ()) -> TokenizedText:
    """Split a text into tokens and sentences; `segments` are ranges that no sentence crosses."""
    matches = list(_TOKEN.finditer(text))
    words = tuple(_fold(match.group()) for match in matches)
    starts = np.fromiter((match.start() for match in matches), np.int32, len(matches))
    ends = np.fromiter((match.end() for match in matches), np.int32, len(matches))
    kinds = np.fromiter((_KINDS[match.lastgroup or "word"] for match in matches), np.int8, len(matches))
    capital = np.fromiter((text[match.start()].isupper() for match in matches), np.bool_, len(matches))
    joined = np.zeros(len(matches), np.bool_)
    joined[1:] = starts[1:] == ends[:-1]
    bounds = _sentence_bounds(text, starts, segments)
    sentence = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    stems = tuple(stem(word) or word for word in words)
    return TokenizedText(text, starts, ends, kinds, words, stems, capital, joined, sentence, bounds)


def _sentence_bounds(
    text: str, starts: NDArray[np.int32], segments: Sequence[tuple[int, int]]
) -> NDArray[np.int32]:
    """Return the first token of each sentence and the count of tokens."""
    if not len(starts):
        return np.zeros(1, np.int32)
    cuts = [match.end() for match in _SENTENCE_END.finditer(text)]
    cuts += [edge for segment in segments for edge in segment]
    firsts = np.searchsorted(starts, np.asarray([0, *cuts], np.int64))
    edges = np.unique(np.concatenate([[0], firsts, [len(starts)]]))
    limits: list[int] = edges.tolist()
    pieces = [np.arange(a, b, MAX_SENTENCE) for a, b in pairwise(limits)]
    return np.concatenate([*pieces, [len(starts)]]).astype(np.int32)


@lru_cache(maxsize=65_536)
def _fold(word: str) -> str:
    return fold_case(word[:MAX_TOKEN])
