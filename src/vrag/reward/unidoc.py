"""The parts of UniDoc-RL's reward (Wang et al. 2026, arXiv 2604.14967), as the code of its `rm.py` has them.

A run is a sequence of rounds. A round begins with a search that shows up to three pages, of which the model
selects one by `<select>`; one that selects nothing has the first. Crops of pages follow.

Two deviations, where the code cannot be meant: its nDCG compares page names with sorted letters, so that it
is 0 for every run (here the names are compared), and its F1 exceeds 1 where one box meets several gold boxes
(here 1 is the most). A crop counts if it is of the page that is selected in the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vrag.agent.environment import SELECT
from vrag.agent.events import ImageShown
from vrag.agent.runs.run_result import RunResult, RunStep
from vrag.cases.annotations import gold_pages
from vrag.geometry import Box, iou
from vrag.metrics import ndcg
from vrag.reward.parts import answer_of, clips_known, gold_boxes, searches
from vrag.types import Case

CANDIDATES = 3
"""Pages of a search that can be selected."""
LEAST_IOU = 0.5
"""Intersection over union from which a box meets a gold box."""
_INFORMATION = re.compile(r"<information>.*</information>", re.DOTALL)

Page = tuple[str, int]
"""File name of a document, and number of a page."""


@dataclass(frozen=True, slots=True)
class SearchRound:
    """A search, and what followed until the next one."""

    candidates: tuple[Page, ...]
    """The pages that it showed, in order."""
    selected: Page | None
    """The page that was selected last; the first one where none was. None if nothing was shown."""
    crops: tuple[tuple[Page, Box], ...] = ()
    """The parts of pages that were shown by the first crop of the round on each page."""

    @property
    def boxes(self) -> list[Box]:
        """The boxes on the selected page."""
        return [box for page, box in self.crops if page == self.selected]


def search_rounds(run: RunResult) -> list[SearchRound]:
    """List the rounds of a run in order."""
    clips = clips_known(run)
    rounds: list[SearchRound] = []
    for step in run.steps:
        pages = [image for image in step.shown if image.seconds is None and image.item not in clips]
        if searches(step):
            shown = tuple(_page_of(image) for image in pages if not image.crop)[:CANDIDATES]
            rounds.append(SearchRound(shown, shown[0] if shown else None))
        elif rounds and selects(step) and pages:
            rounds[-1] = replace(rounds[-1], selected=_page_of(pages[0]))
        elif rounds and step.crop is not None:
            known = {page for page, _ in rounds[-1].crops}
            crops = [(_page_of(image), Box.unit(*image.box)) for image in pages if image.crop]
            new = tuple(crop for crop in crops if crop[0] not in known)
            rounds[-1] = replace(rounds[-1], crops=(*rounds[-1].crops, *new))
    return rounds


def selects(step: RunStep) -> bool:
    """Check whether a page was selected in this step."""
    return step.action == SELECT and step.invalid is None


def ranking_reward(case: Case, run: RunResult) -> float:
    """Return the nDCG of the pages shown: the first of each search, then the second, then the third."""
    rounds = search_rounds(run)
    ranking = [
        each.candidates[place]
        for place in range(CANDIDATES)
        for each in rounds
        if place < len(each.candidates)
    ]
    return min(1.0, ndcg(list(dict.fromkeys(ranking)), gold_pages(case)))


def selection_reward(case: Case, run: RunResult) -> float:
    """Return the share of searches of which the right page was selected; 0 without a search.

    Right is the first gold page that the search showed, or the first page where it showed none.
    """
    gold = gold_pages(case)
    rounds = search_rounds(run)
    right = [each.selected is not None and each.selected == _best(each.candidates, gold) for each in rounds]
    return sum(right) / len(right) if right else 0.0


def region_reward(case: Case, run: RunResult) -> float:
    """Return the mean over searches of the F1 of the boxes on the selected page with its gold boxes.

    A gold box is met by a box from an IoU of .5. Where a page has no gold boxes, no box is right. 0 without a
    search that showed a page.
    """
    gold = gold_boxes(case)
    scores = [
        _box_f1(each.boxes, [region.box for region in gold.get(each.selected, ())])
        for each in search_rounds(run)
        if each.selected is not None
    ]
    return math.fsum(scores) / len(scores) if scores else 0.0


def format_reward(run: RunResult) -> float:
    """Return 1 for a search, a selected page, an `<information>` element and an answer; .5 without an answer.

    0 without one of the others. Searches and selections are those that were carried out.
    """
    begun = any(map(searches, run.steps)) and any(map(selects, run.steps)) and any(_informs(run))
    return (1.0 if answer_of(run) is not None else 0.5) if begun else 0.0


def _informs(run: RunResult) -> Iterator[bool]:
    return (_INFORMATION.search(step.reply) is not None for step in run.steps)


def _page_of(image: ImageShown) -> Page:
    return image.document, image.page


def _best(candidates: Sequence[Page], gold: frozenset[Page] | set[Page]) -> Page | None:
    return next((page for page in candidates if page in gold), candidates[0] if candidates else None)


def _box_f1(found: Sequence[Box], gold: Sequence[Box]) -> float:
    if not found or not gold:
        return float(not found and not gold)
    met = sum(any(iou(box, one) >= LEAST_IOU for one in found) for box in gold)
    return min(1.0, 2 * met / (len(found) + len(gold)))
