"""Data sets in three tables: queries, pages, and which pages answer which query (the layout of BEIR)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vrag.cases.case_format import text_of
from vrag.datasets.files.clean_cases import Remarks, take_in
from vrag.datasets.files.lookup import blamed, check_name, find_all, missing, pdf_name, safe_name
from vrag.datasets.files.page_images import image_bytes, numbered_pages, with_pages
from vrag.datasets.files.parquet import RowReader, Spot, table_rows
from vrag.datasets.protocols import OpenBenchmark
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.datasets.protocols import Hub, PageDocument
    from vrag.types import Case

ENGLISH = "english"
MAX_PAGE = 99_999
"""A higher number is a fault of the file, and as many blank pages are not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeirColumns:
    """Names of columns."""

    query: str
    page: str
    """Column of page ids."""
    document: str
    number: str
    """Column of the place of a page in its document, from 0."""


@dataclass(frozen=True, slots=True)
class BeirPage:
    """A page of the corpus."""

    document: str
    """File name."""
    number: int
    """Page number, from 1."""
    spot: Spot


@dataclass(frozen=True, slots=True)
class RelevantPage:
    """A page that answers a query."""

    page: str
    """Id in the corpus."""
    relevance: int
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BeirQuery:
    """A query."""

    id: str
    text: str
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
        """Find the place of every page, once; an error if one has no id or number."""
        if self.pages:
            return
        ids = (self.columns.document, self.columns.number)
        counts: dict[str, int] = defaultdict(int)
        taken: set[tuple[str, int]] = set()
        for spot, row in table_rows(self.files["corpus"], [self.columns.page], ids):
            with blamed(f"{spot.path}"):
                id = text_of(row, self.columns.page)
                document = row.get(self.columns.document)
                stem = str(document) if document else f"{self.label or self.folder.name}-{id}"
                counts[stem] += 1
                page = BeirPage(self.file_name(stem), self._number(row, counts[stem]), spot)
                if id in self.pages or (page.document, page.number) in taken:
                    raise CaseError(f"Two pages are page {page.number} of {page.document}, or have id {id}.")
                self.pages[id] = page
                taken.add((page.document, page.number))

    def file_name(self, stem: str) -> str:
        """Return the file name of a document."""
        named = f"{self.label}-{stem}" if self.label and not stem.startswith(self.label) else stem
        return check_name(pdf_name(safe_name(named)), "The corpus")

    def _number(self, row: Mapping[str, Any], so_far: int) -> int:
        """Return the place of a page in its document, from 1; by the order of rows where no column has it."""
        place = row.get(self.columns.number)
        if place is None:
            return so_far
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < MAX_PAGE:
            raise CaseError(f"{self.columns.number!r} is a number from 0, not {place!r:.40}.")
        return place + 1

    def queries(self, language: str) -> dict[str, BeirQuery]:
        """Return the queries in a language, by id; without a column for it, all are English."""
        found: dict[str, BeirQuery] = {}
        for path, row in self._rows("queries", [self.columns.query, "query"]):
            row_language = str(row.get("language") or ENGLISH).lower()
            self.languages.add(row_language)
            if row_language == language:
                with blamed(f"{path}"):
                    id = text_of(row, self.columns.query)
                    found[id] = BeirQuery(id, text_of(row, "query"), row)
        return found

    def relevant_pages(self, queries: Mapping[str, BeirQuery]) -> Mapping[str, list[RelevantPage]]:
        """Return the pages that answer each query, most relevant first; in the order of the queries."""
        found: dict[str, list[RelevantPage]] = defaultdict(list)
        seen: set[tuple[str, str]] = set()
        for path, row in self._rows("qrels", [self.columns.query, self.columns.page, "score"]):
            with blamed(f"{path}"):
                query, page = text_of(row, self.columns.query), text_of(row, self.columns.page)
                relevance = _relevance(row["score"])
            if query not in queries or not relevance:
                continue
            if page not in self.pages:
                self.remarks.count("gold pages are not in the corpus and were left out", f"page {page}")
            elif (query, page) in seen:
                self.remarks.count("gold pages are there twice and count once", f"{query}, page {page}")
            else:
                seen.add((query, page))
                found[query].append(RelevantPage(page, relevance, row))
        return {query: sorted(found[query], key=self._order) for query in queries if query in found}

    def _order(self, relevant: RelevantPage) -> tuple[int, str, int]:
        page = self.pages[relevant.page]
        return -relevant.relevance, page.document, page.number

    def _rows(self, table: str, columns: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield rows with all their columns: these tables are small."""
        for path in self.files[table]:
            for spot, row in table_rows([path], columns, None):
                yield spot.path, row

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

    def images(self, ids: set[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield the images of pages, one in memory at a time; in the order of the files, not of the ids."""
        reader = RowReader(["image"])
        for id in sorted(ids, key=lambda id: self.pages[id].spot):
            yield id, image_bytes(reader.read(self.pages[id].spot)["image"])


MakeCases = Callable[
    [BeirTables, "Mapping[str, BeirQuery]", "Mapping[str, Sequence[RelevantPage]]"], "Iterable[Case]"
]
"""Makes cases of a set, of its queries by id and the pages that answer each; queries without are left out."""


def open_tables(
    folder: Path,
    split: str | None,
    *,
    name: str,
    strip: str,
    columns: BeirColumns,
    hub: Hub,
    make_cases: MakeCases,
) -> OpenBenchmark:
    """Open the sets in a folder: it is one, or holds several.

    Args:
        folder: Where to look.
        split: The language of the queries; English if None.
        name: Name of the benchmark.
        strip: Prefix of folder names that no uid needs.
        columns: Names of columns.
        hub: Where to get the files.
        make_cases: Makes the cases of a set.

    Raises:
        CaseError: If there are none, one lacks a table, or none has queries in that language.
    """
    remarks = Remarks()
    language = (split or ENGLISH).lower()
    every = [(tables, tables.queries(language)) for tables in _find(folder, columns, strip, hub, remarks)]
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

    def cases() -> Iterator[Case]:
        for tables, queries in sets:
            tables.index()
            relevant = tables.relevant_pages(queries)
            for id in [id for id in queries if id not in relevant]:
                remarks.count("queries have no gold page and were left out", f"query {id}")
            prefix = "-".join(part for part in (name, tables.label) if part)
            yield from take_in(make_cases(tables, queries, relevant), prefix, name, remarks)

    documents = (document for tables, _ in sets for document in tables.documents())
    return OpenBenchmark(cases(), documents, remarks.notes)


def _find(folder: Path, columns: BeirColumns, strip: str, hub: Hub, remarks: Remarks) -> list[BeirTables]:
    roots = sorted({path.parent.parent for path in find_all(folder, "queries/*.parquet")})
    if not roots:
        raise missing(folder, "queries/test-00000-of-00001.parquet", hub)
    found: list[BeirTables] = []
    for root in roots:
        names = ("corpus", "queries", "qrels", "documents_metadata")
        files = {name: sorted((root / name).glob("*.parquet")) for name in names}
        if absent := [name for name in names[:3] if not files[name]]:
            raise missing(root, f"{absent[0]}/test-*.parquet", hub)
        label = root.name.removeprefix(strip) if len(roots) > 1 else ""
        found.append(BeirTables(root, label, columns, files, remarks))
    return found


def _relevance(score: object) -> int:
    """Return a grade; 0 for what is not relevant."""
    if not isinstance(score, int | float) or not math.isfinite(score) or score != int(score) or score > 100:
        raise CaseError(f"'score' is a whole number, not {score!r:.40}.")
    return max(int(score), 0)
