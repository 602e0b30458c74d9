"""The conflicts of a collection: which statements are compared, and how those that disagree are told.

Editions of one text are compared sentence by sentence; documents in other forms that are linked, by the facts
that they state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.conflicts.alignment import ConflictKind, Disagreement, find_edited
from vrag.reading.conflicts.assertions import Assertion, read_assertions
from vrag.reading.conflicts.editions import (
    DocumentFacts,
    DocumentRevision,
    find_newer,
    read_revision,
)
from vrag.reading.conflicts.fact_words import Span
from vrag.reading.conflicts.matching import FactMatcher
from vrag.reading.conflicts.stated_facts import find_facts
from vrag.reading.conflicts.subjects import DocumentSubjects
from vrag.reading.verification.source_text import read_source
from vrag.types import ItemKind

MAX_CONFLICTS = 500
MAX_QUOTE_CHARS = 400
MAX_WORDS_OF_NAME = 10
"""Words of the subject or the attribute of a conflict."""
Among = Callable[[Assertion], bool]


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
    _assertions: defaultdict[str, list[Assertion]] = field(
        default_factory=lambda: defaultdict[str, list[Assertion]](list)
    )
    """By document, in order."""
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
                self._subjects.add_title(document.id)
            found = [one for one in read_assertions(page) if (one.document, one.text) not in self._seen]
            self._seen.update((one.document, one.text) for one in found)
            self._subjects.add(document.id, found)
            for one in found:
                self._subjects.add_facts(document.id, one)
                self._matcher.add(one, find_facts(one))
            self._assertions[document.id] += found
        self._revisions.setdefault(document.id, read_revision(document, None))

    def find(self, among: Among | None = None) -> list[Conflict]:
        """Return the conflicts; only those with a side that `among` accepts, if it is given."""
        entries = list(self._find_edited(among))
        edited = {id(side) for one, other, _ in entries for side in (one, other)}
        entries += [
            (one.assertion, other.assertion, disagreement)
            for one, other, disagreement in self._matcher.find(among)
            if id(one.assertion) not in edited and id(other.assertion) not in edited
        ]
        return [self._describe(*entry) for entry in entries[:MAX_CONFLICTS]]

    def _find_edited(self, among: Among | None) -> Iterator[tuple[Assertion, Assertion, Disagreement]]:
        for pair in self._subjects.find_editions():
            for one, other, found in find_edited(*(self._assertions[document] for document in pair)):
                if among is None or among(one) or among(other):
                    yield one, other, found

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
