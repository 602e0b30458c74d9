"""Measures of a run: what it was shown, its evidence, what its result is worth, its conduct and its cost.

Each function returns numbers by name, 0 to 1 unless stated; what cannot be measured is missing.

HotpotQA and WebQA score the sources of a system by documents (`citing`), here in the place of HotpotQA's
sentences. Sentences are not scored: an agent points at a passage as a whole, of which the run keeps the first
600 characters. The sentences in them would measure how long paragraphs are, not how it chose.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from vrag.agent.actions import Flag
from vrag.agent.events import StopReason
from vrag.agent.runs.run_result import ResultKind
from vrag.cases import gold_documents, gold_pages
from vrag.evaluation.measures.docscope import COUNTED
from vrag.evaluation.relevance import Gold, is_text
from vrag.geometry import Box
from vrag.metrics import ndcg, overlap, recall
from vrag.reward.parts import WHOLE_PAGE, cited_boxes, clips_known, images_looked_at, searches
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.agent.events import ImageShown, PassageShown
    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.relevance import DocumentNames, Spot
    from vrag.types import Case

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
    `passages` are texts that it was shown, which a trajectory does not hold; they come after the images of
    the same step.
    """
    gold = Gold.of(case, names)
    clips = clips_known(run)
    images = list(images_looked_at(run))
    untimed = any(image.item in clips and image.seconds is None for image in images)
    if not gold.grades or (case.spans and untimed):
        return {}

    def image_spot(image: ImageShown) -> Spot:
        kind = ItemKind.CLIP if image.seconds is not None or image.item in clips else ItemKind.PAGE
        moment = None if image.seconds is None else (image.seconds, image.seconds)
        return gold.spot(image.item, image.document, image.page, kind, moment)

    shown = [(image.step, image_spot(image)) for image in images]
    shown += [
        (text.step, gold.spot(text.item, text.document, text.page, ItemKind.PASSAGE)) for text in passages
    ]
    stack = list(dict.fromkeys(spot for _, spot in sorted(shown, key=lambda each: each[0])))
    return {"seen_recall": recall(stack, gold.grades.keys()), "seen_ndcg": min(1.0, ndcg(stack, gold.grades))}


GROUNDING: Mapping[str, str] = {
    "evidence_page": "the first evidence is on a gold page",
    "centre": "a box of the evidence covers the centre of a gold box",
    "iou": "intersection over union of evidence and gold, the best",
    "box_area": "share of a page that the boxes of the evidence cover together, where they are compared",
}
"""Names and definitions."""

_Page = tuple[str, int]


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
    """
    gold: defaultdict[_Page, list[Box]] = defaultdict(list)
    for region in case.regions:
        gold[region.document or case.file_name, region.page].append(region.box)
    named = {name for name, _ in gold_pages(case) | gold.keys()}
    texts = any(map(is_text, named))
    boxed = [item for item in run.evidence if item.kind is ItemKind.PAGE and item.box is not None]
    cited = [item for item in run.evidence if item in boxed or (texts and item.kind is ItemKind.PASSAGE)]
    if run.answer is None or not cited or not named:
        return {}
    known = names.distinct(named)
    pages = {(known[name], page) for name, page in gold_pages(case) | gold.keys()}
    place = _page(cited[0], named, names)
    on_gold = is_text(place[0]) if cited[0].kind is ItemKind.PASSAGE else place in pages
    found = {"evidence_page": float(on_gold)}
    evidence = [(_page(item, named, names), Box.unit(*(item.box or WHOLE_PAGE.as_tuple()))) for item in boxed]
    if not gold or not evidence:
        return found
    merged: defaultdict[_Page, list[Box]] = defaultdict(list)  # with one name for the same bytes
    for (name, page), boxes in gold.items():
        merged[known[name], page].extend(boxes)
    return found | _compare(evidence, merged)


def _page(item: Evidence, gold: AbstractSet[str], names: DocumentNames) -> _Page:
    """Return the page under the name that the gold has for its document; under its id where it has none."""
    return names.among(gold, item.document_id, item.document) or item.document_id, item.page


def _compare(evidence: Sequence[tuple[_Page, Box]], gold: Mapping[_Page, Sequence[Box]]) -> dict[str, float]:
    """Return `centre` and `iou` over the pages that have both, and `box_area`."""
    shown: dict[_Page, list[Box]] = {}
    for page, _ in evidence:
        boxes = [box for at, box in evidence if at == page]
        shown[page] = cited_boxes(boxes)
    both = [(boxes, gold[page]) for page, boxes in shown.items() if page in gold]
    areas = [overlap(boxes, (WHOLE_PAGE,))[0] for boxes in ([boxes for boxes, _ in both] or shown.values())]
    centred = (
        box.covers(*right.center) for boxes, gold_boxes in both for box in boxes for right in gold_boxes
    )
    areas_of_both = (
        overlap(some, right)
        for boxes, gold_boxes in both
        for some in _sets(boxes)
        for right in _sets(gold_boxes)
    )
    ious = (common / united for common, united in areas_of_both if united > 0)
    return {
        "centre": float(any(centred)),
        "iou": max(ious, default=0.0),
        "box_area": math.fsum(areas) / len(areas),
    }


def _sets(boxes: Sequence[Box]) -> list[Sequence[Box]]:
    """Return each box alone, and all together."""
    return [*([box] for box in boxes), boxes]


CITING: Mapping[str, str] = {
    "cited_em": "the documents of the evidence are the gold ones, all of them and no other",
    "cited_f1": "harmonic mean of the next two",
    "cited_precision": "share of the documents of the evidence that are gold",
    "cited_recall": "share of the gold documents that are in the evidence",
    "hotpotqa/joint_paragraph_em": "the answer is exact and so are the paragraphs of its evidence",
    "hotpotqa/joint_paragraph_f1": "F1 of the answer and the paragraphs of its evidence together",
}
"""Names and definitions."""


def citing(case: Case, run: RunResult, names: DocumentNames) -> dict[str, float]:
    """Measure how well the documents of the evidence agree with the gold ones; nothing for a case without.

    By the sets that `hotpot_evaluate_v1.py` (arXiv 1809.09600) takes precision and recall of, a document
    for a fact. Without an answer or without evidence all are 0, as of a missing prediction there. The same
    bytes under several names are one document, and pages or passages of a document are that document. Cases
    with gold pages are measured by `grounding`.
    """
    wanted = gold_documents(case)
    if not wanted or gold_pages(case):
        return {}
    gold = Gold.of(case, names)
    right = frozenset(names.distinct(wanted).values())
    evidence = () if run.answer is None else run.evidence
    cited = frozenset(gold.document(item.document_id, item.document) for item in evidence)
    precision = len(cited & right) / len(cited) if cited else 0.0
    recall = len(cited & right) / len(right)
    return {
        "cited_em": float(cited == right),
        "cited_f1": _f1(precision, recall),
        "cited_precision": precision,
        "cited_recall": recall,
    }


def joint(measures: Mapping[str, float]) -> dict[str, float]:
    """Return HotpotQA's joint measures, of answer and evidence: with paragraphs in the place of sentences.

    Precision and recall of both are multiplied, and so are both exact matches; F1 is of the products. Nothing
    where one of the measures that they are made of is missing.
    """
    parts = ("em", "hotpotqa/precision", "hotpotqa/recall", "cited_em", "cited_precision", "cited_recall")
    if any(name not in measures for name in parts):
        return {}
    em, precision, recall, cited_em, cited_precision, cited_recall = (measures[name] for name in parts)
    return {
        "hotpotqa/joint_paragraph_em": em * cited_em,
        "hotpotqa/joint_paragraph_f1": _f1(precision * cited_precision, recall * cited_recall),
    }


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


TRUST: Mapping[str, str] = {
    "right_answers": "share of questions with a right answer",
    "wrong_answers": "share with a wrong answer, such as any answer to a question that has none",
    "places": "share with places that may answer, and no answer",
    "nothing": "share with neither",
    "answer_precision": "of answers given, the share that is right",
    "wrong_but_seen": "share of questions with a wrong answer whose claims are all seen or computed",
}
"""Names and definitions."""

_VERIFIED = frozenset({"seen", "computed"})
"""Verdicts on claims that stand on the page, by a second reading of it."""


def trust(run: RunResult, *, answerable: bool, right: bool | None) -> dict[str, float]:
    """Measure what the result of a run is worth by the names of `TRUST`.

    The first four add up to 1. Nothing is measured of an answer without a verdict. `right` says whether the
    outcome is right: where a question has no answer, an answer that a judge takes for an abstention is
    nothing.
    """
    given = run.kind is ResultKind.ANSWER and (answerable or not right)
    if given and right is None:
        return {}
    wrong = given and not right
    seen = wrong and bool(run.claims) and all(claim.verdict in _VERIFIED for claim in run.claims)
    shows_places = run.kind not in {ResultKind.ANSWER, ResultKind.NONE}
    measures = {
        "right_answers": given and not wrong,
        "wrong_answers": wrong,
        "places": shows_places,
        "nothing": not given and not shows_places,
        "wrong_but_seen": seen,
    }
    if given:
        measures["answer_precision"] = not wrong
    return {name: float(value) for name, value in measures.items()}


CONDUCT: Mapping[str, str] = {
    "answered": "share that came to an end with an answer, or an abstention",
    "abstained": "share that abstained",
    "invalid": "share of turns that were not carried out",
    "repaired": "share of turns that break the grammar and were carried out, since their meaning is clear",
    "turns": "calls of the model",
    "searches": "searches carried out",
    "crops": "crops carried out",
    "prompt_tokens": "tokens read, over all turns",
    "completion_tokens": "tokens written",
    "visual_tokens": "tokens of the pictures in all prompts",
    "pixels": "pixels of the pictures in all prompts",
    "seconds": "from the first call to the end, without waiting for a place",
    "model_seconds": "of those, waiting for the model",
    "cost": "in the currency of the prices",
}
"""Names and definitions."""

COUNTS = (CONDUCT.keys() - {"answered", "abstained", "invalid", "repaired"}) | COUNTED.keys()
"""Measures that are not shares, and can be more than 1."""


def conduct(run: RunResult) -> dict[str, float]:
    """Measure the conduct and the cost of a run, which may have failed, or have been cut off.

    - `answered` and `abstained` are measured of every run, 0 for one that failed.
    - `invalid` and `repaired` are of runs with a turn; no turn is both, unless the graph refused what was
      repaired. A reply that was not carried out is a turn, and no search and no crop.
    - Tokens, pixels, seconds and costs are sums over the turns: a picture counts in every prompt that holds
      it. Unknown ones are left out, and all of them for a run that had no turn.
    - `seconds` counts what turns took, as their events say: the same from the file of the run as at once.
    """
    steps, usage = run.steps, run.usage
    measures: dict[str, float | None] = {
        "answered": run.stop_reason in {StopReason.ANSWERED, StopReason.ABSTAINED},
        "abstained": run.stop_reason is StopReason.ABSTAINED,
    }
    if steps:
        measures |= {
            "invalid": sum(step.invalid is not None for step in steps) / len(steps),
            "repaired": sum(Flag.REPAIRED in step.flags for step in steps) / len(steps),
            "turns": len(steps),
            "searches": sum(map(searches, steps)),
            "crops": sum(step.crop is not None and step.invalid is None for step in steps),
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost": usage.cost,
        }
    if any(step.usage is not None for step in steps):
        measures |= {
            "visual_tokens": usage.visual_tokens,
            "pixels": usage.pixels,
            "seconds": usage.seconds,
            "model_seconds": usage.model_seconds,
        }
    return {name: float(value) for name, value in measures.items() if value is not None}
