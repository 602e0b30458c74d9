"""The words of a question that occur in the cells and heads of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from vrag.reading.table_answers.question import TableQuestion
from vrag.reading.table_answers.records import GridColumn, RecordGrid, cell_terms
from vrag.text.terms import STOP_WORDS, is_cjk, one_edit_apart

FUZZY = 0.6
"""Weight of a match of similar words; equal ones have 1."""
_MIN_WEIGHT = 0.45
_MAX_FUZZY_VOCABULARY = 4000


@dataclass(slots=True)
class TermMatches:
    """Matches between the terms of a question and a grid. Sets of terms are bits of integers."""

    question: TableQuestion
    weights: list[float]
    """Weight of each term of the question in this grid."""
    bits: dict[str, int] = field(default_factory=dict[str, int])
    """For a term of the grid, the terms of the question that are equal or similar."""
    fuzzy: int = 0
    """Terms of the question that match nothing exactly."""
    numbers: dict[Decimal, int] = field(default_factory=dict[Decimal, int])
    """For a number, the terms of the question that write it."""

    def weight(self, mask: int) -> float:
        """Return the weight of a set of terms."""
        total = 0.0
        while mask:
            low = mask & -mask
            number = low.bit_length() - 1
            total += self.weights[number] * (FUZZY if self.fuzzy & low else 1.0)
            mask ^= low
        return total

    def match(self, terms: Sequence[str]) -> tuple[int, float]:
        """Return the terms of the question among some terms of the grid, and the share that matches."""
        mask, matched, total = 0, 0.0, 0.0
        for term in terms:
            bits = self.bits.get(term, 0)
            worth = 0.15 if term in STOP_WORDS else 1.0
            total += worth
            if bits:
                mask |= bits
                matched += worth
        return mask, matched / total if total else 0.0


def match_terms(question: TableQuestion, grid: RecordGrid) -> TermMatches:
    """Find the terms of a question in the vocabulary of a grid."""
    size = max(grid.size, 1)
    weights: list[float] = []
    bits: dict[str, int] = {}
    fuzzy = 0
    for number, token in enumerate(question.terms):
        frequency = grid.vocabulary.get(token.term, 0)
        rarity = 1.0 if frequency <= 1 else max(0.35, 1 - 0.5 * math.log(frequency) / math.log(size + 3))
        weights.append(float(question.weights[number]) * rarity)
        if frequency:
            bits[token.term] = bits.get(token.term, 0) | 1 << number
        elif question.weights[number] >= 0.5 and len(grid.vocabulary) <= _MAX_FUZZY_VOCABULARY:
            for word in _similar(token.term, grid):
                bits[word] = bits.get(word, 0) | 1 << number
                fuzzy |= 1 << number
    numbers: dict[Decimal, int] = {}
    for quantity in question.quantities:
        for number, token in enumerate(question.terms):
            if token.start < quantity.end and quantity.start < token.end:
                numbers[quantity.value] = numbers.get(quantity.value, 0) | 1 << number
    return TermMatches(question, weights, bits, fuzzy, numbers)


def _similar(term: str, grid: RecordGrid) -> list[str]:
    """Return the words of a grid that begin like a term or are one letter apart from it."""
    if len(term) < 4 or term[0].isdigit() or is_cjk(term):
        return []
    start = term[:3]
    found: list[str] = []
    for word in grid.vocabulary:
        if not word.startswith(start) and (word[1:3] != term[1:3] or len(term) < 6):
            continue
        shared = next(
            (n for n, (a, b) in enumerate(zip(word, term, strict=False)) if a != b), min(len(word), len(term))
        )
        alike = shared >= 4 and shared >= 0.6 * max(len(word), len(term))
        if alike or (len(term) >= 6 and one_edit_apart(word, term)):
            found.append(word)
    return found


@dataclass(frozen=True, slots=True)
class CellMatch:
    """The records of one column whose cells have certain words of the question."""

    column: int
    mask: int
    records: tuple[int, ...]
    weight: float
    coverage: float
    """Share of the best cell's words that the question has."""


def match_cells(matches: TermMatches, column: GridColumn, limit: int) -> list[CellMatch]:
    """Return the sets of records whose cells share words with the question, best first."""
    by_mask: dict[int, tuple[list[int], float]] = {}
    for text, records in column.members.items():
        mask, coverage = matches.match(cell_terms(text))
        value = column.values[records[0]]
        if matches.numbers and value.number is not None:
            bits = matches.numbers.get(value.number, 0)
            if bits and value.whole:
                mask, coverage = mask | bits, 1.0
        if mask:
            known, best = by_mask.get(mask, ([], 0.0))
            known += records
            by_mask[mask] = known, max(best, coverage)
    weighed = sorted(((matches.weight(mask), mask) for mask in by_mask), reverse=True)[: 4 * limit]
    found: list[CellMatch] = []
    for weight, mask in weighed:
        if weight < _MIN_WEIGHT:
            break
        records = {record for other, (some, _) in by_mask.items() if other & mask == mask for record in some}
        found.append(CellMatch(column.index, mask, tuple(sorted(records)), weight, by_mask[mask][1]))
    return sorted(found, key=lambda match: match.weight * (0.5 + match.coverage), reverse=True)[:limit]


def positions_of(mask: int) -> frozenset[int]:
    """Return the numbers of the bits of a mask."""
    return frozenset(number for number in range(mask.bit_length()) if mask >> number & 1)


def as_bits(masks: Sequence[int], width: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return masks as rows of truth values; shape (masks, width)."""
    array = np.asarray([mask & (1 << 62) - 1 for mask in masks], np.int64)
    return (array[:, None] >> np.arange(width) & 1).astype(bool)
