"""ViDoRe v3 (arXiv 2601.08620): pages of collections, graded and with boxes, for queries in six languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_format import any_list
from vrag.evaluation.benchmark import Hub
from vrag.evaluation.sources.beir import BeirColumns, open_tables
from vrag.evaluation.sources.page_images import picture_size
from vrag.evaluation.sources.parquet import table_rows
from vrag.geometry import Box
from vrag.types import Case, GoldPage, Region

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.evaluation.benchmark import OpenBenchmark
    from vrag.evaluation.sources.beir import BeirQuery, BeirTables, RelevantPage
    from vrag.geometry import Size

__all__ = ["ViDoReV3"]

COLUMNS = BeirColumns(query="query_id", page="corpus_id", document="doc_id", number="page_number_in_doc")
SIDES = ("x1", "y1", "x2", "y2")
NOTHING = "N/A"
"""What stands for no type of content begins so."""

HUB = Hub(
    repo="vidore/vidore_v3_finance_en",
    files=("corpus/*", "queries/*", "qrels/*", "documents_metadata/*"),
    note="And hr, industrial, pharmaceuticals, computer_science, energy, physics, finance_fr.",
)


@dataclass(frozen=True, slots=True)
class ViDoReV3:
    """One of its data sets in a folder, or several in folders beside one another.

    The split is the language of the queries. Boxes are pixels of the picture of their page, as published,
    and those of all annotators are taken. The pictures are the documents, since pages of the PDFs differ
    from them in one place.
    """

    name: str = "vidore_v3"
    title: str = "ViDoRe v3 (arXiv 2601.08620)"
    about: str = "pages of whole collections, graded; six languages"
    licence: str = "CC BY 4.0 for queries and boxes; documents as documents_metadata says"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("ndcg@10",)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds the tables of each data set.

        Args:
            folder: Of one data set, or with several.
            split: A language, as `french`; `english` if None.

        Raises:
            CaseError: If a table is missing, or there are no queries in that language.
        """
        return open_tables(
            folder, split, name=self.name, strip="vidore_v3_", columns=COLUMNS, hub=self.hub, make=_cases
        )


def _cases(
    tables: BeirTables, asked: Mapping[str, BeirQuery], answering: Mapping[str, Sequence[RelevantPage]]
) -> Iterator[Case]:
    sizes, types = _sizes(tables, answering), _types(tables)
    for id, pages in answering.items():
        yield _case(asked[id], pages, tables, sizes, types)


def _case(
    query: BeirQuery,
    answering: Sequence[RelevantPage],
    tables: BeirTables,
    sizes: Mapping[str, Size],
    types: Mapping[str, str],
) -> Case:
    pages = [tables.pages[one.page] for one in answering]
    document, row = pages[0].document, query.row
    answer = str(row.get("answer") or "")
    others = [text for text in _texts(row.get("raw_answers")) if text and text != answer]
    regions = [region for one in answering for region in _regions(one, tables, sizes, document)]
    return Case(
        uid=query.id,
        query=query.text,
        reference_answer=answer,
        file_name=document,
        source_type=tuple(kind for kind in _texts(row.get("content_type")) if not kind.startswith(NOTHING)),
        query_type=", ".join(_texts(row.get("query_types"))),
        regions=tuple(regions),
        gold=tuple(
            GoldPage(page.document, page.number, one.relevance)
            for page, one in zip(pages, answering, strict=True)
        ),
        alternatives=tuple(dict.fromkeys(others)),
        document_type=types.get(document, ""),
    )


def _texts(value: object) -> list[str]:
    return [part for part in any_list(value) if isinstance(part, str)]


def _sizes(tables: BeirTables, answering: Mapping[str, Sequence[RelevantPage]]) -> dict[str, Size]:
    """Width and height of the picture of each page with boxes, in pixels."""
    boxed = {one.page for found in answering.values() for one in found if _boxes(one.row)}
    sizes: dict[str, Size] = {}
    for id, data in tables.pictures(boxed):
        if data is not None and (size := picture_size(data)):
            sizes[id] = size
        else:
            tables.remarks.count("pages have no picture, so that their boxes were left out", f"page {id}")
    return sizes


def _boxes(row: Mapping[str, Any]) -> list[list[float]]:
    """The boxes of a page, in pixels; by the names of their sides, as their order is another one."""
    found: list[list[float]] = []
    for box in any_list(row.get("bounding_boxes")):
        sides = [cast("dict[str, Any]", box).get(side) for side in SIDES] if isinstance(box, dict) else []
        if sides and all(isinstance(side, int | float) for side in sides):
            found.append(cast("list[float]", sides))
    return found


def _regions(
    one: RelevantPage, tables: BeirTables, sizes: Mapping[str, Size], document: str
) -> Iterator[Region]:
    size = sizes.get(one.page)
    if size is None:
        return
    page = tables.pages[one.page]
    for x1, y1, x2, y2 in _boxes(one.row):
        box = _unit((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), size)
        yield Region(page.number, box, "" if page.document == document else page.document)


def _unit(sides: tuple[float, float, float, float], size: Size) -> Box:
    """Pixels as fractions of the page; what sticks out is cut."""
    wholes = (size.width, size.height, size.width, size.height)
    return Box.unit(*(min(max(side / whole, 0.0), 1.0) for side, whole in zip(sides, wholes, strict=True)))


def _types(tables: BeirTables) -> dict[str, str]:
    """What each document is, by its file name; empty where the set does not say."""
    rows = table_rows(tables.files["documents_metadata"], ["doc_id"], ["doc_type"])
    return {tables.file_name(str(row["doc_id"])): str(row.get("doc_type") or "") for _, row in rows}
