"""The loop that both methods share: how runs end, are stopped, and keep out of each other's way."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Generator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from agent_scripts import (
    QUESTION,
    VRAG,
    WAYS,
    Watching,
    Way,
    environment,
    events_of,
    memorizes,
    note,
    of,
    searches,
    way_name,
)

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.events import (
    AnswerGiven,
    Event,
    ImageShown,
    ModelCalled,
    ModelRetried,
    RunFailed,
    RunStarted,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
    event_from_json,
)
from vrag.agent.policy import Delta, FinishReason, Reply, Retry
from vrag.agent.runs.replay import differences
from vrag.agent.runs.run_result import RunResult
from vrag.errors import (
    CollectionError,
    ContextTooLong,
    CorpusError,
    EmbedError,
    MissingExtra,
    ModelError,
    RunError,
    SearchError,
)
from vrag.testing import MemorySearcher, ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from vrag.agent.policy import Message
    from vrag.types import Hit, Item, Query

both = pytest.mark.parametrize("way", WAYS, ids=way_name)


def agent(way: Way, *replies: str | Exception, limits: Limits | None = None) -> Agent:
    return Agent(ScriptedPolicy(replies or way.script()), environment(), way.method, limits)


def end_of(events: Sequence[Event]) -> AnswerGiven:
    assert isinstance(events[-1], AnswerGiven), events[-1]
    return events[-1]


def reason_of(events: Sequence[Event]) -> StopReason:
    """Why a run ended; it must have ended once, and said nothing after."""
    last = events[-1]
    assert isinstance(last, AnswerGiven | RunFailed), last
    assert len(of(AnswerGiven, events)) + len(of(RunFailed, events)) == 1
    assert [event.seq for event in events] == list(range(len(events)))
    return last.stop_reason


# Events


@both
def test_sequence_numbers_have_no_gaps_and_events_survive_json(way: Way) -> None:
    events = list(agent(way, way.search("ferry"), "nonsense", way.answer("48,200")).stream(QUESTION))
    assert reason_of(events) is StopReason.ANSWERED
    assert [event_from_json(event.model_dump_json()) for event in events] == events


@both
def test_the_first_event_says_all_that_a_replay_must_know(way: Way) -> None:
    first = next(iter(agent(way, limits=Limits(steps=4, seconds=20.0)).stream(f" {QUESTION} ")))
    assert isinstance(first, RunStarted)
    assert (first.question, first.collection) == (QUESTION, "memory")
    assert (first.settings.agent, first.settings.limits.steps) == (way.method.name, 4)


@both
def test_thought_deltas_add_up_to_the_thought(way: Way) -> None:
    reply = way.search("ferry").replace("Look.", "The ferry, \nthen.").replace("So.", "The ferry, \nthen.")
    events = list(agent(way, reply, way.answer("x")).stream("?"))
    deltas = [event.text for event in of(ThoughtDelta, events) if event.step == 1]
    assert len(deltas) > 1
    assert "".join(deltas).strip() == of(ThoughtGiven, events)[0].text == "The ferry, \nthen."


@dataclass
class Faltering:
    """Fails twice in mid-reply before it says what it has to say."""

    replies: Sequence[str]
    name: str = "faltering"
    sampling: dict[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        yield Delta("<think>one try")
        yield Retry("The connection was cut.", 0.1)
        yield Delta("<think>anoth")
        yield Retry("The server is busy.", 0.2)
        yield Delta(self.replies[turn - 1])
        yield Reply(self.replies[turn - 1])

    async def aclose(self) -> None:
        pass


@both
def test_a_call_that_is_made_again_begins_its_thought_again(way: Way) -> None:
    events = list(Agent(Faltering(way.script()), environment(), way.method).stream("?"))
    first = [event for event in events if event.step == 1]
    kinds = [type(event) for event in first[:6]]
    assert kinds == [ThoughtDelta, ModelRetried, ThoughtDelta, ModelRetried, ThoughtDelta, ModelCalled]
    assert [event.partial for event in of(ModelRetried, first)] == ["<think>one try", "<think>anoth"]
    after = [event.text for event in of(ThoughtDelta, first)][2:]
    assert "".join(after) == of(ThoughtGiven, first)[0].text
    assert reason_of(events) is StopReason.ANSWERED


@both
def test_a_reply_without_a_thought_is_carried_out_and_flagged(way: Way) -> None:
    script = [reply[reply.index("</think>") + 8 :] for reply in way.script()]
    events = list(agent(way, *script).stream("?"))
    assert reason_of(events) is StopReason.ANSWERED
    assert [call.flags for call in of(ModelCalled, events)] == [("no_thought",)] * 2
    assert not of(ThoughtGiven, events)


@both
def test_an_action_inside_a_thought_does_not_run(way: Way) -> None:
    searcher = tiny_corpus()
    search, answer = (reply[reply.index("</think>") + 8 :] for reply in way.script())
    policy = ScriptedPolicy((f"<think>maybe {search} or not</think>{answer}",))
    run = Agent(policy, environment(searcher), way.method).run("?")
    assert (run.answer, searcher.queries) == ("48,200", [])


@both
def test_what_follows_an_action_is_neither_run_nor_told_to_the_model(way: Way) -> None:
    search, answer = way.script()
    events, policy = events_of(way.method, search + way.answer("guess"), answer)
    called = of(ModelCalled, events)[0]
    assert called.reply[: called.executed] == search
    assert called.flags == ("trailing_text",)
    assert "guess" not in policy.text(1)
    assert end_of(events).text == "48,200"


# Ends


@both
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelError("The endpoint does not answer."), StopReason.MODEL_ERROR),
        (ContextTooLong("The prompt has 40,000 tokens."), StopReason.OUT_OF_TOKENS),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_failing_model_is_an_event_and_not_an_exception(
    way: Way, error: ModelError, reason: StopReason, after: int
) -> None:
    events = list(agent(way, *way.script()[:after], error).stream("?"))
    assert reason_of(events) is reason
    assert (RunResult.of(events).failure or "").startswith(str(error))


@both
def test_a_policy_that_ends_without_a_reply_is_an_error_of_the_model(way: Way) -> None:
    class Silent(Faltering):
        async def reply(
            self, history: Sequence[Message], turn: int = 1
        ) -> AsyncGenerator[Delta | Retry | Reply, None]:
            yield Delta("<think>")

    events = list(Agent(Silent(()), environment(), way.method).stream("?"))
    assert reason_of(events) is StopReason.MODEL_ERROR


@both
@pytest.mark.parametrize(
    "error",
    [
        SearchError("The index is gone."),
        CollectionError("The disk is gone."),
        CorpusError("It cannot be read."),
        MissingExtra("av", "video"),
    ],
)
def test_a_failing_search_is_an_event_and_not_an_exception(way: Way, error: Exception) -> None:
    class Broken(MemorySearcher):
        def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
            raise error

    events, _ = events_of(way.method, *way.script(), where=environment(Broken(())))
    assert reason_of(events) is StopReason.SEARCH_ERROR
    assert (RunResult.of(events).failure or "").startswith(str(error))


@both
def test_a_collection_that_cannot_be_opened_at_all_is_an_event_too(way: Way) -> None:
    class Gone:
        @property
        def version(self) -> str:
            raise CollectionError("There is nothing there.")

    where = environment()
    broken: Any = Gone()
    events, _ = events_of(way.method, *way.script(), where=type(where)(broken, where.profile))
    assert [type(event) for event in events] == [RunStarted, RunFailed]
    assert reason_of(events) is StopReason.SEARCH_ERROR
    assert RunResult.of(events).failure == "There is nothing there."


@both
def test_the_step_limit_counts_every_call_and_is_announced(way: Way) -> None:
    files: dict[str, bytes] = {}
    events = list(
        agent(way, *["<think>x</think>"] * 9, limits=Limits(steps=3)).stream("?", save=files.__setitem__)
    )
    assert reason_of(events) is StopReason.OUT_OF_STEPS
    calls = of(ModelCalled, events)
    last_turn = [any(b"This is the last turn" in files[f"{name}.json"] for name in c.messages) for c in calls]
    assert last_turn == [False, False, True]


@both
def test_without_limits_a_run_has_the_steps_of_its_method(way: Way) -> None:
    events = list(agent(way, *["x"] * 99).stream("?"))
    assert len(of(ModelCalled, events)) == way.method.steps


class CutOff(Faltering):
    """Runs out of tokens in every reply."""

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        yield Reply(self.replies[turn - 1], FinishReason.LENGTH)


@both
@pytest.mark.parametrize("reply", ["x", "<think>", "<think>So.</think>"])
def test_a_reply_that_was_cut_off_before_its_action_ends_the_run(way: Way, reply: str) -> None:
    events = list(Agent(CutOff((reply,)), environment(), way.method).stream("?"))
    assert reason_of(events) is StopReason.OUT_OF_TOKENS


@both
def test_a_reply_that_was_cut_off_after_its_action_is_carried_out(way: Way) -> None:
    events = list(Agent(CutOff(way.script()), environment(), way.method).stream("?"))
    assert reason_of(events) is StopReason.ANSWERED


@both
@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question_is_refused(way: Way, question: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        agent(way).run(question)


# Stopping


@dataclass
class Hanging:
    """Begins a reply and never ends it; tells when it is closed."""

    closed: threading.Event = field(default_factory=threading.Event)
    name: str = "hanging"
    sampling: dict[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        try:
            yield Delta("<think>so")
            await asyncio.sleep(3600)
        finally:
            self.closed.set()

    async def aclose(self) -> None:
        pass


async def until(agent: Agent, kind: type[Event] | None, number: int = 0) -> list[Event]:
    """The events of a run that is cancelled at the nth event, or at the first of a kind."""
    cancel, seen = asyncio.Event(), list[Event]()
    async with asyncio.timeout(20):
        async for event in agent.astream("?", cancel=cancel):
            seen.append(event)
            if isinstance(event, kind) if kind else len(seen) > number:
                cancel.set()
    return seen


@both
def test_a_run_can_be_cancelled_at_every_event(way: Way) -> None:
    script = way.search("ferry"), "hm", way.answer("48,200")
    whole = list(agent(way, *script).stream("?"))
    assert len(whole) > 10
    for number in range(len(whole)):
        events = asyncio.run(until(agent(way, *script), None, number))
        reasons = (
            {StopReason.CANCELLED, StopReason.ANSWERED} if number > len(whole) - 4 else {StopReason.CANCELLED}
        )
        assert reason_of(events) in reasons, number


@both
def test_a_run_that_is_cancelled_before_it_begins_asks_nothing(way: Way) -> None:
    async def run() -> tuple[list[Event], Watching]:
        cancel, policy = asyncio.Event(), Watching(way.script())
        cancel.set()
        where = Agent(policy, environment(), way.method)
        return [event async for event in where.astream("?", cancel=cancel)], policy

    events, policy = asyncio.run(run())
    assert reason_of(events) is StopReason.CANCELLED
    assert policy.told == []


@both
def test_a_model_that_hangs_can_be_cancelled_and_its_stream_is_closed(way: Way) -> None:
    policy = Hanging()
    events = asyncio.run(until(Agent(policy, environment(), way.method), ThoughtDelta))
    assert reason_of(events) is StopReason.CANCELLED
    assert policy.closed.is_set()


@both
def test_an_abandoned_run_closes_the_stream_of_the_model(way: Way) -> None:
    async def abandon(policy: Hanging) -> None:
        async with aclosing(Agent(policy, environment(), way.method).astream("?")) as events:
            async for event in events:
                if isinstance(event, ThoughtDelta):
                    return

    policy = Hanging()
    asyncio.run(asyncio.wait_for(abandon(policy), 20))
    assert policy.closed.is_set()


@dataclass(frozen=True, slots=True)
class Slow(MemorySearcher):
    """Its second search waits until it is let go."""

    go: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        found = MemorySearcher.search(self, queries, top_k)
        if len(self.queries) > 1:
            assert self.go.wait(30)
        return found

    def item(self, id: str) -> Item:
        if len(self.queries) > 1 and threading.current_thread() is not threading.main_thread():
            self.go.set()
            time.sleep(0.05)
        return MemorySearcher.item(self, id)


def slow_script(way: Way) -> tuple[str, ...]:
    keep = memorizes(note("Text 1", 0), note("Picture 1", 5), note("Picture 2", 2))
    if way is VRAG:
        return way.search("ferry passengers"), way.search("prices tickets")
    return way.search("ferry passengers"), keep, searches("more", "prices tickets")


@both
def test_a_search_that_hangs_can_be_cancelled(way: Way) -> None:
    searcher = Slow(tiny_corpus().items)

    async def run() -> tuple[list[Event], float]:
        cancel, seen = asyncio.Event(), list[Event]()
        stopped = 0.0
        where = Agent(ScriptedPolicy(slow_script(way)), environment(searcher), way.method)
        async for event in where.astream("?", cancel=cancel):
            seen.append(event)
            if len(of(SearchRequested, seen)) == 2:
                asyncio.get_running_loop().call_later(0.1, cancel.set)
                stopped = time.monotonic()
        took = time.monotonic() - stopped
        searcher.go.set()  # the thread is at an end before the test is
        return seen, took

    events, took = asyncio.run(run())
    assert reason_of(events) is StopReason.CANCELLED
    assert took < 10
    assert len(of(SearchReturned, events)) == 1


@both
def test_what_a_search_finds_after_the_time_was_up_is_not_told(way: Way) -> None:
    """Checking the evidence lets the hanging search go on: it then tells of itself in the same run."""
    searcher = Slow(tiny_corpus().items)
    where = Agent(ScriptedPolicy(slow_script(way)), environment(searcher), way.method, Limits(seconds=1.5))
    events = list(where.stream("?"))
    assert searcher.go.is_set()
    assert reason_of(events) is StopReason.OUT_OF_BUDGET
    assert len(of(SearchReturned, events)) == 1
    assert [evidence.page for evidence in end_of(events).evidence][:1] == [2]


@both
def test_a_run_ends_when_its_seconds_are_used_up_even_if_the_model_hangs(way: Way) -> None:
    policy = Hanging()
    began = time.monotonic()
    events = list(Agent(policy, environment(), way.method, Limits(seconds=0.2)).stream("?"))
    assert reason_of(events) is StopReason.OUT_OF_BUDGET
    assert time.monotonic() - began < 10
    assert policy.closed.is_set()


# Many runs, and no state between them


@pytest.mark.slow
@both
def test_one_agent_serves_many_questions_at_once(way: Way) -> None:
    shared = agent(way, way.search("ferry passengers"), "hm", way.answer("48,200"))

    async def many() -> list[RunResult]:
        return await asyncio.gather(*(shared.arun(f"question {number}") for number in range(24)))

    runs = asyncio.run(many())
    assert [run.question for run in runs] == [f"question {number}" for number in range(24)]
    assert {run.evidence for run in runs} == {runs[0].evidence}
    assert len({run.run_id for run in runs}) == 24


@both
def test_a_run_leaves_nothing_on_the_agent(way: Way) -> None:
    """What was shown, remembered and asked before is new again for the next run."""
    used = agent(way, way.search("ferry passengers"), "hm", way.answer("48,200"))
    before = repr(used.settings), hash((used.policy.name, way.method))
    list(used.stream("Another question?"))
    events = list(used.stream(QUESTION))
    fresh = list(agent(way, way.search("ferry passengers"), "hm", way.answer("48,200")).stream(QUESTION))
    assert differences(events, fresh) == []
    assert (repr(used.settings), hash((used.policy.name, way.method))) == before
    with pytest.raises(AttributeError):
        used.policy = ScriptedPolicy(())  # pyright: ignore[reportAttributeAccessIssue]


@both
def test_stream_works_inside_a_running_event_loop(way: Way) -> None:
    async def inside() -> list[Event]:
        return list(agent(way).stream("?"))

    assert reason_of(asyncio.run(inside())) is StopReason.ANSWERED


@both
def test_an_abandoned_stream_leaves_no_thread_behind(way: Way) -> None:
    stream = agent(way).stream("?")
    next(stream)
    assert isinstance(stream, Generator)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("vrag-run")]


# Items and servers that are gone


@dataclass(frozen=True, slots=True)
class Vanishing(MemorySearcher):
    """Some items were found and are gone when they are opened."""

    gone: set[str] = field(default_factory=set[str])
    error: type[SearchError | CollectionError] = SearchError

    def item(self, id: str) -> Item:
        if id in self.gone:
            raise self.error(f"There is no item {id!r}.")
        return MemorySearcher.item(self, id)


@both
@pytest.mark.parametrize("error", [SearchError, CollectionError])
def test_an_item_that_is_gone_is_told_and_the_others_are_shown(
    way: Way, error: type[SearchError | CollectionError]
) -> None:
    items = tiny_corpus().items
    searcher = Vanishing(items, gone={items[1].id}, error=error)
    events, _ = events_of(way.method, *way.script(), where=environment(searcher))
    (returned,) = of(SearchReturned, events)
    assert returned.damaged == (f"There is no item {items[1].id!r}.",)
    assert [shown.item for shown in of(ImageShown, events)] == [items[0].id]
    assert reason_of(events) is StopReason.ANSWERED


@both
def test_an_answer_stands_when_what_it_rests_on_was_deleted_meanwhile(way: Way) -> None:
    searcher = Vanishing(tiny_corpus().items)
    events: list[Event] = []
    for event in Agent(ScriptedPolicy(way.script()), environment(searcher), way.method).stream("?"):
        events.append(event)
        if isinstance(event, UsageReported):
            searcher.gone.update(item.id for item in searcher.items)
    end = end_of(events)
    assert (end.text, end.stop_reason, end.evidence) == ("48,200", StopReason.ANSWERED, ())


@both
def test_all_items_gone_is_a_search_that_shows_nothing(way: Way) -> None:
    searcher = Vanishing(tiny_corpus().items, gone={item.id for item in tiny_corpus().items})
    events, _ = events_of(way.method, *way.script(), where=environment(searcher))
    assert len(of(SearchReturned, events)[0].damaged) == 3
    assert not of(ImageShown, events)
    assert reason_of(events) is StopReason.ANSWERED


# Faults of the program


@dataclass(frozen=True)
class FailingSearcher(MemorySearcher):
    """A searcher that fails when it is asked."""

    error: Exception = field(default_factory=ZeroDivisionError)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        raise self.error


@both
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("a secret"), "This is a fault of vrag: ZeroDivisionError in test_loop.py, line "),
        (IndexError("a secret"), "This is a fault of vrag: IndexError in test_loop.py, line "),
        (FileNotFoundError(errno.ENOENT, "No such file", "secret"), "This is a fault of vrag: FileNotFound"),
        (EmbedError("There is no device."), "There is no device."),
    ],
)
def test_a_fault_of_the_program_is_the_reason_of_a_failed_run(
    way: Way, error: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    events, _ = events_of(way.method, *way.script(), where=environment(FailingSearcher((), error=error)))

    failed = events[-1]
    assert isinstance(failed, RunFailed)
    assert reason_of(events) is StopReason.FAULT
    assert failed.boundary == type(error).__name__
    assert failed.message.startswith(message)
    assert "secret" not in failed.message + caplog.text


@both
@pytest.mark.parametrize("error", [MemoryError(), RunError("It cannot be written.")])
def test_a_refusal_of_memory_or_of_the_disk_with_the_run_is_raised(way: Way, error: Exception) -> None:
    with pytest.raises(type(error)):
        events_of(way.method, *way.script(), where=environment(FailingSearcher((), error=error)))


def test_what_could_not_be_read_is_told_with_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise IndexError

    monkeypatch.setattr("vrag.agent.answers.support.support_answer", fail)
    events, _ = events_of(VRAG.method, *VRAG.script())

    end = end_of(events)
    assert end.text is not None
    assert end.evidence
    assert end.unsupported == ("The places that the answer rests on could not be found.",)
