"""Conversations of a server: one line of questions each, whoever asks, and however many at once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from hosting import Scripted
from test_run_host import ASKED, hosted, until

from vrag.agent.events import StopReason
from vrag.agent.runs.run_store import RunState
from vrag.server.http.errors import Refusal
from vrag.server.runs.schema import RunQuery, RunRequest

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.events import RunStarted
    from vrag.search.searcher import Searcher
    from vrag.server.runs.schema import RunSummary
    from vrag.server.runs.user_runs import UserRuns


@pytest.fixture
def answering(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path / "runs")


@dataclass
class SlowToTell:
    """A searcher that is in no hurry to say which version it is."""

    searcher: Searcher
    asked: threading.Event = field(default_factory=threading.Event)
    tells: threading.Event = field(default_factory=threading.Event)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.searcher, name)

    @property
    def version(self) -> str:
        self.asked.set()
        assert self.tells.wait(20)
        return self.searcher.version


async def ended(host: UserRuns, asked: RunRequest) -> RunSummary:
    run = await host.start(asked)
    await until(lambda: host.manager.running == 0)
    return run


def test_a_later_question_of_a_conversation_leads_to_all_of_it(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        first = await ended(host, ASKED)
        second = await ended(host, RunRequest(question="And in 2023?", session=first.id))
        third = await ended(host, RunRequest(question="And before?", session=second.id))
        assert third.session == first.id
        of_it = await host.summaries(RunQuery(session=first.id))
        assert ([run.id for run in of_it.runs], of_it.more) == ([third.id, second.id, first.id], False)

    hosted(answering, work)


def test_of_several_who_ask_further_at_once_one_does(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        first = await ended(host, ASKED)
        answering.policy.go.clear()
        further = RunRequest(question="And?", session=first.id)
        asked = await asyncio.gather(*(host.start(further) for _ in range(4)), return_exceptions=True)
        refused = [one for one in asked if isinstance(one, Refusal)]
        assert [one.status for one in refused] == [409] * 3
        answering.policy.go.set()
        await until(lambda: host.manager.running == 0)
        await ended(host, further)  # the place is free again

    hosted(answering, work)


def test_one_that_could_not_be_asked_further_can_be_later(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        answering.policy.go.set()
        first = await ended(host, ASKED)
        for _ in range(2):
            with pytest.raises(Refusal, match="no model"):
                await host.start(RunRequest(question="?", session=first.id, model="other"))
        await ended(host, RunRequest(question="?", session=first.id))

    hosted(answering, work)


def test_a_question_that_is_given_up_before_it_has_begun_is_stopped(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        slow = SlowToTell(answering.searcher)
        answering.searcher = cast("Searcher", slow)
        starting = asyncio.ensure_future(host.start(ASKED))
        await until(slow.asked.is_set)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        slow.tells.set()
        await until(lambda: host.manager.running == 0)
        [run] = answering.store.ids()
        assert answering.store.outline(run).stop_reason is StopReason.CANCELLED

    hosted(answering, work)


def test_nobody_who_looks_takes_another_who_looks_for_a_writer(answering: Scripted) -> None:
    async def work(host: UserRuns) -> None:
        with answering.store.record() as recording:
            event = (await _written(host, answering)).model_copy(update={"run_id": recording.id})
            recording.write(event)
        seen: Counter[RunState] = Counter()

        async def look() -> None:
            for _ in range(100):
                seen[(await host.detail(recording.id)).state] += 1

        await asyncio.gather(*(look() for _ in range(8)))
        assert seen == {RunState.INTERRUPTED: 800}

    hosted(answering, work)


async def _written(host: UserRuns, answering: Scripted) -> RunStarted:
    answering.policy.go.set()
    return answering.store.started((await ended(host, ASKED)).id)
