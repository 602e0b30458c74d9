"""The content of a streamed reply while the answer is written: it begins the content of the whole reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vrag.agent.agent import Agent
from vrag.agent.answers.citation import Citation
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerCited, AnswerDelta, AnswerGiven, DraftMode, Event, ModelRetried
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_result import RunResult
from vrag.model_profiles import PROFILES
from vrag.server.openai.draft_content import DraftContent
from vrag.server.openai.reply import CompletionReply, build_reply, plain_answer
from vrag.testing import MemorySearcher, ScriptedPolicy, page

if TYPE_CHECKING:
    from collections.abc import Sequence

URL = "http://127.0.0.1/#/runs/1"
CORPUS = MemorySearcher(
    (
        page("fares.pdf", 1, "Ferry report\nThe ferry carried 48,200 passengers in 2023.\nIt left at nine."),
        page("trams.pdf", 1, "Tram report about the ferry\nThe tram carried 91,000 passengers in 2023."),
    )
)
SEARCH = "<think>a</think><search>ferry</search>"
ANSWER = "The ferry carried 48,200 passengers in 2023 [1]. The tram carried 91,000 passengers [2]. It left."


def run(*answers: str, piece: int = 3, verify: VerifyMode = VerifyMode.TELL) -> list[Event]:
    environment = Environment(CORPUS, PROFILES["qwen2.5-vl"], EnvironmentOptions(show=2))
    replies = (SEARCH, *(f"<think>b</think><answer>{answer}</answer>" for answer in answers))
    policy = ScriptedPolicy(replies, piece=piece)
    agent = Agent(policy, environment, VragMethod(verify=verify), Limits(steps=4), draft=DraftMode.CITED)
    return list(agent.stream("How many passengers did the ferry carry?"))


def streamed(events: Sequence[Event]) -> list[str]:
    draft = DraftContent()
    pieces = [piece for event in events if (piece := draft.add(event))]
    assert "".join(pieces) == draft.sent
    return pieces


def reply_of(events: Sequence[Event]) -> CompletionReply:
    return build_reply("1", RunResult.of(events), URL)


def content_of(events: Sequence[Event]) -> str:
    """All content of the stream, whose annotations cover its markers."""
    sent = "".join(streamed(events))
    reply = reply_of(events).after(sent)
    for annotation in reply.annotations:
        place = annotation.url_citation
        assert reply.answer[place.start_index : place.end_index].strip("[]").isdecimal()
    return reply.content


@pytest.mark.parametrize("piece", [1, 3, 40])
def test_an_answer_is_sent_as_it_is_written_and_is_that_of_the_whole_reply(piece: int) -> None:
    events = run(ANSWER, piece=piece)
    pieces = streamed(events)
    assert len(pieces) >= 3
    assert "2023 [1]." in "".join(pieces)
    assert content_of(events) == reply_of(events).content


def test_the_first_words_are_sent_before_the_sentence_is_over() -> None:
    events = run(ANSWER)
    first = next(at for at, event in enumerate(events) if isinstance(event, AnswerDelta))
    assert ANSWER.startswith("".join(streamed(events[: first + 2])))
    assert streamed(events[: first + 2])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "The ferry carried 48,200 passengers",
                    "The tram carried 91,000",
                    "It left at nine",
                    " in 2023",
                ),
                *(
                    " [1]",
                    " [2]",
                    ". ",
                    ".",
                    "! ",
                    "\n",
                    "\n\n",
                    "- ",
                    "| a | b |\n",
                    "| --- | --- |\n",
                    "; ",
                ),
                *("![x](http://a.b)", " (in all)", "```\na[1]\n```", "3.5", "。", "According to [1], "),
            ]
        ),
        min_size=1,
        max_size=9,
    ).map("".join),
    st.integers(1, 9),
)
def test_what_was_sent_begins_the_whole_or_is_corrected(answer: str, piece: int) -> None:
    events = run(answer, piece=piece)
    assume(isinstance(events[-1], AnswerGiven))  # there is text in it
    whole, content = reply_of(events), content_of(events)
    assert content == whole.content or content.endswith(f"\n\n**Corrected answer**\n\n{whole.content}")
    assert plain_answer(content) == plain_answer(whole.content)


def test_an_answer_that_differs_in_the_end_is_said_to_be_corrected() -> None:
    events = run(ANSWER)
    changed = events[-1].model_copy(update={"text": "It was another.", "citations": ()})
    content = content_of([*events[:-1], changed])
    assert content.startswith("The ferry carried 48,200 passengers in 2023 [1].")
    assert "\n\n**Corrected answer**\n\nIt was another [1]" in content
    assert plain_answer(content) == "It was another."


def test_a_citation_that_moves_is_corrected() -> None:
    events = run(ANSWER)
    moved: list[Event] = []
    for event in events:
        if isinstance(event, AnswerCited):
            wrong = tuple(citation.model_copy(update={"numbers": (7,)}) for citation in event.citations)
            moved.append(event.model_copy(update={"citations": wrong}))
        else:
            moved.append(event)
    content = content_of(moved)
    assert "[7]" in content
    assert content.endswith(f"\n\n**Corrected answer**\n\n{reply_of(events).content}")


def test_a_draft_that_is_written_anew_goes_on_where_it_is_the_same() -> None:
    first = AnswerDelta(run_id="1", seq=0, ts=0.0, step=2, text="The ferry carried")
    retried = ModelRetried(run_id="1", seq=1, ts=0.0, step=2, reason="", seconds=0.0, partial="", chunks=())
    draft = DraftContent()
    assert draft.add(first) == "The ferry carried"
    assert draft.add(retried) == ""
    assert draft.add(first.model_copy(update={"text": "The ferry"})) == ""
    assert draft.add(first.model_copy(update={"text": " carried 48"})) == " 48"


@pytest.mark.parametrize("verify", [VerifyMode.REPAIR, VerifyMode.WITHDRAW])
def test_an_answer_that_is_checked_first_is_held_back(verify: VerifyMode) -> None:
    events = run("The ferry carried 48,200 passengers in 2023.", verify=verify)
    assert streamed(events) == []
    assert content_of(events) == reply_of(events).content


def test_text_behind_a_place_that_the_model_cites_waits_for_its_marker() -> None:
    def delta(text: str, *, follows_marker: bool = False) -> Any:  # noqa: ANN401
        return AnswerDelta(run_id="1", seq=0, ts=0.0, step=1, text=text, follows_marker=follows_marker)

    draft = DraftContent()
    assert draft.add(delta("It rose")) == "It rose"
    assert draft.add(delta(" and fell", follows_marker=True)) == ""
    assert draft.add(delta(". Then it stood still for a year")) == ""
    citations = tuple(
        Citation(start=start, end=end, numbers=(number,), source="model")
        for start, end, number in ((0, 7, 1), (8, 16, 2))
    )
    cited = AnswerCited(run_id="1", seq=0, ts=0.0, step=1, length=17, citations=citations, evidence=())
    assert draft.add(cited) == " [1] and fell [2]. Then it stood still for a year"
