"""Tables that go on on the next page are one table, and numbers are read as their document writes them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.reading.answer import ReadPage
from vrag.reading.reader import read
from vrag.reading.tables.table import DocumentTable
from vrag.reading.verification.source_text import read_source
from vrag.reading.views.neighbour_pages import read_number_style, read_tables
from vrag.text.numerals import UNKNOWN_STYLE, NumberStyle
from vrag.types import Item, ItemKind, Word

HEADS = ["Vessel", "Built", "Length", "Passengers"]
SHIPS = [
    ["Alca", "1980", "30.0", "120"],
    ["Brant", "1983", "32.5", "137"],
    ["Curlew", "1986", "35.0", "154"],
    ["Dunlin", "1989", "37.5", "171"],
    ["Eider", "1992", "40.0", "188"],
    ["Fulmar", "1995", "42.5", "305"],
    ["Gannet", "1998", "45.0", "222"],
    ["Heron", "2001", "47.5", "239"],
]
LEFT = (0.1, 0.4, 0.6, 0.8)
Rows = Sequence[Sequence[str]]


def place(rows: Rows, *, top: float = 0.2, left: Sequence[float] = LEFT) -> list[tuple[float, float, str]]:
    """Place rows below each other, each cell at the left of its column."""
    return [
        (x, top + 0.03 * number, cell)
        for number, row in enumerate(rows)
        for x, cell in zip(left, row, strict=False)
        if cell
    ]


def set_page(lines: Sequence[tuple[float, float, str]], ordinal: int) -> Item:
    """Make a page of lines, each by its left, its top and its words."""
    text, words = "", list[Word]()
    for left, top, line in lines:
        at = 0
        for word in line.split():
            at = line.index(word, at)
            box = Box.unit(left + 0.01 * at, top, min(left + 0.01 * (at + len(word)), 1.0), top + 0.02)
            words.append(Word(len(text) + at, len(text) + at + len(word), box))
            at += len(word)
        text += line + "\n"
    return Item(
        id=f"register-{ordinal}", document="r", document_name="register.pdf", kind=ItemKind.PAGE,
        ordinal=ordinal, text=text, words=tuple(words), size=Size(1000, 1000),
    )  # fmt: skip


def open_pages(*pages: Sequence[tuple[float, float, str]]) -> list[ReadPage]:
    """Return pages that open each other."""
    items = {number: set_page(lines, number) for number, lines in enumerate(pages, 1)}

    def open_page(ordinal: int) -> ReadPage | None:
        item = items.get(ordinal)
        return None if item is None else ReadPage(item, beside=lambda step: open_page(ordinal + step))

    return [found for number in items if (found := open_page(number)) is not None]


def texts(table: DocumentTable) -> list[list[str]]:
    """Return the texts by row and column."""
    rows = [[""] * table.width for _ in range(table.height)]
    for cell in table.cells:
        rows[cell.row][cell.column] = cell.text
    return rows


def read_first(pages: Sequence[ReadPage], number: int = 0) -> DocumentTable:
    """Return the only table of a page."""
    (table,) = read_tables(pages[number])
    return table


TITLE = (0.1, 0.12, "Register of vessels")


def test_a_table_without_heads_goes_on() -> None:
    pages = open_pages([TITLE, *place([HEADS, *SHIPS[:5]])], place(SHIPS[5:], top=0.1))

    for number, own in ((0, SHIPS[:5]), (1, SHIPS[5:])):
        table = read_first(pages, number)
        assert texts(table) == [HEADS, *SHIPS]
        assert (table.header_rows, table.header_columns, table.is_part) == (1, 1, False)
        here = [cell for cell in table.cells if not cell.item and cell.row]
        assert {cell.text for cell in here} == {text for row in own for text in row}
        other = f"register-{2 - number}"
        assert {cell.item for cell in table.cells} == {"", other}


def test_heads_that_return_stand_once() -> None:
    pages = open_pages(place([HEADS, *SHIPS[:4]]), place([HEADS, *SHIPS[4:]], top=0.1))

    assert texts(read_first(pages)) == texts(read_first(pages, 1)) == [HEADS, *SHIPS]


def test_heads_that_return_are_those_of_their_own_page() -> None:
    pages = open_pages(place([HEADS, *SHIPS[:4]]), place([HEADS, *SHIPS[4:]], top=0.1))

    for number in (0, 1):
        table = read_first(pages, number)
        assert all(not head.item for column in range(table.width) for head in table.column_heads(column))


def test_a_table_may_go_on_over_several_pages_with_running_titles() -> None:
    parts = SHIPS[:3], SHIPS[3:5], SHIPS[5:]
    pages = open_pages(
        *(
            [(0.1, 0.03, "Harbour office"), *place([HEADS, *part]), (0.5, 0.95, f"Page {number} of 3")]
            for number, part in enumerate(parts, 1)
        )
    )

    for number in range(3):
        assert texts(read_first(pages, number)) == [HEADS, *SHIPS]


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 5), st.booleans(), st.integers(0, 1))
def test_the_whole_is_the_same_wherever_it_is_cut(cut: int, is_headed: bool, number: int) -> None:
    second = [HEADS, *SHIPS[cut:]] if is_headed else SHIPS[cut:]
    pages = open_pages(place([HEADS, *SHIPS[:cut]]), place(second, top=0.1))

    assert texts(read_first(pages, number)) == [HEADS, *SHIPS]


OTHERS = [["Pier", "1980", "1990", "2000"], ["North", "11.5", "12.1", "30"], ["South", "10.5", "13.1", "20"]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (place([HEADS, *SHIPS[:4]]), place([["Pier", "Depth", "Width", "Cranes"], *OTHERS[1:], *OTHERS[1:]])),
        ([*place([HEADS, *SHIPS[:4]]), (0.1, 0.5, "The ships belong to the town.")], place(SHIPS[4:])),
        (place([HEADS, *SHIPS[:4]]), [(0.1, 0.1, "Ships of other towns were:"), *place(SHIPS[4:])]),
        (place([HEADS, *SHIPS[:4]]), place(SHIPS[4:], left=(0.15, 0.34, 0.53, 0.9))),
        (place([HEADS, *SHIPS[:4]]), [(0.1, 0.15, "Table 2: Other vessels"), *place(SHIPS[4:])]),
    ],
    ids=["other heads", "text below", "text above", "other columns", "a title of its own"],
)
def test_other_tables_stay_apart(
    first: list[tuple[float, float, str]], second: list[tuple[float, float, str]]
) -> None:
    pages = open_pages(first, second)

    for number in (0, 1):
        table = read_first(pages, number)
        assert {cell.item for cell in table.cells} == {""}
        assert not table.is_part


def test_a_caption_that_says_so_joins_tables() -> None:
    pages = open_pages(
        [(0.1, 0.15, "Table 2: Vessels"), *place([HEADS, *SHIPS[:4]])],
        [(0.1, 0.15, "Table 2: Vessels (continued)"), *place([HEADS, *SHIPS[4:]])],
    )

    assert texts(read_first(pages)) == [HEADS, *SHIPS]


def test_a_table_with_a_last_row_that_is_not_found_is_a_part() -> None:
    pages = open_pages(place([HEADS, *SHIPS[:5]]), [*place(SHIPS[5:6], top=0.1), (0.1, 0.4, "The end.")])
    alone = open_pages(place([HEADS, *SHIPS[:5]]), [(0.1, 0.1, "The end is near."), (0.1, 0.14, "So it is.")])

    assert read_first(pages).is_part
    assert not read_first(alone).is_part


def test_a_table_of_two_pages_is_a_part_where_a_third_may_go_on() -> None:
    pages = open_pages(
        place([HEADS, *SHIPS[:4]]),
        place(SHIPS[4:7], top=0.1),
        [*place(SHIPS[7:], top=0.1), (0.1, 0.4, "The end.")],
    )

    assert texts(read_first(pages)) == [HEADS, *SHIPS[:7]]
    assert read_first(pages).is_part
    assert read_first(pages, 1).is_part


def best(question: str, pages: Sequence[ReadPage]) -> tuple[str, str, float]:
    first = read(question, pages)[0]
    return first.text, first.item, first.probability


@pytest.mark.parametrize(
    ("question", "text", "item"),
    [
        ("How many passengers does the Heron carry?", "239", "register-2"),
        ("How many passengers does the Brant carry?", "137", "register-1"),
        ("Which vessel has the most passengers?", "Fulmar", "register-2"),
        ("Which vessel has the fewest passengers?", "Alca", "register-1"),
    ],
)
def test_an_answer_is_cited_where_its_cell_stands(question: str, text: str, item: str) -> None:
    pages = open_pages(place([HEADS, *SHIPS[:5]]), place(SHIPS[5:], top=0.1))
    found, page, _ = best(question, pages[::-1])

    assert (found, page) == (text, item)
    reading = next(one for one in read(question, pages) if one.text == text)
    assert reading.frame is not None
    words = [word.box for word in pages[int(item[-1]) - 1].item.words]
    assert any(reading.frame.covers(*box.center) for box in words)


def test_nothing_is_compared_or_added_up_where_rows_are_missing() -> None:
    whole = open_pages(place([HEADS, *SHIPS[:5]]), place(SHIPS[5:], top=0.1))
    part = open_pages(place([HEADS, *SHIPS[:5]]), [*place(SHIPS[5:6], top=0.1), (0.1, 0.4, "The end.")])
    question = "What is the total of passengers of all vessels?"

    assert "1536" in {one.text for one in read(question, whole)}
    assert all(not one.arithmetic for one in read(question, part))
    assert "Eider" not in {one.text for one in read("Which vessel has the most passengers?", part)}


def test_claims_about_later_rows_have_the_heads_of_the_first_page() -> None:
    pages = open_pages(place([HEADS, *SHIPS[:5]]), place(SHIPS[5:], top=0.1))
    source = read_source(pages[1])
    (number,) = [at for at, one in enumerate(source.statements) if source.text[one.start : one.end] == "239"]

    assert source.statements[number].terms.get("passenger", 0) > 0.8


def test_numbers_near_a_page_tell_how_its_own_are_written() -> None:
    plain = [(0.1, 0.2, "It was 84.210 tonnes.")]
    pages = open_pages(plain, [(0.1, 0.2, "Es waren 1.204,50 oder 3,5 Prozent.")])

    assert read_number_style(pages[0]) == NumberStyle(",")
    assert read_number_style(open_pages(plain)[0]) == UNKNOWN_STYLE
    assert [value.amount for value, _ in read_source(pages[0]).values] == [84_210]


@pytest.mark.parametrize(
    ("above", "below", "steps"),
    [(True, True, []), (True, False, [1]), (False, True, [-1]), (False, False, [-1, 1])],
)
def test_pages_are_opened_only_where_a_table_may_go_on(above: bool, below: bool, steps: list[int]) -> None:
    opened: list[int] = []
    lines = [
        *([(0.1, 0.08, "These ships belong to the town of Orla.")] if above else []),
        *place([HEADS, *SHIPS]),
        *([(0.1, 0.6, "The ships belong to the town.")] if below else []),
    ]
    read_tables(ReadPage(set_page(lines, 2), beside=opened.append))

    assert opened == steps
