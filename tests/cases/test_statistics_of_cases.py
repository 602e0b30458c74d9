"""What data sets are said to hold and to share."""

from __future__ import annotations

from vrag.cases import count_cases, find_overlaps
from vrag.geometry import Box
from vrag.types import Case, Region

ONE = Case(
    uid="1",
    query="How many lamps?",
    reference_answer="84,210 lamps",
    file_name="a.pdf",
    reference_page=(1, 2),
    source_type=("Table", "Chart"),
    query_type="Multi-Hop",
    regions=(Region(1, Box.unit(0, 0, 1, 1)),),
)
TWO = Case(uid="2", query="Who?", reference_answer="Orla", file_name="a.pdf", reference_page=(3,))
NONE = Case(uid="3", query="Why?", reference_answer="not  answerable.", file_name="b.pdf")
AGAIN = Case(uid="4", query="how many  LAMPS", reference_answer="a b c", file_name="a.pdf")
ELSEWHERE = Case(uid="5", query="How many lamps?", reference_answer="2", file_name="c.pdf")


def test_a_data_set_is_counted() -> None:
    counted = count_cases([ONE, TWO, NONE, AGAIN])

    assert (counted.cases, counted.documents, counted.answerable, counted.with_regions) == (4, 2, 3, 1)
    assert dict(counted.source_types) == {"": 3, "Chart": 1, "Table": 1}
    assert dict(counted.query_types) == {"": 3, "Multi-Hop": 1}
    assert dict(counted.pages) == {0: 2, 1: 1, 2: 1}
    assert counted.answer_words == (1, 2.0, 3)


def test_a_question_asked_twice_about_one_document_is_counted_however_it_is_spelled() -> None:
    assert count_cases([ONE, AGAIN, ELSEWHERE]).repeated == 1


def test_a_set_without_cases_and_one_without_answers_are_counted() -> None:
    assert count_cases([]).answer_words == count_cases([NONE]).answer_words == (0, 0.0, 0)


def test_a_document_in_two_sets_is_found_though_no_question_is_shared() -> None:
    (overlap,) = find_overlaps({"train": [ONE], "test": [TWO]})

    assert (overlap.documents, overlap.questions) == (("a.pdf",), 0)


def test_a_question_in_two_sets_is_found_though_no_document_is_shared() -> None:
    (overlap,) = find_overlaps({"train": [AGAIN, TWO], "test": [ELSEWHERE]})

    assert (overlap.documents, overlap.questions) == ((), 1)


def test_each_two_of_three_sets_are_compared() -> None:
    found = find_overlaps({"a": [ONE], "b": [TWO], "c": [NONE]})

    assert [(each.one, each.other) for each in found] == [("a", "b"), ("a", "c"), ("b", "c")]
