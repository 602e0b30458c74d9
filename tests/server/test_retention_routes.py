"""Deletion of runs on a server: by an administrator, by age every day, and nobody's memory of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from dated_runs import DatedRuns
from hosting import ANSWER, SEARCH, Nothing
from library_harness import until
from server_harness import ask, serving
from service_harness import scripted

from vrag.agent.runs.retention import DAY_SECONDS
from vrag.agent.runs.run_store import RunStore
from vrag.errors import RunError
from vrag.server.app import Service, create_app
from vrag.server.http.audit import AuditTrail
from vrag.server.http.audit_log import AuditLog, read_entries
from vrag.server.http.errors import Refusal
from vrag.server.http.users import EVERYBODY
from vrag.server.options import ServerOptions
from vrag.server.runs.retention import START_SECONDS, RunRetention, ServerClock
from vrag.server.runs.run_manager import RunManager
from vrag.server.runs.schema import RunQuery
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator

    from hosting import Scripted


@pytest.fixture
def runs(tmp_path: Path) -> DatedRuns:
    return DatedRuns(tmp_path / "runs")


@pytest.fixture
def served(tmp_path: Path) -> Generator[tuple[httpx.Client, AuditLog, Scripted]]:
    answering = scripted(tmp_path / "runs", (SEARCH, ANSWER))
    log = AuditLog(tmp_path / "audit.log")
    options = ServerOptions(drain_seconds=2, audit=log)
    with (
        serving(options=options, service=Service(answering, Nothing())) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        yield client, log, answering


def test_an_administrator_deletes_by_age_and_user_after_a_look(
    runs: DatedRuns, served: tuple[httpx.Client, AuditLog, Scripted]
) -> None:
    client, log, _ = served
    old, foreign, young = runs.add(40, "alice"), runs.add(50, "bob"), runs.add(2, "alice")
    query = {"older_than": 30, "owner": "alice"}
    told = client.get("/retention", params=query).json()
    assert (told["runs"], told["keep_days"]) == (1, 0)
    assert told["oldest"] == told["newest"]
    assert datetime.fromtimestamp(told["oldest"], UTC).strftime("%Y%m%d-%H%M%S") == old[:15]
    assert set(runs.store.ids()) == {old, foreign, young}
    gone = client.delete("/runs", params=query).json()
    assert gone == told
    assert gone["bytes"] > 0
    assert set(runs.store.ids()) == {foreign, young}
    assert client.get(f"/runs/{old}").status_code == 404
    logged = [(each.action, each.result, each.subject, each.runs) for each in read_entries(log.path)]
    assert logged == [("purge_runs", "begun", "alice", None), ("purge_runs", "done", "alice", 1)]
    assert client.delete("/runs").status_code == 422
    assert client.delete("/runs", params={"older_than": -1}).status_code == 422
    assert client.delete("/runs", params={"older_than": 0, "pinned": True}).json()["runs"] == 2


def test_runs_in_progress_and_their_conversations_stay(
    served: tuple[httpx.Client, AuditLog, Scripted],
) -> None:
    client, _, answering = served
    first = client.post("/runs", json={"question": "How many?"}).json()["id"]
    client.get(f"/runs/{first}/events")
    answering.policy.go.clear()
    later = client.post("/runs", json={"question": "And before?", "session": first}).json()["id"]
    assert client.delete("/runs", params={"older_than": 0}).json()["runs"] == 0
    answering.policy.go.set()
    client.get(f"/runs/{later}/events")
    until(lambda: client.get("/retention", params={"older_than": 0}).json()["runs"] == 2)
    assert client.delete("/runs", params={"older_than": 0}).json()["runs"] == 2


def test_a_server_deletes_old_conversations_after_its_start_and_logs_it(
    tmp_path: Path, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrag.server.runs.retention.START_SECONDS", 0)
    old, pinned, young = runs.add(40), runs.add(40, pinned=True), runs.add(2)
    log = AuditLog(tmp_path / "audit.log")
    options = ServerOptions(drain_seconds=2, audit=log, keep_days=30)
    with serving(options=options, service=Service(scripted(tmp_path / "runs"), Nothing())) as address:
        until(lambda: old not in runs.store.ids())
        until(lambda: log.path.exists() and len(list(read_entries(log.path))) == 2)
        assert httpx.get(f"{address}/retention", params={"older_than": 1}).json()["keep_days"] == 30
    assert set(runs.store.ids()) == {pinned, young}
    entries = list(read_entries(log.path))
    assert [(e.action, e.role, e.result, e.runs) for e in entries] == [
        ("purge_runs", "server", "begun", None),
        ("purge_runs", "server", "done", 1),
    ]


@dataclass
class Days:
    """A server that deletes runs of more than 30 days by itself, on a clock of its own."""

    folder: Path
    now: float
    log: AuditLog
    pauses: list[float] = field(default_factory=list[float])
    uptime: float = 0.0
    jump_after: int | None = None
    """Number of pauses after which the clock is set ten years ahead."""

    def pass_time(self, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the server wait so many times after its start."""
        left = times

        async def sleep(seconds: float) -> None:
            nonlocal left
            if not left:
                raise asyncio.CancelledError
            left -= 1
            if len(self.pauses) == self.jump_after:
                self.now += 3650 * DAY_SECONDS
            self.pauses.append(seconds)
            self.uptime += seconds
            self.now += seconds

        async def purge() -> None:
            manager = RunManager(scripted(self.folder / "runs"))
            trail = AuditTrail(self.log)
            clock = ServerClock(lambda: self.now, lambda: self.uptime)
            try:
                await RunRetention(manager, trail, 30, clock).keep_purging()
            finally:
                await trail.close(5)
                await manager.close(1)

        with monkeypatch.context() as patched:
            patched.setattr("vrag.server.runs.retention.asyncio.sleep", sleep)
            with pytest.raises(asyncio.CancelledError):
                asyncio.run(purge())


@pytest.fixture
def days(tmp_path: Path, runs: DatedRuns) -> Days:
    return Days(tmp_path, runs.now.timestamp(), AuditLog(tmp_path / "audit.log"))


def test_it_does_so_some_minutes_after_the_start_and_every_day(
    days: Days, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, next_day = runs.add(40), runs.add(29.5)
    runs.add(2)
    days.pass_time(0, monkeypatch)
    assert len(runs.store.ids()) == 3
    days.pass_time(1, monkeypatch)
    assert old not in runs.store.ids()
    assert next_day in runs.store.ids()
    days.pauses.clear()
    days.pass_time(3, monkeypatch)
    assert days.pauses == [START_SECONDS, DAY_SECONDS, DAY_SECONDS]
    assert next_day not in runs.store.ids()
    assert START_SECONDS >= 300


def test_it_does_so_again_soon_after_a_failure_and_deletes_nothing_unlogged(
    tmp_path: Path, days: Days, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = runs.add(40)
    runs.add(2)
    days.log = AuditLog(tmp_path / "file" / "audit.log")
    (tmp_path / "file").touch()
    days.pass_time(2, monkeypatch)
    assert days.pauses == [START_SECONDS, 3600]
    assert old in runs.store.ids()
    (tmp_path / "file").unlink()
    days.pass_time(1, monkeypatch)
    assert old not in runs.store.ids()


def test_a_deletion_that_fails_is_logged_as_failed(
    days: Days, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.add(40)
    runs.add(2)

    def refuse(*_: object) -> None:
        raise RunError("The disk refuses.") from OSError()

    with monkeypatch.context() as patched:
        patched.setattr(RunStore, "delete_all", refuse)
        days.pass_time(1, monkeypatch)
    assert [each.result for each in read_entries(days.log.path)] == ["begun", "failed"]


def test_a_clock_far_in_the_future_deletes_nothing(
    days: Days, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for age in (0, 1, 40):
        runs.add(age)
    present = days.now
    days.now += 3650 * DAY_SECONDS
    runs.add(-3650)  # asked while the clock is wrong
    days.pass_time(20, monkeypatch)
    assert len(runs.store.ids()) == 4
    assert days.pauses == [START_SECONDS, *[3600] * 19]
    assert "the newest run before today began" in caplog.text
    days.uptime = 0  # another start, while it is wrong
    days.pass_time(5, monkeypatch)
    assert len(runs.store.ids()) == 4
    days.now = present
    caplog.clear()
    days.pass_time(1, monkeypatch)
    assert "began later" in caplog.text
    assert len(runs.store.ids()) == 4


def test_a_clock_that_jumps_while_the_server_is_up_is_not_trusted_for_a_day(
    days: Days, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.add(2)
    days.jump_after = 2
    days.pass_time(20, monkeypatch)
    assert len(runs.store.ids()) == 1
    assert days.pauses == [START_SECONDS, DAY_SECONDS, DAY_SECONDS, *[3600] * 17]


def test_an_administrator_deletes_nothing_by_age_while_the_clock_is_ahead(
    runs: DatedRuns, served: tuple[httpx.Client, AuditLog, Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, log, _ = served
    kept = {runs.add(40), runs.add(0)}
    assert client.get("/retention", params={"older_than": 30}).json()["runs"] == 1
    refused = client.delete("/runs", params={"older_than": 30})
    assert refused.status_code == 409
    assert "the newest run before today began" in refused.json()["detail"]
    assert "vrag runs purge --before 20" in refused.json()["hint"]
    assert set(runs.store.ids()) == kept
    assert [each.result for each in read_entries(log.path)] == ["begun", "failed"]
    assert client.delete("/runs", params={"older_than": 50}).json()["runs"] == 0
    future = runs.add(-3650)
    refused = client.delete("/runs", params={"older_than": 30})
    assert (refused.status_code, "began later" in refused.json()["detail"]) == (409, True)
    runs.store.delete(future)
    runs.add(2)
    assert client.delete("/runs", params={"older_than": 30}).json()["runs"] == 1
    assert client.delete("/runs", params={"older_than": 0}).json()["runs"] == 2


def test_all_runs_are_deleted_whatever_the_clock_says(
    runs: DatedRuns, served: tuple[httpx.Client, AuditLog, Scripted]
) -> None:
    client, _, _ = served
    runs.add(40)
    assert client.delete("/runs", params={"older_than": 0}).json()["runs"] == 1


def test_a_server_that_was_off_for_long_deletes_when_it_has_been_up_for_a_day(
    days: Days, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.add(100)
    days.pass_time(24, monkeypatch)
    assert len(runs.store.ids()) == 1
    days.uptime = 0
    days.pass_time(25, monkeypatch)
    assert runs.store.ids() == []


def test_by_default_nothing_is_deleted(tmp_path: Path, runs: DatedRuns) -> None:
    ancient = runs.add(5000)
    app = create_app(tiny_corpus(), service=Service(scripted(tmp_path / "runs"), Nothing()))
    assert ask(app, "GET", "/runs").json()["runs"][0]["id"] == ancient


def test_what_another_process_deleted_does_not_stay_in_memory(runs: DatedRuns, tmp_path: Path) -> None:
    history = RunManager(scripted(tmp_path / "runs")).history
    run = runs.add(2, "alice")
    assert history.first_of(run) == run
    assert [each.id for each in history.summaries({}, EVERYBODY, RunQuery()).runs] == [run]
    runs.store.delete(run)
    assert history.summaries({}, EVERYBODY, RunQuery()).runs == ()
    with pytest.raises(Refusal, match="no conversation"):
        history.first_of(run)  # what it asked is remembered no more
