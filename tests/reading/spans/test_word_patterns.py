"""Codes of words in and around spans, and classes of words."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.spans.reader import span_candidates
from vrag.reading.spans.word_patterns import CODES, PATTERNS
from vrag.reading.spans.word_weights import no_classes
from vrag.reading.training.word_clusters import group_words

TEXT = "The ferry Fulmar was launched in 1962 by Ada Holm. It carries ninety cars to Saltby."


def test_each_span_has_codes_of_the_table() -> None:
    found = span_candidates("Who launched the Fulmar?", TEXT)
    assert found.codes.shape == (len(found), PATTERNS)
    assert found.codes.max() < CODES
    assert len(np.unique(found.codes, axis=0)) > 0.9 * len(found)


def test_codes_tell_questions_apart_and_depend_on_nothing_else() -> None:
    who, again, when = (
        span_candidates(question, TEXT).codes
        for question in ("Who launched the Fulmar?", "Who launched the Fulmar?", "When launched the Fulmar?")
    )
    assert (who == again).all()
    shared = (who == when).mean(axis=0)
    assert shared.min() == 0
    assert shared.max() == 1


words = st.sampled_from(
    ["who", "when", "Fulmar", "launched", "in", "1962", ".", "?", "谁", "建造", "，", "\n", "'"]
)


@given(st.lists(words, max_size=8).map(" ".join), st.lists(words, max_size=30).map(" ".join))
def test_any_text_gives_codes(question: str, text: str) -> None:
    found = span_candidates(question, text)
    assert found.codes.shape == (len(found), PATTERNS)
    assert not len(found) or found.codes.max() < CODES


def test_words_in_other_places_have_other_classes() -> None:
    chooser = random.Random(0)
    days, names = "monday tuesday friday".split(), "ada bo cai".split()
    texts: list[list[str]] = []
    for number in range(2000):
        day, name = chooser.choice(days), chooser.choice(names)
        texts.append(f"on {day} the boat of {name} sails again and number {number % 400} waits".split())
    classes = group_words(texts, classes=60)
    of_days, of_names = (set(classes.of(group).tolist()) for group in (days, names))
    assert of_days.isdisjoint(of_names)
    assert 0 not in of_days | of_names
    assert classes.of(["unheard"]).tolist() == [0]
    assert no_classes().of(days).tolist() == [0, 0, 0]
    assert group_words([["few", "words"]]).of(["few"]).tolist() == [0]
