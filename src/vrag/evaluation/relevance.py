"""Gold of a case as a collection names it: pages, documents as a whole, stretches of a video."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.cases import gold_documents, graded_pages
from vrag.corpus.formats.html import SUFFIXES as HTML
from vrag.corpus.formats.text import SUFFIXES as TEXT
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.types import Case, Document

_DIGITS = 16
"""Of a document's id, with which the ids of its items begin; see `vrag.types.item_id`."""


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """The file names of each document. Without any, a document has the name by which it was found."""

    by_document: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """By the first digits of its id. Of a document without items it is empty: nothing of it can be found."""
    by_name: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """The keys of the documents that have a name."""

    @classmethod
    def of(cls, documents: Iterable[Document]) -> DocumentNames:
        """The names that a manifest gives."""
        names: defaultdict[str, set[str]] = defaultdict(set)
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for document in documents:
            held = names[_key(document.id)]
            if document.items:
                held.add(document.name)
                keys[document.name].add(_key(document.id))
        return cls(_frozen(names), _frozen(keys))

    def called(self, id: str, name: str) -> frozenset[str]:
        """All names of a document.

        Args:
            id: Of the document, or of an item of it.
            name: By which it was found; the only one of a document that is not known.
        """
        return self.by_document.get(_key(id), frozenset({name}))

    def among(self, wanted: AbstractSet[str], id: str, name: str) -> str | None:
        """The name of a document that is wanted, the first in the alphabet; None where none is."""
        return min(self.called(id, name) & wanted, default=None)

    def distinct(self, wanted: AbstractSet[str]) -> dict[str, str]:
        """For each name the one by which `among` knows its document: names of the same bytes are one.

        A name that several documents have, beside others, stays what it is for one of them.
        """
        return {name: self._known(name, wanted) for name in wanted}

    def _known(self, name: str, wanted: AbstractSet[str]) -> str:
        firsts = {min(self.by_document[key] & wanted) for key in self.by_name.get(name, ())}
        return name if name in firsts else min(firsts, default=name)


def _key(id: str) -> str:
    return id.partition("-")[0][:_DIGITS]


def _frozen(sets: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in sets.items()}


Spot = tuple[str, str, int]
"""File name of a document; `page`, `text`, `whole` or `span`; the number of the page or, from 0, the stretch.

`text` is a document of text of which pages are gold: it has none, see `is_text`.
"""


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold of a case as a collection calls it."""

    grades: Mapping[Spot, int]
    """How relevant each is, from 1."""
    spans: Sequence[tuple[float, float]]
    names: DocumentNames
    documents: frozenset[str]
    """File names, of which each stands for all names of the same bytes."""
    numbered: frozenset[tuple[str, int]] = frozenset()
    """Of documents of text: the file names and the numbers of the pages that were said to be gold."""

    @classmethod
    def of(cls, case: Case, names: DocumentNames) -> Gold:
        """The gold of a case; names of the same bytes become one, with the higher of their grades.

        Args:
            case: Whose gold.
            names: Of the documents that are searched.
        """
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
        """The gold name of the document of an item; its id where it is not gold.

        Args:
            id: Of the document or of an item of it.
            name: By which it was found.
        """
        return self.names.among(self.documents, id, name) or id

    def spot(
        self, id: str, name: str, page: int, kind: ItemKind, seconds: tuple[float, float] | None = None
    ) -> Spot:
        """What an item is, so that it can be looked up in `grades`.

        An item of a document that is gold as a whole is that document. So is a passage of a document of text
        of which a page is gold, whatever its number; a picture of it is where its number is the page's. Of
        all other documents a passage is never a gold page. A clip is the gold stretch that it overlaps the
        longest, if any; of several that it overlaps as long, the first. A moment within a
        stretch overlaps it.

        Args:
            id: Of the item.
            name: File name by which its document was found.
            page: Its place in its document, from 1.
            kind: What it is: of what is no page the place is no page number.
            seconds: Of a clip or a frame: from when to when in its video; None where that is not known.
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
        at = self._stretch(document, seconds)
        return (id, str(kind), page) if at is None else (document, "span", at)

    def _stretch(self, document: str, seconds: tuple[float, float] | None) -> int | None:
        if seconds is None or (document, "span", 0) not in self.grades:
            return None
        overlaps = [_overlap(seconds, span) for span in self.spans]
        longest = max(overlaps)
        return overlaps.index(longest) if longest >= 0 else None


def has_gold(case: Case) -> bool:
    """Whether it is known where the answer to a case stands."""
    return bool(_stated(case))


def is_text(name: str) -> bool:
    """Whether a document is text (Markdown, HTML, JSON, plain text), and so is found as passages.

    It has no pages, and a question that names one means the document. Told by the ending of its name, as
    the converters tell it (`vrag.corpus.convert`).

    >>> is_text("faq.HTML"), is_text("report.pdf")
    (True, False)
    """
    return name.lower().endswith((*TEXT, *HTML))


def _stated(case: Case) -> dict[Spot, int]:
    """The gold by the names that the case gives; pages of a document that is gold as a whole are in it."""
    entire = gold_documents(case)
    whole: dict[Spot, int] = {
        (one.document, "whole", 0): one.relevance for one in case.gold if one.page is None
    }
    pages: dict[Spot, int] = {
        (name, "page", page): grade
        for (name, page), grade in graded_pages(case).items()
        if name not in entire
    }
    spans: dict[Spot, int] = {(case.file_name, "span", at): 1 for at in range(len(case.spans))}
    return pages | whole | spans


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Seconds that both share; below 0 where they share none, and where they only touch."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    touching = common == 0 and one[0] < one[1] and other[0] < other[1]
    return -1.0 if touching else common
