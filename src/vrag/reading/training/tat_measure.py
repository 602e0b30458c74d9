"""Exact match and F1 of TAT-QA, as its repository computes them."""

from __future__ import annotations

import importlib
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from vrag.reading.questions.answer_form import POWERS
from vrag.reading.scorer import CandidateScorer
from vrag.reading.table_answers.candidates import TableCandidate, rank_answers
from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.table_answers.values import parse_cell
from vrag.reading.training.table_data import TableCase
from vrag.text.numerals import multiply

_FACTORS = {name: Decimal(10) ** power for name, power in (("", 0), ("percent", -2), *POWERS.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class TatFigures:
    """Measures of a scorer on TAT-QA, with answers from tables alone."""

    questions: int
    exact: float
    f1: float
    f1_by_source: dict[str, float]
    """F1 by where the answer stands: table, text, table-text."""


def measure_tat(scorer: CandidateScorer, cases: Sequence[TableCase]) -> TatFigures:
    """Measure the likeliest answer to each question, with its scale."""
    found: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        answers = rank_answers(case.question, case.table, scorer=scorer, limit=1)
        result = score_answer(answers[0].candidate, case) if answers else (0.0, 0.0)
        found.setdefault(case.source, []).append(result)
    everything = np.asarray([result for results in found.values() for result in results] or [(0.0, 0.0)])
    return TatFigures(
        questions=len(cases),
        exact=float(everything[:, 0].mean()),
        f1=float(everything[:, 1].mean()),
        f1_by_source={name: float(np.mean([f1 for _, f1 in results])) for name, results in found.items()},
    )


def score_answer(candidate: TableCandidate, case: TableCase) -> tuple[float, float]:
    """Return exact match and F1 of one answer; F1 is exact match where the answer is computed."""
    gold = [write_scaled(text, case.scale) for text in case.answers]
    texts = candidate.values
    if candidate.number is not None and candidate.operation is not TableOperation.NUMBER:
        texts = (f"{candidate.number:.10g}",)
    written = [write_scaled(text, candidate.scale) for text in texts]
    exact, f1 = compare_spans(written, gold)
    return (exact, exact) if case.computed else (exact, f1)


def write_scaled(text: str, scale: str) -> str:
    """Write a number with its scale multiplied in; other text with the scale behind it.

    >>> write_scaled("$1,496.5", "million"), write_scaled("(3.2)%", "percent"), write_scaled("two", "")
    ('1496500000.0000', '-0.0320', 'two')
    """
    value = parse_cell(text)
    if value.number is None or not value.whole:
        return f"{text} {scale}".strip()
    factor = _FACTORS["percent" if value.unit == "%" else scale]
    return f"{multiply(round(value.number, 2), factor):.4f}"


def compare_spans(predicted: Sequence[str], gold: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 of lists of spans: words of spans that are aligned as well as possible."""
    one, two = [_words(text) for text in predicted], [_words(text) for text in gold]
    exact = float(sorted(map(tuple, one)) == sorted(map(tuple, two)))
    table = np.asarray([[_f1(set(a), set(b)) for b in two] for a in one])
    optimize: Any = importlib.import_module("scipy.optimize")  # it ships no types
    rows, columns = optimize.linear_sum_assignment(table, maximize=True)
    return exact, float(round(table[rows, columns].sum() / max(len(one), len(two)), 2))


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in re.split(r"[\s\-–—]+(?!\d)", text.lower()):
        number = re.fullmatch(r"-?[\d.]+", word)
        plain = word if number else word.translate(str.maketrans("", "", string.punctuation))
        if plain and plain not in {"a", "an", "the"}:
            words.append(plain)
    return words


def _f1(one: set[str], two: set[str]) -> float:
    shared = len(one & two)
    return 2 * shared / (len(one) + len(two)) if shared else 0.0
