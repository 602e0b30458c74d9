"""A page that lies turned is read as the same page upright, and its places are where they are seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reading.tables.drawn_pages import DrawnPage
from vrag.geometry import Box, Size
from vrag.reading.answer import ReadPage
from vrag.reading.page_text import read_page_text
from vrag.reading.reader import read
from vrag.reading.tables.finder import find_tables
from vrag.reading.views.turned_text import UprightView, list_views, turn_upright
from vrag.types import Item, ItemFacts, TurnedText

ANGLES = pytest.mark.parametrize("angle", [90, 180, 270])
ROWS = [
    ("Harbour", "2023", "2024"),
    ("Orla", "112", "118"),
    ("Saltby", "87", "93"),
    ("Tamm", "64", "61"),
]


def draw() -> DrawnPage:
    page = DrawnPage()
    page.write(110, 200, "Table 4. Moorings by harbour")
    for row, (label, *values) in enumerate(ROWS):
        page.write(110, 300 + 30 * row, label)
        for column, value in enumerate(values):
            page.write(500 + 200 * column, 300 + 30 * row, value, end=True)
    page.rule(100, 325, 720, 325)
    return page


def lay(item: Item, angle: int) -> Item:
    """The item with all its lines turned clockwise by an angle."""
    words = (
        replace(word, box=Box.unit(*turn_upright(word.box.as_tuple(), 360 - angle))) for word in item.words
    )
    size = item.size or Size(1, 1)
    return replace(
        item,
        words=tuple(words),
        size=Size(size.height, size.width) if angle % 180 else size,
        facts=ItemFacts(turned=(TurnedText(0, len(item.text), angle),)),
    )


@given(
    st.tuples(*[st.floats(0, 1)] * 4).map(lambda sides: (*sorted(sides[:2]), *sorted(sides[2:]))),
    st.sampled_from([0, 90, 180, 270]),
)
def test_a_rectangle_turned_there_and_back_is_the_same(
    sides: tuple[float, float, float, float], angle: int
) -> None:
    box = sides[0], sides[2], sides[1], sides[3]
    assert turn_upright(turn_upright(box, angle), 360 - angle) == pytest.approx(box)


@ANGLES
def test_the_picture_is_turned_with_its_words(angle: int) -> None:
    page = draw()
    item = lay(page.item(), angle)
    (_, view) = list_views(item)
    picture = UprightView(item, 360 - angle).turn_picture(page.picture)
    assert view.turn_picture(picture).tobytes() == page.picture.tobytes()
    assert view.item.size == page.item().size


@ANGLES
def test_tables_are_those_of_the_upright_page(angle: int) -> None:
    page = draw()
    (upright,) = find_tables(page.item(), page.picture)
    item = lay(page.item(), angle)
    picture = UprightView(item, 360 - angle).turn_picture(page.picture)
    (found,) = find_tables(item, picture)
    assert [cell.text for cell in found.cells] == [cell.text for cell in upright.cells]
    for cell, straight in zip(found.cells, upright.cells, strict=True):
        assert cell.box
        assert straight.box
        expected = turn_upright(straight.box.as_tuple(), 360 - angle)
        assert cell.box.as_tuple() == pytest.approx(expected)


@ANGLES
def test_lines_and_blocks_are_those_of_the_upright_page(angle: int) -> None:
    item = draw().item()
    upright, found = read_page_text(item), read_page_text(lay(item, angle))
    assert [(line.start, line.end) for line in found.lines] == [
        (line.start, line.end) for line in upright.lines
    ]
    assert sorted(map(sorted, found.blocks)) == sorted(map(sorted, upright.blocks))
    assert found.segments == upright.segments
    for line, straight in zip(found.lines, upright.lines, strict=True):
        assert tuple(line.rect) == pytest.approx(turn_upright(straight.rect, 360 - angle))


@ANGLES
def test_labels_and_values_are_those_of_the_upright_page(angle: int) -> None:
    page = DrawnPage()
    page.write(200, 200, "93")
    page.write(150, 222, "moorings in all")
    item = page.item()
    upright, found = read_page_text(item).values, read_page_text(lay(item, angle)).values
    assert upright
    assert [(value.text, value.label) for value in found] == [(value.text, value.label) for value in upright]
    assert found[0].marks[0].box.as_tuple() == pytest.approx(
        turn_upright(upright[0].marks[0].box.as_tuple(), 360 - angle)
    )


def test_a_turned_table_beside_upright_text_is_read() -> None:
    item, upright = draw().item(), DrawnPage()
    for row in range(3):
        upright.write(20, 20 + 30 * row, f"line {row} of the text that stands upright above")
    turned = lay(item, 270)
    shift = len(upright.text) + 1
    both = replace(
        turned,
        text=f"{upright.text}\n{item.text}",
        words=(
            *upright.words,
            *(replace(word, start=word.start + shift, end=word.end + shift) for word in turned.words),
        ),
        facts=ItemFacts(turned=(TurnedText(shift, shift + len(item.text), 270),)),
    )
    (table,) = find_tables(both, None)
    assert [cell.text for cell in table.cells if cell.row == 2] == ["Saltby", "87", "93"]
    best, *_ = read("How many moorings did Saltby have in 2024?", [ReadPage(both)])
    assert best.text == "93"


def test_an_item_without_turned_lines_is_one_view() -> None:
    item = draw().item()
    assert list_views(item) == [UprightView(item, 0)]


@ANGLES
def test_words_of_a_turned_line_have_one_rectangle(angle: int) -> None:
    page = DrawnPage()
    page.write(200, 200, "the harbour master receives the keys")
    item = page.item()
    upright, turned = read_page_text(item), read_page_text(lay(item, angle))
    (expected,) = upright.rects_of_forms(1, 3)
    (found,) = turned.rects_of_forms(1, 3)
    assert tuple(found) == pytest.approx(turn_upright(expected, 360 - angle))
    assert turned.run_on(2) == upright.run_on(2)
