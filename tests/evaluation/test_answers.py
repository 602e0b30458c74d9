from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from vrag.agent.trajectory import Trajectory
from vrag.errors import RunError
from vrag.evaluation.answers import AnswerReport, score_answers
from vrag.evaluation.blank import BlankSearcher
from vrag.reward import Reward
from vrag.testing import tiny_corpus
from vrag.types import Case, Query

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence


def case(uid: str) -> Case:
    return Case(uid=uid, query="?", reference_answer="a", file_name="a.pdf")


CASES = tuple(map(case, "abcd"))


async def runs_of(cases: Sequence[Case]) -> AsyncGenerator[tuple[Case, Trajectory], None]:
    for one in cases:
        yield one, Trajectory(answer=one.uid, failure="ModelError: gone" if one.uid == "d" else None)


class Table:
    """Rewards by uid; `c` has no verdict, `d` broke off."""

    async def score(self, case: Case, run: Trajectory) -> Reward:
        correct = {"a": True, "b": False}.get(case.uid)
        answer = None if correct is None else float(correct)
        retrieval = None if run.failure else 0.5
        return Reward(total=answer, parts={"answer": answer, "retrieval": retrieval}, correct=correct)


def scored(*cases: Case) -> AnswerReport:
    return asyncio.run(score_answers(CASES, runs_of(cases), Table()))


def test_accuracy_is_of_the_questions_with_a_verdict_and_the_others_are_counted() -> None:
    report = scored(*reversed(CASES))
    assert report.measures["accuracy"] == 0.5
    assert report.measures["reward/answer"] == 0.5
    assert report.measures["reward/retrieval"] == 0.5
    assert (report.unjudged, report.failed) == (2, 1)
    assert [one["uid"] for one in report.as_dict()["answers"]] == list("abcd")


@pytest.mark.parametrize("cases", [(), CASES[2:]])
def test_without_a_verdict_there_is_no_accuracy_rather_than_one_of_0(cases: Sequence[Case]) -> None:
    report = scored(*cases)
    assert "accuracy" not in report.measures
    assert "reward/answer" not in report.measures


def test_runs_are_scored_at_once_and_not_one_after_the_other() -> None:
    class Meeting(Table):
        def __init__(self, most: int) -> None:
            self.most, self.now, self.seen = most, 0, 0
            self.met = asyncio.Event()

        async def score(self, case: Case, run: Trajectory) -> Reward:
            self.now += 1
            self.seen = max(self.seen, self.now)
            if self.now == self.most:
                self.met.set()
            await asyncio.wait_for(self.met.wait(), 5)
            self.now -= 1
            return await super().score(case, run)

    async def judged(most: int) -> int:
        judge = Meeting(most)
        report = await score_answers(CASES, runs_of(CASES), judge, concurrency=most)
        assert len(report.scores) == len(CASES)
        return judge.seen

    assert [asyncio.run(judged(most)) for most in (2, 4)] == [2, 4]


def test_what_taking_a_run_raises_is_raised_as_it_is() -> None:
    async def broken() -> AsyncGenerator[tuple[Case, Trajectory], None]:
        yield CASES[0], Trajectory(answer="a")
        raise RunError("The disk is full.")

    with pytest.raises(RunError, match="full"):
        asyncio.run(score_answers(CASES, broken(), Table()))


def test_blanked_pages_are_found_as_before_and_show_nothing() -> None:
    corpus = tiny_corpus()
    blank, item = BlankSearcher(corpus), corpus.items[1]
    assert blank.version != corpus.version
    assert blank.search([Query("passengers")], 3) == corpus.search([Query("passengers")], 3)
    assert blank.item(item.id) == item
    seen, white = corpus.image(item.id), blank.image(item.id)
    assert seen.getextrema() != white.getextrema()
    assert white.size == seen.size
    assert white.getcolors() == [(white.width * white.height, (255, 255, 255))]
