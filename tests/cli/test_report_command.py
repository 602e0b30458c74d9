"""`vrag report`: questions become a document, whatever becomes of single ones."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from chat_server import Asked, ChatServer, Hang, Refuse, Say
from command_line import Done, run_vrag

if TYPE_CHECKING:
    from chat_server import Reply

NOTE = """# The Lantern Ferry

The ferry carried 48,200 passengers in 2024. A return ticket costs 12 crowns.
"""
PASSENGERS = "How many passengers did the ferry carry in 2024?"
TICKET = "What does a return ticket cost?"
UNKNOWN = "Who is the mayor of Atlantis?"


class Home(NamedTuple):
    path: Path

    @property
    def runs(self) -> int:
        """How many are recorded."""
        folder = self.path / "collection" / "runs"
        return len(list(folder.iterdir())) if folder.exists() else 0

    def environment(self) -> dict[str, str]:
        return {"VRAG_COLLECTION": str(self.path / "collection"), "COLUMNS": "200"}

    def vrag(self, *arguments: str, input: str = "") -> Done:
        return run_vrag(*arguments, cwd=self.path, input=input, **self.environment())

    def text(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    path = tmp_path_factory.mktemp("person")
    (path / "docs").mkdir()
    (path / "docs" / "ferry.md").write_text(NOTE)
    home = Home(path)
    assert home.vrag("index", "add", "docs").status == 0
    return home


def test_questions_become_one_page(home: Home) -> None:
    done = home.vrag("report", "docs", "-q", PASSENGERS, "-q", UNKNOWN, "-o", "one.html", "--title", "Review")
    assert done.status == 0, done
    assert "2 questions, 1 answered, 1 without an answer" in done.out
    assert "one.html" in done.out
    assert f"[1/2] {PASSENGERS} Found on the page" in done.err
    html = home.text("one.html")
    assert html.startswith("<!doctype html>")
    assert "Review" in html
    assert "48,200" in html
    assert "Nothing found" in html
    assert "A model that sees pictures" in html


def test_questions_of_a_file_are_asked_in_its_order_however_many_at_once(home: Home) -> None:
    (home.path / "questions.txt").write_text(f"# spring\n{PASSENGERS}\n\n  {TICKET}  \n{UNKNOWN}\n")
    done = home.vrag("report", "--questions", "questions.txt", "--jobs", "3", "-o", "r.md", "--json")
    assert done.status == 0, done
    assert [run["question"] for run in done.json["runs"]] == [PASSENGERS, TICKET, UNKNOWN]
    assert [run["stop_reason"] for run in done.json["runs"]] == ["answered", "answered", "abstained"]
    assert done.json["file"] == "r.md"
    assert done.json["bytes"] == (home.path / "r.md").stat().st_size
    assert done.json["left"] == []
    text = home.text("r.md")
    assert [text.index(question) for question in (PASSENGERS, TICKET, UNKNOWN)] == sorted(
        text.index(question) for question in (PASSENGERS, TICKET, UNKNOWN)
    )


def test_questions_come_from_standard_input_and_from_a_data_set(home: Home) -> None:
    assert home.vrag("report", "--questions", "-", "--json", input=f"{TICKET}\n").json["sources"] == 1
    case = {"uid": "1", "query": TICKET, "reference_answer": "12", "meta_info": {"file_name": "ferry.md"}}
    (home.path / "cases.jsonl").write_text(json.dumps(case))
    done = home.vrag("report", "--questions", "cases.jsonl", "--json")
    assert done.json["title"] == TICKET
    assert (home.path / "report.html").exists()


def test_recorded_runs_are_told_without_asking_again(home: Home) -> None:
    first = home.vrag("ask", PASSENGERS, "--json").json["run"]
    home.vrag("ask", TICKET)
    before = home.runs
    done = home.vrag("report", "--run", "last", "--run", first, "-o", "again.html", "--json")
    assert [run["question"] for run in done.json["runs"]] == [TICKET, PASSENGERS]
    assert home.runs == before


def test_a_report_goes_to_standard_output(home: Home) -> None:
    done = home.vrag("report", "-q", TICKET, "-o", "-")
    assert done.out.startswith("<!doctype html>")
    assert done.out.endswith("</html>\n")


@pytest.mark.parametrize(
    ("arguments", "status", "hint"),
    [
        ([], 2, "There are no questions"),
        (["-q", "  "], 2, "empty"),
        (["nowhere", "-q", TICKET], 2, "does not exist"),
        (["--run", "last", "-q", TICKET], 2, "Leave out"),
        (["-q", TICKET, "-o", "x.docx"], 2, ".html or .md"),
        (["-q", TICKET, "-o", ""], 2, "empty"),
        (["-q", TICKET, "-o", "-", "--json"], 2, "not both"),
        (["-q", TICKET, "-o", "absent/x.html"], 1, "cannot be written"),
        (["-q", TICKET, "--jobs", "0"], 2, "jobs"),
        (["--questions", "absent.txt"], 1, "cannot be read"),
        (["--questions", "docs"], 1, "cannot be read"),
        (["--questions", "none.txt"], 1, "has no questions"),
        (["--questions", "broken.json"], 1, "not JSON"),
        (["--run", "nope"], 1, "vrag runs list"),
        (["docs", "-q", TICKET, "--search-url", "http://localhost:9"], 2, "Leave out"),
        (["-q", TICKET, "--model", "x"], 2, "--base-url"),
    ],
)
def test_wrong_use_is_explained_before_anything_is_asked(
    home: Home, arguments: list[str], status: int, hint: str
) -> None:
    (home.path / "none.txt").write_text("# nothing\n\n")
    (home.path / "broken.json").write_text("{")
    before = home.runs
    done = home.vrag("report", *arguments)
    assert (done.status, hint in done.err) == (status, True), done
    assert home.runs == before


def answering(asked: Asked) -> Reply:
    """Fails one question, answers the others."""
    if "FAILS" in asked.question:
        return Refuse(400, "not this one")
    if "HANGS" in asked.question:
        return Hang()
    return Say(f"<think>I know.</think><answer>Said of {asked.question[-12:]}</answer>")


def model(server: ChatServer) -> tuple[str, ...]:
    return ("--model", "scripted", "--base-url", server.url)


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_question_that_fails_takes_no_other_with_it(home: Home, jobs: str) -> None:
    with ChatServer(answering) as server:
        done = home.vrag(
            "report", "-q", "First one?", "-q", "This FAILS?", "-q", "Third one?", "-j", jobs,
            "-o", "f.md", *model(server),
        )  # fmt: skip
    assert done.status == 1, done
    assert "3 questions, 2 answered, 1 without an answer" in done.out
    text = home.text("f.md")
    assert "Model failed" in text
    assert "not this one" in text
    assert "Third one?" in text.split("Model failed")[-1]


def interrupted(home: Home, server: ChatServer, *arguments: str) -> Done:
    """Ends the command by Ctrl-C when the model has been asked the question that hangs."""
    line = [sys.executable, "-m", "vrag", "report", *arguments, *model(server)]
    with subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.path,
        env={**os.environ, **home.environment()},
    ) as process:
        while not any("HANGS" in asked.question for asked in server.requests):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return Done(process.returncode, out, err)


@pytest.mark.slow
def test_ctrl_c_writes_the_report_of_what_is_done(home: Home) -> None:
    with ChatServer(answering) as server:
        done = interrupted(
            home, server, "-q", "First one?", "-q", "This HANGS?", "-q", "Later?", "-o", "c.html"
        )
    assert done.status == 130, done
    html = home.text("c.html")
    assert "1 question, 1 answered, 2 not asked to the end" in html
    assert html.index("Not asked to the end") < html.index("This HANGS?") < html.index("Later?")
    assert "cancelled" in {row["ended"] for row in home.vrag("runs", "list", "--json").json}


@pytest.mark.slow
def test_ctrl_c_before_anything_is_done_writes_nothing(home: Home) -> None:
    with ChatServer(answering) as server:
        done = interrupted(home, server, "-q", "This HANGS?", "-o", "never.html")
    assert done.status == 130
    assert done.err.endswith("\nStopped. No question was finished, and no report was written.\n")
    assert not (home.path / "never.html").exists()


class TestExport:
    @pytest.mark.slow
    def test_markdown_has_its_pictures_beside_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from vrag.samples import corpus_dir

        monkeypatch.setenv("VRAG_OCR", "true")
        home = Home(tmp_path)
        board = corpus_dir() / "price-board.jpg"
        assert home.vrag("ask", str(board), "What is the single fare for a kayak?").status == 0
        done = home.vrag("runs", "export", "last", "-o", "fare.md", "--json")
        assert done.status == 0, done
        assert done.json["folder"] == "fare_files"
        named = re.findall(r"\]\((fare_files/[0-9a-f]+\.jpg)\)", home.text("fare.md"))
        assert len(set(named)) == done.json["pictures"] >= 1
        assert all((tmp_path / name).read_bytes().startswith(b"\xff\xd8") for name in named)
        inline = home.vrag("runs", "export", "last", "-o", "in.md", "--inline", "--json").json
        assert inline["folder"] is None
        assert inline["pictures"] == done.json["pictures"]
        assert "](data:" not in home.text("in.md")
        assert "]: data:image/jpeg;base64," in home.text("in.md")
        printed = home.vrag("runs", "export", "last", "--format", "markdown", "-o", "-")
        assert "]: data:image/jpeg;base64," in printed.out

    def test_json_holds_the_events(self, home: Home) -> None:
        home.vrag("ask", TICKET)
        done = home.vrag("runs", "export", "last", "--format", "json", "-o", "-")
        assert done.json["answer"]
        assert done.json["events"][0]["type"] == "run_started"

    def test_the_suffix_says_what_is_written_unless_a_format_does(self, home: Home) -> None:
        home.vrag("ask", TICKET)
        home.vrag("runs", "export", "last", "-o", "a.md")
        assert home.text("a.md").startswith("# ")
        home.vrag("runs", "export", "last", "-o", "b.md", "--html")
        assert home.text("b.md").startswith("<!doctype")
        for name in ("a.pdf", "a", "a.txt"):
            refused = home.vrag("runs", "export", "last", "-o", name)
            assert (refused.status, (home.path / name).exists()) == (2, False)
            assert ".html, .md or .json" in " ".join(refused.err.split())
        home.vrag("runs", "export", "last", "-o", "a.txt", "--format", "markdown")
        assert home.text("a.txt").startswith("# ")
        wrong = home.vrag("runs", "export", "last", "--html", "--format", "json")
        assert wrong.status == 2
        assert "contradict" in wrong.err
