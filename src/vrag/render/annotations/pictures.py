"""Pictures of cited places: the page with the rectangle on it, and the part inside it, with their numbers."""

from __future__ import annotations

import io

from PIL import Image, ImageChops, ImageDraw, ImageFont

from vrag.geometry import Box, Space
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.annotations.cited_place import CitedPlace
from vrag.render.annotations.pdf_copy import CONTRADICTED_COLOR, FRAME_COLOR, MARK_COLORS, Color

FRAME_SHARE = 1 / 400
"""Width of the frame as a part of the shorter side of the page, at least `MIN_FRAME` pixels."""
MIN_FRAME = 2
MIN_PART_SIDE = 480
"""Pixels of the longer side below which a part is enlarged to twice its size."""


def draw_page(page: Image.Image, place: CitedPlace) -> Image.Image:
    """Draw the rectangle, the words of the answer and the number on a copy of the picture of a page."""
    drawn = page.copy()
    _mark_words(drawn, place, Box.unit(0, 0, 1, 1))
    line = max(MIN_FRAME, round(min(page.size) * FRAME_SHARE))
    corner = (line, line)
    if place.box is not None:
        left, top, right, bottom = _pixels(place.box, drawn.size)
        outer = (left - line, top - line, right + line - 1, bottom + line - 1)
        ImageDraw.Draw(drawn).rectangle(outer, outline=_rgb(_color(place)), width=line)
        corner = (outer[0], outer[1])
    badge = draw_badge(place, 6 * line + 8)
    x, y = corner
    if place.box is not None:  # left of the corner, above it, or inside, as room is
        x, y = (
            (x - badge.width, y)
            if x >= badge.width
            else (x, y - badge.height)
            if y >= badge.height
            else (x, y)
        )
    drawn.paste(badge, (max(x, 0), max(y, 0)))
    return drawn


def draw_part(page: Image.Image, place: CitedPlace) -> Image.Image:
    """Cut the rectangle from the picture of its page and mark the words of the answer, below its number."""
    area = place.box or Box.unit(0, 0, 1, 1)
    part = page.crop(_pixels(area, page.size))
    if max(part.size) < MIN_PART_SIDE:
        part = part.resize((2 * part.width, 2 * part.height), Image.Resampling.BICUBIC)
    _mark_words(part, place, area)
    return _under_badge(part, place)


def draw_recorded_part(part: Image.Image, place: CitedPlace) -> Image.Image:
    """Return the picture that the run recorded, below its number: where there is no picture of the page."""
    return _under_badge(part, place)


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


def _mark_words(picture: Image.Image, place: CitedPlace, area: Box) -> None:
    """Multiply the marked boxes of a picture, which shows `area` of the page, with their colours."""
    for mark in place.evidence.marks:
        x1, y1, x2, y2 = mark.box
        inside = Box.unit(
            (x1 - area.x1) / area.width,
            (y1 - area.y1) / area.height,
            (x2 - area.x1) / area.width,
            (y2 - area.y1) / area.height,
        ).intersect(Box.unit(0, 0, 1, 1))
        if inside.area > 0:
            sides = _pixels(inside, picture.size)
            words = picture.crop(sides)
            color = Image.new("RGB", words.size, _rgb(MARK_COLORS[mark.role]))
            picture.paste(ImageChops.multiply(words, color), sides[:2])


def _under_badge(part: Image.Image, place: CitedPlace) -> Image.Image:
    badge = draw_badge(place, min(max(24, round(part.height * 0.06)), 48))
    canvas = Image.new("RGB", (max(part.width, badge.width), part.height + badge.height), "white")
    canvas.paste(badge, (0, 0))
    canvas.paste(part, (0, badge.height))
    return canvas


def _pixels(box: Box, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return a box in whole pixels of a picture of this size; at least one."""
    width, height = size
    sides = Box(box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height, Space.ITEM).round_out()
    left, top = min(max(int(sides.x1), 0), width - 1), min(max(int(sides.y1), 0), height - 1)
    return left, top, max(min(int(sides.x2), width), left + 1), max(min(int(sides.y2), height), top + 1)


def _color(place: CitedPlace) -> Color:
    return CONTRADICTED_COLOR if place.verdict is ClaimVerdict.CONTRADICTED else FRAME_COLOR


def _rgb(color: Color) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in color)
    return red, green, blue
