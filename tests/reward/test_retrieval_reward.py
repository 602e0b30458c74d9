"""r_Ret: pages looked at, in order, against all gold pages."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reward_runs import SEARCH, call, case, image, run_of, vimrag_run, vrag_run

from vrag.agent.evidence import Evidence
from vrag.reward.parts import pages_looked_at, retrieval_reward
from vrag.types import ItemKind

NUMBERS = st.lists(st.integers(1, 9), max_size=12)
GOLD = st.frozensets(st.integers(1, 9), max_size=5)


def earned(shown: list[int], gold: frozenset[int] | tuple[int, ...]) -> float:
    return retrieval_reward(case(*sorted(gold)), run_of(*map(image, shown)))


@pytest.mark.parametrize(
    ("shown", "gold", "expected"),
    [
        ([3, 7], (3, 7), 1.0),
        # DCG = 1/log2(3) = 0.63093, the ideal of one gold page is 1
        ([1, 3], (3,), 0.63093),
        # one of two gold pages, first: 1 / (1 + 0.63093)
        ([3], (3, 7), 0.61315),
        # places 2 and 4: (0.63093 + 0.43068) / (1 + 0.63093 + 0.5)
        ([1, 3, 2, 7], (3, 5, 7), 0.49819),
        # the second look at page 1 takes up no place
        ([1, 1, 3], (3,), 0.63093),
        ([3, 3], (3, 7), 0.61315),
        ([1, 2], (3,), 0.0),
        ([], (3,), 0.0),
        ([3], (), 0.0),
    ],
)
def test_by_hand(shown: list[int], gold: tuple[int, ...], expected: float) -> None:
    assert earned(shown, gold) == pytest.approx(expected, abs=1e-5)


def independent(shown: list[int], gold: frozenset[int]) -> float:
    """From the text of the paper, with gains of 2^s - 1, without `vrag.metrics`."""
    stack: list[int] = []
    for number in shown:
        if number not in stack:
            stack.append(number)
    gains = [2.0 ** (number in gold) - 1 for number in stack]
    ideal = [1.0] * len(gold)
    dcg, best = (sum(g / math.log2(i + 1) for i, g in enumerate(one, 1)) for one in (gains, ideal))
    return dcg / best if best else 0.0


@given(NUMBERS, GOLD)
def test_is_that_of_the_paper(shown: list[int], gold: frozenset[int]) -> None:
    value = earned(shown, gold)
    assert value == pytest.approx(independent(shown, gold))
    assert 0 <= value <= 1


@given(NUMBERS, GOLD, st.data())
def test_what_was_seen_before_changes_nothing(
    shown: list[int], gold: frozenset[int], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(shown), max_size=4)) if shown else []
    assert earned([*shown, *again], gold) == earned(shown, gold)


@given(st.lists(st.integers(1, 9), min_size=2, unique=True), GOLD.filter(bool), st.data())
def test_gold_earlier_is_never_worse(shown: list[int], gold: frozenset[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(shown) - 1))
    swapped = [*shown[: at - 1], shown[at], shown[at - 1], *shown[at + 1 :]]
    gained = (shown[at] in gold) - (shown[at - 1] in gold)
    change = earned(swapped, gold) - earned(shown, gold)
    assert change == pytest.approx(0) if gained == 0 else change * gained > 0


def test_order_of_gold_pages_among_each_other_does_not_matter() -> None:
    assert earned([7, 3, 1], (3, 7)) == earned([3, 7], (7, 3)) == 1


def test_a_page_of_another_document_is_not_gold() -> None:
    run = run_of(image(3, document="other.pdf"), image(3))
    assert retrieval_reward(case(3), run) == pytest.approx(0.63093, abs=1e-5)


def test_crops_and_frames_neither_match_nor_take_up_a_place() -> None:
    run = run_of(image(3, crop=True), image(3, seconds=2.0), image(1), image(3))
    assert pages_looked_at(run) == (("ferry.pdf", 1), ("ferry.pdf", 3))
    assert retrieval_reward(case(3), run) == pytest.approx(0.63093, abs=1e-5)


def test_a_clip_that_no_search_found_is_known_by_the_evidence() -> None:
    shown = image(3)
    seen = Evidence(
        item=shown.item, document="ferry.pdf", document_id="0", page=3, kind=ItemKind.CLIP, box=None
    )
    assert pages_looked_at(replace(run_of(shown), evidence=(seen,))) == ()
    page = seen.model_copy(update={"kind": ItemKind.PAGE})
    assert pages_looked_at(replace(run_of(shown), evidence=(page,))) == (("ferry.pdf", 3),)


class TestOfTheAgents:
    def test_vrag_shows_one_page_a_search(self) -> None:
        run = vrag_run(SEARCH, SEARCH, "<think>.</think><answer>48,200</answer>")
        assert pages_looked_at(run) == (("ferry.pdf", 2), ("ferry.pdf", 1))
        assert retrieval_reward(case(2), run) == 1
        assert retrieval_reward(case(1), run) == pytest.approx(0.63093, abs=1e-5)

    def test_a_crop_of_the_gold_page_is_no_second_page(self) -> None:
        crop = "<think>.</think><bbox>[10, 10, 300, 200]</bbox>"
        run = vrag_run(SEARCH, crop, SEARCH, "<think>.</think><answer>48,200</answer>")
        assert any(one.crop for step in run.steps for one in step.shown)
        assert pages_looked_at(run) == (("ferry.pdf", 2), ("ferry.pdf", 1))

    def test_vrag_shows_a_clip_as_a_picture_that_is_no_page(self) -> None:
        run = vrag_run("<think>.</think><search>gulls</search>", "<think>.</think><answer>x</answer>")
        assert [one.document for step in run.steps for one in step.shown] == ["harbour.mp4"]
        assert pages_looked_at(run) == ()
        assert retrieval_reward(case(2, file="harbour.mp4"), run) == 0

    def test_vimrag_shows_several_pages_a_search_and_memory_shows_none_again(self) -> None:
        note: dict[str, Any] = {
            "information_id": "Picture 1",
            "is_useful": True,
            "priority_score": 5,
            "key_timestamp": [],
        }
        other = {"information_id": "Picture 2", "is_useful": False}
        run = vimrag_run(
            call("add_search_node", id="a", parent_ids=["root"], query="passengers 2024"),
            call("summarize_and_memorize", summarize="So.", memorize=[note, other]),
            call("add_answer_node", parent_ids=["a"], answer="48,200"),
        )
        assert run.answer == "48,200", run
        assert pages_looked_at(run) == (("ferry.pdf", 2), ("ferry.pdf", 1))

    def test_a_passage_matches_no_page(self) -> None:
        run = vrag_run("<think>.</think><search>January ice</search>", "<think>.</think><answer>x</answer>")
        assert run.steps[0].hits
        assert retrieval_reward(case(1, file="notes.md"), run) == 0
