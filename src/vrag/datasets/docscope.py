"""DocScope (Feng et al. 2026, arXiv 2605.08888): chains of page, region, fact and answer in long PDFs.

The scorer follows the published scripts (`eval/score_pages.py`, `score_bbox.py`, `score_facts.py`,
`score_answer.py` of github.com/MiliLab/DocScope):

- Pages: precision, recall and F1 of the cited pages (`page_scores`), as published.
- Regions: one of three labels for each gold box on a page that is both gold and cited. The script shows a
  picture with both kinds of boxes to a vision model. Here areas decide (`box_label`), by what its prompt says
  in numbers: from 90 % of the gold area a box is covered, whatever else the cited boxes cover. Its rules on
  tables, lists and charts, for which one has to see the page, are left out: half of a chart is imprecise
  here, and covered there.
- Facts: whether what the answer says about a page, with citations of that page, states each gold fact there.
  The script asks a model, and so does `vrag.evaluation.fact_judge`, in a wording of ours: the repository has
  no licence for its own.
- Answer: a model decides, there as here.

Failed runs are left out by the scripts; here their questions count, as cited nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vrag.cases.annotations import UNANSWERABLE
from vrag.cases.rows import CaseFormat, any_list, any_object, object_of, plain_list, text_of
from vrag.datasets.files.clean_cases import Remarks, gold_by_document, one_split, read_questions, take_in
from vrag.datasets.files.documents import page_sizes
from vrag.datasets.files.lookup import filed, find_all, find_documents, missing, need_all, pdf_name
from vrag.datasets.protocols import Benchmark, FileDocument, Hub, OpenBenchmark
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.metrics import overlap
from vrag.types import Region

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from vrag.types import Case

DPI = 144
"""Pixels per inch in which the boxes are published."""
KINDS = {"class1": "Single-Hop", "class2": "Comparison", "class3": "Multi-Hop"}
"""Query types by `extract_class`."""


class DocScope(CaseFormat, Benchmark):
    """`benchmark.json` with `pdfs/`; results are reported on the split `test`.

    Boxes are published in pixels, so that the PDFs are opened for the sizes of their pages. Rows that are
    converted without them have no boxes.
    """

    name = "docscope"
    title = "DocScope (arXiv 2605.08888)"
    about = "long PDFs: every answer with its pages, boxes and facts"
    licence = "CC BY-NC-SA 4.0; the documents ODC-By 1.0, through FinePDFs, and their owners'"
    hub = Hub(repo="MiliLab/DocScope", files=("benchmark.json", "pdfs/*"))
    measures = (
        "accuracy",
        "docscope/page_f1",
        "docscope/page_f1_micro",
        "docscope/covered",
        "docscope/facts_consistent",
    )
    columns = (frozenset({"id", "question", "pdf", "evidences", "facts"}),)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find questions and PDFs; the other split is `dev`."""
        chosen = one_split(split, "test", "dev")
        paths = find_all(folder, "benchmark.json")
        if not paths:
            raise missing(folder, "benchmark.json", self.hub)
        remarks = Remarks()
        rows = [
            (where, row, case)
            for where, row, cases in read_questions(paths[:1], self)
            for case in cases
            if row.get("split", chosen) == chosen
        ]
        if not rows:
            raise CaseError(f"{paths[0]} has no questions of the split {chosen!r}.", "Take it as published.")
        names = gold_by_document(case for _, _, case in rows)
        files = find_documents(folder, names)
        need_all(names, files, folder, self.hub)
        sizes = {
            document.name: page_sizes(document.path)
            for document in filed(names, files)
            if isinstance(document, FileDocument)
        }

        def read_cases() -> Iterator[Case]:
            for where, row, case in rows:
                yield _with_boxes(case, row, where, sizes.get(case.file_name, ()), remarks)

        prefix = self.name if chosen == "test" else f"{self.name}-{chosen}"
        cases = take_in(read_cases(), prefix, self.name, remarks)
        if unused := files.without(names):
            remarks.say(f"{len(unused):,} PDFs that no question of this split names were left out.")
        return OpenBenchmark(cases, filed(names, files), remarks.notes)

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """Convert the question, without boxes."""
        answer = object_of(row.get("answer"), "'answer'")
        answerable = answer.get("is_answerable", True) is not False
        evidences = [object_of(each, "An evidence") for each in plain_list(row, "evidences")]
        pages = {str(each.get("local_id")): _page(each) for each in evidences}
        facts = [object_of(each, "A fact") for each in plain_list(row, "facts")]
        placed = [
            (pages.get(str(fact.get("evidence_local_id"))), text_of(fact, "text_description"))
            for fact in facts
        ]
        meta = {
            "file_name": pdf_name(text_of(object_of(row.get("pdf"), "'pdf'"), "doc_id_str")),
            "reference_page": list(dict.fromkeys(map(_page, evidences))) if answerable else [],
            "source_type": list(dict.fromkeys(str(each.get("element_type") or "") for each in evidences)),
            "query_type": KINDS.get(str(row.get("extract_class")), str(row.get("extract_class") or "")),
        }
        return [
            {
                "uid": text_of(row, "id"),
                "query": text_of(row, "question"),
                "reference_answer": text_of(answer, "answer_text") if answerable else UNANSWERABLE,
                "meta_info": meta | {"source_type": [kind for kind in meta["source_type"] if kind]},
                "facts": [{"text": text, "page": page} for page, text in placed if page and text.strip()],
            }
        ]


def _page(evidence: Mapping[str, Any]) -> int:
    page = evidence.get("page")
    if not isinstance(page, int) or isinstance(page, bool) or page < 1:
        raise CaseError(f"A page is a number from 1, not {page!r:.40}.")
    return page


def _with_boxes(
    case: Case, row: Mapping[str, Any], where: str, sizes: Sequence[tuple[float, float]], remarks: Remarks
) -> Case:
    """Return a case with its boxes as fractions of their pages; parts beyond a page are cut."""
    regions: list[Region] = []
    for value in any_list(row.get("evidences")):
        evidence = any_object(value)
        page, sides = _page(evidence), any_list(evidence.get("bbox"))
        if len(sides) != 4 or not all(isinstance(side, int | float) and abs(side) < 1e9 for side in sides):
            raise CaseError(
                f"{where}: A piece of evidence has no box: {value!r:.120}.", "Take the file as published."
            )
        if page > len(sizes):
            remarks.count("questions have gold boxes on pages that their document lacks", case.uid)
            continue
        width, height = (length * DPI / 72 for length in sizes[page - 1])
        x1, y1, x2, y2 = cast("list[float]", sides)
        if max(x1, x2) > width * 1.01 or max(y1, y2) > height * 1.01 or min(x1, y1, x2, y2) < 0:
            remarks.count("questions have gold boxes that reached beyond the page and were cut", case.uid)
        ordered = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
        unit = (side / whole for side, whole in zip(ordered, (width, height) * 2, strict=True))
        regions.append(Region(page, Box.unit(*(min(max(side, 0.0), 1.0) for side in unit))))
    return replace(case, regions=tuple(regions))


class PageScores(NamedTuple):
    """Precision, recall and F1 of cited pages."""

    precision: float
    recall: float
    f1: float


def page_scores(cited: AbstractSet[Hashable], gold: AbstractSet[Hashable]) -> PageScores:
    """Compare cited pages with gold ones as sets.

    As published: no cited page of none is right in all; without cited pages the precision is 1 and the rest
    0, without gold pages the recall is 1 and the rest 0.

    >>> page_scores({1, 2}, {2, 3}), page_scores(set(), {2})
    (PageScores(precision=0.5, recall=0.5, f1=0.5), PageScores(precision=1.0, recall=0.0, f1=0.0))
    """
    if not cited or not gold:
        same = float(not cited and not gold)
        return PageScores(float(not cited), float(not gold), same)
    common = len(cited & gold)
    return PageScores(common / len(cited), common / len(gold), 2 * common / (len(cited) + len(gold)))


class BoxLabel(StrEnum):
    """The relation of a gold box to the cited boxes of its page."""

    COVERED = "covered"
    IMPRECISE = "imprecise"
    NOT_COVERED = "not_covered"


COVERED, TOUCHED = 0.9, 0.1
"""Shares of a gold box from which it is covered, and from which it is met at all."""


def box_label(gold: Box, cited: Sequence[Box]) -> BoxLabel:
    """Label a gold box by the share of it that the cited boxes on its page cover together.

    >>> box_label(Box.unit(0.4, 0.4, 0.6, 0.6), [Box.unit(0, 0, 1, 1)]).value
    'covered'
    """
    share = overlap([gold], cited)[0] / gold.area if gold.area > 0 else 0.0
    if share >= COVERED:
        return BoxLabel.COVERED
    return BoxLabel.IMPRECISE if share >= TOUCHED else BoxLabel.NOT_COVERED
