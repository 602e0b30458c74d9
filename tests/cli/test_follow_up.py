"""`vrag ask --after` and `--image`: a conversation at the command line."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from vrag.agent.question import PreviousTurn
from vrag.agent.runs.run_store import RunStore
from vrag.cli.root import create_app
from vrag.errors import RunError
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from vrag.agent.runs.run_store import StoredRun

app = create_app()

FERRY = (
    "# The Lantern Ferry\n\nThe ferry carried 48,200 passengers in 2024.\n\n"
    "In 2023 the ferry carried 45,100 passengers.\n"
)
TRAIN = "# The Lantern Train\n\nThe train carried 99,000 passengers in 2023.\n"
FIRST = "How many passengers did the ferry carry in 2024?"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ferry.md").write_text(FERRY)
    (tmp_path / "docs" / "train.md").write_text(TRAIN)
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vrag(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def said(done: Result) -> str:
    """What a person reads, on one line; errors are written by `main`, which ends the process."""
    return " ".join(f"{done.output} {done.exception}".replace("│", " ").split())


def asked(*arguments: str) -> dict[str, Any]:
    """What `vrag ask --json` prints."""
    done = vrag("ask", *arguments, "--json")
    assert done.exit_code in {0, 3}, done.output
    return json.loads(done.stdout)


def stored(home: Path, run: str = "last") -> StoredRun:
    return RunStore(Collection.open(home / "collection").runs_dir).read(run)


def picture(path: Path, size: tuple[int, int] = (200, 100)) -> Path:
    Image.new("RGB", size, "green").save(path)
    return path


def test_a_question_follows_on_the_last_one(home: Path) -> None:
    first = asked("docs", FIRST)
    second = asked("--after", "last", "And in 2023?")
    third = asked("--after", second["run"], "And in 2022?")
    assert (first["stop_reason"], second["question"]) == ("answered", "And in 2023?")
    assert second["steps"][0]["search"] == "passengers ferry carry 2023"
    started = stored(home, third["run"]).started
    assert started.session == first["run"]
    assert started.history == (
        PreviousTurn(FIRST, first["answer"]),
        PreviousTurn("And in 2023?", second["answer"]),
    )


def test_a_follow_up_looks_in_the_documents_of_the_run_before(home: Path) -> None:
    asked("docs", FIRST)
    asked("docs/ferry.md", FIRST)
    second = asked("--after", "last", "And in 2023?")
    assert {shown.document_name for shown in _hits(home)} == {"ferry.md"}
    third = asked("--after", second["run"], "docs", "And in 2023?")
    assert {shown.document_name for shown in _hits(home, third["run"])} == {"ferry.md", "train.md"}


def _hits(home: Path, run: str = "last") -> list[Any]:
    return [hit for step in stored(home, run).result.steps for hit in step.hits]


def test_when_those_documents_have_changed_the_whole_collection_is_looked_at(home: Path) -> None:
    first = asked("docs/ferry.md", FIRST)
    (home / "docs" / "ferry.md").write_text(FERRY.replace("45,100", "45,900"))
    asked("docs", "How long is the train?")
    done = vrag("ask", "--after", first["run"], "And in 2023?")
    assert "have changed or are gone" in " ".join(done.stderr.split())
    assert "45,900" in done.stdout


def test_a_run_of_a_conversation_is_replayed_and_exported(home: Path) -> None:
    asked("docs", FIRST)
    asked("--after", "last", "And in 2023?", "--image", str(picture(home / "part.png")))
    assert stored(home).started.attached
    replayed = vrag("runs", "replay", "last")
    assert replayed.exit_code == 0, replayed.output
    assert vrag("runs", "export", "last", "-o", str(home / "run.html")).exit_code == 0
    html = (home / "run.html").read_text()
    assert FIRST in html
    assert "Picture 1 that came with the question" in html


def test_pictures_come_with_a_question_and_lie_with_its_run(home: Path) -> None:
    paths = [picture(home / "a.png"), picture(home / "b.jpg", (100, 200))]
    told = asked("docs", FIRST, "--image", str(paths[0]), "--image", str(paths[1]))
    run = stored(home)
    files = [run.read_file(sha256) for sha256 in run.started.attached]
    assert [Image.open(io.BytesIO(file)).size for file in files] == [(200, 100), (100, 200)]
    assert "cannot be looked at without a model" in told["steps"][0]["thought"]


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _gif() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 40)).save(buffer, "GIF")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("none.png", None, "cannot be read"),
        ("text.png", b"no picture", "not a picture"),
        ("moving.gif", _gif(), "JPEG, PNG or WebP"),
    ],
)
def test_a_wrong_picture_is_named_before_anything_is_indexed(
    home: Path, name: str, data: bytes | None, words: str
) -> None:
    path = home / name if data is None else _written(home / name, data)
    done = vrag("ask", "docs", FIRST, "--image", str(path))
    assert done.exit_code in {1, 2}
    assert words in said(done)
    assert name in said(done).replace(" ", ""), "a long path is broken wherever the line ends"
    assert not (home / "collection").exists()


@pytest.mark.parametrize("run", ["last", "20200101", "../x"])
def test_a_run_that_is_not_there_is_named_before_anything_is_indexed(home: Path, run: str) -> None:
    asked("docs/train.md", "How many passengers did the train carry in 2023?")
    known = {document.name for document in Collection.open(home / "collection").documents()}
    if run == "last":
        Collection.open(home / "collection").runs_dir.rename(home / "runs")
    done = vrag("ask", "docs", FIRST, "--after", run)
    assert done.exit_code == 1
    assert isinstance(done.exception, RunError)
    assert {document.name for document in Collection.open(home / "collection").documents()} == known


VAGUE = "How many passengers does this document say were carried in 2023?"


def test_a_question_about_one_of_several_documents_is_answered_and_the_others_are_named(home: Path) -> None:
    printed = said(vrag("ask", "docs", VAGUE))
    assert "This may be about several documents:" in printed
    report = asked("docs", VAGUE)
    assert sorted(choice["name"] for choice in report["choices"]) == ["ferry.md", "train.md"]
    first = report["choices"][0]
    assert f"Ask one of them: vrag ask docs/{first['name']} '{VAGUE}'" in printed
    assert report["evidence"], "nothing is held back"
    alone = asked(f"docs/{first['name']}", VAGUE)
    assert (alone["choices"], alone["notices"]) == ([], [])
    assert vrag("runs", "replay", "last").exit_code == 0


def test_a_clear_question_is_not_asked_back(home: Path) -> None:
    assert asked("docs", "How many passengers did the Lantern Train carry?")["choices"] == []


@pytest.mark.parametrize("name", ["ferry", "train"])
def test_this_document_is_the_one_that_the_answer_before_rests_on(home: Path, name: str) -> None:
    first = asked("docs", f"How many passengers did the {name} carry in 2023?")
    assert {evidence["document"] for evidence in first["evidence"]} == {f"{name}.md"}
    second = asked("--after", "last", VAGUE)
    assert second["choices"] == []
    assert second["evidence"][0]["document"] == f"{name}.md"
    assert stored(home).started.history[-1].documents
    assert vrag("runs", "replay", "last").exit_code == 0
