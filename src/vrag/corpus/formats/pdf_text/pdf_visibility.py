# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false
"""Text of a PDF page that is not drawn although ink stands in its place.

Words of a layer that is switched off, or that something covers on which other words stand, have ink in their
boxes. Whether they are drawn is asked of PDFium: it draws the place with and without them, and if that makes
no difference, nobody sees them. They are then taken out of the page, so that its text layer does not have
them either.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vrag.corpus.formats.pdfium_text import address_of, find_function
from vrag.corpus.pages.trust import reads_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.corpus.formats.pdfium import PdfiumPage
    from vrag.corpus.pages.placed_text import PlacedText

DRAWN_MODES = frozenset(range(3))
"""Modes of text that is filled or stroked. The others are not to be seen: layers of scans, and clips."""
UNSEEN_MODE = 3
"""Mode of text for search only."""
MIN_REPEATED, MIN_SAME_LETTERS = 0.5, 0.7
"""Part of a text for search only that lies in the place of drawn text, and of its letters that this has."""
MAX_COMPARED = 2000
"""Texts of a page that are compared with each other."""
MAX_TESTS = 40
"""Places of a page that are drawn with and without words."""
MIN_COVERED = 0.9
"""Part of a text that lies under a picture, or in a word's place, to be tested."""
MAX_LETTERS = 400
"""Letters at the begin of such texts that are compared."""
MIN_SHOWN = 0.5
"""Part of a text that lies within a path that bounds it, to be shown."""
MIN_SHARED_WIDTH = 0.003
"""Part of a page's width that words share at least which lie in the same place."""
MAX_LINES = 100
"""Stripes of a page in which words that overlap are looked for."""

Rect = tuple[float, float, float, float]
"""Left, bottom, right, top in points."""


class _TextObject(NamedTuple):
    handle: Any
    bounds: Rect
    layer: str
    """Name of the layer that it is part of, if any."""


class _PageObjects(NamedTuple):
    texts: list[_TextObject]
    pictures: list[tuple[Rect, int]]
    """Bounds of pictures, and the number of texts that are drawn before each."""


def has_doubtful_text(page: PdfiumPage, layer: PlacedText) -> bool:
    """Return whether some words of a page may be in its text layer and not be drawn.

    They are part of a layer, lie in the place of others, or under a picture that is drawn after some text.
    """
    if not layer.words:
        return False
    text, words, boxes = layer.text, layer.words, layer.boxes
    has_layers, pictures = _scan_objects(page)
    if has_layers or any(
        _are_two_words(text[words[one].start : words[one].end], text[words[other].start : words[other].end])
        for one, other in _overlapping_pairs(boxes)
    ):
        return True
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    for picture in pictures:
        place = page.frame.to_unit(*_bounds(picture))
        if ((middle >= (place.x1, place.y1)) & (middle <= (place.x2, place.y2))).all(axis=1).any():
            return True
    return False


def _are_two_words(first: str, second: str) -> bool:
    """Return whether words in one place are not the same one; accents and rules have no letters or digits."""
    return first != second and any(map(str.isalnum, first)) and any(map(str.isalnum, second))


def _overlapping_pairs(boxes: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Yield words of which one lies in the place of the other, on the same line."""
    for shift in (0.0, 0.5):
        lines = np.floor((boxes[:, 1] + boxes[:, 3]) * (MAX_LINES / 2) + shift)
        order = np.lexsort((boxes[:, 0], lines))
        for distance in (1, 2):
            first, second = order[:-distance], order[distance:]
            # Most words end before the next one begins.
            close = boxes[first, 2] - boxes[second, 0] > MIN_SHARED_WIDTH
            first, second = first[close], second[close]
            is_same = _overlap_much(boxes[first], boxes[second])
            yield from zip(first[is_same].tolist(), second[is_same].tolist(), strict=True)


def _overlap_much(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each pair of boxes whether they share half of the smaller one."""
    shared = np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2])
    area = np.clip(shared, 0, None).prod(axis=1)
    smaller = np.minimum(
        (first[:, 2:] - first[:, :2]).prod(axis=1), (second[:, 2:] - second[:, :2]).prod(axis=1)
    )
    return area >= 0.5 * smaller


def remove_undrawn_text(page: PdfiumPage, *, with_ocr: bool) -> str:
    """Take the text out of a page that is not drawn on it, and return it.

    The page has a text layer without it from then on, nor has it text for search only that says what drawn
    text in its place says. Letters that PDFium lacks stay: other readers have
    them. Text under a picture goes only if OCR reads something
    else there: scans have their text layer under them.
    """
    from pypdfium2 import raw

    objects = _list_objects(page)
    layer = raw.FPDFText_LoadPage(page.handle)
    covered = (group for group in _covered_groups(objects) if not _is_read(page, group, layer))
    groups = [*_layer_groups(objects), *_overlapping_groups(objects, layer), *(covered if with_ocr else ())]
    if page.has_replaced_fonts:
        groups = list(_drawable_groups(page, groups, layer))
    groups = list(_join_copies(groups, objects, layer)) if groups else []
    hidden: list[str] = []
    removed: set[int] = set()
    try:
        for group in groups[:MAX_TESTS]:
            left = [text for text in group if address_of(text.handle) not in removed]
            if left and not _is_drawn(page, left):
                removed |= {address_of(text.handle) for text in left}
                hidden += [_text_of(text.handle, layer) for text in left]
        _remove_repeated(
            page, [text for text in objects.texts if address_of(text.handle) not in removed], layer
        )
    finally:
        raw.FPDFText_ClosePage(layer)
    return " ".join(" ".join(filter(None, hidden)).split())


def _remove_repeated(page: PdfiumPage, drawn: Sequence[_TextObject], layer: Any) -> None:  # noqa: ANN401
    """Take text for search only out of a page where it says what drawn text says, but for some letters."""
    from pypdfium2 import raw

    unseen = [
        _TextObject(entry, _bounds(entry), "")
        for kind, entry in page.objects
        if kind == raw.FPDF_PAGEOBJ_TEXT and raw.FPDFTextObj_GetTextRenderMode(entry) == UNSEEN_MODE
    ]
    if not drawn or len(unseen) * len(drawn) > MAX_COMPARED**2:
        return
    boxes = np.array([text.bounds for text in drawn])
    for text in unseen:
        around = [drawn[at] for at in _find_level(boxes, text.bounds).tolist()]
        if sum(_share(text.bounds, other.bounds) for other in around) >= MIN_REPEATED:
            said = " ".join(_text_of(other.handle, layer) for other in around)
            if _says_same(_text_of(text.handle, layer), said):
                raw.FPDFPageObj_SetIsActive(text.handle, False)


def _find_level(boxes: NDArray[np.float64], own: Rect) -> NDArray[np.int64]:
    """Return the numbers of the boxes that overlap one and are about as high: lines like it."""
    heights, height = boxes[:, 3] - boxes[:, 1], own[3] - own[1]
    is_over = (boxes[:, :2] < own[2:]).all(axis=1) & (boxes[:, 2:] > own[:2]).all(axis=1)
    return np.flatnonzero(is_over & (heights < 2 * height) & (heights > height / 2))


def _says_same(text: str, said: str) -> bool:
    """Return whether most letters of a text stand, in their order, in another one."""
    own, other = ("".join(filter(str.isalnum, each.casefold()))[:MAX_LETTERS] for each in (text, said))
    blocks = SequenceMatcher(None, own, other, autojunk=False).get_matching_blocks() if own else ()
    return sum(block.size for block in blocks) >= MIN_SAME_LETTERS * len(own)


def _is_drawn(page: PdfiumPage, texts: Sequence[_TextObject]) -> bool:
    """Return whether a page is drawn otherwise without some texts; without them it stays if it is not."""
    from pypdfium2 import raw

    left, bottom, right, top = zip(*(text.bounds for text in texts), strict=True)
    place = (min(left), min(bottom), max(right), max(top))
    before = page.render_place(place)
    for text in texts:
        raw.FPDFPageObj_SetIsActive(text.handle, False)
    is_drawn = not np.array_equal(before, page.render_place(place))
    if is_drawn:
        for text in texts:
            raw.FPDFPageObj_SetIsActive(text.handle, True)
    return is_drawn


def _is_read(page: PdfiumPage, texts: Sequence[_TextObject], layer: Any) -> bool:  # noqa: ANN401
    """Return whether OCR reads, in the place of some texts, what the longest of them says."""
    longest = max(texts, key=lambda text: text.bounds[2] - text.bounds[0])
    return reads_as(page.render_place(longest.bounds), _text_of(longest.handle, layer))


def _layer_groups(objects: _PageObjects) -> list[list[_TextObject]]:
    """Return the texts of each layer."""
    groups: defaultdict[str, list[_TextObject]] = defaultdict(list)
    for text in objects.texts:
        if text.layer:
            groups[text.layer].append(text)
    return list(groups.values())


def _covered_groups(objects: _PageObjects) -> Iterable[list[_TextObject]]:
    """Yield the texts that lie under each picture drawn after them."""
    for bounds, count in objects.pictures:
        covered = [text for text in objects.texts[:count] if _share(text.bounds, bounds) >= MIN_COVERED]
        if covered:
            yield covered


def _overlapping_groups(objects: _PageObjects, layer: Any) -> Iterable[list[_TextObject]]:  # noqa: ANN401
    """Yield each text in whose place another text is drawn later.

    Letters that are drawn several times to be bold are the same text.
    """
    if len(objects.texts) > MAX_COMPARED:
        return
    boxes = np.array([text.bounds for text in objects.texts]).reshape(-1, 4)
    for index, text in enumerate(objects.texts):
        later = boxes[index + 1 :]
        over = np.flatnonzero(_overlap_much(np.broadcast_to(boxes[index], later.shape), later))
        if not len(over):
            continue
        own = _text_of(text.handle, layer)
        if any(_text_of(objects.texts[index + 1 + other].handle, layer) != own for other in over.tolist()):
            yield [text]


def _drawable_groups(
    page: PdfiumPage,
    groups: Iterable[list[_TextObject]],
    layer: Any,  # noqa: ANN401 - a handle of PDFium
) -> Iterator[list[_TextObject]]:
    """Yield of each group the texts whose letters PDFium has to draw."""
    for group in groups:
        if drawable := [text for text in group if page.can_draw(_text_of(text.handle, layer))]:
            yield drawable


def _join_copies(
    groups: Iterable[list[_TextObject]],
    objects: _PageObjects,
    layer: Any,  # noqa: ANN401 - a handle of PDFium
) -> Iterator[list[_TextObject]]:
    """Yield groups in which each text that is drawn again in its place stands by itself, with its copies.

    PDFium has the text of the first one only. Below a picture it is not seen, and its copy above it is.
    """
    copies: defaultdict[tuple[int, ...], list[_TextObject]] = defaultdict(list)
    for text in objects.texts:
        if not _text_of(text.handle, layer):
            copies[_round_bounds(text)].append(text)
    for group in groups:
        if alone := [text for text in group if not copies.get(_round_bounds(text))]:
            yield alone
        for text in group:
            if others := copies.get(_round_bounds(text)):
                yield [text, *(other for other in others if other.handle is not text.handle)]


def _round_bounds(text: _TextObject) -> tuple[int, ...]:
    return tuple(round(side) for side in text.bounds)


def read_uncut_text(page: Any, text: Any) -> str:  # noqa: ANN401 - a page of pypdfium2, and its text
    """Return the text of a page without what is cut off, as are the lines below the end of a text box."""
    from pypdfium2 import raw

    objects = page.get_objects(filter=[raw.FPDF_PAGEOBJ_TEXT])
    cut = {address_of(entry.raw) for entry in objects if _is_cut_off(entry.raw)}
    if not cut:
        return str(text.get_text_range())
    return "".join(
        chr(raw.FPDFText_GetUnicode(text, index))
        for index in range(text.count_chars())
        if address_of(raw.FPDFText_GetTextObject(text, index)) not in cut
    )


def _is_cut_off(text: Any) -> bool:  # noqa: ANN401 - a handle of PDFium
    """Return whether the larger part of a text lies outside of the paths that bound what is drawn of it."""
    from pypdfium2 import raw

    paths = raw.FPDFPageObj_GetClipPath(text)
    bounds = _bounds(text)
    for index in range(max(0, raw.FPDFClipPath_CountPaths(paths))):
        xs, ys = list[float](), list[float]()
        x, y = ctypes.c_float(), ctypes.c_float()
        for segment in range(max(0, raw.FPDFClipPath_CountPathSegments(paths, index))):
            raw.FPDFPathSegment_GetPoint(raw.FPDFClipPath_GetPathSegment(paths, index, segment), x, y)
            xs.append(x.value)
            ys.append(y.value)
        if xs and _share(bounds, (min(xs), min(ys), max(xs), max(ys))) < MIN_SHOWN:
            return True
    return False


def _share(part: Rect, whole: Rect) -> float:
    """Return the share of a rectangle that lies in another."""
    width = min(part[2], whole[2]) - max(part[0], whole[0])
    height = min(part[3], whole[3]) - max(part[1], whole[1])
    area = (part[2] - part[0]) * (part[3] - part[1])
    return max(0.0, width) * max(0.0, height) / area if area > 0 else 0.0


def _scan_objects(page: PdfiumPage) -> tuple[bool, list[Any]]:
    """Return whether some text of a page is part of a layer, and the pictures that are drawn after text."""
    from pypdfium2 import raw

    pictures, has_text = list[Any](), False
    text_kind, picture_kind = raw.FPDF_PAGEOBJ_TEXT, raw.FPDF_PAGEOBJ_IMAGE
    count_marks = find_function("FPDFPageObj_CountMarks")
    get_tag = find_function("FPDFPageObj_GetMarkedContentID")
    for kind, entry in page.objects:
        if kind == text_kind:
            has_text = True
            count = count_marks(entry)
            is_tag = count == 1 and get_tag(entry) >= 0  # the mark of a tagged file
            if count and not is_tag and _layer_name(entry):
                return True, pictures
        elif kind == picture_kind and has_text:
            pictures.append(entry)
    return False, pictures


def _list_objects(page: PdfiumPage) -> _PageObjects:
    """List the texts and pictures of a page in the order in which they are drawn.

    Without those within forms, and text that is there for search only.
    """
    from pypdfium2 import raw

    objects = _PageObjects([], [])
    for kind, entry in page.objects:
        match kind:
            case raw.FPDF_PAGEOBJ_TEXT if raw.FPDFTextObj_GetTextRenderMode(entry) in DRAWN_MODES:
                objects.texts.append(_TextObject(entry, _bounds(entry), _layer_name(entry)))
            case raw.FPDF_PAGEOBJ_IMAGE if objects.texts:
                objects.pictures.append((_bounds(entry), len(objects.texts)))
            case _:
                pass
    return objects


def _bounds(entry: Any) -> Rect:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    sides = [ctypes.c_float() for _ in range(4)]
    raw.FPDFPageObj_GetBounds(entry, *map(ctypes.byref, sides))
    left, bottom, right, top = (side.value for side in sides)
    return left, bottom, right, top


def _layer_name(entry: Any) -> str:  # noqa: ANN401 - a handle of PDFium
    """Return the name of the layer (optional content) of an object; "" if it is part of none."""
    from pypdfium2 import raw

    count = raw.FPDFPageObj_CountMarks(entry)
    if not count or (count == 1 and raw.FPDFPageObj_GetMarkedContentID(entry) >= 0):
        return ""  # the mark of a tagged file
    for index in range(count):
        mark = raw.FPDFPageObj_GetMark(entry, index)
        if _read_text(raw.FPDFPageObjMark_GetName, mark) == "OC":
            key = b"Name"
            return "OC " + _read_text(raw.FPDFPageObjMark_GetParamStringValue, mark, key)
    return ""


def _read_text(function: Any, *arguments: Any) -> str:  # noqa: ANN401 - functions of PDFium
    """Call a function that writes UTF-16 into a buffer and returns or stores its length in bytes."""
    size = ctypes.c_ulong()
    buffer = (ctypes.c_ushort * 128)()
    if not function(*arguments, buffer, ctypes.sizeof(buffer), size):
        return ""
    return bytes(buffer)[: min(size.value, 256)].decode("utf-16-le", "replace").rstrip("\0")


def _text_of(entry: Any, layer: Any) -> str:  # noqa: ANN401 - handles of PDFium
    from pypdfium2 import raw

    size = raw.FPDFTextObj_GetText(entry, layer, None, 0)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    raw.FPDFTextObj_GetText(entry, layer, buffer, size)
    return bytes(buffer)[:size].decode("utf-16-le", "replace").rstrip("\0")
