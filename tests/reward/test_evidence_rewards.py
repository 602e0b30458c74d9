"""The parts `region` and `support` of a reward; every expected number is worked out beside it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reward_runs import ANSWER, FILE, SEARCH, ToldJudge, case, image, run_of

from vrag.agent.agent import Agent
from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import ImageShown, RunSettings, RunStarted, StopReason
from vrag.agent.evidence import Evidence
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import WITHOUT_MODEL
from vrag.agent.runs.run_result import RunStep
from vrag.cases.annotations import UNANSWERABLE
from vrag.errors import JudgeError, SettingsError
from vrag.geometry import Box
from vrag.model_profiles import PROFILES
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.reward import CompositeReward, Verdict, Weights
from vrag.reward.combine import BUILT_IN, load_parts
from vrag.reward.parts import region_reward, support_reward
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case, ItemKind, Region

if TYPE_CHECKING:
    from vrag.agent.evidence import BoxSides
    from vrag.agent.runs.run_result import RunResult


def evidence(page: int, box: BoxSides) -> Evidence:
    return Evidence(
        item=f"{FILE}-{page}", document=FILE, document_id="0", page=page, kind=ItemKind.PAGE, box=box
    )


def crop_run(box: BoxSides, *, located: bool) -> RunResult:
    """A run of the agent that looks at a part of page 2 of the tiny corpus."""
    environment = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=3))
    picture = next(
        one
        for one in Agent(ScriptedPolicy((SEARCH, ANSWER)), environment, VragMethod()).run("?").steps[0].shown
    )
    sides = (picture.width, picture.height, picture.width, picture.height)
    written = ", ".join(str(side * whole) for side, whole in zip(box, sides, strict=True))
    replies = SEARCH, f"<think>Closer.</think><bbox>[{written}]</bbox>", ANSWER
    return Agent(ScriptedPolicy(replies), environment, VragMethod(), locate=located).run("How many?")


LEFT: BoxSides = (0.0, 0.0, 0.5, 1.0)
QUARTER: BoxSides = (0.0, 0.0, 0.5, 0.5)
WHOLE: BoxSides = (0.0, 0.0, 1.0, 1.0)


def place(page: int, box: BoxSides, document: str = FILE, sha256: str = "0") -> ImageShown:
    """A part of a page, as the model was shown it when it looked closer."""
    crop = image(page, document=document, crop=True)
    return crop.model_copy(update={"box": box, "sha256": sha256})


def boxed(*regions: tuple[int, BoxSides] | tuple[int, BoxSides, str]) -> Case:
    found = (Region(page, Box.unit(*box), annotator="".join(more)) for page, box, *more in regions)
    return replace(case(1), regions=tuple(found))


def run(*crops: ImageShown, answer: str | None = "48,200", named: tuple[str, ...] = ()) -> RunResult:
    """A run that was shown page 1 and looked closer at some places, one by one."""
    before = run_of(image(1), answer=answer)
    steps = [RunStep(number=n, crop=(0, 0, 9, 9), shown=(crop,)) for n, crop in enumerate(crops, 3)]
    return replace(before, steps=(*before.steps, *steps), named=named)


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

    def test_all_looks_count_unless_the_answer_names_some(self) -> None:
        crops = place(1, QUARTER, sha256="a"), place(1, (0.5, 0.5, 1, 1), sha256="b")
        assert region_reward(boxed((1, QUARTER)), run(*crops)) == pytest.approx(2 * 0.25 / (0.5 + 0.25))
        assert region_reward(boxed((1, QUARTER)), run(*crops, named=("a",))) == 1
        assert region_reward(boxed((1, QUARTER)), run(*crops, named=("b",))) == 0

    def test_to_name_a_whole_page_is_to_name_no_look(self) -> None:
        assert region_reward(boxed((1, QUARTER)), run(place(1, QUARTER, sha256="a"), named=("page",))) == 1

    def test_the_last_of_several_looks_into_each_other_counts(self) -> None:
        closer = run(place(1, WHOLE), place(1, LEFT), place(1, QUARTER))
        assert region_reward(boxed((1, QUARTER)), closer) == 1
        assert region_reward(boxed((1, LEFT)), closer) == pytest.approx(2 * 0.25 / (0.5 + 0.25))
        wider = run(place(1, QUARTER), place(1, WHOLE))
        assert region_reward(boxed((1, QUARTER)), wider) == pytest.approx(2 * 0.25 / (1 + 0.25))

    def test_a_page_that_is_shown_whole_is_no_rectangle(self) -> None:
        """Nor is one that a custom tool or a conflict has shown a part of."""
        assert region_reward(boxed((1, WHOLE)), run()) == 0
        shown = run_of(image(1), place(1, QUARTER))
        assert region_reward(boxed((1, QUARTER)), shown) == 0

    def test_what_was_found_by_the_words_of_the_answer_is_not_the_models(self) -> None:
        located = replace(run(), evidence=(evidence(1, QUARTER),), cited=1)
        assert region_reward(boxed((1, QUARTER)), located) == 0

    def test_a_run_without_a_model_has_the_rectangles_of_its_evidence(self) -> None:
        settings = RunSettings(agent="vrag", policy=WITHOUT_MODEL, profile="qwen2.5-vl")
        start = RunStarted(run_id="r", seq=0, ts=0, step=0, question="?", settings=settings, collection="")
        found = evidence(1, QUARTER), evidence(1, WHOLE)
        assert region_reward(boxed((1, QUARTER)), replace(run(), start=start, evidence=found, cited=2)) == 1

    def test_another_document_is_elsewhere(self) -> None:
        assert region_reward(boxed((1, QUARTER)), run(place(1, QUARTER, "other.pdf"))) == 0

    def test_it_is_1_where_no_box_is_wanted(self) -> None:
        assert region_reward(case(1), run(place(1, QUARTER))) == 1
        assert region_reward(case(1), run()) == 1
        assert region_reward(case(answer=UNANSWERABLE), run_of(answer=None, stop=StopReason.ABSTAINED)) == 1

    def test_a_run_without_an_answer_has_0(self) -> None:
        for of in (case(1), boxed((1, QUARTER))):
            looked = replace(run(place(1, QUARTER), answer=None), stop_reason=StopReason.OUT_OF_STEPS)
            assert region_reward(of, looked) == 0

    def test_an_abstention_points_at_nothing(self) -> None:
        abstained = replace(run(place(1, QUARTER), answer=None), stop_reason=StopReason.ABSTAINED)
        assert region_reward(boxed((1, QUARTER)), abstained) == 0

    @pytest.mark.parametrize("box", [(0.1, 0.1, 0.9, 0.9), (0.0, 0.5, 1.0, 1.0), (0.04, 0.02, 0.4, 0.09)])
    @pytest.mark.parametrize("located", [True, False])
    def test_a_perfect_look_earns_1_however_large_the_gold_box_is(self, box: BoxSides, located: bool) -> None:
        """Through the agent: the crop is cut at whole pixels, and serving replaces evidence that is large."""
        looked = crop_run(box, located=located)
        assert region_reward(replace(case(2), regions=(Region(2, Box.unit(*box)),)), looked) > 0.99


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


class TestAttribution:
    WEIGHTS = Weights.of({"answer": 0.5, "attribution": 0.5})

    @pytest.mark.parametrize(("correct", "expected"), [(True, 1.0), (False, 0.0)])
    def test_is_paid_for_only_where_the_answer_is_right(self, correct: bool, expected: float) -> None:
        judge = ToldJudge(Verdict(correct))
        reward = CompositeReward(judge, self.WEIGHTS, extras=load_parts(["attribution"]))
        found = asyncio.run(reward.score(boxed((1, QUARTER)), run(place(1, QUARTER))))
        assert (found.parts["attribution"], found.total) == (expected, expected)

    def test_is_missing_without_a_verdict(self) -> None:
        judge = ToldJudge(JudgeError("No verdict.", "Wait."))
        reward = CompositeReward(judge, self.WEIGHTS, extras=load_parts(["attribution"]))
        found = asyncio.run(reward.score(boxed((1, QUARTER)), run(place(1, QUARTER))))
        assert (found.parts["attribution"], found.total) == (None, None)


class TestInAReward:
    WEIGHTS = Weights(retrieval=0.2, answer=0.5, pattern=0.1, extras={"region": 0.1, "support": 0.1})

    def scored(self, of: Case, run: RunResult) -> tuple[float | None, dict[str, float | None]]:
        reward = CompositeReward(ToldJudge(), self.WEIGHTS, extras=load_parts(self.WEIGHTS.extras))
        found = asyncio.run(reward.score(of, run))
        return found.total, dict(found.parts)

    def test_they_count_by_their_weights(self) -> None:
        looked = run(place(1, QUARTER))
        claims = checked(ClaimVerdict.STATED, ClaimVerdict.UNVERIFIED).claims
        total, parts = self.scored(boxed((1, QUARTER)), replace(looked, claims=claims))
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
