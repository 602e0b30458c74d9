"""The parts `region` and `support` of a reward; every expected number is worked out beside it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reward_runs import FILE, ToldJudge, case, image, run_of

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.events import StopReason
from vrag.agent.evidence import Evidence
from vrag.cases.annotations import UNANSWERABLE
from vrag.errors import SettingsError
from vrag.geometry import Box
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.reward import CompositeReward, Weights
from vrag.reward.combine import BUILT_IN, load_parts
from vrag.reward.parts import region_reward, support_reward
from vrag.types import Case, ItemKind, Region

if TYPE_CHECKING:
    from vrag.agent.evidence import BoxSides
    from vrag.agent.runs.run_result import RunResult

LEFT: BoxSides = (0.0, 0.0, 0.5, 1.0)
QUARTER: BoxSides = (0.0, 0.0, 0.5, 0.5)
WHOLE: BoxSides = (0.0, 0.0, 1.0, 1.0)


def place(page: int, box: BoxSides | None, document: str = FILE) -> Evidence:
    return Evidence(
        item=f"{document}-{page}", document=document, document_id="0", page=page, kind=ItemKind.PAGE, box=box
    )


def boxed(*regions: tuple[int, BoxSides] | tuple[int, BoxSides, str]) -> Case:
    found = (Region(page, Box.unit(*box), annotator="".join(more)) for page, box, *more in regions)
    return replace(case(1), regions=tuple(found))


def run(*evidence: Evidence, cited: int = 9, answer: str | None = "48,200") -> RunResult:
    return replace(run_of(image(1), answer=answer), evidence=evidence, cited=cited)


def checked(*verdicts: ClaimVerdict) -> RunResult:
    claims = (CheckedClaim(kind=ClaimKind.NUMBER, start=0, end=2, verdict=verdict) for verdict in verdicts)
    return replace(run_of(image(1)), claims=tuple(claims))


class TestRegion:
    @pytest.mark.parametrize(
        ("box", "score"),
        [
            (QUARTER, 1.0),
            (LEFT, 2 * 0.25 / (0.5 + 0.25)),  # all of the gold, half of the box
            (WHOLE, 2 * 0.25 / (1 + 0.25)),
            ((0.5, 0.5, 1.0, 1.0), 0.0),  # touches at a corner
        ],
    )
    def test_is_the_f1_of_the_areas(self, box: BoxSides, score: float) -> None:
        assert region_reward(boxed((1, QUARTER)), run(place(1, box))) == pytest.approx(score)

    def test_a_gold_page_without_a_rectangle_counts_as_0(self) -> None:
        assert region_reward(boxed((1, QUARTER), (2, QUARTER)), run(place(1, QUARTER))) == 0.5

    def test_the_annotator_who_agrees_best_counts(self) -> None:
        gold = boxed((1, QUARTER, "a"), (1, LEFT, "b"))
        assert region_reward(gold, run(place(1, LEFT))) == 1
        assert region_reward(boxed((1, QUARTER), (1, LEFT)), run(place(1, QUARTER))) == pytest.approx(2 / 3)

    def test_only_what_is_cited_counts(self) -> None:
        looked = run(place(1, QUARTER), place(1, (0.5, 0.5, 1, 1)), cited=1)
        assert region_reward(boxed((1, QUARTER)), looked) == 1

    def test_another_document_is_elsewhere(self) -> None:
        assert region_reward(boxed((1, QUARTER)), run(place(1, QUARTER, "other.pdf"))) == 0

    def test_without_gold_boxes_or_without_an_answer_it_is_0(self) -> None:
        assert region_reward(case(1), run(place(1, QUARTER))) == 0
        assert region_reward(boxed((1, QUARTER)), run(place(1, QUARTER), answer=None)) == 0


class TestSupport:
    def test_is_the_share_of_the_claims_that_were_decided(self) -> None:
        run = checked(ClaimVerdict.STATED, ClaimVerdict.DOUBTED, ClaimVerdict.UNVERIFIED, ClaimVerdict.STATED)
        assert support_reward(case(1), run) == 0.5

    def test_what_is_seen_or_computed_counts_like_what_is_stated(self) -> None:
        run = checked(ClaimVerdict.SEEN, ClaimVerdict.COMPUTED, ClaimVerdict.STATED, ClaimVerdict.DOUBTED)
        assert support_reward(case(1), run) == 0.75

    @given(st.lists(st.sampled_from(ClaimVerdict)), st.integers(0, 3))
    def test_what_only_a_look_can_decide_does_not_count(
        self, verdicts: list[ClaimVerdict], count: int
    ) -> None:
        decided = checked(*verdicts)
        open_claims = [
            claim.model_copy(update={"needs_picture": True})
            for claim in checked(*[ClaimVerdict.UNVERIFIED] * count).claims
        ]
        run = replace(decided, claims=(*decided.claims, *open_claims))
        assert support_reward(case(1), run) == support_reward(case(1), decided)

    def test_is_missing_where_no_claim_was_checked(self) -> None:
        assert support_reward(case(1), checked()) is None

    def test_an_abstention_is_supported_where_there_is_no_answer(self) -> None:
        abstained = run_of(answer=None, stop=StopReason.ABSTAINED)
        assert support_reward(case(answer=UNANSWERABLE), abstained) == 1
        assert support_reward(case(1), abstained) == 0

    def test_a_run_without_an_answer_supports_nothing(self) -> None:
        assert support_reward(case(1), run_of(answer=None, stop=StopReason.OUT_OF_STEPS)) == 0


class TestInAReward:
    WEIGHTS = Weights(retrieval=0.2, answer=0.5, pattern=0.1, extras={"region": 0.1, "support": 0.1})

    def scored(self, of: Case, run: RunResult) -> tuple[float | None, dict[str, float | None]]:
        reward = CompositeReward(ToldJudge(), self.WEIGHTS, extras=load_parts(self.WEIGHTS.extras))
        found = asyncio.run(reward.score(of, run))
        return found.total, dict(found.parts)

    def test_they_count_by_their_weights(self) -> None:
        run = replace(
            checked(ClaimVerdict.STATED, ClaimVerdict.UNVERIFIED), evidence=(place(1, QUARTER),), cited=1
        )
        total, parts = self.scored(boxed((1, QUARTER)), run)
        assert (parts["region"], parts["support"]) == (1, 0.5)
        assert total == pytest.approx(0.2 + 0.5 + 0.1 + 0.1 + 0.05)

    def test_claims_that_are_not_checked_make_the_total_missing_and_not_0(self) -> None:
        total, parts = self.scored(boxed((1, QUARTER)), run(place(1, QUARTER)))
        assert total is None
        assert (parts["region"], parts["support"], parts["answer"]) == (1, None, 1)

    def test_they_need_a_weight_that_sums_with_the_others_to_1(self) -> None:
        with pytest.raises(SettingsError, match=r"must sum to 1, not 1\.1"):
            Weights(extras={"region": 0.1})

    def test_by_default_they_are_not_measured(self) -> None:
        reward = asyncio.run(CompositeReward(ToldJudge()).score(case(1), run_of(image(1))))
        assert not BUILT_IN.keys() & reward.parts.keys()
