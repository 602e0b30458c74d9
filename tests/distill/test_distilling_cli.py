"""`vrag data sample`, `select` and `export-sft`, as one types them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ChatServer, Say
from distill_runs import ANSWER, SEARCH, crop, record_sample
from typer.testing import CliRunner

from vrag.cli.data import app
from vrag.distill.sample_store import SampleStore
from vrag.errors import SampleError, SettingsError

if TYPE_CHECKING:
    from typer.testing import Result

EXPERTS = """
[planner]
model = "big"
base_url = "{url}"
profile = "qwen3-vl"
key_variable = "PLANNER_KEY"
price_prompt = 1.0
price_completion = 2.0
[grounder]
model = "boxes"
base_url = "{url}"
profile = "qwen2.5-vl"
key_variable = "PLANNER_KEY"
[judge]
model = "strict"
base_url = "{url}"
key_variable = "PLANNER_KEY"
"""
QUESTIONS = [
    {"uid": n, "query": "Who sails?", "reference_answer": "Ann", "meta_info": {"file_name": "ferry.md"}}
    for n in (1, 2)
]


def vrag(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def asked(*arguments: str | Path) -> dict[str, Any]:
    done = vrag(*arguments, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def reply(call: Any) -> Say:  # noqa: ANN401
    if call.body["model"] == "strict":
        return Say('{"score": 5, "why": "Same."}')
    return Say('{"think": "t", "answer": "Ann"}' if call.turn else '{"think": "t", "search": "sails"}')


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    monkeypatch.setenv("PLANNER_KEY", "sesame")
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/ferry.md").write_text("Ann sails the ferry.")
    Path("questions.json").write_text(json.dumps(QUESTIONS))
    return tmp_path


def test_sampling_is_stopped_and_goes_on_and_says_what_each_expert_cost(place: Path) -> None:
    def stopping(call: Any) -> Say:  # noqa: ANN401
        if len(server.requests) == 5 and not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return reply(call)

    stopped: list[bool] = []
    Path("questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
    command = (
        "sample questions.jsonl --docs docs --out samples --experts experts.toml --concurrency 1".split()
    )
    with ChatServer(stopping, models=None, key="sesame") as server:
        Path("experts.toml").write_text(EXPERTS.format(url=server.url))
        done = vrag(*command)
        assert done.exit_code == 130
        assert "Run the same command again to continue" in done.stderr
        assert [record.uid for record in SampleStore(place / "samples").samples.read()] == ["1"]
        report = asked(*command)
        assert (report["before"], report["outcomes"]) == (1, {"scored": 2, "failed": 0})
        assert report["experts"]["planner"]["calls"] == 2
        assert report["experts"]["planner"]["cost"] == pytest.approx(2 * (100 + 2 * 20) / 1e6)
        assert report["experts"]["judge"]["cost"] is None
        assert "not searched" not in done.stderr
        asked_before = len(server.requests)
        again = vrag(*command)
        assert "2 of 2 cases are finished, 2 of them from before: 2 scored, 0 failed." in again.stdout
        other = vrag(*command, "--profile", "qwen3-vl", "--no-oracle", "--retry-failed")
        assert "was made with oracle True, not False, profile" in str(other.exception)
        assert len(server.requests) == asked_before
    report = asked("select", "samples")
    assert (report["kept"], report["reasons"]) == (0, {"images": 2})
    assert isinstance(vrag("export-sft", "samples", "--out", "sft").exception, SampleError)


def test_a_missing_key_and_unknown_families_show_before_anything_is_indexed(place: Path) -> None:
    done = vrag("sample", "questions.json", "--docs", "docs", "--out", "samples")
    assert isinstance(done.exception, SettingsError)
    assert "DASHSCOPE_API_KEY or DASH_SCOPE_KEY" in str(done.exception)
    assert not Path("collection").exists()
    assert not Path("samples").exists()


def test_documents_that_are_not_searched_are_told_before_anything_is_paid(place: Path) -> None:
    Path("questions.json").write_text(json.dumps(QUESTIONS).replace("ferry.md", "gone.pdf"))
    with ChatServer(reply, models=None) as server:
        Path("experts.toml").write_text(EXPERTS.format(url=server.url))
        done = vrag(*"sample questions.json --docs docs --out samples --experts experts.toml".split())
    message = "questions are about documents that could not be read or are not searched: gone.pdf"
    assert message in " ".join(done.stderr.split())


def test_a_data_set_without_questions_is_refused(place: Path) -> None:
    Path("none.json").write_text("[]")
    Path("experts.toml").write_text(EXPERTS.format(url="http://127.0.0.1:9/v1"))
    done = vrag("sample", "none.json", "--out", "samples", "--experts", "experts.toml")
    assert "no questions" in str(done.exception)
    assert not Path("samples").exists()


def test_what_was_selected_is_exported(tmp_path: Path) -> None:
    store = SampleStore(tmp_path / "samples")
    record_sample(store, "a", SEARCH, ANSWER)
    record_sample(store, "b", SEARCH, crop(), ANSWER)
    record_sample(store, "c", SEARCH, ANSWER, score=1)
    assert "No samples are selected" in str(vrag("export-sft", store.directory, "--out", tmp_path).exception)
    done = vrag("select", store.directory)
    assert "2 kept, 1 dropped" in " ".join(done.stdout.split())
    report = asked("export-sft", store.directory, "--out", tmp_path / "sft", "--profile", "qwen3-vl")
    assert (report["samples"], report["images"], report["refused"]) == (2, 2, [])
    assert len(json.loads((tmp_path / "sft" / "vrag_sft.json").read_text())) == 2
    assert "has no samples" in str(vrag("select", tmp_path).exception)
