"""The place of an answer on the pages of its evidence: its words or cell, and the rectangle around it.

It is a function of question, answer, evidence and collection: a replay finds the same. It serves answers of
models as well as those that are found without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vrag.agent.environment import Environment, fault_of
from vrag.agent.events import AnswerReading
from vrag.agent.evidence import BoxSides, Evidence, EvidenceMark, picture_evidence
from vrag.agent.page_reading import open_page
from vrag.agent.policy import MAX_PLACES, Picture
from vrag.agent.question import Question
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, View
from vrag.reading import completed
from vrag.reading.answer import Mark, MarkRole, Reading, ReadPage
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.places.cell_ranges import name_cells
from vrag.reading.places.evidence_region import MOST, end_between_words
from vrag.reading.places.page_parts import find_part_of_answer, find_parts_of_question, find_question_words
from vrag.reading.questions.overview import asks_for_overview, fits_no_answer
from vrag.reading.reader import THRESHOLD, find_answer
from vrag.reading.table_answers.ratios import name_lines
from vrag.reading.views.text_lines import Rect
from vrag.types import Item

MAX_PAGES = 5
"""Pages of the evidence on which an answer is looked for."""
MAX_ANSWER_CHARS = 200
"""Characters from which an answer is no short one, whose words or cell could be marked."""
MAX_PART = 0.5
"""Share of the page up to which a part of it is shown instead."""
LARGE = 0.25
"""Share of the page from which evidence does not point at a place."""
WHOLE_PAGE = 0.98
"""Share of the page from which evidence is the whole of it."""
SAME = 1e-3
"""Distance, as a share of the page, that a rectangle may reach into a word, as rounding to pixels has it."""


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where an answer stands."""

    evidence: tuple[Evidence, ...]
    """The evidence, what holds the answer first, with its words marked."""
    reading: AnswerReading | None = None
    """What the reader found of the answer; None where it does not stand on the pages."""
    pictures: tuple[Picture, ...] = ()
    """The pictures of parts that were found by the words of the answer, which no agent has looked at."""


@dataclass(frozen=True, slots=True)
class _FoundPlace:
    item: Item
    region: Box
    """In `Space.UNIT`."""
    reading: Reading

    @property
    def point(self) -> tuple[float, float]:
        """A point that a rectangle around the answer covers."""
        return (self.reading.frame or self.region).center

    @property
    def is_likely(self) -> bool:
        """True if the reader would have given the answer itself, from here."""
        return self.reading.probability >= THRESHOLD


def locate_answer(
    question: Question,
    answer: str,
    evidence: Sequence[Evidence],
    environment: Environment,
    *,
    ordered: bool = False,
) -> AnswerPlace:
    """Find an answer on its evidence, mark its words, and put what holds it first.

    Where the evidence is a whole page, it becomes the part with the answer: the row, sentence, table or chart
    of a short answer. Of an answer that stands nowhere each page becomes the part that it may rest on, unless
    an agent has looked closely at some. With `ordered` the evidence keeps its order, which the model has
    chosen. The evidence is returned as it is where no page can be opened; moments of videos stay as they are.
    """
    whole = completed(question.text, [turn.question for turn in question.history])
    most = MAX_PLACES if name_lines(whole) else MAX_PAGES  # a ratio rests on several statements
    items = list(dict.fromkeys(entry.item for entry in evidence if entry.seconds is None))[:most]
    if not items:
        return AnswerPlace(tuple(evidence))
    try:
        pages = [open_page(environment.searcher, environment.item(item)) for item in items]
    except (SearchError, CollectionError):
        return AnswerPlace(tuple(evidence))
    is_short = len(answer) <= MAX_ANSWER_CHARS
    reading = find_answer(whole, answer, pages, text_reader=environment.text_reader) if is_short else None
    close = [at for at, entry in enumerate(evidence) if entry.box is not None and area(entry.box) <= LARGE]
    if reading is None:
        return AnswerPlace(tuple(evidence)) if close else _narrow(whole, answer, evidence, pages, environment)
    page = next(page for page in pages if page.item.id == reading.item)
    place = _FoundPlace(page.item, find_part_of_answer(page, reading), reading)
    at = _choose_entry(place, evidence, close)
    entries, pictures = list(evidence), list[Picture]()
    if at not in close and entries[at].box is not None:
        entries[at] = _narrow_entry(entries[at], place.item, place.region, environment, pictures)
    if not ordered:
        entries = [entries[at], *entries[:at], *entries[at + 1 :]]
    for further in reading.further:
        _show_further(further, pages, entries, environment, pictures)
    found = AnswerReading(
        item=reading.item,
        context="" if _is_same(reading.context, answer) else reading.context,
        arithmetic=reading.arithmetic,
        probability=reading.probability,
    )
    for at, entry in enumerate(entries):
        if entry.item == reading.item:
            entries[at] = with_cells(with_marks(entry, reading.marks), page.item, reading.marks)
    return AnswerPlace(tuple(entries), found, tuple(pictures))


def _show_further(
    reading: Reading,
    pages: Sequence[ReadPage],
    entries: list[Evidence],
    environment: Environment,
    pictures: list[Picture],
) -> None:
    """Narrow the evidence of another page to the rows that an answer was computed from, and mark them."""
    page = next(page for page in pages if page.item.id == reading.item)
    at = next(at for at, entry in enumerate(entries) if entry.item == reading.item)
    region = find_part_of_answer(page, reading)
    is_shown = all(covers(entries[at].box, mark.box.center) for mark in reading.marks)
    if entries[at].box is not None and (area_of(entries[at]) > LARGE or not is_shown):
        entries[at] = _narrow_entry(entries[at], page.item, region, environment, pictures)
    entries[at] = with_marks(entries[at], reading.marks)


def locate_places(
    question: Question, evidence: Sequence[Evidence], environment: Environment
) -> tuple[tuple[Evidence, ...], tuple[Picture, ...]]:
    """Return the places that may answer a question, with its words marked, and pictures of new parts.

    Each page is one place. The pages that the agent has looked at closely come first, then the others in
    their order; the place is what it has looked at if that is a small part, else the part with most words of
    the question. For an overview it is the heading of a page, and no document comes again before all others
    have come. The evidence stays as it is where no page can be opened.
    """
    whole = completed(question.text, [turn.question for turn in question.history])
    entries = _choose_places(evidence, closely=not asks_for_overview(whole))
    try:
        pages = [open_page(environment.searcher, environment.item(item)) for item in entries]
    except (SearchError, CollectionError):
        return tuple(evidence), ()
    coarse = [entry for entry in entries.values() if area_of(entry) > MOST]
    items = {entry.item for entry in coarse if entry.seconds is None}
    wide = [page for page in pages if page.item.id in items]
    narrowed = _narrow(whole, "", coarse, wide, environment)
    entries |= {entry.item: entry for entry in narrowed.evidence}
    places = [_mark_question(whole, entries[page.item.id], read_page_text(page.item)) for page in pages]
    return tuple(_take_turns(places) if fits_no_answer(whole) else places), narrowed.pictures


def _choose_places(evidence: Sequence[Evidence], *, closely: bool) -> dict[str, Evidence]:
    """Return the evidence to show of each item, those first that the agent has looked at closely.

    With `closely` it is the smallest part; else the whole.
    """
    items = list(dict.fromkeys(entry.item for entry in sorted(evidence, key=_is_whole)))[:MAX_PLACES]
    chosen: dict[str, Evidence] = {}
    for item in items:
        own = [entry for entry in evidence if entry.item == item]
        chosen[item] = min(own, key=area_of) if closely else max(own, key=area_of)
    return chosen


def _is_whole(entry: Evidence) -> bool:
    return area_of(entry) > WHOLE_PAGE


def _mark_question(question: str, entry: Evidence, page: PageText) -> Evidence:
    """Return a place with the words of a question marked in it."""
    if entry.box is None:
        return entry
    return with_marks(entry, find_question_words(question, page, Box.unit(*entry.box)))


def _take_turns(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Return evidence with the best of each document first, then the second best of each, and so on."""
    seen: Counter[str] = Counter()
    turns: list[tuple[int, Evidence]] = []
    for entry in evidence:
        turns.append((seen[entry.document_id], entry))
        seen[entry.document_id] += 1
    return [entry for _, entry in sorted(turns, key=lambda turn: turn[0])]


def _is_same(context: str, answer: str) -> bool:
    """Return whether two texts differ by a full stop at most."""
    return context.strip().rstrip(".。") == answer.strip().rstrip(".。")


def _choose_entry(place: _FoundPlace, evidence: Sequence[Evidence], close: Sequence[int]) -> int:
    """Return the number of the evidence for a place.

    What an agent has looked at closely stands for the answer where the reader does not find it elsewhere.
    """
    for at in close:
        if evidence[at].item == place.item.id and covers(evidence[at].box, place.point):
            return at
    if close and not place.is_likely:
        return close[0]
    return next(at for at, entry in enumerate(evidence) if entry.item == place.item.id)


def _narrow(
    question: str,
    answer: str,
    evidence: Sequence[Evidence],
    pages: Sequence[ReadPage],
    environment: Environment,
) -> AnswerPlace:
    """Return the evidence with each whole page narrowed to the part on which the answer may rest."""
    regions = find_parts_of_question(question, answer, pages)
    parts = {page.item.id: (page.item, region) for page, region in zip(pages, regions, strict=True)}
    entries, pictures = list[Evidence](), list[Picture]()
    for entry in evidence:
        item, region = parts.pop(entry.item, (None, None))  # the first entry of a page alone
        if item is not None and region is not None and entry.box is not None:
            entry = _narrow_entry(entry, item, region, environment, pictures)  # noqa: PLW2901
        entries.append(entry)
    return AnswerPlace(tuple(entries), pictures=tuple(pictures))


def _narrow_entry(
    entry: Evidence, item: Item, region: Box, environment: Environment, pictures: list[Picture]
) -> Evidence:
    """Return evidence of a page as a part of it, whose picture is added, or as it is."""
    picture = cut_out(item, region, environment) if region.area <= MAX_PART else None
    if picture is None:
        return entry
    pictures.append(picture)
    part = picture_evidence(picture, item, "", node=entry.node).evidence
    return part.model_copy(update={"located": True})


def cut_out(item: Item, region: Box, environment: Environment) -> Picture | None:
    """Return the picture of a part of an item, drawn like a crop; None where it cannot be drawn."""
    size = item.size
    if size is None:
        return None
    view = View.whole(size, size)
    part = view.cut(region)
    if fault_of(part):
        return None
    try:
        return environment.closer(item.id, view, part)
    except (SearchError, CollectionError, ValueError):
        return None


def end_between_lines(
    evidence: Iterable[Evidence], environment: Environment
) -> tuple[tuple[Evidence, ...], tuple[Picture, ...]]:
    """Return evidence whose rectangles cut no words, and the pictures of those that were moved.

    A model draws its rectangles by eye. Its crops stay as they were shown to it; what people are shown of
    them ends between lines and words. Whole pages, passages and moments of videos stay as they are.
    """
    pictures: list[Picture] = []
    return tuple(_end_between_lines(entry, environment, pictures) for entry in evidence), tuple(pictures)


def _end_between_lines(entry: Evidence, environment: Environment, pictures: list[Picture]) -> Evidence:
    if entry.box is None or entry.seconds is not None:
        return entry
    try:
        item = environment.item(entry.item)
    except (SearchError, CollectionError):
        return entry
    before = Rect(*entry.box)
    moved = end_between_words(before, [word for _, _, word in read_page_text(item).words])
    is_same = all(abs(new - old) < SAME for new, old in zip(moved, before, strict=True))
    picture = None if is_same else cut_out(item, moved.box(), environment)
    if picture is None:
        return entry
    pictures.append(picture)
    part = picture_evidence(picture, item, "").evidence
    return entry.model_copy(
        update={key: getattr(part, key) for key in ("box", "quote", "crop_sha256", "origin", "cells")}
    )


def with_marks(evidence: Evidence, marks: Iterable[Mark]) -> Evidence:
    """Return evidence with further marks: those that lie in its box, each once."""
    if evidence.box is None:
        return evidence
    further = (
        EvidenceMark(role=mark.role, box=mark.box.as_tuple())
        for mark in marks
        if covers(evidence.box, mark.box.center)
    )
    return evidence.model_copy(update={"marks": tuple(dict.fromkeys((*evidence.marks, *further)))})


def with_cells(evidence: Evidence, item: Item, marks: Iterable[Mark]) -> Evidence:
    """Return evidence of a sheet with the cells of the answer alone, where marks show which these are."""
    boxes = [mark.box for mark in marks if mark.role is not MarkRole.HEAD]
    names = dict.fromkeys(filter(None, (name_cells(item, box) for box in boxes)))
    return evidence.model_copy(update={"cells": ", ".join(names)}) if names and evidence.cells else evidence


def area_of(evidence: Evidence) -> float:
    """Return the area of a piece of evidence, as a share of the page; 1 without a rectangle."""
    return 1.0 if evidence.box is None else area(evidence.box)


def area(box: BoxSides) -> float:
    """Return the area of a box, as a share of the page."""
    return (box[2] - box[0]) * (box[3] - box[1])


def covers(box: BoxSides | None, point: tuple[float, float]) -> bool:
    """Return whether a point lies in a box."""
    return box is not None and box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
