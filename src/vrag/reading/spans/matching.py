"""Matches between the words of a question and those of a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vrag.reading.questions.answer_types import QuestionFocus, find_focus
from vrag.reading.spans.tokens import TokenizedText, TokenKind, tokenize
from vrag.reading.spans.word_weights import CJK_FUNCTION, WordWeights

_FIRST_CHARACTER = int(TokenKind.IDEOGRAPH)
"""Kinds from here on are single characters."""
MAX_UNITS = 24
"""Words of a question that are compared: the rarest."""
MAX_QUESTION = 400
"""Characters of a question that are read."""
_FUZZY = 0.7
"""Degree of a match by beginning only."""


@dataclass(frozen=True, slots=True)
class QuestionText:
    """A question, its words and the words that ask."""

    tokens: TokenizedText
    focus: QuestionFocus
    asking: tuple[int, int]
    """Range of the tokens that ask."""
    head: frozenset[int]
    """Tokens of the noun that is asked for."""


@dataclass(frozen=True, slots=True)
class QuestionMatch:
    """Matches between a question and the tokens of a text."""

    question: QuestionText
    degree: NDArray[np.float32]
    """The degree, 0 to 1, to which token i matches word j of the question; shape (n, units)."""
    weights: NDArray[np.float32]
    """Weight of each word of the question; they sum to 1."""
    places: NDArray[np.int32]
    """The token of the question where each word stands."""
    heads: NDArray[np.bool_]
    """Words of the question that belong to the noun asked for."""
    before: NDArray[np.int32]
    """Length of the longest run of equal tokens that ends at token i."""
    after: NDArray[np.int32]
    """The same for runs that begin at token i."""
    ends_asking: NDArray[np.int32]
    """Length of the run that ends at token i and, in the question, right before the words that ask."""
    begins_asking: NDArray[np.int32]
    """The same for runs that begin at token i and right behind the words that ask."""


def read_question(question: str) -> QuestionText:
    """Tokenise a question and find the words that ask."""
    question = question[:MAX_QUESTION]
    focus = find_focus(question)
    tokens = tokenize(question)
    first = int(np.searchsorted(tokens.ends, focus.start, "right"))
    last = int(np.searchsorted(tokens.starts, focus.end, "left"))
    return QuestionText(tokens, focus, (first, max(first, last)), _find_head(tokens, first, max(first, last)))


_VERBS = frozenset("did do does is are was were has have had can could will would may might should".split())


def _find_head(tokens: TokenizedText, first: int, last: int) -> frozenset[int]:
    """Return the tokens of the noun behind the words that ask, at most three words or four characters."""
    head: list[int] = []
    for at in range(last, min(last + 5, len(tokens))):
        word, kind = tokens.words[at], tokens.kinds[at]
        if word in _VERBS or kind == TokenKind.PUNCTUATION or word in CJK_FUNCTION:
            break
        if word in ("of", "the", "type", "kind", "name", "names", "other", "a", "an"):
            continue
        head.append(at)
        if len(head) == (3 if kind == TokenKind.WORD else 4):
            break
    inside = (at for at in range(first, last) if tokens.kinds[at] == TokenKind.WORD and at > first)
    return frozenset([*head, *inside])


def match_question(question: QuestionText, text: TokenizedText, weights: WordWeights) -> QuestionMatch:
    """Find the words of a question in a text."""
    units, positions = _units_of(question)
    rarity = weights.rarity(units)
    if len(units) > MAX_UNITS:
        kept: list[int] = np.sort(np.argsort(-rarity, kind="stable")[:MAX_UNITS]).tolist()
        units, positions, rarity = [units[k] for k in kept], [positions[k] for k in kept], rarity[kept]
    total = float(rarity.sum())
    heads = np.fromiter((not question.head.isdisjoint(place) for place in positions), np.bool_, len(units))
    before, after, ends_asking, begins_asking = _runs(question, text)
    return QuestionMatch(
        question,
        _degrees(units, text),
        rarity / total if total else rarity,
        np.fromiter((place[0] for place in positions), np.int32, len(positions)),
        heads,
        before,
        after,
        ends_asking,
        begins_asking,
    )


def _is_character(kind: int) -> bool:
    return kind >= _FIRST_CHARACTER


def _units_of(question: QuestionText) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the words of a question that are compared, and their tokens: stems, and pairs of characters."""
    tokens, (first, last) = question.tokens, question.asking
    units: dict[str, tuple[int, ...]] = {}
    for at, kind in enumerate(tokens.kinds):
        outside = at < first or at >= last or at in question.head
        if kind == TokenKind.PUNCTUATION or not outside:
            continue
        if not _is_character(kind):
            units.setdefault(tokens.stems[at], (at,))
        elif at + 1 < len(tokens) and _is_character(tokens.kinds[at + 1]) and not first <= at + 1 < last:
            kinds = tokens.kinds[at], tokens.kinds[at + 1]
            if kinds != (TokenKind.HIRAGANA, TokenKind.HIRAGANA):
                units.setdefault(tokens.words[at] + tokens.words[at + 1], (at, at + 1))
    return list(units), list(units.values())


def _degrees(units: list[str], text: TokenizedText) -> NDArray[np.float32]:
    """Return how well each token matches each word of the question."""
    degree = np.zeros((len(text), len(units)), np.float32)
    exact = {unit: number for number, unit in enumerate(units)}
    begins: dict[str, list[int]] = {}
    for number, unit in enumerate(units):
        if len(unit) >= 4 and not unit.isdigit():
            begins.setdefault(unit[:3], []).append(number)
    known: dict[str, list[tuple[int, float]]] = {}
    for at, word in enumerate(text.stems):
        if _is_character(text.kinds[at]):
            if at + 1 < len(text) and (number := exact.get(word + text.stems[at + 1])) is not None:
                degree[at : at + 2, number] = 1
            continue
        if word not in known:
            known[word] = _matches_of(word, exact, begins, units)
        for number, value in known[word]:
            degree[at, number] = value
    return degree


def _matches_of(
    word: str, exact: dict[str, int], begins: dict[str, list[int]], units: list[str]
) -> list[tuple[int, float]]:
    """Return the words of the question that a word matches, with degrees."""
    if word in exact:
        return [(exact[word], 1.0)]
    if len(word) < 4 or word[:3] not in begins:
        return []
    found: list[tuple[int, float]] = []
    for number in begins[word[:3]]:
        unit = units[number]
        short, long = sorted((len(word), len(unit)))
        same = next((k for k in range(short) if word[k] != unit[k]), short)
        if same >= 4 and same >= 0.65 * long - 0.5:
            found.append((number, _FUZZY))
    return found


def _runs(question: QuestionText, text: TokenizedText) -> tuple[NDArray[np.int32], ...]:
    """Return lengths of the runs of tokens that text and question share, before and behind each token."""
    asked, (first, last) = question.tokens, question.asking
    size = len(asked)
    before, ends = np.zeros(len(text), np.int32), np.zeros(len(text), np.int32)
    after, begins = before.copy(), before.copy()
    if not size:
        return before, after, ends, begins
    numbers = {word: number for number, word in enumerate(dict.fromkeys(asked.stems))}
    of_question = np.asarray([numbers[word] for word in asked.stems])
    of_text = np.asarray([numbers.get(word, -1) for word in text.stems])
    equal = of_text[:, None] == of_question[None, :]
    run = np.zeros(size + 1, np.int32)
    for at in np.flatnonzero(equal.any(axis=1)):
        if at and not before[at - 1]:
            run[:] = 0
        run[1:] = np.where(equal[at], run[:-1] + 1, 0)
        before[at], ends[at] = run.max(), run[first]
    run = np.zeros(size + 1, np.int32)
    for at in np.flatnonzero(equal.any(axis=1))[::-1]:
        if at + 1 < len(text) and not after[at + 1]:
            run[:] = 0
        run[:-1] = np.where(equal[at], run[1:] + 1, 0)
        after[at], begins[at] = run.max(), run[min(last, size)]
    return before, after, ends, begins
