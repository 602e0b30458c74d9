"""The conflicts of a collection: which statements are compared, and what is told of those that disagree.

Statements are found by their rarest terms, so that thousands of pages are compared in minutes; two that share
no rare term are of two things. What is doubtful is left out: tables of two periods, a value for which the
other document has several.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.conflicts.alignment import ConflictKind, Disagreement, Span, agree, find_disagreement
from vrag.reading.conflicts.assertions import Assertion, read_assertions
from vrag.reading.conflicts.editions import (
    DocumentFacts,
    DocumentRevision,
    find_newer,
    read_revision,
)
from vrag.reading.conflicts.matching import FactMatcher
from vrag.reading.conflicts.stated_facts import find_facts
from vrag.reading.conflicts.subjects import DocumentSubjects
from vrag.reading.verification.source_text import read_source
from vrag.types import ItemKind

MAX_POSTINGS = 160
"""Assertions with one term beyond which it is too common to find others by."""
MIN_SHARED = 0.5
"""Share of the terms of the shorter of two assertions that both must have."""
MIN_SAME_CELLS = 3
"""Cells that two tables of one document have in common if they are the same table."""
MAX_CONFLICTS = 500
MAX_QUOTE_CHARS = 400
MAX_WORDS_OF_NAME = 10
"""Words of the subject or the attribute of a conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictSide:
    """One of two statements that disagree, and its place."""

    document: str
    """Id of the document."""
    name: str
    """Path of the document for people."""
    item: str
    page: int | None
    """Number of the page, from 1; None of a text without pages."""
    box: Box | None
    """The sentence, or the cell with the heads of its row, in `Space.UNIT`; None without a picture."""
    marks: tuple[Box, ...]
    """The words of the value."""
    value: str
    quote: str
    dated: str | None
    """The date near the beginning of the document, or that of its file."""
    revision: tuple[str, ...]
    """The words of editions that the document has, such as "draft"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two statements about the same that disagree."""

    kind: ConflictKind
    subject: str
    attribute: str
    sides: tuple[ConflictSide, ConflictSide]
    newer: int | None
    """Number of the side whose document shows that it is newer; None where none does."""


@dataclass(slots=True)
class ConflictFinder:
    """Statements of documents, to be compared."""

    reopen: Callable[[str], ReadPage]
    """Opens an item again, for the places of what was found."""
    _assertions: list[Assertion] = field(default_factory=list[Assertion])
    _seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _revisions: dict[str, DocumentRevision] = field(default_factory=dict[str, DocumentRevision])
    _subjects: DocumentSubjects = field(init=False)
    _matcher: FactMatcher = field(init=False)

    def __post_init__(self) -> None:
        self._subjects = DocumentSubjects(self._revisions)
        self._matcher = FactMatcher(self._subjects)

    def add_document(self, document: DocumentFacts, pages: Iterable[ReadPage]) -> None:
        """Read what the pages of a document state; the first page with text has its title."""
        for page in pages:
            if document.id not in self._revisions and page.item.text.strip():
                self._revisions[document.id] = read_revision(document, page.item)
            found = [one for one in read_assertions(page) if (one.document, one.text) not in self._seen]
            self._seen.update((one.document, one.text) for one in found)
            self._subjects.add(document.id, found)
            for one in found:
                self._subjects.add_facts(document.id, one)
                self._matcher.add(one, find_facts(one))
            self._assertions += (one for one in found if _is_comparable(one))
        self._revisions.setdefault(document.id, read_revision(document, None))

    def find(self, among: Callable[[Assertion], bool] | None = None) -> list[Conflict]:
        """Return the conflicts; only those with a side that `among` accepts, if it is given."""
        found = _Findings(self._subjects)
        for one, other in self._pair(among):
            found.add(one, other)
        entries = found.certain()
        known = {(id(one), id(other)) for one, other, _ in entries}
        entries += [
            (one.assertion, other.assertion, disagreement)
            for one, other, disagreement in self._matcher.find(among)
            if (id(one.assertion), id(other.assertion)) not in known
            and (id(other.assertion), id(one.assertion)) not in known
        ]
        return [self._describe(*entry) for entry in entries[:MAX_CONFLICTS]]

    def _pair(self, among: Callable[[Assertion], bool] | None) -> Iterator[tuple[Assertion, Assertion]]:
        """Yield pairs of assertions that share rare terms, each once."""
        postings: defaultdict[str, list[int]] = defaultdict(list)
        counts = Counter(term for one in self._assertions for term in one.terms)
        rare = [_rare_terms(one, counts) for one in self._assertions]
        for number, terms in enumerate(rare):
            for term in terms:
                postings[term].append(number)
        for number, one in enumerate(self._assertions):
            if among is not None and not among(one):
                continue
            near = {
                other
                for term in rare[number]
                if len(postings[term]) <= MAX_POSTINGS
                for other in postings[term]
                if other > number or (among is not None and other != number)
            }
            for other in sorted(near):
                if _may_be_of_same(one, self._assertions[other]):
                    yield one, self._assertions[other]

    def _describe(self, one: Assertion, other: Assertion, found: Disagreement) -> Conflict:
        subject, attribute = _name_subject(one, other)
        attribute = found.attribute or attribute
        editions = self._revisions[one.document], self._revisions[other.document]
        sides = tuple(
            self._side(assertion, revision, span)
            for assertion, revision, span in zip((one, other), editions, found.spans, strict=True)
        )
        if not subject or found.attribute:
            titles = [line for revision in editions for line in revision.head.splitlines() if line.strip()]
            subject = titles[0].strip() if titles else editions[0].name
        newer = find_newer(*editions)
        return Conflict(
            kind=found.kind, subject=subject, attribute=attribute, sides=(sides[0], sides[1]), newer=newer
        )

    def _side(self, assertion: Assertion, revision: DocumentRevision, span: Span) -> ConflictSide:
        page = self.reopen(assertion.item)
        source = read_source(page)
        box: Box | None = None
        marks: tuple[Box, ...] = ()
        if assertion.cell is not None:
            box = assertion.cell.frame
            marks = (assertion.cell.box,) if assertion.cell.box is not None else ()
        else:
            statement = source.statements[source.statement_at(assertion.start)]
            box = statement.rect.box() if statement.rect is not None else None
            marks = source.boxes(assertion.start + span[0], assertion.start + span[1])
        is_page = page.item.kind is ItemKind.PAGE
        return ConflictSide(
            document=assertion.document,
            name=revision.name,
            item=assertion.item,
            page=page.item.ordinal if is_page else None,
            box=box,
            marks=marks,
            value=assertion.text[slice(*span)].strip(),
            quote=assertion.text[:MAX_QUOTE_CHARS],
            dated=revision.date,
            revision=revision.words,
        )


def _is_comparable(one: Assertion) -> bool:
    if not one.terms or one.is_distant:
        return False
    is_label = ":" in one.text
    return len(one.terms) >= (1 if is_label and one.cell is None else 2) or not one.slots


def _rare_terms(one: Assertion, counts: Counter[str]) -> list[str]:
    """Return the rarest terms of an assertion: two that share most of their terms share one of these."""
    ordered = sorted(one.terms, key=lambda term: (counts[term], term))
    return ordered[: max(2, math.ceil(MIN_SHARED * len(ordered)) + 1)]


def _may_be_of_same(one: Assertion, other: Assertion) -> bool:
    if one.item == other.item:  # entries of a list, rows of a table
        return False
    shared = len(one.terms & other.terms)
    return shared >= MIN_SHARED * min(len(one.terms), len(other.terms)) and (
        shared >= 0.4 * max(len(one.terms), len(other.terms))
    )


@dataclass(slots=True)
class _Findings:
    """The disagreements that were found, and the reasons for doubt in them."""

    subjects: DocumentSubjects
    found: list[tuple[Assertion, Assertion, Disagreement]] = field(
        default_factory=list[tuple[Assertion, Assertion, Disagreement]]
    )
    same_cells: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    agreeing: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Assertions, by identity, with documents that state the same."""

    def add(self, one: Assertion, other: Assertion) -> None:
        """Compare two assertions."""
        disagreement = find_disagreement(one, other, self.subjects)
        if disagreement is not None:
            self.found.append((one, other, disagreement))
        elif one.terms == other.terms and ((one.words == other.words and not one.slots) or agree(one, other)):
            self.agreeing |= {(id(one), other.document), (id(other), one.document)}
            if one.cell is not None and other.cell is not None:
                self.same_cells[_tables_of(one, other)] += 1

    def certain(self) -> list[tuple[Assertion, Assertion, Disagreement]]:
        """Return the findings that nothing makes doubtful, each statement of a document once."""
        cells = Counter(_tables_of(one, other) for one, other, _ in self.found if one.cell and other.cell)
        values: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        for one, other, found in self.found:
            values[id(one), other.document].add(_value_of(other, found.spans[1]))
            values[id(other), one.document].add(_value_of(one, found.spans[0]))
        kept: dict[tuple[object, ...], tuple[Assertion, Assertion, Disagreement]] = {}
        for one, other, found in self.found:
            pair = _pair_of(one, other)
            keys = (id(one), other.document), (id(other), one.document)
            if any(len(values[key]) > 1 or key in self.agreeing for key in keys):
                continue
            if one.cell and other.cell:
                tables = _tables_of(one, other)
                if not _are_revisions(cells[tables], self.same_cells[tables], one.document == other.document):
                    continue
            said = _value_of(one, found.spans[0]), _value_of(other, found.spans[1])
            kept.setdefault((*pair, one.terms & other.terms, *sorted(said)), (one, other, found))
        return list(kept.values())


def _are_revisions(differing: int, same: int, is_one_document: bool) -> bool:
    """Return whether two tables with some cells that differ are the same table: most of them do not."""
    if is_one_document:
        return same >= MIN_SAME_CELLS and same >= 2 * differing
    return differing <= max(1, same)


def _tables_of(one: Assertion, other: Assertion) -> tuple[str, str]:
    """Return what the tables of two cells are counted by: their pages, of two documents the documents."""
    if one.document == other.document:
        return (one.item, other.item) if one.item < other.item else (other.item, one.item)
    return _pair_of(one, other)


def _pair_of(one: Assertion, other: Assertion) -> tuple[str, str]:
    return (one.document, other.document) if one.document < other.document else (other.document, one.document)


def _value_of(assertion: Assertion, span: Span) -> str:
    return assertion.text[slice(*span)].casefold()


def _name_subject(one: Assertion, other: Assertion) -> tuple[str, str]:
    """Return the names that two assertions share, and their other words, as the first writes them."""
    own = one.terms | one.qualifiers
    shared = own & (other.terms | other.qualifiers | other.heading) or own
    subject: list[str] = []
    attribute: list[str] = []
    for word, (start, end) in zip(one.words, one.spans, strict=True):
        text = one.text[start:end]
        if word in shared and text not in subject and text not in attribute:
            (subject if word in one.names else attribute).append(text)
    return " ".join(subject[:MAX_WORDS_OF_NAME]), " ".join(attribute[:MAX_WORDS_OF_NAME])


def find_conflicts(
    documents: Sequence[tuple[DocumentFacts, Iterable[ReadPage]]], reopen: Callable[[str], ReadPage]
) -> list[Conflict]:
    """Return the conflicts of some documents, each with its pages in order."""
    finder = ConflictFinder(reopen)
    for document, pages in documents:
        finder.add_document(document, pages)
    return finder.find()
