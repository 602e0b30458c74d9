"""The parts of an answer have their own places, or none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placed_pages import marked_words, read_pages, set_page, set_passage

from vrag.reading.places.evidence_region import MOST
from vrag.reading.places.part_places import SUPPORTED, locate_parts

REPORT = set_page(
    (0.1, 0.05, "Passengers by line"),
    (0.1, 0.10, "Line             2023      2024"),
    (0.1, 0.13, "Orla - Saltby    86,040    84,210"),
    (0.1, 0.16, "Orla - Fennick   52,310    55,180"),
    (0.1, 0.60, "The weather was mild and the ferries were full on most Sundays of the"),
    (0.1, 0.63, "summer, as Captain Ines Okafor reports. In winter 12 ferries were hired."),
    (0.1, 0.90, "Of 40 crew members 12 left the company."),
)
OTHER = set_page((0.1, 0.1, "Orla and Saltby are islands with mild weather."), ordinal=2)
PAGES = read_pages(OTHER, REPORT)
QUESTION = "How was traffic in 2024?"


def test_each_sentence_has_its_own_rectangle() -> None:
    parts = [
        "In 2024, 84,210 passengers travelled from Orla to Saltby.",
        "The ferries were full on most Sundays, thanks to mild weather.",
    ]
    table, text = locate_parts(QUESTION, parts, PAGES)
    assert table is not None
    assert text is not None
    assert table.item == text.item == REPORT.id
    assert table.region is not None
    assert text.region is not None
    assert table.region.y2 < 0.6 < text.region.y2
    assert "84,210" in marked_words(REPORT, table.marks)
    assert "55,180" not in marked_words(REPORT, table.marks)
    assert marked_words(REPORT, text.marks) == "ferries were full on most Sundays"


@pytest.mark.parametrize(
    "part", ["84,210", "84210", "Ines Okafor", "captain INES OKAFOR", "full on most Sundays"]
)
def test_numbers_and_names_are_found_word_for_word(part: str) -> None:
    (place,) = locate_parts(QUESTION, [part], PAGES)
    assert place is not None
    assert (place.item, place.score) == (REPORT.id, 1.0)
    assert len(place.marks) == 1


@pytest.mark.parametrize(
    "part", ["Bananas are a yellow fruit of Ecuador and Colombia.", "84,211", "Ida Okafor", "", "the", "…"]
)
def test_what_is_on_no_page_has_no_place(part: str) -> None:
    assert locate_parts(QUESTION, [part], PAGES) == (None,)


@pytest.mark.parametrize(
    ("context", "top"),
    [("In winter, 12 ferries were hired.", 0.63), ("12 of the crew left the company.", 0.90), ("", None)],
)
def test_a_small_number_stands_where_its_sentence_stands(context: str, top: float | None) -> None:
    (place,) = locate_parts("", ["12"], PAGES, contexts=[context])
    assert (place and place.marks[0].box.y1) == top


def test_a_passage_has_a_score_and_no_rectangle() -> None:
    notes = set_passage("The lighthouse of Lindholm was built in 1962. It is 41 metres high.")
    (place,) = locate_parts("", ["The lighthouse was built in 1962 at Lindholm."], read_pages(notes))
    assert place is not None
    assert place.score > SUPPORTED
    assert (place.region, place.marks) == (None, ())


def test_the_threshold_is_the_callers() -> None:
    (place,) = locate_parts(
        "", ["Fennick had many happy visitors from all over Europe"], PAGES, threshold=0.0
    )
    assert place is not None
    assert 0 < place.score < SUPPORTED


WORDS = "Orla Saltby 84,210 12 5% −3 the ferry ferries inter- national ¹ 。 渡轮 — Fennick ﬁsh 2024".split()
texts = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


@settings(deadline=None)
@given(texts, st.lists(texts, max_size=3), st.lists(texts, min_size=1, max_size=5))
def test_places_of_any_parts_lie_on_their_pages(question: str, parts: list[str], lines: list[str]) -> None:
    item = set_page(*((0.05, 0.05 + 0.04 * number, line) for number, line in enumerate(lines)))
    for place in filter(None, locate_parts(question, parts, read_pages(item), threshold=0.0)):
        assert place.item == item.id
        assert 0 <= place.score <= 1
        assert place.region is not None
        assert place.region.area <= max(MOST, 0.3)
        for mark in place.marks:
            assert place.region.covers(*mark.box.center)
