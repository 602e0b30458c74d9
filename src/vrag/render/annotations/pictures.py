"""Pictures of cited places: the page with the rectangle on it, and the part inside it, with their numbers."""

from __future__ import annotations

import io

from PIL import Image, ImageChops, ImageDraw, ImageFont

from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_result import is_whole
from vrag.geometry import Box, Space
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.annotations.cited_place import CitedPlace
from vrag.render.annotations.evidence_sources import PagePart
from vrag.render.annotations.pdf_copy import DOUBTED_COLOR, FRAME_COLOR, MARK_COLORS, Color

FRAME_SHARE = 1 / 400
"""Width of the frame as a part of the shorter side of the page, at least `MIN_FRAME` pixels."""
MIN_FRAME = 2
SURROUNDINGS_MARGIN = 0.04
"""Part of the height of a page that is shown above and below a rectangle."""
MAX_SURROUNDINGS = 800
"""Longer side of a picture of a place and its surroundings, in pixels."""


def draw_evidence(page: Image.Image, evidence: Evidence, color: Color = FRAME_COLOR) -> Image.Image:
    """Draw the rectangle of a piece of evidence and the words of the answer on a copy of its page."""
    drawn = page.convert("RGB")
    _mark_words(drawn, evidence, Box.unit(0, 0, 1, 1))
    if (outer := _frame(evidence, drawn.size)) is not None:
        line = _line_width(drawn.size)
        pen, halo = ImageDraw.Draw(drawn), max(1, line // 3)
        edge = (outer[0] - halo, outer[1] - halo, outer[2] + halo, outer[3] + halo)
        pen.rectangle(edge, outline="white", width=line + 2 * halo)  # sets it off from dark pages
        pen.rectangle(outer, outline=_rgb(color), width=line)
    return drawn


def draw_surroundings(page: Image.Image, evidence: Evidence) -> Image.Image:
    """Draw the rectangle of a piece of evidence on what is around it, as wide as its page.

    It is at most `MAX_SURROUNDINGS` pixels wide; without a rectangle it is the page.
    """
    drawn = draw_evidence(page, evidence)
    if (frame := _frame(evidence, drawn.size)) is not None:
        margin = round(drawn.height * SURROUNDINGS_MARGIN)
        drawn = drawn.crop((0, max(0, frame[1] - margin), drawn.width, min(drawn.height, frame[3] + margin)))
    drawn.thumbnail((MAX_SURROUNDINGS, MAX_SURROUNDINGS))
    return drawn


def draw_page(page: Image.Image, place: CitedPlace) -> Image.Image:
    """Draw the rectangle, the words of the answer and the number on a copy of the picture of a page."""
    drawn = draw_evidence(page, place.evidence, _color(place))
    line = _line_width(drawn.size)
    badge = draw_badge(place, 6 * line + 8)
    x, y = line, line
    if (outer := _frame(place.evidence, drawn.size)) is not None:  # beside the corner, above, or inside
        x, y = outer[:2]
        x, y = (
            (x - badge.width, y)
            if x >= badge.width
            else (x, y - badge.height)
            if y >= badge.height
            else (x, y)
        )
    drawn.paste(badge, (max(x, 0), max(y, 0)))
    return drawn


def draw_part(part: PagePart, place: CitedPlace) -> Image.Image:
    """Mark the words of the answer on a copy of a part of a page, and put the number above it."""
    drawn = part.image.copy()
    _mark_words(drawn, place.evidence, part.area)
    return draw_numbered(drawn, place)


def draw_numbered(picture: Image.Image, place: CitedPlace) -> Image.Image:
    """Put the number of a place above a picture."""
    badge = draw_badge(place, min(max(24, round(picture.height * 0.06)), 48))
    canvas = Image.new("RGB", (max(picture.width, badge.width), picture.height + badge.height), "white")
    canvas.paste(badge, (0, 0))
    canvas.paste(picture, (0, badge.height))
    return canvas


def draw_badge(place: CitedPlace, height: int) -> Image.Image:
    """Draw the number of a place, white on its colour."""
    font = ImageFont.load_default(height * 0.62)
    width = round(font.getlength(place.number) + height * 0.7)
    badge = Image.new("RGB", (max(width, height), height), _rgb(_color(place)))
    middle = (badge.width / 2, height / 2)
    ImageDraw.Draw(badge).text(middle, place.number, fill="white", font=font, anchor="mm")
    return badge


def encode_png(image: Image.Image) -> bytes:
    """Encode a picture as PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()


def encode_jpeg(image: Image.Image) -> bytes:
    """Encode a picture of a page as JPEG: of a photograph, a fifth of its PNG file."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=80, optimize=True)
    return buffer.getvalue()


def _mark_words(picture: Image.Image, evidence: Evidence, area: Box) -> None:
    """Multiply a picture, which shows `area` of the page, with the colours of the marked words."""
    highlights = Image.new("RGB", picture.size, "white")  # marks that overlap do not darken each other
    pen = ImageDraw.Draw(highlights)
    for mark in evidence.marks:
        x1, y1, x2, y2 = mark.box
        inside = Box.unit(
            (x1 - area.x1) / area.width,
            (y1 - area.y1) / area.height,
            (x2 - area.x1) / area.width,
            (y2 - area.y1) / area.height,
        ).intersect(Box.unit(0, 0, 1, 1))
        if inside.area > 0:
            left, top, right, bottom = _pixels(inside, picture.size)
            pen.rectangle((left, top, right - 1, bottom - 1), fill=_rgb(MARK_COLORS[mark.role]))
    picture.paste(ImageChops.multiply(picture, highlights))


def _line_width(size: tuple[int, int]) -> int:
    return max(MIN_FRAME, round(min(size) * FRAME_SHARE))


def _frame(evidence: Evidence, size: tuple[int, int]) -> tuple[int, int, int, int] | None:
    """Return the frame around the rectangle of evidence, in pixels; None without one, or for a whole page."""
    if evidence.box is None or is_whole(evidence.box):
        return None
    left, top, right, bottom = _pixels(Box.unit(*evidence.box), size)
    line = _line_width(size)
    return left - line, top - line, right + line - 1, bottom + line - 1


def _pixels(box: Box, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return a box in whole pixels of a picture of this size; at least one."""
    width, height = size
    sides = Box(box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height, Space.ITEM).round_out()
    left, top = min(max(int(sides.x1), 0), width - 1), min(max(int(sides.y1), 0), height - 1)
    return left, top, max(min(int(sides.x2), width), left + 1), max(min(int(sides.y2), height), top + 1)


def _color(place: CitedPlace) -> Color:
    return DOUBTED_COLOR if place.verdict is ClaimVerdict.DOUBTED else FRAME_COLOR


def _rgb(color: Color) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in color)
    return red, green, blue
