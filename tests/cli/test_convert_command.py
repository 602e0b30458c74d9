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


def test_several_files_go_to_a_folder_and_one_that_is_damaged_stops_no_other(tmp_path: Path) -> None:
    for name, text in (("a.csv", "Light,Range\nBell,9\n"), ("a.txt", "Ahoy."), ("b.pdf", "no PDF")):
        (tmp_path / name).write_text(text)
    done = run(*(tmp_path / name for name in ("b.pdf", "a.csv", "a.txt")), "-o", tmp_path / "out")
    assert done.exit_code != 0
    assert "b.pdf cannot be read" in done.stderr
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert written == {
        "a.csv.md": "| Light | Range |\n| --- | --- |\n| Bell | 9 |\n",
        "a.txt.md": "Ahoy.\n",
    }


def test_one_file_goes_into_a_folder_that_exists(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ahoy.")
    assert run(tmp_path / "a.txt", "-o", tmp_path).exit_code == 0
    assert (tmp_path / "a.md").read_text() == "Ahoy.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.txt", "b.txt"), "--output FOLDER"),
        (("a.txt", "b.txt", "-o", "a.txt"), "not a folder"),
        (("a.txt", "./a.txt", "-o", "out"), "Two files"),
        (("-",), "Standard input is not read"),
    ],
)
def test_what_cannot_be_written_or_read_is_said_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Ahoy.")
    done = run(*arguments)
    assert done.exit_code != 0
    assert message in f"{done.exception} {getattr(done.exception, 'hint', '')} {done.stderr}"
    assert (tmp_path / "a.txt").read_text() == "Ahoy."
