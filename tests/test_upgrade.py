"""What 0.1.0 wrote opens now: its collections, with and without vectors, and its runs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import vrag
from vrag.cli.root import create_app
from vrag.embed.embedder import VectorKind
from vrag.errors import FingerprintMismatch
from vrag.index.collection import Collection
from vrag.search.engine import Engine
from vrag.testing import HashEmbedder
from vrag.types import Query

ARCHIVE = Path(__file__).parent / "data" / "release-0.1.0.zip"
SHIPS = "20261127-220150-042435-56ad"
"""The run of VRAG; the other is of VimRAG."""
FEES = "20261127-220243-210063-a8a7"
QUESTION = "How many ships did the harbour receive in 2025?"

app = create_app()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of 0.1.0 with documents, collections and runs; commands run in it."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VRAG_OCR", "true")  # as the collection was made
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--collection", "collection"])


def test_a_collection_of_0_1_is_whole_and_is_searched_and_asked(folder: Path) -> None:
    verified = run("index", "verify")
    assert (verified.exit_code, "Not damaged." in verified.output) == (0, True), verified.output
    assert "!" not in verified.output
    assert run("index", "verify", "--repair").exit_code == 0
    assert "No problems." in run("index", "verify").output
    session = vrag.open(collection="collection")
    best, *_ = session.search("shore power")
    answer = session.ask(QUESTION)

    assert (best.document_name, best.item) == ("harbour.pdf", "bad774b4e6b7d706-2")
    assert (answer.evidence[0].document, answer.evidence[0].page) == ("harbour.pdf", 1)


def test_adding_to_a_collection_of_0_1_is_refused_with_what_to_do_and_changes_nothing(folder: Path) -> None:
    """Its pages were read in another way: a collection with text of both would find one and not the other."""
    (folder / "tide.md").write_text("The tide gauge stands at the lighthouse of Skerrin.", encoding="utf-8")
    refused = run("index", "add", "tide.md", "documents")
    assert refused.exit_code == 1
    assert isinstance(refused.exception, FingerprintMismatch)
    assert "vrag index add" in refused.exception.hint

    session = vrag.open(collection="collection")
    assert session.search("crane inspected")[0].document_name == "crane.md"


def test_vectors_of_0_1_are_searched(folder: Path) -> None:
    engine = Engine(Collection.open(folder / "vectors"), HashEmbedder(VectorKind.MULTI, 32))
    [hits] = engine.search([Query("crane lifts tonnes")], 1)
    assert hits[0].document_name == "crane.md"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (SHIPS, "The harbour of Port Ellis received 412 ships in 2025"),
        (FEES, "A berth for one night costs 35 euros"),
    ],
)
def test_a_run_of_0_1_is_shown_and_exported(folder: Path, name: str, answer: str) -> None:
    assert name in run("runs", "list", "--json").output
    shown = run("runs", "show", name)
    assert (shown.exit_code, answer in " ".join(shown.output.split())) == (0, True), shown.output
    for form in ("html", "markdown", "json"):
        exported = run("runs", "export", name, "--format", form, "--out", f"run.{form}")
        assert exported.exit_code == 0, exported.output
        assert answer in (folder / f"run.{form}").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [SHIPS, FEES])
def test_a_run_of_0_1_is_replayed_and_what_has_changed_since_is_said(folder: Path, name: str) -> None:
    replayed = run("runs", "replay", name, "--json")
    facts = json.loads(replayed.stdout)
    differing = {entry["recorded"]["type"] for entry in facts["differences"]}

    assert differing <= {"model_called", "search_requested", "search_returned", "answer"}
    assert all(entry["recorded"]["type"] == entry["replayed"]["type"] for entry in facts["differences"])
    texts = [
        (entry["recorded"]["text"], entry["replayed"]["text"])
        for entry in facts["differences"]
        if entry["recorded"]["type"] == "answer"
    ]
    assert all(recorded == again for recorded, again in texts)
    assert "An earlier version of vrag recorded this run" in run("runs", "replay", name).output


def test_a_question_follows_on_a_run_of_0_1(folder: Path) -> None:
    asked = run("ask", "And who is the harbour master?", "--after", SHIPS)
    assert (asked.exit_code, "Ines Calder" in asked.output) == (0, True), asked.output
