"""The reader: short answers from tables and text, with marks where they stand, or none at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.reading.answer import MarkRole, Reading, ReadingOptions, ReadPage
from vrag.reading.page_text import read_page_text
from vrag.reading.places.evidence_region import MOST, region_around
from vrag.reading.reader import THRESHOLD, find_answer, read
from vrag.types import Item, ItemKind, Word

PLACED = tuple[float, float, str]
"""Left, baseline from the top, and the words of one line, in fractions of the page."""


def page(*lines: PLACED, ordinal: int = 1, name: str = "file.pdf", height: float = 0.02) -> Item:
    """A page on which each line is set in letters as wide as half their height."""
    text, words = "", list[Word]()
    for left, top, line in lines:
        for word in line.split():
            x = left + len(line[: line.index(word)]) * height / 2
            box = Box.unit(x, top, min(x + len(word) * height / 2, 1.0), top + height)
            words.append(Word(len(text), len(text) + len(word), box))
            text += word + " "
        text = text[:-1] + "\n"
    return Item(
        id=f"{name}-{ordinal}", document=name, document_name=name, kind=ItemKind.PAGE, ordinal=ordinal,
        text=text, words=tuple(words), size=Size(1000, 1000),
    )  # fmt: skip


def passage(text: str, heading: str = "") -> Item:
    return Item(
        id="notes-1", document="n", document_name="notes.md", kind=ItemKind.PASSAGE, ordinal=1, text=text,
        heading=heading,
    )  # fmt: skip


def read_best(question: str, *found: Item) -> Reading:
    best, *_ = read(question, [ReadPage(item) for item in found])
    return best


LETTER = page(
    (0.1, 0.10, "Harbour Office of Lindholm"),
    (0.1, 0.20, "Dear Ms Okafor, the harbour of Lindholm was opened in 1962 and"),
    (0.1, 0.225, "handles mostly timber. Its two cranes lift up to forty tonnes each."),
    (0.1, 0.25, "The ferry to Sandvik leaves at a quarter past nine from the north pier"),
    (0.1, 0.275, "and takes about two hours. Dogs travel free of charge."),
    (0.1, 0.60, "For questions write to office@lindholm.example"),
    (0.4, 0.96, "Lindholm 7"),
    name="letter.pdf",
)
TABLE = page(
    (0.1, 0.10, "Table 2: Cargo by port, thousand tonnes"),
    (0.1, 0.15, "Port"), (0.4, 0.15, "2021"), (0.6, 0.15, "2022"), (0.8, 0.15, "2023"),
    (0.1, 0.18, "Lindholm"), (0.4, 0.18, "410"), (0.6, 0.18, "433"), (0.8, 0.18, "457"),
    (0.1, 0.21, "Sandvik"), (0.4, 0.21, "120"), (0.6, 0.21, "118"), (0.8, 0.21, "131"),
    (0.1, 0.24, "Oster"), (0.4, 0.24, "88"), (0.6, 0.24, "90"), (0.8, 0.24, "97"),
    (0.1, 0.60, "The weather was mild and the winter short in most of the region."),
    name="cargo.pdf",
)  # fmt: skip
COLUMNS = page(
    (0.05, 0.20, "The lighthouse keeper writes down"),
    (0.05, 0.225, "the wind every four hours and sends"),
    (0.05, 0.25, "the figures to the office."),
    (0.55, 0.20, "Ferries are repaired in the dry"),
    (0.55, 0.225, "dock of Oster, where a crew of"),
    (0.55, 0.25, "nineteen people works all winter."),
    name="magazine.pdf",
    height=0.016,
)
SLIDE = page(
    (0.1, 0.10, "Three goals for next year"),
    (0.12, 0.40, "Double the berths at Sandvik"),
    (0.12, 0.50, "Electric ferries by spring"),
    (0.12, 0.60, "One ticket for all routes"),
    name="plan.pdf",
    height=0.04,
)
CHINESE = page(
    (0.1, 0.2, "林德港于1962年开放。"),
    (0.1, 0.3, "渡轮每天上午九点从北码头出发。"),
    (0.1, 0.4, "港口有两台起重机。"),
    name="港口.pdf",
    height=0.03,
)
ITEMS = (LETTER, TABLE, COLUMNS, SLIDE, CHINESE)


@pytest.mark.parametrize(
    ("question", "item", "answer"),
    [
        ("What was the cargo of Lindholm in 2023?", TABLE, "457"),
        ("How much can the cranes lift?", LETTER, "forty tonnes"),
        ("What is the email address for questions?", LETTER, "office@lindholm.example"),
        ("How many people work in the dry dock of Oster?", COLUMNS, "nineteen"),
        ("港口有多少台起重机?", CHINESE, "两"),
    ],
)
def test_a_short_answer_is_found_among_all_items(question: str, item: Item, answer: str) -> None:
    best = read_best(question, *ITEMS)
    assert (best.item, best.text) == (item.id, answer)
    assert best.probability >= THRESHOLD


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_document_that_the_question_speaks_of_answers(order: tuple[int, int]) -> None:
    ferry = passage(
        "The ferry carried 48,200 passengers in 2024.\n\nIn 2023 the ferry carried 45,100 passengers."
    )
    train = replace(passage("The train carried 99,000 passengers in 2023."), id="train-1")
    found = [(ferry, train)[number] for number in order]
    assert read_best("How many passengers did the ferry carry in 2023?", *found).text == "45,100"


def test_a_cell_is_marked_with_its_heads() -> None:
    best = read_best("What was the cargo of Lindholm in 2023?", TABLE)
    assert {mark.role for mark in best.marks} == {MarkRole.ANSWER, MarkRole.HEAD}
    (answer,) = (mark.box for mark in best.marks if mark.role is MarkRole.ANSWER)
    assert answer.covers(0.81, 0.19)
    assert best.frame is not None
    assert best.frame.covers(0.11, 0.19)
    assert best.context == "Lindholm · 2021: 410 · 2022: 433 · 2023: 457"


def test_a_computed_answer_shows_its_operands() -> None:
    best = read_best("What is the difference in cargo between Lindholm and Sandvik in 2023?", TABLE)
    assert best.text == "326"
    assert "457" in best.arithmetic
    assert sum(mark.role is MarkRole.OPERAND for mark in best.marks) == 2


def test_a_sentence_stands_around_words_of_text() -> None:
    best = read_best("How much can the cranes lift?", LETTER)
    assert best.context == "Its two cranes lift up to forty tonnes each."
    assert [mark.role for mark in best.marks] == [MarkRole.ANSWER]


@pytest.mark.parametrize(
    "question",
    [
        "What was the cargo of Lindholm in 2019?",
        "What is the name of the captain's dog?",
        "How many giraffes live in the zoo of Nairobi?",
        "灯塔是谁建造的？",
    ],
)
def test_a_question_about_something_absent_is_not_answered(question: str) -> None:
    assert read_best(question, *ITEMS).probability < THRESHOLD


def test_nothing_is_read_from_nothing() -> None:
    empty = page(name="empty.pdf")
    assert read("When does the ferry leave?", []) == []
    assert read("When does the ferry leave?", [ReadPage(empty)]) == []


def test_a_passage_is_read_without_marks() -> None:
    item = passage("The lighthouse was built in 1911. It is 41 metres high.")
    best = read_best("When was the lighthouse built?", item)
    assert (best.text, best.marks, best.frame) == ("1911", (), None)


def test_the_place_of_a_given_answer_is_found() -> None:
    pages = [ReadPage(item) for item in ITEMS]
    found = find_answer("How much cargo came through Sandvik in 2021?", " 120. ", pages)
    assert found is not None
    assert found.item == TABLE.id
    assert find_answer("How much cargo came through Sandvik in 2021?", "three oranges", pages) is None


sides = st.floats(-0.5, 1.5) | st.sampled_from([float("nan"), float("inf"), 0.0, 1.0])
boxes = st.builds(Box.unit, sides, sides, sides, sides)
spans = st.integers(-3, 40)
texts = st.text(max_size=60) | st.lists(
    st.sampled_from(["ferry", "Sandvik", "leaves", "9", "Figure 3", "\n", ". ", " ", "渡轮", "。", "the"]),
    max_size=25,
).map(" ".join)
items = st.builds(
    Item,
    id=st.just("x-1"),
    document=st.just("x"),
    document_name=st.text(max_size=5),
    kind=st.just(ItemKind.PAGE),
    ordinal=st.integers(1, 60),
    text=texts,
    words=st.lists(st.builds(Word, spans, spans, boxes), max_size=12).map(tuple),
    size=st.none() | st.builds(Size, st.integers(0, 3000), st.integers(0, 3000)),
    heading=st.text(max_size=5),
)


@given(question=texts, found=st.lists(items, max_size=3))
@example(question="Figure 3", found=[page((0.1, 0.1, "Figure 3"))])
def test_any_question_on_any_items_gives_answers_that_stand_in_them(question: str, found: list[Item]) -> None:
    readings = read(question, [ReadPage(item) for item in found])
    assert readings == read(question, [ReadPage(item) for item in found])
    assert sum(reading.probability for reading in readings) <= 1 + 1e-5
    for reading in readings:
        assert reading.text.strip()
        assert reading.item in {item.id for item in found}
        for mark in reading.marks:
            assert 0 <= mark.box.x1 <= mark.box.x2 <= 1
            assert 0 <= mark.box.y1 <= mark.box.y2 <= 1


@given(question=texts, item=items)
def test_the_region_around_a_reading_covers_its_frame(question: str, item: Item) -> None:
    for reading in read(question, [ReadPage(item)]):
        if reading.frame is not None:
            region = region_around(read_page_text(item), reading.frame)
            assert region.x1 <= reading.frame.x1 < reading.frame.x2 <= region.x2
            assert region.y1 <= reading.frame.y1 < reading.frame.y2 <= region.y2
            assert region.area <= max(MOST, reading.frame.area) + 1e-9


def test_a_described_thing_is_named_by_one_page_and_asked_about_on_another() -> None:
    reading = read_best("When was the port opened that handled the most cargo in 2023?", TABLE, LETTER)
    assert (reading.item, reading.text) == (LETTER.id, "1962")
    assert reading.arithmetic == "the port that handled the most cargo in 2023: Lindholm"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("5", "Of all ports 41.5 % are open, and 3,500 people work in them."),
        ("500", "In the ports 3,500 people work."),
        ("6", "The weather in the ports is described in Section 6 of the report."),
    ],
)
def test_a_number_that_only_stands_in_another_or_is_unlikely_has_no_place(answer: str, text: str) -> None:
    question = "How many of the ports had snow?"
    assert find_answer(question, answer, [ReadPage(passage(text))]) is None


def test_only_the_answer_is_written_in_the_form_that_is_asked_for_not_the_name() -> None:
    question = "When was the port opened that handled the most cargo in 2023? Answer in list format."
    reading = read_best(question, TABLE, LETTER)
    assert reading.text == '["1962"]'
    assert reading.arithmetic.endswith(": Lindholm")


def test_what_the_row_that_names_a_thing_says_takes_no_second_step() -> None:
    question = "What cargo in 2022 does the port have that handled the most cargo in 2023?"
    (reading,) = (one for one in read(question, [ReadPage(TABLE)]) if one.text == "433")
    assert "Lindholm" not in reading.arithmetic


def test_both_steps_have_to_be_right() -> None:
    question = "When was the port opened that handled the most cargo in 2023?"
    one, *_ = read("Which port handled the most cargo in 2023?", [ReadPage(TABLE), ReadPage(LETTER)])
    two, *_ = read("When was Lindholm opened?", [ReadPage(TABLE), ReadPage(LETTER)])
    both = read_best(question, TABLE, LETTER)
    assert both.probability == pytest.approx(one.probability * two.probability)


def test_operations_are_left_out_where_only_cells_are_looked_up() -> None:
    pages = [ReadPage(TABLE), ReadPage(LETTER)]
    question = "When was the port opened that handled the most cargo in 2023?"
    readings = read(question, pages, options=ReadingOptions(operations=False))
    assert not any(reading.arithmetic for reading in readings)


ACCOUNTS = page(
    (0.1, 0.10, "Income of the ferries of Orla"),
    (0.1, 0.13, "in thousands of euros"),
    (0.5, 0.19, "2024"), (0.7, 0.19, "2023"),
    (0.1, 0.22, "Fares"), (0.5, 0.22, "9,180"), (0.7, 0.22, "8,410"),
    (0.1, 0.25, "Cargo"), (0.5, 0.25, "3,275"), (0.7, 0.25, "3,690"),
    (0.1, 0.28, "Wages"), (0.5, 0.28, "(5,325)"), (0.7, 0.28, "(4,990)"),
    name="accounts.pdf",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer", "arithmetic"),
    [
        ("What was the income from fares in 2024?", "9,180 (in thousands of euros)", ""),
        ("What were the wages in 2024?", "(5,325), in thousands of euros", ""),
        (
            "What was the income from fares in 2024 in euros?",
            "9,180,000 euros",
            "9,180 × 1,000 = 9,180,000 euros",
        ),
        ("By how many percent did wages rise from 2023 to 2024?", "+6.7 %", "4,990 → 5,325: +6.7 %"),
    ],
)
def test_scale_unit_and_sign_are_part_of_the_answer(question: str, answer: str, arithmetic: str) -> None:
    best = read_best(question, ACCOUNTS)

    assert (best.answer, best.arithmetic) == (answer, arithmetic)
    assert best.marks


@pytest.mark.parametrize("answer", ["9,180", "9,180 (in thousands of euros)", "9180"])
def test_an_answer_is_found_with_and_without_its_scale(answer: str) -> None:
    found = find_answer("What was the income from fares in 2024?", answer, [ReadPage(ACCOUNTS)])

    assert found is not None
    assert found.text == "9,180"


def test_what_a_word_means_is_no_mean() -> None:
    codes = page(
        (0.1, 0.15, "Error"), (0.4, 0.15, "Pressure"), (0.6, 0.15, "Steps"),
        (0.1, 0.18, "86"), (0.4, 0.18, "410"), (0.6, 0.18, "3"),
        (0.1, 0.21, "87"), (0.4, 0.21, "120"), (0.6, 0.21, "5"),
        (0.1, 0.24, "88"), (0.4, 0.24, "90"), (0.6, 0.24, "4"),
        name="manual.pdf",
    )  # fmt: skip

    assert all("÷" not in one.arithmetic for one in read("What does error 88 mean?", [ReadPage(codes)]))
    assert any("÷" in one.arithmetic for one in read("What is the mean of the pressure?", [ReadPage(codes)]))
