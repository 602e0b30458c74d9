"""Phrases are found word for word through hyphens, ligatures and slips of recognition, and digits exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placed_pages import set_page, set_passage

from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.places.phrases import find_phrase, is_part_of_phrase
from vrag.types import Item, TextSource

LINES = (
    (0.1, 0.10, "The inter-"),
    (0.1, 0.13, "national office of Lindholm sold 12 300 units¹ at 25% to ACME Corp."),
    (0.1, 0.16, "The Goverment of Sandvik, with 84,210* e-mail addresses and one dataset,"),
    (0.1, 0.19, "grew by 5% or −7% in 2014-15 (see 501(c)) and in Section 3.10."),
)
PAGE = set_page(*LINES)


def found(phrase: str, item: Item = PAGE) -> list[str]:
    words = read_page_text(item)
    places = find_phrase(phrase, words)
    return [item.text[words.forms[place.first].start : words.forms[place.last].end] for place in places]


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("international office", "inter-\nnational office"),
        ("the International Office of Lindholm", "inter-\nnational office of Lindholm"),
        ("12,300", "12 300"),
        ("12300 units", "12 300 units"),
        ("25 %", "25"),
        ("Acme Corp.", "ACME Corp"),
        ("government of Sandvik", "Goverment of Sandvik"),
        ("84210", "84,210"),
        ("email addresses", "e-mail addresses"),
        ("data set", "dataset"),
        ("-7%", "7"),
        ("3.10", "3.10"),
    ],
)
def test_a_phrase_is_found_in_other_writing(phrase: str, text: str) -> None:
    assert found(phrase) == [text]


@pytest.mark.parametrize(
    "phrase",
    [
        "84,211",
        "12",
        "300",
        "25",
        "7%",
        "15",
        "2014 15 16",
        "3.1",
        "office Lindholm",
        "300 units",
        "grew by 5% or 7%",
        "Gouvernement",
        "",
        "—",
    ],
)
def test_what_only_resembles_a_phrase_is_not_found(phrase: str) -> None:
    assert found(phrase) == []


@pytest.mark.parametrize(("source", "count"), [(TextSource.OCR, 1), (TextSource.LAYER, 0)])
def test_a_single_word_is_misread_in_recognised_text_alone(source: TextSource, count: int) -> None:
    item = set_page((0.1, 0.1, "The Dcpartment moved."), source=source)
    assert len(found("department", item)) == count


def test_words_of_two_columns_are_no_phrase() -> None:
    item = set_page((0.1, 0.1, "Total cost"), (0.6, 0.1, "Oslo harbour"))
    assert found("cost Oslo", item) == []


def test_a_phrase_of_two_lines_has_a_rectangle_for_each() -> None:
    words = read_page_text(PAGE)
    (place,) = find_phrase("international office", words)
    first, second = words.rects_of_forms(place.first, place.last)
    assert (first.y1, second.y1) == (0.10, 0.13)


def test_a_phrase_is_found_in_a_text_without_boxes() -> None:
    assert found("84210 passengers", set_passage("In 2024 there were 84,210 passengers.")) == [
        "84,210 passengers"
    ]


@given(st.lists(st.sampled_from("ferry Orla 12 300 5% −5 the co- inter- ¹ , Saltby".split()), max_size=8))
def test_what_is_found_has_the_letters_and_digits_of_the_phrase(words: list[str]) -> None:
    """A phrase cut out of a page is found where it was cut out."""
    page = read_page_text(set_page((0.0, 0.1, " ".join(words))) if words else set_passage(""))
    for first in range(len(page.forms)):
        for last in range(first, len(page.forms)):
            phrase = page.text[page.forms[first].start : page.forms[last].end]
            check_places(phrase, page)


def check_places(phrase: str, page: PageText) -> None:
    for place in find_phrase(phrase, page):
        text = page.text[page.forms[place.first].start : page.forms[place.last].end]
        assert [letter for letter in phrase if letter in "0123456789"] == [
            letter for letter in text if letter in "0123456789"
        ]


def test_a_part_of_a_question_is_known() -> None:
    assert is_part_of_phrase("the Appota", "Is it Instagram or Appota?")
    assert not is_part_of_phrase("Appota Inc", "Is it Instagram or Appota?")
    assert not is_part_of_phrase("the", "Is it the one?")
