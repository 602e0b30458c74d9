"""Gold of a case as a collection names it: pages, documents as a whole, stretches of a video."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.cases import gold_documents, graded_pages
from vrag.corpus.convert import PASSAGE_SUFFIXES
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.types import Case, Document

_DIGITS = 16
"""Digits of a document's id with which the ids of its items begin; see `vrag.types.item_id`."""


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """File names of documents: the same bytes may lie in several files, and a question may mean any of them.

    A document without names has the name by which it was found.
    """

    by_document: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """Names by the first digits of the id; empty for a document without items, which cannot be found."""
    by_name: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """Keys of the documents that have a name."""

    @classmethod
    def of(cls, documents: Iterable[Document]) -> DocumentNames:
        """Collect the names of documents."""
        names: defaultdict[str, set[str]] = defaultdict(set)
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for document in documents:
            own = names[_key(document.id)]
            if document.items:
                own.add(document.name)
                keys[document.name].add(_key(document.id))
        return cls(
            {key: frozenset(found) for key, found in names.items()},
            {name: frozenset(found) for name, found in keys.items()},
        )

    def called(self, id: str, name: str) -> frozenset[str]:
        """Return all names of a document by its id or that of an item; `name` alone if it is not known."""
        return self.by_document.get(_key(id), frozenset({name}))

    def among(self, wanted: AbstractSet[str], id: str, name: str) -> str | None:
        """Return the first name of a document that is wanted, in alphabetical order; None without one."""
        return min(self.called(id, name) & wanted, default=None)

    def distinct(self, wanted: AbstractSet[str]) -> dict[str, str]:
        """Return for each name the one by which `among` knows its document: names of the same bytes are one.

        A name that several documents have, beside others, stays as it is for one of them.
        """
        found: dict[str, str] = {}
        for name in wanted:
            firsts = {min(self.by_document[key] & wanted) for key in self.by_name.get(name, ())}
            found[name] = name if name in firsts else min(firsts, default=name)
        return found


def _key(id: str) -> str:
    return id.partition("-")[0][:_DIGITS]


Spot = tuple[str, str, int]
"""File name of a document; `page`, `text`, `whole` or `span`; the number of the page or, from 0, the stretch.

`text` is a document of text of which pages are gold: it has none, see `is_text`.
"""


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold of a case by the names of a collection."""

    grades: Mapping[Spot, int]
    """Relevance of each, from 1."""
    spans: Sequence[tuple[float, float]]
    names: DocumentNames
    documents: frozenset[str]
    """File names; each stands for all names of the same bytes."""
    numbered: frozenset[tuple[str, int]] = frozenset()
    """File names and numbers of the gold pages of documents of text."""

    @classmethod
    def of(cls, case: Case, names: DocumentNames) -> Gold:
        """Return the gold of a case; names of the same bytes become one, with the higher of their grades."""
        stated = _stated(case)
        known = names.distinct({name for name, _, _ in stated})
        grades: dict[Spot, int] = {}
        numbered: set[tuple[str, int]] = set()
        for (name, kind, number), grade in stated.items():
            spot: Spot = known[name], kind, number
            if kind == "page" and is_text(name):
                numbered.add((known[name], number))
                spot = known[name], "text", 0
            grades[spot] = max(grade, grades.get(spot, 0))
        return cls(grades, case.spans, names, frozenset(known.values()), frozenset(numbered))

    def document(self, id: str, name: str) -> str:
        """Return the gold name of the document of an item, by their ids; the id where it is not gold."""
        return self.names.among(self.documents, id, name) or id

    def spot(
        self, id: str, name: str, page: int, kind: ItemKind, seconds: tuple[float, float] | None = None
    ) -> Spot:
        """Return the key of an item in `grades`.

        An item of a document that is gold as a whole is that document. So is a passage of a document of text
        of which a page is gold, whatever its number; a picture of it is where its number is the page's. Of
        all other documents a passage is never a gold page. A clip is the gold stretch that it overlaps the
        longest, if any; of several that it overlaps as long, the first. A moment within a
        stretch overlaps it.

        The id is that of the item, the name the one by which its document was found, and `page` its place in
        it, from 1: a page number only for pages. `seconds` are start and end of a clip or a frame in its
        video; None if unknown.
        """
        document = self.document(id, name)
        if (document, "whole", 0) in self.grades:
            return document, "whole", 0
        if (document, "text", 0) in self.grades and (
            kind is ItemKind.PASSAGE or (kind is ItemKind.PAGE and (document, page) in self.numbered)
        ):
            return document, "text", 0
        if kind is ItemKind.PAGE:
            return document, "page", page
        if seconds is not None and (document, "span", 0) in self.grades:
            overlaps = [_overlap(seconds, span) for span in self.spans]
            if max(overlaps) >= 0:
                return document, "span", overlaps.index(max(overlaps))
        return id, str(kind), page


def has_gold(case: Case) -> bool:
    """Return whether a case has gold."""
    return bool(_stated(case))


def is_text(name: str) -> bool:
    """Return whether a document is text (Markdown, HTML, mail and the like), and so is found as passages.

    It has no pages, and a question that names one means the document. The ending of its name decides, as in
    the converters (`vrag.corpus.convert`).

    >>> is_text("faq.HTML"), is_text("report.pdf")
    (True, False)
    """
    return name.lower().endswith(PASSAGE_SUFFIXES)


def _stated(case: Case) -> dict[Spot, int]:
    """Return the gold by the names in the case; pages of a document that is gold as a whole are in it."""
    entire = gold_documents(case)
    whole: dict[Spot, int] = {
        (gold.document, "whole", 0): gold.relevance for gold in case.gold if gold.page is None
    }
    pages: dict[Spot, int] = {
        (name, "page", page): grade
        for (name, page), grade in graded_pages(case).items()
        if name not in entire
    }
    spans: dict[Spot, int] = {(case.file_name, "span", at): 1 for at in range(len(case.spans))}
    return pages | whole | spans


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the seconds that both share; below 0 where they share none, and where they only touch."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    touching = common == 0 and one[0] < one[1] and other[0] < other[1]
    return -1.0 if touching else common
