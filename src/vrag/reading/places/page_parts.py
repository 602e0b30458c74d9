"""The part of each page to show for an answer: around its words, or what the question is about.

Where an answer stands, the table or chart around it is shown if that is a small part of the page, or else its
lines with their neighbours. Where it does not stand, it may have been seen in a chart or picture that the
question names, or counted and compared over the lines that have most words of question and answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from vrag.geometry import Box
from vrag.reading.answer import MarkRole, Reading, ReadPage
from vrag.reading.evidence_region import MOST, ranked_regions, region_around
from vrag.reading.line_scoring import locate
from vrag.reading.page_text import read_page_text
from vrag.reading.places.visual_parts import choose_visual_part, complete_part, find_visual_parts
from vrag.reading.questions.query_analysis import parse
from vrag.reading.views.text_lines import Rect, around

MAX_ANSWER_CHARS = 1000
"""Characters of an answer whose words tell the part of a page that it rests on."""
MAX_VISUAL = 0.5
"""Largest share of the page of a chart or picture that is shown for a question about it."""


def find_part_of_answer(page: ReadPage, reading: Reading) -> Box:
    """Return the part of a page to show for an answer that stands on it; the whole without word boxes."""
    if reading.frame is None:
        return Box.unit(0, 0, 1, 1)
    placed = read_page_text(page.item)
    parts, tables = find_visual_parts(page, placed), placed.tables(page.picture)
    answer = around(Rect(*mark.box.as_tuple()) for mark in reading.marks if mark.role is MarkRole.ANSWER)
    for place in filter(None, (answer, Rect(*reading.frame.as_tuple()))):
        whole = complete_part(place, parts, tables, MOST)
        if whole != place:
            return region_around(placed, whole.box())
    return region_around(placed, reading.frame)


def find_parts_of_question(question: str, answer: str, pages: Sequence[ReadPage]) -> list[Box | None]:
    """Return the part of each page on which an answer may rest that stands on none; None for none."""
    analysis = parse(question)
    texts = [read_page_text(page.item) for page in pages]
    found: list[Box | None] = []
    for page, placed, scored in zip(pages, texts, locate(analysis, texts), strict=True):
        parts = find_visual_parts(page, placed)
        visual = choose_visual_part(analysis, scored, parts, placed.tables(page.picture))
        if visual is not None and visual.area <= MAX_VISUAL:
            found.append(visual.box())
            continue
        words = f"{question} {answer[:MAX_ANSWER_CHARS]}"
        ranked = ranked_regions(words, [placed], most=1) if placed.words else []
        found.append(ranked[0].box if ranked else None)
    return found
