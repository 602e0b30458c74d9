# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false
"""The text layer of a page as PDFium reads it: characters, their places and fonts.

The C functions of PDFium are called directly: a page has thousands of characters.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pypdfium2 import PdfPage

SKIPPED = "\x03"
"""Placeholder for half a surrogate pair: characters stay aligned with PDFium's indices."""
MAX_SLANT = 0.1
"""Difference from a quarter turn up to which text counts as turned by it, in quarter turns."""
INFINITE = math.inf
MAX_FLAT_SIDE, MAX_FLAT = 0.25, 0.02
"""Points, and its longer side for each letter, up to which the shorter side of a rectangle is that of letters
without a glyph: it is a thousandth of their size."""
MAX_FONT_NAME = 128
"""Bytes of the longest name of a font, with the zero that ends it."""
Sides = tuple[float, float, float, float]
"""Left, bottom, right and top in PDF coordinates."""


def address_of(handle: Any) -> int:  # noqa: ANN401 - a handle of PDFium
    """Return the address that a handle holds, which tells it from others; 0 for none.

    `ctypes.cast` would take as long as eight calls of PDFium.
    """
    return ctypes.c_void_p.from_buffer(handle).value or 0


def is_contained(font: Any) -> bool:  # noqa: ANN401 - a handle of PDFium
    """Return whether a file contains a font as a font file."""
    from pypdfium2 import raw

    size = ctypes.c_size_t()
    return bool(
        raw.FPDFFont_GetIsEmbedded(font) > 0 and raw.FPDFFont_GetFontData(font, None, 0, size) and size.value
    )


def turn_sides(sides: Sides, turn: int) -> Sides:
    """Return a rectangle as if text that is turned by quarters clockwise ran to the right.

    >>> turn_sides((0, 0, 10, 40), 3), turn_sides((0, 0, 10, 40), 1)
    ((0, -10, 40, 0), (-40, 0, 0, 10))
    """
    left, bottom, right, top = sides
    match turn:
        case 1:
            return -top, left, -bottom, right
        case 2:
            return -right, -top, -left, -bottom
        case 3:
            return bottom, -right, top, -left
        case _:
            return sides


class Glyph(NamedTuple):
    """A character as it is drawn; lengths in points."""

    character: str
    bottom: float
    top: float
    """Of its ink."""
    baseline: float
    size: float
    """Height of its line."""


class Layer:
    """The text layer of a page; a context manager."""

    def __init__(self, page: PdfPage) -> None:
        from pypdfium2 import raw

        self._text = raw.FPDFText_LoadPage(page.raw)
        self._count_rects = raw.FPDFText_CountRects
        self._get_rect = raw.FPDFText_GetRect
        self._get_angle = raw.FPDFText_GetCharAngle
        self._get_ink, self._get_font = raw.FPDFText_GetCharBox, raw.FPDFText_GetFontInfo
        self._sides = tuple(ctypes.c_double() for _ in range(4))
        self._pointers = tuple(map(ctypes.byref, self._sides))
        self._font_name, self._font_flags = ctypes.create_string_buffer(MAX_FONT_NAME), ctypes.c_int()

    def characters(self) -> str:
        """Return its characters, each at its PDFium index."""
        from pypdfium2 import raw

        count = raw.FPDFText_CountChars(self._text) if self._text else 0
        if count <= 0:
            return ""
        buffer = (ctypes.c_ushort * (count + 1))()
        units = raw.FPDFText_GetText(self._text, 0, count, buffer) - 1
        text = bytes(buffer)[: 2 * max(units, 0)].decode("utf-16-le", "surrogatepass")
        if len(text) == units == count:  # otherwise some characters have no place in it, or two
            return text
        return _paired([raw.FPDFText_GetUnicode(self._text, index) for index in range(count)])

    def rects(self, start: int, end: int) -> list[Sides]:
        """Return the rectangles around characters `start` to `end`, one for each piece of text of the page.

        Marks without a position have none. One or two calls a word instead of one a character.
        """
        left, top, right, bottom = self._sides
        found: list[Sides] = []
        for index in range(self._count_rects(self._text, start, end - start)):
            if self._get_rect(self._text, index, *self._pointers):
                sides = x1, y1, x2, y2 = left.value, bottom.value, right.value, top.value
                if -INFINITE < x1 <= x2 < INFINITE and -INFINITE < y1 <= y2 < INFINITE:
                    found.append(sides)
        return found

    def has_glyphs(self, rects: Sequence[Sides], length: int) -> bool:
        """Return whether PDFium has glyphs for a word, by the rectangles around its characters.

        Args:
            rects: As `rects` returns them.
            length: Number of its characters.
        """
        for left, bottom, right, top in rects:
            width, height = right - left, top - bottom
            if (width < MAX_FLAT_SIDE or height < MAX_FLAT_SIDE) and (
                min(width, height) * -(-length // len(rects)) <= MAX_FLAT * max(width, height)
            ):
                return False
        return True

    def line_rect(self, start: int, end: int) -> Sides | None:
        """Return the rectangle in which characters `start` to `end` stand, by the size of their font alone.

        None if they have no area.
        """
        from pypdfium2 import raw

        loose = raw.FS_RECTF()
        found = [
            (loose.left, loose.bottom, loose.right, loose.top)
            for index in range(start, end)
            if raw.FPDFText_GetLooseCharBox(self._text, index, loose)
        ]
        lefts, bottoms, rights, tops = zip(*found, strict=True) if found else ((0.0,),) * 4
        sides = x1, y1, x2, y2 = min(lefts), min(bottoms), max(rights), max(tops)
        return sides if -INFINITE < x1 < x2 < INFINITE and -INFINITE < y1 < y2 < INFINITE else None

    def is_unknown(self, start: int, end: int) -> bool:
        """Return whether the file says of none of some characters which one it is.

        It has neither their font nor a table of them: PDFium makes them up.
        """
        from pypdfium2 import raw

        if not all(raw.FPDFText_HasUnicodeMapError(self._text, index) == 1 for index in range(start, end)):
            return False
        return not any(is_contained(self._font(index)) for index in range(start, end))

    def _font(self, index: int) -> Any:  # noqa: ANN401 - a handle of PDFium
        """Return the font of a character; None if it has none."""
        from pypdfium2 import raw

        entry = raw.FPDFText_GetTextObject(self._text, index)
        return raw.FPDFTextObj_GetFont(entry) if entry else None

    def font_name(self, index: int) -> str:
        """Return the name of the font of a character; "" if it has none."""
        name = self._font_name
        size = self._get_font(self._text, index, name, MAX_FONT_NAME, self._font_flags)
        return name.value.decode("utf-8", "replace") if 0 < size <= MAX_FONT_NAME else ""

    def find_font(self, x: float, y: float, reach: float) -> int:
        """Return a number for the font of a character at a point, or at most `reach` away; 0 for none."""
        from pypdfium2 import raw

        index = raw.FPDFText_GetCharIndexAtPos(self._text, x, y, reach, reach)
        return self.font_number(index) if index >= 0 else 0

    def font_number(self, index: int) -> int:
        """Return a number for the font of a character; 0 if it has none."""
        font = self._font(index)
        return address_of(font) if font else 0

    def turn(self, index: int) -> int | None:
        """Return the quarter turns clockwise of a character, 0 to 3; None if it is slanted or mirrored."""
        angle = self._get_angle(self._text, index)
        if angle <= 0:
            return 0
        quarters = angle / (math.pi / 2)
        nearest = round(quarters)
        if abs(quarters - nearest) > MAX_SLANT or (nearest % 4 and self._is_mirrored(index)):
            return None
        return nearest % 4

    def _is_mirrored(self, index: int) -> bool:
        from pypdfium2 import raw

        matrix = raw.FS_MATRIX()
        raw.FPDFText_GetMatrix(self._text, index, matrix)
        return matrix.a * matrix.d - matrix.b * matrix.c < 0

    def ink(self, index: int) -> Sides:
        """Return the rectangle around what is drawn of a character."""
        left, top, right, bottom = self._sides
        self._get_ink(self._text, index, left, right, bottom, top)
        return left.value, bottom.value, right.value, top.value

    def glyphs(self, start: int, end: int, turn: int) -> list[Glyph]:
        """Return characters `start` to `end`, turned by `turn` quarters, as if they ran to the right."""
        from pypdfium2 import raw

        x, y = ctypes.c_double(), ctypes.c_double()
        loose = raw.FS_RECTF()
        glyphs: list[Glyph] = []
        for index in range(start, end):
            raw.FPDFText_GetCharOrigin(self._text, index, x, y)
            raw.FPDFText_GetLooseCharBox(self._text, index, loose)
            _, foot, _, head = turn_sides(self.ink(index), turn)
            _, low, _, high = turn_sides((loose.left, loose.bottom, loose.right, loose.top), turn)
            _, baseline, _, _ = turn_sides((x.value, y.value, x.value, y.value), turn)
            character = chr(raw.FPDFText_GetUnicode(self._text, index))
            glyphs.append(Glyph(character, foot, head, baseline, high - low))
        return glyphs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        from pypdfium2 import raw

        if self._text:
            raw.FPDFText_ClosePage(self._text)
            self._text = None


def _paired(codes: list[int]) -> str:
    r"""Decode UTF-16 or UTF-32 codes to one character per code: a pair's second half gives `SKIPPED`.

    >>> _paired([0x41, 0xD835, 0xDC56, 0xD835]) == "A\U0001d456" + SKIPPED + SKIPPED
    True
    """
    out: list[str] = []
    for code, after in zip(codes, [*codes[1:], 0], strict=True):
        if 0xD800 <= code < 0xDC00 <= after < 0xE000:
            out.append(chr(0x10000 + ((code - 0xD800) << 10) + (after - 0xDC00)))
        elif 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            out.append(SKIPPED)
        else:
            out.append(chr(code))
    return "".join(out)
