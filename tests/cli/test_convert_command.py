"""`vrag convert` writes one document as Markdown or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from vrag.cli.root import create_app

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

pytestmark = pytest.mark.slow  # starts worker processes

MAIL = b"""From: ada@lights.example
Subject: Lights
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html

<table><tr><th>Light<th>Range<tr><td>Bell<td>9</table>
--b
Content-Type: application/pdf
Content-Disposition: attachment; filename=chart.pdf

x
--b--
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(create_app("convert"), ["convert", *map(str, arguments)])


def test_a_document_is_written_as_markdown_and_what_is_not_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(MAIL)
    done = run(tmp_path / "a.eml")
    assert done.exit_code == 0
    assert done.stdout == (
        "# Lights\n\nFrom: ada@lights.example\n\n| Light | Range |\n| --- | --- |\n| Bell | 9 |\n"
    )
    assert "chart.pdf" in done.stderr


def test_json_goes_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Light,Range\nBell,9\n")
    done = run(tmp_path / "a.csv", "--format", "json", "--output", tmp_path / "a.json")
    assert (done.exit_code, done.stdout.count("{")) == (0, 0)
    (item,) = json.loads((tmp_path / "a.json").read_text())["items"]
    assert [cell["text"] for cell in item["tables"][0]["cells"]] == ["Light", "Range", "Bell", "9"]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path / "gone.pdf")
    assert done.exit_code != 0
