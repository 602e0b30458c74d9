"""Whether a run looked at the gold, and how early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.relevance import Gold
from vrag.metrics import ndcg, recall
from vrag.reward.parts import clips_known, images_looked_at
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vrag.agent.events import ImageShown, PassageShown
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.document_names import DocumentNames
    from vrag.evaluation.relevance import Spot
    from vrag.types import Case

__all__ = ["LOOKING", "looking"]

LOOKING: Mapping[str, str] = {
    "seen_recall": "share of the gold that the model was shown",
    "seen_ndcg": "the same, and how early; the ideal has all the gold in front",
}
"""The names, and what each is, for people."""


def looking(
    case: Case, run: RunResult, names: DocumentNames, passages: Iterable[PassageShown] = ()
) -> dict[str, float]:
    """What of the gold a run was shown; nothing where the case has none.

    The ranking is the stack of what was shown whole, each once where it came first, as in the reward
    (`vrag.reward.parts`); crops take up no place. Here a document counts by all its names, documents that
    are gold as a whole by any item of theirs, grades count, and frames count where they lie in a gold
    stretch of a video.

    A run whose pictures of clips do not say their time (VRAG's) is not measured on gold stretches.

    Args:
        case: Its gold.
        run: What it showed.
        names: Of the documents that were searched.
        passages: Texts that it showed, which a trajectory does not hold; they come after the pictures of
            the same step.
    """
    gold = Gold.of(case, names)
    clips = clips_known(run)
    images = list(images_looked_at(run))
    untimed = any(one.item in clips and one.seconds is None for one in images)
    if not gold.grades or (case.spans and untimed):
        return {}
    shown = [(one.step, _image(gold, one, clips)) for one in images]
    shown += [(one.step, _passage(gold, one)) for one in passages]
    stack = list(dict.fromkeys(spot for _, spot in sorted(shown, key=lambda one: one[0])))
    return {
        "seen_recall": recall(stack, gold.grades.keys()),
        "seen_ndcg": min(1.0, ndcg(stack, gold.grades)),
    }


def _image(gold: Gold, one: ImageShown, clips: frozenset[str]) -> Spot:
    moving = one.seconds is not None or one.item in clips
    moment = None if one.seconds is None else (one.seconds, one.seconds)
    return gold.spot(one.item, one.document, one.page, ItemKind.CLIP if moving else ItemKind.PAGE, moment)


def _passage(gold: Gold, one: PassageShown) -> Spot:
    return gold.spot(one.item, one.document, one.page, ItemKind.PASSAGE)
