"""`vrag runs export`: a file that holds the whole run, or a sentence that says why there is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import typer
from sample_runs import vrag_run
from typer.testing import CliRunner

from vrag.agent.runs.run_store import RunStore
from vrag.cli.runs import export
from vrag.errors import RunError
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

app = typer.Typer()
app.command()(export)


@pytest.fixture
def run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A collection with one recorded run; its id."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    store = RunStore(Collection.open_or_create(tmp_path / "collection").runs_dir)
    told = vrag_run()
    with store.record() as recording:
        for event in told.events:
            recording.write(event.model_copy(update={"run_id": recording.id}))
        for sha256, data in told.files.items():
            recording.save(f"{sha256}.jpg", data)
    return recording.id


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_run_is_written_under_its_id_and_its_size_is_told(run_id: str, tmp_path: Path) -> None:
    done = call("last", "--html")
    assert done.exit_code == 0, done.output
    data = (tmp_path / f"{run_id}.html").read_bytes()
    assert b"48,200 passengers" in data
    assert f"{len(data) / 1e6:.1f} MB" in done.output
    assert "3 pictures" in done.output


def test_machines_are_told_the_same(run_id: str, tmp_path: Path) -> None:
    done = call(run_id[:12], "--html", "--json", "--out", "page.html")
    size = (tmp_path / "page.html").stat().st_size
    assert json.loads(done.stdout) == {
        "run": run_id,
        "file": "page.html",
        "bytes": size,
        "pictures": 3,
        "missing": 0,
    }


def test_a_page_goes_to_standard_output(run_id: str) -> None:
    done = call("--html", "-o", "-")
    assert done.stdout_bytes.startswith(b"<!doctype html>")
    assert run_id.encode() in done.stdout_bytes


def test_pictures_that_are_gone_are_told(run_id: str, tmp_path: Path) -> None:
    runs = RunStore(tmp_path / "collection" / "runs")
    runs.files.blobs.delete(name.split(".")[0] for name in runs.file_names(run_id))
    done = call("--html")
    assert done.exit_code == 0
    assert "0 pictures" in done.output
    assert "3 pictures are missing" in done.output


def test_a_page_is_the_usual_form(run_id: str, tmp_path: Path) -> None:
    assert call("last").exit_code == 0
    assert (tmp_path / f"{run_id}.html").exists()


@pytest.mark.parametrize("place", ["taken", ".", "absent/page.html"])
def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left_there(
    run_id: str, tmp_path: Path, place: str
) -> None:
    (tmp_path / "taken").mkdir()
    before = sorted(tmp_path.iterdir())
    done = call("--html", "--out", place)
    assert isinstance(done.exception, RunError)
    assert "cannot be written" in str(done.exception)
    assert sorted(tmp_path.iterdir()) == before
