"""Runs of a server: they belong to nobody's connection, and are never lost."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hosting import ANSWER, SEARCH, PacedPolicy, Scripted, runs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from server_harness import PacedSearcher

from vrag.agent.events import AnswerGiven, RunFailed, RunStarted, StopReason
from vrag.agent.question import PreviousTurn
from vrag.agent.runs.recorder import RunLog
from vrag.agent.runs.run_store import RunState, RunStore
from vrag.errors import ModelError, RunError
from vrag.server.http.errors import Refusal
from vrag.server.http.users import EVERYBODY, SERVER_ADMIN, User, UserRole
from vrag.server.options import ServerOptions
from vrag.server.runs.history import RunHistory
from vrag.server.runs.run_manager import Requester, RunManager
from vrag.server.runs.run_queue import QueuePlace, QueuePosition, RunQueue
from vrag.server.runs.schema import RunQuery, RunRequest, RunSummary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from vrag.agent.events import Event
    from vrag.server.runs.user_runs import UserRuns

ASKED = RunRequest(question="How many passengers?")


@pytest.fixture
def answering(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path / "runs")


def hosted(
    answering: Scripted,
    work: Callable[[UserRuns], Awaitable[None]],
    options: ServerOptions | None = None,
) -> None:
    """Does some work with a host, which is closed in the end."""

    async def whole() -> None:
        host = runs_of(RunManager(answering, options))
        try:
            await work(host)
        finally:
            answering.policy.go.set()
            await host.manager.close(5)

    asyncio.run(whole())


async def events_of(host: UserRuns, run: str, after: int = -1) -> list[Any]:
    return [event async for event in host.follow(run, after)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of what no event tells
            await asyncio.sleep(0.005)


def test_every_follower_sees_every_event_whenever_it_comes(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        run = (await host.start(ASKED)).id
        early = asyncio.ensure_future(events_of(host, run))
        await asyncio.sleep(0.02)
        late = asyncio.ensure_future(events_of(host, run))
        answering.policy.go.set()
        first, second = await early, await late
        third = await events_of(host, run)
        assert [event.seq for event in first] == list(range(len(first)))
        assert first == second == third
        assert isinstance(first[0], RunStarted)
        assert isinstance(first[-1], AnswerGiven)
        assert tuple(first) == answering.store.read(run).events

    hosted(answering, work)


def test_a_stream_goes_on_after_the_last_event_that_is_known(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        run = (await host.start(ASKED)).id
        answering.policy.go.set()
        whole = await events_of(host, run)
        for after in (-1, 0, len(whole) // 2, len(whole) - 1, len(whole) + 5):
            assert await events_of(host, run, after) == whole[after + 1 :]

    hosted(answering, work)


def test_a_run_goes_on_when_nobody_follows(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        run = (await host.start(ASKED)).id
        follower = asyncio.ensure_future(events_of(host, run))
        await asyncio.sleep(0.02)
        follower.cancel()
        answering.policy.go.set()
        await until(lambda: host.manager.running == 0)
        detail = await host.detail(run)
        assert (detail.state, detail.answer) == (RunState.FINISHED, "48,200")
        assert detail.evidence

    hosted(answering, work)


def test_a_run_whose_asker_gives_up_before_it_has_an_id_is_stopped(
    answering: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelling, go_on = threading.Event(), threading.Event()
    label = RunHistory.label

    def wait_and_label(history: RunHistory, summary: RunSummary) -> RunSummary:
        labelling.set()
        assert go_on.wait(20)
        return label(history, summary)

    monkeypatch.setattr(RunHistory, "label", wait_and_label)

    async def work(host: UserRuns) -> None:
        asking = asyncio.ensure_future(host.start(ASKED))
        await until(labelling.is_set)
        asking.cancel()
        await asyncio.wait([asking])
        go_on.set()
        await until(lambda: host.manager.running == 0)
        (run,) = (await host.summaries()).runs
        assert run.stop_reason is StopReason.CANCELLED

    hosted(answering, work)


def test_a_run_that_is_stopped_says_so_and_one_that_is_over_stays_as_it_is(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        run = (await host.start(ASKED)).id
        summary, running = await host.cancel(run)
        assert running
        assert summary.state is RunState.RUNNING
        end = (await events_of(host, run))[-1]
        assert isinstance(end, AnswerGiven)
        assert end.stop_reason is StopReason.CANCELLED
        await until(lambda: host.manager.running == 0)
        again, running = await host.cancel(run)
        assert not running
        assert again.stop_reason is StopReason.CANCELLED

    hosted(answering, work)


def test_runs_wait_for_those_of_their_requester_and_for_those_of_all(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        a, b, c = (runs_of(host.manager, name) for name in "abc")
        runs = [await each.start(ASKED) for each in (a, a, a, b, c)]
        running, waiting = RunState.RUNNING, RunState.WAITING
        assert [run.state for run in runs] == [running, running, waiting, running, waiting]
        assert [run.position for run in runs] == [None, None, 1, None, 2]
        assert (host.manager.running, host.manager.waiting) == (3, 2)
        listed = (await host.summaries()).runs
        assert [(run.state, run.position) for run in listed] == [(r.state, r.position) for r in runs[::-1]]
        assert {run.question for run in listed} == {ASKED.question}
        assert [run.id for run in host.active()] == [run.id for run in runs[::-1]]
        detail = await host.detail(runs[2].id)
        assert (detail.state, detail.position, detail.events) == (waiting, 1, 0)
        await host.cancel(runs[0].id)
        await until(lambda: bool(host.manager.live[runs[2].id].events))
        begun = await host.detail(runs[2].id)
        assert (begun.state, begun.position, begun.events) == (running, None, 1)
        answering.policy.go.set()
        await until(lambda: not host.manager.running)
        assert host.manager.waiting == 0
        assert {run.answer for run in (await host.summaries()).runs} == {"48,200", None}

    hosted(answering, work, ServerOptions(runs=3, client_runs=2))


def test_a_full_queue_refuses_with_the_time_to_try_again_and_gives_back_nothing(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        a, b, c = (runs_of(host.manager, name) for name in "abc")
        for each in (a, a, b, b):
            await each.start(ASKED)
        with pytest.raises(Refusal, match="Your part of the queue is full: the limit is 1") as mine:
            await a.start(ASKED)
        await c.start(ASKED)
        with pytest.raises(Refusal, match="The queue is full: the limit is 3") as ours:
            await runs_of(host.manager, "d").start(ASKED)
        assert (mine.value.status, ours.value.status) == (429, 503)
        assert all(int(error.value.response().headers["retry-after"]) > 1 for error in (mine, ours))
        assert host.manager.waiting == 3
        answering.policy.go.set()
        await until(lambda: not host.manager.running)
        assert (await a.start(ASKED)).state is RunState.RUNNING

    hosted(answering, work, ServerOptions(runs=2, client_runs=1, waiting_runs=3, client_waiting_runs=1))


def test_a_server_without_a_queue_refuses_what_it_cannot_begin(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        await host.start(ASKED)
        with pytest.raises(Refusal) as refused:
            await runs_of(host.manager, "other").start(ASKED)
        assert refused.value.status == 503

    hosted(answering, work, ServerOptions(runs=1, waiting_runs=0))


def test_a_requester_with_one_question_waits_for_one_of_each_other(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        a, b = runs_of(host.manager, "a"), runs_of(host.manager, "b")
        asked = [await each.start(ASKED) for each in (a, a, a, b)]
        positions: list[int] = []

        async def follow_last() -> list[str]:
            follower = host.follow(asked[-2].id)
            async for event in follower:
                if isinstance(event, QueuePosition):
                    positions.append(event.position)
                    assert event.text == f"Waiting: {['1st', '2nd', '3rd'][event.position - 1]} in the queue"
            return []

        following = asyncio.ensure_future(follow_last())
        await asyncio.sleep(0.02)
        answering.policy.go.set()
        await following
        assert positions == [3, 2, 1]
        begun = [answering.store.started(run.id).ts for run in asked]
        first, second, third, of_b = begun
        assert first < second < of_b < third

    hosted(answering, work, ServerOptions(runs=1))


def test_runs_of_a_user_count_together_and_those_of_a_shared_token_by_client() -> None:
    alice = User("alice", UserRole.ASK)
    assert Requester(alice, "session 1").name == Requester(alice, "192.0.2.1").name
    assert Requester(alice, "x").name != Requester(User("bob", UserRole.ASK), "x").name
    for shared in (EVERYBODY, SERVER_ADMIN):
        assert Requester(shared, "a").name != Requester(shared, "b").name


def test_a_waiting_run_that_is_stopped_leaves_the_queue_and_never_asks_the_model(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        _, second, third = [await host.start(ASKED) for _ in range(3)]
        followed = asyncio.ensure_future(events_of(host, second.id))
        await asyncio.sleep(0.02)
        summary, stopped = await host.cancel(second.id)
        assert stopped
        assert summary.state is RunState.WAITING
        events = await followed
        assert events[0] == QueuePosition(1)
        assert [event.type for event in events[1:] if not isinstance(event, QueuePosition)] == [
            "run_started",
            "answer",
        ]
        assert (await host.detail(second.id)).stop_reason is StopReason.CANCELLED
        assert (await host.detail(third.id)).position == 1
        assert host.manager.running == 1
        assert len(answering.policy.told) == 1
        answering.policy.go.set()
        await until(lambda: not host.manager.running)
        assert (await host.detail(third.id)).answer == "48,200"

    hosted(answering, work, ServerOptions(runs=1))


def test_a_run_that_is_stopped_at_the_moment_it_begins_gives_its_slot_back(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        first, second, third = [await host.start(ASKED) for _ in range(3)]
        live = host.manager.live[second.id]

        def stop_at_slot() -> None:
            if live.place.position == 0:
                live.stop()

        live.place.on_move = stop_at_slot
        await host.cancel(first.id)
        await events_of(host, second.id)
        answering.policy.go.set()
        await events_of(host, third.id)
        await until(lambda: not host.manager.running)
        reasons = [(await host.detail(run.id)).stop_reason for run in (first, second, third)]
        assert reasons == [StopReason.CANCELLED, StopReason.CANCELLED, StopReason.ANSWERED]

    hosted(answering, work, ServerOptions(runs=1))


def test_a_stopping_host_ends_what_waits_at_once_and_lets_the_rest_end(answering: Scripted) -> None:
    async def whole() -> None:
        host = runs_of(RunManager(answering, ServerOptions(runs=1)))
        first, *waiting = [await host.start(ASKED) for _ in range(4)]
        following = [asyncio.ensure_future(events_of(host, run.id)) for run in waiting]
        await asyncio.sleep(0.02)
        closing = asyncio.ensure_future(host.manager.finish(20))
        for events in await asyncio.gather(*following):
            assert isinstance(events[-1], AnswerGiven)
            assert events[-1].stop_reason is StopReason.CANCELLED
        assert (await host.detail(first.id)).state is RunState.RUNNING
        answering.policy.go.set()
        await closing
        assert (await host.detail(first.id)).answer == "48,200"
        await host.manager.close(5)

    asyncio.run(whole())


async def ask_until_answered(host: UserRuns, answering: Scripted) -> RunSummary:
    """Ask, and wait until the run has ended and its slot is free."""
    answering.policy.go.set()
    run = await host.start(ASKED)
    await events_of(host, run.id)
    await until(lambda: not host.manager.running)
    return run


def test_a_follow_up_waits_too_is_listed_with_its_conversation_and_deleted_with_it(
    answering: Scripted,
) -> None:
    async def work(host: UserRuns) -> None:
        first = await ask_until_answered(host, answering)
        answering.policy.go.clear()
        await runs_of(host.manager, "other").start(ASKED)
        second = await host.start(RunRequest(question="And in 2023?", session=first.id))
        assert (second.session, second.state) == (first.id, RunState.WAITING)
        listed = (await host.summaries(RunQuery(session=first.id))).runs
        assert [run.id for run in listed] == [second.id, first.id]
        for session in (first.id, second.id):
            with pytest.raises(Refusal) as early:
                await host.start(RunRequest(question="And?", session=session))
            assert early.value.status == 409
        with pytest.raises(Refusal, match="Later questions"):
            await host.delete(first.id, conversation=False)
        await host.delete(first.id, conversation=True)
        assert host.manager.waiting == 0
        assert [run.session for run in (await host.summaries()).runs] != [first.id]

    hosted(answering, work, ServerOptions(runs=1))


def test_a_conversation_goes_on_after_a_server_was_killed_with_a_question_of_it_waiting(
    answering: Scripted,
) -> None:
    async def work(host: UserRuns) -> None:
        first = await ask_until_answered(host, answering)
        started = answering.store.started(first.id)
        with answering.store.record() as log:  # the process ends here
            await log.announce(started.model_copy(update={"session": first.id}))
        again = await host.start(RunRequest(question="Once more?", session=first.id))
        await events_of(host, again.id)
        assert (await host.detail(again.id)).history
        assert [run.id for run in (await host.summaries()).runs] == [again.id, first.id]

    hosted(answering, work)


def test_a_full_disk_refuses_a_run_that_would_wait_and_takes_no_place(
    answering: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise RunError("Runs cannot be written: No space left on device.")

    async def work(host: UserRuns) -> None:
        await host.start(ASKED)
        monkeypatch.setattr(RunLog, "announce", refuse)
        with pytest.raises(RunError, match="No space left"):
            await host.start(ASKED)
        monkeypatch.undo()
        assert host.manager.waiting == 0

    hosted(answering, work, ServerOptions(runs=1))


def test_a_disk_that_is_full_when_a_run_gets_its_slot_ends_the_run_and_frees_the_slot(
    answering: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    async def work(host: UserRuns) -> None:
        first, second = [await host.start(ASKED) for _ in range(2)]
        following = asyncio.ensure_future(events_of(host, second.id))
        await asyncio.sleep(0.02)
        monkeypatch.setattr("vrag.agent.runs.recorder.append", refuse)
        await host.cancel(first.id)
        assert await following == [QueuePosition(1)]
        await until(lambda: not host.manager.running)
        monkeypatch.undo()
        answering.policy.go.set()
        third = await host.start(ASKED)
        assert (await events_of(host, third.id))[-1].text == "48,200"

    hosted(answering, work, ServerOptions(runs=1))


def test_a_run_that_waited_does_not_keep_its_slot_where_the_search_hangs(answering: Scripted) -> None:
    hanging, go_on = threading.Event(), threading.Event()

    class Hanging(PacedSearcher):
        @property
        def version(self) -> str:
            assert not hanging.is_set() or go_on.wait(30)
            return super().version

    answering.searcher = Hanging()
    answering.searcher.go.set()

    async def work(host: UserRuns) -> None:
        await host.start(ASKED)
        second = await host.start(ASKED)
        hanging.set()
        answering.policy.go.set()
        events = await events_of(host, second.id)
        go_on.set()
        assert isinstance(events[-1], AnswerGiven)
        assert events[-1].stop_reason is StopReason.CANCELLED
        await until(lambda: not host.manager.running)

    hosted(answering, work, ServerOptions(runs=1, search_seconds=0.5))


class QueueMachine:
    """A queue, and what it has to keep to after each change."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.queue = RunQueue(options)
        self.places: list[QueuePlace] = []
        """Those that were not given up, in the order in which they were asked for."""
        self.overtaken: dict[QueuePlace, Counter[str]] = {}
        """Slots that went to others while a place was the next of its requester, who might have run."""

    def join(self, requester: str) -> None:
        options, waiting = self.options, self.waiting()
        own = [place for place in waiting if place.requester == requester]
        may_run = len(self.running()) < options.runs and self.runs_of(requester) < options.client_runs
        has_room = len(own) < options.client_waiting_runs
        if not may_run and (not has_room or len(waiting) >= options.waiting_runs):
            with pytest.raises(Refusal) as refused:
                self.queue.join(requester)
            assert refused.value.status == (503 if has_room else 429)
            return
        place = self.queue.join(requester)
        assert may_run == (place.position == 0)
        self.places.append(place)
        place.on_move = lambda: self.moved(place)

    def leave(self, place: QueuePlace) -> None:
        self.places.remove(place)
        self.queue.leave(place)
        self.queue.leave(place)  # once more changes nothing
        assert place.position is None

    def moved(self, place: QueuePlace) -> None:
        if place.position != 0:
            return
        for head in {each.requester: each for each in reversed(self.waiting())}.values():
            may_run = self.queue.running[head.requester] < self.options.client_runs
            if head.requester != place.requester and may_run:
                passed = self.overtaken.setdefault(head, Counter())
                passed[place.requester] += 1
                assert passed[place.requester] <= 1, "another requester had two turns"

    def waiting(self) -> list[QueuePlace]:
        return [place for place in self.places if place.position]

    def running(self) -> list[QueuePlace]:
        return [place for place in self.places if place.position == 0]

    def runs_of(self, requester: str) -> int:
        return sum(place.requester == requester for place in self.running())

    def check(self) -> None:
        options, waiting = self.options, self.waiting()
        assert all(place.position is not None for place in self.places), "nobody is lost"
        assert self.queue.waiting == len(waiting) <= options.waiting_runs
        assert self.queue.running.total() == len(self.running()) <= options.runs
        for requester in {place.requester for place in self.places}:
            own = [place.position or 0 for place in waiting if place.requester == requester]
            assert len(own) <= options.client_waiting_runs
            assert own == sorted(own), "first come, first served"
            assert self.queue.running[requester] == self.runs_of(requester) <= options.client_runs
            is_blocked = self.runs_of(requester) == options.client_runs
            assert not own or is_blocked or len(self.running()) == options.runs, "a slot is free"
        if len(self.running()) == options.runs:
            assert sorted(place.position or 0 for place in waiting) == [*range(1, len(waiting) + 1)]
        else:  # each waits for its own requester
            own_turns = Counter[str]()
            for place in waiting:
                own_turns[place.requester] += 1
                assert place.position == own_turns[place.requester]


@given(
    runs=st.integers(1, 4),
    client_runs=st.integers(1, 3),
    waiting=st.integers(0, 8),
    own_waiting=st.integers(0, 4),
    changes=st.lists(st.tuples(st.sampled_from("abcd-"), st.integers(0, 99)), max_size=60),
)
@settings(max_examples=200)
def test_nobody_waits_for_more_than_a_turn_of_each_other_and_nobody_is_lost(
    runs: int, client_runs: int, waiting: int, own_waiting: int, changes: list[tuple[str, int]]
) -> None:
    machine = QueueMachine(
        ServerOptions(
            runs=runs, client_runs=client_runs, waiting_runs=waiting, client_waiting_runs=own_waiting
        )
    )
    for requester, number in changes:
        if requester != "-":
            machine.join(requester)
        elif machine.places:
            machine.leave(machine.places[number % len(machine.places)])
        machine.check()
    while machine.places:  # what ends makes room for the others, until all had their turn
        assert machine.running()
        machine.leave(machine.running()[0])
        machine.check()


def test_what_cannot_be_asked_for_leaves_no_run_and_no_place_taken(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        for _ in range(3):
            with pytest.raises(Refusal, match="no model 'other'"):
                await runs_of(host.manager, "a").start(RunRequest(question="?", model="other"))
            with pytest.raises(Refusal, match="conversation"):
                await runs_of(host.manager, "a").start(RunRequest(question="?", session="20200101"))
            with pytest.raises(Refusal, match="Picture 1"):
                await runs_of(host.manager, "a").start(
                    RunRequest(question="?", images=(_base64(b"no picture"),))
                )
        assert host.manager.running == 0
        assert answering.store.ids() == []

    hosted(answering, work, ServerOptions(client_runs=1))


def test_a_follow_up_knows_what_was_said(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        first = await host.start(ASKED)
        await until(lambda: host.manager.running == 0)
        second = await host.start(RunRequest(question="And in 2023?", session=first.session))
        await until(lambda: host.manager.running == 0)
        third = await host.start(RunRequest(question="And before?", session=second.session))
        started = (await events_of(host, third.id))[0]
        assert isinstance(started, RunStarted)
        assert started.history == (
            PreviousTurn(ASKED.question, "48,200"),
            PreviousTurn("And in 2023?", "48,200"),
        )
        assert first.session == second.session == third.session == first.id
        of_session = await host.summaries(RunQuery(limit=2, session=first.id))
        assert [run.id for run in of_session.runs] == [third.id, second.id]
        assert of_session.more

    hosted(answering, work)


def test_a_follow_up_waits_for_the_answer_before_it(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        first = await host.start(ASKED)
        with pytest.raises(Refusal) as refused:
            await host.start(RunRequest(question="And?", session=first.id))
        assert refused.value.status == 409

    hosted(answering, work)


def test_a_picture_that_comes_with_a_question_reaches_the_model(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        run = await host.start(RunRequest(question="What is this?", images=(_base64(_png()),)))
        started = (await events_of(host, run.id))[0]
        assert isinstance(started, RunStarted)
        assert len(started.attached) == 1
        picture = await host.picture(run.id, started.attached[0])
        assert picture is not None
        assert picture.startswith(b"\xff\xd8")

    hosted(answering, work)


def test_runs_are_listed_the_newest_first_page_by_page(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        ids: list[str] = []
        for _ in range(5):
            ids.append((await host.start(ASKED)).id)
            await until(lambda: host.manager.running == 0)
        seen: list[str] = []
        before, more = "", True
        while more:
            listed = await host.summaries(RunQuery(limit=2, before=before))
            seen += [run.id for run in listed.runs]
            before, more = listed.next, listed.more
        assert seen == ids[::-1]

    hosted(answering, work)


def test_a_stopping_host_takes_nothing_more_lets_runs_end_and_stops_the_rest(answering: Scripted) -> None:
    async def whole() -> None:
        host = runs_of(RunManager(answering))
        run = (await host.start(ASKED)).id
        follower = asyncio.ensure_future(events_of(host, run))
        await asyncio.sleep(0.02)
        closing = asyncio.ensure_future(host.manager.close(0.1))
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal) as refused:
            await host.start(ASKED)
        assert refused.value.status == 503
        assert int(refused.value.response().headers["retry-after"]) > 1
        await closing
        end = (await follower)[-1]
        assert isinstance(end, AnswerGiven)
        assert end.stop_reason is StopReason.CANCELLED
        assert answering.store.outline(run).end == end

    asyncio.run(whole())


def test_a_failure_of_the_model_is_the_end_of_the_run(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.fault = ModelError("The model is away.")
        answering.policy.go.set()
        run = await host.start(ASKED)
        end = (await events_of(host, run.id))[-1]
        assert isinstance(end, RunFailed)
        assert (await host.detail(run.id)).failure == "The model is away."

    hosted(answering, work)


def test_a_fault_of_the_program_is_told_now_and_later(
    answering: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.fault = ZeroDivisionError("secret detail")
        answering.policy.go.set()
        run = await host.start(ASKED)
        end = (await events_of(host, run.id))[-1]
        assert isinstance(end, RunFailed)
        assert "secret" not in end.message
        await until(lambda: host.manager.running == 0)
        detail = await host.detail(run.id)
        assert (detail.state, detail.stop_reason) == (RunState.FINISHED, StopReason.FAULT)
        assert (await events_of(host, run.id))[-1] == end

    hosted(answering, work)
    faults = [getattr(record, "fault", None) for record in caplog.records]
    assert answering.policy.fault in faults  # of which the server's log has the trace


def test_an_observer_that_fails_keeps_nothing_from_anybody(
    answering: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError(event.type)

    async def whole() -> None:
        host = runs_of(RunManager(answering, observers=(broken, seen.append)))
        answering.policy.go.set()
        run = await host.start(ASKED)
        told = await events_of(host, run.id)
        assert seen == told
        await host.manager.close(5)

    asyncio.run(whole())
    assert "observer" in caplog.text


@pytest.mark.parametrize("run", ["20200101-000000-000000-0000", "2026", "-", "0" * 40])
def test_a_run_that_is_not_there_is_not_found(answering: Scripted, run: str) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        await host.start(ASKED)
        await until(lambda: host.manager.running == 0)
        for ask in (host.detail(run), host.cancel(run), host.stored(run), events_of(host, run)):
            with pytest.raises(Refusal) as refused:
                await ask
            assert refused.value.status == 404

    hosted(answering, work)


KILLED = """
    import asyncio, sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from hosting import Scripted, runs_of
    from vrag.server.runs.run_manager import RunManager
    from vrag.server.runs.schema import RunRequest

    async def main():
        answering = Scripted(Path({runs!r}))
        answering.policy.go.set()
        host = runs_of(RunManager(answering))
        done = await host.start(RunRequest(question="First?"))
        async for _ in host.follow(done.id):
            pass
        while host.manager.running:
            await asyncio.sleep(0.01)
        answering.policy.go.clear()
        going = await host.start(RunRequest(question="Second?"))
        print(done.id, going.id, flush=True)
        await asyncio.sleep(60)

    asyncio.run(main())
"""


@pytest.mark.slow
def test_after_a_kill_finished_runs_are_whole_and_the_others_are_marked(tmp_path: Path) -> None:
    program = textwrap.dedent(KILLED).format(tests=str(Path(__file__).parents[1]), runs=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        done, going = process.stdout.readline().split()
        answering = Scripted(tmp_path)

        async def states() -> list[tuple[str, RunState, str | None]]:
            host = runs_of(RunManager(answering))
            listed = await host.summaries()
            await host.manager.close(1)
            return [(run.id, run.state, run.answer) for run in listed.runs]

        alive = asyncio.run(states())
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert alive == [(going, RunState.RUNNING, None), (done, RunState.FINISHED, "48,200")]
        assert asyncio.run(states()) == [
            (going, RunState.INTERRUPTED, None),
            (done, RunState.FINISHED, "48,200"),
        ]


def test_a_run_of_another_process_is_followed_to_its_end(tmp_path: Path) -> None:
    answering = Scripted(tmp_path, PacedPolicy((SEARCH, ANSWER)))
    answering.policy.go.set()
    agent = answering.agent(_choice())
    events = list(agent.stream("How many?", run_id="20260101-000000-000000-aaaa"))

    async def whole() -> list[Event]:
        host = runs_of(RunManager(answering))
        try:
            with RunStore(tmp_path).record() as recording:
                named = [event.model_copy(update={"run_id": recording.id}) for event in events]
                for event in named[:3]:
                    recording.write(event)
                following = asyncio.ensure_future(events_of(host, recording.id))
                await asyncio.sleep(0.2)
                assert (await host.detail(recording.id)).state is RunState.RUNNING
                with pytest.raises(Refusal, match="Another process"):
                    await host.cancel(recording.id)
                for event in named[3:]:
                    recording.write(event)
            return await following
        finally:
            await host.manager.close(1)

    followed = asyncio.run(whole())
    assert [event.seq for event in followed] == list(range(len(events)))


def test_a_full_disk_ends_the_run_and_is_told(answering: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    async def work(host: UserRuns) -> None:
        run = await host.start(ASKED)
        monkeypatch.setattr("vrag.agent.runs.recorder.append", refuse)
        answering.policy.go.set()
        end = (await events_of(host, run.id))[-1]
        monkeypatch.undo()
        assert isinstance(end, RunFailed)
        assert end.message == "The run could not be recorded: No space left on device."
        assert end.stop_reason is StopReason.FAULT

    hosted(answering, work)


def test_the_choice_of_a_request_reaches_whoever_opens_agents(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        asked = RunRequest(question="?", agent="vimrag", max_steps=3, top_k=2, documents=("b", "a"))
        await host.start(asked)
        await host.start(asked.model_copy(update={"question": "another?"}))
        choice, same = answering.choices
        assert choice == same, "whoever opens agents can tell that they are alike"
        assert hash(choice) == hash(same)
        assert (choice.agent, choice.max_steps, choice.top_k) == ("vimrag", 3, 2)
        assert choice.documents == frozenset("ab")

    hosted(answering, work)


def test_streams_are_told_of_the_end_of_runs_that_the_server_stops(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        run = (await host.start(ASKED)).id
        watching = asyncio.ensure_future(events_of(host, run))
        await asyncio.sleep(0)
        await host.manager.finish(0.1)
        end = (await watching)[-1]
        assert isinstance(end, AnswerGiven)
        assert end.stop_reason is StopReason.CANCELLED
        assert (await host.detail(run)).state is RunState.FINISHED, "it still tells"

    hosted(answering, work)


def _choice():  # noqa: ANN202
    from vrag.server.runs.schema import AgentSelection

    return AgentSelection()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(file, "PNG")
    return file.getvalue()
