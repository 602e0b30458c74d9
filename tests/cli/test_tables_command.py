"""`vrag tables` on the sample documents."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from vrag.cli.root import create_app
from vrag.errors import CorpusError
from vrag.reading.tables import finder
from vrag.reading.tables.finder import find_tables
from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.reading.tables.table import DocumentTable
    from vrag.types import Item

REPORT = corpus_dir() / "annual-report-2024.pdf"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(create_app("tables"), ["tables", *map(str, arguments)])


def test_json_has_every_cell_with_its_place() -> None:
    done = run(REPORT, "--page", "3", "--format", "json")

    tables = json.loads(done.stdout)["tables"]
    table = next(table for table in tables if "Passengers by line" in table["caption"])
    texts = {(cell["row"], cell["column"]): cell["text"] for cell in table["cells"]}
    assert texts[3, 4] == "84,210"
    assert table["header_rows"] == 1


def test_a_file_per_table_is_written(tmp_path: Path) -> None:
    done = run(REPORT, "--page", "3", "--format", "csv", "--output", tmp_path / "out")

    assert done.exit_code == 0
    files = sorted((tmp_path / "out").glob("annual-report-2024_3_*.csv"))
    assert files
    assert any("Orla – Saltby" in row for row in csv.reader(files[0].read_text().splitlines()))


@pytest.mark.parametrize(
    ("arguments", "message"), [((REPORT, "--page", "99"), "no page 99"), (("x.pdf",), "not a file")]
)
def test_what_cannot_be_read_is_an_error(arguments: tuple[str | Path, ...], message: str) -> None:
    done = run(*arguments)

    assert isinstance(done.exception, CorpusError)
    assert message in str(done.exception)


def test_a_fault_costs_the_tables_of_its_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_on_page_3(item: Item, picture: Image | None) -> tuple[DocumentTable, ...]:
        if item.ordinal == 3:
            raise IndexError
        return find_tables(item, picture)

    whole = json.loads(run(REPORT, "--format", "json").stdout)["tables"]
    monkeypatch.setattr(finder, "find_tables", fail_on_page_3)
    done = run(REPORT, "--format", "json")

    assert done.exit_code == 0
    assert "annual-report-2024.pdf, page 3: its tables could not be read." in done.stderr
    others = [table for table in whole if table["page"] != 3]
    assert others
    assert json.loads(done.stdout)["tables"] == others
