"""Candidate spans of a text: chunks between function words and punctuation, numbers with units, clauses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.tokens import TokenizedText, TokenKind
from vrag.reading.spans.word_weights import CJK_FUNCTION, FUNCTION_WORDS

MAX_CANDIDATES = 400
"""Candidates of one text."""
MAX_SENTENCES = 8
"""Sentences whose spans are candidates: the best ones."""
MAX_WORDS = 24
"""Tokens of a span of a script with spaces."""
MAX_CHARACTERS = 90
"""Tokens of a span of a script without."""
_REACH = 5
"""Ends that are tried for each beginning in the best sentences; fewer in the others."""
_CLAUSES = 3
"""Clauses of the longest spans in the best sentences; twice as many in scripts without spaces."""

Mask = NDArray[np.bool_]
_HARD = frozenset(';:!?()[]{}"“”«»„。；：！？（）「」『』《》〈〉【】•|—')
_SOFT = frozenset(",、，،")
_OPENING, _CLOSING = frozenset('([{"“«„（「『《〈【'), frozenset(')]}"”»“）」』》〉】')


class TextShape(NamedTuple):
    """Properties of the tokens of a text that bound spans."""

    function: Mask
    """Words of closed classes and characters that stand between words."""
    hard: Mask
    """Punctuation that a chunk does not cross."""
    soft: Mask
    """Commas."""
    character: Mask
    """Characters of scripts without spaces."""
    breaks: Mask
    """Between token i - 1 and i a word may end; shape (n + 1,)."""
    phrase: Mask
    """Between token i - 1 and i a phrase may end: at punctuation and at words of closed classes."""


class SpanList(NamedTuple):
    """Spans as ranges of tokens."""

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    """The last token, inclusive."""


def shape_text(text: TokenizedText, common: Mask, matched: Mask) -> TextShape:
    """Find what bounds the spans of a text.

    `common` are words that stand in most texts of their language, `matched` the tokens that the question has.
    """
    size = len(text)
    kinds = text.kinds
    character = kinds >= TokenKind.IDEOGRAPH
    closed = np.fromiter(
        (
            word in (CJK_FUNCTION if is_cjk else FUNCTION_WORDS)
            for word, is_cjk in zip(text.words, character, strict=True)
        ),
        np.bool_,
        size,
    )
    mark = kinds == TokenKind.PUNCTUATION
    function = (closed | (common & (kinds == TokenKind.WORD))) & ~mark
    hard = np.fromiter((word in _HARD for word in text.words), np.bool_, size) & mark
    soft = np.fromiter((word in _SOFT for word in text.words), np.bool_, size) & mark
    breaks, phrase = np.ones(size + 1, np.bool_), np.ones(size + 1, np.bool_)
    if size > 1:
        inner = character[1:] & character[:-1]
        changes = (kinds[1:] != kinds[:-1]) | (function[1:] != function[:-1]) | (matched[1:] != matched[:-1])
        glued = text.joined[1:] & (mark[1:] | mark[:-1]) & ~hard[1:] & ~hard[:-1] & ~soft[1:] & ~soft[:-1]
        breaks[1:-1] = np.where(inner, changes, ~glued)
        phrase[1:-1] = mark[1:] | mark[:-1] | function[1:] | function[:-1] | (inner & changes)
        phrase[1:-1] |= text.sentence[1:] != text.sentence[:-1]
    return TextShape(function, hard, soft, character, breaks, phrase)


def list_spans(text: TokenizedText, shape: TextShape, ranking: NDArray[np.int64]) -> SpanList:
    """List candidate spans of the best sentences, those of the best sentence first.

    `ranking` numbers the sentences from the best on.
    """
    found: list[NDArray[np.int64]] = []
    count = 0
    for rank, number in enumerate(ranking[:MAX_SENTENCES].tolist()):
        first, last = int(text.bounds[number]), int(text.bounds[number + 1])
        spans = _spans_of(text, shape, first, last, rank)
        found.append(spans)
        count += len(spans)
        if count >= MAX_CANDIDATES:
            break
    if not found:
        return SpanList(np.zeros(0, np.int32), np.zeros(0, np.int32))
    spans = np.concatenate(found)[:MAX_CANDIDATES]
    return SpanList(spans[:, 0].astype(np.int32), spans[:, 1].astype(np.int32))


def _spans_of(text: TokenizedText, shape: TextShape, first: int, last: int, rank: int) -> NDArray[np.int64]:
    """List the spans of one sentence, given as a range of tokens; shape (n, 2)."""
    at = np.arange(first, last)
    mark = text.kinds[first:last] == TokenKind.PUNCTUATION
    symbol = np.fromiter((text.words[k] in "$€£¥#%‰°+-−–" for k in at), np.bool_, len(at)) & mark
    function = shape.function[first:last]
    content = ~mark & ~function
    may_begin = (content | (symbol & ~np.isin(at, [last - 1]))) & shape.breaks[first:last]
    may_end = (content | symbol) & shape.breaks[first + 1 : last + 1]
    may_end |= shape.character[first:last] & ~mark & shape.phrase[first + 1 : last + 1]
    reach = _REACH if rank < 2 else 3
    has_characters = bool(shape.character[first:last].any())
    near = _pair(at[may_begin], at[may_end], reach + has_characters)
    word = ~mark
    behind_function = np.append(False, function[:-1]) & shape.character[first:last]
    opens = word & shape.phrase[first:last] & (_behind(shape, first, last) | function | behind_function)
    closes = word & np.append((shape.hard | shape.soft)[first + 1 : last], True)
    long = _pair(at[opens], at[closes], _CLAUSES * (1 + has_characters) if rank < 3 else 1)
    chunks = _pair(
        at[content & shape.phrase[first:last]], at[content & shape.phrase[first + 1 : last + 1]], reach
    )
    spans = np.unique(np.concatenate([near, chunks, long]), axis=0)
    return spans[_is_plausible(shape, spans)]


def _behind(shape: TextShape, first: int, last: int) -> Mask:
    """Return whether each token stands at the beginning or behind punctuation."""
    return np.append(True, (shape.hard | shape.soft)[first : last - 1])


def _pair(begins: NDArray[np.int64], ends: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
    """Pair each beginning with the next ends."""
    if not len(begins) or not len(ends):
        return np.zeros((0, 2), np.int64)
    at = np.searchsorted(ends, begins)[:, None] + np.arange(reach)[None, :]
    firsts = np.broadcast_to(begins[:, None], at.shape)[at < len(ends)]
    return np.stack([firsts, ends[at[at < len(ends)]]], axis=1)


def _is_plausible(shape: TextShape, spans: NDArray[np.int64]) -> Mask:
    """Return which spans are short enough and cross no more punctuation than answers do."""
    hard = np.concatenate([[0], np.cumsum(shape.hard)])
    soft = np.concatenate([[0], np.cumsum(shape.soft)])
    first, last = spans[:, 0], spans[:, 1]
    limit = np.where(shape.character[first], MAX_CHARACTERS, MAX_WORDS)
    crossed = hard[last + 1] - hard[first]
    return (last - first < limit) & (crossed <= 2) & (soft[last + 1] - soft[first] <= 5)
