"""Charts and pictures are found in the picture of a page; a question names one by caption or by its words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from PIL import Image, ImageDraw
from placed_pages import set_page

from vrag.geometry import Box, iou
from vrag.reading.answer import ReadPage
from vrag.reading.line_scoring import locate
from vrag.reading.page_text import read_page_text
from vrag.reading.places.page_parts import find_part_of_answer, find_parts_of_question
from vrag.reading.places.visual_parts import choose_visual_part, complete_part, find_visual_parts
from vrag.reading.questions.query_analysis import parse
from vrag.reading.reader import find_answer
from vrag.reading.views.text_lines import Rect
from vrag.types import Item

PROSE = "The harbour office counts every passenger of all lines in every month"
CHART, PHOTO = Box.unit(0.1, 0.2, 0.5, 0.42), Box.unit(0.55, 0.6, 0.9, 0.8)
ITEM = set_page(
    (0.1, 0.05, PROSE),
    (0.1, 0.08, PROSE),
    (0.25, 0.30, "84,210"),
    (0.1, 0.44, "Figure 2: Passengers to Saltby"),
    (0.1, 0.50, PROSE),
    (0.55, 0.82, "The new quay at Fennick"),
    (0.1, 0.90, PROSE),
)


def draw(item: Item, *boxes: Box) -> Image.Image:
    picture = Image.new("RGB", (1000, 1000), "white")
    pen = ImageDraw.Draw(picture)
    for word in item.words:
        pen.rectangle([1000 * side for side in word.box.as_tuple()], fill="black")
    for box in boxes:
        x1, y1, x2, y2 = (1000 * side for side in box.as_tuple())
        pen.rectangle((x1, y1, x2, y2), outline="blue", width=4)
        for x in range(int(x1), int(x2), 12):
            pen.line((x, y1, x, y2), fill="green", width=4)
    return picture


PICTURE = draw(ITEM, CHART, PHOTO)
PAGE = ReadPage(ITEM, lambda: PICTURE)


def chosen(question: str, parts: Sequence[Rect]) -> Rect | None:
    analysis = parse(question)
    (scored,) = locate(analysis, [read_page_text(ITEM)])
    return choose_visual_part(analysis, scored, parts, ())


def test_what_is_drawn_is_found_and_running_text_is_not() -> None:
    parts = find_visual_parts(PAGE, read_page_text(ITEM))
    assert len(parts) == 2
    assert all(iou(part.box(), box) > 0.9 for part, box in zip(parts, (CHART, PHOTO), strict=True))


@pytest.mark.parametrize("boxes", [(), (Box.unit(0.1, 0.7, 0.9, 0.702),), (Box.unit(0.1, 0.7, 0.13, 0.73),)])
def test_text_lines_and_icons_are_no_pictures(boxes: Sequence[Box]) -> None:
    item = set_page((0.1, 0.1, PROSE), (0.1, 0.13, PROSE), (0.1, 0.16, "Short line"))
    picture = draw(item, *boxes)
    assert find_visual_parts(ReadPage(item, lambda: picture), read_page_text(item)) == ()


def test_a_page_without_picture_has_none() -> None:
    item = set_page((0.1, 0.1, PROSE))
    assert find_visual_parts(ReadPage(item), read_page_text(item)) == ()


@pytest.mark.parametrize(
    ("question", "box"),
    [
        ("How many bars are there in Figure 2?", CHART),
        ("What colour is the quay in the photo of Fennick?", PHOTO),
    ],
)
def test_a_question_names_a_picture(question: str, box: Box) -> None:
    part = chosen(question, find_visual_parts(PAGE, read_page_text(ITEM)))
    assert part is not None
    assert iou(part.box(), box) > 0.8


def test_a_question_about_text_names_none() -> None:
    assert chosen("Who counts the passengers?", find_visual_parts(PAGE, read_page_text(ITEM))) is None


def test_the_part_of_a_page_is_the_chart_that_the_question_is_about() -> None:
    (part,) = find_parts_of_question("How many bars are there in Figure 2?", "33", [PAGE])
    assert part is not None
    assert part.covers(*CHART.center)


def test_a_word_in_a_chart_is_shown_with_the_chart() -> None:
    reading = find_answer("How many passengers to Saltby?", "84,210", [PAGE])
    assert reading is not None
    part = find_part_of_answer(PAGE, reading)
    assert (part.x1, part.y1) <= (CHART.x1 + 0.01, CHART.y1 + 0.01)
    assert part.x2 >= CHART.x2 - 0.01


def test_a_part_that_is_too_large_is_not_shown_whole() -> None:
    place, page = Rect(0.4, 0.4, 0.5, 0.5), Rect(0.1, 0.1, 0.9, 0.9)
    assert complete_part(place, [page], (), 0.24) == place
    assert complete_part(place, [page], (), 0.7) == page
