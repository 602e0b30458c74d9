"""`vrag runs purge`, `vrag audit`, and what the command line writes to the audit log."""

from __future__ import annotations

import gzip
import json
import re
from datetime import timedelta
from getpass import getuser
from typing import TYPE_CHECKING

import pytest
from dated_runs import DatedRuns
from typer.testing import CliRunner

from vrag.cli.root import create_app
from vrag.errors import RunError
from vrag.index.collection import Collection
from vrag.server.http.audit_log import AuditAction, AuditEntry, AuditLog, AuditResult, read_entries
from vrag.server.http.users import TokenFile, UserRole, digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

app = create_app()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    monkeypatch.setenv("VRAG_TOKENS", str(tmp_path / "tokens.toml"))
    monkeypatch.setenv("VRAG_AUDIT_LOG", str(tmp_path / "audit.log"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def runs(home: Path) -> DatedRuns:
    return DatedRuns(Collection.create(home / "collection").runs_dir)


def vrag(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=typed)


def said(done: Result) -> str:
    return " ".join(f"{done.output} {done.exception}".split())


def entries(home: Path) -> list[AuditEntry]:
    return list(read_entries(home / "audit.log"))


class TestPurge:
    def test_what_goes_is_shown_before_a_question(self, home: Path, runs: DatedRuns) -> None:
        old, young = runs.add(40), runs.add(2)
        shown = vrag("runs", "purge", "--older-than", "30d", typed="n\n")
        assert shown.exit_code != 0
        assert "1 run, " in shown.stdout
        assert "kB" in shown.stdout
        assert set(runs.store.ids()) == {old, young}
        assert entries(home) == [] if (home / "audit.log").exists() else True
        done = vrag("runs", "purge", "--older-than", "30d", typed="y\n")
        assert "Deleted: 1 run. Freed: " in done.stdout
        assert runs.store.ids() == [young]
        told = [(e.action, e.role, e.result, e.runs) for e in entries(home)]
        assert told == [("purge_runs", "local", "begun", None), ("purge_runs", "local", "done", 1)]

    def test_a_look_deletes_nothing(self, home: Path, runs: DatedRuns) -> None:
        run = runs.add(40)
        told = json.loads(vrag("runs", "purge", "--older-than", "4w", "--dry-run", "--json").stdout)
        assert (told["found"], told["deleted"], told["runs"]) == (1, 0, [run])
        assert runs.store.ids() == [run]
        assert not (home / "audit.log").exists()

    def test_all_runs_of_a_user_go_with_the_pinned_ones(self, runs: DatedRuns) -> None:
        mine, pinned, foreign = runs.add(1, "alice"), runs.add(2, "alice", pinned=True), runs.add(1, "bob")
        assert json.loads(vrag("runs", "purge", "--user", "alice", "--yes", "--json").stdout)["runs"] == [
            mine
        ]
        told = json.loads(vrag("runs", "purge", "--user", "alice", "--pinned", "--yes", "--json").stdout)
        assert (told["runs"], told["bytes"] > 0) == ([pinned], True)
        assert runs.store.ids() == [foreign]
        assert "No runs match." in vrag("runs", "purge", "--user", "alice", "--pinned").stdout

    def test_without_bounds_the_setting_holds_and_without_it_nothing_goes(
        self, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs.add(40)
        young = runs.add(2, ended="failed")
        assert "Say which runs" in said(vrag("runs", "purge", "--yes"))
        assert "not an age" in said(vrag("runs", "purge", "--older-than", "soon", "--yes"))
        assert "not an age" in said(vrag("runs", "purge", "--older-than", "", "--yes"))
        for nothing in ("0", "0d", "000h"):
            assert "runs of any age" in said(vrag("runs", "purge", "--older-than", nothing, "--yes"))
        assert len(runs.store.ids()) == 2
        monkeypatch.setenv("VRAG_KEEP_RUNS", "30")
        assert vrag("runs", "purge", "--yes").exit_code == 0
        assert runs.store.ids() == [young]
        assert vrag("runs", "purge", "--outcome", "failed", "--yes").exit_code == 0
        assert runs.store.ids() == []

    def test_nothing_is_deleted_where_it_cannot_be_logged(
        self, home: Path, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept = {runs.add(40), runs.add(2)}
        (home / "file").touch()
        monkeypatch.setenv("VRAG_AUDIT_LOG", str(home / "file" / "audit.log"))
        assert "Nothing was done" in said(vrag("runs", "purge", "--older-than", "3d", "--yes"))
        assert "Nothing was done" in said(vrag("runs", "delete", "last", "--yes"))
        assert "Nothing was done" in said(vrag("tokens", "add", "alice"))
        assert set(runs.store.ids()) == kept
        assert not (home / "tokens.toml").exists()

    def test_what_is_pinned_while_the_question_stands_stays(
        self, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, other, young = runs.add(40), runs.add(41), runs.add(2)

        def confirm(*_: object, **__: object) -> None:
            runs.store.change_meta(run, pinned=True)

        monkeypatch.setattr("vrag.cli.runs.typer.confirm", confirm)
        done = vrag("runs", "purge", "--older-than", "30d")
        assert "Found 2 runs" in done.stdout
        assert "Deleted: 1 run." in done.stdout
        assert set(runs.store.ids()) == {run, young}
        assert other not in runs.store.ids()

    def test_a_deletion_that_fails_is_logged_as_failed(
        self, home: Path, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs.add(40)
        runs.add(2)

        def refuse(*_: object) -> None:
            raise RunError("The disk refuses.") from OSError()

        monkeypatch.setattr("vrag.agent.runs.run_store.delete_rows", refuse)
        assert "The disk refuses" in said(vrag("runs", "purge", "--older-than", "1d", "--yes"))
        assert [each.result for each in entries(home)] == ["begun", "failed"]

    @pytest.mark.parametrize("options", [("--older-than", "30d"), ("--older-than", "1w", "--user", ""), ()])
    def test_a_clock_years_ahead_deletes_nothing_by_age(
        self, home: Path, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
    ) -> None:
        monkeypatch.setenv("VRAG_KEEP_RUNS", "30")
        kept = {runs.add(2), runs.add(0), runs.add(-3650)}  # the last one asked while the clock is wrong
        monkeypatch.setattr("vrag.cli.runs.time.time", lambda: runs.now.timestamp() + 3650 * 86_400)
        told = said(vrag("runs", "purge", *options, "--yes"))
        assert "the newest run before today began" in told
        assert "If the clock is right, give the time: --before 20" in told
        assert set(runs.store.ids()) == kept
        assert not (home / "audit.log").exists()

    def test_a_run_of_the_future_contradicts_the_clock(self, runs: DatedRuns) -> None:
        kept = {runs.add(40), runs.add(2), runs.add(-3650)}
        told = said(vrag("runs", "purge", "--older-than", "30d", "--yes"))
        assert "began later" in told
        assert "Set the clock; if it is right, delete that run" in told
        assert set(runs.store.ids()) == kept

    def test_a_collection_that_was_long_not_used_is_purged_by_a_time(self, runs: DatedRuns) -> None:
        old, older = runs.add(40), runs.add(100)
        told = said(vrag("runs", "purge", "--older-than", "30d", "--yes"))
        shown = re.search(r"--before \S+", told)
        assert shown is not None
        assert set(runs.store.ids()) == {old, older}
        option, bound = shown[0].split()
        found = json.loads(vrag("runs", "purge", option, bound, "--dry-run", "--json").stdout)
        assert found["runs"] == [old, older]
        day = f"{runs.now - timedelta(days=60):%Y-%m-%d}"
        assert vrag("runs", "purge", "--before", day, "--yes").exit_code == 0
        assert runs.store.ids() == [old]
        assert vrag("runs", "purge", option, bound, "--yes").exit_code == 0
        assert runs.store.ids() == []

    def test_a_time_is_in_the_past_and_given_without_an_age(self, runs: DatedRuns) -> None:
        run = runs.add(2)
        assert "in the future" in said(vrag("runs", "purge", "--before", "9999-01-01", "--yes"))
        assert "not a time" in said(vrag("runs", "purge", "--before", "soon", "--yes"))
        both = ("--before", "2026-01-01", "--older-than", "1d")
        assert "contradict each other" in said(vrag("runs", "purge", *both, "--yes"))
        assert runs.store.ids() == [run]


class TestDelete:
    def test_is_logged_with_the_run_and_the_number(self, home: Path, runs: DatedRuns) -> None:
        first = runs.add(2)
        later = [runs.add(1, after=first), runs.add(0.5, after=first)]
        assert vrag("runs", "delete", later[1], typed="n\n").exit_code != 0
        assert not (home / "audit.log").exists()
        assert vrag("runs", "delete", later[1], "--yes").exit_code == 0
        assert vrag("runs", "delete", later[0], "--conversation", "--yes").exit_code == 0
        told = [(e.action, e.role, e.run, e.result, e.runs) for e in entries(home)]
        assert told == [
            ("delete_run", "local", later[1], "begun", None),
            ("delete_run", "local", later[1], "done", 1),
            ("delete_run", "local", later[0], "begun", None),
            ("delete_run", "local", later[0], "done", 2),
        ]
        assert {e.user for e in entries(home)} == {getuser()}
        assert runs.store.ids() == []

    def test_one_that_fails_is_logged_as_failed_and_deletes_nothing(
        self, home: Path, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = runs.add(2)
        later = runs.add(1, after=first)

        def refuse(*_: object) -> None:
            raise RunError("The disk refuses.") from OSError()

        monkeypatch.setattr("vrag.agent.runs.run_store.delete_rows", refuse)
        assert "The disk refuses" in said(vrag("runs", "delete", first, "--conversation", "--yes"))
        assert [(e.result, e.runs) for e in entries(home)] == [("begun", None), ("failed", None)]
        assert runs.store.ids() == [later, first]


class TestRoles:
    def test_are_given_listed_and_changed(self, home: Path) -> None:
        token = json.loads(vrag("tokens", "add", "alice", "--role", "ask", "--json").stdout)["token"]
        file = TokenFile(home / "tokens.toml")

        def role() -> UserRole | None:
            user = file.find(digest_of(token.encode()))
            return user.role if user else None

        assert role() is UserRole.ASK
        assert "upload" in vrag("tokens", "role", "Alice", "upload").stdout
        assert role() is UserRole.UPLOAD
        vrag("tokens", "add", "bob")
        rows = [line.split() for line in vrag("tokens", "list").stdout.splitlines()]
        assert [row for row in rows if row[:1] != ["user"]][-2:] == [["alice", "upload"], ["bob", "manage"]]
        assert "contradict" in said(vrag("tokens", "add", "carol", "--admin", "--role", "ask"))
        assert "no user" in said(vrag("tokens", "role", "carol", "ask"))
        assert vrag("tokens", "role", "alice", "king").exit_code == 2
        vrag("tokens", "remove", "alice")
        told = [(e.action, e.subject, e.new_role, e.result) for e in entries(home) if e.result != "begun"]
        assert told == [
            ("add_token", "alice", "ask", "done"),
            ("change_role", "Alice", "upload", "done"),
            ("add_token", "bob", "manage", "done"),
            ("change_role", "carol", "ask", "failed"),
            ("remove_token", "alice", "", "done"),
        ]
        assert token not in (home / "audit.log").read_text()

    def test_what_a_role_allows_is_printed_and_how_to_allow_less_than_the_default(self) -> None:
        given = " ".join(vrag("tokens", "add", "dave").stdout.split())
        rights = (
            "search, ask and manage their own runs; add and remove documents; create and delete collections"
        )
        assert "The token of dave, with the role manage:" in given
        assert f"The role manage allows: {rights}." in given
        assert "To allow less: vrag tokens role dave ask" in given
        chosen = " ".join(vrag("tokens", "add", "erin", "--role", "manage").stdout.split())
        assert f"The role manage allows: {rights}." in chosen
        assert "allow less" not in chosen


class TestAudit:
    @pytest.fixture(autouse=True)
    def _log(self, home: Path) -> None:
        log = AuditLog(home / "audit.log")
        log.write(
            AuditEntry(time="2026-03-01T08:00:00.000Z", action=AuditAction.ASK, user="bob", result="done")
        )
        hostile = "a\x1b[2Jb\n2026"
        log.write(
            AuditEntry(
                time="2026-03-02T08:00:00.000Z",
                action=AuditAction.REMOVE_DOCUMENT,
                user="alice",
                role=UserRole.UPLOAD,
                address="192.0.2.7",
                collection="reports",
                file=hostile,
                result="done",
                status=204,
            )
        )
        log.close()

    def test_a_table_has_a_line_for_each_entry_whatever_it_holds(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("COLUMNS", raising=False)
        shown = vrag("audit", "show").stdout
        assert "\x1b" not in shown
        assert shown.count("2026-03-0") == 2
        assert "remove_document" in shown

    def test_entries_are_chosen_by_time_user_action_and_number(self) -> None:
        def users(*options: str) -> list[str]:
            done = vrag("audit", "show", "--json", *options)
            assert done.exit_code == 0, said(done)
            return [entry["user"] for entry in json.loads(done.stdout)]

        assert users() == ["bob", "alice"]
        assert users("--since", "2026-03-02") == ["alice"]
        assert users("--since", "2026-03-02T09:30:00+01:00") == []
        assert users("--since", "9999w") == ["bob", "alice"]
        assert users("--user", "bob") == ["bob"]
        assert users("--action", "remove_document", "--result", "done") == ["alice"]
        assert users("--limit", "1") == ["alice"]
        assert "No entry matches." in vrag("audit", "show", "--user", "carol").stdout

    def test_a_damaged_rotated_file_is_named_and_the_others_are_shown(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        (home / "audit.log.1.gz").write_bytes(gzip.compress(bytes(range(256)))[:30])
        (home / "audit.log.2").write_bytes(
            AuditEntry(action=AuditAction.ASK, user="carol", time="2026-02-01").line
        )
        shown = vrag("audit", "show")
        assert shown.exit_code == 1
        assert "carol" in shown.stdout
        assert "remove_document" in shown.stdout
        assert "audit.log.1.gz cannot be read to its end" in said(shown)
        as_json = vrag("audit", "show", "--json")
        assert as_json.exit_code == 1
        assert [each["user"] for each in json.loads(as_json.stdout)] == ["carol", "bob", "alice"]

    def test_what_cannot_be_is_said_with_what_to_do(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "not a time" in said(vrag("audit", "show", "--since", "yesterday"))
        wrong = vrag("audit", "show", "--result", "success")
        assert wrong.exit_code == 2
        assert all(result in wrong.output for result in AuditResult)
        assert "There is no file" in said(vrag("audit", "show", "--file", str(home / "none")))
        monkeypatch.delenv("VRAG_AUDIT_LOG")
        assert "No audit log is configured" in said(vrag("audit", "show"))


def test_a_new_title_is_logged(home: Path, runs: DatedRuns) -> None:
    run = runs.add(2)
    assert vrag("runs", "rename", run, "Fares").exit_code == 0
    told = [(e.action, e.role, e.run, e.result) for e in entries(home)]
    assert told == [("change_run", "local", run, result) for result in ("begun", "done")]
