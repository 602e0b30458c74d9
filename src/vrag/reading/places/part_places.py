"""The places on which the parts of an answer rest: its sentences, and the numbers and names in them.

A phrase, name or number stands where it is written, and of several such places where most of its context
stands. A sentence rests on the lines where its words, numbers and names come together; of them are marked the
numbers, the names and the runs of words that the page has as well.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vrag.geometry import Box
from vrag.reading.answer import Mark, MarkRole, ReadPage
from vrag.reading.line_scoring import nearness
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.places.evidence_region import MOST, pad_lines, region_around
from vrag.reading.places.phrases import SHORT_NUMBER, Occurrence, find_phrase, is_misread, read_phrase
from vrag.reading.places.word_forms import WordForm, list_forms, root
from vrag.reading.views.text_lines import Rect, around

SUPPORTED = 0.5
"""The score from which a part has a place: see docs/evidence.md for what it is right in."""
MAX_PHRASE_WORDS = 6
"""Words up to which a part is looked for word for word."""
MAX_CONTEXT_WORDS = 60
"""Words of the question or of a part that are compared: the first."""
NUMBER_WEIGHT = 1.5
NAME_WEIGHT = 1.3
"""Factors on the weight of numbers and names, which tell places apart."""
NEAR = 0.45
"""Nearness from which a word belongs to the lines around a place."""
CONTEXT = 0.25
"""The share of its context that must stand around a number of one or two digits."""
AMBIGUOUS = 0.02
"""Difference in support below which two places of a number or single word are equally likely."""
BLOCK, BLOCK_LINES = 0.8, 4
"""Nearness of the next lines of the same block, and the lines over which it falls by a factor of e."""
MAX_PLACES = 64
"""Lines with one word that are looked at in this way."""
MIN_WORDS = 3
"""Words, other than stop words, of a part that is found where they come together, not written as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlace:
    """Where a part of an answer stands."""

    item: str
    """Id of the page."""
    region: Box | None
    """The rectangle to show, in `Space.UNIT`; None for an item without word boxes."""
    lines: Box | None
    """The lines of the part alone, for where the rectangle shows another part too; None as `region`."""
    marks: tuple[Mark, ...]
    """The words, numbers and names of the part inside the rectangle; empty without word boxes."""
    score: float
    """The share of the part's words, numbers and names that stand there, 0 to 1, weighted by their rarity."""


def locate_parts(
    question: str,
    parts: Sequence[str],
    pages: Sequence[ReadPage],
    *,
    contexts: Sequence[str] = (),
    threshold: float = SUPPORTED,
) -> tuple[PartPlace | None, ...]:
    """Find the place of each part of an answer on some pages; None for one that has none.

    Args:
        question: The question, whose words tell places apart.
        parts: Sentences, names, numbers or dates.
        pages: The pages of the evidence; of equally good ones the first counts.
        contexts: The text around each part, such as the sentence of a number; empty for none.
        threshold: The score from which a part has a place.
    """
    words = [read_page_text(page.item) for page in pages]
    around_parts = contexts or ("",) * len(parts)
    return tuple(
        _locate_part(question, part, context, words, threshold)
        for part, context in zip(parts, around_parts, strict=True)
    )


def _locate_part(
    question: str, part: str, context: str, pages: Sequence[PageText], threshold: float
) -> PartPlace | None:
    forms = read_phrase(part)
    if not forms:
        return None
    if len(forms) <= MAX_PHRASE_WORDS:
        found = locate_phrase(f"{question} {context}", part, pages)
        if found is not None or sum(not form.is_stop_word for form in forms) < MIN_WORDS:
            return found
    places = (_locate_words(forms[:MAX_CONTEXT_WORDS], page, pages) for page in pages)
    best = max(filter(None, places), key=lambda place: place.score, default=None)
    return best if best is not None and best.score >= threshold else None


def locate_phrase(context: str, phrase: str, pages: Sequence[PageText]) -> PartPlace | None:
    """Find the place of a phrase around which most of its context stands; None where it does not stand."""
    found = find_best_occurrence(context, phrase, pages)
    if found is None:
        return None
    page, place = found
    return _place(page, page.rects_of_forms(place.first, place.last), [(place.first, place.last)], 1.0)


def find_best_occurrence(
    context: str, phrase: str, pages: Sequence[PageText]
) -> tuple[PageText, Occurrence] | None:
    """Return where a phrase stands with most of its context around it; None where it does not stand.

    A number of one or two digits also has no place where its context stands elsewhere. Of a number or single
    word that stands in several blocks with as much context none is chosen.
    """
    forms = read_phrase(phrase)
    found = score_occurrences(context, phrase, pages)
    if not found:
        return None
    support, page, place = found[0]
    if len(forms) > 1:
        return page, place
    if forms[0].is_number and len(forms[0].key) <= SHORT_NUMBER and support < CONTEXT:
        return None
    likely = [other for other in found if support - other[0] < AMBIGUOUS]
    blocks = {(other.item.id, int(other.line_blocks[other.form_lines[at.first]])) for _, other, at in likely}
    return (page, place) if len(blocks) == 1 else None


def score_occurrences(
    context: str, phrase: str, pages: Sequence[PageText]
) -> list[tuple[float, PageText, Occurrence]]:
    """Return where a phrase stands, each place with the share of its context around it, the highest first.

    Where it stands exactly, the places with slips do not count.
    """
    own = {form.key for form in read_phrase(phrase)}
    terms = [form for form in list_forms(context)[: 2 * MAX_CONTEXT_WORDS] if not form.is_stop_word]
    terms = [form for form in terms if form.key not in own]
    weights = _weigh(terms, pages)
    places: list[tuple[float, PageText, Occurrence]] = []
    for page in pages:
        occurrences = [place for place in find_phrase(phrase, page) if page.form_lines[place.first] >= 0]
        if occurrences:
            support = weights @ _near(_line_places(terms, page), page)
            places += [(float(support[page.form_lines[place.first]]), page, place) for place in occurrences]
    fewest = min((place.slips for _, _, place in places), default=0)
    return sorted((found for found in places if found[2].slips == fewest), key=lambda found: -found[0])


def _place(page: PageText, rects: Iterable[Rect], runs: Iterable[tuple[int, int]], score: float) -> PartPlace:
    """Return a place around some rectangles, with runs of words marked in it; single words in these alone."""
    frame = around(rects) if page.words else None
    if frame is None:
        return PartPlace(item=page.item.id, region=None, lines=None, marks=(), score=score)
    region = region_around(page, frame.box())
    marks: list[Mark] = []
    for first, last in runs:
        inside = frame.box() if first == last else region
        boxes = (rect.box() for rect in page.rects_of_forms(first, last))
        marks += (Mark(MarkRole.ANSWER, box) for box in boxes if inside.covers(*box.center))
    lines = pad_lines(page, frame.box())
    return PartPlace(item=page.item.id, region=region, lines=lines, marks=tuple(marks), score=score)


def _weigh(terms: Sequence[WordForm], pages: Sequence[PageText]) -> NDArray[np.float64]:
    """Return the weights of some words, which add up to 1: rare ones weigh more, repeats nothing."""
    lines = sum(len(page.lines) for page in pages)
    weights: dict[str, float] = {}
    for form in terms:
        count = sum(len(page.form_roots.get(root(form), ())) for page in pages)
        factor = NUMBER_WEIGHT if form.is_number else NAME_WEIGHT if form.is_name else 1.0
        weights.setdefault(
            root(form), 0.0 if form.is_stop_word else factor * math.log(1 + lines / (0.5 + count))
        )
    total = sum(weights.values()) or 1.0
    return np.asarray([weights.pop(root(form), 0.0) / total for form in terms])


def _find_places(form: WordForm, page: PageText) -> list[int]:
    """Return the numbers of the words of a page that are the same as a word, or of another ending."""
    if form.is_number:
        found = {number for key in form.keys for number in page.form_places.get(key, ())}
        return sorted(number for number in found if form.matches(page.forms[number]))
    found = page.form_roots.get(root(form)) or page.form_places.get(form.key)
    if found:
        return found
    return [
        number
        for number in page.form_initials.get(form.key[0], ())
        if is_misread(form.key, page.forms[number].key)
    ]


def _line_places(terms: Sequence[WordForm], page: PageText) -> list[list[int]]:
    """Return the lines that hold each word."""
    found = ({page.form_lines[number] for number in _find_places(form, page)} for form in terms)
    return [sorted(lines - {-1}) for lines in found]


def _near(places: Sequence[Sequence[int]], page: PageText) -> NDArray[np.float64]:
    """Return how near each word, given by its lines, is to each line, 0 to 1; shape (words, lines)."""
    numbers = np.arange(len(page.lines))
    near = np.zeros((len(places), len(numbers)))
    for row, lines in zip(near, places, strict=True):
        if not lines:
            continue
        row[:] = nearness(page, lines, page.rects)
        chosen = np.asarray(lines[:MAX_PLACES])[:, None]
        apart = np.where(page.line_blocks[chosen] == page.line_blocks, abs(chosen - numbers), np.inf)
        np.maximum(row, BLOCK * np.exp(-apart.min(axis=0) / BLOCK_LINES), out=row)
        row[lines] = 1.0
    return near


def _locate_words(terms: Sequence[WordForm], page: PageText, pages: Sequence[PageText]) -> PartPlace | None:
    """Return the place on a page where the words of a sentence come together; None on a page without them."""
    weights, places = _weigh(terms, pages), _line_places(terms, page)
    near = _near(places, page)
    support = weights @ near
    if not support.any():
        return None
    best = int(support.argmax())
    members = [lines for lines, degree in zip(places, near[:, best], strict=True) if degree >= NEAR]
    rects = _gather([[page.lines[line].rect for line in lines] for lines in members], page.lines[best].rect)
    place = _place(page, rects, list_common_runs(terms, page), 0.0)
    if place.region is None:
        held = near[:, best] >= NEAR
    else:
        held = np.asarray([_is_inside(_find_places(form, page), page, place.region) for form in terms])
    return replace(place, score=float(weights[held].sum()))


def _gather(lines: Sequence[Sequence[Rect]], best: Rect) -> list[Rect]:
    """Return the best line, and the nearest line of each word while all are a small part of the page."""
    nearest = sorted(
        (min(rects, key=lambda rect: _distance(rect, best)) for rects in lines),
        key=lambda rect: _distance(rect, best),
    )
    chosen = [best]
    for rect in dict.fromkeys(nearest):
        both = around((*chosen, rect))
        if both is not None and both.area <= MOST:
            chosen.append(rect)
    return chosen


def _distance(a: Rect, b: Rect) -> float:
    across = max(0.0, a.x1 - b.x2, b.x1 - a.x2)
    return across + max(0.0, a.y1 - b.y2, b.y1 - a.y2)


def _is_inside(numbers: Iterable[int], page: PageText, region: Box) -> bool:
    """Return whether one of some words of a page lies in a region."""
    return any(
        region.covers(*rect.box().center)
        for number in numbers
        for rect in page.rects_of_forms(number, number)
    )


def list_common_runs(terms: Sequence[WordForm], page: PageText) -> list[tuple[int, int]]:
    """Return the runs of words that a page and a sentence share, by their first and last words on the page.

    A run has two or more words that follow each other in the sentence too, stop words apart; or it is a
    number of three or more digits, or a name within the sentence.
    """
    content = [form for form in terms if not form.is_stop_word]
    pairs = {(root(a), root(b)) for a, b in pairwise(content)}
    alone = {form.key for form in content if form.is_number and len(form.key) > SHORT_NUMBER}
    alone |= {form.key for form in content[1:] if form.is_name}
    known = {number for form in content for number in _find_places(form, page)}
    runs: list[tuple[int, int]] = []
    first = last = -1
    for number in sorted(known):
        if first >= 0 and _continues(page, last, number, pairs):
            last = number
            continue
        runs.append((first, last))
        first = last = number
    runs.append((first, last))
    return [(a, b) for a, b in runs if a >= 0 and (b > a or _stands_alone(page.forms[a], alone))]


def _continues(page: PageText, last: int, number: int, pairs: Collection[tuple[str, str]]) -> bool:
    """Return whether a word follows another on the page, stop words apart, as in a sentence."""
    if (root(page.forms[last]), root(page.forms[number])) not in pairs:
        return False
    between = page.forms[last + 1 : number]
    return all(form.is_stop_word for form in between) and all(map(page.run_on, range(last, number)))


def _stands_alone(form: WordForm, alone: Collection[str]) -> bool:
    return form.key in alone and (form.is_number or form.is_name)
