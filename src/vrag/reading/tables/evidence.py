"""Evidence that words in rows and columns are a table, not a drawing, panels, lists, forms or labels.

Behind the words of a table each row of pixels has one colour, or each column has: white, stripes, shaded
heads. Curves, bars, photographs and panels have pixels that neither their row nor their column explains.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from vrag.reading.tables.captions import NUMBERED_TITLE
from vrag.reading.tables.text_kinds import count_words, is_number, is_year
from vrag.reading.tables.text_pieces import join_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.reading.tables.grid import Area, Grid
    from vrag.reading.tables.text_pieces import StraightWords

LONGEST_SIDE = 1000
"""Pixels of the longer side; larger pictures are reduced."""
SAMPLES = 150
"""Pixels of a row or column of which the median is taken."""
BEYOND = np.int16(1000)
"""A value above every colour, for pixels of words."""
DIFFERENCE = 30
"""Difference of a colour, of 255, from that of its row and of its column."""
THIN = 4
"""Pixels of the thickness below which a horizontal stroke is a ruling line."""
LONG = 14
"""Pixels of the length from which a thin stroke is a ruling line."""
WORD_MARGIN = 0.3
"""Space around words that belongs to them, in heights of the word."""


class PageGround:
    """The picture of a page without its words."""

    def __init__(self, picture: Image, page: StraightWords) -> None:
        factor = math.ceil(max(picture.size) / LONGEST_SIDE)
        small = picture.convert("RGB")
        pixels = small.reduce(factor) if factor > 1 else small
        self._pixels = np.asarray(pixels, dtype=np.int16)
        height, width = self._pixels.shape[:2]
        self._across, self._down = float(width / page.width), float(height / page.height)
        self._slope = page.slope * self._down / self._across
        self._words = self._mask_words(page)

    def _mask_words(self, page: StraightWords) -> NDArray[np.bool_]:
        mask = np.zeros(self._pixels.shape[:2], dtype=np.bool_)
        margin = WORD_MARGIN * (page.boxes[:, 3] - page.boxes[:, 1])
        scale = np.array([self._across, self._down])
        low = (page.boxes[:, :2] - margin[:, None]) * scale
        high = (page.boxes[:, 2:] + margin[:, None]) * scale + 1
        first, last = np.maximum(low, 0).astype(int).tolist(), high.astype(int).tolist()
        for (x1, y1), (x2, y2) in zip(first, last, strict=True):
            mask[y1:y2, x1:x2] = True
        return mask

    def measure_drawing(self, area: Area) -> float:
        """Return the share of an area's pixels, words left out, that rows and columns do not explain.

        Args:
            area: The area on the page, set straight.
        """
        height, width = self._pixels.shape[:2]
        xs = _pixels_between(area.x1 * self._across, area.x2 * self._across, width)
        ys = _pixels_between(area.y1 * self._down, area.y2 * self._down, height)
        if len(xs) < THIN or len(ys) < THIN:
            return 0.0
        rows = np.clip(ys[:, None] + np.rint(self._slope * xs)[None].astype(np.int64), 0, height - 1)
        colours, free = self._pixels[rows, xs[None]], ~self._words[rows, xs[None]]
        drawn = free & _differs(colours, free, axis=1) & _differs(colours, free, axis=0)
        drawn &= ~_thin_strokes(drawn)
        return float(np.count_nonzero(drawn) / max(np.count_nonzero(free), 1))


def _pixels_between(start: float, end: float, size: int) -> NDArray[np.int64]:
    return np.arange(max(math.floor(start), 0), min(math.ceil(end), size), dtype=np.int64)


def _differs(colours: NDArray[np.int16], free: NDArray[np.bool_], axis: int) -> NDArray[np.bool_]:
    """Return where colours differ from the median of their row or column, words left out."""
    step = colours.shape[axis] // SAMPLES + 1
    chosen = colours[::step] if axis == 0 else colours[:, ::step]
    ground = free[::step] if axis == 0 else free[:, ::step]
    ground = ground | ~ground.any(axis=axis, keepdims=True)
    ordered = np.sort(np.where(ground[..., None], chosen, BEYOND), axis=axis)
    middle = (ground.sum(axis=axis, keepdims=True)[..., None] - 1) // 2
    median = np.take_along_axis(ordered, middle, axis=axis)
    return np.abs(colours - median).max(axis=2) > DIFFERENCE


def _thin_strokes(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the marks of long horizontal strokes that are thin."""
    return _open(mask, LONG) & ~_open(mask.T, THIN).T


def _open(mask: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Return the marks that stand in runs of at least `length` in their row."""
    padded = np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    ends = np.nonzero(steps == -1)[1]
    long = ends - starts >= length
    marks = np.zeros((mask.shape[0], mask.shape[1] + 1), dtype=np.int8)
    marks[rows[long], starts[long]] = 1
    marks[rows[long], ends[long]] -= 1
    return np.cumsum(marks, axis=1)[:, :-1] > 0


MAX_DRAWN = 0.0153
"""Share of the ground that a drawing may cover where no lines surround the cells."""
MAX_DRAWN_RULED = 0.03
"""The same of a small grid of ruling lines; a large one may have pictures in its cells."""
MAX_DRAWN_GRID = 0.1, 0.2
"""The same of a large grid of ruling lines, and of one without empty places."""
LARGE_GRID = 12
"""Cells with words of a large grid."""
MIN_FIGURES = 0.6
"""Share of the cells of a column of figures."""
MAX_DRAWN_TEXTS = 0.15
"""Share of the texts that may be drawn with signs: boxes of plain text."""
MAX_ENTRY_WORDS = 4
"""Median words of a cell of a table of names."""
_DATE = re.compile(
    r"(?:\d{1,4}[-/.年]\d{1,2}[-/.月](?:\d{1,4}日?)?|\d{1,2}:\d\d(?::\d\d)?|"
    r"(?:\d{1,2}(?:st|nd|rd|th)?,?\s)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?,?\s"
    r"(?:\d{1,2},?\s)?\d{2,4})\W{0,2}"
)
_DRAWN = re.compile(r"[|+=_/\\<>^v~-]{2,}|[|/\\]")
_AMOUNT = r"(?:(?:US|A|C)?[$€£¥₹]\s?)?[-−]?\d[\d,.]*(?:\s?%|\s\w{1,12})?"
_RANGE = re.compile(rf"{_AMOUNT}\s?(?:[-–—~]|\bto\b|\band\b)\s?{_AMOUNT}")
_BOUND = re.compile(
    rf"(?:[<>≤≥]=?|(?:greater|more|less|fewer|higher|lower|larger|smaller|older|younger|longer|shorter)\sthan"
    rf"|over|under|above|below|up\sto|at\s(?:least|most)|from|until)\s?{_AMOUNT}",
    re.IGNORECASE,
)
_PAGES = re.compile(r"(\d{1,3})(?:\s?[-–]\s?\d{1,3})?")
_TOTAL_FIGURE = re.compile(r"\d[\d,.]*\s?[%=].{0,6}|\W?\d[\d,.]*(?:\s\w{1,12}){1,2}")


def is_drawing(grid: Grid, drawn: float) -> bool:
    """Return whether too much of the ground of a grid, given as a share, is a drawing."""
    if not grid.ruled:
        return drawn > MAX_DRAWN
    if len(grid.cells) < LARGE_GRID:
        return drawn > MAX_DRAWN_RULED
    full = sum(cell.rows * cell.columns for cell in grid.cells) >= 0.9 * grid.height * grid.width
    return drawn > MAX_DRAWN_GRID[full]


def has_evidence(grid: Grid, page: StraightWords, caption: str) -> bool:
    """Return whether aligned words are a table by their figures, their caption, their rules or their order.

    Args:
        grid: The cells.
        page: The words of the page.
        caption: The caption beside them.
    """
    texts = {
        (cell.row, cell.column): join_words(page.item, [page.numbers[index] for index in cell.words])
        for cell in grid.cells
    }
    if _is_drawn(list(texts.values())) or _is_page_list(texts, grid):
        return False
    if NUMBERED_TITLE.match(caption) and not caption.lower().startswith(("fig", "图", "圖")):
        return True
    return _has_figures(texts, grid) or _has_definitions(texts, grid) or _has_entries(texts, grid)


def _is_drawn(texts: Sequence[str]) -> bool:
    """Return whether many texts are lines of characters, or parts of a tuple."""
    lines = sum(_DRAWN.fullmatch(text) is not None and text not in {"--", "-", "---"} for text in texts)
    tuples = sum(text.endswith(",") for text in texts)
    return lines > MAX_DRAWN_TEXTS * len(texts) or tuples > 0.4 * len(texts)


def _is_page_list(texts: dict[tuple[int, int], str], grid: Grid) -> bool:
    """Return whether all rows are titles with page numbers, or ranges of them, that never fall."""
    if grid.width > 3:
        return False
    last = [_PAGES.fullmatch(texts.get((row, grid.width - 1), "")) for row in range(grid.height)]
    pages = [int(match[1]) for match in last if match]
    if len(pages) < len(last):
        return False
    return pages == sorted(pages) and len(set(pages)) > 1


def is_figure(text: str) -> bool:
    """Return whether a cell holds a number, a year, a date or a time.

    >>> [is_figure(text) for text in ("1,204", "FY 2019", "3 May 2024", "06:40", "2.9 points", "May")]
    [True, True, True, True, True, False]
    """
    text = text.strip()
    return (
        is_number(text)
        or is_year(text)
        or _DATE.fullmatch(text) is not None
        or (len(text) < 24 and _TOTAL_FIGURE.fullmatch(text) is not None)
    )


def is_amount(text: str) -> bool:
    """Return whether a cell holds a figure, a range of two or a bound, as classes have.

    >>> [is_amount(text) for text in ("25–29", "Over 65", "over the sea")]
    [True, True, False]
    """
    text = text.strip()
    return is_figure(text) or _RANGE.fullmatch(text) is not None or _BOUND.fullmatch(text) is not None


def _has_figures(texts: dict[tuple[int, int], str], grid: Grid) -> bool:
    """Return whether a column holds figures in several rows that have a text elsewhere."""
    columns: dict[int, list[bool]] = defaultdict(list)
    amounts = {place: is_amount(text) for place, text in texts.items()}
    labelled = {row for (row, _), is_one in amounts.items() if not is_one}
    dated = {row for (row, column), is_one in amounts.items() if column == 0 and is_one}
    for (row, column), is_one in amounts.items():
        if row > 0 or (is_one and row in labelled):
            columns[column].append(is_one and (row in labelled or (row in dated and column > 0)))
    small = grid.ruled_below and grid.height < 4
    wanted = max(1 if small else 2, 0.25 * grid.height)
    return any(
        sum(found) >= wanted and sum(found) >= MIN_FIGURES * len(found)
        for column, found in columns.items()
        if column > 0
    )


def _has_definitions(texts: dict[tuple[int, int], str], grid: Grid) -> bool:
    """Return whether all entries at the right begin with the same sign, as those of a legend do."""
    right = [text for (_, column), text in texts.items() if column == 1]
    return grid.width == 2 and len(right) > 2 and all(text.startswith("=") for text in right)


def _has_entries(texts: dict[tuple[int, int], str], grid: Grid) -> bool:
    """Return whether rules divide the rows, or short texts fill nearly all places of several columns."""
    full = len(texts) / max(grid.height * grid.width, 1)
    words = float(np.median([count_words(text) for text in texts.values()]))
    heads = [texts.get((0, column), "") for column in range(grid.width)]
    headed = all(heads) and not any(text.endswith((".", ":", "?")) for text in heads)
    divided = len([row for row in grid.ruled_below if row < grid.height - 1])
    if divided >= max(2, 0.5 * (grid.height - 1)) and full > 0.6:
        return True
    if divided and 0 in grid.ruled_below and headed and full > 0.75 and words <= 2 * MAX_ENTRY_WORDS:
        return True
    return grid.width > 2 and grid.height > 3 and full > 0.85 and headed and words <= MAX_ENTRY_WORDS
