"""The texts, types and matches that the features of spans are computed from."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.candidates import SpanList, TextShape
from vrag.reading.spans.matching import QuestionMatch
from vrag.reading.spans.tokens import TokenizedText

Floats: TypeAlias = NDArray[np.float32]
Columns: TypeAlias = list[NDArray[Any]]


class SpanContext(NamedTuple):
    """All that the features of spans are made of."""

    text: TokenizedText
    shape: TextShape
    match: QuestionMatch
    held: Floats
    """Degree to which each sentence has each word of the question; shape (sentences, units)."""
    cover: Floats
    """Share of the question's weight that each sentence holds."""
    rarity: Floats
    """Of each token."""
    spans: SpanList
    agreement: Floats
    """Log ratio of how often a type of span (column) answers a group of questions (row) to chance."""


def edges_of_spans(context: SpanContext) -> tuple[NDArray[np.int64], ...]:
    """Return first and last token of the spans, and the range of their sentences."""
    first = context.spans.first.astype(np.int64)
    sentence = context.text.sentence[first]
    return first, context.spans.last.astype(np.int64), *_range(context, sentence)


def _range(context: SpanContext, sentence: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    bounds = context.text.bounds.astype(np.int64)
    return bounds[sentence], bounds[sentence + 1]


def match_strength(context: SpanContext) -> Floats:
    """Return the weight of the best match of each token."""
    if not context.match.degree.shape[1]:
        return np.zeros(len(context.text), np.float32)
    return (context.match.degree * context.match.weights).max(axis=1)
