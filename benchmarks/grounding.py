"""Does the evidence cover where the answer stands, and does the agent abstain when it should?

    python benchmarks/grounding.py DATASET.json --docs DIR [--collection DIR] [--full | --told]

Every question is put to the agent as `vrag ask` builds it, over all documents together. Printed side by
side: the agent, and two ways to answer without reading, on the first page it was shown: always the whole
page, always the middle quarter of the page.

Grounding is taken over the answerable questions with annotated regions. The first evidence box hits a
gold box when it lies on the same page of the same document and covers its centre. Readings of "at most
25 % of the page": the evidence box is that small (the whole page never hits); the gold box is that small
(the whole page hits wherever it is shown); both. IoU is the best with any gold box of the question, 0
where the page is wrong.

Region F1 and IoU are of areas: the boxes of all evidence on a page with gold boxes, merged, against its gold
boxes, merged; the mean over the gold pages of a question, 0 for a page that is not evidence (ViDoRe v3,
Loison et al. 2026, arXiv 2601.08620, measures the F1 of a page so). The first box points at a gold box when
its own centre lies in it.

With `--told`, no agent is asked: the gold pages are the evidence and the gold answer is the answer, as of a
model that says it without a closer look; printed are the boxes with and without looking for the answer there.

Abstention is counted on unanswerable questions (those without gold page whose type is "Unanswerable")
beside false abstention on all others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from vrag.geometry import Box, iou
from vrag.metrics import region_f1, region_iou

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.factory.session import Session
    from vrag.types import Case

COMPACT = 0.25
"""Share of the page up to which a box is compact."""
UNANSWERABLE = "unanswerable"
WHOLE = Box.unit(0.0, 0.0, 1.0, 1.0)
MIDDLE = Box.unit(0.25, 0.25, 0.75, 0.75)


@dataclass(frozen=True, slots=True)
class Place:
    """A box on a page from 1 of the document with this file name."""

    document: str
    page: int
    box: Box


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one question, whoever answered it."""

    case: Case
    answered: bool
    """False when the agent abstained."""
    first: Place | None
    """The first evidence; None when there is none with a box."""
    shown: tuple[tuple[str, int], ...]
    """File names and pages of the pages shown, in order."""
    seconds: float = 0.0
    boxes: tuple[Place, ...] = ()
    """All evidence with boxes."""
    marks: int = 0
    """Words and cells of the answer that are marked."""

    @property
    def answerable(self) -> bool:
        """Whether the question has an answer."""
        return self.case.query_type.casefold() != UNANSWERABLE

    @property
    def gold_on_first(self) -> list[Box]:
        """Gold boxes on the page of the first evidence."""
        first = self.first
        if first is None or first.document != self.case.file_name:
            return []
        return [region.box for region in self.case.regions if region.page == first.page]

    @property
    def overlap(self) -> float:
        """Best IoU of the first evidence with a gold box."""
        return max((iou(self.first.box, gold) for gold in self.gold_on_first if self.first), default=0.0)

    @property
    def points(self) -> bool:
        """Whether the centre of the first evidence, at most 25 % of the page, lies in a gold box."""
        first = self.first
        if first is None or first.box.area > COMPACT:
            return False
        return any(gold.covers(*first.box.center) for gold in self.gold_on_first)

    def overlap_of_areas(self, measure: Callable[[Sequence[Box], Sequence[Box]], float]) -> float:
        """Overlap of the evidence with the gold boxes of each page, the mean over pages with gold boxes."""
        pages = {region.page for region in self.case.regions}
        own = [place for place in self.boxes if place.document == self.case.file_name]
        return _mean(
            [
                measure(
                    [place.box for place in own if place.page == page],
                    [region.box for region in self.case.regions if region.page == page],
                )
                for page in pages
            ]
        )

    @property
    def gold_shown(self) -> bool:
        """Whether a gold page, or a page with a gold box, was shown."""
        pages = {*self.case.reference_page, *(region.page for region in self.case.regions)}
        return any(document == self.case.file_name and page in pages for document, page in self.shown)

    def hits(self, *, compact_evidence: bool, compact_gold: bool) -> bool:
        """Whether the first evidence covers the centre of a gold box, under one of the readings."""
        if self.first is None or (compact_evidence and self.first.box.area > COMPACT):
            return False
        golds = [gold for gold in self.gold_on_first if not compact_gold or gold.area <= COMPACT]
        return any(self.first.box.covers(*gold.center) for gold in golds)


Row = tuple[str, Callable[[float], str], float]
Columns = list[tuple[str, "Sequence[Outcome]"]]


def grounding(outcomes: Sequence[Outcome]) -> list[Row]:
    """Names, formats and values of what is measured about boxes."""
    asked = [outcome for outcome in outcomes if outcome.answerable and outcome.case.regions]
    boxes = [outcome.first.box for outcome in asked if outcome.first]
    small = [
        outcome for outcome in asked if any(region.box.area <= COMPACT for region in outcome.case.regions)
    ]

    def share(*, evidence: bool, gold: bool) -> float:
        return _mean([outcome.hits(compact_evidence=evidence, compact_gold=gold) for outcome in asked])

    return [
        ("answerable questions with regions", _whole, len(asked)),
        ("  of them with a gold box of at most 25 %", _whole, len(small)),
        ("hits, evidence box at most 25 %", _percent, share(evidence=True, gold=False)),
        ("hits, gold box at most 25 %", _percent, share(evidence=False, gold=True)),
        ("hits, both at most 25 %", _percent, share(evidence=True, gold=True)),
        ("centre in a gold box, evidence box at most 25 %", _percent, _mean([o.points for o in asked])),
        ("region F1", _fraction, _mean([o.overlap_of_areas(region_f1) for o in asked])),
        ("IoU of areas", _fraction, _mean([o.overlap_of_areas(region_iou) for o in asked])),
        ("answers with marked words or cells", _whole, sum(o.marks > 0 for o in asked)),
        ("median area of the evidence box", _percent, median([box.area for box in boxes] or [0.0])),
        ("median IoU", _fraction, median([outcome.overlap for outcome in asked] or [0.0])),
        ("mean IoU", _fraction, _mean([outcome.overlap for outcome in asked])),
        ("first evidence on a page with a gold box", _percent, _mean([bool(o.gold_on_first) for o in asked])),
        ("gold page among the pages shown", _percent, _mean([outcome.gold_shown for outcome in asked])),
    ]


def abstention(outcomes: Sequence[Outcome]) -> list[Row]:
    """Names, formats and values of what is measured about silence."""
    void = [outcome for outcome in outcomes if not outcome.answerable]
    rest = [outcome for outcome in outcomes if outcome.answerable]
    return [
        ("unanswerable questions", _whole, len(void)),
        ("answerable questions", _whole, len(rest)),
        ("abstained on unanswerable", _percent, _mean([not outcome.answered for outcome in void])),
        ("abstained on answerable (false)", _percent, _mean([not outcome.answered for outcome in rest])),
        ("answered from a page with gold", _percent, _mean([_right(o) for o in outcomes if o.answered])),
        ("seconds per question", _fraction, _mean([outcome.seconds for outcome in outcomes])),
    ]


def always(outcome: Outcome, box: Box) -> Outcome:
    """The outcome of answering every question with the same part of the first page shown."""
    first = Place(*outcome.shown[0], box) if outcome.shown else None
    boxes = (first,) if first else ()
    return Outcome(outcome.case, answered=True, first=first, shown=outcome.shown, boxes=boxes)


def outcome_of(case: Case, run: RunResult, workbench: Session) -> Outcome:
    """What came of a run of the agent."""
    items = (workbench.searcher.item(item) for item in run.pages_shown)
    shown = tuple((item.document_name, item.ordinal) for item in items)
    answered = run.answer is not None
    return _outcome(case, run.evidence, shown, answered=answered, seconds=run.usage.seconds)


def _outcome(
    case: Case,
    evidence: Sequence[Evidence],
    shown: tuple[tuple[str, int], ...],
    *,
    answered: bool = True,
    seconds: float = 0.0,
) -> Outcome:
    """What some evidence is worth."""
    boxes = tuple(Place(one.document, one.page, Box.unit(*one.box)) for one in evidence if one.box)
    marks = sum(len(one.marks) for one in evidence)
    return Outcome(case, answered, boxes[0] if boxes else None, shown, seconds, boxes, marks)


def tell(case: Case, workbench: Session) -> tuple[Outcome, Outcome] | None:
    """The evidence when a model says the gold answer on the gold pages: looked for, and as shown."""
    from vrag.agent.answers.answer_place import locate_answer
    from vrag.agent.evidence import picture_evidence
    from vrag.agent.question import Question
    from vrag.types import item_id

    environment = workbench.agent().environment
    document = next((one.id for one in workbench.documents if one.name == case.file_name), None)
    pages = sorted({*case.reference_page, *(region.page for region in case.regions)})
    if document is None or case.query_type.casefold() == UNANSWERABLE:
        return None
    items = [environment.item(item_id(document, page)) for page in pages]
    shown = tuple((item.document_name, item.ordinal) for item in items)
    evidence = [picture_evidence(environment.whole(item), item, "").evidence for item in items]
    found = locate_answer(Question(case.query), str(case.reference_answer), evidence, environment)
    return _outcome(case, found.evidence, shown), _outcome(case, evidence, shown)


def main() -> None:
    """Indexes what is new, asks every question, prints one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("dataset", type=Path, help="questions with gold pages and regions")
    parser.add_argument("--docs", type=Path, help="folder of documents to index first")
    parser.add_argument("--collection", type=Path, help="the collection; else the default one")
    parser.add_argument("--full", action="store_true", help="one line per question as well")
    parser.add_argument("--told", action="store_true", help="tell gold pages and answers instead of asking")
    options = parser.parse_args()

    from vrag.datasets.registry import read_cases

    cases = read_cases(options.dataset)
    workbench = open_documents(options.docs, options.collection)
    if options.told:
        told = [tell(case, workbench) for case in cases if case.regions]
        located, whole = ([pair[number] for pair in told if pair] for number in (0, 1))
        _print_columns([("answer looked for", located), ("whole gold page", whole)], (grounding,))
        return
    agent = workbench.agent()
    outcomes = list[Outcome]()
    for number, case in enumerate(cases, start=1):
        outcomes.append(outcome_of(case, agent.run(case.query), workbench))
        print(f"\r{number} of {len(cases)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if options.full:
        for outcome in outcomes:
            print(_line(outcome))
    _show(outcomes)


def open_documents(docs: Path | None, collection: Path | None) -> Session:
    """Opens a collection; indexes what is new in a folder of documents first."""
    from vrag.factory.indexing import open_for_adding
    from vrag.factory.session import open_session
    from vrag.index.build import add
    from vrag.settings import load_settings

    report = load_settings(collection=collection)
    if docs is not None:
        opened, options, _ = open_for_adding(report)
        add(opened, [docs], options)
    return open_session(report.settings)


def _show(outcomes: Sequence[Outcome]) -> None:
    """Prints the agent beside the two ways not to read."""
    columns: Columns = [
        ("agent", outcomes),
        ("whole page", [always(outcome, WHOLE) for outcome in outcomes]),
        ("middle quarter", [always(outcome, MIDDLE) for outcome in outcomes]),
    ]
    _print_columns(columns, (grounding, abstention))


def _print_columns(columns: Columns, tables: Sequence[Callable[[Sequence[Outcome]], list[Row]]]) -> None:
    print(f"{'':50}" + "".join(f"{name:>20}" for name, _ in columns))
    for table in tables:
        for rows in zip(*(table(column) for _, column in columns), strict=True):
            values = (form(value) for _, form, value in rows)
            print(f"{rows[0][0]:50}" + "".join(f"{value:>20}" for value in values))


def _line(outcome: Outcome) -> str:
    """One question in a line: answered, hit or right page, its box, its text."""
    hit = outcome.hits(compact_evidence=True, compact_gold=False)
    mark = "hit " if hit else "page" if outcome.gold_on_first else "shown" if outcome.gold_shown else "-"
    first = outcome.first
    place = (
        f"{first.document[:20]} p{first.page} " + ",".join(f"{side:.2f}" for side in first.box.as_tuple())
        if first
        else ""
    )
    said = "answers" if outcome.answered else "abstains"
    return f"{said:8} {mark:5} {place:50} {outcome.case.query[:100]}"


def _right(outcome: Outcome) -> bool:
    """Whether the page answered from is a gold page of a question that has an answer."""
    first, case = outcome.first, outcome.case
    pages = {*case.reference_page, *(region.page for region in case.regions)}
    return first is not None and first.document == case.file_name and first.page in pages


def _mean(values: Sequence[float]) -> float:
    return mean(values) if values else 0.0


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _fraction(value: float) -> str:
    return f"{value:.3f}"


if __name__ == "__main__":
    main()
