"""A field of a form answers a question that asks for it by its label, and no other one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reading.places.placed_pages import marked_words, set_page

from vrag.reading.answer import ReadPage
from vrag.reading.places.field_answers import find_field_answer
from vrag.reading.reader import read
from vrag.types import FormField, Item, ItemFacts

Row = tuple[str, str]
BERTH: tuple[Row, ...] = (
    ("Berth application", ""),
    ("Name of the skipper:", "Maren Lunde"),
    ("Registration mark", "NO-77-KX"),
    ("3. Length overall (m)", "11.80"),
    ("Date of arrival", "3 June 2027"),
    ("Insurance certificate", ""),
    ("Crew on board", "4"),
    ("Valid from", "1 May 2027"),
    ("Permit number", "552907"),
    ("Home port / Heimathafen", "Vestby"),
    ("Internal mark of the office", "77"),
)


def form(*rows: Row, ordinal: int = 1) -> Item:
    """A page with a line for each field: its label, and what is filled in."""
    page = set_page(
        *((0.1, 0.1 + 0.04 * at, f"{label} {value}".strip()) for at, (label, value) in enumerate(rows)),
        ordinal=ordinal,
    )
    fields: list[FormField] = []
    start = 0
    for label, value in rows:
        end = start + len(label)
        values = ((end + 1, end + 1 + len(value)),) if value else ()
        fields.append(FormField(((start, end),), values))
        start = page.text.index("\n", end) + 1
    return replace(page, facts=ItemFacts(fields=tuple(fields[1:])))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the registration mark?", "NO-77-KX"),
        ("Who is the skipper?", "Maren Lunde"),
        ("What is the name of the skipper?", "Maren Lunde"),
        ("What registration mark is given in the form?", "NO-77-KX"),
        ("What is the length overall?", "11.80"),
        ("When is the arrival?", "3 June 2027"),
        ("How many crew are on board?", "4"),
        ("From when is it valid?", "1 May 2027"),
        ("What is the permit number of the berth application?", "552907"),
        ("Which home port?", "Vestby"),
        ("What is the Heimathafen?", "Vestby"),
    ],
)
def test_a_field_is_asked_for_by_its_label(question: str, answer: str) -> None:
    page = form(*BERTH)
    found = find_field_answer(question, [page])
    assert found
    assert (found.text, found.is_certain) == (answer, True)
    assert marked_words(page, found.marks[:1]) == answer


@pytest.mark.parametrize(
    "question",
    [
        "What is the insurance certificate?",
        "What is the mark?",
        "What is the registration mark of the trailer?",
        "What is the registration number?",
        "What is the date of departure?",
        "Until when is it valid?",
        "How many permit numbers are there?",
        "Who is the permit number?",
        "When is the registration mark?",
        "How much is the length overall in euros?",
        "Why is the home port Vestby?",
        "Is the permit number valid?",
        "Is there a home port?",
        "What is the sum of the crew on board?",
        "What is the draught?",
    ],
)
def test_nothing_is_answered_for_another_question(question: str) -> None:
    assert find_field_answer(question, [form(*BERTH)]) is None


def test_two_fields_that_fit_answer_nothing_unless_they_say_the_same() -> None:
    question = "What is the customer number?"
    first, other, same, unfilled = (
        form(("Transfer", ""), ("Customer number", value), ordinal=at)
        for at, value in enumerate(("4711", "4712", "4711", ""), 1)
    )
    assert find_field_answer(question, [first])
    assert find_field_answer(question, [first, other]) is None
    assert find_field_answer(question, [first, unfilled]) is None
    assert find_field_answer(question, [first, same])


def test_a_label_with_all_words_comes_before_one_with_words_of_the_form() -> None:
    page = form(("Claim of damage", ""), ("Claim number", "17"), ("Damage claim number", "18"))
    found = find_field_answer("What is the claim number?", [page])
    assert found
    assert found.text == "17"


def test_a_ticked_box_says_yes_and_an_empty_one_nothing() -> None:
    page = form(("Membership", ""), ("Newsletter wanted", "☑"), ("Winter storage wanted", ""))
    ticked = tuple(replace(field, is_check=True) for field in page.facts.fields)
    page = replace(page, facts=ItemFacts(fields=ticked))
    found = find_field_answer("Is a newsletter wanted?", [page])
    assert found
    assert found.text == "Yes"
    assert find_field_answer("Is winter storage wanted?", [page]) is None
    assert find_field_answer("What is the newsletter wanted?", [page]) is None


def test_several_values_are_one_answer() -> None:
    page = form(("Stay", ""), ("Services", "Power Crane"))
    start = page.text.index("Power")
    values = ((start, start + 5), (start + 6, start + 11))
    page = replace(page, facts=ItemFacts(fields=(FormField(page.facts.fields[0].label, values),)))
    found = find_field_answer("Which services are selected?", [page])
    assert found
    assert found.text == "Power, Crane"


def test_the_name_in_the_file_stands_for_a_label() -> None:
    page = form(("Declaration", ""), ("", "Larvik"))
    at = page.text.index("Larvik")
    named = FormField((), ((at, at + 6),), "Port of departure")
    page = replace(page, facts=ItemFacts(fields=(named,)))
    found = find_field_answer("What is the port of departure?", [page])
    assert found
    assert found.text == "Larvik"


def test_the_reader_gives_what_is_filled_in_first_and_once() -> None:
    page = ReadPage(form(*BERTH))
    readings = read("What is the registration mark?", [page])
    assert [reading.text for reading in readings].count("NO-77-KX") == 1
    assert (readings[0].text, readings[0].is_certain) == ("NO-77-KX", True)


def test_places_of_fields_follow_a_text_without_its_footnote_marks() -> None:
    rows = (("Form", ""), ("Fee ¹ of the yard", ""), ("Registration mark", "NO-77-KX"))
    found = read("What is the registration mark?", [ReadPage(form(*rows))])[0]
    assert found.text == "NO-77-KX"
