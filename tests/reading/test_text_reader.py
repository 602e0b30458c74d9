"""Our reader of texts, and two readers together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.spans.reader import ScoredSpan, load_span_model
from vrag.reading.text_reader import CombinedReader, Segments, SpanReader, keep_apart, overlap

TEXT = "The Petrel was launched in 1998. The Fulmar was launched in 2004 at Saltby."
RANGES = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda pair: (pair[0], sum(pair)))


def span(start: int, end: int, probability: float) -> ScoredSpan:
    return ScoredSpan(start, end, probability, probability, probability, (0, len(TEXT)))


@dataclass(frozen=True)
class Fixed:
    """A reader that gives the same spans for every text."""

    spans: tuple[ScoredSpan, ...]
    name: str = "fixed"

    def read(
        self, question: str, texts: Sequence[str], segments: Sequence[Segments] = ()
    ) -> tuple[tuple[ScoredSpan, ...], ...]:
        return (self.spans,) * len(texts)


def test_our_reader_reads_each_text_by_itself() -> None:
    reader = SpanReader(load_span_model())
    found = reader.read("When was the Petrel launched?", [TEXT, "", "No date here."])

    assert TEXT[slice(*found[0][0][:2])] == "1998"
    assert found[1] == ()
    assert found == tuple(
        reader.read("When was the Petrel launched?", [text])[0] for text in (TEXT, "", "No date here.")
    )


def test_our_reader_keeps_to_segments() -> None:
    reader = SpanReader(load_span_model(), count=20)
    segments = [(0, 32), (33, len(TEXT))]
    (spans,) = reader.read("When was the Petrel launched?", [TEXT], [segments])

    assert all(any(start <= found.start and found.end <= end for start, end in segments) for found in spans)


def test_segments_are_of_each_text() -> None:
    with pytest.raises(ValueError, match="shorter"):
        SpanReader(load_span_model()).read("When?", [TEXT, TEXT], [[(0, 5)]])


def test_a_span_of_both_readers_wins() -> None:
    ours = Fixed((span(27, 31, 0.5), span(60, 64, 0.4)))
    theirs = Fixed((span(60, 64, 0.6), span(4, 10, 0.3)), name="theirs")
    reader = CombinedReader(ours, theirs, share=0.5)
    (spans,) = reader.read("When?", [TEXT])

    assert reader.name == "theirs"
    assert [found[:2] for found in spans] == [(60, 64), (27, 31), (4, 10)]
    assert [found.probability for found in spans] == pytest.approx([0.5, 0.25, 0.15])


@given(st.lists(RANGES, max_size=6), st.lists(RANGES, max_size=6), st.floats(0, 1))
def test_combined_probabilities_are_probabilities(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]], share: float
) -> None:
    readers = [Fixed(tuple(span(*place, 1.0) for place in places)) for places in (ours, theirs)]
    (spans,) = CombinedReader(readers[0], readers[1], share=share).read("?", [TEXT])

    assert bool(spans) == bool(ours or theirs)
    assert all(0 <= found.probability <= 1 + 1e-9 for found in spans)
    places = sorted(found[:2] for found in spans)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(places))


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_reader_without_weight_changes_no_probability(weight: float) -> None:
    ours, theirs = Fixed((span(27, 31, 0.5),)), Fixed((span(60, 64, 0.6),))
    (spans,) = CombinedReader(ours, theirs, share=weight).read("When?", [TEXT])

    assert spans[0].probability == (0.6 if weight else 0.5)
    assert spans[1].probability == 0


def test_spans_that_overlap_a_better_one_are_left_out() -> None:
    spans = [span(0, 10, 0.2), span(5, 12, 0.9), span(12, 14, 0.1), span(20, 30, 0.3)]

    assert [found[:2] for found in keep_apart(spans, 5)] == [(5, 12), (20, 30), (12, 14)]
    assert [found[:2] for found in keep_apart(spans, 1)] == [(5, 12)]


@given(RANGES, RANGES)
def test_overlap_is_symmetric_and_whole_for_itself(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one) == 1
    assert 0 <= overlap(one, other) <= 1
