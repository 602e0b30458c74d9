"""`vrag tokens`, and the names and deletion of runs at the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from vrag.agent.runs.run_store import RunStore
from vrag.cli.root import create_app
from vrag.index.collection import Collection
from vrag.server.http.users import TokenFile, User, UserRole, digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

app = create_app()
FIRST = "How many passengers did the ferry carry?"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    note = tmp_path / "ferry.md"
    note.write_text("# The Lantern Ferry\n\nThe ferry carried 48,200 passengers in 2024.\n")
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    monkeypatch.setenv("VRAG_TOKENS", str(tmp_path / "tokens.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vrag(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=typed)


def said(done: Result) -> str:
    """What a person reads, on one line; errors are written by `main`, which ends the process."""
    return " ".join(f"{done.output} {done.exception}".split())


def asked(*arguments: str) -> str:
    """A run that was recorded."""
    return json.loads(vrag("ask", *arguments, "--json").stdout)["run"]


class TestTokens:
    def test_a_token_is_printed_once_and_works(self, home: Path) -> None:
        made = json.loads(vrag("tokens", "add", "alice", "--json").stdout)
        file = TokenFile(home / "tokens.toml")
        assert file.find(digest_of(made["token"].encode())) == User("alice", UserRole.MANAGE)
        words = vrag("tokens", "add", "carol", "--admin").stdout
        assert "vrag serve --tokens" in words.replace("\n", " ")
        assert words.count("vrag_") == 1
        listed = json.loads(vrag("tokens", "list", "--json").stdout)["users"]
        assert listed == [
            {"name": "alice", "role": "manage", "admin": False},
            {"name": "carol", "role": "administer", "admin": True},
        ]
        assert made["token"] not in vrag("tokens", "list").stdout
        assert vrag("tokens", "remove", "alice").exit_code == 0
        assert file.find(digest_of(made["token"].encode())) is None

    def test_what_cannot_be_is_refused_with_what_to_do(self, home: Path) -> None:
        assert "tokens add" in vrag("tokens", "list").stdout
        assert "cannot be the name" in said(vrag("tokens", "add", "a b"))
        assert "no user" in said(vrag("tokens", "remove", "bob"))
        vrag("tokens", "add", "bob")
        assert "already" in said(vrag("tokens", "add", "Bob"))
        (home / "tokens.toml").chmod(0o666)
        assert "chmod 600" in said(vrag("tokens", "add", "alice"))

    def test_a_server_does_not_start_with_a_file_that_cannot_be_used(self, home: Path) -> None:
        assert "no file of tokens" in said(vrag("serve", "--port", "0"))
        (home / "tokens.toml").write_text("[alice")
        (home / "tokens.toml").chmod(0o600)
        assert "damaged" in said(vrag("serve", "--port", "0"))


class TestRuns:
    def test_a_run_is_renamed_and_listed_by_its_title(self, home: Path) -> None:
        run = asked("ferry.md", FIRST)
        later = asked("And in January?", "--after", run)
        assert "Title: Ferry figures" in vrag("runs", "rename", later, "Ferry\nfigures").stdout
        rows = json.loads(vrag("runs", "list", "--json").stdout)
        assert rows[1] | {"title": "Ferry figures", "user": "", "via": "cli", "question": FIRST} == rows[1]
        assert "Ferry figures" in vrag("runs", "list").stdout
        assert FIRST in vrag("runs", "rename", run, "").stdout.replace("\n", " ")

    def test_a_run_is_deleted_after_a_question(self, home: Path) -> None:
        run = asked("ferry.md", FIRST)
        store = RunStore(Collection.open(home / "collection").runs_dir)
        assert vrag("runs", "delete", run, typed="n\n").exit_code != 0
        assert store.ids() == [run]
        assert "1 run" in vrag("runs", "delete", run, typed="y\n").stdout
        assert store.ids() == []

    def test_a_conversation_is_deleted_whole_or_from_its_end(self, home: Path) -> None:
        run = asked("ferry.md", FIRST)
        later = [asked("And in January?", "--after", run) for _ in range(2)]
        store = RunStore(Collection.open(home / "collection").runs_dir)
        assert "--conversation" in said(vrag("runs", "delete", run, "--yes"))
        assert vrag("runs", "delete", later[0], "--yes").exit_code == 0
        assert store.ids() == [later[1], run]
        assert "2 runs" in vrag("runs", "delete", later[1], "--yes", "--conversation").stdout
        assert store.ids() == []
