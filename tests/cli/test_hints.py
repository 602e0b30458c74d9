"""Commands that hints name lead to the collection they are about."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest
from command_line import Done, run_vrag

from vrag.cli.terminal.console import add_location
from vrag.settings import Settings, load_settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_COLLECTION", "usual")
    monkeypatch.setattr(sys, "argv", ["vrag"])


def place(**flags: object) -> Settings:
    return load_settings(**flags).settings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("vrag runs show 2026", "vrag runs show --collection mine 2026"),
        ("See `vrag runs list`.", "See `vrag runs list --collection mine`."),
        (
            "Run: vrag index verify --repair, then vrag index add",
            "Run: vrag index verify --collection mine --repair, then vrag index add --collection mine",
        ),
        ("Try: vrag ask ./docs '…'", "Try: vrag ask --collection mine ./docs '…'"),
        ("Elsewhere: vrag index add PATH --collection X", "Elsewhere: vrag index add PATH --collection X"),
        ("See `vrag doctor`.", "See `vrag doctor`."),
        ("vrag askew", "vrag askew"),
        ("", ""),
    ],
)
def test_a_command_is_named_with_its_collection(
    monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    assert add_location(text, place(collection="mine")) == told
    for line in (["-c", "mine"], ["--collection", "mine"], ["--collection=mine"]):
        monkeypatch.setattr(sys, "argv", ["vrag", "ask", *line, "What?"])
        assert add_location(text) == told


@pytest.mark.parametrize("text", ["vrag runs show", "See `vrag index status`."])
def test_where_a_command_goes_by_itself_it_stays_as_short_as_it_is(text: str) -> None:
    assert (
        add_location(text, place())
        == add_location(text, place(collection="usual"))
        == add_location(text)
        == text
    )


def test_a_name_with_blanks_stays_one_word() -> None:
    words = shlex.split(add_location("vrag runs show", place(collection="the 'old' ones")))
    assert words == ["vrag", "runs", "show", "--collection", "the 'old' ones"]


def test_the_first_of_several_collections_has_the_runs() -> None:
    assert add_location("vrag runs list", place(collections=("one", "two"))).endswith(" --collection one")


def test_what_a_search_server_found_the_pages_for_lies_with_no_collection() -> None:
    searched = place(search_url="http://localhost:8001/search")
    assert (
        add_location("vrag runs show", searched) == "vrag runs show --search-url http://localhost:8001/search"
    )
    assert add_location("vrag index add PATH", searched) == "vrag index add PATH"


def vrag(path: Path, *arguments: str) -> Done:
    return run_vrag(*arguments, cwd=path, HOME=str(path), COLUMNS="200")


def test_hints_of_every_command_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRAG_COLLECTION")
    (tmp_path / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    assert vrag(tmp_path, "index", "add", "note.md", "-c", "my notes").status == 0
    none = vrag(tmp_path, "runs", "show", "nope", "-c", "my notes")
    assert "vrag runs list --collection 'my notes'" in none.err
    asked = ("ask", "How many passengers in 2024?", "-c", "my notes")
    assert vrag(tmp_path, *asked).status == 0
    lost = vrag(tmp_path, "report", "-q", "How many passengers?", "-o", "/proc/x.html", "-c", "my notes")
    (line,) = [line for line in lost.err.splitlines() if "The answers are kept: " in line]
    command = shlex.split(line.split("The answers are kept: ")[1].replace("…", "kept.html"))
    assert vrag(tmp_path, *command[1:]).status == 0
    assert (tmp_path / "kept.html").is_file()
