"""r_Ret: whether the run looked at the gold pages, and how early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.cases.gold import gold_pages
from vrag.metrics import ndcg
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.agent.events import ImageShown
    from vrag.agent.runs.trajectory import Trajectory
    from vrag.types import Case

__all__ = ["clips_known", "images_looked_at", "pages_looked_at", "retrieval_reward"]


def retrieval_reward(case: Case, run: Trajectory) -> float:
    """The nDCG of the pages that the model was shown, in the order shown, 0 to 1.

    VRAG-RL (arXiv 2505.22019, §3): DCG = Σ (2^s - 1) / log2(i + 1) over the stack of pages, s in {0, 1};
    the ideal has *all* gold pages in front, however few were shown. Evaluation of a search cuts the ideal
    at k instead; see `vrag.metrics.ndcg`.

    Args:
        case: Its gold pages are those numbers in the document of that file name; without any it is 0.
        run: Whose pages; see `pages_looked_at`.
    """
    return min(1.0, ndcg(pages_looked_at(run), gold_pages(case)))  # a sum of floats can end a hair above 1


def pages_looked_at(run: Trajectory) -> tuple[tuple[str, int], ...]:
    """Pages that the model was shown whole, in order, each once: file name of the document, and number.

    Crops, passages, clips and frames are no pages: they match none, and take up no place. That a picture
    of VRAG is one of a clip, its search says, or the evidence.
    """
    clips = clips_known(run)
    pages = (one for one in images_looked_at(run) if one.seconds is None and one.item not in clips)
    return tuple(dict.fromkeys((one.document, one.page) for one in pages))


def images_looked_at(run: Trajectory) -> Iterator[ImageShown]:
    """All that the model was shown whole, in order: pages, and frames of clips."""
    return (image for step in run.steps for image in step.shown if not image.crop)


def clips_known(run: Trajectory) -> frozenset[str]:
    """Ids of the items that are known to be stretches of videos."""
    found = {hit.item for step in run.steps for hit in step.hits if hit.kind is not ItemKind.PAGE}
    return frozenset(found | {one.item for one in run.evidence if one.kind is not ItemKind.PAGE})
