"""Charts, pictures, diagrams and tables of a page, as rectangles, and the one that a question is about.

They are found in the stored picture: what is drawn and is neither running text nor a line. Words in them and
right beside them, such as the labels of axes, belong to them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Hashable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from vrag.reading.answer import ReadPage
from vrag.reading.line_scoring import ScoredPage
from vrag.reading.page_text import PageText
from vrag.reading.questions.query_analysis import QuestionAnalysis
from vrag.reading.tables.table import DocumentTable
from vrag.reading.views.text_lines import Rect, around

if TYPE_CHECKING:
    from PIL.Image import Image

CACHE_SIZE = 256
"""Pages whose drawn parts are kept."""
WIDTH = 240
"""Pixels to which the width of a page is reduced."""
CONTRAST = 20
"""Difference in brightness from the background, of 255, from which something is drawn."""
TEXT_WORDS = 5
"""Words from which a line is running text, which belongs to no chart."""
REACH = 0.02
"""Distance, in widths of the page, up to which drawn parts belong together."""
MIN_WIDTH, MIN_HEIGHT, MIN_AREA = 0.08, 0.04, 0.012
"""Share of the page below which a drawing is an ornament, a line or an icon."""
MAX_AREA = 0.9
"""Share of the page above which a drawing is the background."""
MIN_DRAWN = 0.25
"""Share of what is drawn that is not text."""
CAPTION_GAP = 0.06
"""Distance of a caption from what it belongs to, in heights of the page."""
_VISUAL = re.compile(
    r"""\b(?:charts?|diagrams?|figures?|fig|graphs?|histograms?|images?|illustrations?|logos?|icons?|maps?|photo
    (?:graph)?s?|pictures?|pie|plots?|screenshots?|sub-?figures?|bars?|colou?rs?|coloured|colored|flow-?charts?
    |drawn|curves?|axis|legend)\b | [图圖]表? | 照片 | 图片""",
    re.IGNORECASE | re.VERBOSE,
)


def _identify(page: ReadPage, placed: PageText) -> Hashable:
    del placed
    return page.item.id, page.item.text, page.item.image


@cached(LRUCache[Hashable, "tuple[Rect, ...]"](CACHE_SIZE), key=_identify, lock=Lock())
def find_visual_parts(page: ReadPage, placed: PageText) -> tuple[Rect, ...]:
    """Return the rectangles of what is drawn on a page, the largest first; none without a picture.

    Those of the pages read last are kept.
    """
    image = page.picture()
    return () if image is None else _find_parts(image, placed)


def complete_part(place: Rect, parts: Sequence[Rect], tables: Sequence[DocumentTable], most: float) -> Rect:
    """Return the drawn part or table around a place, with the place; the place itself if it is too large."""
    boxes = [Rect(*table.box.as_tuple()) for table in tables if table.box is not None]
    x, y = place.box().center
    for rect in sorted((*parts, *boxes), key=lambda rect: rect.area):
        whole = around((rect, place)) or place
        if rect.x1 <= x <= rect.x2 and rect.y1 <= y <= rect.y2 and whole.area <= most:
            return whole
    return place


def choose_visual_part(
    question: QuestionAnalysis, scored: ScoredPage, parts: Sequence[Rect], tables: Sequence[DocumentTable]
) -> Rect | None:
    """Return the part of a page that a question is about: the one with the caption named, or best supported.

    None where the question is about nothing that is drawn.
    """
    boxes = [Rect(*table.box.as_tuple()) for table in tables if table.box is not None]
    captioned = _find_captioned(question, scored.page, [*parts, *boxes])
    if captioned is not None:
        return captioned
    if not parts or not _VISUAL.search(question.core):
        return None
    support = scored.support_at(np.asarray(parts, dtype=np.float64).reshape(-1, 4))
    return parts[int(support.argmax())]


def _find_captioned(question: QuestionAnalysis, page: PageText, parts: Sequence[Rect]) -> Rect | None:
    """Return the parts beside a caption that the question names, on its nearer side, with the caption."""
    captions = [pointer.caption for pointer in question.pointers if pointer.kind != "page"]
    for line in page.lines:
        if not any(caption.match(page.item.text, line.start) for caption in captions):
            continue
        gaps = [(_gap(line.rect, part), part) for part in parts]
        nearest, beside = min(gaps, key=lambda found: found[0], default=(1.0, line.rect))
        if nearest <= CAPTION_GAP:
            is_above = beside.y1 < line.rect.y1
            same = [part for gap, part in gaps if gap <= CAPTION_GAP and (part.y1 < line.rect.y1) is is_above]
            return around((line.rect, *same))
    return None


def _gap(line: Rect, part: Rect) -> float:
    """Return the distance between a caption and a part above or below it; 1 for one beside it."""
    if min(line.x2, part.x2) <= max(line.x1, part.x1):
        return 1.0
    return max(0.0, line.y1 - part.y2, part.y1 - line.y2)


def _find_parts(image: Image, page: PageText) -> tuple[Rect, ...]:
    ndimage: Any = importlib.import_module("scipy.ndimage")  # it ships no types
    height = max(1, round(WIDTH * image.height / max(image.width, 1)))
    if height > 4 * WIDTH:
        return ()
    grey = np.asarray(image.convert("L").resize((WIDTH, height)), dtype=np.int16)
    background = int(np.bincount(grey.ravel(), minlength=256).argmax())
    drawn = np.abs(grey - background) > CONTRAST
    text = np.zeros_like(drawn)
    for line in page.lines:
        if len(page.item.text[line.start : line.end].split()) >= TEXT_WORDS and page.words:
            _fill(drawn, line.rect, value=False)
    for _, _, rect in page.words:
        _fill(text, rect, value=True)
    reach = max(1, round(REACH * WIDTH))
    grown = ndimage.binary_dilation(drawn, np.ones((3, 3), np.bool_), iterations=reach // 2 + 1)
    labels, _ = ndimage.label(grown)
    rects: list[Rect] = []
    for number, place in enumerate(ndimage.find_objects(labels), start=1):
        inside = drawn[place] & (labels[place] == number)
        if inside.any() and (inside & ~text[place]).sum() >= MIN_DRAWN * inside.sum():
            rects.append(_rect_of(inside, place, drawn.shape))
    return tuple(sorted(filter(_is_part, _merge(rects)), key=lambda rect: -rect.area))


def _fill(mask: NDArray[np.bool_], rect: Rect, *, value: bool) -> None:
    """Set the pixels of a rectangle, and those around it, into which reducing the picture has spread it."""
    rows, columns = mask.shape
    top, bottom = int(rect.y1 * rows) - 1, int(np.ceil(rect.y2 * rows)) + 1
    left, right = int(rect.x1 * columns) - 1, int(np.ceil(rect.x2 * columns)) + 1
    mask[max(top, 0) : bottom, max(left, 0) : right] = value


def _rect_of(inside: NDArray[np.bool_], place: tuple[slice, slice], shape: tuple[int, int]) -> Rect:
    """Return the rectangle of what is drawn in a window of the page, as fractions of the page."""
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    top, left = place[0].start, place[1].start
    return Rect(
        (left + int(columns[0])) / shape[1],
        (top + int(rows[0])) / shape[0],
        (left + int(columns[-1]) + 1) / shape[1],
        (top + int(rows[-1]) + 1) / shape[0],
    )


def _merge(rects: Sequence[Rect]) -> list[Rect]:
    """Return rectangles without overlaps: those that overlap become one."""
    rest = sorted(rects, key=lambda rect: -rect.area)
    merged: list[Rect] = []
    while rest:
        rect = rest.pop(0)
        near = [other for other in rest if _overlap(rect, other)]
        if near:
            rest = [around((rect, *near)) or rect, *(other for other in rest if other not in near)]
        else:
            merged.append(rect)
    return merged


def _overlap(a: Rect, b: Rect) -> bool:
    return min(a.x2, b.x2) > max(a.x1, b.x1) and min(a.y2, b.y2) > max(a.y1, b.y1)


def _is_part(rect: Rect) -> bool:
    return rect.width >= MIN_WIDTH and rect.height >= MIN_HEIGHT and MIN_AREA <= rect.area <= MAX_AREA
