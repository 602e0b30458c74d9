# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false
"""Fonts of a PDF file that draw one figure and say that it is another one.

No text tells it: 612,000 is as probable as 947,333. The outlines of a font's figures are therefore compared
with those of PDFium's own fonts. Of 3,500 figures that fonts of 1,700 pages draw, two are surely another one.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from cachetools import LRUCache

from vrag.corpus.pages.ink import load_opencv

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.corpus.formats.pdfium import PdfiumPage

FIGURES = "0123456789"
STANDARD_FONTS = (
    "Helvetica",
    "Helvetica-Bold",
    "Times-Roman",
    "Times-Bold",
    "Times-Italic",
    "Helvetica-Oblique",
)
"""The fonts of PDFium whose figures are compared."""
GLYPH_SIZE = 10.0
"""Of the outlines, in points."""
SIDE, MARGIN, OVERSAMPLING = 24, 2, 2
"""Pixels of a shape, those around it, and by how much larger it is drawn."""
CURVE_STEPS = (0.5, 1.0)
"""Places on a curve at which it is drawn."""
MAX_SEGMENTS = 400
"""Segments of an outline from which it is no plain figure."""
MIN_LIKE, MIN_LEAD = 0.8, 0.12
"""Likeness to another figure, and its lead over that to its own, from which a figure is a wrong one."""
MIN_EACH_LIKE = 0.65
"""Likeness of each figure to the one that is drawn, below which the shapes say nothing."""
CACHE_SIZE = 256
"""Fonts whose figures are remembered."""

Point = tuple[float, float]


_found = LRUCache[tuple[Any, ...], dict[str, list[float]]](CACHE_SIZE)


def find_wrong_figures(page: PdfiumPage) -> dict[int, dict[str, str]]:
    """Return which figures each font of a page seems to draw for those that it says, by its number.

    Fonts that draw what they say are left out.
    """
    likeness = {
        number: found
        for number, font, name in page.list_fonts()
        if find_drawn(found := _load_likeness(font, name))
    }
    if not likeness:
        return {}
    drawn = {
        number: find_drawn({said: likeness[number][said] for said in used & likeness[number].keys()})
        for number, used in page.list_characters(FIGURES, likeness).items()
    }
    return {number: shown for number, shown in drawn.items() if shown}


def find_drawn(likeness: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Return the figure that a font draws for each that it says; none if they are its own, or are not sure.

    Two figures are never drawn as the same one.

    Args:
        likeness: The likeness of each glyph to the figures from 0 to 9, by the figure that the font says.
    """
    scores = np.array(list(likeness.values())).reshape(-1, len(FIGURES))
    rows = np.arange(len(scores))
    own = scores[rows, [int(said) for said in likeness]]
    if not _has_other(own, scores.max(axis=1, initial=0.0)):
        return {}
    from scipy.optimize import linear_sum_assignment  # takes a moment, and few pages need it

    drawn = linear_sum_assignment(scores, maximize=True)[1]
    likes = scores[rows, drawn]
    if not _has_other(own, likes) or likes.min() < MIN_EACH_LIKE:
        return {}
    return dict(zip(likeness, (FIGURES[figure] for figure in drawn.tolist()), strict=True))


def _has_other(own: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Return whether some figure is surely like another one, by its likeness to its own and to others."""
    return bool(((others - own >= MIN_LEAD) & (others >= MIN_LIKE)).any())


def _load_likeness(font: Any, name: str) -> dict[str, list[float]]:  # noqa: ANN401 - a handle of PDFium
    """Return the likeness of the figures of a font to those from 0 to 9."""
    outlines = [_load_outline(font, figure) for figure in FIGURES]
    counts = [_count_segments(outline) for outline in outlines]
    if not any(counts):
        return {}
    key = (name, *counts)
    if key not in _found:
        shapes = {
            figure: shape
            for figure, outline, count in zip(FIGURES, outlines, counts, strict=True)
            if 0 < count <= MAX_SEGMENTS and (shape := draw_shape(_read_contours(outline, count))) is not None
        }
        _found[key] = compare_shapes(shapes)
    return _found[key]


def compare_shapes(shapes: Mapping[str, NDArray[np.float64]]) -> dict[str, list[float]]:
    """Return the likeness of each shape to the figures from 0 to 9.

    >>> compare_shapes({})
    {}
    """
    if not shapes:
        return {}
    scores = _load_templates() @ np.stack(list(shapes.values()), axis=1)
    best = scores.reshape(-1, len(FIGURES), len(shapes)).max(axis=0)
    return dict(zip(shapes, best.T.tolist(), strict=True))


def draw_shape(contours: Iterable[list[Point]]) -> NDArray[np.float64] | None:
    """Draw a glyph so that its height fills a small square; None if it has no area.

    Returns its pixels as a vector of length 1, without their mean.
    """
    cv2 = load_opencv()
    rings = [np.array(contour) for contour in contours]
    if not rings:
        return None
    points = np.concatenate(rings)
    low, size = points.min(axis=0), np.ptp(points, axis=0)
    if size.min() <= 0:
        return None
    inner = SIDE - 2 * MARGIN
    scale = np.array((min(inner / size[1], inner / size[0]), inner / size[1]))
    left = (SIDE - size[0] * scale[0]) / 2
    canvas = np.zeros((SIDE * OVERSAMPLING,) * 2, np.uint8)
    placed = [(ring - low) * scale * (1, -1) + (left, SIDE - MARGIN) for ring in rings]
    cv2.fillPoly(canvas, [np.round(ring * OVERSAMPLING).astype(np.int32) for ring in placed], 255)
    blurred = cv2.GaussianBlur(cv2.resize(canvas, (SIDE, SIDE), interpolation=cv2.INTER_AREA), (5, 5), 0)
    shape = blurred.ravel() - blurred.mean()
    length = np.linalg.norm(shape)
    return shape / length if length else None


@cache
def _load_templates() -> NDArray[np.float64]:
    """Load the shapes of PDFium's own figures, a row for each: of each font those from 0 to 9."""
    from pypdfium2 import PdfDocument, raw

    shapes: list[NDArray[np.float64]] = []
    document = PdfDocument.new()
    for name in STANDARD_FONTS:
        font = raw.FPDFText_LoadStandardFont(document.raw, name.encode())
        for figure in FIGURES:
            outline = _load_outline(font, figure)
            shape = draw_shape(_read_contours(outline, _count_segments(outline)))
            shapes.append(np.zeros(SIDE * SIDE) if shape is None else shape)
        raw.FPDFFont_Close(font)
    document.close()
    return np.array(shapes)


def _load_outline(font: Any, character: str) -> Any:  # noqa: ANN401 - handles of PDFium
    from pypdfium2 import raw

    return raw.FPDFFont_GetGlyphPath(font, ord(character), GLYPH_SIZE)


def _count_segments(outline: Any) -> int:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    return max(0, raw.FPDFGlyphPath_CountGlyphSegments(outline)) if outline else 0


def _read_contours(outline: Any, count: int) -> list[list[Point]]:  # noqa: ANN401 - a handle of PDFium
    """Return the contours of a glyph as points; curves with one on their way."""
    from pypdfium2 import raw

    x, y = ctypes.c_float(), ctypes.c_float()
    get_segment, get_point, get_type = (
        raw.FPDFGlyphPath_GetGlyphPathSegment,
        raw.FPDFPathSegment_GetPoint,
        raw.FPDFPathSegment_GetType,
    )
    contours: list[list[Point]] = []
    controls: list[Point] = []
    for index in range(count):
        segment = get_segment(outline, index)
        get_point(segment, x, y)
        kind = get_type(segment)
        point = (x.value, y.value)
        if kind == raw.FPDF_SEGMENT_MOVETO or not contours:
            contours.append([point])
        elif kind == raw.FPDF_SEGMENT_LINETO:
            contours[-1].append(point)
        else:
            controls.append(point)
            if len(controls) == 3:
                start = contours[-1][-1]
                contours[-1] += [_place_on_curve((start, *controls), part) for part in CURVE_STEPS]
                controls.clear()
    return contours


def _place_on_curve(points: tuple[Point, ...], part: float) -> Point:
    """Return the place at a part of a cubic Bézier curve, from 0 to 1."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = points
    rest = 1 - part
    a, b, c, d = rest**3, 3 * rest * rest * part, 3 * rest * part * part, part**3
    return a * ax + b * bx + c * cx + d * dx, a * ay + b * by + c * cy + d * dy
