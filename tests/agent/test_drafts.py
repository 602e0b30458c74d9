"""The answer of a run while the model writes it: its text, what it rests on, and when it does not count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agent_scripts import VIMRAG, VRAG, Way, answers, environment, of, way_name
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_events import read_events, write_events

from vrag.agent.agent import Agent
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.budget import Limits
from vrag.agent.events import (
    AnswerCited,
    AnswerDelta,
    AnswerDoubted,
    AnswerGiven,
    DraftMode,
    Event,
    InvalidAction,
    ModelCalled,
    ModelFailed,
    ModelRetried,
    RunFailed,
    ThoughtDelta,
)
from vrag.agent.method import Method
from vrag.agent.methods.baselines import Rag, React
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Delta, Message, Reply, Retry
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunStore
from vrag.errors import ModelError
from vrag.testing import MemorySearcher, ScriptedPolicy, page

CORPUS = MemorySearcher(
    (
        page("fares.pdf", 1, "Ferry report\nThe ferry carried 48,200 passengers in 2023.\nIt left at nine."),
        page("trams.pdf", 1, "Tram report about the ferry\nThe tram carried 91,000 passengers in 2023."),
    )
)
QUESTION = "How many passengers did the ferry carry?"
ANSWER = (
    "The ferry carried 48,200 passengers in 2023 [1]. According to [2], the tram carried 91,000 passengers. "
    "It left at nine [1]."
)
REACT = Way(React(), VRAG.search, VRAG.answer, VRAG.extend)
RAG = Way(Rag(), VRAG.search, VRAG.answer, VRAG.extend)
ALL = (VRAG, VIMRAG, REACT, RAG)


def script(way: Way, answer: str) -> tuple[str, ...]:
    if way is RAG:
        return (way.answer(answer),)
    if way is VIMRAG:
        return way.search("ferry"), answers("found", text=answer)
    return way.search("ferry"), way.answer(answer)


@dataclass(frozen=True)
class Pieces:
    """A policy whose replies come in given pieces; an exception is raised where it stands."""

    replies: tuple[tuple[str | Exception | Retry, ...], ...]
    name: str = "pieces"

    @property
    def sampling(self) -> dict[str, float | int | str | bool]:
        return {}

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        del history
        said: list[str] = []
        for piece in self.replies[turn - 1]:
            match piece:
                case str():
                    said.append(piece)
                    yield Delta(piece)
                case Retry():
                    said.clear()
                    yield piece
                case error:
                    raise error
        yield Reply("".join(said))

    async def aclose(self) -> None:
        pass


def agent_of(
    method: Method, *replies: str | Exception, piece: int = 5, draft: DraftMode = DraftMode.CITED
) -> Agent:
    policy = ScriptedPolicy(replies, piece=piece)
    return Agent(policy, environment(CORPUS, show=2), method, Limits(steps=max(method.steps, 1)), draft=draft)


def run(way: Way, answer: str, **options: Any) -> list[Event]:  # noqa: ANN401
    return list(agent_of(way.method, *script(way, answer), **options).stream(QUESTION))


def draft_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in of(AnswerDelta, events))


@pytest.mark.parametrize("way", ALL, ids=way_name)
def test_the_answer_comes_as_it_is_written_without_markers(way: Way) -> None:
    events = run(way, ANSWER)
    end = of(AnswerGiven, events)[0]
    assert end.text is not None
    assert way is VIMRAG or "According to trams.pdf, page 1, the tram" in end.text
    assert draft_of(events) == end.text
    assert len(of(AnswerDelta, events)) > 10
    assert events.index(of(AnswerDelta, events)[0]) < events.index(of(ModelCalled, events)[-1])


MARKED = st.lists(
    st.sampled_from(
        [
            *(
                "It rose",
                " to 5 %",
                ". ",
                "\n",
                " [1]",
                " [2]",
                "[1, 2]",
                "【1†source】",
                "According to [2], ",
                " [9]",
            ),
            *(
                "(see image 1)",
                "- ",
                "[0, 5]",
                " and ",
                ", ",
                "Sources:\n",
                "[1] fares\n",
                "$5 ",
                "`a[1]`",
                "Not",
            ),
            *(" answerable", ".", "a < b", '"', "\\", "ü", "<b>"),
        ]
    ),
    min_size=1,
    max_size=9,
).map("".join)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(MARKED, st.integers(1, 9), st.sampled_from(ALL))
def test_what_was_given_out_is_the_beginning_of_the_answer_that_stands(
    text: str, piece: int, way: Way
) -> None:
    events = run(way, text, piece=piece)
    end = events[-1]
    if isinstance(end, AnswerGiven) and end.text is not None:
        draft = "".join(event.text for event in of(AnswerDelta, events) if event.step == end.step)
        assert draft == end.text
    elif isinstance(end, AnswerGiven) and not of(InvalidAction, events):
        assert draft_of(events) == ""  # it abstains


def test_a_piece_says_that_the_model_cites_something_before_it() -> None:
    events = run(VRAG, "It rose [1] and fell [2]. Then it stood.", piece=3)
    text, places = "", list[int]()
    for event in of(AnswerDelta, events):
        if event.follows_marker:
            places.append(len(text))
        text += event.text
    assert [text[:place] for place in places] == ["It rose", "It rose and fell"]


def test_the_result_of_a_run_holds_the_draft_until_it_is_given_or_does_not_count() -> None:
    replies = (VRAG.search("ferry"), "<answer>84 <search>x</search></answer>", VRAG.answer(ANSWER))
    result, drafts = RunResult(), list[str]()
    for event in agent_of(VRAG.method, *replies).stream(QUESTION):
        result = result.plus(event)
        drafts.append(result.draft)
        assert not isinstance(event, InvalidAction) or result.draft == ""
    assert "84" in drafts
    assert result.answer in drafts
    assert result.draft == ""


def test_the_draft_of_a_step_ends_when_the_next_begins() -> None:
    draft = AnswerDelta(run_id="r", seq=1, ts=1.0, step=1, text="84")
    result = RunResult().plus(draft)
    assert result.draft == "84"
    assert result.plus(ThoughtDelta(run_id="r", seq=2, ts=2.0, step=1, text="x")).draft == "84"
    assert result.plus(ThoughtDelta(run_id="r", seq=2, ts=2.0, step=2, text="x")).draft == ""
    assert result.plus(AnswerDelta(run_id="r", seq=2, ts=2.0, step=2, text="7")).draft == "7"


class TestOfCitations:
    @pytest.mark.parametrize("way", ALL, ids=way_name)
    def test_each_sentence_is_cited_while_the_next_is_written(self, way: Way) -> None:
        events = run(way, ANSWER)
        cited = of(AnswerCited, events)
        end = of(AnswerGiven, events)[0]
        assert end.text is not None
        first = end.text.index(". ") + 1
        assert cited[0].length == first
        assert [(c.start, c.end, c.numbers) for c in cited[0].citations] == [(0, first - 1, (1,))]
        assert cited[0].evidence[0].document == "fares.pdf"
        deltas = [event for event in events[: events.index(cited[0])] if isinstance(event, AnswerDelta)]
        assert first < len(draft_of(deltas)) < len(end.text)
        assert len(of(AnswerCited, events)) <= end.text.count(". ")

    @pytest.mark.parametrize("way", ALL, ids=way_name)
    def test_the_numbers_are_those_of_the_answer(self, way: Way) -> None:
        events = run(way, ANSWER)
        last, end = of(AnswerCited, events)[-1], of(AnswerGiven, events)[0]
        assert end.citations[: len(last.citations)] == last.citations
        assert [entry.item for entry in last.evidence] == [
            entry.item for entry in end.evidence[: len(last.evidence)]
        ]

    def test_a_citation_of_the_wrong_page_is_corrected_as_in_the_answer(self) -> None:
        method = VragMethod(verify=VerifyMode.TELL)
        swapped = ANSWER.replace("[1]", "[3]").replace("[2]", "[1]").replace("[3]", "[2]")
        events = list(agent_of(method, *script(VRAG, swapped)).stream(QUESTION))
        cited = of(AnswerCited, events)[0]
        assert cited.evidence[0].document == "fares.pdf"
        assert cited.citations[0].source == "matched"

    def test_their_pictures_are_kept_with_the_run(self, tmp_path: Path) -> None:
        agent = agent_of(VRAG.method, *script(VRAG, ANSWER))
        store = RunStore(tmp_path)
        with store.record() as log:
            events = list(agent.record(QUESTION, log))
        for entry in of(AnswerCited, events)[0].evidence:
            assert entry.crop_sha256 is not None
            assert store.read_file(log.id, entry.crop_sha256)

    def test_nobody_is_told_where_only_the_text_is_followed(self) -> None:
        events = list(agent_of(VRAG.method, *script(VRAG, ANSWER), draft=DraftMode.TEXT).stream(QUESTION))
        assert draft_of(events)
        assert not of(AnswerCited, events)


def test_nothing_is_followed_unless_it_is_asked_for() -> None:
    agent = Agent(ScriptedPolicy(script(VRAG, ANSWER)), environment(CORPUS, show=2), VRAG.method)
    events = list(agent.stream(QUESTION))
    assert not of(AnswerDelta, events)
    assert not of(AnswerCited, events)


def test_an_answer_that_may_be_withdrawn_is_not_given_out_before_it_is_checked() -> None:
    method = VragMethod(verify=VerifyMode.WITHDRAW)
    events = list(agent_of(method, *script(VRAG, "The ferry carried 48,200 passengers.")).stream(QUESTION))
    assert of(AnswerGiven, events)[0].text
    assert not of(AnswerDelta, events)


def test_an_answer_in_doubt_is_given_out_and_written_anew() -> None:
    method = VragMethod(verify=VerifyMode.REPAIR)
    replies = (*script(VRAG, "The ferry carried 77,777 passengers in 2023."), VRAG.answer(ANSWER))
    events = list(agent_of(method, *replies).stream(QUESTION))
    doubted = events.index(of(AnswerDoubted, events)[0])
    assert draft_of(events[:doubted]) == "The ferry carried 77,777 passengers in 2023."
    assert draft_of(events[doubted:]) == of(AnswerGiven, events)[0].text


def test_the_draft_of_a_reply_that_is_refused_does_not_count() -> None:
    replies = (
        VRAG.search("ferry"),
        "<think>a</think><answer>84 <search>x</search></answer>",
        VRAG.answer("48,200"),
    )
    events = list(agent_of(VRAG.method, *replies, piece=2).stream(QUESTION))
    refused = events.index(of(InvalidAction, events)[0])
    assert draft_of(events[:refused]) == "84"
    assert draft_of(events[refused:]) == "48,200"


def recorded(tmp_path: Path, policy: object, method: Method) -> tuple[RunStore, str]:
    store = RunStore(tmp_path)
    agent = Agent(policy, environment(CORPUS, show=2), method, draft=DraftMode.CITED)  # pyright: ignore[reportArgumentType]
    with store.record() as log:
        list(agent.record(QUESTION, log))
    return store, log.id


class TestOfAReplay:
    @pytest.mark.slow
    @pytest.mark.parametrize("way", ALL, ids=way_name)
    @pytest.mark.parametrize("piece", [1, 7, 400])
    def test_it_has_the_same_events(self, way: Way, piece: int, tmp_path: Path) -> None:
        store, run = recorded(tmp_path, ScriptedPolicy(script(way, ANSWER), piece=piece), way.method)
        stored = store.read(run)
        assert differences(stored.events, list(replay(stored, CORPUS))) == []
        assert of(AnswerCited, stored.events) or piece == 400

    def test_failed_attempts_are_repeated(self, tmp_path: Path) -> None:
        answer = VRAG.answer(ANSWER)
        policy = Pieces(
            ((VRAG.search("ferry"),), (answer[:60], Retry("busy", 0.0), answer[:90], answer[90:]))
        )
        store, run = recorded(tmp_path, policy, VRAG.method)
        stored = store.read(run)
        retried = stored.events.index(of(ModelRetried, stored.events)[0])
        assert draft_of(stored.events[:retried])
        assert draft_of(stored.events[retried:]) == stored.result.answer
        assert differences(stored.events, list(replay(stored, CORPUS))) == []

    def test_a_call_that_failed_in_the_middle_of_its_answer_is_repeated(self, tmp_path: Path) -> None:
        answer = VRAG.answer(ANSWER)
        policy = Pieces(((VRAG.search("ferry"),), (answer[:60], answer[60:120], ModelError("gone"))))
        store, run = recorded(tmp_path, policy, VRAG.method)
        stored = store.read(run)
        failed = of(ModelFailed, stored.events)[0]
        assert (failed.partial, failed.chunks) == (answer[:120], (60, 60))
        assert isinstance(stored.events[-1], RunFailed)
        assert differences(stored.events, list(replay(stored, CORPUS))) == []

    def test_a_run_from_before_there_were_drafts_has_none_when_it_is_repeated(self, tmp_path: Path) -> None:
        store = RunStore(tmp_path)
        agent = Agent(ScriptedPolicy(script(VRAG, ANSWER)), environment(CORPUS, show=2), VRAG.method)
        with store.record() as log:
            list(agent.record(QUESTION, log))
        lines = read_events(store, log.id)
        first = json.loads(lines[0])
        first["schema_version"] = 2
        del first["settings"]["draft"]
        write_events(store, log.id, [json.dumps(first).encode(), *lines[1:]])
        stored = store.read(log.id)
        assert differences(stored.events, list(replay(stored, CORPUS))) == []


def test_a_run_that_is_stopped_in_its_answer_leaves_no_search_behind() -> None:
    async def stop_in_the_answer() -> list[Event]:
        cancel = asyncio.Event()
        events: list[Event] = []
        agent = agent_of(Vimrag(), *script(VIMRAG, ANSWER))
        async for event in agent.astream(QUESTION, cancel=cancel):
            events.append(event)
            if isinstance(event, AnswerDelta):
                cancel.set()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return events

    events = asyncio.run(stop_in_the_answer())
    assert isinstance(events[-1], AnswerGiven)
    assert events[-1].text is None
