"""Measures of grounding: the boxes of the evidence against gold boxes."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from vrag.cases import gold_pages
from vrag.evaluation.measures.regions import overlap
from vrag.evaluation.relevance import is_text
from vrag.geometry import Box
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.relevance import DocumentNames
    from vrag.types import Case

GROUNDING: Mapping[str, str] = {
    "evidence_page": "the first evidence is on a gold page",
    "centre": "a box of the evidence covers the centre of a gold box",
    "iou": "intersection over union of evidence and gold, the best",
    "box_area": "share of a page that the boxes of the evidence cover together, where they are compared",
}
"""Names and definitions."""

_Page = tuple[str, int]
_WHOLE = Box.unit(0, 0, 1, 1)
_ALL = 0.99
"""Share of a page from which a box counts as the page."""


def grounding(case: Case, run: RunResult, names: DocumentNames) -> dict[str, float]:
    """Measure how well the evidence of an answer points at the gold.

    - Measured are answers with evidence that has a box, and those on documents of text. Abstentions show
      where the agent looked, and are not measured. An image shown whole is a box too, of the whole page.
    - A page that is evidence as a whole beside a part of it counts as the part, which was cut from it. Agents
      that look closer name both, and a page covers all gold on it.
    - `evidence_page` is of cases with gold pages or boxes, the others of cases with gold boxes.
    - A document of text has no pages: where one of it is gold, any passage of it is evidence on it
      (`vrag.evaluation.relevance.is_text`), and passages of others are evidence elsewhere.
    - Boxes are compared with those on the same page of the same bytes, whatever the file is called. Clips
      and passages are not pages.
    - `centre` is the converse of the pointing game (Zhang et al. 2018, IJCV 126:1084), which asks whether a
      point lies in the gold box. A box of the whole page covers every centre, and so do several that cover
      it together: read it beside `iou` and `box_area`.
    - `box_area` is how likely a point drawn at random would be covered: the share of the page that all boxes
      of the evidence on it cover together, no area counted twice. It is of the pages on which evidence and
      gold are compared, the mean where they are several; where there is none, of the pages of the evidence.
    - `iou` is the best of any page: of one box or all of the evidence there together, and one gold box or
      all of them together, so that a table may be one box or a box for each of its rows, and boxes that
      several annotators drew of the same thing are not the fault of the answer.

    Args:
        case: Its gold.
        run: Its evidence.
        names: Names of the documents that were searched.
    """
    gold = _gold_boxes(case)
    named = {name for name, _ in gold_pages(case) | gold.keys()}
    texts = any(map(is_text, named))
    cited = [item for item in run.evidence if _has_box(item) or (texts and item.kind is ItemKind.PASSAGE)]
    if run.answer is None or not cited or not named:
        return {}
    known = names.distinct(named)
    pages = {(known[name], page) for name, page in gold_pages(case) | gold.keys()}
    place = _page(cited[0], named, names)
    on_gold = is_text(place[0]) if cited[0].kind is ItemKind.PASSAGE else place in pages
    found = {"evidence_page": float(on_gold)}
    evidence = [
        (_page(item, named, names), Box.unit(*(item.box or _WHOLE.as_tuple())))
        for item in cited
        if _has_box(item)
    ]
    if not gold or not evidence:
        return found
    merged: defaultdict[_Page, list[Box]] = defaultdict(list)  # with one name for the same bytes
    for (name, page), boxes in gold.items():
        merged[known[name], page].extend(boxes)
    return found | _compare(evidence, merged)


def _has_box(item: Evidence) -> bool:
    return item.kind is ItemKind.PAGE and item.box is not None


def _gold_boxes(case: Case) -> dict[_Page, list[Box]]:
    boxes: defaultdict[_Page, list[Box]] = defaultdict(list)
    for region in case.regions:
        boxes[region.document or case.file_name, region.page].append(region.box)
    return boxes


def _page(item: Evidence, gold: AbstractSet[str], names: DocumentNames) -> _Page:
    """Return the page under the name that the gold has for its document; under its id where it has none."""
    return names.among(gold, item.document_id, item.document) or item.document_id, item.page


def _compare(evidence: Sequence[tuple[_Page, Box]], gold: Mapping[_Page, Sequence[Box]]) -> dict[str, float]:
    """Return `centre` and `iou` over the pages that have both, and `box_area`."""
    shown = {page: _parts([box for at, box in evidence if at == page]) for page, _ in evidence}
    both = [(boxes, gold[page]) for page, boxes in shown.items() if page in gold]
    areas = [overlap(boxes, (_WHOLE,))[0] for boxes in ([boxes for boxes, _ in both] or shown.values())]
    centred = (
        box.covers(*right.center) for boxes, gold_boxes in both for box in boxes for right in gold_boxes
    )
    ious = [
        _iou(some, right)
        for boxes, gold_boxes in both
        for some in _sets(boxes)
        for right in _sets(gold_boxes)
    ]
    return {
        "centre": float(any(centred)),
        "iou": max(ious, default=0.0),
        "box_area": math.fsum(areas) / len(areas),
    }


def _parts(boxes: list[Box]) -> list[Box]:
    """Return the boxes that are less than the page, where there are any."""
    return [box for box in boxes if box.intersect(_WHOLE).area < _ALL] or boxes


def _sets(boxes: Sequence[Box]) -> list[Sequence[Box]]:
    """Return each box alone, and all together."""
    return [*([box] for box in boxes), boxes]


def _iou(one: Sequence[Box], other: Sequence[Box]) -> float:
    common, united = overlap(one, other)
    return common / united if united > 0 else 0.0
