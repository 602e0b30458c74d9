"""Chains of evidence: whether an answer rests on the gold page, region and fact, stage by stage.

DocScope (Feng et al. 2026, arXiv 2605.08888) found that at most 29 % of right answers have a complete chain
of page, region and fact. Here the stages are measured of any questions with gold pages, without a model:

- *page*: a gold page is among the pages of the evidence that the answer cites (`RunResult.rests`).
- *region*: a rectangle that the model itself points at lies in a gold box on its page, by half of its area
  or more; or it covers the centre of one, and is at most a quarter of the page. A whole page points at no
  region, unless the gold box is half of it. Rectangles that were found by the words of an answer are not the
  model's (`vrag.reward.parts.pointed_boxes`); those of a run without a model are.
- *fact*: the words of the cited evidence say the gold answer, or the gold facts where a data set has them (by
  the rules of the verifier). Measured where the words of the gold boxes, or of the gold pages without boxes,
  do: not of answers that are computed, drawn, or yes and no.
- *answer*: the answer is right, by the judge or the rules that decide on the outcome.

A stage that cannot be measured for a question is passed over. A run that failed, abstained or never answered
cites nothing: its chain breaks at the page. Questions that cannot be answered have no chain.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.cases import UNANSWERABLE
from vrag.cases.rows import literal_list
from vrag.errors import CaseError
from vrag.evaluation.relevance import Gold, is_text
from vrag.geometry import Box
from vrag.metrics import region_iou
from vrag.reading.answer import ReadPage
from vrag.reading.verification.claim import HELD, VERIFIED, ClaimVerdict, worst_verdict
from vrag.reading.verification.verifier import ClaimSource, check_claims
from vrag.reward.parts import best_annotator, pointed_boxes
from vrag.text.folding import fold_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.relevance import DocumentNames
    from vrag.types import Case, Item, Region

    ItemOf = Callable[[str], Item | None]
    """Returns the item with an id; None where there is none."""
    _Page = tuple[str, int]
    _Place = tuple[Item, Sequence[Box] | None]
    """An item, and the parts of it that are meant; None for all of it."""

STAGES: Mapping[str, str] = {
    "chain_page": "a gold page is among the pages of the cited evidence",
    "chain_region": "a rectangle of the model lies in a gold box by half, or is small and covers the centre",
    "chain_fact": "the words of the cited evidence say the gold answer or facts, where those of the gold do",
    "chain_answer": "the answer is right, of questions with gold pages",
}
"""Stages in order, and their definitions."""

CHAINS: Mapping[str, str] = {
    **STAGES,
    "cited_page_recall": "share of the gold pages that are cited",
    "region_f1": "F1 of the area that the model points at and the gold, the mean over gold pages (ViDoRe v3)",
    "region_iou": "intersection over union of the same areas",
    "region_given_page": "of chains that hold up to the page, the share with the region",
    "fact_given_region": "of chains that hold up to the region, the share with the fact",
    "answer_given_fact": "of chains that hold up to the fact, the share with a right answer",
    "chain_complete": "all stages hold that can be measured",
    "chain_complete_right": "of right answers, the share with a complete chain",
}
"""Names and definitions."""

VERIFIER: Mapping[str, str] = {
    "claims_stated": "share of the claims of an answer that its evidence says, of those that text decides",
    "claims_verified": "share of the claims of an answer that are seen or computed",
    "doubted": "of answers whose claims were checked, the share with one that is doubted or not found",
    "doubt_recall": "of wrong answers, the share that is doubted",
    "doubt_precision": "of doubted answers, the share that is wrong",
    "wrong_verified": "of wrong answers, the share with all claims seen or computed",
    "right_doubted": "of right answers, the share with a claim that something else is said of",
}
"""Names and definitions."""

COMPACT = 0.25
"""Share of a page up to which a rectangle points at a place on it."""
HALF = 0.5
"""Share of a rectangle that lies in a gold box if it points at it."""
_CONDITIONAL = ("region_given_page", "fact_given_region", "answer_given_fact")


def chain(
    case: Case, run: RunResult, names: DocumentNames, items: ItemOf, *, right: bool | None
) -> dict[str, float]:
    """Measure the chain of a run by the names of `CHAINS`; nothing where the case has no gold or no answer.

    Args:
        case: The question.
        run: The run.
        names: Names of the documents that were searched.
        items: Returns items of the collection, for the words of pages.
        right: Whether the answer is right; None without a verdict.
    """
    gold = Gold.of(case, names)
    if not gold.grades or case.reference_answer == UNANSWERABLE:
        return {}
    cited = () if run.answer is None else run.rests
    pages = {gold.spot(item.item, item.document, item.page, item.kind, item.seconds) for item in cited}
    found = pages & gold.grades.keys()
    measures: dict[str, float] = {"cited_page_recall": len(found) / len(gold.grades)}
    regions = _gold_regions(case, names)
    stages: list[bool | None] = [bool(found), None, None, right]
    if regions:
        shown = _pointed_boxes(run, regions, names)
        stages[1] = any(_points(shown.get(page, ()), gold_boxes) for page, gold_boxes in regions.items())
        measures |= _overlap(shown, regions)
    stages[2] = _fact(case, cited, regions, names, items)
    measures |= {name: float(stage) for name, stage in zip(STAGES, stages, strict=True) if stage is not None}
    for number, name in enumerate(_CONDITIONAL, 1):
        stage = stages[number]
        if stage is not None and all(before is not False for before in stages[:number]):
            measures[name] = float(stage)
    if right is not None:
        measures["chain_complete"] = float(all(stage is not False for stage in stages))
    if right:
        measures["chain_complete_right"] = measures["chain_complete"]
    return measures


def _gold_regions(case: Case, names: DocumentNames) -> dict[_Page, list[Region]]:
    """Return the gold boxes by page, with one name for the same bytes."""
    known = names.distinct({region.document or case.file_name for region in case.regions})
    pages: defaultdict[_Page, list[Region]] = defaultdict(list)
    for region in case.regions:
        pages[known[region.document or case.file_name], region.page].append(region)
    return dict(pages)


def _pointed_boxes(
    run: RunResult, gold: Mapping[_Page, Sequence[Region]], names: DocumentNames
) -> dict[_Page, list[Box]]:
    """Return the rectangles that the model points at on pages with gold boxes; none without an answer."""
    documents = {name for name, _ in gold}
    pages: defaultdict[_Page, list[Box]] = defaultdict(list)
    for pointed in pointed_boxes(run) if run.answer is not None else ():
        name = names.among(documents, pointed.item, pointed.document)
        if name is not None:
            pages[name, pointed.page].append(pointed.box)
    return dict(pages)


def _points(shown: Iterable[Box], gold: Sequence[Region]) -> bool:
    """Return whether one of the rectangles points at one of the gold boxes; see the module."""
    return any(
        box.intersect(region.box).area >= HALF * box.area > 0
        or (box.area <= COMPACT and box.covers(*region.box.center))
        for box in shown
        for region in gold
    )


def _overlap(
    shown: Mapping[_Page, Sequence[Box]], gold: Mapping[_Page, Sequence[Region]]
) -> dict[str, float]:
    """Return F1 and IoU of the areas, the means over gold pages; a page without a rectangle has 0.

    ViDoRe v3 (Loison et al. 2026, arXiv 2601.08620) merges the boxes of each side on a page into one zone and
    takes the best match among its annotators; the mean over the gold pages of a question is ours.
    """
    f1: list[float] = []
    ious: list[float] = []
    for page, regions in gold.items():
        boxes = shown.get(page, ())
        score, zone = best_annotator(boxes, regions)
        f1.append(score)
        ious.append(region_iou(boxes, zone))
    return {"region_f1": math.fsum(f1) / len(f1), "region_iou": math.fsum(ious) / len(ious)}


def _fact(
    case: Case,
    cited: Sequence[Evidence],
    regions: Mapping[_Page, Sequence[Region]],
    names: DocumentNames,
    items: ItemOf,
) -> bool | None:
    """Return whether the cited words say the gold facts or answer; None where those of the gold do not."""
    gold = list(_gold_places(case, regions, names, items))
    boxes = [(items(piece.item), piece.box and (Box.unit(*piece.box),)) for piece in cited]
    shown = [(item, box) for item, box in boxes if item]
    if case.facts:
        facts = [fact.text for fact in case.facts if _state(gold, case.query, fact.text)]
        return all(_state(shown, case.query, fact) for fact in facts) if facts else None
    gold_words = AnswerWords.of(" ".join(text_inside(*place) for place in gold))
    right = [answer for answer in case.references if gold_words.say(answer)]
    if not right:
        return None
    cited_words = AnswerWords.of(" ".join(text_inside(*place) for place in shown))
    return any(map(cited_words.say, right))


def _gold_places(
    case: Case, regions: Mapping[_Page, Sequence[Region]], names: DocumentNames, items: ItemOf
) -> Iterable[_Place]:
    """Yield the pages with their gold boxes; the gold pages where there are none."""

    def page_item(name: str, page: int) -> Item | None:
        keys = sorted(names.by_name.get(name, ()))
        return next((item for key in keys if (item := items(f"{key}-{page}"))), None)

    for (name, page), found in regions.items():
        if item := page_item(name, page):
            yield item, tuple(region.box for region in found)
    if not regions:
        for name, kind, page in Gold.of(case, names).grades:
            if kind == "page" and not is_text(name) and (item := page_item(name, page)):
                yield item, None


def _state(places: Iterable[_Place], question: str, fact: str) -> bool:
    """Return whether the words of places support all that a fact claims, by the rules of the verifier."""
    sources = [ClaimSource(ReadPage(item), box) for item, boxes in places for box in (boxes or (None,))]
    checks = check_claims(question, fact, sources)
    return bool(checks) and all(
        check.verdict is ClaimVerdict.STATED and not check.outside for check in checks
    )


def text_inside(item: Item, boxes: Sequence[Box] | None) -> str:
    """Return the words whose centre lies in one of the boxes; the whole text without boxes of either."""
    if boxes is None or not item.words:
        return item.text
    inside = (word for word in item.words if any(box.covers(*word.box.center) for box in boxes))
    return " ".join(item.text[word.start : word.end] for word in inside)


_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\d+(?:\.\d+)?|[^\W\d_]+")
_THOUSANDS = re.compile(r"(?<=\d)[,'\u00a0\u2009\u202f](?=\d{3}(?!\d))")
"""Separators of thousands. A blank is none: it stands between the cells of a row."""
_YES_OR_NO = frozenset({"yes", "no"})


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """The words of a text in lower case, to look for answers in: numbers without separators of thousands."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> AnswerWords:
        """Split a text; ideographs are words of their own.

        >>> AnswerWords.of("48,200 km (in 2024)").words
        ('48200', 'km', 'in', '2024')
        """
        plain = fold_case(_THOUSANDS.sub("", text))
        return cls(tuple(_WORD.findall(plain)))

    def say(self, answer: str) -> bool:
        """Return whether the words of an answer stand in a row; of a list, those of each element.

        False for yes and no, which stand in any text.

        >>> AnswerWords.of("In all 48,200 people.").say("48200")
        True
        """
        elements: Sequence[object] = [answer]
        if answer.startswith("["):
            with suppress(CaseError):
                elements = literal_list({"answer": answer}, "answer") or elements
        return all(self._say(str(element)) for element in elements)

    def _say(self, answer: str) -> bool:
        wanted = AnswerWords.of(answer).words
        if not wanted or (len(wanted) == 1 and wanted[0] in _YES_OR_NO):
            return False
        starts = (at for at, word in enumerate(self.words) if word == wanted[0])
        return any(self.words[at : at + len(wanted)] == wanted for at in starts)


def verdict_of(run: RunResult) -> ClaimVerdict | None:
    """Return the verdict on an answer: that on its worst claim; None without an answer or a checked claim."""
    if run.answer is None:
        return None
    return worst_verdict(claim.verdict for claim in run.claims)


def verifier(run: RunResult, *, right: bool | None) -> dict[str, float]:
    """Measure the agreement of the verifier with the gold by the names of `VERIFIER`.

    Nothing where no claim was checked. `right` is whether the answer is right, None without a verdict.
    """
    verdict = verdict_of(run)
    if verdict is None:
        return {}
    decided = [claim for claim in run.claims if not claim.needs_picture]
    doubted = any(claim.verdict not in HELD for claim in decided)
    verified = sum(claim.verdict in VERIFIED for claim in run.claims) / len(run.claims)
    measures = {"doubted": float(doubted), "claims_verified": verified}
    if decided:
        measures["claims_stated"] = sum(claim.verdict in HELD for claim in decided) / len(decided)
    if right is False:
        measures["doubt_recall"] = float(doubted)
        measures["wrong_verified"] = float(verified == 1)
    if right:
        measures["right_doubted"] = float(verdict is ClaimVerdict.DOUBTED)
    if doubted and right is not None:
        measures["doubt_precision"] = float(not right)
    return measures


@dataclass(frozen=True, slots=True)
class StageCounts:
    """The chains that reach a stage and those that do not, in numbers of runs."""

    stage: str
    """A name of `STAGES`."""
    held: int
    """Chains that hold up to and including this stage."""
    unmeasured: int
    """Chains that hold up to here, of questions for which this stage cannot be measured."""
    broken: int
    """Chains that break here."""
    before: int
    """Chains that broke at an earlier stage."""


def count_stages(measured: Iterable[Mapping[str, float]]) -> tuple[StageCounts, ...]:
    """Count where chains break, of the measures of runs; empty without a chain.

    A stage that is measured of no question is left out.
    """
    chains = [measures for measures in measured if "chain_page" in measures]
    alive = [True] * len(chains)
    counts: list[StageCounts] = []
    for stage in [stage for stage in STAGES if any(stage in measures for measures in chains)]:
        values = [measures.get(stage) for measures in chains]
        held = sum(lives and bool(value) for lives, value in zip(alive, values, strict=True))
        unmeasured = sum(lives and value is None for lives, value in zip(alive, values, strict=True))
        before = len(chains) - sum(alive)
        alive = [lives and value != 0 for lives, value in zip(alive, values, strict=True)]
        counts.append(StageCounts(stage, held, unmeasured, len(chains) - before - held - unmeasured, before))
    return tuple(counts) if chains else ()
