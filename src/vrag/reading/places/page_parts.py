"""The part of each page to show for an answer: around its words, or what the question is about.

Where an answer stands, the table or chart around it is shown if that is a small part of the page, or else its
lines with their neighbours. Where it does not stand, it may have been seen in a chart or picture that the
question names, or counted and compared over the lines that have most words of question and answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from vrag.geometry import Box
from vrag.reading.answer import Mark, MarkRole, Reading, ReadPage
from vrag.reading.line_scoring import locate
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.places.evidence_region import MOST, ranked_regions, region_around
from vrag.reading.places.visual_parts import choose_visual_part, complete_part, find_visual_parts
from vrag.reading.questions.overview import asks_for_overview
from vrag.reading.questions.query_analysis import parse
from vrag.reading.views.text_lines import Rect, around
from vrag.text.terms import tokens

MAX_ANSWER_CHARS = 1000
"""Characters of an answer whose words tell the part of a page that it rests on."""
MAX_VISUAL = 0.5
"""Largest share of the page of a chart or picture that is shown for a question about it."""
HEADING_HALF = 0.5
"""Part of a page from its top in which a heading begins."""
HEADING_HEIGHT = 0.85
"""Part of the height of the largest line from which another one belongs to the heading."""
MAX_MARKS = 40
"""Marks of words of a question in a place."""


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
    if asks_for_overview(question):
        return [find_heading(placed) for placed in texts]
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


def find_heading(page: PageText) -> Box | None:
    """Return the rectangle of the largest lines in the upper half of a page, its heading; None without any.

    Lines of about the same height that follow each other belong together; the first of the largest counts.
    Lines that run up or down are none.
    """
    heights = [_height_of_heading(line.rect, page.aspect) for line in page.lines] if page.words else []
    tallest = max(heights, default=0.0)
    if tallest == 0:
        return None
    first = next(number for number, height in enumerate(heights) if height >= HEADING_HEIGHT * tallest)
    last = first
    while last + 1 < len(heights) and heights[last + 1] >= HEADING_HEIGHT * tallest:
        last += 1
    rect = around(line.rect for line in page.lines[first : last + 1])
    return None if rect is None else region_around(page, rect.box())


def _height_of_heading(line: Rect, aspect: float) -> float:
    """Return the height of a line that may be a heading, in heights of the page; 0 for others."""
    is_level = line.width * aspect > line.height
    return line.height if is_level and line.y1 < HEADING_HALF else 0.0


def find_question_words(question: str, page: PageText, region: Box) -> list[Mark]:
    """Return marks of the words of a question in a part of a page, one for words beside each other."""
    asked = {term.text for term in parse(question).terms}
    runs: list[list[Rect]] = []
    previous = -2
    for number, (start, end, rect) in enumerate(page.words):
        if not region.covers(*rect.box().center):
            continue
        terms = {token.term for token in tokens(page.item.text[start:end])}
        if asked.isdisjoint(terms):
            continue
        is_beside = number == previous + 1 and abs(runs[-1][-1].y1 - rect.y1) < (rect.y2 - rect.y1) / 2
        if is_beside:
            runs[-1].append(rect)
        else:
            runs.append([rect])
        previous = number
    rects = (around(run) for run in runs[:MAX_MARKS])
    return [Mark(MarkRole.MATCH, rect.box()) for rect in rects if rect is not None]
