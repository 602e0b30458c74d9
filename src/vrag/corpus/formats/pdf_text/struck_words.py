# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Words of a PDF page that are struck out: by an annotation, or a thin rule through all their letters.

Most pages have no rule in such a place, which the boxes of words tell. The letters of those that have are
then looked at one by one. A rule strikes words out if it crosses each letter in its reach, begins and ends
where they do, and leaves no gap: lines of tables and charts, underlines and bars of fractions do not.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vrag.corpus.formats.pdfium import MAX_OBJECTS
from vrag.corpus.formats.pdfium_text import find_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vrag.corpus.formats.pdfium import PdfiumPage
    from vrag.corpus.pages.placed_text import PlacedText

    Boxes = NDArray[np.float64]
    """Left, top, right, bottom in points of the page as it is shown, a row for each."""

MAX_RULES = 3000
"""Thin objects of a page beyond which it is not looked through."""
MAX_POINTS = 6.0
"""Thickness of a thin object, in points, with what PDFium adds to the bounds of lines."""
MAX_THICKNESS = 0.3
"""The same in heights of the letters."""
MIDDLE = (0.2, 0.75)
"""Parts of a letter's height, from its top, between which a rule crosses it. Small letters have the rule in
the middle, capitals and figures below it, and letters with a tail above it."""
MIN_LETTERS = 2
"""Letters and figures that a rule strikes out at least."""
MIN_WORD_SHARE = 0.6
"""Part of a word's width along which a rule runs that may strike it out."""
MIN_CROSSED = 0.95
"""Part of the letters in the reach of a rule that it crosses; a raised mark may stand beside them."""
MAX_AHEAD, MAX_BEHIND = 1.0, 2.0
"""Length of a rule before its first letter and behind its last one, in heights of the letters."""
MAX_GAP = 2.0
"""Space between two letters that a rule strikes out, likewise."""
MIN_COVERED = 0.7
"""Part of a word that an annotation covers that strikes it out."""
JOINED = 1.0
"""Points between two rules of one line that are one."""
MAX_PAIRS = 100_000
"""Pairs of a rule and a word that are compared at once."""
MIN_WHITE = 250
"""Level of each colour from which a rule counts as white."""


class _Letters(NamedTuple):
    """Letters and figures of a page, from top to bottom."""

    boxes: Boxes
    """Around their ink."""
    tallest: float
    """Height of the tallest one of the page."""

    def between(self, top: float, bottom: float) -> slice:
        """Return the range of the letters with a part between two heights, and some others near them."""
        first, last = np.searchsorted(self.boxes[:, 1], (top - self.tallest, bottom))
        return slice(int(first), int(last) + 1)


def find_struck(page: PdfiumPage, text: PlacedText) -> NDArray[np.bool_]:
    """Return for each word of a page's text whether it is struck out."""
    struck = np.zeros(len(text.words), np.bool_)
    if not text.words:
        return struck
    size = np.array(page.frame.shown_size * 2)
    words = text.boxes * size
    places = np.array([place.as_tuple() for place in page.struck_places()]).reshape(-1, 4) * size
    for place in _join_rules(places):
        struck |= _find_within(place, words)
    angles = text.angles
    for angle in np.unique(angles).tolist():
        turned = angles == angle
        struck[turned] |= _find_crossed_words(page, size, words[turned], angle)
    return struck


def _find_within(place: NDArray[np.float64], words: Boxes) -> NDArray[np.bool_]:
    """Return for each word whether a rectangle covers it, or most of it: a sign may follow."""
    sides = np.minimum(words[:, 2:], place[2:]) - np.maximum(words[:, :2], place[:2])
    shared = np.clip(sides, 0, None).prod(axis=1) / np.maximum(
        (words[:, 2:] - words[:, :2]).prod(axis=1), 1e-9
    )
    return shared >= MIN_COVERED


def _find_crossed_words(
    page: PdfiumPage, size: NDArray[np.float64], words: Boxes, angle: int
) -> NDArray[np.bool_]:
    """Return for each word, turned clockwise by an angle, whether a rule strikes it out."""
    struck = np.zeros(len(words), np.bool_)
    words = _turn_back(words, angle, size)
    is_level = angle % 180 == 0
    rules = _turn_back(_list_rules(page, is_level=is_level) * size, angle, size)
    rules = _join_rules(rules)
    rules = rules[_may_cross(rules, words)]
    if not len(rules):
        return struck
    letters = _list_letters(page, size, angle)
    for rule in rules:
        crossed = _find_crossed(rule, letters)
        if crossed is not None:
            struck |= _find_whole_words(words, letters, crossed)
    return struck


def _turn_back(boxes: Boxes, angle: int, size: NDArray[np.float64]) -> Boxes:
    """Return boxes of text that is turned clockwise by an angle as if the page were turned back."""
    width, height = size[:2]
    left, top, right, bottom = boxes.T
    match angle:
        case 90:
            sides = top, width - right, bottom, width - left
        case 180:
            sides = width - right, height - bottom, width - left, height - top
        case 270:
            sides = height - bottom, left, height - top, right
        case _:
            return boxes
    return np.stack(sides, axis=1)


def _list_rules(page: PdfiumPage, *, is_level: bool) -> Boxes:
    """Return the thin level or upright paths of a page that have a colour, in fractions of the page."""
    frame = page.frame
    rules = [frame.to_unit(*sides).as_tuple() for sides in _list_thin_paths(page, is_level=is_level)]
    return np.array(rules if len(rules) <= MAX_RULES else []).reshape(-1, 4)


def _list_thin_paths(page: PdfiumPage, *, is_level: bool) -> Iterator[tuple[float, float, float, float]]:
    """Yield left, bottom, right, top, in PDF coordinates, of the thin paths of a page."""
    from pypdfium2 import raw

    get_bounds, path_kind = find_function("FPDFPageObj_GetBounds"), raw.FPDF_PAGEOBJ_PATH
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    pointers = tuple(map(ctypes.byref, (left, bottom, right, top)))
    is_turned = is_level == (page.frame.turn % 2 == 1)
    colour = _PathColour()
    for kind, entry in page.objects if len(page.objects) < MAX_OBJECTS else ():
        if kind != path_kind:
            continue
        get_bounds(entry, *pointers)
        length, thickness = right.value - left.value, top.value - bottom.value
        if is_turned:
            length, thickness = thickness, length
        if thickness <= MAX_POINTS and length > thickness and colour.is_seen(entry):
            yield left.value, bottom.value, right.value, top.value


class _PathColour:
    """The colours of paths."""

    def __init__(self) -> None:
        self._get_mode = find_function("FPDFPath_GetDrawMode")
        filling, stroke = ctypes.c_int(), ctypes.c_int()
        self._mode = ctypes.byref(filling), ctypes.byref(stroke)
        self._uses = (
            (filling, find_function("FPDFPageObj_GetFillColor")),
            (stroke, find_function("FPDFPageObj_GetStrokeColor")),
        )
        self._levels = tuple(ctypes.c_uint() for _ in range(4))
        self._pointers = tuple(map(ctypes.byref, self._levels))

    def is_seen(self, entry: Any) -> bool:  # noqa: ANN401 - a handle of PDFium
        """Return whether a path is filled or stroked in a colour that is not white."""
        self._get_mode(entry, *self._mode)
        for use, get_colour in self._uses:
            if use.value and get_colour(entry, *self._pointers):
                red, green, blue, alpha = (level.value for level in self._levels)
                if alpha and min(red, green, blue) < MIN_WHITE:
                    return True
        return False


def _join_rules(rules: Boxes) -> Boxes:
    """Return the rules with the pieces of one line joined: a word may have one for each letter."""
    joined: list[list[float]] = []
    for rule in rules[np.lexsort((rules[:, 0], np.round(rules[:, 1] + rules[:, 3])))].tolist():
        last = joined[-1] if joined else None
        is_same = last is not None and abs(last[1] - rule[1]) < JOINED / 2 and rule[0] - last[2] < JOINED
        if last is not None and is_same:
            last[2] = max(last[2], rule[2])
        else:
            joined.append(rule)
    return np.array(joined).reshape(-1, 4)


def _may_cross(rules: Boxes, words: Boxes) -> NDArray[np.bool_]:
    """Return for each rule whether it runs along the middle of some word."""
    found = np.zeros(len(rules), np.bool_)
    step = max(1, MAX_PAIRS // len(words))
    widths = MIN_WORD_SHARE * (words[:, 2] - words[:, 0])
    for start in range(0, len(rules), step):
        part = rules[start : start + step, :, np.newaxis]
        shared = np.minimum(words[:, 2], part[:, 2]) - np.maximum(words[:, 0], part[:, 0])
        found[start : start + step] = ((shared >= widths) & _is_in_middle(part, words)).any(axis=1)
    return found


def _is_in_middle(rules: NDArray[np.float64], boxes: Boxes) -> NDArray[np.bool_]:
    """Return for each box whether the height of a rule is in its middle; of several rules, a row for each."""
    height = np.maximum(boxes[:, 3] - boxes[:, 1], 1e-9)
    level = (rules[:, 1] + rules[:, 3]) / 2
    place = (level - boxes[:, 1]) / height
    return (place >= MIDDLE[0]) & (place <= MIDDLE[1])


def _list_letters(page: PdfiumPage, size: NDArray[np.float64], angle: int) -> _Letters:
    """Return the letters that are turned clockwise by an angle as if the page were turned back."""
    frame = page.frame
    turn = (angle // 90 - frame.turn) % 4
    with page.layer() as layer:
        characters = layer.characters()
        places = [
            frame.to_unit(*layer.ink(index)).as_tuple()
            for index, character in enumerate(characters)
            if character.isalnum() and layer.turn(index) == turn
        ]
    boxes = _turn_back(np.array(places).reshape(-1, 4) * size, angle, size)
    boxes = boxes[np.argsort(boxes[:, 1], kind="stable")]
    return _Letters(boxes, float((boxes[:, 3] - boxes[:, 1]).max(initial=0.0)))


def _find_crossed(rule: NDArray[np.float64], letters: _Letters) -> NDArray[np.bool_] | None:
    """Return for each letter whether a rule strikes it out; None if it is no rule that strikes words out."""
    level = (rule[1] + rule[3]) / 2
    near = letters.between(level - letters.tallest, level + letters.tallest)
    around = letters.boxes[near]
    middle = (around[:, 0] + around[:, 2]) / 2
    is_along = (middle > rule[0]) & (middle < rule[2])
    crossed = is_along & _is_in_middle(rule[np.newaxis], around)
    if crossed.sum() < MIN_LETTERS:
        return None
    boxes = around[crossed]
    top, bottom = boxes[:, 1].min(), boxes[:, 3].max()
    in_line = is_along & (around[:, 3] > top) & (around[:, 1] < bottom)
    height = (boxes[:, 3] - boxes[:, 1]).max()
    left, right = np.sort(boxes[:, 0]), np.sort(boxes[:, 2])
    is_strike = (
        crossed.sum() >= MIN_CROSSED * in_line.sum()
        and rule[3] - rule[1] <= MAX_THICKNESS * height
        and left[0] - rule[0] <= MAX_AHEAD * height
        and rule[2] - right[-1] <= MAX_BEHIND * height
        and (left[1:] - right[:-1]).max() <= MAX_GAP * height
    )
    if not is_strike:
        return None
    struck = np.zeros(len(letters.boxes), np.bool_)
    struck[near] = crossed
    return struck


def _find_whole_words(words: Boxes, letters: _Letters, crossed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each word whether its letters are crossed; none if a word is crossed in part."""
    around = letters.boxes[crossed]
    left, top, right, bottom = *around[:, :2].min(axis=0), *around[:, 2:].max(axis=0)
    near = (words[:, 2] > left) & (words[:, 0] < right) & (words[:, 3] > top) & (words[:, 1] < bottom)
    whole = np.zeros(len(words), np.bool_)
    if not near.any():
        return whole
    own = letters.between(words[near, 1].min(), words[near, 3].max())
    boxes, crossed = letters.boxes[own], crossed[own]
    middle, level = (boxes[:, :2] + boxes[:, 2:]).T / 2
    for index in np.flatnonzero(near).tolist():
        x1, y1, x2, y2 = words[index]
        inside = (middle >= x1) & (middle <= x2) & (level >= y1) & (level <= y2)
        whole[index] = crossed[inside].any()
        if whole[index] and not crossed[inside].all():
            return np.zeros(len(words), np.bool_)
    return whole
