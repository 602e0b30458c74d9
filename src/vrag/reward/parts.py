"""The parts of a reward that need no judge: retrieval (r_Ret), format (r_Pat), and those of the evidence."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from vrag.agent.actions import ABSTENTION, Flag
from vrag.agent.events import ImageShown, StopReason
from vrag.agent.runs.run_result import RunResult, RunStep
from vrag.cases.annotations import UNANSWERABLE, gold_pages
from vrag.geometry import Box
from vrag.metrics import ndcg, normalised, region_f1
from vrag.reading.verification.claim import HELD
from vrag.types import Case, ItemKind, Region

WHOLE_PAGE = Box.unit(0, 0, 1, 1)
_PART = 0.99
"""Share of a page up to which a box is a part of it."""


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


def cited_boxes(boxes: Iterable[Box]) -> list[Box]:
    """Return the boxes that evidence on one page points at: its parts, or the page where it has none.

    A page that is evidence as a whole beside a part of it counts as the part, which was cut from it.
    """
    found = list(boxes)
    return [box for box in found if box.intersect(WHOLE_PAGE).area < _PART] or found


@dataclass(frozen=True, slots=True)
class PointedBox:
    """A rectangle on a page that a model points at."""

    item: str
    """Id of the page."""
    document: str
    """File name of its document."""
    page: int
    """Its number, from 1."""
    box: Box
    """Fractions of the page, 0 to 1."""


def pointed_boxes(run: RunResult) -> list[PointedBox]:
    """List the rectangles that the model of a run gave itself, in order: its crops.

    - Of a crop (`RunStep.crop`) that was carried out, the part of the page that the model was shown counts,
      with the padding of the environment. Nothing that was found by the words of its answer counts, no page
      that a search has shown whole, and nothing of clips.
    - Where the answer names some of these pictures as evidence (`RunResult.named`), the others do not count.
    - Of those that count, a crop in which a later one of the same item lies, by 99 % of the later one, was a
      step on the way there and does not count.

    A run without a model has the rectangles of the evidence that its answer rests on, clips left out, which
    are all of our own making; of a page that is cited whole as well as in part, the parts.
    """
    if run.is_without_model:
        return _evidence_boxes(run)
    clips = clips_known(run)
    crops = [
        image
        for step in run.steps
        for image in step.shown
        if step.crop is not None and image.crop and image.seconds is None and image.item not in clips
    ]
    named = [image for image in crops if image.sha256 in run.named]
    boxes = [
        PointedBox(image.item, image.document, image.page, Box.unit(*image.box)) for image in named or crops
    ]
    return [one for at, one in enumerate(boxes) if not any(_holds(one, later) for later in boxes[at + 1 :])]


def _evidence_boxes(run: RunResult) -> list[PointedBox]:
    """List the rectangles of what an answer rests on; of a page that is cited whole as well, the parts."""
    cited = [item for item in (run.rests if run.answer is not None else ()) if item.kind is ItemKind.PAGE]
    found: list[PointedBox] = []
    for item in cited:
        boxes = cited_boxes(Box.unit(*one.box) for one in cited if one.item == item.item and one.box)
        if item.box is not None and Box.unit(*item.box) in boxes:
            found.append(PointedBox(item.item, item.document, item.page, Box.unit(*item.box)))
    return found


def _holds(one: PointedBox, later: PointedBox) -> bool:
    return one.item == later.item and one.box.intersect(later.box).area >= _PART * later.box.area


def gold_boxes(case: Case) -> dict[tuple[str, int], list[Region]]:
    """Return the gold boxes of a case by page: file name of the document and number."""
    pages: defaultdict[tuple[str, int], list[Region]] = defaultdict(list)
    for region in case.regions:
        pages[region.document or case.file_name, region.page].append(region)
    return dict(pages)


def region_reward(case: Case, run: RunResult) -> float:
    """Return how well the rectangles that the model points at meet the gold boxes of a case, 0 to 1.

    - A run that gave no answer has 0. "Not answerable" is an answer here.
    - Where no box is wanted, as the case has no gold boxes, it is 1.
    - Else it is the mean over the pages with gold boxes of 2 |F ∩ G| / (|F| + |G|), where |·| is an area, F
      is all that the rectangles of the run on that page cover together (`pointed_boxes`), and G all that the
      gold boxes of one annotator there cover together. Of several annotators on a page the one with the
      highest value counts. A page on which the model points at nothing has 0, and so has an abstention.

    Pages are the same if the names of their documents and their numbers are: that of a gold box is its own
    (`Region.document`), or that of the case. Trainers and evaluations record file names; a run of `vrag ask`
    has the paths below the folder that was asked, which match only at its top.
    """
    gold = gold_boxes(case)
    if answer_of(run) is None:
        return 0.0
    if not gold:
        return 1.0
    found: defaultdict[tuple[str, int], list[Box]] = defaultdict(list)
    for pointed in pointed_boxes(run) if run.answer is not None else ():
        found[pointed.document, pointed.page].append(pointed.box)
    return math.fsum(best_annotator(found[page], regions)[0] for page, regions in gold.items()) / len(gold)


def best_annotator(found: Sequence[Box], gold: Sequence[Region]) -> tuple[float, list[Box]]:
    """Return the F1 of boxes with those of the annotator whom they meet best on a page, and that one's boxes.

    Grounding of ViDoRe v3 (arXiv 2601.08620): each annotator's boxes are one zone, and the best match counts.
    """
    zones: defaultdict[str, list[Box]] = defaultdict(list)
    for region in gold:
        zones[region.annotator].append(region.box)
    return max(((region_f1(found, zone), zone) for zone in zones.values()), key=lambda each: each[0])


def support_reward(case: Case, run: RunResult) -> float | None:
    """Return the share of the claims of an answer that its evidence says, 0 to 1.

    Claims that only a look at the picture can decide do not count. None where no claim was checked or
    decided: that says nothing about the answer. An abstention claims that the documents have no answer: 1
    where that is so, else 0. A run without an answer supports nothing: 0.
    """
    if run.stop_reason is StopReason.ABSTAINED:
        return float(case.reference_answer == UNANSWERABLE)
    if run.answer is None:
        return 0.0
    decided = [claim for claim in run.claims if not claim.needs_picture]
    return sum(claim.verdict in HELD for claim in decided) / len(decided) if decided else None


def attribution_reward(case: Case, run: RunResult, *, correct: bool) -> float:
    """Return the region reward of a right answer, and 0 of any other.

    Evidence is paid for only where the answer is right, as in "Look As You Think" (Liu et al. 2025,
    arXiv 2511.12003): a model cannot live off good rectangles and wrong answers. The paper compares the
    evidence of each step of the reasoning with the picture; here it is compared with the gold boxes.
    """
    return region_reward(case, run) if correct else 0.0


def excess_turns(run: RunResult) -> int:
    """Count the model calls of a run beyond two: a search and an answer, the least that it takes."""
    return max(0, len(run.steps) - 2)


def repeated_searches(run: RunResult) -> int:
    """Count the searches of a run in the words of an earlier one, whatever their order and case.

    A repeated search may be of use, as it shows the next hits: that is why it costs nothing by default.
    """
    queries = [frozenset(normalised(step.query or "").split()) for step in run.steps if searches(step)]
    return len(queries) - len(set(queries))
