"""The place of an answer on the pages of its evidence: its words or cell, and the rectangle around it.

It is a function of question, answer, evidence and collection: a replay finds the same. It serves answers of
models as well as those of the offline policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vrag.agent.environment import Environment, fault_of
from vrag.agent.events import AnswerReading
from vrag.agent.evidence import BoxSides, Evidence, EvidenceMark, picture_evidence
from vrag.agent.page_reading import open_page
from vrag.agent.policy import Picture
from vrag.agent.question import Question
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, View
from vrag.reading import completed
from vrag.reading.answer import Mark, Reading, ReadPage
from vrag.reading.evidence_region import ranked_regions, region_around
from vrag.reading.reader import THRESHOLD, find_answer
from vrag.reading.text_layout import layout
from vrag.types import Item

MAX_PAGES = 5
"""Pages of the evidence on which an answer is looked for."""
MAX_ANSWER_CHARS = 200
"""Characters from which an answer is no short one, whose words or cell could be marked."""
MAX_WORDS_CHARS = 1000
"""Characters of a longer answer whose words tell the part of a page that it rests on."""
LARGE = 0.25
"""Share of the page from which evidence does not point at a place."""


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where an answer stands."""

    evidence: tuple[Evidence, ...]
    """The evidence, what holds the answer first, with its words marked."""
    reading: AnswerReading | None = None
    """What the reader found of the answer; None where it does not stand on the pages."""
    picture: Picture | None = None
    """The picture of a part that was found by the words of the answer, which no agent has looked at."""


@dataclass(frozen=True, slots=True)
class _Place:
    item: Item
    region: Box
    """In `Space.UNIT`."""
    reading: Reading | None = None

    @property
    def point(self) -> tuple[float, float]:
        """A point that a rectangle around the answer covers."""
        frame = self.reading and self.reading.frame
        return (frame or self.region).center

    @property
    def is_likely(self) -> bool:
        """True if the reader would have given the answer itself, from here."""
        return self.reading is not None and self.reading.probability >= THRESHOLD


def locate_answer(
    question: Question,
    answer: str,
    evidence: Sequence[Evidence],
    environment: Environment,
    *,
    ordered: bool = False,
) -> AnswerPlace:
    """Find an answer on its evidence, mark its words, and put what holds it first.

    Where the evidence is a whole page, it becomes the part with the answer: the row or sentence of a short
    answer, or else the part with most words of question and answer. With `ordered` the evidence keeps its
    order, which the model has chosen. The evidence is returned as it is where no page can be opened; moments
    of videos stay as they are.
    """
    items = list(dict.fromkeys(entry.item for entry in evidence if entry.seconds is None))[:MAX_PAGES]
    if not items:
        return AnswerPlace(tuple(evidence))
    whole = completed(question.text, [turn.question for turn in question.history])
    try:
        pages = [open_page(environment.searcher, environment.item(item)) for item in items]
    except (SearchError, CollectionError):
        return AnswerPlace(tuple(evidence))
    place = _find_place(whole, answer, pages, environment)
    if place is None:
        return AnswerPlace(tuple(evidence))
    at, picture = _choose_entry(place, evidence, environment)
    entries = list(evidence)
    if picture is not None:
        part = picture_evidence(picture, place.item, "", node=entries[at].node).evidence
        entries[at] = part.model_copy(update={"located": True})
    reading = place.reading
    if reading is None:
        return AnswerPlace(tuple(entries), picture=picture)
    if not ordered:
        entries = [entries[at], *entries[:at], *entries[at + 1 :]]
    found = AnswerReading(
        item=reading.item,
        context=reading.context,
        arithmetic=reading.arithmetic,
        probability=reading.probability,
    )
    marked = tuple(
        with_marks(entry, reading.marks) if entry.item == reading.item else entry for entry in entries
    )
    return AnswerPlace(marked, found, picture)


def _find_place(
    question: str, answer: str, pages: Sequence[ReadPage], environment: Environment
) -> _Place | None:
    """Return the place of an answer, or else the part with most words of question and answer."""
    if len(answer) <= MAX_ANSWER_CHARS:
        reading = find_answer(question, answer, pages, text_reader=environment.text_reader)
        if reading is not None:
            page = next(page for page in pages if page.item.id == reading.item)
            frame = reading.frame
            region = region_around(layout(page.item), frame) if frame else Box.unit(0, 0, 1, 1)
            return _Place(page.item, region, reading)
    words = f"{question} {answer[:MAX_WORDS_CHARS]}"
    items = {page.item.id: page.item for page in pages}
    ranked = ranked_regions(words, [layout(item) for item in items.values()], most=1)
    return next((_Place(items[region.item], region.box) for region in ranked), None)


def _choose_entry(
    place: _Place, evidence: Sequence[Evidence], environment: Environment
) -> tuple[int, Picture | None]:
    """Return the number of the evidence for a place, and the picture of the part that it becomes, if any.

    What an agent has looked at closely stands for the answer where the reader does not find it elsewhere.
    """
    close = [at for at, entry in enumerate(evidence) if entry.box is not None and area(entry.box) <= LARGE]
    for at in close:
        if evidence[at].item == place.item.id and covers(evidence[at].box, place.point):
            return at, None
    if close and not place.is_likely:
        return close[0], None
    at = next(at for at, entry in enumerate(evidence) if entry.item == place.item.id)
    is_page = evidence[at].box is not None and place.region.area <= LARGE
    return at, cut_out(place.item, place.region, environment) if is_page else None


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


def area(box: BoxSides) -> float:
    """Return the area of a box, as a share of the page."""
    return (box[2] - box[0]) * (box[3] - box[1])


def covers(box: BoxSides | None, point: tuple[float, float]) -> bool:
    """Return whether a point lies in a box."""
    return box is not None and box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
