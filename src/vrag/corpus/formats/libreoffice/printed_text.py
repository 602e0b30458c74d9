"""Text of the printed pages of an office document, with what printing took from it.

A PDF file does not say whether a hyphen at the end of a line is part of the word ("one-" and "concept").
Check boxes of old forms are drawings in it. A text box keeps its height where its font is replaced by a wider
one, and its last lines are not printed: its text is a passage of its own. The document itself has them all.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import replace
from itertools import accumulate, groupby, islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vrag.corpus.formats.libreoffice.equations import fold_letters
from vrag.corpus.formats.libreoffice.xml_parts import (
    NOT_SHOWN,
    PARAGRAPHS,
    attribute,
    find_all,
    shown_text,
    xml_name,
)
from vrag.corpus.formats.pdf_text.pdf_visibility import read_uncut_text
from vrag.corpus.formats.texts.outline import Section
from vrag.item_facts import move_places
from vrag.text.folding import fold_case
from vrag.text.signs import CHECKED, NOT_CHECKED

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

    from vrag.types import Item

HYPHENS = "-\u2010\u2011"
MAX_COMPOUNDS = 50_000
MAX_COMPOUND_CHARS = 80
MAX_CHECKS = 2000
"""Check boxes of a document whose state is written."""
AROUND, MIN_AROUND = 40, 6
"""Letters and figures on each side of a check box by which it is found, and the fewest on both sides."""
FIELD_MARK, ROW = xml_name("field:fieldmark"), xml_name("table:table-row")
BOX_HEADING = "Text box"
MAX_BOXES = 2000
MAX_LINES = 200
"""Paragraphs of a box that are compared."""
MAX_PAGES = 1000
"""Pages of which the printed text is compared; with more, no text box or formula is taken to be cut."""
BOX_NAMES = ("draw:text-box", "draw:custom-shape")
_WORD = re.compile(rf"\w+(?:[{HYPHENS}]\w+)*")


def find_compounds(root: Element) -> dict[str, int]:
    """Return the compounds of a document without one of their hyphens, with its place: "oneconcept", 3.

    Those that the document also has as words without the hyphen are left out.
    """
    text = shown_text(root)
    found: dict[str, int] = {}
    words = {match[0] for match in _WORD.finditer(text)}
    compounds = sorted(word for word in words if any(hyphen in word for hyphen in HYPHENS))
    for compound in islice(compounds, MAX_COMPOUNDS):
        for place, letter in enumerate(compound[:MAX_COMPOUND_CHARS]):
            if letter in HYPHENS and len(compound) <= MAX_COMPOUND_CHARS:
                found[compound[:place] + compound[place + 1 :]] = place
    return {joined: place for joined, place in found.items() if joined not in words}


def restore_hyphens(item: Item, compounds: Mapping[str, int]) -> Item:
    """Put the hyphens of compounds back that were taken for those of a divided word."""
    joints = {word.start for before, word in pairwise(item.words) if before.end == word.start}
    places = [
        place
        for match in _WORD.finditer(item.text)
        if match[0] in compounds and (place := match.start() + compounds[match[0]]) in joints
    ]
    return _insert(item, [(place, "-") for place in places]) if places else item


def _insert(item: Item, insertions: Sequence[tuple[int, str]]) -> Item:
    """Insert texts before places of a text, in ascending order, and move what stands behind them."""
    places = [place for place, _ in insertions]
    shifts = [0, *accumulate(len(inserted) for _, inserted in insertions)]

    def start(at: int) -> int:
        return at + shifts[bisect_right(places, at)]

    def end(at: int) -> int:
        return at + shifts[bisect_left(places, at)]

    parts = [item.text[: places[0]]]
    for (place, inserted), following in zip(insertions, [*places[1:], len(item.text)], strict=True):
        parts += (inserted, item.text[place:following])
    words = (replace(word, start=start(word.start), end=end(word.end)) for word in item.words)
    facts = move_places(item.facts, start, end)
    return replace(item, text="".join(parts), words=tuple(words), facts=facts)


class CheckBox(NamedTuple):
    """A check box among the text of a document, which its pages show as a drawing.

    Several without letters between them are one.
    """

    before: str
    """Letters and figures that stand before it."""
    behind: str
    """Those that stand behind it."""
    at_end: str
    """Marks for the state of those that belong to the line before them."""
    ahead: str
    """Marks for those that stand ahead of what follows."""


class _TextAround:
    """The letters of a document, and its check boxes among them."""

    def __init__(self, hidden: Container[Element]) -> None:
        self._hidden = hidden
        self._parts: list[str] = []
        self._length = self._line_start = 0
        self._boxes: list[tuple[int, bool, bool]] = []
        """Place of each, whether it is checked, and whether letters stand before it in its line."""
        self._ends: list[int] = []
        """Places where the paragraph of each ends."""
        self._in_row = 0
        """Rows of tables that are being read."""

    def read(self, element: Element) -> None:
        """Read an element and what is in it."""
        if element in self._hidden or element.tag in NOT_SHOWN:
            return
        is_line = element.tag in PARAGRAPHS or element.tag == ROW
        if is_line and not self._in_row:
            self._line_start = self._length
        self._in_row += element.tag == ROW
        if element.tag == FIELD_MARK:
            self._add_box(element)
        else:
            self._add(element.text)
            for child in element:
                self.read(child)
                self._add(child.tail)
        self._in_row -= element.tag == ROW
        if element.tag in PARAGRAPHS:
            self._ends += [self._length] * (len(self._boxes) - len(self._ends))

    def _add(self, text: str | None) -> None:
        letters = "".join(letter for letter, _ in fold_letters(text or ""))
        self._parts.append(letters)
        self._length += len(letters)

    def _add_box(self, mark: Element) -> None:
        if attribute(mark, "field:type").endswith("FORMCHECKBOX") and len(self._boxes) < MAX_CHECKS:
            values = {attribute(each, "field:name"): attribute(each, "field:value") for each in mark}
            has_letters = self._length > self._line_start
            self._boxes.append((self._length, values.get("Checkbox_Checked") == "true", has_letters))

    def list_boxes(self) -> Iterator[CheckBox]:
        """Yield the check boxes with the letters around them."""
        letters = "".join(self._parts)
        boxes = zip(self._boxes, self._ends, strict=False)
        for at, group in groupby(boxes, key=lambda each: each[0][0]):
            marks: dict[bool, list[str]] = {True: [], False: []}
            for (_, is_checked, has_letters), end in group:
                marks[has_letters and at == end].append(CHECKED if is_checked else NOT_CHECKED)
            before, behind = letters[max(0, at - AROUND) : at], letters[at : at + AROUND]
            yield CheckBox(before, behind, " ".join(marks[True]), " ".join(marks[False]))


def find_checks(root: Element, hidden: Container[Element] = ()) -> tuple[CheckBox, ...]:
    """Return the check boxes of old forms in a text document, but for those in hidden parts."""
    if next(find_all(root, "field:fieldmark"), None) is None:
        return ()
    around = _TextAround(hidden)
    around.read(root)
    return tuple(around.list_boxes())


def write_checks(item: Item, checks: Sequence[CheckBox]) -> Item:
    """Write the state of the check boxes of a page where they stand in its text."""
    folded = list(fold_letters(item.text)) if checks else []
    letters, places = "".join(letter for letter, _ in folded), [place for _, place in folded]
    counts = Counter(context for check in checks for context in set(_list_contexts(check)))
    found: list[tuple[int, str]] = []
    for check in checks:
        at = _find_check(letters, check, counts)
        if at is not None:
            found += _place_check(item.text, places, at, check)
    return _insert(item, sorted(found, key=itemgetter(0))) if found else item


def _list_contexts(check: CheckBox) -> list[tuple[str, str]]:
    """Return letters before and behind a check box: many, fewer, and at the end or begin of a page."""
    half = AROUND // 2
    return [
        (check.before, check.behind),
        (check.before[-half:], check.behind[:half]),
        ("", check.behind),
        (check.before, ""),
    ]


def _find_check(letters: str, check: CheckBox, counts: Counter[tuple[str, str]]) -> int | None:
    """Return the letter before which a check box stands, if it is sure: no other has these letters around."""
    for before, behind in _list_contexts(check):
        around = before + behind
        is_all = (before, behind) == (check.before, check.behind)
        is_enough = len(around) >= (MIN_AROUND if is_all or (before and behind) else AROUND // 2)
        if not is_enough or counts[before, behind] > 1:
            continue
        at = letters.find(around)
        if at >= 0:
            return at + len(before) if letters.find(around, at + 1) < 0 else None
    return None


def _place_check(text: str, places: list[int], at: int, check: CheckBox) -> Iterator[tuple[int, str]]:
    """Yield where the marks before a letter are written, and the text for them."""
    end = places[at - 1] + 1 if at else 0
    start = places[at] if at < len(places) else len(text)
    while start > end and not text[start - 1].isspace():
        start -= 1
    while end < start and not text[end].isspace():
        end += 1
    if check.at_end:
        yield end, f" {check.at_end}"
    if check.ahead:
        yield start, f"{check.ahead} "


def read_boxes(root: Element) -> tuple[str, ...]:
    """Return the different texts of the boxes and shapes of a text document, in order."""
    texts = (shown_text(box) for name in BOX_NAMES for box in islice(find_all(root, name), MAX_BOXES))
    return tuple(dict.fromkeys(filter(None, texts)))


def find_cut_boxes(texts: Sequence[str], printed: str | None) -> tuple[Section, ...]:
    """Return the texts of boxes of which a paragraph is not in the printed document, as sections.

    Args:
        texts: Those of the boxes.
        printed: See `read_printed_letters`.
    """
    if printed is None:
        return ()
    return tuple(
        Section((BOX_HEADING,), text)
        for text in texts
        if not all(_fold_text(line) in printed for line in text.split("\n")[:MAX_LINES])
    )


def read_printed_letters(pdf: BinaryIO) -> str | None:
    """Return the letters and digits that a PDF file shows; None if it has too many pages."""
    from pypdfium2 import PdfDocument

    letters: list[str] = []
    with cast("Any", PdfDocument(pdf)) as document:
        if len(document) > MAX_PAGES:
            return None
        for page in document:
            text = page.get_textpage()
            letters.append(_fold_text(read_uncut_text(page, text)))
            text.close()
            page.close()
    return "".join(letters)


def _fold_text(text: str) -> str:
    """Return the letters and digits of a text, whatever their form and case."""
    return "".join(re.findall(r"[^\W_]+", fold_case(text)))
