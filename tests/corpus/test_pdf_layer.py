"""Pages whose text is drawn in ways that people read otherwise than programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.formats.pdf_text.letter_spacing import join_spaced_letters
from vrag.corpus.formats.pdf_text.pdf_layer import find_glue, read_layer
from vrag.corpus.formats.pdf_text.raised_words import LayerWord, find_lifted
from vrag.corpus.formats.pdf_text.right_to_left import order_letters
from vrag.corpus.formats.pdf_text.written_forms import unfold_characters, unfold_word
from vrag.corpus.formats.pdfium import Pdf
from vrag.corpus.formats.pdfium_text import SKIPPED, Glyph
from vrag.geometry import Box
from vrag.types import TurnedText

if TYPE_CHECKING:
    from vrag.corpus.formats.pdfium_text import Layer
    from vrag.corpus.pages.placed_text import PlacedText

RAISE = "7 Tf 5 Ts"
LEVEL = "12 Tf 0 Ts"


def read(content: str, entries: str = "/MediaBox [0 0 612 792]") -> PlacedText:
    pdf = Pdf(pdf_bytes(PdfPage(content, entries)))
    with pdf.page(1) as page:
        found = read_layer(page)
    pdf.close()
    return found


def line(*parts: str, y: float = 700, size: float = 12) -> str:
    """Draws parts of a line one after the other; those that begin with ^ are raised, with _ lowered."""
    shown: list[str] = []
    for part in parts:
        rise, text = (0, part) if part[0] not in "^_" else (5 if part[0] == "^" else -3, part[1:])
        shown.append(f"/F1 {size if not rise else 0.6 * size} Tf {rise} Ts ({text}) Tj")
    return f"BT 72 {y} Td {' '.join(shown)} ET\n"


def turned(text: str, x: float, y: float, degrees: int, size: float = 12) -> str:
    """Draws text that is turned counter-clockwise, as PDF counts."""
    matrix = {90: "0 1 -1 0", 180: "-1 0 0 -1", 270: "0 -1 1 0"}[degrees]
    return f"BT /F1 {size} Tf {matrix} {x} {y} Tm ({text}) Tj ET\n"


WIDTHS = {" ": 278, "i": 222, "l": 222, "t": 278, "f": 278, "r": 333, "s": 500, "y": 500, ":": 278}
"""Of Helvetica, in thousandths of its size; most small letters and figures have 556."""


def turned_letters(text: str, degrees: int, x: float = 300, y: float = 300, size: float = 16) -> str:
    """Draws turned text letter by letter, each a little off its line, as LibreOffice draws kerned text."""
    shown: list[str] = []
    forward = 1 if degrees == 90 else -1
    for number, letter in enumerate(text):
        if letter != " ":
            shown.append(turned(letter, x + 0.01 * (number % 3), y, degrees, size))
        y += forward * size * WIDTHS.get(letter, 700 if letter.isupper() else 556) / 1000
    return "".join(shown)


def upright_line(text: str) -> str:
    return text_at(72, 750, text, 12)


def figure(bottom: float, top: float) -> Glyph:
    """A figure of a font of 10 points, whose ink begins and ends so much above the line."""
    return Glyph("2", bottom, top, 0, 10)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_turned_line_begins_behind_the_line_before_it(degrees: int) -> None:
    """PDFium puts nothing between them."""
    found = read(line("Minutes of the council") + turned("Norton and Lund", 300, 400, degrees))
    assert found.text == "Minutes of the council\nNorton and Lund"
    assert [found.text[word.start : word.end] for word in found.words] == found.text.split()
    assert [found.text[part.start : part.end] for part in found.turned] == ["Norton and Lund"]


class TestRaisedMarks:
    @pytest.mark.parametrize(
        ("parts", "text"),
        [
            (("The crane lifts 480", "^1", " tonnes."), "The crane lifts 480 ¹ tonnes."),
            (("Carried in 2024: 51,934", "^2"), "Carried in 2024: 51,934 ²"),
            (("The fee is EUR 75", "^a", " a day."), "The fee is EUR 75 ᵃ a day."),
            (("Built in 1931", "^2,3", "."), "Built in 1931 ²,³."),
            (("Revenue", "^1", " rose"), "Revenue ¹ rose"),
            (("A share of 45%", "^12", " in all"), "A share of 45% ¹² in all"),
            (("Without refunds.", "^3", " Others"), "Without refunds. ³ Others"),
            (("In 2023", "^1", ", 480 ships"), "In 2023 ¹, 480 ships"),
            (("the tax", "^a", " due"), "the tax ᵃ due"),
            (("12.50", "^*", "^1", " paid"), "12.50 *¹ paid"),
            (("All leases", "^\\(2\\)\\(3\\)", " paid"), "All leases ⁽²⁾⁽³⁾ paid"),
            (("All leases", "^\\(12\\)", " paid"), "All leases ⁽¹²⁾ paid"),
            (("Weight 3 x 10", "^24", " kg"), "Weight 3 x 10 ²⁴ kg"),
            (("A field of 10", "^-8", " tesla"), "A field of 10 ⁻⁸ tesla"),
        ],
    )
    def test_a_mark_behind_a_number_or_a_word_is_a_word_of_its_own(
        self, parts: tuple[str, ...], text: str
    ) -> None:
        found = read(line(*parts))
        assert found.text == text
        words = re.sub("(?<=[¹²³])(?=[,.](?:$| ))", " ", text).split()
        assert [found.text[word.start : word.end] for word in found.words] == words

    @pytest.mark.parametrize(
        ("parts", "text"),
        [
            (("An area of 5,200 m", "^2", "."), "An area of 5,200 m²."),
            (("12 km", "^2", " of forest"), "12 km² of forest"),
            (("a flow of 3 m", "^3", "/s"), "a flow of 3 m³/s"),
            (("x", "^2", " + y"), "x² + y"),
        ],
    )
    def test_the_power_of_a_unit_stays_with_it(self, parts: tuple[str, ...], text: str) -> None:
        assert read(line(*parts)).text == text

    @pytest.mark.parametrize(
        ("parts", "text"),
        [
            (("on the 21", "^st", " of May"), "on the 21st of May"),
            (("the ", "^14", "C method"), "the 14C method"),
            (("au XIX", "^e", " siecle"), "au XIXe siecle"),
            (("le 1", "^er", " mai"), "le 1er mai"),
            (("CO", "_2", " emissions"), "CO2 emissions"),
            (("2", "^1", "/2 inches"), "2 1/2 inches"),
            (("at 20", "^o", "C"), "at 20°C"),
            (("Price $19", "^99", " each"), "Price $19.99 each"),
            (("Preis 12,", "^95", " Euro"), "Preis 12,95 Euro"),
            (("A loaf is EUR 3", "^49", " here"), "A loaf is EUR 3.49 here"),
            (("Herring 12", "^05", " EUR"), "Herring 12.05 EUR"),
            (("Monsieur et M", "^me", " Dupont"), "Monsieur et Mme Dupont"),
        ],
    )
    def test_what_is_raised_and_no_mark_stays_in_its_word(self, parts: tuple[str, ...], text: str) -> None:
        assert read(line(*parts)).text == text

    def test_a_mark_before_its_note_is_apart(self) -> None:
        assert read(line("^2", "Without school classes.")).text == "² Without school classes."
        assert read(line("^1", "2,300 were counted.")).text == "¹ 2,300 were counted."

    def test_a_mark_has_a_box_of_its_own(self) -> None:
        found = read(line("480", "^1", " tonnes"))
        number, mark, _ = found.words
        assert number.box.x2 <= mark.box.x1 + 0.001
        assert mark.box.y2 < number.box.y2

    def test_a_mark_that_stands_apart_is_found(self) -> None:
        content = line("The balance") + line("^4", y=700).replace("72 700", "134 700")
        assert read(content).text == "The balance ⁴"

    def test_a_mark_is_found_beside_a_comma_alone(self) -> None:
        def shown(x: float, y: float, size: float, text: str) -> str:
            return f"BT /F1 1 Tf {size} 0 0 {size} {x} {y} Tm ({text}) Tj ET "

        for lift, text in ((3.6, "Zhang ², Melissa"), (0, "Zhang 2, Melissa")):
            mark = shown(103.5, 700 + lift, 7, "2") + shown(108, 700, 10, ", Melissa")
            assert read(shown(72, 700, 10, "Zhang") + mark).text == text

    def test_numbers_of_other_sizes_on_one_baseline_are_no_marks(self) -> None:
        content = text_at(72, 700, "Total", 14) + text_at(110, 700, "3", 8) + text_at(72, 600, "H", 30)
        assert read(content).text == "Total 3\nH"

    def test_the_next_line_is_no_mark(self) -> None:
        content = text_at(72, 700, "2024", 12) + text_at(72, 690, "1", 7)
        assert "¹" not in read(content).text

    def test_marks_of_turned_lines_are_found(self) -> None:
        content = f"BT 0 1 -1 0 300 100 Tm /F1 12 Tf (480) Tj /F1 {RAISE} (1) Tj /F1 {LEVEL} ( tonnes) Tj ET"
        assert read(content).text == "480 ¹ tonnes"

    def test_a_raised_glyph_of_the_font_itself_is_found_and_a_dash_is_not(self) -> None:
        assert find_lifted([figure(0, 7), figure(0, 7), figure(3, 7)]) == [False, False, True]
        assert find_lifted([figure(0, 7), figure(0, 7), figure(2.5, 3.2)]) == [False, False, False]

    def test_slanted_words_keep_their_figures(self) -> None:
        content = "BT 0.7 0.7 -0.7 0.7 300 300 Tm /F1 12 Tf (Q) Tj (4) Tj (2) Tj (0) Tj (2) Tj (1) Tj ET"
        assert read(content).text == "Q42021"


class TestTurnedLines:
    def test_lines_that_run_up_are_told(self) -> None:
        found = read(text_at(72, 700, "Upright", 12) + turned("Share of all", 100, 100, 90))
        assert found.text == "Upright\nShare of all"
        assert found.turned == (TurnedText(8, 20, 270),)

    def test_the_lines_of_a_page_that_lies_turned_are_in_reading_order(self) -> None:
        content = "".join(text_at(72, y, f"row {y} first", 12) for y in (700, 680, 660))
        for angle in (90, 180, 270):
            found = read(content, f"/MediaBox [0 0 612 792] /Rotate {angle}")
            assert found.text == "row 700 first\nrow 680 first\nrow 660 first"
            assert found.turned == (TurnedText(0, len(found.text), angle),)

    def test_words_of_upside_down_lines_are_in_order(self) -> None:
        cells = [(400, "Orla"), (300, "112"), (200, "118")]
        found = read("".join(turned(text, x, 300, 180) for x, text in cells))
        assert found.text == "Orla 112 118"
        assert found.turned == (TurnedText(0, 12, 180),)

    @pytest.mark.parametrize("degrees", [90, 270])
    @pytest.mark.parametrize(
        "words",
        [("Gebühr",), ("Fee", "of", "the", "slipway:", "EUR", "90"), ("Turned", "text", "of", "the", "toll")],
    )
    def test_letters_that_are_drawn_one_by_one_are_words(self, degrees: int, words: tuple[str, ...]) -> None:
        found = read(upright_line("Harbour") + turned_letters(" ".join(words), degrees))
        assert found.text == f"Harbour\n{' '.join(words)}"

    def test_letters_of_turned_text_are_set_apart_by_wide_spaces_alone(self) -> None:
        """PDFium has turned letters that are drawn one by one as lines, whatever the space between them."""
        starts = (-223, -215, -205, -199, -190, -181, -168, -162, -153, -146, -135, -126, -116, -109, -100)
        ends = (-215, -208, -201, -192, -183, -174, -163, -154, -146, -140, -127, -121, -111, -102, -93)
        sides = [(left, 230.4, right, 243.0) for left, right in zip(starts, ends, strict=True)]
        letters = [
            LayerWord(letter, at, at + 1, sides[at], 1, sides[at], Box.unit(0, 0, 0.1, 0.1))
            for at, letter in enumerate("Turnedtextofthe")
        ]
        assert join_spaced_letters(letters) == letters

    def test_turned_lines_and_cells_stay_apart(self) -> None:
        columns = [("Berth", 100, 100), ("Saltby", 100, 200), ("Fee", 140, 100)]
        found = read(upright_line("Harbour") + "".join(turned_letters(t, 90, x, y) for t, x, y in columns))
        assert found.text.split("\n") == ["Harbour", "Berth", "Saltby", "Fee"]

    def test_text_that_the_page_turns_upright_is_not_turned(self) -> None:
        found = read(turned("Tide tables", 300, 100, 90), "/MediaBox [0 0 612 792] /Rotate 90")
        assert (found.text, found.turned) == ("Tide tables", ())


def words_at(*placed: tuple[float, str], y: float = 700, shift: float = 0) -> str:
    return "".join(text_at(x + shift, y - shift, text, 12) for x, text in placed)


def spaced_letters(*parts: tuple[str, float]) -> str:
    """Draws letters one by one, each with a space behind it of so many points."""
    x, drawn = 72.0, ""
    for text, space in parts:
        for letter in text:
            drawn += text_at(x, 700, letter, 12) if letter != " " else ""
            x += 0.012 * WIDTHS.get(letter, 722 if letter.isupper() else 556) + space
    return drawn


class TestTextDrawnTwice:
    LINE = (72, "The"), (100, "closing"), (150, "balance"), (200, "is"), (220, "EUR"), (250, "2,350.00")

    @pytest.mark.parametrize("shifts", [(0, 0), (0, 0.4), (0, 0.5, 1)])
    def test_it_is_one_text(self, shifts: tuple[float, ...]) -> None:
        found = read("".join(words_at(*self.LINE, shift=shift) for shift in shifts))
        assert found.text == "The closing balance is EUR 2,350.00"

    def test_a_page_that_is_drawn_in_two_passes_is_one_text(self) -> None:
        one_pass = "".join(text_at(72, 700 - 20 * row, f"row {row} of words", 12) for row in range(8))
        assert read(one_pass + one_pass).text == read(one_pass).text

    def test_equal_words_beside_and_below_each_other_stay(self) -> None:
        content = words_at((72, "12"), (90, "12"), (108, "12")) + words_at((72, "12"), y=688)
        assert read(content).text.split() == ["12"] * 4


class TestLettersSetApart:
    @pytest.mark.parametrize(
        ("content", "text"),
        [
            (text_at(72, 700, "A N N U A L   R E P O R T", 12), "ANNUAL REPORT"),
            (text_at(72, 700, "T o t a l :   1 , 2 8 4", 12), "Total: 1,284"),
            (words_at(*((72.0 + 14 * at, letter) for at, letter in enumerate("TOTAL"))), "TOTAL"),
            (text_at(72, 700, "1 , 2 8 4", 12), "1,284"),
        ],
    )
    def test_they_are_words(self, content: str, text: str) -> None:
        found = read(content)
        assert found.text == text
        assert [found.text[word.start : word.end] for word in found.words] == text.split()

    @pytest.mark.parametrize(
        "text", ["A B C D E F", "1 2 3 4 5 6 7 8", "x y z w v", "Plan A or B", "C L U X", "Y N Y Y N"]
    )
    def test_choices_and_figures_stay_apart(self, text: str) -> None:
        assert read(text_at(72, 700, text, 12)).text == text

    @pytest.mark.parametrize(
        ("parts", "text"),
        [
            ([("HARBOUR", 3), (" Length", 7), (" 11.4", 7)], "HARBOUR Length 11.4"),
            ([("HARBOUR", 3), (" length", 7)], "HARBOUR length"),
            ([("Length", 7), (" HARBOUR", 3)], "Length HARBOUR"),
            ([("harbour", 7), (" length", 3), (" depth", 7)], "harbour length depth"),
        ],
    )
    def test_those_with_typed_spaces_and_those_spaced_by_their_font_are_judged_apart(
        self, parts: list[tuple[str, float]], text: str
    ) -> None:
        assert read(spaced_letters(*parts)).text == text

    def test_cells_of_one_letter_stay_apart(self) -> None:
        assert (
            read(words_at(*((72.0 + 40 * at, letter) for at, letter in enumerate("TOTAL")))).text != "TOTAL"
        )


class PlacedLetters:
    """A layer whose letters take these ranges of x."""

    def __init__(self, *ranges: tuple[float, float]) -> None:
        self._ranges = ranges

    def ink(self, index: int) -> tuple[float, float, float, float]:
        left, right = self._ranges[index]
        return left, 0, right, 10


class TestWords:
    def test_a_glyph_of_two_arabic_letters_is_read_in_their_order(self) -> None:
        layer = cast("Layer", PlacedLetters((20, 30), (10, 20), (10, 20), (0, 10)))
        assert order_letters(layer, 0, "سالم") == "سلام"

    def test_letters_with_a_glyph_each_keep_their_order(self) -> None:
        layer = cast("Layer", PlacedLetters((30, 40), (20, 30), (10, 20), (0, 10)))
        assert order_letters(layer, 0, "سالم") == "سالم"

    def test_a_vowel_sign_follows_its_letter(self) -> None:
        layer = cast("Layer", PlacedLetters((22, 24), (20, 30), (0, 20)))
        assert order_letters(layer, 0, "ًضا") == "ضًا"

    def test_full_width_figures_are_unfolded(self) -> None:
        assert unfold_characters("２０２４年 １，２３４．５％") == "2024年 1,234.5%"
        assert unfold_characters("数，字（二）") == "数，字（二）"

    def test_narrow_japanese_letters_are_unfolded_with_their_marks(self) -> None:
        assert unfold_characters("ｶﾞｽ") == "ガ" + SKIPPED + "ス"

    def test_letters_for_shapes_are_unfolded(self) -> None:
        assert unfold_word("ﬁnance oﬃce") == "finance office"
        assert unfold_word("\ufeb3\ufefc\ufee1") == "سلام"
        assert unfold_word("\ufb2a\ufb35") == "שׁוּ"

    def test_a_word_divided_at_the_end_of_a_line_has_a_box_for_each_half(self) -> None:
        content = "BT /F1 12 Tf 72 700 Td (the first week of Octo-) Tj 0 -14 Td (ber was moved) Tj ET"
        found = read(content)
        assert found.text == "the first week of October was moved"
        assert [found.text[word.start : word.end] for word in found.words][4:6] == ["Octo", "ber"]

    @pytest.mark.parametrize(
        ("between", "glue"), [("\u200c", "\u200c"), ("\u200b", ""), (" ", " "), ("\uf0b7", " "), ("", "")]
    )
    def test_what_takes_no_space_divides_no_word(self, between: str, glue: str) -> None:
        characters = f"می{between}خواهم"
        sides = (0.0, 0.0, 1.0, 1.0)
        box = Box.unit(0, 0, 1, 1)
        first = LayerWord("می", 0, 2, sides, 0, sides, box)
        second = LayerWord("خواهم", 2 + len(between), len(characters), sides, 0, sides, box)
        assert find_glue(characters, first, second) == glue


OPERATIONS = st.tuples(
    st.sampled_from(["480", "1", "tonnes", "m", "2", "a", "T", "/2", ".", "51,934", "o", "C", "AB12"]),
    st.integers(50, 300),
    st.integers(600, 640),
    st.sampled_from([5, 7, 12, 30]),
    st.integers(-5, 8),
    st.sampled_from(["1 0 0 1", "0 1 -1 0", "-1 0 0 -1", "0 -1 1 0", "0.7 0.7 -0.7 0.7", "-1 0 0 1"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATIONS, max_size=12), st.sampled_from([0, 90, 180, 270]))
def test_whatever_is_drawn_the_words_have_their_text_in_order(
    drawn: list[tuple[str, int, int, int, int, str]], rotation: int
) -> None:
    content = "".join(
        f"BT /F1 {size} Tf {rise} Ts {matrix} {x} {y} Tm ({text}) Tj ET\n"
        for text, x, y, size, rise, matrix in drawn
    )
    found = read(content, f"/MediaBox [0 0 612 792] /Rotate {rotation}")
    position = 0
    for word in found.words:
        assert position <= word.start < word.end <= len(found.text)
        assert found.text[word.start : word.end].split() == [found.text[word.start : word.end]]
        assert found.text[position : word.start].strip("-") in {"", " ", "\n"}
        position = word.end
    ends = [0, *(part.end for part in found.turned)]
    assert all(end <= part.start < part.end for end, part in zip(ends, found.turned, strict=False))
