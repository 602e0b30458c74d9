"""Sets in three tables: queries, pages, and which pages answer which query (the layout of BEIR)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vrag.cases.case_format import text_of
from vrag.errors import CaseError
from vrag.evaluation.benchmark import OpenBenchmark
from vrag.evaluation.sources.clean_cases import take_in
from vrag.evaluation.sources.file_lookup import check_name, pdf_name, safe_name
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.page_images import picture_of, with_pages
from vrag.evaluation.sources.parquet import RowReader, Spot, table_rows
from vrag.evaluation.sources.source_files import blamed, find_all, missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.evaluation.benchmark import Hub, PageDocument
    from vrag.types import Case

__all__ = ["BeirColumns", "BeirPage", "BeirQuery", "BeirTables", "Making", "RelevantPage", "open_tables"]

ENGLISH = "english"

LAST_PAGE = 99_999
"""A number above is a fault of the file, and as many blank pages are not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeirColumns:
    """What columns are called."""

    query: str
    page: str
    """Of the id of a page."""
    document: str
    number: str
    """Of the place of a page in its document, from 0."""


@dataclass(frozen=True, slots=True)
class BeirPage:
    """A page of the corpus."""

    document: str
    """File name."""
    number: int
    """From 1."""
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
    """What tells it from the others beside it; empty where it is alone."""
    columns: BeirColumns
    files: Mapping[str, Sequence[Path]]
    """By table: `corpus`, `queries`, `qrels`, and others."""
    remarks: Remarks
    pages: dict[str, BeirPage] = field(default_factory=dict[str, BeirPage])
    """By id; filled by `index`."""
    languages: set[str] = field(default_factory=set[str])
    """Of its queries; filled by `queries`."""

    def index(self) -> None:
        """Looks where every page is, once.

        Raises:
            CaseError: If a page has no id or number, or the files are not as published.
        """
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
        """What a document is called as a file."""
        named = f"{self.label}-{stem}" if self.label and not stem.startswith(self.label) else stem
        return check_name(pdf_name(safe_name(named)), "The corpus")

    def _number(self, row: Mapping[str, Any], so_far: int) -> int:
        """The place of a page in its document, from 1; where no column has it, by the order of rows."""
        place = row.get(self.columns.number)
        if place is None:
            return so_far
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < LAST_PAGE:
            raise CaseError(f"{self.columns.number!r} is a number from 0, not {place!r:.40}.")
        return place + 1

    def queries(self, language: str) -> dict[str, BeirQuery]:
        """The queries in a language, by id; without a column for it, all are English."""
        found: dict[str, BeirQuery] = {}
        for path, row in self._rows("queries", [self.columns.query, "query"]):
            spoken = str(row.get("language") or ENGLISH).lower()
            self.languages.add(spoken)
            if spoken == language:
                with blamed(f"{path}"):
                    id = text_of(row, self.columns.query)
                    found[id] = BeirQuery(id, text_of(row, "query"), row)
        return found

    def answering(self, asked: Mapping[str, BeirQuery]) -> Mapping[str, list[RelevantPage]]:
        """By query: the pages that answer it, the most relevant first; in the order of the queries.

        Raises:
            CaseError: If a relevance is none.
        """
        found: dict[str, list[RelevantPage]] = defaultdict(list)
        seen: set[tuple[str, str]] = set()
        wanted = [self.columns.query, self.columns.page, "score"]
        for path, row in self._rows("qrels", wanted):
            with blamed(f"{path}"):
                query, page = text_of(row, self.columns.query), text_of(row, self.columns.page)
                relevance = _relevance(row["score"])
            if query not in asked or not relevance:
                continue
            if page not in self.pages:
                self.remarks.count("gold pages are not in the corpus and were left out", f"page {page}")
            elif (query, page) in seen:
                self.remarks.count("gold pages are there twice and count once", f"{query}, page {page}")
            else:
                seen.add((query, page))
                found[query].append(RelevantPage(page, relevance, row))
        return {query: sorted(found[query], key=self._order) for query in asked if query in found}

    def _order(self, answering: RelevantPage) -> tuple[int, str, int]:
        page = self.pages[answering.page]
        return -answering.relevance, page.document, page.number

    def _rows(self, table: str, columns: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Rows with all their columns: these tables are small."""
        for path in self.files[table]:
            for spot, row in table_rows([path], columns, None):
                yield spot.path, row

    def documents(self) -> Iterator[PageDocument]:
        """The documents of the corpus: all are searched, whether a query is about them or not."""
        self.index()
        spots: dict[str, dict[int, Spot]] = defaultdict(dict)
        for page in self.pages.values():
            spots[page.document][page.number] = page.spot
        reader = RowReader(["image"])
        for name, places in spots.items():
            yield with_pages(name, _reading(reader, places), self.remarks)

    def pictures(self, ids: set[str]) -> Iterator[tuple[str, bytes | None]]:
        """The pictures of pages, one in memory at a time; in the order of the files, not of the ids."""
        reader = RowReader(["image"])
        for id in sorted(ids, key=lambda id: self.pages[id].spot):
            yield id, picture_of(reader.read(self.pages[id].spot)["image"])


Making = Callable[
    [BeirTables, "Mapping[str, BeirQuery]", "Mapping[str, Sequence[RelevantPage]]"], "Iterable[Case]"
]
"""Makes cases of a set, of its queries by id and the pages that answer each; queries without are none."""


def open_tables(
    folder: Path, split: str | None, *, name: str, strip: str, columns: BeirColumns, hub: Hub, make: Making
) -> OpenBenchmark:
    """The sets in a folder: it is one, or holds several.

    Args:
        folder: Where to look.
        split: The language of the queries; English if None.
        name: Of the benchmark.
        strip: What the names of folders begin with, and no uid needs.
        columns: What columns are called.
        hub: Where to get the files.
        make: Makes the cases of a set, of its queries and what answers them.

    Raises:
        CaseError: If there are none, one lacks a table, or none has queries in that language.
    """
    remarks = Remarks()
    language = (split or ENGLISH).lower()
    sets = [(tables, tables.queries(language)) for tables in _find(folder, columns, strip, hub, remarks)]
    if not any(asked for _, asked in sets):
        known = sorted({spoken for tables, _ in sets for spoken in tables.languages})
        raise CaseError(
            f"{folder} has no queries in {language!r:.40}.",
            f"The split is the language; there are: {', '.join(known) or 'none'}.",
        )
    for tables, asked in sets:
        if not asked:
            remarks.count("data sets have no queries in that language and were left out", tables.label)
    spoken = [(tables, asked) for tables, asked in sets if asked]

    def cases() -> Iterator[Case]:
        for tables, asked in spoken:
            tables.index()
            answering = tables.answering(asked)
            for id in [id for id in asked if id not in answering]:
                remarks.count("queries have no gold page and were left out", f"query {id}")
            prefix = "-".join(part for part in (name, tables.label) if part)
            yield from take_in(make(tables, asked, answering), prefix, name, remarks)

    return OpenBenchmark(cases(), (one for tables, _ in spoken for one in tables.documents()), remarks.notes)


def _find(folder: Path, columns: BeirColumns, strip: str, hub: Hub, remarks: Remarks) -> list[BeirTables]:
    """The sets in a folder.

    Raises:
        CaseError: If there are none, or one lacks a table.
    """
    roots = sorted({path.parent.parent for path in find_all(folder, "queries/*.parquet")})
    if not roots:
        raise missing(folder, "queries/test-00000-of-00001.parquet", hub)
    found: list[BeirTables] = []
    for root in roots:
        names = ("corpus", "queries", "qrels", "documents_metadata")
        files = {name: sorted((root / name).glob("*.parquet")) for name in names}
        if lacking := [name for name in names[:3] if not files[name]]:
            raise missing(root, f"{lacking[0]}/test-*.parquet", hub)
        label = root.name.removeprefix(strip) if len(roots) > 1 else ""
        found.append(BeirTables(root, label, columns, files, remarks))
    return found


def _relevance(score: object) -> int:
    """A grade as a whole number; 0 of what is not relevant.

    Raises:
        CaseError: If it is no number, or between two.
    """
    if not isinstance(score, int | float) or not math.isfinite(score) or score != int(score) or score > 100:
        raise CaseError(f"'score' is a whole number, not {score!r:.40}.")
    return max(int(score), 0)


def _reading(reader: RowReader, spots: Mapping[int, Spot]) -> Callable[[], Iterator[bytes | None]]:
    def read() -> Iterator[bytes | None]:
        for number in range(1, max(spots) + 1):
            spot = spots.get(number)
            yield picture_of(reader.read(spot)["image"]) if spot else None

    return read
