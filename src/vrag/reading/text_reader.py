"""Readers of running text: what they have in common, the one of the package, and two of them together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from vrag.reading.spans.reader import ScoredSpan, SpanModel, best_spans

Segments: TypeAlias = Sequence[tuple[int, int]]
"""Ranges of a text (lines of a list, paragraphs, captions) that no answer crosses."""
PRETRAINED_SHARE = 0.8
"""Weight of a pretrained reader's probability beside ours; see docs/reading.md."""


class TextReader(Protocol):
    """A finder of short answers in texts. May be called from several threads."""

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        ...

    def read(
        self, question: str, texts: Sequence[str], segments: Sequence[Segments] = ()
    ) -> tuple[tuple[ScoredSpan, ...], ...]:
        """Return the best spans of each text, the best first; none overlaps a better one.

        `segments` are those of each text, or nothing. Spans of different texts may be compared by their
        probability.
        """
        ...


@dataclass(frozen=True, slots=True)
class SpanReader:
    """The `TextReader` of the package, which needs no pretrained model."""

    model: SpanModel
    count: int = 5
    """Maximum spans of a text."""

    @property
    def name(self) -> str:
        """The name of our own reader."""
        return "vrag"

    def read(
        self, question: str, texts: Sequence[str], segments: Sequence[Segments] = ()
    ) -> tuple[tuple[ScoredSpan, ...], ...]:
        """Return the best spans of each text by the trained scorer."""
        pairs = zip(texts, segments or [()] * len(texts), strict=True)
        return tuple(
            tuple(best_spans(question, text, self.model, segments=ranges, count=self.count))
            for text, ranges in pairs
        )


@dataclass(frozen=True, slots=True)
class CombinedReader:
    """A `TextReader` that weighs the spans of two others, ours and a pretrained one.

    The probability of a span is the weighted mean of what the two readers give it. A reader gives a span the
    probability of its own span times their overlap (F1 of characters), the best of these products.
    """

    ours: TextReader
    pretrained: TextReader
    share: float = PRETRAINED_SHARE
    """Weight of the pretrained reader."""
    count: int = 5
    """Maximum spans of a text."""

    @property
    def name(self) -> str:
        """The name of the pretrained reader."""
        return self.pretrained.name

    def read(
        self, question: str, texts: Sequence[str], segments: Sequence[Segments] = ()
    ) -> tuple[tuple[ScoredSpan, ...], ...]:
        """Return the best spans of each text by both readers."""
        found = (reader.read(question, texts, segments) for reader in (self.ours, self.pretrained))
        return tuple(self._combine(ours, theirs) for ours, theirs in zip(*found, strict=True))

    def _combine(self, ours: Sequence[ScoredSpan], theirs: Sequence[ScoredSpan]) -> tuple[ScoredSpan, ...]:
        spans = {(span.start, span.end): span for span in (*ours, *theirs)}
        weighed: list[ScoredSpan] = []
        for span in spans.values():
            both = self.share * _support(span, theirs) + (1 - self.share) * _support(span, ours)
            weighed.append(span._replace(score=math.log(max(both, 1e-9)), share=both, probability=both))
        return keep_apart(weighed, self.count)


def keep_apart(spans: Iterable[ScoredSpan], count: int) -> tuple[ScoredSpan, ...]:
    """Return the best spans by score, without those that overlap a better one."""
    kept: list[ScoredSpan] = []
    for span in sorted(spans, key=lambda span: (-span.score, span.start, span.end)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
            if len(kept) == count:
                break
    return tuple(kept)


def overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Return the F1 of the characters of two ranges.

    >>> overlap((0, 10), (0, 10)), overlap((0, 10), (5, 15)), overlap((0, 5), (5, 9))
    (1.0, 0.5, 0.0)
    """
    common = min(one[1], other[1]) - max(one[0], other[0])
    whole = (one[1] - one[0]) + (other[1] - other[0])
    return 2 * common / whole if common > 0 else 0.0


def _support(span: ScoredSpan, others: Sequence[ScoredSpan]) -> float:
    """Return what a reader gives a span, by its own spans."""
    return max((other.probability * overlap(span[:2], other[:2]) for other in others), default=0.0)
