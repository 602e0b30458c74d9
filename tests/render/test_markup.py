"""Pages cannot be written unescaped, and pictures say what they show."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import HTMLFormatter

from vrag.render.figures import placed
from vrag.render.markup import SvgDrawing, environment, number, stylesheet
from vrag.render.text_format import text_width, wrapped


class Read(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_any_text_is_read_back_as_text_alone(text: str) -> None:
    template = environment("vrag.render").from_string('<text class="{{ text }}">{{ text }}</text>')
    read = Read()
    read.feed(template.render(text=text))
    read.close()
    assert read.tags == ["text"]
    assert [name for name, _ in read.attributes] == ["class"]
    expected = "".join(c if c.isprintable() or c in "\n\t" or ord(c) > 159 else "�" for c in text)
    kept = [(a, b) for a, b in zip(expected, read.text, strict=True) if b != "�"]
    assert all(a == b for a, b in kept)


@pytest.mark.parametrize("css", ["</style>", "@import 'x'", "a{b:url(x)}"])
def test_a_style_sheet_fetches_nothing(css: str) -> None:
    with pytest.raises(ValueError, match="style sheet"):
        stylesheet(css)


def test_numbers_that_are_none_are_written_as_zero() -> None:
    assert [number(value) for value in (float("inf"), float("nan"), -0.5, 1e-9)] == ["0", "0", "-0.5", "0"]


SIDE = st.floats(0, 1)
BOX = st.tuples(SIDE, SIDE, SIDE, SIDE)


@given(BOX, BOX)
def test_a_rectangle_lies_inside_its_picture(
    box: tuple[float, float, float, float], outer: tuple[float, float, float, float]
) -> None:
    found = placed(box, outer)
    if found is not None:
        x1, y1, x2, y2 = found
        assert 0 <= x1 < x2 <= 1
        assert 0 <= y1 < y2 <= 1


def test_a_rectangle_is_placed_by_the_part_that_a_picture_shows() -> None:
    assert placed((0.25, 0.5, 0.5, 0.75), (0.0, 0.0, 1.0, 1.0)) == (0.25, 0.5, 0.5, 0.75)
    assert placed((0.25, 0.5, 0.5, 0.75), (0.25, 0.5, 0.75, 1.0)) == (0.0, 0.0, 0.5, 0.5)


def test_a_rectangle_around_all_or_nothing_is_not_drawn() -> None:
    whole = (0.0, 0.0, 1.0, 1.0)
    assert placed(whole, whole) is None
    assert placed((0.0, 0.0, 0.2, 0.2), (0.5, 0.5, 1.0, 1.0)) is None
    assert placed((0.0, 0.0, float("nan"), 0.2), whole) is None
    assert placed(whole, (0.5, 0.5, 0.5, 0.5)) is None


@given(st.text(max_size=200), st.floats(3, 30), st.integers(1, 4))
def test_lines_are_no_longer_and_no_more_than_asked(text: str, ems: float, lines: int) -> None:
    found = wrapped(text, ems, lines)
    assert len(found) <= lines
    assert all(text_width(line) <= ems + 1e-9 for line in found)


@given(st.text(max_size=200))
def test_lines_hold_the_whole_text_or_say_that_they_do_not(text: str) -> None:
    found = wrapped(text, 12, 3)
    plain = "".join(text.split())
    whole = "".join("".join(line.split()) for line in found)
    assert whole == plain or (whole.endswith("…") and plain.startswith(whole[:-1]))


def test_chinese_is_broken_where_a_line_is_full() -> None:
    assert wrapped("渡轮每年运送乘客四万八千人次", 6, 2) == ["渡轮每年运", "送乘客四…"]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_a_drawing_is_shown_in_a_notebook_as_an_image_with_its_title(title: str) -> None:
    template = environment("vrag.render").from_string("<svg><title>{{ title }}</title><g></g></svg>")
    drawing = SvgDrawing(template.render(title=title))
    read = Read()
    read.feed(HTMLFormatter()(drawing) or "")
    read.close()
    assert read.tags == ["img"]
    attributes = dict(read.attributes)
    assert attributes.keys() == {"alt", "src"}
    assert attributes["alt"] == title
    kind, _, data = (attributes["src"] or "").partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode() == drawing
