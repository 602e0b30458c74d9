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
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosting import ANSWER, SEARCH, PacedPolicy, Scripted, runs_of
from PIL import Image

from vrag.agent.events import AnswerGiven, RunFailed, RunStarted, StopReason
from vrag.agent.question import PreviousTurn
from vrag.agent.runs.run_store import RunState, RunStore
from vrag.errors import ModelError
from vrag.server.http.errors import Refusal
from vrag.server.options import ServerOptions
from vrag.server.runs.history import RunHistory
from vrag.server.runs.run_manager import RunManager
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


async def events_of(host: UserRuns, run: str, after: int = -1) -> list[Event]:
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


def test_a_client_may_have_so_many_runs_and_all_together_so_many(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        for _ in range(2):
            await runs_of(host.manager, "a").start(ASKED)
        with pytest.raises(Refusal) as mine:
            await runs_of(host.manager, "a").start(ASKED)
        await runs_of(host.manager, "b").start(ASKED)
        with pytest.raises(Refusal) as ours:
            await runs_of(host.manager, "c").start(ASKED)
        assert (mine.value.status, ours.value.status) == (429, 503)
        assert all(int(error.value.response().headers["retry-after"]) > 1 for error in (mine, ours))
        answering.policy.go.set()
        await until(lambda: host.manager.running == 0)
        assert (await runs_of(host.manager, "a").start(ASKED)).state is RunState.RUNNING

    hosted(answering, work, ServerOptions(runs=3, client_runs=2))


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
