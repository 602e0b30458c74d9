"""MMDocIR (arXiv 2501.08828): gold pages and layout boxes for questions of MMLongBench-Doc and DocBench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.cases import SOURCES
from vrag.cases.case_format import any_list, text_of
from vrag.errors import CaseError
from vrag.evaluation.benchmark import Hub, OpenBenchmark
from vrag.evaluation.sources.clean_cases import gold_by_document, one_split, read_questions, take_in
from vrag.evaluation.sources.file_lookup import filed, find_documents, need_all, pdf_name
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.page_images import picture_of, with_pages
from vrag.evaluation.sources.parquet import RowReader, Spot, table_rows
from vrag.evaluation.sources.source_files import find_all, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from vrag.evaluation.benchmark import DocumentSource
    from vrag.types import Case

__all__ = ["MMDocIR"]

DIGITS = 5
"""Of the number of a page: more are a fault of the file, and as many blank pages are not made."""

HUB = Hub(
    repo="MMDocIR/MMDocIR_Evaluation_Dataset",
    files=("MMDocIR_annotations.jsonl", "MMDocIR_pages.parquet"),
    note="Or the PDFs in the place of the pages: unpack doc_miscellaneous/doc_pdfs.rar.",
)


@dataclass(frozen=True, slots=True)
class MMDocIR:
    """`MMDocIR_annotations.jsonl`, beside the PDFs or `MMDocIR_pages.parquet`.

    The PDFs are taken where all are there, as they have text. The authors search within the document of a
    question, and what they call recall of layouts is the covered share of the gold area.
    """

    name: str = "mmdocir"
    title: str = "MMDocIR (arXiv 2501.08828)"
    about: str = "pages and layout boxes of long PDFs"
    licence: str = "CC BY-NC 4.0, though the hub says Apache-2.0; the documents are their owners'"
    hub: Hub = HUB
    measures: tuple[str, ...] = (
        "recall@1",
        "recall@3",
        "recall@5",
        "region_recall@1",
        "region_recall@5",
        "region_recall@10",
    )

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds annotations, and the documents as PDFs or as pictures.

        Raises:
            CaseError: If they are missing, or a row is not as published.
        """
        one_split(split, "test")
        paths = find_all(folder, "MMDocIR_annotations.jsonl", "annotations.jsonl")
        if not paths:
            raise missing(folder, "MMDocIR_annotations.jsonl", self.hub)
        remarks = Remarks()
        cases = take_in(_read(paths[:1], remarks), self.name, self.name, remarks)
        wanted = gold_by_document(cases)
        pages = find_all(folder, "MMDocIR_pages.parquet", "MMDocIR_pages/*.parquet")
        files = find_documents(folder, () if pages else wanted)  # pictures make up for what is not unpacked
        if not pages or all(files.get(name) for name in wanted):
            need_all(wanted, files, folder, self.hub)
            if unused := files.without(wanted):
                remarks.say(f"{len(unused):,} PDFs that no question names were left out.")
            return OpenBenchmark(cases, filed(wanted, files), remarks.notes)
        return OpenBenchmark(cases, _pictures(pages, wanted, remarks), remarks.notes)


def _read(paths: list[Path], remarks: Remarks) -> Iterator[Case]:
    for _, row, cases in read_questions(paths, SOURCES["mmdocir"]):
        pages = any_list(row.get("page_indices"))
        for case, question in zip(cases, any_list(row["questions"]), strict=True):
            _note(case, question, _count(pages), remarks)
        yield from cases


def _count(indices: list[Any]) -> int | None:
    """Pages of a document: its range of rows includes the last."""
    if len(indices) == 2 and all(isinstance(index, int) for index in indices):
        return indices[1] - indices[0] + 1
    return None


def _note(case: Case, question: Mapping[str, Any], pages: int | None, remarks: Remarks) -> None:
    if {region.page for region in case.regions} - set(case.reference_page):
        remarks.count("questions have gold boxes on other pages than their gold pages", case.uid)
    if not case.reference_answer.strip():
        remarks.count("questions have an empty answer", case.uid)
    if pages is not None and max(case.reference_page, default=0) > pages:
        remarks.count("questions have gold pages beyond the end of their document", case.uid)
    if any(map(_sticks_out, any_list(question.get("layout_mapping")))):
        remarks.count("questions have gold boxes that stuck out of the page and were cut", case.uid)


def _sticks_out(layout: Mapping[str, Any]) -> bool:
    (width, height), (x1, y1, x2, y2) = layout["page_size"], layout["bbox"]
    return min(x1, y1, x2, y2) < 0 or max(x1, x2) > width or max(y1, y2) > height


def _pictures(
    paths: list[Path], wanted: Mapping[str, set[int]], remarks: Remarks
) -> Iterator[DocumentSource]:
    """Documents of the pictures of their pages.

    Raises:
        CaseError: If a document that is asked about has none.
    """
    spots = _spots(paths)
    if gone := [name for name in wanted if name not in spots]:
        raise CaseError(
            f"{paths[0]} lacks {len(gone)} of the {len(wanted)} documents that are asked about: {gone[0]}, …",
            "Download it again; it may be cut short.",
        )
    if unused := spots.keys() - wanted.keys():
        remarks.say(f"{len(unused):,} documents that no question names were left out.")
    reader = RowReader(["image_binary"])
    for name in wanted:
        yield with_pages(name, _reading(reader, spots[name]), remarks, wanted[name])


def _reading(reader: RowReader, spots: Mapping[int, Spot]) -> Callable[[], Iterator[bytes | None]]:
    def read() -> Iterator[bytes | None]:
        for page in range(max(spots, default=-1) + 1):
            spot = spots.get(page)
            yield picture_of(reader.read(spot)["image_binary"]) if spot else None

    return read


def _spots(paths: Iterable[Path]) -> dict[str, dict[int, Spot]]:
    """Where the pages of each document lie; pages from 0.

    Raises:
        CaseError: If a page has no number.
    """
    found: dict[str, dict[int, Spot]] = {}
    for spot, row in table_rows(paths, ["doc_name", "passage_id"]):
        page = text_of(row, "passage_id")
        if not (page.isascii() and page.isdigit() and len(page) <= DIGITS):
            raise CaseError(f"{spot.path}: 'passage_id' is no number of a page: {page!r:.40}.")
        found.setdefault(pdf_name(text_of(row, "doc_name")), {}).setdefault(int(page), spot)
    return found
