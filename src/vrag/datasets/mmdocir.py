"""MMDocIR (arXiv 2501.08828): gold pages and layout boxes for questions of MMLongBench-Doc and DocBench."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.rows import (
    CaseFormat,
    RowReader,
    Spot,
    any_list,
    any_object,
    hops,
    literal_list,
    object_of,
    plain_list,
    table_rows,
    text_of,
)
from vrag.datasets.files.clean_cases import Remarks, gold_by_document, one_split, read_questions, take_in
from vrag.datasets.files.documents import image_bytes, numbered_pages, with_pages
from vrag.datasets.files.lookup import filed, find_all, find_documents, missing, need_all, pdf_name
from vrag.datasets.protocols import Benchmark, Hub, OpenBenchmark
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from vrag.datasets.protocols import DocumentSource
    from vrag.types import Case

MAX_PAGE_DIGITS = 5
"""Digits of a page number: more are a fault of the file, and as many blank pages are not made."""


class MMDocIR(CaseFormat, Benchmark):
    """`MMDocIR_annotations.jsonl`, a document a row, beside PDFs or `MMDocIR_pages.parquet`.

    Its pages count from 0. The PDFs are taken where all are there, as they have text. The authors search
    within the document of a question, and what they call recall of layouts is the covered share of the gold
    area.
    """

    name = "mmdocir"
    title = "MMDocIR (arXiv 2501.08828)"
    about = "pages and layout boxes of long PDFs"
    licence = "CC BY-NC 4.0, though the hub says Apache-2.0; the documents are their owners'"
    hub = Hub(
        repo="MMDocIR/MMDocIR_Evaluation_Dataset",
        files=("MMDocIR_annotations.jsonl", "MMDocIR_pages.parquet"),
        note="Or the PDFs in the place of the pages: unpack doc_miscellaneous/doc_pdfs.rar.",
    )
    measures = tuple("recall@1 recall@3 recall@5 region_recall@1 region_recall@5 region_recall@10".split())
    columns = (frozenset({"doc_name", "questions"}),)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the annotations, and the documents as PDFs or as images."""
        one_split(split, "test")
        paths = find_all(folder, "MMDocIR_annotations.jsonl", "annotations.jsonl")
        if not paths:
            raise missing(folder, "MMDocIR_annotations.jsonl", self.hub)
        remarks = Remarks()
        cases = take_in(_read_cases(paths[:1], self, remarks), self.name, self.name, remarks)
        gold = gold_by_document(cases)
        pages = find_all(folder, "MMDocIR_pages.parquet", "MMDocIR_pages/*.parquet")
        files = find_documents(folder, () if pages else gold)  # images make up for what is not unpacked
        if not pages or all(files.get(name) for name in gold):
            need_all(gold, files, folder, self.hub)
            if unused := files.without(gold):
                remarks.say(f"{len(unused):,} PDFs that no question names were left out.")
            return OpenBenchmark(cases, filed(gold, files), remarks.notes)
        return OpenBenchmark(cases, _image_documents(pages, gold, remarks), remarks.notes)

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """Convert the questions about a document."""
        file_name = pdf_name(text_of(row, "doc_name"))
        for at, value in enumerate(plain_list(row, "questions")):
            question = object_of(value, f"questions[{at}]")
            pages = [_from_one(page) for page in plain_list(question, "page_id")]
            kinds = question.get("type")
            is_listed = str(kinds).lstrip().startswith("[")
            sources = literal_list(question, "type") if is_listed else [str(kinds or "")]
            yield {
                "uid": f"mmdocir-{number}-{at}",
                "query": text_of(question, "Q"),
                "reference_answer": text_of(question, "A"),
                "meta_info": {
                    "file_name": file_name,
                    "reference_page": pages,
                    "source_type": [source for source in sources if source],
                    "query_type": hops(pages),
                    "document_type": row.get("domain"),
                },
                "regions": [_region(layout) for layout in any_list(question.get("layout_mapping"))],
            }


def _region(layout: object) -> dict[str, Any]:
    """Convert a box in points to fractions of its page."""
    row = any_object(layout)
    size, box = row.get("page_size"), row.get("bbox")
    if not (_numbers(size, 2) and _numbers(box, 4) and min(cast("list[float]", size)) > 0):
        raise CaseError(f"A layout has no box on a page: {layout!r:.120}.")
    width, height = cast("list[float]", size)
    sides = zip(cast("list[float]", box), (width, height, width, height), strict=True)
    unit = [min(max(side / whole, 0.0), 1.0) for side, whole in sides]
    return {"page": _from_one(row.get("page")), "box": unit}


def _from_one(page: object) -> int:
    if not isinstance(page, int) or isinstance(page, bool) or page < 0:
        raise CaseError(f"A page is a number from 0, not {page!r:.40}.")
    return page + 1


def _numbers(value: object, count: int) -> bool:
    parts = any_list(value)
    return len(parts) == count and all(isinstance(part, int | float) and abs(part) < 1e9 for part in parts)


def _read_cases(paths: list[Path], source: MMDocIR, remarks: Remarks) -> Iterator[Case]:
    for _, row, cases in read_questions(paths, source):
        indices = any_list(row.get("page_indices"))
        is_range = len(indices) == 2 and all(isinstance(index, int) for index in indices)
        pages = indices[1] - indices[0] + 1 if is_range else math.inf  # the range includes the last row
        for case, question in zip(cases, any_list(row["questions"]), strict=True):
            if {region.page for region in case.regions} - set(case.reference_page):
                remarks.count("questions have gold boxes on other pages than their gold pages", case.uid)
            if not case.reference_answer.strip():
                remarks.count("questions have an empty answer", case.uid)
            if max(case.reference_page, default=0) > pages:
                remarks.count("questions have gold pages beyond the end of their document", case.uid)
            for layout in any_list(question.get("layout_mapping")):
                (width, height), (x1, y1, x2, y2) = layout["page_size"], layout["bbox"]
                if min(x1, y1, x2, y2) < 0 or max(x1, x2) > width or max(y1, y2) > height:
                    remarks.count(
                        "questions have gold boxes that reached beyond the page and were cut", case.uid
                    )
        yield from cases


def _image_documents(
    paths: list[Path], gold: Mapping[str, set[int]], remarks: Remarks
) -> Iterator[DocumentSource]:
    """Yield documents of the images of their pages; an error if a document that is asked about has none."""
    spots: dict[str, dict[int, Spot]] = {}  # by document and page, from 1
    for spot, row in table_rows(paths, ["doc_name", "passage_id"]):
        page = text_of(row, "passage_id")
        if not (page.isascii() and page.isdigit() and len(page) <= MAX_PAGE_DIGITS):
            raise CaseError(f"{spot.path}: 'passage_id' is not a page number: {page!r:.40}.")
        spots.setdefault(pdf_name(text_of(row, "doc_name")), {}).setdefault(int(page) + 1, spot)
    if absent := [name for name in gold if name not in spots]:
        lacking = f"{len(absent)} of the {len(gold)} documents that are asked about"
        hint = "Download it again; it may be cut short."
        raise CaseError(f"{paths[0]} lacks {lacking}: {absent[0]}, …", hint)
    if unused := spots.keys() - gold.keys():
        remarks.say(f"{len(unused):,} documents that no question names were left out.")
    reader = RowReader(["image_binary"])
    for name in gold:
        pages = numbered_pages(spots[name], lambda spot: image_bytes(reader.read(spot)["image_binary"]))
        yield with_pages(name, pages, remarks, gold[name])
