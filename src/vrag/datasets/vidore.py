"""ViDoRe v2 (arXiv 2505.17166) and v3 (arXiv 2601.08620): pages of collections for queries in many languages.

Each is one of its data sets in a folder, or several in folders beside one another. A data set is three tables
(the layout of BEIR): queries, pages, and which pages answer which query. The split is the language of the
queries, as `french`; `english` if None.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vrag.cases.rows import RowReader, Spot, any_list, table_rows, text_of
from vrag.datasets.files.clean_cases import Remarks, take_in
from vrag.datasets.files.documents import image_bytes, image_size, numbered_pages, with_pages
from vrag.datasets.files.lookup import blamed, check_name, find_all, missing, pdf_name, safe_name
from vrag.datasets.protocols import Benchmark, Hub, OpenBenchmark
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import Case, GoldPage, Region

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.datasets.protocols import PageDocument
    from vrag.geometry import Size

ENGLISH = "english"
MAX_PAGE = 99_999
"""A higher number is a fault of the file, and as many blank pages are not made."""
SIDES = ("x1", "y1", "x2", "y2")
NO_TYPE = "N/A"
"""Beginning of the label of pages without a content type."""


class BeirColumns(NamedTuple):
    """Names of columns: ids of queries, pages, documents, and the place of a page in its document, from 0."""

    query: str
    page: str
    document: str
    number: str


class BeirPage(NamedTuple):
    """A page of the corpus: the file name of its document, its number from 1, and its row."""

    document: str
    number: int
    spot: Spot


class RelevantPage(NamedTuple):
    """A page that answers a query, by its id in the corpus."""

    page: str
    relevance: int
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BeirTables:
    """The files of one set."""

    folder: Path
    label: str
    """Distinguishes it from other sets beside it; empty where it is alone."""
    columns: BeirColumns
    files: Mapping[str, Sequence[Path]]
    """Files by table: `corpus`, `queries`, `qrels`, `documents_metadata`."""
    remarks: Remarks
    pages: dict[str, BeirPage] = field(default_factory=dict[str, BeirPage])
    """Pages by id; filled by `index`."""
    languages: set[str] = field(default_factory=set[str])
    """Languages of its queries; filled by `queries`."""

    def index(self) -> None:
        """Find the place of every page, once; an error if one has no id or number.

        Where no column has the place of a page in its document, it is that among its rows.
        """
        if self.pages:
            return
        ids = (self.columns.document, self.columns.number)
        counts: dict[str, int] = defaultdict(int)
        taken: set[tuple[str, int]] = set()
        for spot, row in table_rows(self.files["corpus"], [self.columns.page], ids):
            with blamed(f"{spot.path}"):
                id = text_of(row, self.columns.page)
                document, place = row.get(self.columns.document), row.get(self.columns.number)
                stem = str(document) if document else f"{self.label or self.folder.name}-{id}"
                place = counts[stem] if place is None else place
                counts[stem] += 1
                if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < MAX_PAGE:
                    raise CaseError(f"{self.columns.number!r} is a number from 0, not {place!r:.40}.")
                page = BeirPage(self.file_name(stem), place + 1, spot)
                if id in self.pages or (page.document, page.number) in taken:
                    raise CaseError(f"Two pages are page {page.number} of {page.document}, or have id {id}.")
                self.pages[id] = page
                taken.add((page.document, page.number))

    def file_name(self, stem: str) -> str:
        """Return the file name of a document."""
        named = f"{self.label}-{stem}" if self.label and not stem.startswith(self.label) else stem
        return check_name(pdf_name(safe_name(named)), "The corpus")

    def queries(self, language: str) -> dict[str, Mapping[str, Any]]:
        """Return the rows of queries in a language, by id; without a column for it, all are English."""
        found: dict[str, Mapping[str, Any]] = {}
        for spot, row in table_rows(self.files["queries"], [self.columns.query, "query"], None):
            row_language = str(row.get("language") or ENGLISH).lower()
            self.languages.add(row_language)
            if row_language == language:
                with blamed(f"{spot.path}"):
                    found[text_of(row, self.columns.query)] = row | {"query": text_of(row, "query")}
        return found

    def relevant_pages(self, queries: Iterable[str]) -> Mapping[str, list[RelevantPage]]:
        """Return the pages that answer each query, most relevant first; in the order of the queries."""
        found: dict[str, list[RelevantPage]] = {query: [] for query in queries}
        seen: set[tuple[str, str]] = set()
        names = [self.columns.query, self.columns.page, "score"]
        for spot, row in table_rows(self.files["qrels"], names, None):
            with blamed(f"{spot.path}"):
                query, page = text_of(row, self.columns.query), text_of(row, self.columns.page)
                relevance = _relevance(row["score"])
            if query not in found or not relevance:
                continue
            if page not in self.pages:
                self.remarks.count("gold pages are not in the corpus and were left out", f"page {page}")
            elif (query, page) in seen:
                self.remarks.count("gold pages are there twice and count once", f"{query}, page {page}")
            else:
                seen.add((query, page))
                found[query].append(RelevantPage(page, relevance, row))
        for pages in found.values():
            pages.sort(key=lambda relevant: (-relevant.relevance, *self.pages[relevant.page][:2]))
        return {query: pages for query, pages in found.items() if pages}

    def gold(self, relevant: Sequence[RelevantPage]) -> tuple[GoldPage, ...]:
        """Return relevant pages as the gold of a case."""
        pages = ((self.pages[page.page], page.relevance) for page in relevant)
        return tuple(GoldPage(page.document, page.number, relevance) for page, relevance in pages)

    def documents(self) -> Iterator[PageDocument]:
        """Yield the documents of the corpus: all are searched, whether a query is about them or not."""
        self.index()
        spots: dict[str, dict[int, Spot]] = defaultdict(dict)
        for page in self.pages.values():
            spots[page.document][page.number] = page.spot
        reader = RowReader(["image"])
        for name, places in spots.items():
            pages = numbered_pages(places, lambda spot: image_bytes(reader.read(spot)["image"]))
            yield with_pages(name, pages, self.remarks)

    def image_sizes(self, ids: Iterable[str]) -> dict[str, Size]:
        """Return the sizes of the images of pages in pixels; one is in memory at a time, in their order."""
        sizes: dict[str, Size] = {}
        reader = RowReader(["image"])
        for id in sorted(ids, key=lambda id: self.pages[id].spot):
            data = image_bytes(reader.read(self.pages[id].spot)["image"])
            if data is not None and (size := image_size(data)):
                sizes[id] = size
            else:
                self.remarks.count("pages have no image, so that their boxes were left out", f"page {id}")
        return sizes


def _relevance(score: object) -> int:
    """Return a grade; 0 for what is not relevant."""
    if not isinstance(score, int | float) or not math.isfinite(score) or score != int(score) or score > 100:
        raise CaseError(f"'score' is a whole number, not {score!r:.40}.")
    return max(int(score), 0)


class _ViDoRe(Benchmark):
    """One version: the names of its columns, and the cases that it makes of a set."""

    columns: BeirColumns
    folder_prefix: str
    """Beginning of folder names that no uid needs."""

    @abstractmethod
    def cases(
        self,
        tables: BeirTables,
        queries: Mapping[str, Mapping[str, Any]],
        relevant: Mapping[str, Sequence[RelevantPage]],
    ) -> Iterator[Case]:
        """Yield the cases of a set, of its queries by id and the pages that answer each."""

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the tables of each data set; an error if none has queries in the language of the split."""
        remarks = Remarks()
        language = (split or ENGLISH).lower()
        every = [(tables, tables.queries(language)) for tables in self._find_sets(folder, remarks)]
        sets = [(tables, queries) for tables, queries in every if queries]
        if not sets:
            known = sorted({language for tables, _ in every for language in tables.languages})
            raise CaseError(
                f"{folder} has no queries in {language!r:.40}.",
                f"The split is the language; there are: {', '.join(known) or 'none'}.",
            )
        for tables, queries in every:
            if not queries:
                remarks.count("data sets have no queries in that language and were left out", tables.label)

        def all_cases() -> Iterator[Case]:
            for tables, queries in sets:
                tables.index()
                relevant = tables.relevant_pages(queries)
                for id in [id for id in queries if id not in relevant]:
                    remarks.count("queries have no gold page and were left out", f"query {id}")
                prefix = "-".join(filter(None, (self.name, tables.label)))
                yield from take_in(self.cases(tables, queries, relevant), prefix, self.name, remarks)

        documents = (document for tables, _ in sets for document in tables.documents())
        return OpenBenchmark(all_cases(), documents, remarks.notes)

    def _find_sets(self, folder: Path, remarks: Remarks) -> list[BeirTables]:
        roots = sorted({path.parent.parent for path in find_all(folder, "queries/*.parquet")})
        if not roots:
            raise missing(folder, "queries/test-00000-of-00001.parquet", self.hub)
        found: list[BeirTables] = []
        for root in roots:
            names = ("corpus", "queries", "qrels", "documents_metadata")
            files = {name: sorted((root / name).glob("*.parquet")) for name in names}
            if absent := [name for name in names[:3] if not files[name]]:
                raise missing(root, f"{absent[0]}/test-*.parquet", self.hub)
            label = root.name.removeprefix(self.folder_prefix) if len(roots) > 1 else ""
            found.append(BeirTables(root, label, self.columns, files, remarks))
        return found


class ViDoReV2(_ViDoRe):
    """ViDoRe v2. The set that people labelled is English and has no language column.

    Where the corpus does not say which document a page is of, each page is a document. Answers stand beside
    the pages, several for a query: any is right.
    """

    name = "vidore_v2"
    title = "ViDoRe v2 (arXiv 2505.17166)"
    about = "pages of whole collections; four languages"
    licence = "MIT; the documents are their owners'"
    hub = Hub(
        repo="vidore/esg_reports_v2",
        files=("corpus/*", "queries/*", "qrels/*"),
        note="Also economics_reports_v2, biomedical_lectures_v2, esg_reports_human_labeled_v2 of vidore.",
    )
    measures = ("ndcg@5",)
    columns = BeirColumns(query="query-id", page="corpus-id", document="doc-id", number="page-number")
    folder_prefix = "vidore_"

    def cases(
        self,
        tables: BeirTables,
        queries: Mapping[str, Mapping[str, Any]],
        relevant: Mapping[str, Sequence[RelevantPage]],
    ) -> Iterator[Case]:
        """Yield a case a query."""
        for id, pages in relevant.items():
            texts = (text.strip() for text in _texts([page.row.get("answer") for page in pages]))
            answers = list(dict.fromkeys(filter(None, texts)))
            if not answers:
                tables.remarks.count("queries have no answer and count for retrieval only", f"query {id}")
            gold = tables.gold(pages)
            yield Case(
                uid=id,
                query=queries[id]["query"],
                reference_answer=answers[0] if answers else "",
                file_name=gold[0].document,
                gold=gold,
                alternatives=tuple(answers[1:]),
            )


class ViDoReV3(_ViDoRe):
    """ViDoRe v3, with grades and boxes.

    Boxes are pixels of the image of their page, as published, each with its annotator: on most pages several
    people drew what they took for the evidence. The images are the documents, since pages of the PDFs differ
    from them in one place.
    """

    name = "vidore_v3"
    title = "ViDoRe v3 (arXiv 2601.08620)"
    about = "pages of whole collections, graded; six languages"
    licence = "CC BY 4.0 for queries and boxes; documents as documents_metadata says"
    hub = Hub(
        repo="vidore/vidore_v3_finance_en",
        files=("corpus/*", "queries/*", "qrels/*", "documents_metadata/*"),
        note="And hr, industrial, pharmaceuticals, computer_science, energy, physics, finance_fr.",
    )
    measures = ("ndcg@10",)
    columns = BeirColumns(query="query_id", page="corpus_id", document="doc_id", number="page_number_in_doc")
    folder_prefix = "vidore_v3_"

    def cases(
        self,
        tables: BeirTables,
        queries: Mapping[str, Mapping[str, Any]],
        relevant: Mapping[str, Sequence[RelevantPage]],
    ) -> Iterator[Case]:
        """Yield a case a query."""
        sizes = tables.image_sizes(
            {page.page for pages in relevant.values() for page in pages if _boxes(page.row)}
        )
        rows = table_rows(tables.files["documents_metadata"], ["doc_id"], ["doc_type"])
        types = {tables.file_name(str(row["doc_id"])): str(row.get("doc_type") or "") for _, row in rows}
        for id, pages in relevant.items():
            row, gold = queries[id], tables.gold(pages)
            document, answer = gold[0].document, str(row.get("answer") or "")
            others = [text for text in _texts(row.get("raw_answers")) if text and text != answer]
            kinds = (kind for kind in _texts(row.get("content_type")) if not kind.startswith(NO_TYPE))
            yield Case(
                uid=id,
                query=row["query"],
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


def _boxes(row: Mapping[str, Any]) -> list[tuple[str, list[float]]]:
    """Return the boxes of a page, in pixels, with their annotators.

    Sides are read by their names, as their order is another one.
    """
    found: list[tuple[str, list[float]]] = []
    for value in any_list(row.get("bounding_boxes")):
        box = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        sides = [box.get(side) for side in SIDES]
        if all(isinstance(side, int | float) for side in sides):
            annotator = box.get("annotator")
            found.append(("" if annotator is None else str(annotator), cast("list[float]", sides)))
    return found


def _regions(
    relevant: RelevantPage, tables: BeirTables, sizes: Mapping[str, Size], document: str
) -> Iterator[Region]:
    """Yield the boxes of a page as fractions of it; parts beyond the page are cut."""
    if (size := sizes.get(relevant.page)) is None:
        return
    page = tables.pages[relevant.page]
    wholes = (size.width, size.height, size.width, size.height)
    for annotator, (x1, y1, x2, y2) in _boxes(relevant.row):
        sides = zip((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), wholes, strict=True)
        box = Box.unit(*(min(max(side / whole, 0.0), 1.0) for side, whole in sides))
        yield Region(page.number, box, "" if page.document == document else page.document, annotator)
