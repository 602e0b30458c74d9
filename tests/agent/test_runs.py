"""Runs on disk: nothing is lost, damage is named, and a replay gives the same events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vrag.agent.environment import Environment
from vrag.agent.events import Event, ModelCalled, StopReason
from vrag.agent.policies.extractive import ExtractivePolicy
from vrag.agent.replay import differences, replay
from vrag.agent.runs import RunStore, StoredRun
from vrag.agent.vrag import VragAgent
from vrag.errors import ModelError, RunError
from vrag.profiles import PROFILES
from vrag.testing import MemorySearcher, ScriptedPolicy, page, tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

PROFILE = PROFILES["qwen2.5-vl"]
SCRIPT = (
    "<think>Look.</think><search>ferry passengers</search> and more",
    "no action",
    "<think>Closer.</think><bbox>[0, 0, 400, 60]</bbox>",
    "<think>Seen.</think><answer>48,200</answer>",
)


def record(store: RunStore, *replies: str | Exception, searcher: MemorySearcher | None = None) -> StoredRun:
    searcher = searcher or tiny_corpus()
    agent = VragAgent(ScriptedPolicy(replies), Environment(searcher, PROFILE))
    with store.record() as recording:
        for event in agent.stream("How many?", run_id=recording.id, save=recording.save):
            recording.write(event)
    return store.read(recording.id)


def changed(run: StoredRun, searcher: MemorySearcher) -> list[tuple[Event | None, Event | None]]:
    found = differences(run.events, list(replay(run, searcher)))
    return [(difference.recorded, difference.replayed) for difference in found]


def test_every_file_an_event_names_is_kept(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    pictures = [shown.sha256 for step in run.trajectory.steps for shown in step.shown]
    messages = [name for event in run.events if isinstance(event, ModelCalled) for name in event.messages]
    assert pictures
    assert messages
    assert all(run.file(name).is_file() for name in pictures)
    assert all(run.file(name, "json").is_file() for name in messages)


def test_a_replay_gives_the_same_events(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    assert changed(run, tiny_corpus()) == []


def test_the_offline_policy_is_replayed_too(tmp_path: Path) -> None:
    store, searcher = RunStore(tmp_path), tiny_corpus()
    agent = VragAgent(ExtractivePolicy(searcher, PROFILE.boxes), Environment(searcher, PROFILE))
    with store.record() as recording:
        for event in agent.stream("What does a return ticket cost?", run_id=recording.id):
            recording.write(event)
    run = store.read("last")
    assert run.trajectory.stop_reason is StopReason.ANSWERED
    assert changed(run, tiny_corpus()) == []


def test_a_failed_run_is_replayed_to_the_same_failure(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), SCRIPT[0], ModelError("The endpoint does not answer."))
    assert changed(run, tiny_corpus()) == []


def test_a_replay_on_another_collection_is_refused(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    with pytest.raises(RunError, match="has changed since"):
        replay(run, MemorySearcher(tiny_corpus().items, version="other"))


def test_a_replay_notices_when_the_same_version_shows_something_else(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    swapped = MemorySearcher((page("ferry.pdf", 2, "ferry passengers 9"), *tiny_corpus().items[2:]))
    assert changed(run, swapped)


def test_a_run_that_was_killed_keeps_all_but_its_torn_line(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = record(store, *SCRIPT)
    file = run.directory / "events.jsonl"
    file.write_bytes(file.read_bytes()[:-25])
    torn = store.read(run.id)
    assert torn.events == run.events[:-1]
    assert torn.trajectory.stop_reason is None
    with pytest.raises(RunError, match="cut off"):
        replay(torn, tiny_corpus())


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = record(store, *SCRIPT)
    file = run.directory / "events.jsonl"
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([lines[0], b'{"type": "nonsense"}', *lines[2:]]))
    with pytest.raises(RunError, match="Line 2"):
        store.read(run.id)


@pytest.mark.parametrize("run", ["../../etc/passwd", "", "zzz", "0" * 50, "2020"])
def test_an_unknown_run_is_an_error_that_says_where_to_look(tmp_path: Path, run: str) -> None:
    record(RunStore(tmp_path), *SCRIPT)
    with pytest.raises(RunError, match="vrag runs list"):
        RunStore(tmp_path).read(run)


def test_runs_are_listed_the_newest_first_and_found_by_their_beginning(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = record(store, *SCRIPT)
    assert store.ids() == [run.id]
    assert store.read(run.id[:-2]).id == run.id
    assert RunStore(tmp_path / "none").ids() == []


def test_a_directory_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="--collection"), RunStore(tmp_path / "file").record():
        pass
