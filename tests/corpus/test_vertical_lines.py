"""Pages with vertical Japanese and Chinese."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corpus.pdf_files import assemble
from vrag.corpus.formats.pdf_text.line_orders.vertical_lines import order_vertical_lines
from vrag.corpus.formats.pdf_text.pdf_layer import read_layer
from vrag.corpus.formats.pdf_text.raised_words import LayerWord
from vrag.corpus.formats.pdfium import Pdf
from vrag.corpus.formats.pdfium_text import turn_sides
from vrag.geometry import Box

LINES = [
    "昔々ある所に、お爺さんとお婆さんが",
    "住んでいました。二〇二四年三月、",
    "山へ芝刈りに行きました。終わり。",
]


def drawn_lines(lines: list[str], right: float = 500, top: float = 680) -> str:
    """Draws vertical lines from right to left in a font with vertical letters."""
    return "".join(
        f"BT /F1 14 Tf {right - 30 * number} {top} Td <{line.encode('utf-16-be').hex()}> Tj ET\n"
        for number, line in enumerate(lines)
    )


def read(content: str) -> str:
    """The text of a page whose font F1 is vertical and F2 level."""
    fonts = [
        (
            f"<< /Type /Font /Subtype /Type0 /BaseFont /HeiseiMin-W3 /Encoding /UniJIS-UTF16-{direction} "
            "/DescendantFonts [5 0 R] >>"
        )
        for direction in "VH"
    ]
    pdf = Pdf(
        assemble(
            [
                "<< /Type /Catalog /Pages 2 0 R >>",
                "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                (
                    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 7 0 R "
                    "/Resources << /Font << /F1 4 0 R /F2 6 0 R >> >> >>"
                ),
                fonts[0],
                (
                    "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /HeiseiMin-W3 /FontDescriptor 8 0 R "
                    "/CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> /DW 1000 >>"
                ),
                fonts[1],
                f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
                (
                    "<< /Type /FontDescriptor /FontName /HeiseiMin-W3 /Flags 4 /FontBBox [0 -200 1000 900] "
                    "/ItalicAngle 0 /Ascent 900 /Descent -200 /CapHeight 700 /StemV 80 >>"
                ),
            ]
        )
    )
    with pdf.page(1) as page:
        text = read_layer(page).text
    pdf.close()
    return text


def test_vertical_lines_are_read_from_right_to_left() -> None:
    assert read(drawn_lines(LINES)) == "\n".join(LINES)


def test_a_level_title_stays_above_vertical_lines() -> None:
    title = f"BT /F2 18 Tf 72 740 Td <{'桃太郎の話'.encode('utf-16-be').hex()}> Tj ET\n"
    assert read(title + drawn_lines(LINES)) == "\n".join(["桃太郎の話", *LINES])


def test_the_upper_half_of_a_page_comes_before_the_lower_one() -> None:
    content = drawn_lines(LINES[:2], top=700) + drawn_lines(LINES[2:], top=300)
    assert read(content) == "\n".join(LINES)


def placed(text: str, x: float, y: float, width: float = 10, height: float = 10, turn: int = 0) -> LayerWord:
    sides = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return LayerWord(text, 0, len(text), sides, turn, sides, Box.unit(0, 0, 1, 1))


def column(text: str, x: float, top: float, step: float = 11) -> list[LayerWord]:
    return [placed(letter, x, top - step * number) for number, letter in enumerate(text)]


def text_of(words: list[LayerWord]) -> str:
    joined = "".join(letter.text for letter in words)
    ordered = order_vertical_lines(words, joined)
    return "".join((word.glue or "") + word.text for word in ordered).strip()


def test_figures_and_turned_words_stay_in_their_line() -> None:
    line = [
        *column("平成年月日の", 100, 700),
        placed("12", 100, 634),
        *column("月に", 100, 623),
        placed("PDF", 100, 596, 8, 24, turn=1),
        placed("を", 100, 578),
    ]
    assert text_of([*column("読んだ人がいた", 80, 700), *line]) == "平成年月日の12月にPDFを\n読んだ人がいた"


def test_the_last_line_may_have_one_character() -> None:
    lines = [*column("る", 60, 700), *column("住んでいまし", 80, 700), *column("昔々ある所に", 100, 700)]
    assert text_of(lines) == "昔々ある所に\n住んでいまし\nる"


@pytest.mark.parametrize("shift", [-4, 4])
def test_a_comma_stands_in_the_corner_of_its_place(shift: float) -> None:
    line = [
        *column("昔々ある所", 100, 700),
        placed("、", 100 + shift, 648, 3, 3),
        *column("に人が", 100, 634),
    ]
    assert text_of(line) == "昔々ある所、に人が"


def test_cells_one_below_the_other_are_no_vertical_line() -> None:
    cells = [
        placed(letter, x, 700 - 20 * row) for x in (100, 140) for row, letter in enumerate("東西南北上下左")
    ]
    assert text_of(cells) == "東西南北上下左東西南北上下左"


def test_level_lines_keep_their_order() -> None:
    lines = [
        placed(letter, 100 + 10 * at, y)
        for y in (700, 688, 676)
        for at, letter in enumerate("昔々ある所に人")
    ]
    assert text_of(lines) == "昔々ある所に人" * 3


def vertical(text: str, left: float, top: float, width: float = 12, turn: int = 0) -> list[LayerWord]:
    """The characters of a vertical line as words of a layer, from `top` down."""
    words: list[LayerWord] = []
    for number, character in enumerate(text):
        pitch = 7 if turn else 14 * width / 12
        high = top - number * pitch
        sides = (left, high - (6 if turn else width), left + width, high)
        upright = turn_sides(sides, turn)
        words.append(LayerWord(character, 0, 1, sides, turn, upright, Box.unit(0, 0, 0.1, 0.1)))
    return words


def test_turned_figures_are_a_part_of_their_vertical_line() -> None:
    """A font for vertical text turns figures and Latin letters, and draws them one by one."""
    line = [*vertical("灯台の高さは", 466, 700), *vertical("42", 467, 614, 10, turn=1)]
    words = order_vertical_lines([*line, *vertical("メートル", 466, 599)], "港")
    assert "".join((word.glue or "") + word.text for word in words).strip() == "灯台の高さは42メートル"
    assert {word.turn for word in words} == {0}


def test_upright_figures_of_a_vertical_line_are_one_number() -> None:
    assert text_of(vertical("開港は1902年である", 466, 700)).strip() == "開港は1902年である"


def test_small_letters_beside_a_line_stand_in_brackets_behind_what_they_say_how_to_read() -> None:
    before, behind = vertical("所の所長は", 466, 700), vertical("山田花子である", 464, 630)
    ruby = vertical("やまだはなこ", 479, 628, 5)
    for words in ([*before, *ruby, *behind], [*before, *behind, *ruby]):
        assert text_of(words).strip() == "所の所長は山田花子（やまだはなこ）である"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0)])
def test_a_line_with_ruby_beside_a_title_in_large_letters_is_no_ruby(order: tuple[int, ...]) -> None:
    title, line = vertical("大見出文字題目", 470, 700, 20), vertical("山登記録全集号", 492, 700, 10)
    parts = [vertical("やま", 503, 700, 5), line, title]
    assert text_of([word for at in order for word in parts[at]]) == "山登記録全集号（やま）\n大見出文字題目"


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 2, 0)])
def test_no_word_is_lost_where_ruby_does_not_stand_next_to_its_line(order: tuple[int, ...]) -> None:
    title, line = vertical("大見出文字題目", 470, 700, 20), vertical("山登記録全集号", 492, 700, 10)
    parts = [vertical("やまのぼ", 503, 700, 5), line, title]
    found = text_of([word for at in order for word in parts[at]])
    assert sorted(found.split()) == sorted(["やまのぼ", "山登記録全集号", "大見出文字題目"])


@pytest.mark.parametrize("text", ["山登記録全集号", "はじめてのやまの記録", "やまのぼりの、はなし。"])
def test_a_line_of_text_in_half_the_size_of_its_title_is_no_ruby(text: str) -> None:
    words = [*vertical(text, 492, 700, 10), *vertical("大見出文字題目", 470, 700, 20)]
    assert text_of(words) == f"{text}\n大見出文字題目"


def test_ruby_before_a_line_and_behind_it_are_both_written() -> None:
    line = vertical("山田の花子である", 464, 700)
    words = [*vertical("やまだ", 479, 700, 5), *line, *vertical("はなこ", 479, 658, 5)]
    assert text_of(words) == "山田（やまだ）の花子（はなこ）である"


def test_an_opening_bracket_does_not_divide_a_vertical_line() -> None:
    bracket = replace(vertical("「", 466, 0)[0], sides=(469, 613, 479, 617), upright=(469, 613, 479, 617))
    words = [*vertical("遅れた場合は", 466, 700), bracket, *vertical("延滞料がかかる", 466, 610)]
    assert text_of(words).strip() == "遅れた場合は「延滞料がかかる"
