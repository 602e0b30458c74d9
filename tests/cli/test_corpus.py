"""`vrag corpus`, called as a command line calls it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from corpus.test_export import pdf
from corpus.video_files import Film, film_bytes
from extras import require
from typer.testing import CliRunner

from vrag.cli.corpus import app
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from pathlib import Path


def test_convert_says_what_it_wrote_and_what_it_could_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(2))
    (tmp_path / "b.pdf").write_bytes(b"nothing")
    done = CliRunner().invoke(app, ["convert", str(tmp_path), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Wrote 2 pages of 1 files" in done.output
    assert "not a PDF file" in done.output
    assert (tmp_path / "out" / "a_2.jpg").exists()


def test_convert_lists_files_for_machines(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(2))
    line = ["convert", str(tmp_path / "a.pdf"), "-o", str(tmp_path / "out"), "--dpi", "72", "--json"]
    done = CliRunner().invoke(app, line)
    record = json.loads(done.stdout)
    assert [file["number"] for file in record["files"]] == [1, 2]
    assert record["files"][0] | {"path": ""} == {
        "path": "",
        "source": str(tmp_path / "a.pdf"),
        "number": 1,
        "width": 612,
        "height": 792,
    }
    assert record["problems"] == []


def test_nothing_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "b.pdf").write_bytes(b"nothing")
    done = CliRunner().invoke(app, ["convert", str(tmp_path), "-o", str(tmp_path / "out")])
    assert isinstance(done.exception, CorpusError)


def test_split_cuts_videos(tmp_path: Path) -> None:
    require("video", "av")
    (tmp_path / "talk.mkv").write_bytes(film_bytes(Film(kind="matroska")))
    line = ["split", str(tmp_path / "talk.mkv"), "-o", str(tmp_path / "out"), "--seconds", "5", "--json"]
    record = json.loads(CliRunner().invoke(app, line).stdout)
    assert [(file["start"], file["end"]) for file in record["files"]] == [(0, 5), (5, 10), (10, 12)]
