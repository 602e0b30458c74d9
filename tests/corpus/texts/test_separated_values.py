from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.convert import CONVERTERS
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.texts.separated_values import find_delimiter, table_sections
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item


def items_of(path: Path, data: bytes) -> list[Item]:
    path.write_bytes(data)
    context = ConversionContext(path.parent, CorpusOptions())
    with CONVERTERS[path.suffix](read_source(path), context) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"Pier,Boats\nHolm,12\nVik,3\n"),
        ("a.csv", "Pier;Boats\r\nHolm;12\r\nVik;3\r\n".encode("utf-16")),
        ("a.csv", b'sep=|\n"Pier"|"Boats"\nHolm|12\n\nVik|3\n'),
        ("a.tsv", b"Pier\tBoats\t\nHolm\t12\nVik\t3"),
    ],
)
def test_rows_stand_below_the_names_of_their_columns(tmp_path: Path, name: str, data: bytes) -> None:
    (item,) = items_of(tmp_path / name, data)
    assert item.text == "Pier | Boats\nHolm | 12\nVik | 3"
    (table,) = item.facts.tables
    assert table.header_rows == 1
    assert [item.text[cell.start : cell.end] for cell in table.cells] == "Pier Boats Holm 12 Vik 3".split()


def test_a_value_keeps_signs_and_breaks_within_quotation_marks(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path / "a.csv", b'Pier,Note\n"Holm, north","first\nsecond ""line"""\n')
    assert 'Holm, north | first second "line"' in item.text


def test_a_title_above_the_table_stays_above_it(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path / "a.csv", b"Boats of 2026\n\nPier,Boats,Crew\nHolm,12,4\nVik,3,2\n")
    assert item.text.startswith("Boats of 2026\n\nPier | Boats | Crew\n")
    assert item.facts.tables[0].cells[0].start == len("Boats of 2026\n\n")


def test_every_passage_of_a_long_file_has_whole_rows_and_the_names(tmp_path: Path) -> None:
    rows = "".join(f"Pier {number},{number * 7}\n" for number in range(500))
    items = items_of(tmp_path / "a.csv", f"Pier,Boats\n{rows}".encode())
    lines = [line for item in items for line in item.text.split("\n")[1:]]
    assert lines == [f"Pier {number} | {number * 7}" for number in range(500)]
    assert all(item.text.startswith("Pier | Boats\n") for item in items)
    assert all(item.facts.tables[0].is_part for item in items)


def test_rows_of_many_columns_are_records_with_the_name_of_each_value() -> None:
    names = ",".join(f"Measure of column {number}" for number in range(60))
    first, second = table_sections(f"{names}\n{','.join(map(str, range(60)))}\n{',' * 59}7\n", 400)
    assert "Measure of column 41: 41\n" in first.text
    assert second.text == "Measure of column 59: 7"


def test_a_first_row_of_figures_is_no_head(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path / "a.csv", b"Holm,12,5\nVik,3,6\n")
    assert item.facts.tables[0].header_rows == 0


def test_a_file_without_values_has_a_reason(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no text"):
        items_of(tmp_path / "a.csv", b",,\n,,\n")


@given(st.sampled_from(",;\t|"), st.integers(2, 5), st.integers(2, 8))
def test_the_sign_between_values_is_found(delimiter: str, width: int, height: int) -> None:
    stream = io.StringIO()
    rows = [[f"a{row} {column}" for column in range(width)] for row in range(height)]
    csv.writer(stream, delimiter=delimiter).writerows(rows)
    assert find_delimiter(stream.getvalue()) == delimiter


@given(st.text('ab,;\t"\n|19 ', max_size=120), st.integers(20, 60))
def test_no_value_of_any_file_is_lost(text: str, size: int) -> None:
    found = "".join(section.text for section in table_sections(text, size))
    for letter in "ab19":
        assert found.count(letter) >= text.count(letter)
