"""`vrag eval run --extract`: answers in sentences are measured by rules as short ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import Asked, ChatServer, Refuse, Reply, Say
from ferry_desk import SEARCH
from typer.testing import CliRunner

from vrag.cli.eval import app
from vrag.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SENTENCE = "In 2024 it carried 48,200 passengers, says the note."
REFERENCES = ("48,200", "Not answerable")
SHORT = "<format>String</format><extracted>48,200</extracted>"
MEASURES = ("em", "mmlongbench")


def invoked(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def said(asked: Asked) -> Reply:
    """The agent, the judge and the extractor are one server."""
    if "<judge>" in asked.text:
        return Say("<judge>true</judge>")
    if "<extracted>" in asked.text:
        return Say(SHORT)
    return Say((SEARCH, f"<think>Seen.</think><answer>{SENTENCE}</answer>")[asked.turn])


def away(asked: Asked) -> Reply:
    return Refuse(401) if "<extracted>" in asked.text else said(asked)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    (folder / "pdf").mkdir()
    (folder / "pdf" / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    rows = [
        {
            "uid": str(number),
            "query": f"How many passengers, {number}?",
            "reference_answer": reference,
            "meta_info": {"file_name": "note.md", "answer_format": "Str"},
        }
        for number, reference in enumerate(REFERENCES)
    ]
    (folder / "rag_dataset.json").write_text(json.dumps({"examples": rows}))
    assert invoked("prepare", f"dataset={folder}", "--out", str(folder / "out")).exit_code == 0
    return folder / "out"


def asked_of(prepared: Path, out: Path, server: ChatServer, *more: str) -> str:
    """What the terminal shows."""
    served = ["--model", "scripted", "--base-url", server.url]
    done = invoked("run", str(prepared), "--out", str(out), *served, *more)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def records_in(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def run(prepared: Path, out: Path, server: ChatServer, *more: str) -> list[dict[str, Any]]:
    asked_of(prepared, out, server, *more)
    return records_in(out)


def measured(records: list[dict[str, Any]]) -> list[list[float | None]]:
    return [[record["measures"].get(name) for name in MEASURES] for record in records]


def conditions(out: Path) -> dict[str, Any]:
    return json.loads((out / "conditions.json").read_text())


def test_rules_compare_short_answers_of_runs_that_were_made_before(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with ChatServer(said) as server:
        monkeypatch.setenv("VRAG_JUDGE_MODEL", "scripted")
        monkeypatch.setenv("VRAG_JUDGE_URL", server.url)
        assert measured(run(prepared, out, server)) == [[0, 0], [0, 0]]
        assert conditions(out)["extractor"] == ""
        asked = len(server.requests)
        short = run(prepared, out, server, "--extract")
        assert len(server.requests) - asked == len(REFERENCES)  # nothing but short answers
        again = run(prepared, out, server, "--extract")
        assert len(server.requests) - asked == len(REFERENCES)
    assert measured(short) == measured(again) == [[1, 1], [0, 0]]
    assert {record["answer"] for record in short} == {SENTENCE}
    assert [record["extracted"]["answer"] for record in short] == ["48,200"] * 2
    told = conditions(out)
    assert told["extractor"].startswith("scripted:")
    assert told["judge_identity"].startswith("endpoint:scripted:")


def test_an_extractor_that_is_away_leaves_out_what_rules_measure(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(away) as server:
        monkeypatch.setenv("VRAG_JUDGE_MODEL", "scripted")
        monkeypatch.setenv("VRAG_JUDGE_URL", server.url)
        told = asked_of(prepared, tmp_path / "out", server, "--extract")
    assert "2 answers without a short answer, for example: The judge scripted failed" in told
    assert "without a verdict" not in told
    records = records_in(tmp_path / "out")
    assert measured(records) == [[None, None], [None, None]]
    assert [record["outcome"] for record in records] == ["right", "right"]
    assert all("failed" in record["extracted"]["why"] for record in records)


def test_it_takes_a_model(prepared: Path, tmp_path: Path) -> None:
    done = invoked("run", str(prepared), "--out", str(tmp_path / "out"), "--extract")
    assert isinstance(done.exception, SettingsError)
    assert "VRAG_JUDGE_MODEL" in done.exception.hint
    assert not (tmp_path / "out").exists()
