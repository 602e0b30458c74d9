"""Measures of rankings: the gold among search results, and among what a run was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.relevance import Gold
from vrag.metrics import ndcg, recall, reciprocal_rank
from vrag.reward.parts import clips_known, images_looked_at
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.agent.events import ImageShown, PassageShown
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.relevance import DocumentNames, Gold, Spot
    from vrag.types import Case

RANKING: Mapping[str, Callable[[Sequence[Spot], Mapping[Spot, int]], float]] = {
    "ndcg@5": lambda found, gold: ndcg(found, gold, 5),
    "ndcg@10": lambda found, gold: ndcg(found, gold, 10),
    "recall@1": lambda found, gold: recall(found, gold.keys(), 1),
    "recall@3": lambda found, gold: recall(found, gold.keys(), 3),
    "recall@5": lambda found, gold: recall(found, gold.keys(), 5),
    "recall@10": lambda found, gold: recall(found, gold.keys(), 10),
    "mrr": lambda found, gold: reciprocal_rank(found, gold.keys()),
}
"""Measures of a ranking and the grades of the gold; see `vrag.metrics`."""

DOCUMENT_RECALL = "document_recall@10"
_DEPTH = 10


def ranking_measures(found: Sequence[Spot], documents: Sequence[str], gold: Gold) -> dict[str, float]:
    """Return all measures of a ranking, best first, with the document of each; none without gold."""
    if not gold.grades:
        return {}
    measured = {name: measure(found, gold.grades) for name, measure in RANKING.items()}
    return measured | {DOCUMENT_RECALL: document_recall(documents, gold.documents, _DEPTH)}


def document_recall(documents: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return the share of the gold documents of which something is among the first `k`, 0 without gold.

    As in M3DocRAG (Cho et al. 2024, arXiv 2411.04952) a document takes up a place with each of its pages.

    >>> document_recall(["a.pdf", "a.pdf", "b.pdf"], {"a.pdf", "b.pdf"}, 2)
    0.5
    """
    return recall(documents, gold, k)


LOOKING: Mapping[str, str] = {
    "seen_recall": "share of the gold that the model was shown",
    "seen_ndcg": "the same, and how early; the ideal has all the gold in front",
}
"""Names and definitions."""


def looking(
    case: Case, run: RunResult, names: DocumentNames, passages: Iterable[PassageShown] = ()
) -> dict[str, float]:
    """Measure the gold that a run was shown; nothing where the case has none.

    The ranking is the stack of what was shown whole, each once at its first place, as in the reward
    (`vrag.reward.parts`); crops take up no place. Here a document counts by all its names, documents that
    are gold as a whole by any item of theirs, grades count, and frames count where they lie in a gold
    stretch of a video.

    A run whose images of clips have no time (VRAG's) is not measured on gold stretches.

    Args:
        case: Its gold.
        run: The run.
        names: Names of the documents that were searched.
        passages: Texts that it was shown, which a trajectory does not hold; they come after the images of
            the same step.
    """
    gold = Gold.of(case, names)
    clips = clips_known(run)
    images = list(images_looked_at(run))
    untimed = any(image.item in clips and image.seconds is None for image in images)
    if not gold.grades or (case.spans and untimed):
        return {}
    shown = [(image.step, _image(gold, image, clips)) for image in images]
    shown += [
        (text.step, gold.spot(text.item, text.document, text.page, ItemKind.PASSAGE)) for text in passages
    ]
    stack = list(dict.fromkeys(spot for _, spot in sorted(shown, key=lambda each: each[0])))
    return {
        "seen_recall": recall(stack, gold.grades.keys()),
        "seen_ndcg": min(1.0, ndcg(stack, gold.grades)),
    }


def _image(gold: Gold, image: ImageShown, clips: frozenset[str]) -> Spot:
    is_clip = image.seconds is not None or image.item in clips
    moment = None if image.seconds is None else (image.seconds, image.seconds)
    kind = ItemKind.CLIP if is_clip else ItemKind.PAGE
    return gold.spot(image.item, image.document, image.page, kind, moment)
