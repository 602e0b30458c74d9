"""Whether the evidence of an answer stands where the answer does: its boxes against gold boxes."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from vrag.cases import gold_pages
from vrag.evaluation.measures.box_union import overlap
from vrag.evaluation.relevance import is_text
from vrag.geometry import Box
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.document_names import DocumentNames
    from vrag.types import Case

__all__ = ["GROUNDING", "grounding"]

GROUNDING: Mapping[str, str] = {
    "evidence_page": "the first evidence is on a gold page",
    "centre": "a box of the evidence covers the centre of a gold box",
    "iou": "intersection over union of evidence and gold, the best",
    "box_area": "share of a page that the boxes of the evidence cover together, where they are compared",
}
"""The names, and what each is, for people."""

_Page = tuple[str, int]
_WHOLE = Box.unit(0, 0, 1, 1)
_ALL = 0.99
"""Share of a page from which a box is the page."""


def grounding(case: Case, run: RunResult, names: DocumentNames) -> dict[str, float]:
    """How well the evidence of an answer points at what is gold.

    - Only answers with evidence that has a box, but for documents of text: abstentions show where the agent
      looked, and what was not answered stands nowhere. A picture shown whole is a box too, of the whole page.
    - A page that is evidence as a whole beside a part of it counts as the part: it is where the part was cut
      from. Agents that look closer name both, and a page covers all that is gold on it.
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
      several annotators drew of the same thing are no fault of the answer's.

    Args:
        case: Its gold.
        run: Its evidence.
        names: Of the documents that were searched.
    """
    gold = _gold_boxes(case)
    named = {name for name, _ in gold_pages(case) | gold.keys()}
    texts = any(map(is_text, named))
    cited = [one for one in run.evidence if _has_box(one) or (texts and one.kind is ItemKind.PASSAGE)]
    if run.answer is None or not cited or not named:
        return {}
    known = names.distinct(named)
    pages = {(known[name], page) for name, page in gold_pages(case) | gold.keys()}
    place = _page(cited[0], named, names)
    on_gold = is_text(place[0]) if cited[0].kind is ItemKind.PASSAGE else place in pages
    found = {"evidence_page": float(on_gold)}
    evidence = [(_page(one, named, names), _box(one)) for one in cited if _has_box(one)]
    return found | _against(evidence, _renamed(gold, known)) if gold and evidence else found


def _has_box(one: Evidence) -> bool:
    return one.kind is ItemKind.PAGE and one.box is not None


def _gold_boxes(case: Case) -> dict[_Page, list[Box]]:
    boxes: defaultdict[_Page, list[Box]] = defaultdict(list)
    for region in case.regions:
        boxes[region.document or case.file_name, region.page].append(region.box)
    return boxes


def _renamed(boxes: Mapping[_Page, Sequence[Box]], known: Mapping[str, str]) -> dict[_Page, list[Box]]:
    """With one name for the same bytes."""
    merged: defaultdict[_Page, list[Box]] = defaultdict(list)
    for (name, page), those in boxes.items():
        merged[known[name], page].extend(those)
    return merged


def _page(one: Evidence, wanted: AbstractSet[str], names: DocumentNames) -> _Page:
    """Under the name that the gold has for its document; under its id where it has none."""
    return names.among(wanted, one.document_id, one.document) or one.document_id, one.page


def _box(one: Evidence) -> Box:
    return Box.unit(*(one.box or _WHOLE.as_tuple()))


def _against(evidence: Sequence[tuple[_Page, Box]], gold: Mapping[_Page, Sequence[Box]]) -> dict[str, float]:
    """`centre` and `iou` over the pages that have both, and `box_area`."""
    shown = {page: _parts([box for on, box in evidence if on == page]) for page, _ in evidence}
    both = [(boxes, gold[page]) for page, boxes in shown.items() if page in gold]
    covered = [overlap(boxes, (_WHOLE,))[0] for boxes in ([boxes for boxes, _ in both] or shown.values())]
    return {
        "centre": float(any(_covers(boxes, those) for boxes, those in both)),
        "iou": max((_best_iou(boxes, those) for boxes, those in both), default=0.0),
        "box_area": math.fsum(covered) / len(covered),
    }


def _parts(boxes: list[Box]) -> list[Box]:
    """Those that are less than the page, where there are any."""
    return [box for box in boxes if box.intersect(_WHOLE).area < _ALL] or boxes


def _covers(boxes: Iterable[Box], gold: Sequence[Box]) -> bool:
    return any(box.covers(*one.center) for box in boxes for one in gold)


def _best_iou(boxes: Sequence[Box], gold: Sequence[Box]) -> float:
    return max(_iou(one, other) for one in _choices(boxes) for other in _choices(gold))


def _choices(boxes: Sequence[Box]) -> list[Sequence[Box]]:
    """Each box alone, and all together."""
    return [*([box] for box in boxes), boxes]


def _iou(one: Sequence[Box], other: Sequence[Box]) -> float:
    common, united = overlap(one, other)
    return common / united if united > 0 else 0.0
