"""The place of a short answer, or of the entries of a list, where pages have the same words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from vrag.geometry import Box
from vrag.reading.answer import Mark, MarkRole, Reading
from vrag.reading.page_text import PageText
from vrag.reading.places.evidence_region import MOST
from vrag.reading.places.part_places import find_best_occurrence, score_occurrences
from vrag.reading.places.phrases import Occurrence, find_phrase
from vrag.reading.views.text_lines import Rect, around

MAX_CONTEXT_CHARS = 300
"""Characters of the lines around an answer."""
MAX_ENTRIES = 20
"""Entries of a list that are looked for."""
MAX_PLACES = 20
"""Places of each entry that are compared."""
REACH = 0.1
"""Distance over which the nearness of two entries falls by a factor of e, in heights of the page."""
TOGETHER = 0.2
"""Nearness from which entries stand together."""
_ENTRY_END = re.compile(r"[;\n、；]|,(?!\d{3}(?!\d))|，|\s(?:and|or|und|et|y)\s|\s[•·▪–]\s")
_ENTRY_MARK = re.compile(r"^(?:[-–•·▪*]\s+|\(?\d{1,2}[.)]\s+)|^and\s+")
_QUOTES = "\"'“”‘’`[] \t."
_SPACE = re.compile(r"\s+")


def split_entries(answer: str) -> tuple[str, ...]:
    """Return the entries of an answer that is a list, each once; one entry for another answer.

    >>> split_entries("['Arial', 'Comic Sans']"), split_entries("84,210 and 86,040"), split_entries("1. Oslo")
    (('Arial', 'Comic Sans'), ('84,210', '86,040'), ('Oslo',))
    """
    entries = (_ENTRY_MARK.sub("", entry.strip(_QUOTES)) for entry in _ENTRY_END.split(answer.strip()))
    return tuple(dict.fromkeys(filter(None, (entry.strip(_QUOTES) for entry in entries))))[:MAX_ENTRIES]


def find_written_answer(question: str, answer: str, pages: Sequence[PageText]) -> Reading | None:
    """Find where an answer stands word for word with most of the question around it; None where it does not.

    Of a list, two or more entries, and half of them at least, must stand on one page: those that stand
    together are marked. The probability of the reading is 0.
    """
    if not pages:
        return None
    found = find_best_occurrence(question, answer.strip(), pages)
    if found is not None:
        page, place = found
        return _read(page, answer, [place])
    entries = split_entries(answer)
    if len(entries) < 2:
        return _find_entry(question, answer, entries, pages)
    groups = ((*_find_group(question, entries, page), page) for page in pages)
    score, places, page = max(groups, key=lambda group: group[0])
    return _read(page, answer, places) if score > 0 and len(places) * 2 >= len(entries) else None


def mark_words(reading: Reading, answer: str, pages: Sequence[PageText]) -> Reading:
    """Return a reading with the words of its answer marked line by line, instead of what is around them."""
    marked = [mark.box for mark in reading.marks if mark.role is MarkRole.ANSWER]
    page = next((page for page in pages if page.item.id == reading.item), None)
    if page is None or len(marked) != 1:
        return reading
    for place in find_phrase(answer, page):
        rects = page.rects_of_forms(place.first, place.last)
        if rects and all(marked[0].covers(*rect.box().center) for rect in rects):
            words = tuple(Mark(MarkRole.ANSWER, rect.box()) for rect in rects)
            others = tuple(mark for mark in reading.marks if mark.role is not MarkRole.ANSWER)
            return replace(reading, marks=words + others)
    return reading


def _find_entry(
    question: str, answer: str, entries: Sequence[str], pages: Sequence[PageText]
) -> Reading | None:
    """Find the one entry of an answer in quotation marks or brackets."""
    if not entries or entries[0] == answer.strip():
        return None
    found = find_best_occurrence(question, entries[0], pages)
    return None if found is None else _read(found[0], answer, [found[1]])


def _find_group(question: str, entries: Sequence[str], page: PageText) -> tuple[float, list[Occurrence]]:
    """Return a score and the places of the entries that stand together on a page; 0 for fewer than two."""
    found = [
        [(support, place) for support, _, place in score_occurrences(question, entry, [page])[:MAX_PLACES]]
        for entry in entries
    ]
    best, chosen = 0.0, list[Occurrence]()
    for support, anchor in (candidate for candidates in found for candidate in candidates):
        rect = _rect_of(page, anchor)
        group = [place for candidates in found if (place := _nearest(page, rect, candidates)) is not None]
        score = support + sum(_nearness(page, rect, _rect_of(page, place)) for place in group)
        if len(group) >= 2 and score > best:
            best, chosen = score, group
    return best, chosen


def _nearest(
    page: PageText, anchor: Rect, candidates: Sequence[tuple[float, Occurrence]]
) -> Occurrence | None:
    """Return the place of an entry nearest to another, if they stand together."""
    near = ((_nearness(page, anchor, _rect_of(page, place)), place) for _, place in candidates)
    nearness, place = max(near, key=lambda found: found[0], default=(0.0, None))
    return place if nearness >= TOGETHER else None


def _nearness(page: PageText, a: Rect, b: Rect) -> float:
    across = max(0.0, a.x1 - b.x2, b.x1 - a.x2) * page.aspect / 2
    return math.exp(-math.hypot(across, max(0.0, a.y1 - b.y2, b.y1 - a.y2)) / REACH)


def _rect_of(page: PageText, place: Occurrence) -> Rect:
    """Return the rectangle around an occurrence; of a text without picture that of its sentence."""
    rect = around(page.rects_of_forms(place.first, place.last))
    return rect or page.lines[page.form_lines[place.first]].rect


def _read(page: PageText, answer: str, places: Sequence[Occurrence]) -> Reading:
    """Return an answer with the words of its places marked, and the lines around them."""
    places = sorted(dict.fromkeys(places), key=lambda place: place.first)
    lines = [line for place in places for line in (page.form_lines[place.first], page.form_lines[place.last])]
    texts = (page.text[page.lines[line].start : page.lines[line].end] for line in dict.fromkeys(lines))
    context = _SPACE.sub(" ", " · ".join(texts)).strip()
    marks = [rect for place in places for rect in page.rects_of_forms(place.first, place.last)]
    return Reading(
        item=page.item.id,
        text=answer.strip(),
        context=context if len(context) <= MAX_CONTEXT_CHARS else f"{context[: MAX_CONTEXT_CHARS - 1]}…",
        frame=_frame(page, lines, marks),
        marks=tuple(Mark(MarkRole.ANSWER, rect.box()) for rect in marks),
    )


def _frame(page: PageText, lines: Sequence[int], marks: Sequence[Rect]) -> Box | None:
    """Return the rectangle around the lines, or else around as many words as a part of the page can show."""
    if not marks:
        return None
    whole = around([page.lines[line].rect for line in lines if line >= 0])
    if whole is not None and whole.area <= MOST:
        return whole.box()
    frame = marks[0]
    for mark in marks:
        both = around((frame, mark)) or frame
        frame = both if both.area <= MOST else frame
    return frame.box()
