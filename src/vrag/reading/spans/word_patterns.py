"""Patterns of words in and around spans, conjoined with the form of the question, as hashed codes.

A code is a row of a table of weights that is learnt from training. Most patterns hold words of closed
classes and classes of words only; some hold the noun that is asked for and single words beside the span.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.matching import QuestionMatch, QuestionText
from vrag.reading.spans.span_context import SpanContext
from vrag.reading.spans.tokens import TokenizedText, TokenKind
from vrag.reading.spans.word_weights import WordClasses

CODES = 1 << 18
"""Rows of the table of weights."""
PATTERNS = 54
"""Codes of a span."""
PATH = 4
"""Words between a span and the nearest word of the question that make a path."""
Codes: TypeAlias = NDArray[np.uint32]
_EDGE = 0x1B873593
_MATCHED = 0x2545F491
_NONE = 0x68E31DA4
_CAPITAL = 0x38495AB5


@lru_cache(maxsize=131_072)
def _code(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "replace"))


def _codes(*words: str) -> Codes:
    return np.fromiter((_code(word) for word in words), np.uint32, len(words))


def mix_codes(*parts: Codes) -> Codes:
    """Combine codes into one; the order matters."""
    mixed = parts[0] * np.uint32(0x9E3779B1)
    for part in parts[1:]:
        mixed = (mixed ^ part) * np.uint32(0x85EBCA6B)
        mixed = mixed ^ (mixed >> np.uint32(15))
    return mixed


class QuestionForm(NamedTuple):
    """Codes of the words that ask and of what they ask for; shape (1,) each."""

    asks: Codes
    """The first word that asks, and the kind of answer."""
    kind: Codes
    head: Codes
    """The last word of the noun that is asked for."""
    following: Codes
    """The word behind those that ask."""
    preceding: Codes
    """The word before those that ask."""
    head_group: Codes
    """The class of the last word of the noun."""
    following_group: Codes


def form_of_question(question: QuestionText, classes: WordClasses) -> QuestionForm:
    """Return the codes of a question."""
    tokens, (first, last) = question.tokens, question.asking
    kind = question.focus.kind.value
    character = [bool(value >= TokenKind.IDEOGRAPH) for value in tokens.kinds]
    asking = "".join(tokens.words[first:last][:3]) if any(character[first:last]) else _word(tokens, first)
    heads = sorted(question.head)
    head = "".join(tokens.stems[at] for at in heads[-2:] if character[at]) if heads else ""
    head = head or (tokens.stems[heads[-1]] if heads else "")
    wide = 2 if any(character) else 1
    following = "".join(tokens.words[last : last + wide])
    preceding = "".join(tokens.words[max(first - wide, 0) : first])
    groups = classes.of([tokens.words[at] for at in heads[-1:]] or [""]), classes.of([following])
    named = _codes(f"{asking}|{kind}", kind, f"head {head}", following, preceding)
    return QuestionForm(
        *(named[at : at + 1] for at in range(5)), *(found.astype(np.uint32) for found in groups)
    )


def _word(tokens: TokenizedText, at: int) -> str:
    return tokens.words[at] if at < len(tokens) else ""


class _Words(NamedTuple):
    """Codes of the tokens of a text, with two more for the edges of a sentence at the end."""

    word: Codes
    stem: Codes
    path: Codes
    """The word if it is of a closed class, the class of the word if not."""
    suffix: Codes
    role: Codes
    """Where the question has the token, relative to the words that ask."""
    group: Codes
    """The class of the word."""


def _describe(context: SpanContext, classes: WordClasses) -> _Words:
    text, shape, match = context.text, context.shape, context.match
    word, stem = _codes(*text.words), _codes(*text.stems)
    matched = _is_matched(match)
    mark = text.kinds == TokenKind.PUNCTUATION
    group = classes.of(text.words).astype(np.uint32)
    group = np.where(
        text.capital, np.uint32(_CAPITAL), group + np.uint32(1000) * text.kinds.astype(np.uint32)
    )
    path = np.where(shape.function | mark, word, np.where(matched, np.uint32(_MATCHED), group)).astype(
        np.uint32
    )
    suffix = _codes(*(word[-3:] for word in text.words))
    role = _roles(match)
    edge = np.asarray([_EDGE], np.uint32)
    return _Words(*(np.append(codes, edge) for codes in (word, stem, path, suffix, role, group)))


def _is_matched(match: QuestionMatch) -> NDArray[np.bool_]:
    if not match.degree.shape[1]:
        return np.zeros(len(match.degree), np.bool_)
    return match.degree.max(axis=1) > 0


def _roles(match: QuestionMatch) -> Codes:
    """Return for each token the place of its word in the question: before or behind what asks, how near."""
    if not match.degree.shape[1]:
        return np.zeros(len(match.degree), np.uint32)
    first, last = match.question.asking
    at = match.places[match.degree.argmax(axis=1)]
    place = np.where(at >= last, np.minimum(at - last, 3) + 1, np.maximum(at - first, -3))
    return np.where(_is_matched(match), place + 10, 0).astype(np.uint32)


class _Sides(NamedTuple):
    """Tokens in and beside the spans."""

    left: NDArray[np.int64]
    left_2: NDArray[np.int64]
    right: NDArray[np.int64]
    right_2: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def word_patterns(context: SpanContext, types: NDArray[np.int64], classes: WordClasses) -> Codes:
    """Return the codes of each span; shape (spans, patterns)."""
    text, spans = context.text, context.spans
    first, last = spans.first.astype(np.int64), spans.last.astype(np.int64)
    words = _describe(context, classes)
    sentence = text.sentence[first]
    begin, end = text.bounds[sentence].astype(np.int64), text.bounds[sentence + 1].astype(np.int64)

    def before(steps: int) -> NDArray[np.int64]:
        return np.where(first - steps >= begin, first - steps, len(text))

    def behind(steps: int) -> NDArray[np.int64]:
        return np.where(last + steps < end, last + steps, len(text))

    size = np.minimum(last - first, 11)
    wide = np.where(size < 4, size, 4 + (size >= 6) + (size >= 10)).astype(np.uint32)
    sides = _Sides(before(1), before(2), behind(1), behind(2), first, last)
    kind = types.astype(np.uint32)
    inner = mix_codes(words.path[first], words.path[last], words.path[np.minimum(first + 1, last)], wide)
    left = _path_between(words.path, [before(step) for step in range(1, PATH + 2)])
    right = _path_between(words.path, [behind(step) for step in range(1, PATH + 2)])
    form = form_of_question(context.match.question, classes)
    columns = [
        *_around(words, sides, kind, wide),
        *_asked(words, sides, form, kind, inner, wide),
        *_named(words, sides, form, kind, inner),
        *_classed(words, sides, form, kind),
        *(left, right, mix_codes(left, form.asks), mix_codes(right, form.asks)),
        *(mix_codes(left, form.kind, kind), mix_codes(right, form.kind, kind)),
    ]
    numbers = np.arange(1, len(columns) + 1, dtype=np.uint32)
    return mix_codes(np.column_stack(columns), numbers[None]) % np.uint32(CODES)


def _around(words: _Words, sides: _Sides, kind: Codes, wide: Codes) -> list[Codes]:
    """Return patterns without the question: what spans are like and where they end."""
    path, word = words.path, words.word
    left, left_2, right, right_2, first, last = sides
    return [
        mix_codes(path[left], path[first], wide),
        mix_codes(path[last], path[right], path[right_2]),
        mix_codes(path[left_2], path[left], path[first]),
        mix_codes(word[left], kind),
        mix_codes(word[right], kind),
        mix_codes(kind, wide),
        mix_codes(words.stem[first], word[left]),
        mix_codes(words.stem[last], word[right]),
        words.stem[first],
        words.stem[last],
        mix_codes(words.suffix[last], path[right]),
        mix_codes(words.suffix[first], path[left]),
    ]


def _asked(
    words: _Words, sides: _Sides, form: QuestionForm, kind: Codes, inner: Codes, wide: Codes
) -> list[Codes]:
    """Return patterns of a span and its neighbours with the form of the question."""
    path, word, role = words.path, words.word, words.role
    left, left_2, right, right_2, first, last = sides
    return [
        mix_codes(form.asks, word[left]),
        mix_codes(form.asks, word[right]),
        mix_codes(form.asks, path[left_2], path[left]),
        mix_codes(form.asks, path[right], path[right_2]),
        mix_codes(form.asks, path[left], path[right]),
        mix_codes(form.asks, kind, wide),
        mix_codes(form.asks, inner),
        mix_codes(form.asks, words.suffix[last]),
        mix_codes(form.asks, word[first]),
        mix_codes(form.asks, role[left], role[right]),
        mix_codes(form.asks, role[left], path[first]),
        mix_codes(form.kind, path[left], kind),
        mix_codes(form.kind, path[right], kind),
        mix_codes(form.preceding, form.asks, path[left], kind),
        mix_codes(form.preceding, form.asks, path[right], kind),
    ]


def _named(words: _Words, sides: _Sides, form: QuestionForm, kind: Codes, inner: Codes) -> list[Codes]:
    """Return patterns of a span and its neighbours with the noun that is asked for and the word behind it."""
    left, _, right, _, first, last = sides
    return [
        mix_codes(form.head, kind),
        mix_codes(form.head, inner),
        mix_codes(form.head, words.stem[first]),
        mix_codes(form.head, words.stem[last]),
        mix_codes(form.head, words.stem[right]),
        mix_codes(form.head, words.word[left]),
        mix_codes(form.head, words.suffix[last]),
        mix_codes(form.following, kind),
        mix_codes(form.following, words.path[left], words.path[right]),
        mix_codes(form.following, words.stem[left]),
        mix_codes(form.following, words.stem[right]),
    ]


def _classed(words: _Words, sides: _Sides, form: QuestionForm, kind: Codes) -> list[Codes]:
    """Return patterns of the classes of words."""
    group = words.group
    left, left_2, right, right_2, first, last = sides
    return [
        mix_codes(group[left], group[first]),
        mix_codes(group[last], group[right]),
        mix_codes(group[left_2], group[left], group[right], group[right_2]),
        mix_codes(form.asks, group[first], group[last]),
        mix_codes(form.asks, group[left_2], group[left]),
        mix_codes(form.asks, group[right], group[right_2]),
        mix_codes(form.head_group, group[last], kind),
        mix_codes(form.head_group, group[left], group[right]),
        mix_codes(form.following_group, group[left], group[first]),
        mix_codes(form.following_group, group[right], kind),
    ]


def _path_between(path: Codes, steps: list[NDArray[np.int64]]) -> Codes:
    """Return the path from each span to the nearest word that the question has, going through `steps`."""
    edge = len(path) - 1
    found = np.full(len(steps[0]), _NONE, np.uint32)
    going = mix_codes(found)
    open_ = np.ones(len(found), np.bool_)
    for at in steps:
        going = mix_codes(going, path[at])
        ends = open_ & ((path[at] == _MATCHED) | (at == edge))
        found[ends] = going[ends]
        open_ &= ~ends
    return found
