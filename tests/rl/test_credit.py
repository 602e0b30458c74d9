"""Segments of recorded runs: real agents over a tiny corpus, with scripted replies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import (
    AnswerGiven,
    GraphChanged,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    SearchReturned,
)
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.errors import ModelError
from vrag.model_profiles import PROFILES
from vrag.rl.advantages import Segment, TrajectoryCredit, masks
from vrag.rl.rows import credit_of, segment_numbers
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.agent.method import Method

FERRY = "ferry passengers"  # finds page 2 first, then page 1, then the passage of notes.md
PRICES = "return ticket prices"  # finds page 3 alone


def call(name: str, **arguments: object) -> str:
    return f"<think>So.</think><tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def search(node: str, query: str, *parents: str) -> str:
    return call("add_search_node", id=node, parent_ids=parents or ["root"], query=query)


def memorize(*labels: str) -> str:
    notes: list[dict[str, Any]] = [
        {"information_id": label, "is_useful": True, "priority_score": 5} for label in labels
    ]
    return call("summarize_and_memorize", summarize="It says so.", memorize=notes)


def answer(*parents: str) -> str:
    return call("add_answer_node", parent_ids=parents, answer="48,200")


FERRY_NOTES, PRICE_NOTES = memorize("Text 1", "Picture 1", "Picture 2"), memorize("Picture 1")


def run(*replies: str | Exception, method: Method | None = None, steps: int = 20) -> list[Event]:
    environment = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=3))
    agent = Agent(ScriptedPolicy(replies), environment, method or Vimrag(), Limits(steps=steps))
    return list(agent.stream("How many passengers?"))


def case(*pages: int, file: str = "ferry.pdf") -> Case:
    return Case(uid="1", query="?", reference_answer="48,200", file_name=file, reference_page=pages)


def credit(*replies: str | Exception, gold: Case | None = None, **how: Any) -> TrajectoryCredit:  # noqa: ANN401
    return credit_of(run(*replies, **how), gold or case(2))


class TestGraph:
    def test_two_nodes_and_an_answer_on_one_of_them(self) -> None:
        found = credit(
            search("prices", PRICES), PRICE_NOTES, search("count", FERRY), FERRY_NOTES, answer("count")
        )
        assert found.segments == (
            Segment(node="prices"),
            Segment(node="count", found=True),
            Segment(answers=True),
        )
        assert found.leads == {"root", "count", "answer"}
        assert masks(found, correct=True).tolist() == [True, False, False]
        assert masks(found, correct=False).tolist() == [False, True, False]

    def test_what_memory_shows_is_not_found_again(self) -> None:
        found = credit(
            search("count", FERRY),
            FERRY_NOTES,
            search("prices", PRICES, "count"),
            PRICE_NOTES,
            answer("prices"),
        )
        assert [segment.found for segment in found.segments] == [True, False, False]
        assert found.leads == {"root", "count", "prices", "answer"}

    def test_an_answer_straight_from_results_is_one_segment_with_its_node(self) -> None:
        found = credit(search("prices", PRICES), PRICE_NOTES, search("count", FERRY), answer("root"))
        assert found.segments[1] == Segment(node="count", answers=True, found=True)
        assert found.leads == {"root", "count", "answer"}  # it rests on what was in sight
        assert masks(found, correct=False).tolist() == [False, False]

    def test_an_invalid_action_belongs_to_the_segment_in_which_it_was(self) -> None:
        found = credit("nonsense", search("count", FERRY), FERRY_NOTES, answer("count"))
        assert found.segments == (Segment(node="count", found=True, invalid=True), Segment(answers=True))
        assert masks(found, correct=False).tolist() == [False, False]

    def test_a_repaired_reply_counts_as_one(self) -> None:
        damaged = search("count", FERRY).replace('"parent_ids"', '"parents"')
        found = credit(damaged, FERRY_NOTES, answer("count"))
        assert found.segments == (Segment(node="count", found=True, invalid=True), Segment(answers=True))

    def test_after_the_rebuild_it_is_the_next_ones(self) -> None:
        found = credit(search("count", FERRY), FERRY_NOTES, "nonsense", answer("count"))
        assert [segment.invalid for segment in found.segments] == [False, True]

    def test_a_search_that_was_refused_found_nothing_and_made_nothing(self) -> None:
        found = credit(search("prices", PRICES), search("again", FERRY), PRICE_NOTES, answer("root"))
        assert found.segments == (Segment(node="prices", invalid=True), Segment(answers=True))

    def test_a_run_without_an_answer_leads_nowhere(self) -> None:
        found = credit(search("count", FERRY), FERRY_NOTES, search("prices", PRICES), steps=3)
        assert found == TrajectoryCredit((Segment(node="count", found=True), Segment(node="prices")))
        assert masks(found, correct=False).tolist() == [True, False]

    def test_a_rebuild_that_nothing_follows_begins_no_segment(self) -> None:
        assert len(credit(search("count", FERRY), FERRY_NOTES, steps=2).segments) == 1

    def test_a_model_that_fails_makes_no_segment(self) -> None:
        found = credit(search("count", FERRY), FERRY_NOTES, ModelError("It is gone."))
        assert found.segments == (Segment(node="count", found=True),)
        assert credit(ModelError("It is gone.")) == TrajectoryCredit(())

    def test_an_answer_that_stood_when_the_model_failed_counts(self) -> None:
        found = credit(
            search("count", FERRY),
            FERRY_NOTES,
            answer("count"),
            ModelError("Gone."),
            method=Vimrag(reselect=True),
        )
        assert found.segments == (Segment(node="count", found=True), Segment(answers=True))
        assert found.leads == {"root", "count", "answer"}

    def test_a_run_cut_off_behind_its_answer_has_answered(self) -> None:
        events = run(search("count", FERRY), FERRY_NOTES, answer("count"))
        cut = [event for event in events if not isinstance(event, AnswerGiven)]
        assert credit_of(cut, case(2)) == credit_of(events, case(2))


class TestEvidence:
    @pytest.mark.parametrize(
        ("gold", "found"),
        [
            (case(2), True),
            (case(1, 9), True),
            (case(3), False),  # of the right document, another page
            (case(2, file="other.pdf"), False),
            (case(1, file="notes.md"), False),  # a passage is no page
            (case(), False),  # nothing is annotated
        ],
    )
    def test_is_an_annotated_page_among_the_hits(self, gold: Case, found: bool) -> None:
        made = credit(search("count", FERRY), FERRY_NOTES, answer("count"), gold=gold)
        assert made.segments[0].found is found


class TestConversation:
    def test_is_one_segment(self) -> None:
        replies = (f"<search>{FERRY}</search>", f"<search>{PRICES}</search>", "<answer>48,200</answer>")
        found = credit(*replies, method=VragMethod())
        assert found == TrajectoryCredit((Segment(answers=True, found=True),))
        assert set(segment_numbers(run(*replies, method=VragMethod())).values()) == {0}

    def test_that_never_answers(self) -> None:
        found = credit("nonsense", f"<search>{PRICES}</search>", method=VragMethod(), steps=2)
        assert found == TrajectoryCredit((Segment(invalid=True),))

    def test_that_abstains_has_answered(self) -> None:
        assert credit("<answer>Not answerable</answer>", method=VragMethod()).segments == (
            Segment(answers=True),
        )


def test_segments_are_those_of_the_events_read_one_by_one() -> None:
    """The same once more, as a fold that keeps the state of one segment."""
    script = ("?", search("a", PRICES), PRICE_NOTES, search("b", FERRY, "a"), "?", FERRY_NOTES, answer("b"))
    events = run(*script)
    plain: list[Segment] = []
    node, found, invalid, rebuilt, nodes = None, False, False, False, 1
    for event in events:
        if isinstance(event, ModelCalled) and rebuilt:
            plain.append(Segment(node=node, found=found, invalid=invalid))
            node, found, invalid, rebuilt = None, False, False, False
        if isinstance(event, SearchReturned):
            found |= any(hit.document_name == "ferry.pdf" and hit.ordinal == 2 for hit in event.hits)
        invalid |= isinstance(event, InvalidAction)
        if isinstance(event, GraphChanged) and len(event.graph.nodes) > nodes:
            nodes, node = len(event.graph.nodes), event.graph.newest.id
        rebuilt |= isinstance(event, MemoryUpdated)
    plain.append(Segment(answers=node == "answer", found=found, invalid=invalid))
    assert credit_of(events, case(2)).segments == tuple(plain)
    assert len(plain) == 3
