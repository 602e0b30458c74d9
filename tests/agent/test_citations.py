"""Runs without recorded citations: what an answer rests on is told from what was looked at, by one rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.budget import StopReason
from vrag.agent.events import AnswerGiven, RunSettings, RunStarted
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.runs.run_result import RunResult, is_whole
from vrag.types import ItemKind

PART, OTHER, ALL = (0.1, 0.1, 0.5, 0.5), (0.2, 0.2, 0.9, 0.3), (0.0, 0.0, 1.0, 1.0)


def seen(item: str, box: BoxSides | None = ALL, node: str | None = None) -> Evidence:
    return Evidence(
        item=item, document=f"{item}.pdf", document_id=item, page=1, kind=ItemKind.PAGE, box=box, node=node
    )


def settings(agent: str = "vrag", *, reselect: bool = False) -> RunSettings:
    return RunSettings(agent=agent, policy="scripted", profile="qwen2.5-vl", reselect=reselect)


def folded(evidence: list[Evidence], how: RunSettings, *, answered: bool = True) -> RunResult:
    start = RunStarted(run_id="r", seq=0, ts=0.0, step=0, question="?", settings=how, collection="")
    reason = StopReason.ANSWERED if answered else StopReason.ABSTAINED
    end = AnswerGiven(
        run_id="r",
        seq=1,
        ts=1.0,
        step=1,
        text="Nine." if answered else None,
        evidence=tuple(evidence),
        stop_reason=reason,
    )
    return RunResult.of([start, end])


def test_closer_looks_are_what_an_answer_rests_on() -> None:
    told = folded([seen("a", PART), seen("a"), seen("b"), seen("b", OTHER), seen("c")], settings())
    assert told.rests == (seen("a", PART), seen("b", OTHER))
    assert told.looked_at == (seen("c"),)


@pytest.mark.parametrize("agent", ["vrag", "rag", "react"])
def test_without_a_closer_look_it_is_the_first_page(agent: str) -> None:
    told = folded([seen("a"), seen("b"), seen("a"), seen("b")], settings(agent))
    assert (told.rests, told.looked_at) == ((seen("a"),), (seen("b"),))


def test_a_passage_is_a_place_that_is_never_closer() -> None:
    told = folded([seen("a", None), seen("b", PART)], settings())
    assert (told.rests, told.looked_at) == ((seen("b", PART),), (seen("a", None),))


@pytest.mark.parametrize("chosen", [settings("vimrag"), settings(reselect=True)])
def test_evidence_that_was_named_is_meant_each_place_once(chosen: RunSettings) -> None:
    told = folded([seen("a", node="x"), seen("b", PART), seen("a", node="y")], chosen)
    assert (told.rests, told.looked_at) == ((seen("a", node="x"), seen("b", PART)), ())


def test_without_an_answer_all_is_where_the_agent_looked() -> None:
    told = folded([seen("a", PART), seen("b"), seen("b")], settings(), answered=False)
    assert (told.rests, told.looked_at) == ((seen("a", PART), seen("b")), ())


def test_nothing_rests_on_nothing() -> None:
    told = folded([], settings())
    assert told.rests == told.looked_at == told.citations == ()


@given(
    st.lists(st.builds(seen, st.sampled_from("abc"), st.sampled_from([PART, OTHER, ALL, None]))),
    st.sampled_from([settings(), settings("vimrag"), settings(reselect=True)]),
)
def test_no_item_is_lost_no_place_told_twice_and_the_order_kept(
    evidence: list[Evidence], how: RunSettings
) -> None:
    told = folded(evidence, how)
    assert {one.item for one in told.rests + told.looked_at} == {one.item for one in evidence}
    assert not {one.item for one in told.rests} & {one.item for one in told.looked_at}
    for part in (told.rests, told.looked_at):
        positions = [evidence.index(one) for one in part]
        assert positions == sorted(set(positions))
    assert bool(told.rests) == bool(evidence)
    assert [citation.numbers for citation in told.citations] == [tuple(range(1, told.cited + 1))] * bool(
        evidence
    )


def test_a_box_that_leaves_out_next_to_nothing_is_the_whole_page() -> None:
    assert is_whole((0.0, 0.0, 1.0, 0.995))
    assert not is_whole((0.0, 0.0, 1.0, 0.99))
