"""The text of a page by its layer and its picture, with what OCR reads given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from vrag.corpus.ocr import OcrLine
from vrag.corpus.pages import page_pass
from vrag.corpus.pages.orientation import PictureReading
from vrag.corpus.pages.page_pass import PageReading, read_page
from vrag.corpus.pages.placed_text import PlacedText, find_slanted
from vrag.geometry import Box
from vrag.types import ItemFacts, TextSource, TurnedText, Word

if TYPE_CHECKING:
    from vrag.types import OcrMode

WIDTH, HEIGHT = 1000, 1000
Line = tuple[str, int, int]
"""A line, and its left and top in pixels."""


class Page:
    """A page with lines of a layer and lines of pictures, all drawn."""

    def __init__(self, layer: list[Line], pictures: list[Line]) -> None:
        self.image = Image.new("RGB", (WIDTH, HEIGHT), "white")
        self._draw = ImageDraw.Draw(self.image)
        parts: list[str] = []
        words: list[Word] = []
        for text, left, top in layer:
            begin = sum(map(len, parts)) + len(parts)
            words += [
                Word(begin + start, begin + end, Box.unit(*(side / WIDTH for side in bounds)))
                for start, end, bounds in self._write(text, left, top)
            ]
            parts.append(text)
        self.layer = PlacedText("\n".join(parts), tuple(words))
        self.lines: list[OcrLine] = []
        """What OCR reads, of all that is drawn."""
        for text, left, top in pictures:
            self._write(text, left, top)
        for text, left, top in [*layer, *pictures]:
            bounds = self._draw.textbbox((left, top), text, self._font)
            glyphs = tuple(
                self._draw.textbbox(
                    (self._draw.textlength(text[:index], self._font) + left, top), glyph, self._font
                )
                for index, glyph in enumerate(text)
                if glyph != " "
            )
            self.lines.append(OcrLine(text, bounds, glyphs, 0.99))

    _font = ImageFont.load_default(20)

    def _write(self, text: str, left: float, top: float) -> list[tuple[int, int, tuple[float, ...]]]:
        found: list[tuple[int, int, tuple[float, ...]]] = []
        position = 0
        for word in text.split(" "):
            x = left + self._draw.textlength(text[:position], self._font)
            self._draw.text((x, top), word, "black", self._font)
            found.append((position, position + len(word), self._draw.textbbox((x, top), word, self._font)))
            position += len(word) + 1
        return found

    def draw_line(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw a line between two places in fractions of the page."""
        self._draw.line([(x * WIDTH, y * HEIGHT) for x, y in (start, end)], "grey", 3)

    def read(self, monkeypatch: pytest.MonkeyPatch, mode: OcrMode = "auto") -> PageReading:
        def read_part(pixels: np.ndarray, origin: tuple[int, int]) -> list[PictureReading]:
            left, top = origin
            bottom, right = top + pixels.shape[0], left + pixels.shape[1]
            inside = [
                line
                for line in self.lines
                if left <= line.bounds[0] and line.bounds[2] <= right and top <= line.bounds[1] <= bottom
            ]
            # Bounds of the page, as if the part began at its corner.
            return [PictureReading(tuple(inside), 0, (0, 0), (WIDTH, HEIGHT))]

        monkeypatch.setattr(page_pass, "read_directions", read_part)
        return read_page(np.asarray(self.image), self.layer, ItemFacts(label="iv"), mode)


TYPED = [("Survey of the northern channel", 50, 50), ("All depths refer to chart datum", 50, 100)]
AFTER = ("Signed by the surveyor of Tamm", 50, 700)
TABLE = [("Buoy Depth Light", 80, 300), ("Birch 17.9 m red", 80, 340)]


def test_a_picture_is_read_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Page([*TYPED, AFTER], TABLE).read(monkeypatch)
    assert reading.text.split("\n") == [text for text, *_ in [*TYPED, *TABLE, AFTER]]
    assert reading.text_source is TextSource.LAYER
    assert reading.facts == ItemFacts(label="iv")
    for word in reading.words:
        assert " " not in reading.text[word.start : word.end]
    birch = next(word for word in reading.words if reading.text[word.start : word.end] == "Birch")
    assert (round(birch.box.x1, 2), round(birch.box.y1, 1)) == (0.08, 0.3)


def test_a_scan_with_a_typed_header_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = [
        (f"Line {number} of the scanned letter of the harbour", 50, 200 + 40 * number) for number in range(12)
    ]
    reading = Page([("ORLA-TAMM-00004711 CONFIDENTIAL", 400, 20)], scan).read(monkeypatch)
    assert reading.text.split("\n") == ["ORLA-TAMM-00004711 CONFIDENTIAL", *(text for text, *_ in scan)]
    assert reading.text_source is TextSource.OCR


def test_a_cover_with_a_typed_number_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its letters stand on a photograph, where no part of the page looks like text."""
    page = Page([("1", 900, 940)], [])
    photograph = np.random.default_rng(0).integers(0, 255, (300, 600, 3), np.uint8)
    page.image.paste(Image.fromarray(photograph), (100, 100))
    page.lines = [OcrLine("Pilot guide", (300, 200, 500, 260), (), 0.99), *page.lines]
    assert page.read(monkeypatch).text == "Pilot guide\n1"
    assert page.read(monkeypatch, "never").facts == ItemFacts(label="iv")


def test_a_wrong_layer_without_letters_in_its_picture_is_told(monkeypatch: pytest.MonkeyPatch) -> None:

    def contradict(*_: object) -> bool:
        return True

    monkeypatch.setattr(page_pass, "contradicts", contradict)
    page = Page([*TYPED, AFTER], [])
    page.lines = []
    reading = page.read(monkeypatch)
    assert not reading.text
    assert reading.facts.unread == (page_pass.NO_LETTERS,)


def test_a_typed_value_stands_in_the_row_of_its_scanned_label(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = [(f"Label number {number} of the form:", 50, 200 + 60 * number) for number in range(12)]
    reading = Page([("Kestrel", 600, 320)], scan).read(monkeypatch)
    assert "Label number 2 of the form: Kestrel\n" in reading.text


def test_a_page_that_its_words_explain_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page([*TYPED, AFTER], [])
    page.lines = [OcrLine("never read", (0, 0, 1, 1), (), 1.0)]
    assert page.read(monkeypatch).text == page.layer.text


def test_words_of_the_layer_are_not_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """OCR sees them too where they stand beside a picture."""
    beside = [("Depth in metres", 80, 260), *TABLE]
    reading = Page([*TYPED, beside[0]], beside[1:]).read(monkeypatch)
    assert reading.text.count("Depth in metres") == 1


@pytest.mark.parametrize(("read", "is_added"), [("11.4", False), ("11.9", True)])
def test_letters_that_are_set_apart_are_not_read_twice(
    monkeypatch: pytest.MonkeyPatch, read: str, is_added: bool
) -> None:
    spaced = ("1 1 . 4 m", 90, 272)
    page = Page([*TYPED, spaced], TABLE)
    page.lines = [line for line in page.lines if line.bounds[1] > 295]
    # OCR sees the lower part of a line above a picture, and its boxes are low.
    lefts = [WIDTH * word.box.x1 for word in page.layer.words[-5:-1]]
    glyphs = tuple((left, 292, left + 12, 314) for left in lefts)
    page.lines.append(OcrLine(read, (lefts[0], 292, lefts[-1] + 12, 314), glyphs, 0.99))
    lines = page.read(monkeypatch).text.split("\n")
    assert (read in lines) == is_added
    assert [line for line in lines if line != read] == [text for text, *_ in [*TYPED, spaced, *TABLE]]


def test_without_ocr_a_picture_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(TYPED, TABLE)
    reading = page.read(monkeypatch, "never")
    assert reading.text == page.layer.text
    assert [sentence for sentence in reading.facts.unread if "not read: OCR is off" in sentence]
    assert not Page(TYPED, []).read(monkeypatch, "never").facts.unread


def test_always_reads_all_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(TYPED, [])
    page.lines = [OcrLine("read by OCR", (10, 10, 300, 40), (), 1.0)]
    reading = page.read(monkeypatch, "always")
    assert (reading.text, reading.text_source) == ("read by OCR", TextSource.OCR)


def test_always_keeps_the_layer_where_ocr_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(TYPED, [])
    page.lines = []
    assert page.read(monkeypatch, "always").text == page.layer.text


def test_hidden_words_leave_the_other_positions_right(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(TYPED, [])
    text, words = page.layer.text, page.layer.words
    hidden = [Word(len(text) + 1, len(text) + 7, Box.unit(0.1, 0.8, 0.3, 0.82))]
    turned = (TurnedText(len(TYPED[0][0]) + 1, len(text), 90),)
    page.layer = PlacedText(f"{text}\nsecret\nends", (*words, *hidden), turned)
    reading = page.read(monkeypatch, "never")
    assert reading.text == f"{text}\nends"
    assert reading.facts.hidden_text == "secret"
    assert reading.facts.turned == turned
    assert reading.words == words


def add_stamp(page: Page, text: str, box: tuple[float, float, float, float]) -> None:
    """Put a slanted line into the layer, before the others; a box for each word, drawn along its diagonal."""
    x1, y1, x2, y2 = box
    words: list[Word] = []
    start = 0
    count = len(text.split())
    step = ((x2 - x1) / count, (y2 - y1) / count)
    for number, word in enumerate(text.split()):
        left, bottom = x1 + number * step[0], y2 - number * step[1]
        words.append(Word(start, start + len(word), Box.unit(left, bottom - step[1], left + step[0], bottom)))
        page.draw_line((left, bottom), (left + step[0], bottom - step[1]))
        start += len(word) + 1
    moved = [Word(word.start + start, word.end + start, word.box) for word in page.layer.words]
    page.layer = PlacedText("\n".join(filter(None, (text, page.layer.text))), (*words, *moved))


LETTER = [(f"Line {number} of the scanned letter", 50, 200 + 40 * number) for number in range(12)]


def test_a_stamp_across_a_scan_covers_none_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page([], LETTER)
    add_stamp(page, "CERTIFIED COPY", (0.0, 0.1, 0.6, 0.9))
    page.lines.append(OcrLine("CERTIF", (300, 350, 340, 390), ((300, 350, 340, 390),) * 6, 0.9))
    reading = page.read(monkeypatch)
    assert reading.text.split("\n") == [*(text for text, *_ in LETTER), "CERTIFIED COPY"]


def test_a_mark_across_a_typed_page_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(LETTER, [])
    add_stamp(page, "DRAFT", (0.0, 0.1, 0.6, 0.9))
    page.lines = [OcrLine("never read", (0, 0, 1, 1), (), 1.0)]
    reading = page.read(monkeypatch)
    assert (reading.text, reading.words) == (page.layer.text, page.layer.words)


@pytest.mark.parametrize(
    ("text", "box", "is_slanted"),
    [
        ("CERTIFIED", (0.1, 0.1, 0.5, 0.5), True),
        ("COPY", (0.1, 0.2, 0.4, 0.45), True),
        ("CERTIFIED", (0.1, 0.1, 0.9, 0.2), False),
        ("2026", (0.1, 0.1, 0.3, 0.2), False),
        ("UP", (0.1, 0.1, 0.15, 0.2), False),
        ("certified", (0.1, 0.1, 0.12, 0.12), False),
    ],
)
def test_slanted_words_are_large_and_their_boxes_short_for_their_letters(
    text: str, box: tuple[float, float, float, float], is_slanted: bool
) -> None:
    page = PlacedText(f"{text}\nlevel", (Word(0, len(text), Box.unit(*box)), word_at(len(text) + 1)))
    assert find_slanted(page, (1000, 1000)).tolist() == [is_slanted, False]


def word_at(start: int) -> Word:
    return Word(start, start + 5, Box.unit(0.1, 0.8, 0.2, 0.82))


def test_columns_of_a_table_in_a_picture_are_read_by_rows_however_far_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = [
        ("Sluice", "North lock", "Mill lock"),
        ("Opened", "1931", "1954"),
        ("Width", "8.5 m", "11.2 m"),
    ]
    table = [
        (text, 60 + 300 * column, 300 + 40 * row)
        for column, texts in enumerate(columns)
        for row, text in enumerate(texts)
    ]
    reading = Page([*TYPED, AFTER], table).read(monkeypatch)
    assert reading.text.split("\n")[2:-1] == [" ".join(row) for row in zip(*columns, strict=True)]


BUOYS = [
    (text, 60 + 200 * column, 300 + 40 * row)
    for column, texts in enumerate(
        (("Buoy", "Birch", "Alder"), ("Depth", "17.9 m", "6.4 m"), ("Light", "red", "green"))
    )
    for row, text in enumerate(texts)
]


def test_a_table_in_a_picture_beside_other_text_is_read_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = [*TYPED, ("White", 60, 200), ("Notes of the harbour", 260, 160), ("Print area", 260, 450), AFTER]
    reading = Page([*layer, ("Copied from the chart", 700, 340)], BUOYS).read(monkeypatch)
    rows = ["Buoy Depth Light", "Birch 17.9 m red", "Alder 6.4 m green"]
    assert "\n".join(rows) in reading.text


def test_pictures_in_columns_of_running_text_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        (f"The {side} column tells of the quays", at, 60 + 40 * line)
        for side, at in (("left", 50), ("right", 560))
        for line in range(4)
    ]
    labels = [
        (text, at, 300 + 40 * row)
        for at, texts in ((60, ("North", "East", "South")), (600, ("Rain", "Wind", "Fog")))
        for row, text in enumerate(texts)
    ]
    reading = Page(columns, labels).read(monkeypatch)
    assert "North\nEast\nSouth" in reading.text
    assert "Rain\nWind\nFog" in reading.text


def test_columns_of_running_text_in_a_picture_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = (
        [(f"{side} line {number} of the tale", at, 300 + 40 * number) for number in range(2)]
        for side, at in (("First", 50), ("Second", 560))
    )
    more = ("Drawn in the office of the harbour", 50, 800)
    reading = Page([*TYPED, AFTER, more], [*left, *right]).read(monkeypatch)
    assert reading.text.split("\n")[2:-2] == [text for text, *_ in [*left, *right]]


STRUCK = [("The monthly fee is 4750 and 5200 from May", 100, 300), ("The term is six months", 100, 400)]


def place_of(page: Page, word: str) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a word that OCR reads, in fractions of the page."""
    line = next(line for line in page.lines if word in line.text)
    first = len(line.text[: line.text.index(word)].replace(" ", ""))
    boxes = line.glyphs[first : first + len(word.replace(" ", ""))]
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts) / WIDTH, min(tops) / HEIGHT, max(rights) / WIDTH, max(bottoms) / HEIGHT


def rule_through(page: Page, words: str, height: float = 0.5, beyond: float = 0.0, rise: float = 0.0) -> None:
    """Draw a rule at a part of the height of some words, and so far beyond them."""
    left, top, right, bottom = place_of(page, words)
    y = top + height * (bottom - top)
    page.draw_line((left - beyond, y - rise / 2), (right + beyond, y + rise / 2))


@pytest.mark.parametrize("words", ["4750", "six months", "monthly fee is 4750 and"])
@pytest.mark.parametrize("rise", [0.0, 0.001])
def test_words_of_a_picture_that_a_rule_strikes_out_are_hidden(
    monkeypatch: pytest.MonkeyPatch, words: str, rise: float
) -> None:
    page = Page([], STRUCK)
    rule_through(page, words, rise=rise)
    for mode in ("auto", "always"):
        reading = page.read(monkeypatch, mode)
        assert reading.facts.hidden_text == words
        assert words not in reading.text
        assert set(reading.text.split()) | set(words.split()) == set(
            " ".join(line[0] for line in STRUCK).split()
        )


@pytest.mark.parametrize(("height", "beyond"), [(1.15, 0.0), (0.98, 0.0), (0.5, 0.2), (-0.1, 0.0)])
def test_underlines_and_lines_of_tables_strike_no_words_of_a_picture(
    monkeypatch: pytest.MonkeyPatch, height: float, beyond: float
) -> None:
    page = Page([], STRUCK)
    rule_through(page, "six months", height, beyond)
    reading = page.read(monkeypatch)
    assert (reading.facts.hidden_text, "six months" in reading.text) == ("", True)


def test_dashes_of_a_picture_are_not_struck_out(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page([], [("Length ——— width", 100, 300), ("The term is six months", 100, 400)])
    assert page.read(monkeypatch).facts.hidden_text == ""
