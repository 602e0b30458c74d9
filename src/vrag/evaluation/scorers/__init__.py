"""The published rules by which answers are compared, by name; each is a module of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.scorers import anls, hotpotqa, lvbench, m3docvqa, mmlongbench, slidevqa, squad, webqa
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.evaluation.scorers.rule import Rule
    from vrag.types import Case

__all__ = ["RULES", "published_measures"]

RULES: Mapping[str, Rule] = {
    "squad": squad.measures,
    "hotpotqa": hotpotqa.measures,
    "anls": anls.measures,
    "mmlongbench": mmlongbench.measures,
    "slidevqa": slidevqa.measures,
    "lvbench": lvbench.measures,
    "webqa": webqa.measures,
    "m3docvqa": m3docvqa.measures,
}
"""What each measures, its `measures` say."""


def published_measures(case: Case, answer: str | None) -> dict[str, float]:
    """What the rules measure that fit any answer, and that of the benchmark.

    MMLongBench-Doc's goes by formats of answers, and so measures other questions that say theirs as well; but
    none of a benchmark with a rule of its own, of which some questions have a format and others have none.

    Args:
        case: What is right.
        answer: What was said, short; None where nothing was.
    """
    formatted = case.answer_format is not AnswerFormat.UNKNOWN and case.benchmark not in RULES
    names = dict.fromkeys(("squad", "anls", "mmlongbench" if formatted else "", case.benchmark))
    told = (RULES[name](case, answer) for name in names if name in RULES)
    return {name: value for measures in told for name, value in measures.items()}
