"""Collections and runs of earlier versions: they are refused with what to do, and stay as they are."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from command_line import Done, run_vrag

import vrag
from vrag.errors import CollectionError

ARCHIVE = Path(__file__).parent / "data" / "release-0.1.0.zip"
RUN = "20261127-220150-042435-56ad"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of 0.1.0 with documents, collections and runs."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def run(folder: Path, *words: str) -> Done:
    return run_vrag(*words, "--collection", "collection", cwd=folder)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "line",
    [
        ["index", "add", "documents"],
        ["index", "status"],
        ["index", "verify"],
        ["index", "verify", "--repair"],
        ["index", "remove", "crane.md"],
        ["index", "compact"],
        ["search", "shore power"],
        ["ask", "How many ships did the harbour receive in 2025?"],
        ["ask", "And who is the harbour master?", "--after", RUN],
        ["runs", "list"],
        ["runs", "show", RUN],
        ["runs", "replay", RUN],
    ],
    ids=" ".join,
)
def test_a_collection_of_0_1_is_refused_with_what_to_do_and_stays(folder: Path, line: list[str]) -> None:
    before = contents(folder)
    done = run(folder, *line)
    assert done.status == 1
    assert "was created by an earlier version of vrag" in done.err
    assert "vrag index add DOCUMENTS --collection NEW" in " ".join(done.err.split())
    assert contents(folder) == before


def test_python_refuses_it_too(folder: Path) -> None:
    with pytest.raises(CollectionError, match=r"earlier version of vrag.*vrag index add DOCUMENTS"):
        vrag.open(collection=folder / "collection")


def test_its_documents_are_indexed_again_in_another_one(folder: Path) -> None:
    assert run_vrag("index", "add", "documents", "--collection", "new", cwd=folder).status == 0
    session = vrag.open(collection=folder / "new")
    answer = session.ask("How many ships did the harbour receive in 2025?")
    assert (answer.evidence[0].document, answer.evidence[0].page) == ("harbour.pdf", 1)


def test_its_runs_are_mentioned_where_runs_are_kept_apart(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = folder / "collection" / "runs"
    assert run_vrag("runs", "list", cwd=folder, VRAG_RUNS_DIR=str(runs)).status == 0
    assert f"{runs} has 2 runs of an earlier version of vrag, which are not read" in caplog.text
