"""Conflicts as runs and programs have them: those of a collection, and those of what an answer rests on.

What an answer rests on is compared with the pages of other documents that a search for it finds: a bounded
number, and of these only the pages that have most of its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from vrag.agent.environment import Environment
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.page_reading import open_page
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box
from vrag.reading.answer import MarkRole, ReadPage
from vrag.search.searcher import Searcher
from vrag.types import Item, Query, item_id

if TYPE_CHECKING:
    from vrag.reading.conflicts.assertions import Assertion
    from vrag.reading.conflicts.editions import DocumentFacts
    from vrag.reading.conflicts.finder import Conflict, ConflictSide

MAX_EVIDENCE, MAX_STATEMENTS = 4, 4
"""Pieces of evidence, and statements of them, that are compared with other documents."""
MAX_HITS, MAX_PAGES = 12, 6
"""Items that are searched for a statement, and of them those that are read."""
MIN_TERMS = 0.5
"""Share of the terms of a statement that a page has if it is read."""
MIN_ASKED = 2
"""Words of a question without an answer whose places are compared."""
MAX_QUERY_CHARS = 300
MAX_GAP = 8
"""Items of a document in a row that may be missing."""
MAX_VALUE_CHARS = 120
DISAGREE = "Two sources disagree"
MAX_CONFLICTS = 5
"""Conflicts that are told with an answer."""
MAX_SHOWN = 12
"""Items that a model was shown last, which are read beside those that are searched."""
DOUBTED_BY_MODEL = "The model sees no disagreement."


class ConflictJudgement(StrEnum):
    """The judgement of a model that was shown both sides of a conflict."""

    DIFFER = "differ"
    """They disagree."""
    SAME = "same"
    """They do not: the conflict is doubted."""
    UNCLEAR = "unclear"
    """It cannot tell."""


class ConflictPlace(BaseModel):
    """One side of a conflict: what a document says, and where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document: str
    """Path of the file below the folder that was asked, for people."""
    document_id: str
    item: str
    page: int | None
    """Number of the page, from 1; None of a text without pages."""
    box: BoxSides | None
    """The sentence, or the cell with the heads of its row, in fractions of the page; None without one."""
    marks: tuple[BoxSides, ...] = ()
    """The words of the value."""
    value: str
    quote: str
    dated: str | None = None
    """The date of the document, or of its file."""
    revision: tuple[str, ...] = ()
    """The words of editions that the document has, such as "draft" and "supersedes"."""

    @property
    def page_name(self) -> str:
        """The document with the page."""
        return self.document if self.page is None else f"{self.document}, page {self.page}"

    @property
    def claim(self) -> str:
        """The value and its place: “84,210” in report.pdf, page 3 (2024-05-02)."""
        facts = ", ".join(filter(None, (self.dated, *self.revision)))
        value = self.value if len(self.value) <= MAX_VALUE_CHARS else f"{self.value[: MAX_VALUE_CHARS - 1]}…"
        return f"“{value.rstrip('.')}” in {self.page_name}" + (f" ({facts})" if facts else "")

    @property
    def dated_name(self) -> str:
        """The document with the page and its date."""
        return self.page_name if self.dated is None else f"{self.page_name}, dated {self.dated}"


class FoundConflict(BaseModel):
    """Two statements about the same that disagree. Which is right is not decided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """`number`, `date`, `name`, `unit` or `negation`."""
    subject: str
    attribute: str
    sides: tuple[ConflictPlace, ConflictPlace]
    newer: int | None
    """Number of the side whose document is newer by its words, its version or its date, 0 or 1; else None."""
    judgement: ConflictJudgement | None = None
    """The judgement of the model that answered; None where it was not asked, or gave none."""

    @property
    def places(self) -> frozenset[tuple[str, str]]:
        """The items and values of both sides, by which conflicts are told apart."""
        return frozenset((side.item, side.value) for side in self.sides)

    @property
    def topic(self) -> str:
        """The subject and the attribute of both sides."""
        return ", ".join(filter(None, (self.subject, self.attribute)))

    @property
    def sentence(self) -> str:
        """Both sides with their places, in a sentence or two."""
        sides = ", ".join(side.claim for side in self.sides)
        newer = "" if self.newer is None else f" {self.sides[self.newer].document} is newer."
        doubt = f" {DOUBTED_BY_MODEL}" if self.judgement is ConflictJudgement.SAME else ""
        return f"{DISAGREE}: {sides}.{newer}{doubt}"


class ConflictReport(BaseModel):
    """The conflicts of some documents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conflicts: tuple[FoundConflict, ...]
    documents: int
    """Number of the documents that were compared."""


def find_conflicts(
    searcher: Searcher,
    documents: Sequence[DocumentFacts],
    on_document: Callable[[str, int, int], None] = lambda _name, _number, _total: None,
) -> ConflictReport:
    """Return the conflicts of documents.

    `on_document` is told the name of each before it is read, its number from 0, and how many there are.

    Raises `SearchError` or `CollectionError` if the collection is not available.
    """
    from vrag.reading.conflicts.finder import ConflictFinder  # the reader takes time to load

    finder = ConflictFinder(lambda id: open_page(searcher, searcher.item(id)))
    for number, document in enumerate(documents):
        on_document(document.name, number, len(documents))
        finder.add_document(document, _list_pages(searcher, document.id))
    return ConflictReport(conflicts=tuple(map(_record, finder.find())), documents=len(documents))


def _list_pages(searcher: Searcher, document: str) -> Iterator[ReadPage]:
    """Yield the items of a document in order; some may be missing."""
    number = missing = 0
    while missing < MAX_GAP:
        number += 1
        try:
            item = searcher.item(item_id(document, number))
        except (SearchError, CollectionError):
            missing += 1
            continue
        missing = 0
        yield open_page(searcher, item)


def find_answer_conflicts(
    answer: str,
    context: str,
    evidence: Sequence[Evidence],
    environment: Environment,
    *,
    question: str = "",
    shown: Sequence[str] = (),
) -> tuple[FoundConflict, ...]:
    """Return where other documents disagree with what an answer rests on. May block.

    Args:
        answer: The text of the answer.
        context: The sentence or the row that a short answer was read from; empty if that is not known.
        evidence: The evidence that the answer rests on.
        environment: The environment of the run: its documents are compared.
        question: The question, whose words lead to a statement of a page that the answer does not repeat.
        shown: Ids of the items that a model was shown, which are compared whether a search finds them or not.
    """
    find_asked = _asked_finder(question)

    def find_stated(page: ReadPage, piece: Evidence) -> list[Assertion]:
        return _find_stated(page, answer, context, piece) or find_asked(page, piece)

    return _find_among(evidence, environment, find_stated, shown[-MAX_SHOWN:])


def find_place_conflicts(
    question: str, evidence: Sequence[Evidence], environment: Environment
) -> tuple[FoundConflict, ...]:
    """Return where other documents disagree with statements of places that have all words of a question.

    May block. It is for a question without an answer, of which `evidence` are the places.
    """
    return _find_among(evidence, environment, _asked_finder(question))


def _asked_finder(question: str) -> Callable[[ReadPage, Evidence], list[Assertion]]:
    """Return a function that finds the statements of a page which have all words of a question."""
    from vrag.reading.conflicts.assertions import LIGHT, read_assertions, terms_of

    asked = terms_of(question) - LIGHT

    def find_asked(page: ReadPage, _piece: Evidence) -> list[Assertion]:
        if len(asked) < MIN_ASKED:
            return []
        found = [one for one in read_assertions(page) if one.terms and asked <= {*one.words, *one.heading}]
        said = {id(one): len(asked.intersection(one.words)) for one in found}
        most = max(said.values(), default=0)
        return [one for one in found if said[id(one)] == most][:MAX_STATEMENTS]

    return find_asked


def _find_among(
    evidence: Sequence[Evidence],
    environment: Environment,
    find_stated: Callable[[ReadPage, Evidence], list[Assertion]],
    shown: Sequence[str] = (),
) -> tuple[FoundConflict, ...]:
    """Compare the statements that are chosen from each piece of evidence with other documents."""
    found: dict[frozenset[tuple[str, str]], FoundConflict] = {}
    for piece in evidence[:MAX_EVIDENCE]:
        page = open_page(environment.searcher, environment.item(piece.item))
        if stated := find_stated(page, piece):
            for one in _compare(page, stated, environment, shown):
                found.setdefault(one.places, one)
    return tuple(found.values())[:MAX_CONFLICTS]


def _find_stated(page: ReadPage, answer: str, context: str, piece: Evidence) -> list[Assertion]:
    """Return the statements of a page that an answer rests on: where its words are marked, or that say it."""
    from vrag.reading.conflicts.assertions import read_assertions
    from vrag.reading.verification.claims import read_sentences

    marks = [Box.unit(*mark.box) for mark in piece.marks if mark.role is not MarkRole.HEAD]
    around = _fold(context or piece.quote)
    sentences = [answer[sentence.start : sentence.end] for sentence in read_sentences(answer)]
    stated: list[Assertion] = []
    for one in read_assertions(page):
        box = one.place
        if marks and box is not None:
            is_stated = any(box.intersect(mark).area > 0.5 * mark.area for mark in marks)
        else:
            said = _fold(one.text if one.cell is None else one.text.rsplit(": ", 1)[-1])
            is_stated = said in around and (len(answer) > len(said) or _fold(answer) in said)
            is_stated = is_stated or any(map(partial(_says, one), sentences))
        if is_stated and one.terms:
            stated.append(one)
    return stated[:MAX_STATEMENTS]


def _says(assertion: Assertion, sentence: str) -> bool:
    """Return whether a statement has all telling words and all values of a sentence of an answer."""
    from vrag.reading.conflicts.assertions import LIGHT, terms_of
    from vrag.reading.verification.text_values import find_values

    values, words = find_values(sentence), sentence
    for value in values:
        words = words[: value.start] + " " * (value.end - value.start) + words[value.end :]
    terms = terms_of(words) - LIGHT
    stated = {(value.amount, value.day) for value in find_values(assertion.text)}
    said = {(value.amount, value.day) for value in values}
    return bool(said and terms) and said <= stated and terms <= {*assertion.words, *assertion.heading}


def _fold(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _compare(
    page: ReadPage, stated: Sequence[Assertion], environment: Environment, shown: Sequence[str]
) -> list[FoundConflict]:
    """Compare statements of a page with the pages of other documents, shown or found by a search for them."""
    from vrag.reading.conflicts.editions import DocumentFacts
    from vrag.reading.conflicts.finder import ConflictFinder

    searcher = environment.searcher
    pages = _find_pages(stated, page.item, environment, shown)
    if not pages:
        return []
    finder = ConflictFinder(lambda id: open_page(searcher, environment.item(id)))
    by_document: dict[str, dict[str, ReadPage]] = {}
    for read in (page, *pages):
        document = by_document.setdefault(read.item.document, {})
        if not document:
            first = item_id(read.item.document, 1)
            try:
                document[first] = open_page(searcher, environment.item(first))
            except (SearchError, CollectionError):
                document[read.item.id] = read
        document[read.item.id] = read
    for id, read_pages in by_document.items():
        names = [read.item.title for read in read_pages.values()]
        finder.add_document(DocumentFacts(id, names[0]), read_pages.values())
    places = {(one.item, one.text) for one in stated}
    conflicts = finder.find(lambda one: (one.item, one.text) in places)
    return [_record(one) for one in conflicts if one.sides[0].document != one.sides[1].document]


def _find_pages(
    stated: Sequence[Assertion], own: Item, environment: Environment, shown: Sequence[str]
) -> list[ReadPage]:
    """Return the pages of other documents that have most of the words of a statement, those shown first."""
    from vrag.reading.conflicts.assertions import terms_of

    pages: dict[str, ReadPage] = {}
    for one in stated:
        documents = environment.options.documents
        query = Query(one.text[:MAX_QUERY_CHARS], documents, corpora=environment.collections)
        hits = environment.searcher.search([query], MAX_HITS)[0]
        for id in (*shown, *(hit.item for hit in hits)):
            if id in pages or len(pages) == MAX_PAGES + len(shown):
                continue
            try:
                item = environment.item(id)
            except (SearchError, CollectionError):
                continue
            said = terms_of(f"{item.heading} {item.text}")
            if item.document != own.document and len(one.terms & said) >= MIN_TERMS * len(one.terms):
                pages[id] = open_page(environment.searcher, item)
    return list(pages.values())


def _record(conflict: Conflict) -> FoundConflict:
    first, second = map(_place, conflict.sides)
    return FoundConflict(
        kind=conflict.kind.value,
        subject=conflict.subject,
        attribute=conflict.attribute,
        sides=(first, second),
        newer=conflict.newer,
    )


def _place(side: ConflictSide) -> ConflictPlace:
    return ConflictPlace(
        document=side.name,
        document_id=side.document,
        item=side.item,
        page=side.page,
        box=None if side.box is None else side.box.as_tuple(),
        marks=tuple(mark.as_tuple() for mark in side.marks),
        value=side.value,
        quote=side.quote,
        dated=side.dated,
        revision=side.revision,
    )
