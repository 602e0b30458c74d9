"""Short answers from running text: candidates, features and choice."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.reading.spans.candidates import MAX_CANDIDATES
from vrag.reading.spans.features import SPAN_FEATURES
from vrag.reading.spans.reader import best_spans, choice_scores, load_span_model, span_candidates
from vrag.reading.spans.span_types import SpanType, type_of_span
from vrag.reading.spans.tokens import tokenize

FERRY = (
    "The ferry Fulmar was launched in 1998 by Ada Holm in Saltby. It carries 420 passengers and 60 cars. "
    "The crossing to Orla takes 45 minutes, and a ticket costs $12.50."
)
PARK = "乍都节公园位于泰国的首都曼谷。1975年由泰国国家铁路局捐献土地建成公园。它的面积约为0.304平方公里。"


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("When was the Fulmar launched?", FERRY, "1998"),
        ("Who launched the ferry?", FERRY, "Ada Holm"),
        ("How many passengers does it carry?", FERRY, "420"),
        ("How long does the crossing take?", FERRY, "45 minutes"),
        ("公园由谁捐献土地？", PARK, "泰国国家铁路局"),
        ("公园的面积是多少？", PARK, "约为0.304平方公里"),
    ],
)
def test_the_answer_is_a_candidate(question: str, text: str, answer: str) -> None:
    found = span_candidates(question, text)

    assert answer in {text[a:b] for a, b in zip(found.starts, found.ends, strict=True)}


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("When was the Fulmar launched?", FERRY, "1998"),
        ("Who launched the ferry Fulmar?", FERRY, "Ada Holm"),
        ("How many passengers does the ferry carry?", FERRY, "420"),
    ],
)
def test_the_model_of_the_package_answers(question: str, text: str, answer: str) -> None:
    best = best_spans(question, text, load_span_model())[0]

    assert answer in text[best.start : best.end]
    assert best.sentence[0] <= best.start < best.end <= best.sentence[1]


def test_spans_stay_in_their_segments() -> None:
    text = "Opening hours Monday\nTickets at the pier"
    cut = text.index("\n")
    found = span_candidates("When can one buy tickets?", text, segments=[(0, cut), (cut + 1, len(text))])

    assert len(found)
    assert all(end <= cut or start > cut for start, end in zip(found.starts, found.ends, strict=True))


def test_best_spans_do_not_overlap() -> None:
    spans = best_spans("What does the ferry carry?", FERRY, load_span_model(), count=8)

    assert len(spans) > 3
    ordered = sorted((span.start, span.end) for span in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(ordered))
    assert spans[0].probability == max(span.probability for span in spans) > 0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=300))
def test_any_text_can_be_read(question: str, text: str) -> None:
    found = span_candidates(question, text)

    assert found.features.shape == (len(found), len(SPAN_FEATURES))
    assert np.isfinite(found.features).all()
    assert len(found) <= MAX_CANDIDATES
    assert (found.starts < found.ends).all()


def test_a_long_page_has_no_more_candidates_than_a_short_one() -> None:
    found = span_candidates("Who launched the ferry Fulmar?", "a lot of other words here. " * 8000 + FERRY)

    assert len(found) <= MAX_CANDIDATES
    assert "Ada Holm" in {found.text[a:b] for a, b in zip(found.starts, found.ends, strict=True)}


@pytest.mark.parametrize("text", ["Ada Holm lives here", "公园位于泰国的首都曼谷", "東京タワーはここです"])
def test_the_span_with_most_expected_overlap_is_chosen(text: str) -> None:
    starts, ends = np.asarray([0, 0, 10], np.int32), np.asarray([5, 6, 12], np.int32)

    close = choice_scores(text, starts, ends, np.asarray([1.0, 1.0, 1.2], np.float32))
    apart = choice_scores(text, starts, ends, np.asarray([1.0, 1.0, 4.0], np.float32))

    assert close.argmax() in (0, 1)
    assert apart.argmax() == 2


def test_longer_spans_count_more_in_chinese_only() -> None:
    starts, ends = np.asarray([0, 20], np.int32), np.asarray([12, 22], np.int32)
    scores = np.asarray([1.0, 1.3], np.float32)

    assert choice_scores("Ada Holm lives here in Saltby", starts, ends, scores).argmax() == 1
    assert (
        choice_scores("公园位于泰国的首都曼谷，它的面积约为一平方公里。", starts, ends, scores).argmax() == 0
    )


def test_a_chinese_answer_of_many_clauses_is_a_candidate() -> None:
    answer = "叶对生，有齿牙或分裂，有托叶，花单性，穗状花序，瘦果藏于宿存花被内"
    found = span_candidates("荨麻在外形上有什么特征？", f"荨麻的特征是{answer}。它在欧洲很多。")

    assert answer in {found.text[a:b] for a, b in zip(found.starts, found.ends, strict=True)}


def test_the_best_span_has_a_probability() -> None:
    right = best_spans("When was the Fulmar launched?", FERRY, load_span_model())[0]
    wrong = best_spans("Which mountain did the expedition of 1925 climb?", FERRY, load_span_model())[0]

    assert 0 <= wrong.probability < right.probability <= 1


def test_the_empty_text_has_no_answer() -> None:
    assert best_spans("Who?", " \n", load_span_model()) == []


def test_tokens_cover_scripts_and_sentences() -> None:
    tokens = tokenize("Dr. Holm's cat slept. 東京タワーは333 mです。It rained.")

    assert tokens.words[:4] == ("dr", ".", "holm", "'s")
    assert "タワー" in tokens.words
    assert len(tokens.bounds) == 4


@pytest.mark.parametrize(
    ("span", "kind"),
    [
        ("3.5 %", SpanType.PERCENT),
        ("$12.50", SpanType.MONEY),
        ("1998", SpanType.YEAR),
        ("12 March 1998", SpanType.DATE),
        ("2009年8月", SpanType.DATE),
        ("45 minutes", SpanType.DURATION),
        ("Ada Holm", SpanType.NAME),
        ("NASA", SpanType.ACRONYM),
        ("曼谷市", SpanType.PLACE),
        ("to protect the harbour", SpanType.CLAUSE),
    ],
)
def test_type_of_span(span: str, kind: SpanType) -> None:
    assert type_of_span(span) is kind
