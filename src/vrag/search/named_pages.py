"""Pages that a query names by their numbers come first among its hits: "fees on page 12", "page iv".

Words do not find them: a page does not say its position, and a number stands on many pages. Both meanings are
looked up, the number that is printed on a page and its position in the file: in the document that the query
names, in that of the best hit, or in the only one that there is. Where these have no such page, it is looked
up in all documents: the pages of the only one that has it come first, those of several behind the hits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from heapq import nsmallest
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.tables.table import literal
from vrag.item_facts import decode_facts
from vrag.reading.questions.page_numbers import named_pages
from vrag.text.terms import STOP_WORDS, tokens
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.index.catalog import Catalog
    from vrag.index.collection import Collection
    from vrag.types import Hit, Query

MAX_FIRST = 4
"""Pages that are put before others."""
COMMON_NAMES = frozenset(token.term for token in tokens("page document print file scan"))
"""Words that name no document: questions for a page have them."""
MIN_NAME_CHARS = 3
"""Letters of a word by which a file is named: "2.pdf" is not named by "page 2"."""
MAX_READ_PAGES = 200
"""Pages of a document of which all printed numbers are read; of longer ones those that are wanted."""
MAX_NAMES = 20_000
"""Names of files whose terms are remembered."""


class PageSource(NamedTuple):
    """A collection in which named pages are looked up."""

    catalog: Catalog
    """The version of the collection that was searched."""
    collection: Collection
    first_row: int = 0
    """Number of its first item, as `Hit.row` counts."""

    def list_pages(self, query: Query) -> NDArray[np.bool_]:
        """Return which items are pages that a query may find, (items,)."""
        return self.catalog.mask(query) & self.catalog.kinds.among({ItemKind.PAGE.value})


class _FoundPages(NamedTuple):
    """Pages of a collection that a query names, by their rows in its catalog."""

    source: PageSource
    rows: NDArray[np.int64]


def put_named_pages_first(
    hits: list[Hit], query: Query, top_k: int, sources: Sequence[PageSource]
) -> list[Hit]:
    """Return `top_k` hits or fewer, with the pages first that a query names.

    Args:
        hits: What was found for the query, best first; they are returned where it names no page.
        query: The query.
        top_k: Number of hits at most.
        sources: The collections that it searches. A document that is in several is that of the first.
    """
    numbers = named_pages(query.text)
    if not numbers:
        return hits
    document = _find_document(hits, query, sources)
    first = _find_pages(query, sources, numbers, document)[:MAX_FIRST] if document else []
    last: list[Hit] = []
    if not first:
        pages = _find_labelled(query, sources, numbers) or _find_counted(query, sources, numbers)
        if _are_of_one_document(pages):
            first = _list_hits(pages[0].source, pages[0].rows[:MAX_FIRST])
        else:
            last = _list_best(pages, hits, top_k)
    best, least = (hits[0].score, hits[-1].score) if hits else (0.0, 0.0)
    ordered = [replace(hit, score=best) for hit in first]
    seen = {hit.item for hit in ordered}
    for hit in (*hits, *(replace(hit, score=least) for hit in last)):
        if hit.item not in seen:
            seen.add(hit.item)
            ordered.append(hit)
    return [replace(hit, rank=rank) for rank, hit in enumerate(ordered[:top_k], 1)]


def _find_document(hits: Sequence[Hit], query: Query, sources: Sequence[PageSource]) -> str | None:
    """Return the document of which a query names pages: that it names, that of the best hit, the only one."""
    names = {document: name for source in sources for document, name in _list_documents(source, query)}
    terms = {token.term for token in tokens(query.text)}
    named = [
        (len(words), document) for document, name in names.items() if (words := _name_terms(name)) <= terms
    ]
    most = max((count for count, _ in named), default=0)
    best = [document for count, document in named if count == most] if most else []
    if len(best) == 1:
        return best[0]
    if hits:
        return hits[0].document
    return next(iter(names)) if len(names) == 1 else None


def _list_documents(source: PageSource, query: Query) -> Iterator[tuple[str, str]]:
    """Yield the documents that a query may find, with the names of their files."""
    catalog = source.catalog
    rows = np.flatnonzero(catalog.mask(query))
    _, first = np.unique(catalog.documents.codes[rows], return_index=True)
    for row in rows[first].tolist():
        yield catalog.documents[row], catalog.document_names[row]


@lru_cache(MAX_NAMES)
def _name_terms(name: str) -> frozenset[str]:
    """Return the terms of the name of a file without its ending; none if no word tells it from a number.

    >>> sorted(_name_terms("Harbour_fees-2026.pdf")), sorted(_name_terms("2.pdf"))
    (['2026', 'fee', 'harbour'], [])
    >>> sorted(_name_terms("Page 2.pdf"))
    []
    """
    terms = {token.term for token in tokens(PurePath(name).stem.replace("_", " "))} - STOP_WORDS
    is_name = any(term.isalpha() and len(term) >= MIN_NAME_CHARS for term in terms - COMMON_NAMES)
    return frozenset(terms) if is_name else frozenset()


def _find_pages(
    query: Query, sources: Sequence[PageSource], numbers: frozenset[str], document: str
) -> list[Hit]:
    """Return the pages of a document with one of the numbers: those that have it printed on them first."""
    for source in sources:
        catalog = source.catalog
        rows = np.flatnonzero(source.list_pages(query) & catalog.documents.among({document}))
        if len(rows):
            rows = rows[np.argsort(catalog.ordinals[rows], kind="stable")]
            printed = _find_printed(source, numbers, rows, document)
            counted = rows[np.isin(catalog.ordinals[rows], _to_positions(numbers))]
            return _list_hits(source, list(dict.fromkeys((*printed, *counted.tolist()))))
    return []


def _find_printed(
    source: PageSource, numbers: frozenset[str], rows: NDArray[np.int64], document: str
) -> list[int]:
    """Return those of the pages of a document that have one of the numbers printed on them."""
    order: list[int] = rows.tolist()
    table, columns = source.collection.item_table, ["id", "facts"]
    if len(rows) <= MAX_READ_PAGES:
        facts = table.find("id", [source.catalog.ids[row] for row in order], columns)
    else:
        where = f"document = {literal(document)} AND ({_match_labels(numbers)})"
        facts = table.read(columns, where, checked=False).data
    labels = _read_labels(facts.to_pylist())
    found = {source.catalog.row(id) for id, label in labels.items() if label in numbers}
    return [row for row in order if row in found]


def _find_labelled(query: Query, sources: Sequence[PageSource], numbers: frozenset[str]) -> list[_FoundPages]:
    """Return the pages of all documents that have one of the numbers printed on them."""
    where = _match_labels(numbers)
    found: list[_FoundPages] = []
    for source in sources:
        facts = source.collection.item_table.read(["id", "facts"], where, checked=False).data.to_pylist()
        labels = _read_labels(facts)
        ids = sorted(id for id, label in labels.items() if label in numbers)
        rows = [row for row in map(source.catalog.row, ids) if row is not None]
        wanted = np.array(rows, np.int64)
        found.append(_FoundPages(source, wanted[source.list_pages(query)[wanted]]))
    return _leave_out_doubles(found)


def _match_labels(numbers: frozenset[str]) -> str:
    """Return the SQL condition of pages that may have one of the numbers printed on them."""
    patterns = [literal(f'%"label":"{number}"%') for number in sorted(numbers)]
    return " OR ".join(f"lower(facts) LIKE {pattern}" for pattern in patterns)


def _find_counted(query: Query, sources: Sequence[PageSource], numbers: frozenset[str]) -> list[_FoundPages]:
    """Return the pages of all documents whose positions are named."""
    positions = _to_positions(numbers)
    return _leave_out_doubles(
        [
            _FoundPages(
                source, np.flatnonzero(source.list_pages(query) & np.isin(source.catalog.ordinals, positions))
            )
            for source in sources
        ]
    )


def _to_positions(numbers: frozenset[str]) -> list[int]:
    return [int(number) for number in numbers if number.isdecimal()]


def _leave_out_doubles(found: Sequence[_FoundPages]) -> list[_FoundPages]:
    """Return found pages without those of documents that an earlier collection has, and empty ones."""
    kept: list[_FoundPages] = []
    known: set[str] = set()
    for source, rows in found:
        new = rows[~source.catalog.documents.among(known)[rows]]
        if len(new):
            kept.append(_FoundPages(source, new))
            known |= _list_found_documents(kept[-1])
    return kept


def _are_of_one_document(found: Sequence[_FoundPages]) -> bool:
    return len(found) == 1 and len(_list_found_documents(found[0])) == 1


def _list_found_documents(found: _FoundPages) -> set[str]:
    documents = found.source.catalog.documents
    return {documents.values[code] for code in np.unique(documents.codes[found.rows]).tolist()}


def _list_hits(source: PageSource, rows: Iterable[int]) -> list[Hit]:
    hits = source.catalog.hits([(source.catalog.ids[row], 0.0) for row in rows])
    return [replace(hit, row=source.first_row + hit.row) for hit in hits]


def _list_best(found: Sequence[_FoundPages], hits: Sequence[Hit], count: int) -> list[Hit]:
    """Return so many pages of several documents: by the hits of their documents, then by name.

    Hits are made of these alone: in a large collection most documents may have the page.
    """
    ranks: dict[str, int] = {}
    for hit in hits:
        ranks.setdefault(hit.document, hit.rank)
    worst = len(hits) + 1
    keys = (
        (
            ranks.get(catalog.documents[row], worst),
            catalog.document_names[row],
            int(catalog.ordinals[row]),
            at,
            row,
        )
        for at, (source, rows) in enumerate(found)
        for catalog in (source.catalog,)
        for row in rows.tolist()
    )
    return [hit for *_, at, row in nsmallest(count, keys) for hit in _list_hits(found[at].source, [row])]


def _read_labels(rows: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return the printed numbers of pages, in lower case, where they are known."""
    return {row["id"]: decode_facts(row["facts"]).label.casefold() for row in rows if row["facts"]}
