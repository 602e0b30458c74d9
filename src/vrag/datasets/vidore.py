"""ViDoRe v2 (arXiv 2505.17166) and v3 (arXiv 2601.08620): pages of collections for queries in many languages.

Each is one of its data sets in a folder, or several in folders beside one another. The split is the language
of the queries, as `french`; `english` if None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_format import any_list
from vrag.datasets.files.beir import BeirColumns, open_tables
from vrag.datasets.files.page_images import image_size
from vrag.datasets.files.parquet import table_rows
from vrag.datasets.protocols import Hub
from vrag.geometry import Box
from vrag.types import Case, GoldPage, Region

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.datasets.files.beir import BeirQuery, BeirTables, RelevantPage
    from vrag.datasets.protocols import OpenBenchmark
    from vrag.geometry import Size

V2_COLUMNS = BeirColumns(query="query-id", page="corpus-id", document="doc-id", number="page-number")
V2_HUB = Hub(
    repo="vidore/esg_reports_v2",
    files=("corpus/*", "queries/*", "qrels/*"),
    note="Also economics_reports_v2, biomedical_lectures_v2, esg_reports_human_labeled_v2 of vidore.",
)
V3_COLUMNS = BeirColumns(query="query_id", page="corpus_id", document="doc_id", number="page_number_in_doc")
V3_HUB = Hub(
    repo="vidore/vidore_v3_finance_en",
    files=("corpus/*", "queries/*", "qrels/*", "documents_metadata/*"),
    note="And hr, industrial, pharmaceuticals, computer_science, energy, physics, finance_fr.",
)
SIDES = ("x1", "y1", "x2", "y2")
NO_TYPE = "N/A"
"""Beginning of the label of pages without a content type."""


@dataclass(frozen=True, slots=True)
class ViDoReV2:
    """ViDoRe v2. The set that people labelled is English and has no language column.

    Where the corpus does not say which document a page is of, each page is a document. Answers stand beside
    the pages, several for a query: any is right.
    """

    name: str = "vidore_v2"
    title: str = "ViDoRe v2 (arXiv 2505.17166)"
    about: str = "pages of whole collections; four languages"
    licence: str = "MIT; the documents are their owners'"
    hub: Hub = V2_HUB
    measures: tuple[str, ...] = ("ndcg@5",)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the tables of each data set."""
        return open_tables(
            folder,
            split,
            name=self.name,
            strip="vidore_",
            columns=V2_COLUMNS,
            hub=self.hub,
            make_cases=_v2_cases,
        )


@dataclass(frozen=True, slots=True)
class ViDoReV3:
    """ViDoRe v3, with grades and boxes.

    Boxes are pixels of the image of their page, as published, and those of all annotators are taken. The
    images are the documents, since pages of the PDFs differ from them in one place.
    """

    name: str = "vidore_v3"
    title: str = "ViDoRe v3 (arXiv 2601.08620)"
    about: str = "pages of whole collections, graded; six languages"
    licence: str = "CC BY 4.0 for queries and boxes; documents as documents_metadata says"
    hub: Hub = V3_HUB
    measures: tuple[str, ...] = ("ndcg@10",)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the tables of each data set."""
        return open_tables(
            folder,
            split,
            name=self.name,
            strip="vidore_v3_",
            columns=V3_COLUMNS,
            hub=self.hub,
            make_cases=_v3_cases,
        )


def _v2_cases(
    tables: BeirTables, queries: Mapping[str, BeirQuery], relevant: Mapping[str, Sequence[RelevantPage]]
) -> Iterator[Case]:
    for id, pages in relevant.items():
        texts = (page.row.get("answer") for page in pages)
        stripped = (text.strip() for text in texts if isinstance(text, str))
        answers = list(dict.fromkeys(filter(None, stripped)))
        if not answers:
            tables.remarks.count("queries have no answer and count for retrieval only", f"query {id}")
        gold = _gold(tables, pages)
        yield Case(
            uid=id,
            query=queries[id].text,
            reference_answer=answers[0] if answers else "",
            file_name=gold[0].document,
            gold=gold,
            alternatives=tuple(answers[1:]),
        )


def _gold(tables: BeirTables, relevant: Sequence[RelevantPage]) -> tuple[GoldPage, ...]:
    pages = ((tables.pages[page.page], page.relevance) for page in relevant)
    return tuple(GoldPage(page.document, page.number, relevance) for page, relevance in pages)


def _v3_cases(
    tables: BeirTables, queries: Mapping[str, BeirQuery], relevant: Mapping[str, Sequence[RelevantPage]]
) -> Iterator[Case]:
    sizes = _sizes(tables, relevant)
    rows = table_rows(tables.files["documents_metadata"], ["doc_id"], ["doc_type"])
    types = {tables.file_name(str(row["doc_id"])): str(row.get("doc_type") or "") for _, row in rows}
    for id, pages in relevant.items():
        row, gold = queries[id].row, _gold(tables, pages)
        document, answer = gold[0].document, str(row.get("answer") or "")
        others = [text for text in _texts(row.get("raw_answers")) if text and text != answer]
        kinds = (kind for kind in _texts(row.get("content_type")) if not kind.startswith(NO_TYPE))
        yield Case(
            uid=id,
            query=queries[id].text,
            reference_answer=answer,
            file_name=document,
            source_type=tuple(kinds),
            query_type=", ".join(_texts(row.get("query_types"))),
            regions=tuple(region for page in pages for region in _regions(page, tables, sizes, document)),
            gold=gold,
            alternatives=tuple(dict.fromkeys(others)),
            document_type=types.get(document, ""),
        )


def _texts(value: object) -> list[str]:
    return [part for part in any_list(value) if isinstance(part, str)]


def _sizes(tables: BeirTables, relevant: Mapping[str, Sequence[RelevantPage]]) -> dict[str, Size]:
    """Return the size of the image of each page with boxes, in pixels."""
    boxed = {page.page for pages in relevant.values() for page in pages if _boxes(page.row)}
    sizes: dict[str, Size] = {}
    for id, data in tables.images(boxed):
        if data is not None and (size := image_size(data)):
            sizes[id] = size
        else:
            tables.remarks.count("pages have no image, so that their boxes were left out", f"page {id}")
    return sizes


def _boxes(row: Mapping[str, Any]) -> list[list[float]]:
    """Return the boxes of a page, in pixels; by the names of their sides, as their order is another one."""
    found: list[list[float]] = []
    for box in any_list(row.get("bounding_boxes")):
        sides = [cast("dict[str, Any]", box).get(side) for side in SIDES] if isinstance(box, dict) else []
        if sides and all(isinstance(side, int | float) for side in sides):
            found.append(cast("list[float]", sides))
    return found


def _regions(
    relevant: RelevantPage, tables: BeirTables, sizes: Mapping[str, Size], document: str
) -> Iterator[Region]:
    """Yield the boxes of a page as fractions of it; parts beyond the page are cut."""
    size = sizes.get(relevant.page)
    if size is None:
        return
    page = tables.pages[relevant.page]
    wholes = (size.width, size.height, size.width, size.height)
    for x1, y1, x2, y2 in _boxes(relevant.row):
        sides = zip((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), wholes, strict=True)
        box = Box.unit(*(min(max(side / whole, 0.0), 1.0) for side, whole in sides))
        yield Region(page.number, box, "" if page.document == document else page.document)
