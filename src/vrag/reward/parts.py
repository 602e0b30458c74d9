"""The parts of a reward that need no judge: retrieval (r_Ret) and format (r_Pat)."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from vrag.agent.actions import ABSTENTION, Flag
from vrag.agent.events import ImageShown, StopReason
from vrag.agent.runs.run_result import RunResult, RunStep
from vrag.cases.annotations import gold_pages
from vrag.metrics import ndcg
from vrag.types import Case, ItemKind


def retrieval_reward(case: Case, run: RunResult) -> float:
    """Return the nDCG of the pages that the model was shown, in the order shown, 0 to 1.

    VRAG-RL (arXiv 2505.22019, §3): DCG = Σ (2^s - 1) / log2(i + 1) over the stack of pages, s in {0, 1};
    the ideal has *all* gold pages in front, however few were shown. Evaluation of a search cuts the ideal
    at k instead; see `vrag.metrics.ndcg`. Gold pages are those numbers in the document of that file name;
    without any the reward is 0.
    """
    return min(1.0, ndcg(pages_looked_at(run), gold_pages(case)))  # a sum of floats can end a hair above 1


def pages_looked_at(run: RunResult) -> tuple[tuple[str, int], ...]:
    """List the pages that the model was shown whole, in order, each once: file name and page number.

    Crops, passages, clips and frames are no pages: they match none, and take up no place. Whether an image
    of VRAG is one of a clip is known from its search, or the evidence.
    """
    clips = clips_known(run)
    pages = (page for page in images_looked_at(run) if page.seconds is None and page.item not in clips)
    return tuple(dict.fromkeys((page.document, page.page) for page in pages))


def images_looked_at(run: RunResult) -> Iterator[ImageShown]:
    """Yield the images that the model was shown whole, in order: pages, and frames of clips."""
    return (image for step in run.steps for image in step.shown if not image.crop)


def clips_known(run: RunResult) -> frozenset[str]:
    """Collect the ids of the items that are known to be clips of videos."""
    found = {hit.item for step in run.steps for hit in step.hits if hit.kind is not ItemKind.PAGE}
    return frozenset(found | {item.item for item in run.evidence if item.kind is not ItemKind.PAGE})


def pattern_reward(run: RunResult, *, tolerated: AbstractSet[Flag] = frozenset()) -> float:
    """Return 1 for at least one search, one answer, and every turn by the grammar; else 0.

    The same for both agents: it asks what was carried out, not what the text looks like. The reference
    (VRAG-RL) searches the whole transcript for tags, and takes those of its own error message for the
    model's. A run ends with its first answer, so that one is all it can have; a second one in the same
    reply is dropped and flagged. Flags of a reply that are `tolerated` cost nothing. By default each of them
    costs all: text after the action, which was dropped, and an action without a thought.
    """
    clean = all(step.invalid is None and not set(step.flags) - tolerated for step in run.steps)
    return float(clean and searched(run) and answer_of(run) is not None)


def searched(run: RunResult) -> bool:
    """Check whether a search was carried out: one without hits counts, a refused one does not."""
    return any(map(searches, run.steps))


def searches(step: RunStep) -> bool:
    """Check whether a search was carried out in this step.

    A custom tool has a query as well; what the graph refuses was announced before.
    """
    return step.query is not None and step.action is None and step.invalid is None


def answer_of(run: RunResult) -> str | None:
    """Return the answer of a run, "Not answerable" for an abstention; None when it ended without one."""
    return ABSTENTION if run.stop_reason is StopReason.ABSTAINED else run.answer
