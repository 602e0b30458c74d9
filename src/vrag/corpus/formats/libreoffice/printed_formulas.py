"""Formulas in the text of the printed pages of an office document.

A PDF file has the letters of a formula one after the other ("v= s t"). The document itself says that it is
v = s/t, and the page where its letters stand.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import accumulate, islice, pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.libreoffice.equations import Formula, fold_letters, is_letter
from vrag.corpus.formats.texts.outline import Section
from vrag.geometry import Box
from vrag.item_facts import move_places
from vrag.text.folding import fold_case
from vrag.text.signs import SUPERSCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vrag.types import Item, Word

STEP = 0.15
"""Difference of the middles of two words, in heights of the higher one, from which they differ."""
SMALL = 0.85
"""Height of a script, in those of what it belongs to, below which it is one."""
MAX_STEP = 1.5
"""Space between a part of a formula and the next one above or below, in heights of its highest part."""
NEAR = 2
"""Letters between a formula and a word beside it."""
MAX_PLACES = 300
"""Formulas of a page that are written."""
MAX_COMPARED = 200_000
"""Letters of a page that are compared with those of formulas."""
FORMULA_HEADING = "Formulas"
DRAWN_KINDS = frozenset({"Sm", "So", "Sk", "Ps", "Pe", "Pd", "Co"})
"""Categories of characters that a page may have where a formula has others: brackets, signs, dashes."""
LOST_SIGN = "¿"
"""The sign that LibreOffice draws for one that it does not know."""


def find_unprinted(formulas: Iterable[Formula], printed: str | None) -> tuple[Section, ...]:
    """Return formulas whose letters no page has, such as those that LibreOffice does not draw, as sections.

    Args:
        formulas: Those of the document.
        printed: The letters of its pages; None if they are not known.
    """
    if printed is None:
        return ()
    texts = [each.text for each in formulas if fold_case(each.letters) not in printed]
    return (Section((FORMULA_HEADING,), "\n".join(texts)),) if texts else ()


def restore_formulas(item: Item, formulas: Sequence[Formula]) -> Item:
    """Write the formulas of a page with their structure; their words keep their boxes.

    Those whose place is not sure stay as they are printed, and so do all that are left when a page has too
    many places to compare.
    """
    if not any(formula.letters and formula.has_structure for formula in formulas):
        return item
    page = _FormulaLetters(item)
    found: list[_FormulaPlace] = []
    for formula in sorted(formulas, key=lambda each: -len(each.letters)):
        if formula.letters and formula.has_structure:
            places = (place for place in page.find(formula) if not any(map(place.overlaps, found)))
            found += list(islice(places, MAX_PLACES - len(found)))
    return _rewrite(item, sorted(found)) if found else item


class _FormulaPlace(NamedTuple):
    """A formula in the text of a page."""

    start: int
    end: int
    formula: Formula
    letters: tuple[int, ...]
    """Places of its letters and figures."""

    def overlaps(self, other: _FormulaPlace) -> bool:
        return self.start < other.end and other.start < self.end


class _FormulaLetters:
    """The letters and figures of a page, and its words in their order."""

    def __init__(self, item: Item) -> None:
        letters = list(fold_letters(item.text))
        self._item = item
        self._letters = "".join(letter for letter, _ in letters)
        self._places = [place for _, place in letters]
        self._words = sorted(item.words, key=lambda word: (word.start, word.end))
        self._starts = [word.start for word in self._words]
        self._left = MAX_COMPARED
        """Letters that are still compared."""

    def find(self, formula: Formula) -> Iterator[_FormulaPlace]:
        """Yield the places where a formula is drawn."""
        length = len(formula.letters)
        at = self._letters.find(formula.letters) if self._left > 0 else -1
        while at >= 0 and self._left > 0:
            self._left -= length
            place = self._to_place(formula, at) if self._is_apart(at, at + length) else None
            is_drawn = place is not None and self._is_drawn(place)
            if place is not None and is_drawn:
                yield place
            at = self._letters.find(formula.letters, at + (length if is_drawn else 1))

    def _is_apart(self, first: int, end: int) -> bool:
        """Return whether no other letters stand beside some of the letters of the page."""
        start, last = self._places[first], self._places[end - 1]
        return not any(map(is_letter, self._item.text[max(0, start - 1) : start])) and not any(
            map(is_letter, self._item.text[last + 1 : last + 2])
        )

    def _to_place(self, formula: Formula, first: int) -> _FormulaPlace:
        """Return the place of a formula by that of its letters: with the signs before and behind them."""
        self._left -= len(formula.drawn)
        text, (before, behind) = self._item.text, _split_signs(formula.drawn)
        letters = tuple(self._places[first : first + len(formula.letters)])
        nearest = text[max(0, letters[0] - 4 * len(before)) : letters[0]]
        ahead = _count_signs(nearest[::-1], before[::-1])
        following = text[letters[-1] + 1 : letters[-1] + 1 + 4 * len(behind)]
        end = letters[-1] + 1 + _count_signs(following, behind)
        return _FormulaPlace(letters[0] - ahead, end, formula, letters)

    def _is_drawn(self, place: _FormulaPlace) -> bool:
        """Return whether a part of the text is a formula, and not letters of other words."""
        text, (start, end, formula, _) = self._item.text, place
        around = text[max(0, start - 1) : start] + text[end : end + 1]
        if any(map(is_letter, around)) or text[start:end] == formula.text:
            return False
        signs = {sign for sign in text[start:end] if not sign.isspace() and not is_letter(sign)}
        foreign = signs - {*formula.drawn, LOST_SIGN}
        if any(unicodedata.category(sign) not in DRAWN_KINDS for sign in foreign):
            return False
        is_plain = all(map(is_letter, formula.drawn))
        if not signs and not is_plain:
            return False
        has_sign = LOST_SIGN in signs or ("√" in signs and "√" in formula.drawn)
        has_sign = has_sign or any(sign in SUPERSCRIPTS for sign in text[start:end])
        return self._stands_together(start, end, is_plain=is_plain, has_sign=has_sign)

    def _stands_together(self, start: int, end: int, *, is_plain: bool, has_sign: bool) -> bool:
        """Return whether the boxes of a part of the text are those of one formula with steps in it."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        if first and self._words[first - 1].end > start:
            first -= 1
        words = [word for word in self._words[first:last] if word.start < word.end]
        if not words or not (has_sign or _has_steps(words, is_plain=is_plain)) or not _adjoin(words):
            return False
        row = _count_row(words)
        beside = [*self._words[max(0, first - 1) : first], *self._words[last : last + 1]]
        return not row or _is_fraction(words[:row], words[row:], beside, is_plain=is_plain)


def _split_signs(drawn: str) -> tuple[str, str]:
    """Return the signs of a formula before its letters, and those behind them."""
    before = "".join(takewhile(_is_sign, drawn))
    behind = "".join(takewhile(_is_sign, reversed(drawn)))[::-1]
    return before, behind


def _is_sign(sign: str) -> bool:
    return not is_letter(sign)


def _middle(box: Box) -> float:
    return (box.y1 + box.y2) / 2


def _hull(words: Sequence[Word]) -> Box:
    boxes = [word.box for word in words]
    left, top = min(box.x1 for box in boxes), min(box.y1 for box in boxes)
    return Box.unit(left, top, max(box.x2 for box in boxes), max(box.y2 for box in boxes))


def _letter_width(words: Sequence[Word]) -> float:
    return max((word.box.x2 - word.box.x1) / (word.end - word.start) for word in words)


def _has_steps(words: Sequence[Word], *, is_plain: bool) -> bool:
    """Return whether words stand at different heights.

    Boxes are as high as their ink: those of "y" and "2" on one line differ, too. If no sign says that they
    are a formula, one must be smaller, or half a letter higher.
    """
    boxes = [word.box for word in words]
    if is_plain:
        return any(_is_step(one, other) for one, other in pairwise(boxes))
    middles = list(map(_middle, boxes))
    return max(middles) - min(middles) > STEP * max(box.y2 - box.y1 for box in boxes)


def _is_step(one: Box, other: Box) -> bool:
    tops, bottoms = other.y1 - one.y1, other.y2 - one.y2
    smaller, larger = sorted((one.y2 - one.y1, other.y2 - other.y1))
    shift = min(abs(tops), abs(bottoms)) if tops * bottoms > 0 else 0.0
    return shift > larger / 2 or (shift > STEP * larger and smaller < SMALL * larger)


def _adjoin(words: Sequence[Word]) -> bool:
    """Return whether words stand beside or below each other, as the parts of a formula do.

    A line that ends and one that begins are far apart, or the second is to the left of the first.
    """
    letter = _letter_width(words)
    boxes = sorted((word.box for word in words), key=lambda box: box.x1)
    ends = accumulate((box.x2 for box in boxes), max)
    if any(box.x1 - end > letter for end, box in zip(ends, boxes[1:], strict=False)):
        return False
    if any(box.x2 < words[0].box.x1 - letter for box in boxes):
        return False
    height = max(box.y2 - box.y1 for box in boxes)
    steps = (max(one.box.y1, other.box.y1) - min(one.box.y2, other.box.y2) for one, other in pairwise(words))
    return all(gap <= MAX_STEP * height for gap in steps)


def _count_row(words: Sequence[Word]) -> int:
    """Return how many words are a row of their own above all that follow; 0 if there is none."""
    boxes = [word.box for word in words]
    tops = list(accumulate((box.y1 for box in reversed(boxes)), min))[::-1]
    first = last = _middle(boxes[0])
    height = bottom = 0.0
    for count, (box, top) in enumerate(zip(boxes, tops[1:], strict=False), 1):
        first, last = min(first, _middle(box)), max(last, _middle(box))
        height, bottom = max(height, box.y2 - box.y1), max(bottom, box.y2)
        if last - first > height / 2:
            return 0
        if bottom <= top:
            return count
    return 0


def _is_fraction(
    above: Sequence[Word], below: Sequence[Word], beside: Sequence[Word], *, is_plain: bool
) -> bool:
    """Return whether two rows are a fraction, and not two lines of text.

    They are centred, and the words before and behind them stand at the height of the bar; without signs,
    one such word must be there.
    """
    letter = _letter_width([*above, *below])
    numerator, denominator = _hull(above), _hull(below)
    middles = [(box.x1 + box.x2) / 2 for box in (numerator, denominator)]
    if abs(middles[0] - middles[1]) > letter / 2:
        return False
    hull = _hull([*above, *below])
    near = [
        word.box
        for word in beside
        if word.box.y1 < hull.y2
        and word.box.y2 > hull.y1
        and max(word.box.x1 - hull.x2, hull.x1 - word.box.x2) <= NEAR * letter
    ]
    upper, lower = _middle(numerator), _middle(denominator)
    at_bar = [abs(_middle(box) - (upper + lower) / 2) <= (lower - upper) / 4 for box in near]
    return all(at_bar) and (not is_plain or bool(at_bar))


def _count_signs(text: str, signs: str) -> int:
    """Return the length of the begin of a text that has signs of a formula, with spaces between them."""
    count, known = 0, {*signs, LOST_SIGN}
    for place, sign in enumerate(text[: 4 * len(signs)], 1):
        if sign in known:
            count = place
        elif not sign.isspace():
            break
    return count


def _rewrite(item: Item, places: Sequence[_FormulaPlace]) -> Item:
    """Write formulas in their places, which are in ascending order, and move what stands behind them."""
    parts: list[str] = []
    moved: dict[int, int] = {}
    length = last = 0
    for place in places:
        parts += (item.text[last : place.start], place.formula.text)
        length += place.start - last
        own = [at for _, at in fold_letters(place.formula.text)]
        moved |= {old: length + new for old, new in zip(place.letters, own, strict=True)}
        length += len(place.formula.text)
        last = place.end
    text = "".join([*parts, item.text[last:]])
    move = _Move(places)
    words = tuple(_move_words(item.words, text, moved, move))
    facts = move_places(item.facts, move.start, move.end)
    return replace(item, text=text, words=words, facts=facts)


class _Move:
    """Where places of a text are after formulas were written in it."""

    def __init__(self, places: Sequence[_FormulaPlace]) -> None:
        self._places = places
        self._ends = [place.end for place in places]
        longer = (len(place.formula.text) - (place.end - place.start) for place in places)
        self._shifts = [0, *accumulate(longer)]

    def start(self, at: int) -> int:
        return self._move(at, is_end=False)

    def end(self, at: int) -> int:
        return self._move(at, is_end=True)

    def _move(self, at: int, *, is_end: bool) -> int:
        before = bisect_right(self._ends, at)
        shift = self._shifts[before]
        place = self._places[before] if before < len(self._places) else None
        if place is None or place.start >= at:
            return at + shift
        return place.start + shift + (len(place.formula.text) if is_end else 0)


def _move_words(words: Iterable[Word], text: str, moved: dict[int, int], move: _Move) -> Iterator[Word]:
    """Yield words in their new places: those of a formula are where their letters are, others are moved."""
    for word in words:
        letters = [moved[at] for at in range(word.start, word.end) if at in moved]
        if not letters:
            start, end = move.start(word.start), move.end(word.end)
            if end - start == word.end - word.start:
                yield replace(word, start=start, end=end)
            continue
        written = text[letters[0] : letters[-1] + 1].split(maxsplit=1)[0]
        yield replace(word, start=letters[0], end=letters[0] + len(written))
