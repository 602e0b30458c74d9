"""The command line as a person or a script uses it: output, exit status, faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from command_line import Done, run_vrag
from filelock import FileLock
from typer.testing import CliRunner

from vrag import __version__
from vrag.agent.runs.run_store import RunStore
from vrag.cli.root import create_app

if TYPE_CHECKING:
    from pathlib import Path

app = create_app()

NOTE = """# The Lantern Ferry

## Passengers

The ferry carried 48,200 passengers in 2024. That is more than ever before.

## Prices

A return ticket costs 12 crowns. Children under six travel free of charge.
"""


class Home(NamedTuple):
    """A person's folder, with documents and a collection of its own."""

    path: Path

    def vrag(self, *arguments: str) -> Done:
        return run_vrag(*arguments, cwd=self.path, **self.environment)

    def start(self, *arguments: str) -> Done:
        """Run a command in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "vrag", *arguments],
            capture_output=True,
            text=True,
            cwd=self.path,
            env={**os.environ, **self.environment},
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    @property
    def environment(self) -> dict[str, str]:
        return {"VRAG_COLLECTION": str(self.path / "collection"), "COLUMNS": "300"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    path = tmp_path_factory.mktemp("person")
    (path / "docs").mkdir()
    (path / "docs" / "ferry.md").write_text(NOTE)
    (path / "docs" / "broken.pdf").write_text("no pdf")
    (path / "docs" / "data.xyz").write_text("?")
    (path / "none.json").write_text("[]")
    (path / "leads-nowhere").symlink_to("gone.pdf")
    return Home(path)


@pytest.fixture(scope="module")
def asked(home: Home) -> Done:
    """One question, asked with the documents as the first word."""
    return home.start("ask", "./docs", "How many passengers did the ferry carry in 2024?", "--json")


@pytest.mark.smoke
@pytest.mark.slow
def test_ask_answers_with_evidence_as_json(asked: Done) -> None:
    assert asked.status == 0, asked.err
    result = asked.json
    assert result.keys() >= {"question", "answer", "stop_reason", "evidence", "steps", "usage", "run"}
    assert "48,200" in result["answer"]
    assert result["stop_reason"] == "answered"
    evidence = result["evidence"][0]
    assert evidence.keys() >= {"item", "document", "page", "box", "crop"}
    assert evidence["document"] == "ferry.md"


def test_bad_files_are_named_with_their_reason_and_stop_nothing(asked: Done, home: Home) -> None:
    assert "broken.pdf" in asked.err
    assert "data.xyz" in asked.err
    status = home.vrag("index", "status", "--json").json
    assert [problem["name"] for problem in status["problems"]] == ["broken.pdf"]
    assert status["problems"][0]["reason"]


def test_ask_prints_the_steps_the_answer_and_where_it_was_seen(asked: Done, home: Home) -> None:
    done = home.vrag("ask", "What does a return ticket cost?", "--docs", "docs")
    assert done.status == 0
    assert done.out.startswith("Searching: ")
    assert "12 crowns" in done.out
    assert "ferry.md" in done.out


def test_a_question_the_documents_cannot_answer_ends_with_status_3(asked: Done, home: Home) -> None:
    done = home.vrag("ask", "Who is the mayor of Atlantis?", "--json")
    assert done.status == 3
    assert done.json["answer"] is None
    assert done.json["stop_reason"] == "abstained"


def test_index_status_shows_every_collection_that_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "note.md").write_text("A note.\n")
    for name in ("first", "second"):
        assert home.vrag("index", "add", "note.md", "-c", name).status == 0
    shown = home.vrag("index", "status", "-c", "first", "-c", "second", "--json").json
    assert [one["address"].rpartition("/")[2] for one in shown] == ["first", "second"]
    text = home.vrag("index", "status", "-c", "first", "-c", "second").out
    assert text.count("Collection ") == 2


@pytest.mark.parametrize(
    ("arguments", "status", "hint"),
    [
        (["ask"], 2, "Missing argument"),
        (["ask", "./nowhere", "What?"], 2, "does not exist"),
        (["ask", "--docs", "./nowhere", "What?"], 2, "does not exist"),
        (["ask", "   "], 2, "empty"),
        (["ask", "./docs"], 2, "Add a question"),
        (["index", "add", "docs/broken.pdf"], 1, "Supported"),
        (["index", "add", "nowhere"], 1, "nowhere does not exist"),
        (["index", "add", "nowhere", "neither"], 1, "None of these exists"),
        (["index", "add", "leads-nowhere"], 1, "a broken link"),
        (["ask", "leads-nowhere", "What?"], 1, "a broken link"),
        (["ask", "What?", "--top-k", "0"], 2, "top-k"),
        (["search", "x", "--docs", "nowhere"], 1, "vrag index add"),
        (["eval", "retrieval", "none.json", "--docs", "docs"], 1, "no questions"),
        (["ask", "docs/data.xyz", "What?"], 1, "Supported"),
        (["frobnicate"], 2, "No such command"),
        (["search", "x", "--top-k", "0"], 2, "top-k"),
        (["search", "x", "--kind", "poem"], 2, "page"),
        (["search", ""], 2, "query"),
        (["runs", "show", "nope"], 1, "vrag runs list"),
        (["index", "remove", "nowhere.pdf"], 1, "not in the collection"),
        (["index", "add", "docs", "--dpi", "9999"], 2, "dpi"),
        (["index", "add", "docs", "--dpi", "100"], 1, "another directory"),
        (["index", "status", "-c", "docs"], 1, "vrag index add"),
        (["eval", "retrieval", "docs/ferry.md", "--docs", "docs"], 1, "not in .json"),
    ],
)
def test_wrong_use_is_explained(
    asked: Done, home: Home, arguments: list[str], status: int, hint: str
) -> None:
    done = home.vrag(*arguments)
    assert done.status == status, done
    assert hint in done.err


def test_a_path_that_is_not_there_makes_no_collection(tmp_path: Path) -> None:
    assert Home(tmp_path).vrag("index", "add", "nowhere").status == 1
    assert not (tmp_path / "collection").exists()


def test_one_path_of_several_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "ferry.md").write_text(NOTE)
    done = Home(tmp_path).vrag("index", "add", "ferry.md", "nowhere")
    assert (done.status, "nowhere: It does not exist." in done.out) == (0, True)


def test_a_search_of_the_agent_returns_as_many_hits_as_are_asked_for(asked: Done, home: Home) -> None:
    home.vrag("ask", "How many passengers did the ferry carry?", "--top-k", "1")
    events = home.vrag("runs", "show", "last", "--json").json
    found = [len(event["hits"]) for event in events if event["type"] == "search_returned"]
    assert set(found) == {1}


def test_the_help_lists_every_exit_status() -> None:
    shown = CliRunner().invoke(app, ["ask", "--help-all"]).output
    statuses = "0 answered or places that may answer, 3 nothing found, 2 wrong usage, 1 failed, 4 another"
    assert statuses in " ".join(shown.split())


def test_a_failure_is_json_where_json_was_asked_for(home: Home) -> None:
    done = home.vrag("ask", "docs/broken.pdf", "What?", "--json")
    assert done.status == 1
    assert done.json.keys() == {"failure", "hint"}


def test_a_long_question_may_stand_before_the_path(home: Home) -> None:
    assert home.vrag("ask", "Why? " * 200, "docs/ferry.md").status == 3


def test_a_document_that_is_gone_is_not_answered_from(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "old.txt").write_text("The toll is 12 crowns.")
    (tmp_path / "docs" / "other.txt").write_text("Nothing of that kind stands here.")
    assert "12" in home.vrag("ask", "docs", "What is the toll?").out
    (tmp_path / "docs" / "old.txt").rename(tmp_path / "docs" / "new.txt")
    (tmp_path / "docs" / "new.txt").write_text("The toll is 99 crowns.")
    done = home.vrag("ask", "docs", "What is the toll?")
    assert "99" in done.out
    assert "old.txt" not in done.out


@pytest.mark.slow
def test_a_question_is_answered_while_another_process_indexes(asked: Done, home: Home) -> None:
    with FileLock(home.path / "collection" / "build.lock"):
        done = home.start("ask", "docs", "What does a return ticket cost?")
        (home.path / "docs" / "new.txt").write_text("A new file.")
        waiting = home.start("ask", "docs", "What does a return ticket cost?")
        (home.path / "docs" / "new.txt").unlink()
    assert (done.status, waiting.status) == (0, 0), waiting
    assert "12 crowns" in waiting.out
    assert "New documents are not indexed now" in waiting.err


def test_a_damaged_dotenv_is_an_error_of_use(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"\xff\xfe=3")
    assert Home(tmp_path).vrag("config", "show").status == 2


def test_search_lists_what_it_finds(asked: Done, home: Home) -> None:
    hits = home.vrag("search", "return ticket", "--top-k", "1", "--json").json["hits"]
    assert len(hits) == 1
    assert hits[0]["document_name"] == "ferry.md"
    assert "return ticket" in hits[0]["snippet"]
    assert "ferry.md" in home.vrag("search", "return ticket").out
    assert "No hits" in home.vrag("search", "zeppelin").out


def test_runs_are_listed_shown_and_replayed(asked: Done, home: Home) -> None:
    run = asked.json["run"]
    assert run in [row["run"] for row in home.vrag("runs", "list", "--json").json]
    assert "48,200" in home.vrag("runs", "show", run).out
    replayed = home.vrag("runs", "replay", run)
    assert replayed.status == 0, replayed
    assert "events are equal" in replayed.out


def test_runs_say_what_to_do_where_there_is_none(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "note.txt").write_text(NOTE)
    home.vrag("index", "add", "note.txt")
    none = home.vrag("runs", "show", "last")
    assert none.status == 1
    assert "No questions have been asked yet" in none.err
    assert "vrag ask" in none.err
    RunStore(tmp_path / "collection" / "runs").add("20260101-000000-000000-0000", [], {})
    assert "Ask the question again" in home.vrag("runs", "show", "last").err


def test_runs_with_a_search_server_are_found_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    home, server = Home(tmp_path), ("--search-url", "http://localhost:9/search")
    asked = home.vrag("ask", "What does a return ticket cost?", *server)
    assert asked.status == 1
    assert f"--search-url {server[1]}" in asked.out
    assert len(home.vrag("runs", "list", "--json", *server).json) == 1
    assert "return ticket" in home.vrag("runs", "show", *server).out
    assert home.vrag("runs", "export", "last", "-o", "run.html", *server).status == 0
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")


def test_a_wrong_setting_of_the_model_shows_before_anything_is_indexed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "note.txt").write_text(NOTE)
    done = home.vrag("ask", "note.txt", "What does a ticket cost?", "--model", "qwen")
    assert done.status == 2
    assert "--base-url" in done.err
    assert not (tmp_path / "collection").exists()


@pytest.mark.slow
def test_a_collection_that_another_process_is_just_making_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrag.index.location.MIN_COMMIT_WAIT", 0.0)
    (tmp_path / "note.txt").write_text(NOTE)
    (tmp_path / "collection").mkdir()
    with FileLock(tmp_path / "collection" / "writer.lock"):
        done = Home(tmp_path).vrag("ask", "note.txt", "What does a ticket cost?", "--wait", "0")
    assert done.status == 1
    assert "creating this collection" in done.err


def test_config_show_tells_where_each_value_comes_from(home: Home) -> None:
    shown = home.vrag("config", "show", "--json").json
    assert shown["collection"]["origin"] == "environment"
    assert shown["dpi"] == {"value": 144.0, "origin": "default"}
    told = home.vrag("config", "show").out
    assert "environment" in told
    assert "Directory of the collection (index, pictures, runs), or the URL where it is published." in told


def test_a_collection_is_verified_changed_pruned_and_compacted(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in ("one", "two"):
        (tmp_path / "docs" / f"{name}.txt").write_text(f"The word of {name} is {name}word.")
    assert home.vrag("index", "add", "docs", "--json").json["added"] == 2
    assert home.vrag("index", "add", "docs", "--json").json["unchanged"] == 2
    (tmp_path / "docs" / "one.txt").write_text("The word is now oneword otherwise.")
    assert home.vrag("index", "add", "docs", "--json").json["changed"] == 1
    (tmp_path / "docs" / "two.txt").unlink()
    assert home.vrag("index", "prune", "--json").json["items"] == 1
    assert "No hits" in home.vrag("search", "twoword").out
    assert home.vrag("index", "verify").status == 0
    assert home.vrag("index", "compact", "--json").json["bytes_after"] > 0
    assert home.vrag("index", "remove", "one.txt", "--json").json["items"] == 1
    assert home.vrag("index", "status", "--json").json["items"] == 0


def test_eval_retrieval_reports_the_agreed_keys(asked: Done, home: Home) -> None:
    cases = [
        {
            "uid": str(number),
            "query": "return ticket",
            "reference_answer": "12",
            "meta_info": {"file_name": "ferry.md", "reference_page": pages},
        }
        for number, pages in enumerate([[1], []])
    ]
    (home.path / "cases.json").write_text(json.dumps({"examples": cases}))
    result = home.vrag("eval", "retrieval", "cases.json", "--docs", "docs", "--json").json
    keys = {"ndcg@5", "ndcg@10", "recall@1", "recall@3", "recall@5", "recall@10", "mrr"}
    assert result.keys() >= keys | {"questions", "pages", "seconds"}
    assert (result["questions"], result["skipped"]) == (1, 1)
    assert home.vrag("eval", "retrieval", "cases.json", "--docs", "docs").status == 0


@pytest.mark.parametrize(
    "command",
    ["", "ask", "search", "demo", "index", "index add", "index status", "index verify", "index remove",
     "index prune", "index compact", "runs", "runs list", "runs show", "runs replay", "config show",
     "eval retrieval"],
)  # fmt: skip
def test_every_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.output


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__


def test_names_of_documents_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "\x1b[31mred[bold]\n.txt").write_text("The lantern burns blue at midnight.")
    done = home.vrag("ask", "docs", "When does the lantern burn blue?")
    assert done.status == 0, done
    assert "\x1b" not in done.out
    assert "[bold]" in done.out
