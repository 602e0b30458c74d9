"""Words that annotations of a page show, at their places in its text: the values of forms, stamps.

The value of a field follows the words at its left, which are its label as a rule. What has no words beside it
is a line of its own, below the words above it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.corpus.formats.pdfium_annotations import AnnotationKind
from vrag.corpus.ocr import WORD
from vrag.corpus.pages.placed_text import PlacedText
from vrag.geometry import Box
from vrag.text.signs import CHECKED, NOT_CHECKED
from vrag.types import TurnedText, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from vrag.corpus.formats.pdfium import AnnotationPage, PdfiumPage
    from vrag.corpus.formats.pdfium_annotations import ShownAnnotation

MAX_GAP = 0.35
"""Largest space between a field and its label beside it, in widths of the page."""
EDGE = 0.002
"""Words may lie so far beyond the rectangle of their annotation, in sides of the page."""


class FieldWord(NamedTuple):
    """A word that an annotation shows."""

    glue: str
    """What stands between it and the word before it."""
    text: str
    box: Box
    angle: int = 0
    """Degrees clockwise by which its line is turned, as `TurnedText.angle`."""


@dataclass(slots=True)
class FieldText:
    """The words that one annotation shows."""

    bounds: Box
    kind: AnnotationKind = AnnotationKind.TEXT
    words: list[FieldWord] = field(default_factory=list[FieldWord])

    @property
    def first_line(self) -> Box:
        """The box of its first line."""
        last = next((at for at, word in enumerate(self.words) if at and "\n" in word.glue), None)
        return Box.around([word.box for word in self.words[:last]])


@dataclass(slots=True)
class _Gap:
    """Words to be inserted between two words of a page, or before the first or after the last."""

    after: list[FieldText] = field(default_factory=list[FieldText])
    """Behind the word before it, in its line."""
    lines: list[list[FieldText]] = field(default_factory=list[list[FieldText]])
    """Lines of their own."""
    before: list[FieldText] = field(default_factory=list[FieldText])
    """In front of the word after it, in its line."""


def read_with_annotations(page: PdfiumPage, read_layer: Callable[[PdfiumPage], PlacedText]) -> PlacedText:
    """Read the text layer of a page, and with it the words that annotations show on the page.

    Args:
        page: The page.
        read_layer: Reads a text layer.
    """
    layer = read_layer(page)
    with page.annotations() as shown:
        if shown is None:
            return layer
        fields = _field_texts(shown, _list_words(read_layer(shown.page)))
    return insert_fields(_list_words(layer), fields)


def _list_words(layer: PlacedText) -> list[FieldWord]:
    """Return the words of a text layer, each with what stands before it."""
    listed: list[FieldWord] = []
    remaining = deque(layer.turned)
    end = 0
    for word in layer.words:
        while remaining and remaining[0].end <= word.start:
            remaining.popleft()
        angle = remaining[0].angle if remaining and remaining[0].start <= word.start else 0
        listed.append(
            FieldWord(layer.text[end : word.start], layer.text[word.start : word.end], word.box, angle)
        )
        end = word.end
    return listed


def _field_texts(shown: AnnotationPage, words: Sequence[FieldWord]) -> list[FieldText]:
    """Return what each annotation shows, from the words of all of them."""
    frame = shown.page.frame
    fields = [FieldText(_clip(frame.to_unit(*each.bounds)), each.kind) for each in shown.annotations]
    _assign_words(fields, words)
    for entry, annotation in zip(fields, shown.annotations, strict=True):
        match annotation.kind:
            case AnnotationKind.BUTTON:
                entry.words = [FieldWord("", annotation.text, entry.bounds)]
            case AnnotationKind.NOTE:
                found = WORD.finditer(annotation.text)
                entry.words = [FieldWord(" ", match[0], entry.bounds) for match in found]
            case AnnotationKind.FILE:
                entry.words = []
            case AnnotationKind.LIST:
                entry.words = _mark_chosen(annotation, entry)
            case AnnotationKind.TEXT:
                entry.words = _spaced_as(annotation, entry.words)
    return [entry for entry in fields if entry.words and entry.bounds.area > 0]


def _clip(box: Box) -> Box:
    """Return the part of a rectangle that lies on the page; its area is 0 if there is none."""
    x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in box.as_tuple())
    return Box.unit(x1, y1, x2, y2)


def _assign_words(fields: Sequence[FieldText], words: Sequence[FieldWord]) -> None:
    """Give each word to the smallest annotation around it; words beyond all of them are cut off, not seen."""
    if not fields:
        return
    sides = np.array([entry.bounds.as_tuple() for entry in fields])
    areas = (sides[:, 2] - sides[:, 0]) * (sides[:, 3] - sides[:, 1])
    previous: int | None = None
    for word in words:
        x, y = word.box.center
        around = (sides[:, 0] - EDGE <= x) & (x <= sides[:, 2] + EDGE)
        around &= (sides[:, 1] - EDGE <= y) & (y <= sides[:, 3] + EDGE)
        owner = int(np.where(around, areas, np.inf).argmin()) if around.any() else None
        if owner is not None:
            glue = word.glue if owner == previous else "\n"
            fields[owner].words.append(word._replace(glue=glue))
        previous = owner


def _mark_chosen(annotation: ShownAnnotation, entry: FieldText) -> list[FieldWord]:
    """Put a mark of its state before each entry of a list; none where the lines are not its entries."""
    lines: list[list[FieldWord]] = []
    for word in entry.words:
        if lines and "\n" not in word.glue:
            lines[-1].append(word)
        else:
            lines.append([word])
    field = annotation.field
    names = ["".join(name.split()) for name in field.options] if field else []
    shown = ["".join("".join(word.text.split()) for word in line) for line in lines]
    first = next((at for at in range(len(names)) if shown and names[at : at + len(shown)] == shown), None)
    if field is None or first is None:
        return entry.words
    marked: list[FieldWord] = []
    for number, line in enumerate(lines, first):
        box = line[0].box
        left = Box.unit(min(entry.bounds.x1, box.x1), box.y1, box.x1, box.y2)
        mark = CHECKED if number in field.chosen else NOT_CHECKED
        marked += (FieldWord(line[0].glue, mark, left), line[0]._replace(glue=" "), *line[1:])
    return marked


def _spaced_as(annotation: ShownAnnotation, words: list[FieldWord]) -> list[FieldWord]:
    """Join words of a field whose value has no space between them: its letters stand in a cell each."""
    parts = annotation.text.split()
    if len(parts) == len(words) or "".join(parts) != "".join(word.text for word in words):
        return words
    joined: list[FieldWord] = []
    remaining = iter(words)
    for part in parts:
        boxes: list[Box] = []
        length = 0
        while length < len(part):
            word = next(remaining)
            boxes.append(word.box)
            length += len(word.text)
        if length > len(part):
            return words
        joined.append(FieldWord(" ", part, Box.around(boxes)))
    return joined


def insert_fields(words: Sequence[FieldWord], fields: Sequence[FieldText]) -> PlacedText:
    """Insert what annotations show between the words of a page, and return the text of both."""
    gaps = _place(words, fields)
    writer = _TextWriter()
    for at, word in enumerate(words):
        writer.write(word._replace(glue=writer.write_gap(gaps.get(at), word.glue)))
    writer.write_gap(gaps.get(len(words)), "")
    return PlacedText("".join(writer.parts), tuple(writer.words), tuple(writer.turned))


class _TextWriter:
    """A text that is put together word by word."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.words: list[Word] = []
        self.turned: list[TurnedText] = []
        self._length = 0

    def write(self, word: FieldWord) -> None:
        """Add a word behind what stands between it and the one before."""
        glue = word.glue if self.parts else ""
        self.parts += (glue, word.text)
        start = self._length + len(glue)
        end = self._length = start + len(word.text)
        self.words.append(Word(start, end, word.box))
        if word.angle:
            if self.turned and (self.turned[-1].end, self.turned[-1].angle) == (
                start - len(glue),
                word.angle,
            ):
                start = self.turned.pop().start
            self.turned.append(TurnedText(start, end, word.angle))

    def write_gap(self, gap: _Gap | None, glue: str) -> str:
        """Add what is inserted between two words, and return what stands before the second one then."""
        if gap is None:
            return glue
        for entry in gap.after:
            self._write_field(" ", entry)
        for number, entry in ((number, entry) for line in gap.lines for number, entry in enumerate(line)):
            self._write_field(" " if number else "\n", entry)
        if gap.lines and "\n" not in glue:
            glue = "\n"
        glue = glue or " "
        for entry in gap.before:
            self._write_field(glue, entry)
            glue = " "
        return glue

    def _write_field(self, separator: str, entry: FieldText) -> None:
        for number, word in enumerate(entry.words):
            self.write(word if number else word._replace(glue=separator))


def _place(words: Sequence[FieldWord], fields: Sequence[FieldText]) -> dict[int, _Gap]:
    """Return what is inserted before each word, by its number; what follows the last word has their count."""
    gaps: dict[int, _Gap] = defaultdict(_Gap)
    boxes = np.array([word.box.as_tuple() for word in words]).reshape(-1, 4)
    is_filler = [not any(map(str.isalnum, word.text)) for word in words]
    boxes[is_filler] = np.nan  # dots and lines to write on are no labels, and a value may lie over them
    for row in _rows(fields):
        alone: list[FieldText] = []
        left, end = None, 0.0
        for entry in row:
            left, right = _beside(boxes, entry, left, end)
            end = entry.bounds.x2
            if left is not None:
                gaps[left + 1].after.append(entry)
            elif right is not None:
                gaps[right].before.append(entry)
            else:
                alone.append(entry)
        notes = [[entry] for entry in alone if entry.kind is AnnotationKind.NOTE]
        others = [entry for entry in alone if entry.kind is not AnnotationKind.NOTE]
        for line in filter(None, (others, *notes)):
            gaps[_below(words, boxes, Box.around([entry.first_line for entry in line]))].lines.append(line)
    return gaps


def _rows(fields: Sequence[FieldText]) -> list[list[FieldText]]:
    """Return annotations row by row from above, each from left to right."""
    rows: list[list[FieldText]] = []
    for entry in sorted(fields, key=lambda each: each.first_line.center[1]):
        line = entry.first_line
        if rows and rows[-1][0].first_line.y1 < line.center[1] < rows[-1][0].first_line.y2:
            rows[-1].append(entry)
        else:
            rows.append([entry])
    return [sorted(row, key=lambda each: each.first_line.x1) for row in rows]


def _beside(
    boxes: NDArray[np.float64], entry: FieldText, before: int | None, end: float
) -> tuple[int | None, int | None]:
    """Return the number of the word at the left of an annotation or of that at its right, or none.

    Notes, and what lies over words of the page, are beside nothing.

    Args:
        boxes: Boxes of the words, (words, 4).
        entry: The annotation.
        before: The word at the left of the annotation before it in its row; None if that has none.
        end: Right side of the annotation before it: a row of fields may have one label.
    """
    if not len(boxes) or entry.kind is AnnotationKind.NOTE:
        return None, None
    x1, y1, x2, y2 = entry.first_line.as_tuple()
    if any("\n" in word.glue for word in entry.words[1:]):  # its label stands anywhere at its top
        y1, y2 = min(y1, entry.bounds.y1), y2 + (y2 - y1) / 2
    middle = (boxes[:, 1] + boxes[:, 3]) / 2
    same_line = ((y1 < middle) & (middle < y2)) | (
        (boxes[:, 1] < (y1 + y2) / 2) & ((y1 + y2) / 2 < boxes[:, 3])
    )
    overlap = np.minimum(boxes[:, 2], x2) - np.maximum(boxes[:, 0], x1)
    if (same_line & (overlap > 0.3 * np.minimum(boxes[:, 2] - boxes[:, 0], x2 - x1))).any():
        return None, None
    centre, middles = (x1 + x2) / 2, (boxes[:, 0] + boxes[:, 2]) / 2
    left_gaps = np.where(same_line & (middles < centre), entry.bounds.x1 - boxes[:, 2], np.inf)
    right_gaps = np.where(same_line & (middles > centre), boxes[:, 0] - entry.bounds.x2, np.inf)
    left, right = int(left_gaps.argmin()), int(right_gaps.argmin())
    gap = min(left_gaps[left], entry.bounds.x1 - end) if left == before else left_gaps[left]
    is_right = right_gaps[right] < gap if entry.kind is AnnotationKind.BUTTON else False
    if gap <= MAX_GAP and not is_right:
        return left, None
    return None, right if right_gaps[right] <= MAX_GAP else None


def _below(words: Sequence[FieldWord], boxes: NDArray[np.float64], place: Box) -> int:
    """Return the number of the word before which a line at a place goes: after the line above or beside."""
    if not len(boxes):
        return 0
    is_above = boxes[:, 1] < place.center[1]
    across = (boxes[:, 0] < place.x2) & (place.x1 < boxes[:, 2])
    chosen = is_above & across if (is_above & across).any() else is_above
    if not chosen.any():
        return 0
    at = int(np.where(chosen, boxes[:, 3] + 1e-6 * boxes[:, 2], -np.inf).argmax()) + 1
    while at < len(words) and "\n" not in words[at].glue:
        at += 1
    return at
