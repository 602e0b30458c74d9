"""The text of a page by its picture: hidden words are taken out, and OCR reads what no word explains."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.corpus.ocr import has_lines
from vrag.corpus.pages.coverage import WHOLE, find_unexplained, has_unexplained, is_plain
from vrag.corpus.pages.ink import InkMap, find_struck_words, to_bounds
from vrag.corpus.pages.orientation import read_directions
from vrag.corpus.pages.placed_text import PlacedText, find_slanted, unit_boxes
from vrag.corpus.pages.segments import (
    insert_rows,
    join_columns,
    join_rows,
    merge_rows,
    remove_words,
    split_lines,
    split_reading,
    without_words,
)
from vrag.corpus.pages.text_columns import order_rows
from vrag.corpus.pages.trust import contradicts, correct_figures, correct_fonts
from vrag.types import ItemFacts, TextSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.corpus.pages.coverage import PictureRegion
    from vrag.corpus.pages.ink import Pixels
    from vrag.corpus.pages.segments import Rows, TextSegment
    from vrag.corpus.pages.trust import PageFonts
    from vrag.types import OcrMode, Word

NOT_READ = "A picture on the page is not read: OCR is off. A collection built with --ocr auto reads it."
NO_LETTERS = (
    "The text of the page is stored with wrong letters, and OCR reads nothing in its picture. "
    "Open it in a program that shows it right, and print it to PDF."
)
MIN_OVERLAP = 0.5
"""Part of a word of OCR within a word of the layer from which it is the same one."""
MIN_LETTERS = 3
"""Letters and digits that OCR must find in a part of a page: fewer are marks, bullets and icons."""
FEW_LETTERS = 60
"""Letters and digits of a layer below which it is a page number, a stamp or a line of a cover."""
MIN_STRUCK_LETTERS = 2
"""Letters and digits of a word that is struck out: a dash and a dot are rules themselves."""
MARGIN = 0.012
"""Margin around a part of a page that OCR reads, as a fraction of the page."""


class PageReading(NamedTuple):
    """The text of a page, by its text layer and its picture."""

    text: str
    words: tuple[Word, ...]
    text_source: TextSource
    facts: ItemFacts


def read_page(
    pixels: Pixels,
    layer: PlacedText,
    facts: ItemFacts,
    mode: OcrMode,
    *,
    is_drawn: Callable[[str], bool] = lambda _word: True,
    struck: NDArray[np.bool_] | None = None,
    fonts: PageFonts | None = None,
    is_certain: bool = False,
) -> PageReading:
    """Read a page.

    Args:
        pixels: Its picture: rows of RGB, RGBX or grey.
        layer: The text of its file.
        facts: What else is known of it.
        mode: What OCR reads.
        is_drawn: Returns False for words that the picture may lack although the file shows them.
        struck: Words of the layer that are struck out. They count as hidden, and their ink as read.
        fonts: Lookups of its fonts.
        is_certain: True if the letters of the layer are those of a document that was printed to make it.
            The picture may lack them, where no font has them.
    """
    struck = np.zeros(len(layer.words), np.bool_) if struck is None else struck
    struck_boxes = layer.boxes[struck]
    facts = _add_hidden(facts, _join_words(layer, struck))
    layer = remove_words(layer, ~struck)
    if mode == "always":
        found = _keep_new(_read_regions(pixels, [WHOLE]), struck_boxes, PlacedText())
        found, crossed = _leave_out_struck(pixels, found)
        facts = _add_hidden(facts, crossed)
        if found:
            return _to_reading(join_rows(_join_all(found, [])), TextSource.OCR, facts)
    ink = InkMap(pixels)
    layer, hidden = _take_hidden(ink, layer, is_drawn)
    facts = _add_hidden(facts, hidden)
    unread = facts.unread
    if mode == "auto" and not is_certain:
        trusted = _trust(pixels, layer, fonts)
        unread += (NO_LETTERS,) if layer.words and not trusted.words else ()
        layer = trusted
    is_slanted = find_slanted(layer, ink.size)
    level = remove_words(layer, ~is_slanted)
    boxes = np.concatenate((level.boxes, struck_boxes))
    regions = _find_regions(ink, level.text, boxes, mode)
    if not regions or mode == "always":
        return _to_reading(layer, TextSource.LAYER, replace(facts, unread=unread))
    if mode == "never":
        return _to_reading(layer, TextSource.LAYER, replace(facts, unread=(*facts.unread, NOT_READ)))
    lines, slanted = split_lines(level), remove_words(layer, is_slanted)
    regions = [region for region in regions if not layer.words or _may_have_text(ink, region)]
    parts = (_without_stamp(part, slanted.text) for part in _read_regions(pixels, regions))
    found, crossed = _leave_out_struck(pixels, _keep_new(list(parts), boxes, level))
    facts = _add_hidden(facts, crossed)
    if not found:
        return _to_reading(layer, TextSource.LAYER, replace(facts, unread=unread))
    read, said = (_count_letters(row) for row in ([row for part in found for row in part], [lines]))
    rows = _join_all(found, lines) if read > said else _insert_all(found, lines)
    page = join_rows([*rows, *([line] for line in split_lines(slanted))])
    return _to_reading(page, TextSource.OCR if read > said else TextSource.LAYER, facts)


def read_picture(image: Image, mode: OcrMode = "auto") -> PageReading:
    """Read the text in an image of any mode that has no text layer."""
    return read_page(np.asarray(image.convert("RGB")), PlacedText(), ItemFacts(), mode)


def _trust(pixels: Pixels, layer: PlacedText, fonts: PageFonts | None) -> PlacedText:
    """Return a layer if the picture agrees with it; words of single fonts are read from the picture."""
    if contradicts(pixels, layer):
        return PlacedText()
    if not fonts:
        return layer
    return correct_figures(pixels, correct_fonts(pixels, layer, fonts), fonts)


def _take_hidden(ink: InkMap, layer: PlacedText, is_drawn: Callable[[str], bool]) -> tuple[PlacedText, str]:
    """Return the text without the words that nobody sees, and these."""
    seen = ink.find_seen(layer)
    texts = {int(index): layer.text[slice(*_span(layer.words[index]))] for index in np.flatnonzero(~seen)}
    for index, text in texts.items():
        seen[index] = not is_drawn(text)
    return remove_words(layer, seen), _join_words(layer, ~seen)


def _join_words(layer: PlacedText, is_wanted: NDArray[np.bool_]) -> str:
    return " ".join(layer.text[slice(*_span(layer.words[index]))] for index in np.flatnonzero(is_wanted))


def _add_hidden(facts: ItemFacts, text: str) -> ItemFacts:
    if not text:
        return facts
    return replace(facts, hidden_text="\n".join(filter(None, (facts.hidden_text, text))))


def _span(word: Word) -> tuple[int, int]:
    return word.start, word.end


def _find_regions(ink: InkMap, text: str, boxes: NDArray[np.float64], mode: OcrMode) -> list[PictureRegion]:
    """Return the parts of a page that OCR is to read: a page with hardly a word, such as a cover, as a whole.

    The letters of a cover are large and coloured, and stand on photographs. `boxes` are those of known words,
    also of some that are not in the text.
    """
    is_short = sum(map(str.isalnum, text)) < FEW_LETTERS
    if mode != "never" and (not len(boxes) or (is_short and has_unexplained(ink, boxes))):
        return [WHOLE]
    return find_unexplained(ink, boxes)


def _may_have_text(ink: InkMap, region: PictureRegion) -> bool:
    """Return whether OCR is to read a part of a page: of photographs, those with lines in a small copy."""
    if is_plain(ink, region):
        return True
    left, top, right, bottom = to_bounds(np.array([region]), ink.size)[0]
    return has_lines(ink.grey[top:bottom, left:right])


def _read_regions(pixels: Pixels, regions: Sequence[PictureRegion]) -> list[Rows]:
    """Read parts of a page by OCR; each gives its rows of lines, in each direction apart."""
    height, width = pixels.shape[:2]
    found: list[Rows] = []
    for region in regions:
        left, top = int(max(0.0, region.left - MARGIN) * width), int(max(0.0, region.top - MARGIN) * height)
        right = int(min(1.0, region.right + MARGIN) * width + 1)
        bottom = int(min(1.0, region.bottom + MARGIN) * height + 1)
        for reading in read_directions(pixels[top:bottom, left:right], (left, top)):
            segments = split_reading(reading, (width, height))
            rows = [[segment] for segment in segments] if reading.angle else order_rows(merge_rows(segments))
            if rows:
                found.append(rows)
    return found


def _leave_out_struck(pixels: Pixels, parts: Sequence[Rows]) -> tuple[list[Rows], str]:
    """Return what OCR read in parts of a page without words that a rule strikes out, and these."""
    kept: list[Rows] = []
    struck: list[str] = []
    for part in parts:
        rows: Rows = []
        for row in part:
            lines = [_split_struck(pixels, line) for line in row]
            struck += [text for _, text in lines if text]
            rows.append([line for line, _ in lines if line])
        kept.append(list(filter(None, rows)))
    return list(filter(None, kept)), " ".join(struck)


def _split_struck(pixels: Pixels, line: TextSegment) -> tuple[TextSegment | None, str]:
    """Return a line without the words that a rule strikes out, and these; signs alone are none."""
    if line.angle:
        return line, ""
    struck = find_struck_words(pixels, unit_boxes(line.words))
    texts = [
        line.text[word.start : word.end] for word, is_out in zip(line.words, struck, strict=True) if is_out
    ]
    if not any(sum(map(str.isalnum, text)) >= MIN_STRUCK_LETTERS for text in texts):
        return line, ""
    return without_words(line, ~struck), " ".join(texts)


def _without_stamp(part: Rows, stamp: str) -> Rows:
    """Return the lines of OCR but those that are pieces of a slanted text of the layer."""
    if not stamp:
        return part
    rows = [[line for line in row if not all(word in stamp for word in line.text.split())] for row in part]
    return list(filter(None, rows))


def _keep_new(parts: Sequence[Rows], boxes: NDArray[np.float64], layer: PlacedText) -> list[Rows]:
    """Return what OCR read in parts of a page without the words that stand in given boxes.

    Nor is anything added that the words of a layer say in the same place.
    """
    return [kept for part in parts if (kept := _new_lines(part, boxes, layer))]


def _new_lines(part: Rows, boxes: NDArray[np.float64], layer: PlacedText) -> Rows:
    """Return the lines of OCR without words of the layer; none if too little is left."""
    if len(boxes):
        part = [[kept for line in row if (kept := _new_words(line, boxes, layer))] for row in part]
        part = [row for row in part if row]
    return part if not len(boxes) or _count_letters(part) >= MIN_LETTERS else []


def _new_words(line: TextSegment, boxes: NDArray[np.float64], layer: PlacedText) -> TextSegment | None:
    """Return a line of OCR without words of the layer; None if nothing is left."""
    is_new = _is_new(line, boxes)
    kept = without_words(line, is_new)
    # Words of the layer may stand between others.
    is_one_run = np.count_nonzero(np.diff(is_new, prepend=False, append=False)) == 2
    return None if kept is None or (is_one_run and _says(layer, kept)) else kept


def _says(layer: PlacedText, line: TextSegment) -> bool:
    """Return whether the words of a layer in the place of a line of OCR have its letters in their order.

    Letters of a word that are set far apart do not cover the place of the word.
    """
    left, top, right, bottom = line.bounds
    margin = min(right - left, bottom - top) / 2
    middles = (layer.boxes[:, :2] + layer.boxes[:, 2:]) / 2
    low, high = (left - margin, top - margin), (right + margin, bottom + margin)
    is_there: NDArray[np.bool_] = np.all((middles >= low) & (middles <= high), axis=1)
    said = _join_words(layer, is_there)
    return bool(said) and _letters(line.text) in _letters(said)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _is_new(line: TextSegment, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each word of a line whether no word of the layer stands in its place.

    The boxes of OCR are a little off, and end elsewhere: those of the layer count with half a line around.
    """
    margins = np.minimum(boxes[:, 3] - boxes[:, 1], boxes[:, 2] - boxes[:, 0])[:, np.newaxis] / 2
    own = unit_boxes(line.words)[:, np.newaxis]
    left_top = np.maximum(own[..., :2], boxes[:, :2] - margins)
    shared = np.clip(np.minimum(own[..., 2:], boxes[:, 2:] + margins) - left_top, 0, None).prod(axis=2)
    area = np.maximum(1e-12, (own[:, 0, 2:] - own[:, 0, :2]).prod(axis=1))
    return shared.sum(axis=1) < MIN_OVERLAP * area


def _count_letters(rows: Sequence[Sequence[TextSegment]]) -> int:
    return sum(sum(map(str.isalnum, line.text)) for row in rows for line in row)


def _join_all(found: Sequence[Rows], lines: Sequence[TextSegment]) -> Rows:
    """Join what OCR read and the lines of a layer by where they stand."""
    if not lines:
        return [row for part in found for row in part]
    upright = [line for part in found for row in part for line in row if not line.angle]
    turned = [[line] for part in found for row in part for line in row if line.angle]
    return [*order_rows(merge_rows([*upright, *lines])), *turned]


def _insert_all(found: Sequence[Rows], lines: Sequence[TextSegment]) -> Rows:
    """Put what OCR read among the lines of a layer, whose order stays."""
    placed: list[list[Rows]] = [[] for _ in range(len(lines) + 1)]
    for part in join_columns(found, lines):
        placed[insert_rows(lines, part)].append(part)
    rows: Rows = []
    for index, parts in enumerate(placed):
        rows += [row for part in parts for row in part]
        if index < len(lines):
            rows.append([lines[index]])
    return rows


def _to_reading(page: PlacedText, origin: TextSource, facts: ItemFacts) -> PageReading:
    source = origin if page.text else TextSource.NONE
    return PageReading(page.text, page.words, source, replace(facts, turned=page.turned))
