"""Pages that a query points to come first among its hits: "page 12", "the cover", "Figure 3", "section 2.3".

Words do not find them: a page does not say its position, and a number stands on many pages. Of a page number
both meanings are looked up, the number that is printed on a page and its position in the file; of a figure, a
table or a section the pages whose captions or headings have it, before those that mention it. They are looked
up in the document that the query means (`named_documents.py`), or in those of the best hits. Where none of
these has a page with the number, it is looked up in all documents: the pages of the only one that has it come
first, those of several behind the hits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import accumulate, chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.item_facts import decode_facts
from vrag.reading.questions.pointers import (
    CaptionFit,
    NamedPart,
    find_named_parts,
    find_positions,
    named_pages,
)
from vrag.text.terms import STOP_WORDS, tokens
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from vrag.index.catalog import Catalog
    from vrag.index.collection import Collection
    from vrag.index.lexical.lexical_index import LexicalIndex
    from vrag.types import Hit, Query

PLACE_WORDS = frozenset(token.term for token in tokens("first last page cover title front back slide"))
"""Words of a query that names nothing but a place in documents."""
MAX_FIRST = 4
"""Pages of a document that are put before others."""
MAX_LOOKED_AT = 10
"""Hits in whose documents pages are looked up where the query names none."""
MAX_READ_PAGES = 200
"""Pages of a document of which all printed numbers are read; of longer ones those that are wanted."""
MAX_READ_TEXTS = 60
"""Pages of a document whose texts are read to find a part or a printed number."""
MAX_FRONT_PAGES = 40
"""Pages before the one with the printed number 1."""


@dataclass(frozen=True, slots=True)
class PageSource:
    """A collection in which named pages are looked up, for one query."""

    catalog: Catalog
    """The version of the collection that was searched."""
    collection: Collection
    first_row: int = 0
    """Number of its first item, as `Hit.row` counts."""
    lexical: LexicalIndex | None = None
    """The words of its items, in the rows of the catalog; None where they are not searched."""
    texts: dict[int, str] = field(default_factory=dict[int, str])
    """Texts that were read, by row."""

    def list_pages(self, query: Query) -> NDArray[np.bool_]:
        """Return which items are pages that a query may find, (items,)."""
        return self.catalog.mask(query) & self.catalog.kinds.among({ItemKind.PAGE.value})


class _FoundPages(NamedTuple):
    """Pages of a collection that a query names, by their rows in its catalog."""

    source: PageSource
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pointers:
    """All that a question says about where to look."""

    numbers: frozenset[str]
    """Page numbers."""
    positions: tuple[int, ...]
    """Pages by their place, from 1; from the end below 0."""
    parts: tuple[NamedPart, ...]
    """Figures, tables, sections."""

    @classmethod
    def of(cls, text: str) -> Pointers:
        """Find the pointers of a question."""
        return cls(named_pages(text), tuple(find_positions(text)), tuple(find_named_parts(text)))

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self.numbers or self.positions or self.parts)


def put_named_pages_first(
    hits: list[Hit], query: Query, top_k: int, sources: Sequence[PageSource], document: str | None = None
) -> list[Hit]:
    """Return `top_k` hits or fewer, with the pages first that a query points to.

    Args:
        hits: What was found for the query, best first; they are returned where it points to nothing.
        query: The query.
        top_k: Number of hits at most.
        sources: The collections that it searches. A document that is in several is that of the first.
        document: The document that the query means; None where that is not clear.
    """
    pointers = Pointers.of(query.text)
    if not pointers:
        return hits
    if document is None and pointers.positions and _names_only_places(query.text):
        return order_hits(_list_best(_find_at_places(query, sources, pointers), [], top_k), top_k)
    likely = [document] if document else list(dict.fromkeys(hit.document for hit in hits[:MAX_LOOKED_AT]))
    ranks = {hit.item: hit.rank for hit in hits}
    places = _open_documents(query, sources, likely)
    _read_candidates(places, pointers)
    labels = _find_printed(places, pointers.numbers) if pointers.numbers else set[str]()
    listed = (_find_pages(place, pointers, labels) for place in places)
    found = [_choose_first(pages, ranks) for pages in listed if pages]
    is_first = bool(found) and (bool(pointers.parts) or found[0][0].document == likely[0])
    first = found.pop(0) if is_first else []
    last: list[Hit] = []
    if not first and pointers.numbers:
        pages = _find_labelled(query, sources, pointers.numbers) or _find_counted(query, sources, pointers)
        if _are_of_one_document(pages):
            first = _list_hits(pages[0].source, pages[0].rows[:MAX_FIRST])
        else:
            last = _list_best(pages, hits, top_k)
    others = alternate(hits, [pages[0] for pages in found])
    return order_hits([*first, *others, *last], top_k)


def _choose_first(pages: list[Hit], ranks: Mapping[str, int]) -> list[Hit]:
    """Return the pages that come first: of many, those that the words find as well, by their ranks."""
    if len(pages) > MAX_FIRST:
        pages = sorted(pages, key=lambda hit: ranks.get(hit.item, len(ranks) + 1))
    return pages[:MAX_FIRST]


def alternate(hits: Sequence[Hit], others: Sequence[Hit]) -> list[Hit]:
    """Return hits with one of the others after each."""
    pairs = zip_longest(hits, others)
    return [hit for hit in chain.from_iterable(pairs) if hit is not None]


def order_hits(hits: Iterable[Hit], top_k: int) -> list[Hit]:
    """Return the first hits, each item once, with ranks, and with at least the scores of those after them."""
    once: dict[str, Hit] = {}
    for hit in hits:
        once.setdefault(hit.item, hit)
    ordered = list(once.values())[:top_k]
    scores = list(accumulate((hit.score for hit in reversed(ordered)), max))[::-1]
    pairs = zip(ordered, scores, strict=True)
    return [replace(hit, rank=rank, score=score) for rank, (hit, score) in enumerate(pairs, 1)]


def _open_documents(
    query: Query, sources: Sequence[PageSource], documents: Sequence[str]
) -> list[_FoundPages]:
    """Return the items of each document that a query may find, in their order, from the first that has it."""
    places: list[_FoundPages] = []
    for document in documents:
        for source in sources:
            catalog = source.catalog
            rows = np.flatnonzero(catalog.mask(query) & catalog.documents.among({document}))
            if len(rows):
                places.append(_FoundPages(source, rows[np.argsort(catalog.ordinals[rows], kind="stable")]))
                break
    return places


def _read_candidates(places: Sequence[_FoundPages], pointers: Pointers) -> None:
    """Read the texts that are looked at, of all documents of a collection at once."""
    wanted: dict[int, tuple[PageSource, list[int]]] = {}
    for source, rows in places:
        lists = [_list_with_part(source, part, rows) for part in pointers.parts]
        for number in _to_positions(pointers.numbers):
            is_near = np.isin(rows, _list_with_number(source, number, rows))
            is_near[1:] |= is_near[:-1]
            is_near[:-1] |= is_near[1:]  # with the pages before and after
            lists.append(rows[is_near].tolist())
        wanted.setdefault(id(source), (source, []))[1].extend(row for each in lists for row in each)
    for source, rows in wanted.values():
        read_texts(source, rows)


def _find_pages(place: _FoundPages, pointers: Pointers, printed: AbstractSet[str]) -> list[Hit]:
    """Return the pages of a document that a question points to, best first.

    Pages that are named by a number come before those at a place, and before those with a part; of them those
    that have the number printed on them. `printed` are the ids of pages that have.
    """
    source, items = place
    catalog = source.catalog
    pages = items[catalog.kinds.among({ItemKind.PAGE.value})[items]]
    numbered = [row for row in pages.tolist() if catalog.ids[row] in printed]
    numbered = numbered or _find_written(source, pointers.numbers, pages)
    numbered += pages[np.isin(catalog.ordinals[pages], _to_positions(pointers.numbers))].tolist()
    placed = _find_placed(source, pointers.positions, pages)
    with_parts = [row for part in pointers.parts for row in _find_part(source, part, items)]
    both = [row for row in numbered + placed if row in with_parts]
    return _list_hits(source, list(dict.fromkeys([*both, *numbered, *placed, *with_parts])))


def _find_placed(source: PageSource, positions: Sequence[int], pages: NDArray[np.int64]) -> list[int]:
    """Return the pages at some places; where one has no words, the next that has some as well."""
    found: list[int] = []
    for position in positions:
        at = position - 1 if position > 0 else len(pages) + position
        if 0 <= at < len(pages):
            found.append(int(pages[at]))
            after = pages[at + 1 : at + 2].tolist()
            if after and position > 1 and not read_texts(source, [found[-1]])[found[-1]].strip():
                found += after
    return found


def _find_part(source: PageSource, part: NamedPart, items: NDArray[np.int64]) -> list[int]:
    """Return the items with the caption or heading of a part; where there is none, those that mention it."""
    candidates = _list_with_part(source, part, items)
    texts = read_texts(source, candidates)
    fits = {row: fit for row in candidates if (fit := part.fit(texts[row])) is not None}
    best = min(fits.values(), default=CaptionFit.CAPTION)
    return [row for row, fit in fits.items() if fit is best]


def _list_with_part(source: PageSource, part: NamedPart, items: NDArray[np.int64]) -> list[int]:
    return _list_with_any(source, part.search_phrases(), items)[:MAX_READ_TEXTS]


def _list_with_number(source: PageSource, number: int, pages: NDArray[np.int64]) -> list[int]:
    ordinals = source.catalog.ordinals[pages]
    is_near = (ordinals >= number) & (ordinals <= number + MAX_FRONT_PAGES)
    return _list_with_any(source, [str(number)], pages[is_near])


def _list_with_any(source: PageSource, phrases: Iterable[str], items: NDArray[np.int64]) -> list[int]:
    """Return those of some items, in their order, whose text may have one of the phrases."""
    if source.lexical is None:
        return items[:MAX_READ_TEXTS].tolist()
    lists = [source.lexical.rows_with(phrase) for phrase in phrases]
    return items[np.isin(items, np.concatenate(lists))].tolist() if lists else []


def read_texts(source: PageSource, rows: Sequence[int]) -> dict[int, str]:
    """Return the texts of items, with their headings."""
    ids = {source.catalog.ids[row]: row for row in rows if row not in source.texts}
    if ids:
        found = source.collection.store.find_items([*ids], ["id", "heading", "text"])
        source.texts.update({ids[each["id"]]: f"{each['heading']}\n{each['text']}" for each in found})
    return {row: source.texts.get(row, "") for row in rows}


def _find_written(source: PageSource, numbers: frozenset[str], pages: NDArray[np.int64]) -> list[int]:
    """Return the pages with one of the numbers in their first or last lines, beside one with the next."""
    found: list[int] = []
    for number in sorted(_to_positions(numbers)):
        candidates = _list_with_number(source, number, pages)
        texts = read_texts(source, candidates)
        written = [row for row in candidates if _has_number_at_edge(texts[row], number)]
        for row in written[:MAX_FIRST]:
            at = int(np.flatnonzero(pages == row)[0])
            beside = {step: int(pages[at + step]) for step in (-1, 1) if 0 <= at + step < len(pages)}
            others = read_texts(source, list(beside.values()))
            if any(_has_number_at_edge(others[near], number + step) for step, near in beside.items()):
                found.append(row)
    return found


def _has_number_at_edge(text: str, number: int) -> bool:
    r"""Return whether the first or last lines of a page begin or end with its number.

    >>> _has_number_at_edge("7 User Manual\nWarning", 7), _has_number_at_edge("a\nb\nc 7 d\ne\nf", 7)
    (True, False)
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    written = re.compile(
        rf"(?:page |seite |[-–|] ?)?{number}(?: ?[-–|])?(?:\s+\D.*)?|.*\D\s{number}", re.IGNORECASE
    )
    return any(written.fullmatch(line) for line in (*lines[:2], *lines[-2:]))


def _find_printed(places: Sequence[_FoundPages], numbers: frozenset[str]) -> set[str]:
    """Return the ids of those items of some documents that have one of the numbers printed on them."""
    found: set[str] = set()
    for source in {id(place.source): place.source for place in places}.values():
        rows = [place.rows for place in places if place.source is source]
        store, columns = source.collection.store, ["id", "facts"]
        if len(rows) == 1 and len(rows[0]) <= MAX_READ_PAGES:
            order: list[int] = rows[0].tolist()
            facts = store.find_items([source.catalog.ids[row] for row in order], columns)
        else:
            documents = sorted({source.catalog.documents[int(each[0])] for each in rows})
            marks = ", ".join("?" * len(documents))
            labelled, patterns = _match_labels(numbers)
            where = f"document IN ({marks}) AND ({labelled})"
            facts = store.read_items(columns, where, [*documents, *patterns]).records()
        labels = _read_labels(facts)
        found.update(id for id, label in labels.items() if label in numbers)
    return found


def _find_labelled(query: Query, sources: Sequence[PageSource], numbers: frozenset[str]) -> list[_FoundPages]:
    """Return the pages of all documents that have one of the numbers printed on them."""
    where, patterns = _match_labels(numbers)
    found: list[_FoundPages] = []
    for source in sources:
        facts = source.collection.store.read_items(["id", "facts"], where, patterns).records()
        labels = _read_labels(facts)
        ids = sorted(id for id, label in labels.items() if label in numbers)
        rows = [row for row in map(source.catalog.row, ids) if row is not None]
        wanted = np.array(rows, np.int64)
        found.append(_FoundPages(source, wanted[source.list_pages(query)[wanted]]))
    return _leave_out_doubles(found)


def _match_labels(numbers: frozenset[str]) -> tuple[str, list[str]]:
    """Return the SQL condition of pages that may have one of the numbers printed, and its parameters."""
    patterns = [f'%"label":"{number}"%' for number in sorted(numbers)]
    return " OR ".join(["lower(facts) LIKE ?"] * len(patterns)), patterns


def _find_counted(query: Query, sources: Sequence[PageSource], pointers: Pointers) -> list[_FoundPages]:
    """Return the pages of all documents whose positions are named."""
    positions = _to_positions(pointers.numbers)
    return _leave_out_doubles(
        [
            _FoundPages(
                source, np.flatnonzero(source.list_pages(query) & np.isin(source.catalog.ordinals, positions))
            )
            for source in sources
        ]
    )


def _find_at_places(query: Query, sources: Sequence[PageSource], pointers: Pointers) -> list[_FoundPages]:
    """Return the items of all documents at the places from the beginning that are named."""
    found: list[_FoundPages] = []
    for source in sources:
        is_placed = np.isin(source.catalog.ordinals, pointers.positions)
        found.append(_FoundPages(source, np.flatnonzero(source.catalog.mask(query) & is_placed)))
    return _leave_out_doubles(found)


def _names_only_places(text: str) -> bool:
    """Return whether a query has no words but those for a place, such as "first page"."""
    return {token.term for token in tokens(text)} - STOP_WORDS <= PLACE_WORDS


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
