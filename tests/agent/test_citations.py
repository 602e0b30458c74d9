"""What an answer rests on is told from what was looked at besides, by one rule for all who show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.events import RunSettings
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.runs.run_result import citations, is_whole
from vrag.types import ItemKind

PART, OTHER, ALL = (0.1, 0.1, 0.5, 0.5), (0.2, 0.2, 0.9, 0.3), (0.0, 0.0, 1.0, 1.0)


def seen(item: str, box: BoxSides | None = ALL, node: str | None = None) -> Evidence:
    return Evidence(
        item=item, document=f"{item}.pdf", document_id=item, page=1, kind=ItemKind.PAGE, box=box, node=node
    )


def settings(agent: str = "vrag", *, reselect: bool = False) -> RunSettings:
    return RunSettings(agent=agent, policy="scripted", profile="qwen2.5-vl", reselect=reselect)


def test_closer_looks_are_what_an_answer_rests_on() -> None:
    told = citations([seen("a", PART), seen("a"), seen("b"), seen("b", OTHER), seen("c")], settings())
    assert told.rests == (seen("a", PART), seen("b", OTHER))
    assert told.besides == (seen("c"),)


@pytest.mark.parametrize("agent", ["vrag", "rag", "react"])
def test_without_a_closer_look_it_is_the_first_page(agent: str) -> None:
    told = citations([seen("a"), seen("b"), seen("a"), seen("b")], settings(agent))
    assert (told.rests, told.besides) == ((seen("a"),), (seen("b"),))


def test_a_passage_is_a_place_that_is_never_closer() -> None:
    told = citations([seen("a", None), seen("b", PART)], settings())
    assert (told.rests, told.besides) == ((seen("b", PART),), (seen("a", None),))


@pytest.mark.parametrize("chosen", [settings("vimrag"), settings(reselect=True)])
def test_evidence_that_was_named_is_meant_each_place_once(chosen: RunSettings) -> None:
    told = citations([seen("a", node="x"), seen("b", PART), seen("a", node="y")], chosen)
    assert (told.rests, told.besides) == ((seen("a", node="x"), seen("b", PART)), ())


def test_without_an_answer_all_is_where_the_agent_looked() -> None:
    told = citations([seen("a", PART), seen("b"), seen("b")], settings(), answered=False)
    assert (told.rests, told.besides) == ((seen("a", PART), seen("b")), ())


def test_nothing_rests_on_nothing() -> None:
    assert citations([], settings()).rests == citations([], settings()).besides == ()


@given(
    st.lists(st.builds(seen, st.sampled_from("abc"), st.sampled_from([PART, OTHER, ALL, None]))),
    st.sampled_from([settings(), settings("vimrag"), settings(reselect=True)]),
)
def test_no_item_is_lost_no_place_told_twice_and_the_order_kept(
    evidence: list[Evidence], how: RunSettings
) -> None:
    told = citations(evidence, how)
    assert {one.item for one in told.rests + told.besides} == {one.item for one in evidence}
    assert not {one.item for one in told.rests} & {one.item for one in told.besides}
    for part in (told.rests, told.besides):
        positions = [evidence.index(one) for one in part]
        assert positions == sorted(set(positions))
    assert bool(told.rests) == bool(evidence)


def test_a_box_that_leaves_out_next_to_nothing_is_the_whole_page() -> None:
    assert is_whole((0.0, 0.0, 1.0, 0.995))
    assert not is_whole((0.0, 0.0, 1.0, 0.99))
