"""Which parts of a drawn page look like text that no word explains."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from vrag.corpus.pages.coverage import WHOLE, PictureRegion, find_unexplained, is_plain
from vrag.corpus.pages.ink import InkMap

SIZE = (1224, 1584)
LINES = ["Buoy    Depth    Light", "Alder   12.4 m   green", "Birch   17.9 m   red"]


def blank() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", SIZE, "white")
    return image, ImageDraw.Draw(image)


def write(draw: ImageDraw.ImageDraw, lines: list[str], left: int, top: int, size: float = 24) -> np.ndarray:
    """Writes lines, and returns the boxes of their words as fractions of the page."""
    font = ImageFont.load_default(size)
    boxes: list[tuple[float, float, float, float]] = []
    for number, line in enumerate(lines):
        x = float(left)
        for word in line.split():
            box = draw.textbbox((x, top + number * size * 1.5), word, font)
            draw.text((x, top + number * size * 1.5), word, "black", font)
            boxes.append((box[0] / SIZE[0], box[1] / SIZE[1], box[2] / SIZE[0], box[3] / SIZE[1]))
            x = box[2] + size / 2
    return np.array(boxes)


def unexplained(image: Image.Image, boxes: np.ndarray | None = None) -> list[PictureRegion]:
    return find_unexplained(InkMap(np.asarray(image)), np.zeros((0, 4)) if boxes is None else boxes)


@pytest.mark.parametrize("size", [12, 20, 40, 90])
def test_text_without_words_is_found_and_enclosed(size: float) -> None:
    image, draw = blank()
    boxes = write(draw, LINES, 100, 300, size)
    (region,) = unexplained(image)
    left, top = boxes[:, :2].min(axis=0)
    right, bottom = boxes[:, 2:].max(axis=0)
    assert region.left <= left + 0.005
    assert region.top <= top + 0.005
    assert region.right >= right - 0.005
    assert region.bottom >= bottom - 0.005


def test_text_with_words_is_explained() -> None:
    image, draw = blank()
    assert unexplained(image, write(draw, LINES * 5, 100, 300)) == []


def test_of_two_blocks_the_one_without_words_is_found() -> None:
    image, draw = blank()
    boxes = write(draw, LINES * 5, 100, 100)
    write(draw, LINES, 500, 1200)
    (region,) = unexplained(image, boxes)
    assert region.left > 0.35
    assert region.top > 0.7


def test_lines_that_run_up_are_found() -> None:
    image, draw = blank()
    write(draw, LINES, 100, 300)
    assert unexplained(image.rotate(90, expand=True))


def test_light_text_on_a_dark_ground_is_found() -> None:
    image, draw = blank()
    write(draw, LINES, 100, 300)
    assert unexplained(Image.eval(image, lambda level: 255 - level))


def test_a_page_full_of_text_is_read_as_a_whole() -> None:
    image, draw = blank()
    write(draw, [" ".join(LINES * 2)] * 40, 60, 60)
    assert unexplained(image) == [WHOLE]


def draw_rules(draw: ImageDraw.ImageDraw) -> None:
    for number in range(12):
        draw.line((100, 200 + 40 * number, 1100, 200 + 40 * number), "black", 2)
        draw.line((100 + 90 * number, 200, 100 + 90 * number, 640), "black", 2)


def draw_bullets(draw: ImageDraw.ImageDraw) -> None:
    for number in range(20):
        draw.ellipse((100, 200 + 40 * number, 112, 212 + 40 * number), "black")


def draw_bars(draw: ImageDraw.ImageDraw) -> None:
    for number in range(8):
        draw.rectangle((100, 200 + 60 * number, 300 + 90 * number, 230 + 60 * number), "navy")


def draw_curve(draw: ImageDraw.ImageDraw) -> None:
    points = [(100 + x, 600 + 200 * float(np.sin(x / 60))) for x in range(1000)]
    draw.line(points, "black", 3)


def draw_frames(draw: ImageDraw.ImageDraw) -> None:
    for number in range(6):
        draw.rounded_rectangle(
            (100, 200 + 150 * number, 700, 300 + 150 * number), 20, outline="black", width=4
        )


@pytest.mark.parametrize("drawing", [draw_rules, draw_bullets, draw_bars, draw_curve, draw_frames])
def test_drawings_without_letters_are_no_text(drawing: object) -> None:
    image, draw = blank()
    assert callable(drawing)
    drawing(draw)
    assert unexplained(image) == []


def test_a_ground_of_one_colour_is_told_from_a_photograph() -> None:
    image, draw = blank()
    write(draw, LINES, 100, 300)
    assert is_plain(InkMap(np.asarray(image)), WHOLE)
    noise = np.random.default_rng(0).integers(0, 255, (SIZE[1], SIZE[0], 3), np.uint8)
    assert not is_plain(InkMap(noise), WHOLE)
