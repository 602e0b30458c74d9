"""Runs on disk: nothing is lost, damage is named, and a replay gives the same events."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from agent_scripts import (
    PROFILE,
    WAYS,
    Way,
    answers,
    enlarges,
    environment,
    film_corpus,
    memorizes,
    note,
    of,
    searches,
    way_name,
)
from stored_events import read_events, reopen, write_events

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits, Prices
from vrag.agent.environment import Environment
from vrag.agent.events import (
    Event,
    ImageShown,
    ModelCalled,
    ModelRetried,
    RunStarted,
    StopReason,
    ThoughtDelta,
    UsageReported,
)
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.extractive import ExtractiveGraphPolicy, ExtractivePolicy
from vrag.agent.policy import Delta, FinishReason, Reply, Retry, Sampled, Tokens
from vrag.agent.runs.replay import differences, method_of, replay
from vrag.agent.runs.run_store import RunState, RunStore, StoredRun
from vrag.errors import ContextTooLong, ModelError, RunError
from vrag.model_profiles import PROFILES
from vrag.storage.blobs import BlobStore
from vrag.testing import MemorySearcher, ScriptedPolicy, page, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from vrag.agent.policy import Message, Policy

SCRIPT = (
    "<think>Look.</think><search>ferry passengers</search> and more",
    "no action",
    "<think>Closer.</think><bbox>[0, 0, 400, 60]</bbox>",
    "<think>Seen.</think><answer>48,200</answer>",
)
GRAPH_SCRIPT = (
    searches("film", "waves ferry lands"),
    "no action",
    memorizes(
        note("Picture 1"), note("Picture 2", 0), note("Video 1", 4, 33.0, 35.2, 99.0), note("Video 2", 2)
    ),
    enlarges("closer", "film", "Picture 1", [0, 0, 400, 60]),
    memorizes(note("Picture 1", 3), summary="Closer."),
    searches("again", "gulls ice", ["film", "closer"]),
    answers("again"),
)
GRAPH = Vimrag(memory=MemoryOptions(tokens=1500, fresh_tokens=20_000))


def kept(store: RunStore, agent: Agent, question: str = "How many?") -> StoredRun:
    with store.record() as recording:
        for event in agent.stream(question, run_id=recording.id, save=recording.save):
            recording.write(event)
    return store.read(recording.id)


def record(store: RunStore, *replies: str | Exception, searcher: MemorySearcher | None = None) -> StoredRun:
    return kept(
        store, Agent(ScriptedPolicy(replies), Environment(searcher or tiny_corpus(), PROFILE), VragMethod())
    )


def changed(run: StoredRun, searcher: MemorySearcher) -> list[tuple[Event | None, Event | None]]:
    found = differences(run.events, list(replay(run, searcher)))
    return [(difference.recorded, difference.replayed) for difference in found]


def test_a_run_of_a_released_checkpoint_is_replayed(tmp_path: Path) -> None:
    """With its own observations, its selections and its words of the last turn."""
    profile = replace(PROFILES["unidoc-rl"], answer_now="Answer, please.")
    script = ("<search>ferry</search>", "<select>1</select>", "<answer>48,200</answer>")
    agent = Agent(ScriptedPolicy(script), Environment(tiny_corpus(), profile), VragMethod(), Limits(steps=3))
    run = kept(RunStore(tmp_path), agent)
    assert changed(run, tiny_corpus()) == []


def test_every_file_an_event_names_is_kept(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    pictures = [shown.sha256 for step in run.result.steps for shown in step.shown]
    messages = [name for event in run.events if isinstance(event, ModelCalled) for name in event.messages]
    assert pictures
    assert messages
    assert all(run.read_file(name) for name in pictures)
    assert all(run.read_file(name, "json") for name in messages)


def test_a_replay_gives_the_same_events(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    assert changed(run, tiny_corpus()) == []


def test_a_run_whose_evidence_is_not_located_is_replayed(tmp_path: Path) -> None:
    agent = Agent(ScriptedPolicy(SCRIPT), Environment(tiny_corpus(), PROFILE), VragMethod(), locate=False)
    run = kept(RunStore(tmp_path), agent)
    assert changed(run, tiny_corpus()) == []


@dataclass
class Rich:
    """Says all that a served model can say about a reply, after an attempt that failed."""

    replies: Sequence[str]
    name: str = "rich"
    sampling: dict[str, float | int | str | bool] = field(
        default_factory=lambda: {"temperature": 0.6, "model": "m", "greedy": False}
    )

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        text = self.replies[turn - 1]
        yield Delta("<think>No")
        yield Delta("thing of this stays</think><search>")
        yield Retry("The connection was cut.", 0.5)
        yield Retry("The server is busy (429).", 1.0)
        for start in range(0, len(text), 11):
            yield Delta(text[start : start + 11])
        sampled = Sampled(prompt_ids=(1, 2, 3), ids=tuple(range(turn)), logprobs=(-0.5,) * turn)
        yield Reply(text, FinishReason.STOP, Tokens(prompt=100 * turn, completion=20, cached=30), sampled)

    async def aclose(self) -> None:
        pass


RICH = [
    pytest.param(VragMethod(reselect=True), (*SCRIPT, "<evidence>2</evidence>"), id="vrag"),
    pytest.param(GRAPH, GRAPH_SCRIPT, id="vimrag"),
]


@pytest.mark.parametrize(("method", "script"), RICH)
def test_a_replay_of_either_agent_gives_the_same_events(
    tmp_path: Path, method: VragMethod | Vimrag, script: Sequence[str]
) -> None:
    prices = Prices(prompt=2.0, completion=8.0, cached=0.5)
    limits = Limits(steps=12, seconds=600)
    where = environment(film_corpus(), hits=4, padding=3.0)
    run = kept(RunStore(tmp_path), Agent(Rich(script), where, method, limits, prices))
    assert run.result.stop_reason is StopReason.ANSWERED
    assert len(of(ModelRetried, run.events)) == 2 * len(script)
    assert run.result.usage.cost is not None
    assert changed(run, film_corpus()) == []


def test_the_replayed_script_has_frames_crops_and_memory() -> None:
    """Or the test before this one would show less than it says."""
    events = list(Agent(ScriptedPolicy(GRAPH_SCRIPT), environment(film_corpus(), hits=4), GRAPH).stream("?"))
    shown = of(ImageShown, events)
    assert {image.label for image in shown} == {"Picture 1", "Picture 2", "Video 1", "Video 2"}
    assert any(image.crop for image in shown)
    assert any(image.seconds == 33.0 for image in shown)
    assert any(usage.memory_tokens for usage in of(UsageReported, events))


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_pieces_and_failed_attempts_are_replayed_in_their_places(tmp_path: Path, way: Way) -> None:
    run = kept(RunStore(tmp_path), Agent(Rich(way.script()), environment(), way.method))
    first, second = of(ModelRetried, run.events)[:2]
    assert (first.partial, first.chunks) == ("<think>Nothing of this stays</think><search>", (9, 35))
    assert (second.partial, second.chunks) == ("", ())
    assert changed(run, tiny_corpus()) == []


@pytest.mark.parametrize("method", ["vrag", "vimrag"])
def test_the_policy_without_a_model_is_replayed_too(tmp_path: Path, method: str) -> None:
    searcher = tiny_corpus()
    policies: dict[str, tuple[Policy, VragMethod | Vimrag]] = {
        "vrag": (ExtractivePolicy(searcher, PROFILE, certain=False), VragMethod()),
        "vimrag": (ExtractiveGraphPolicy(searcher, PROFILE, crops=True, certain=False), GRAPH),
    }
    policy, how = policies[method]
    run = kept(
        RunStore(tmp_path), Agent(policy, environment(searcher), how), "What does a return ticket cost?"
    )
    assert run.result.stop_reason is StopReason.ANSWERED
    assert changed(run, tiny_corpus()) == []


def test_a_failed_run_is_replayed_to_the_same_failure(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), SCRIPT[0], ModelError("The endpoint does not answer."))
    assert changed(run, tiny_corpus()) == []


@pytest.mark.parametrize("way", WAYS, ids=way_name)
@pytest.mark.parametrize("error", [ModelError("No answer.", "Is it up?"), ContextTooLong("40,000 tokens.")])
def test_every_failure_of_a_model_is_replayed_as_the_failure_it_was(
    tmp_path: Path, way: Way, error: ModelError
) -> None:
    agent = Agent(ScriptedPolicy((way.search("ferry"), error)), environment(), way.method)
    run = kept(RunStore(tmp_path), agent)
    assert (run.result.failure or "").startswith(str(error))
    assert changed(run, tiny_corpus()) == []


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_a_call_that_failed_for_good_in_mid_thought_is_replayed_with_its_thought(
    tmp_path: Path, way: Way
) -> None:
    class Breaking(Rich):
        async def reply(
            self, history: Sequence[Message], turn: int = 1
        ) -> AsyncGenerator[Delta | Retry | Reply, None]:
            yield Delta("<think>first try")
            yield Retry("The connection was cut.")
            for piece in ("\n<thi", "nk>The a", " < b and", " c > d", " then </th"):
                yield Delta(piece)
            raise ModelError("The connection was cut again.")

    run = kept(RunStore(tmp_path), Agent(Breaking(()), environment(), way.method))
    told = [event.text for event in of(ThoughtDelta, run.events)]
    assert told == ["first try", "The a", " < b and", " c > d", " then "]
    assert changed(run, tiny_corpus()) == []


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_a_run_that_a_limit_ended_is_replayed_to_the_same_end(tmp_path: Path, way: Way) -> None:
    limits = Limits(steps=9, tokens=150)
    run = kept(
        RunStore(tmp_path), Agent(Rich([way.search("ferry"), "hm", "hm"]), environment(), way.method, limits)
    )
    assert run.result.stop_reason is StopReason.OUT_OF_BUDGET
    assert changed(run, tiny_corpus()) == []


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_a_run_that_was_cancelled_or_ran_out_of_time_cannot_be_replayed(tmp_path: Path, way: Way) -> None:
    """Where it was cut off depends on the clock."""
    store, cancel = RunStore(tmp_path), asyncio.Event()

    async def cancelled() -> str:
        with store.record() as recording:
            async for event in Agent(ScriptedPolicy(way.script()), environment(), way.method).astream(
                "?", run_id=recording.id, cancel=cancel
            ):
                recording.write(event)
                cancel.set()
        return recording.id

    run = store.read(asyncio.run(cancelled()))
    assert run.result.stop_reason is StopReason.CANCELLED
    with pytest.raises(RunError, match="did not finish"):
        replay(run, tiny_corpus())
    late = Agent(ScriptedPolicy(way.script()), environment(), way.method, Limits(seconds=1e-9))
    with pytest.raises(RunError, match="did not finish"):
        replay(kept(store, late), tiny_corpus())


def test_all_settings_of_a_run_are_taken_up_again(tmp_path: Path) -> None:
    methods = (
        VragMethod(instruction="Be brief.", reselect=True),
        Vimrag(instruction="Be brief.", reselect=True, memory=MemoryOptions(tokens=700, decay=0.5)),
    )
    for method in methods:
        events = list(Agent(ScriptedPolicy(("x",)), environment(), method).stream("?"))
        assert isinstance(events[0], RunStarted)
        assert method_of(events[0].settings) == method


def test_a_method_of_a_newer_version_is_named() -> None:
    (started,) = of(RunStarted, Agent(ScriptedPolicy(("x",)), environment(), VragMethod()).stream("?"))
    with pytest.raises(RunError, match="no agent 'later'"):
        method_of(started.settings.model_copy(update={"agent": "later"}))


def test_a_replay_on_another_collection_is_refused(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    with pytest.raises(RunError, match="has changed since"):
        replay(run, MemorySearcher(tiny_corpus().items, version="other"))


def test_a_replay_notices_when_the_same_version_shows_something_else(tmp_path: Path) -> None:
    run = record(RunStore(tmp_path), *SCRIPT)
    swapped = MemorySearcher((page("ferry.pdf", 2, "ferry passengers 9"), *tiny_corpus().items[2:]))
    assert changed(run, swapped)


def test_a_run_that_ends_while_it_is_looked_at_is_told_with_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunStore(tmp_path)
    run = record(store, *SCRIPT)
    whole = read_events(store, run.id)
    reopen(store, run.id)
    assert store.settled(run.id)[1] is RunState.INTERRUPTED

    def asked(store: RunStore, run: str, *, ended: bool) -> RunState:
        write_events(store, run, whole)
        return RunState.INTERRUPTED

    monkeypatch.setattr(RunStore, "state", asked)
    stored, state = store.settled("last")
    assert (stored.events, state) == (run.events, RunState.FINISHED)


def test_an_event_for_which_there_is_no_room_leaves_those_before_and_those_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = record(RunStore(tmp_path), *SCRIPT).events
    store = RunStore(tmp_path / "other")
    with store.record() as recording:
        recording.write(events[0])
        recording.save(f"{'0' * 64}.jpg", b"picture")
        with monkeypatch.context() as patch:
            patch.setattr(BlobStore, "sync", raise_full)
            with pytest.raises(RunError, match="No space left") as raised:
                recording.write(events[1])
        assert "VRAG_RUNS_DIR" in raised.value.hint
        recording.write(events[2])
    assert store.read("last").events == (events[0], events[2])
    assert store.file_names(recording.id) == [f"{'0' * 64}.jpg"], "it is named by the next event"


def raise_full(_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_run_without_an_end_did_not_finish(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = record(store, *SCRIPT)
    reopen(store, run.id)
    torn = store.read(run.id)
    assert torn.events == run.events[:-1]
    assert torn.result.stop_reason is None
    with pytest.raises(RunError, match="did not finish"):
        replay(torn, tiny_corpus())


def test_an_event_of_another_program_is_named(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = record(store, *SCRIPT)
    first, _, *others = read_events(store, run.id)
    write_events(store, run.id, [first, b'{"type": "nonsense"}', *others])
    with pytest.raises(RunError, match="Event 2"):
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
    with pytest.raises(RunError, match="VRAG_RUNS_DIR"), RunStore(tmp_path / "file").record():
        pass


def test_a_run_with_a_profile_of_ones_own_is_replayed_with_that_profile(tmp_path: Path) -> None:
    own = replace(PROFILE, name="mine", max_tokens=300)
    run = kept(RunStore(tmp_path), Agent(ScriptedPolicy(SCRIPT), environment(profile=own), VragMethod()))
    assert run.started.settings.own_profile == own
    assert differences(run.events, list(replay(run, tiny_corpus()))) == []


def test_a_run_whose_profile_is_not_known_says_how_it_can_be_replayed(tmp_path: Path) -> None:
    own = replace(PROFILE, name="mine", max_tokens=300)
    run = kept(RunStore(tmp_path), Agent(ScriptedPolicy(SCRIPT), environment(profile=own), VragMethod()))
    settings = run.started.settings.model_copy(update={"own_profile": None})
    bare = replace(run, events=(run.started.model_copy(update={"settings": settings}), *run.events[1:]))
    with pytest.raises(RunError, match=r"'mine', which is not built in.*replay\(run, searcher, profile\)"):
        replay(bare, tiny_corpus())
    assert differences(run.events[1:], list(replay(bare, tiny_corpus(), own))[1:]) == []


def test_a_run_without_events_is_starting_as_long_as_somebody_writes_it(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    with store.record() as recording:
        assert store.ids() == [recording.id]
        assert store.is_starting(recording.id)
        for read in (store.read, store.outline, store.started):
            with pytest.raises(RunError, match="just starting"):
                read(recording.id)
    assert not store.is_starting(recording.id)
    for read in (store.read, store.outline, store.started):
        with pytest.raises(RunError, match="ended before its first event"):
            read(recording.id)
    assert not store.is_starting("20200101-000000-000000-0000")
