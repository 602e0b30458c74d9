"""The place of a short answer on the pages of its evidence, found again by the offline reader.

It is a function of question, answer, evidence and collection: a replay finds the same. It serves answers of
models as well as those of the offline policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from vrag.agent.environment import Environment
from vrag.agent.events import AnswerReading
from vrag.agent.evidence import BoxSides, Evidence, EvidenceMark
from vrag.agent.page_reading import open_page
from vrag.agent.question import Question
from vrag.errors import CollectionError, SearchError
from vrag.reading import completed
from vrag.reading.answer import Reading
from vrag.reading.reader import find_answer

MAX_PAGES = 5
"""Pages of the evidence on which an answer is looked for."""
MAX_ANSWER_CHARS = 200
"""Characters from which an answer is no short one."""


def locate_answer(
    question: Question, answer: str, evidence: Sequence[Evidence], environment: Environment
) -> tuple[tuple[Evidence, ...], AnswerReading | None]:
    """Return the evidence with the words and cells of a short answer marked, and what was found of it.

    Where the answer is not found or a page cannot be opened, the evidence is returned as it is, and None.
    """
    items = list(dict.fromkeys(entry.item for entry in evidence))[:MAX_PAGES]
    if not items or len(answer) > MAX_ANSWER_CHARS:
        return tuple(evidence), None
    whole = completed(question.text, [turn.question for turn in question.history])
    try:
        pages = [open_page(environment.searcher, environment.item(item)) for item in items]
    except (SearchError, CollectionError):
        return tuple(evidence), None
    reading = find_answer(whole, answer, pages, text_reader=environment.text_reader)
    if reading is None:
        return tuple(evidence), None
    marked = tuple(_with_marks(entry, reading) if entry.item == reading.item else entry for entry in evidence)
    return marked, AnswerReading(
        item=reading.item,
        context=reading.context,
        arithmetic=reading.arithmetic,
        probability=reading.probability,
    )


def _with_marks(evidence: Evidence, reading: Reading) -> Evidence:
    """Return evidence with the marks that lie in its box."""
    if evidence.box is None:
        return evidence
    marks = tuple(
        EvidenceMark(role=mark.role, box=mark.box.as_tuple())
        for mark in reading.marks
        if _holds(evidence.box, mark.box.as_tuple())
    )
    return evidence.model_copy(update={"marks": marks})


def _holds(outer: BoxSides, inner: BoxSides) -> bool:
    """Check whether the centre of a box lies in another."""
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]
