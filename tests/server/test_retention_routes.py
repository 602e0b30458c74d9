"""Deletion of runs on a server: by an administrator, by age every day, and nobody's memory of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest
from dated_runs import DatedRuns
from hosting import ANSWER, SEARCH, Nothing
from library_harness import until
from server_harness import ask, serving
from service_harness import scripted

from vrag.server.app import Service, create_app
from vrag.server.http.audit import AuditTrail
from vrag.server.http.audit_log import AuditLog, read_entries
from vrag.server.http.errors import Refusal
from vrag.server.http.users import EVERYBODY
from vrag.server.options import ServerOptions
from vrag.server.runs.retention import RunRetention
from vrag.server.runs.run_manager import RunManager
from vrag.server.runs.schema import RunQuery
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

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


def test_a_server_deletes_old_conversations_when_it_starts_and_logs_it(
    tmp_path: Path, runs: DatedRuns
) -> None:
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


def test_it_does_so_every_day_and_soon_again_after_a_failure(
    tmp_path: Path, runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    full = AuditLog(tmp_path / "file" / "audit.log")
    (tmp_path / "file").touch()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            (tmp_path / "file").unlink()
        if len(pauses) == 3:
            raise asyncio.CancelledError

    async def days() -> None:
        manager = RunManager(scripted(tmp_path / "runs"))
        trail = AuditTrail(full)
        try:
            await RunRetention(manager, trail, 30).keep_purging()
        finally:
            await trail.close(5)
            await manager.close(1)

    old = runs.add(40)
    with monkeypatch.context() as patched:
        patched.setattr("vrag.server.runs.retention.asyncio.sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(days())
    assert pauses == [3600, 86_400, 86_400]  # nothing was deleted while it could not be logged
    assert old not in runs.store.ids()


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
