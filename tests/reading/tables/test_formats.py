"""Tables as Markdown, CSV, HTML and JSON."""

from __future__ import annotations

import csv
import json

from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box
from vrag.reading.tables.formats import format_csv, format_html, format_markdown, table_facts
from vrag.reading.tables.table import Cell, DocumentTable

TABLE = DocumentTable(
    cells=(
        Cell(row=0, column=0, rows=2, text="Line"),
        Cell(row=0, column=1, columns=2, text="A|B <b>"),
        Cell(row=1, column=1, text="2023"),
        Cell(row=1, column=2, text="2024", box=Box.unit(0.5, 0.25, 0.75, 0.5)),
        Cell(row=2, column=0, text="=1+1"),
        Cell(row=2, column=2, text="-5"),
    ),
    header_rows=2,
    header_columns=1,
    caption="Sales & more",
)


def test_markdown_has_one_row_of_heads_and_escapes_its_own_marks() -> None:
    assert format_markdown(TABLE).splitlines() == [
        "**Sales &amp; more**",
        "",
        "| Line | A\\|B &lt;b> / 2023 | A\\|B &lt;b> / 2024 |",
        "| --- | --- | --- |",
        "| =1+1 |  | -5 |",
    ]


def test_csv_keeps_numbers_and_guards_formulas() -> None:
    assert format_csv(TABLE) == "Line,A|B <b>,\n,2023,2024\n'=1+1,,-5\n"


def test_html_has_spans_and_escapes_texts() -> None:
    lines = format_html(TABLE).splitlines()

    assert lines[1] == "<caption>Sales &amp; more</caption>"
    assert lines[2] == '<tr><th rowspan="2">Line</th><th colspan="2">A|B &lt;b&gt;</th></tr>'
    assert lines[4] == "<tr><th>=1+1</th><td></td><td>-5</td></tr>"


def test_json_has_boxes() -> None:
    facts = json.loads(json.dumps(table_facts(TABLE)))

    assert facts["cells"][3] == {
        "row": 1,
        "column": 2,
        "rows": 1,
        "columns": 1,
        "text": "2024",
        "box": [0.5, 0.25, 0.75, 0.5],
    }


@given(
    st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")), min_size=4, max_size=4)
)
def test_any_text_survives_csv(texts: list[str]) -> None:
    cells = tuple(Cell(row=n // 2, column=n % 2, text=text) for n, text in enumerate(texts))

    rows = list(csv.reader(format_csv(DocumentTable(cells=cells)).splitlines(keepends=True)))

    if not any("\r" in text or "\n" in text for text in texts):
        assert len(rows) == 2
        assert all(len(row) == 2 for row in rows)


def test_an_empty_table_is_formatted() -> None:
    empty = DocumentTable(cells=())

    assert (format_markdown(empty), format_csv(empty)) == ("", "")
    assert "<table>" in format_html(empty)
