from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.converter import CorpusOptions
from vrag.corpus.formats.sections import markdown_sections
from vrag.corpus.formats.text import passages
from vrag.corpus.formats.texts.html_tree import html_sections

if TYPE_CHECKING:
    from vrag.corpus.formats.text import TextPassage
    from vrag.types import TextTable

FERRIES = """<h1>Ferries</h1><table><caption>Crossings a day</caption>
<thead><tr><th rowspan=2>Pier</th><th colspan=2>April</th><th colspan=2>July</th></tr>
<tr><th>Weekday<th>Sunday<th>Weekday<th>Sunday</tr></thead>
<tr><td rowspan=2>Holm</td><td>11</td><td>7</td><td>19</td><td>15</td></tr>
<tr><td>12</td><td>8</td><td>20</td><td>16</td></tr>
<tr><td>Vik</td><td>3</td><td>2</td><td>5</td><td>4</td></tr></table>"""


def read(html: str, size: int = 1200) -> list[TextPassage]:
    return passages(html_sections(html), CorpusOptions(passage_chars=size))


def texts(passage: TextPassage, table: TextTable) -> dict[tuple[int, int], str]:
    """The texts of a table by each row and column that a cell takes."""
    return {
        (row, column): passage.text[cell.start : cell.end]
        for cell in table.cells
        for row in range(cell.row, cell.row + cell.rows)
        for column in range(cell.column, cell.column + cell.columns)
    }


def test_spans_give_each_row_and_column_the_words_of_its_cell() -> None:
    *_, passage = read(FERRIES)
    (table,) = passage.tables
    found = texts(passage, table)
    assert [found[0, column] for column in range(5)] == ["Pier", "April", "April", "July", "July"]
    assert [found[1, column] for column in range(5)] == ["Pier", "Weekday", "Sunday", "Weekday", "Sunday"]
    assert [found[row, 0] for row in range(2, 5)] == ["Holm", "Holm", "Vik"]
    assert [found[row, 4] for row in range(2, 5)] == ["15", "16", "4"]
    assert table.header_rows == 2
    assert table.caption is not None
    assert passage.text[slice(*table.caption)] == "Crossings a day"


def test_each_line_can_be_read_by_itself() -> None:
    *_, passage = read(FERRIES)
    assert "Pier | April | April | July | July\nPier | Weekday | Sunday | Weekday | Sunday\n" in passage.text
    assert "\nHolm | 11 | 7 | 19 | 15\nHolm | 12 | 8 | 20 | 16\n" in passage.text


def test_a_table_cut_into_passages_has_its_heads_in_each_and_says_that_it_is_a_part() -> None:
    rows = "".join(f"<tr><td>Boat {number}<td>{number}.50</tr>" for number in range(200))
    found = read(f"<table><tr><th>Boat<th>Fee</tr>{rows}</table><p>After.</p>", 400)
    assert len(found) > 5
    fees: dict[str, str] = {}
    for passage in found:
        (table,) = passage.tables
        cells = texts(passage, table)
        assert (cells[0, 0], cells[0, 1], table.header_rows) == ("Boat", "Fee", 1)
        assert table.is_part
        assert len(passage.text) <= 800
        height = max(row for row, _ in cells) + 1
        fees |= {cells[row, 0]: cells[row, 1] for row in range(1, height)}
    assert fees == {f"Boat {number}": f"{number}.50" for number in range(200)}


def test_a_table_in_one_passage_is_no_part() -> None:
    *_, passage = read(FERRIES)
    assert not passage.tables[0].is_part


def test_heads_at_the_left_are_heads_of_rows() -> None:
    *_, passage = read("<table><tr><th>Captain<td>Vera Quist<tr><th>Built<td>1971</table>")
    assert (passage.tables[0].header_rows, passage.tables[0].header_columns) == (0, 1)


INNER = "<table><tr><td>a<td>b<tr><td>c<td>d</table>"


@pytest.mark.parametrize(
    "html",
    [
        f"<table><tr><td>{INNER}<td>beside</table>",
        f"<table><tr><td><h2>Title</h2>words<td>beside</table>{INNER}",
        f"<table><tr><td>a<td>{'long words ' * 200}<tr><td>c<td>d</table>{INNER}",
        f"<table role=presentation><tr><td>x<td>y<tr><td>z<td>w</table>{INNER}",
    ],
    ids=["nested", "heading", "long cell", "role"],
)
def test_tables_that_lay_out_a_page_are_text_and_those_in_it_tables(html: str) -> None:
    found = read(html)
    tables = [(passage, table) for passage in found for table in passage.tables]
    assert len(tables) == 1
    assert sorted(texts(*tables[0]).values()) == ["a", "b", "c", "d"]
    if "beside" in html:
        assert any("beside" in passage.text for passage in found)


def test_markdown_tables_are_tables_with_heads() -> None:
    text = "# Dues\n\n| Boat | ~~Old~~ New<br>fee |\n|---|---|\n| Sloop | 12<sup>1</sup> |\n"
    *_, passage = passages(markdown_sections(text), CorpusOptions())
    (table,) = passage.tables
    assert texts(passage, table) == {(0, 0): "Boat", (0, 1): "New fee", (1, 0): "Sloop", (1, 1): "12 ¹"}
    assert table.header_rows == 1


def test_tables_of_html_within_markdown_are_tables() -> None:
    text = "# Dues\n\nBefore.\n\n<table><tr><th>Boat<th>Fee</tr><tr><td>Sloop<td>12</tr></table>\n\nAfter.\n"
    *_, passage = passages(markdown_sections(text), CorpusOptions())
    assert texts(passage, passage.tables[0])[1, 1] == "12"
    assert passage.text.endswith("After.")


def test_hostile_spans_cost_little_and_lose_no_word() -> None:
    cells = "<td rowspan=65534 colspan=1000>a" * 50
    found = read(f"<table><tr>{cells}</tr>{'<tr><td>b</tr>' * 3000}</table>")
    assert any("b" in passage.text for passage in found)
    read("<table>" * 3000 + "words")


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["td", "th"]),
                st.integers(0, 4),
                st.integers(0, 4),
                st.text("ab |\n9.", max_size=5),
            ),
            max_size=4,
        ),
        max_size=6,
    ),
    st.integers(20, 200),
)
def test_cells_of_any_table_take_places_of_their_own_and_stand_in_the_text(
    rows: list[list[tuple[str, int, int, str]]], size: int
) -> None:
    body = "".join(
        "<tr>" + "".join(f"<{tag} rowspan={down} colspan={across}>{text}" for tag, down, across, text in row)
        for row in rows
    )
    for passage in read(f"<p>Before.<table>{body}</table>", size):
        for table in passage.tables:
            places = [
                (row, column)
                for cell in table.cells
                for row, column in itertools.product(
                    range(cell.row, cell.row + cell.rows), range(cell.column, cell.column + cell.columns)
                )
            ]
            assert len(places) == len(set(places))
            for cell in table.cells:
                assert 0 <= cell.start < cell.end <= len(passage.text)
                assert passage.text[cell.start : cell.end].strip() == passage.text[cell.start : cell.end]
