"""Answers that are written on a page are marked there; of a list, the entries that stand together."""

from __future__ import annotations

import pytest
from placed_pages import marked_words, read_pages, set_page

from vrag.reading.page_text import read_page_text
from vrag.reading.places.written_answers import find_written_answer, split_entries
from vrag.reading.reader import find_answer

FONTS = set_page(
    (0.1, 0.10, "Arial is named in the introduction."),
    (0.1, 0.50, "Bad fonts:"),
    (0.1, 0.53, "Times New Roman"),
    (0.1, 0.56, "Arial"),
    (0.1, 0.59, "Comic Sans"),
    (0.1, 0.90, "Helvetica is a good font. Choose Helvetica or Arial, not both."),
)


@pytest.mark.parametrize(
    ("answer", "entries"),
    [
        ("['Times New Roman', 'Arial']", ("Times New Roman", "Arial")),
        ("- Oslo\n- Bergen\n- Oslo", ("Oslo", "Bergen")),
        ("1. Oslo\n2. Bergen", ("Oslo", "Bergen")),
        ("84,210, 86,040 and 12", ("84,210", "86,040", "12")),
        ("奥斯陆、卑尔根", ("奥斯陆", "卑尔根")),
        ("Oslo", ("Oslo",)),
        ("", ()),
    ],
)
def test_the_entries_of_a_list(answer: str, entries: tuple[str, ...]) -> None:
    assert split_entries(answer) == entries


def test_entries_of_a_list_are_marked_where_they_stand_together() -> None:
    answer = "['Times New Roman', 'Arial', 'Comic Sans']"
    reading = find_written_answer("What are three bad fonts?", answer, [read_page_text(FONTS)])
    assert reading is not None
    assert marked_words(FONTS, reading.marks) == "Times New Roman Arial Comic Sans"
    assert all(0.5 < mark.box.y1 < 0.6 for mark in reading.marks)
    assert reading.frame is not None
    assert reading.frame.y2 < 0.7


@pytest.mark.parametrize("answer", ["Garamond, Palatino, Optima and Arial", "Garamond and Arial"])
def test_a_list_of_which_one_entry_stands_on_the_page_is_not_marked(answer: str) -> None:
    assert find_written_answer("What are bad fonts?", answer, [read_page_text(FONTS)]) is None


def test_a_word_that_stands_in_several_places_is_marked_by_its_context_alone() -> None:
    pages = [read_page_text(FONTS)]
    assert find_written_answer("What?", "Arial", pages) is None
    reading = find_written_answer("Which is named in the introduction?", "Arial", pages)
    assert reading is not None
    assert reading.marks[0].box.y1 == 0.10


def test_one_of_two_things_to_choose_from_is_not_marked() -> None:
    question = "Is it Helvetica or Palatino that people like more? Answer with Helvetica or Palatino."
    assert find_answer(question, "Helvetica", read_pages(FONTS)) is None


def test_only_the_words_of_an_answer_are_marked() -> None:
    item = set_page((0.1, 0.1, "The class is mmdet.models.SoloHead(args)."))
    reading = find_answer("What is the class?", "SoloHead", read_pages(item))
    assert reading is not None
    (mark,) = reading.marks
    (word,) = (word.box for word in item.words if "Solo" in item.text[word.start : word.end])
    assert word.x1 < mark.box.x1 < mark.box.x2 < word.x2
