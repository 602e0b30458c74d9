"""Which words are seen, on pages drawn by PDFium and read without OCR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from corpus.test_pdf import items_of
from vrag.corpus.pages.ink import InkMap
from vrag.corpus.pages.placed_text import PlacedText
from vrag.geometry import Box
from vrag.types import Word

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

SEEN = text_at(72, 700, "Minutes of the council")
WHITE, BLACK = "1 1 1 rg\n", "0 g\n"


def bar(x: float, y: float, width: float, height: float, colour: str = "0 0 0") -> str:
    """Draws a filled rectangle."""
    return f"{colour} rg {x} {y} {width} {height} re f\n"


def page(tmp_path: Path, content: str, entries: str = "/MediaBox [0 0 612 792]") -> Item:
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content, entries)))
    return item


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(WHITE + text_at(72, 600, "The buyer is Kestrel"), id="white on white"),
        pytest.param("0.999 g\n" + text_at(72, 600, "The buyer is Kestrel"), id="almost white on white"),
        pytest.param(text_at(72, 600, "The buyer is Kestrel", 0.1), id="a tenth of a point"),
        pytest.param(text_at(72, 600, "The buyer is Kestrel") + bar(60, 590, 300, 40), id="under a bar"),
        pytest.param(
            text_at(72, 600, "The buyer is Kestrel") + bar(72, 599, 228, 20),
            id="under a bar as high as letters",
        ),
        pytest.param(
            text_at(72, 600, "The buyer is Kestrel") + bar(60, 590, 300, 40, "0.9 0.9 0.2"),
            id="under a colour",
        ),
        pytest.param(
            text_at(72, 600, "The buyer is Kestrel", 2) + bar(72, 599.5, 17, 2), id="two points under a bar"
        ),
        pytest.param(bar(60, 590, 300, 40) + text_at(72, 600, "The buyer is Kestrel"), id="black on black"),
        pytest.param("3 Tr\n" + text_at(72, 600, "The buyer is Kestrel"), id="invisible letters on nothing"),
        pytest.param(
            WHITE + text_at(72, 600, "The buyer is Kestrel") + bar(72, 597, 228, 1), id="white and underlined"
        ),
    ],
)
def test_words_that_nobody_sees_are_kept_apart(tmp_path: Path, hidden: str) -> None:
    item = page(tmp_path, SEEN + hidden)
    assert item.text == "Minutes of the council"
    assert item.facts.hidden_text == "The buyer is Kestrel"
    assert [item.text[word.start : word.end] for word in item.words] == ["Minutes", "of", "the", "council"]
    assert not item.facts.unread


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param("0.93 g\n" + text_at(72, 600, "Fee: 7 EUR - a day"), id="light grey on white"),
        pytest.param(
            bar(60, 590, 300, 40, "0 0 0.4") + WHITE + text_at(72, 600, "Fee: 7 EUR - a day"),
            id="white on dark",
        ),
        pytest.param(
            bar(60, 590, 300, 40, "1 0 0") + "0 0.5 0 rg\n" + text_at(72, 600, "Fee: 7 EUR - a day"),
            id="green on red of about the same grey",
        ),
        pytest.param(text_at(72, 600, "Fee: 7 EUR - a day", 4), id="small"),
        pytest.param(text_at(72, 600, "Fee: 7 EUR - a day", 2), id="two points"),
        pytest.param(text_at(20, 500, "Fee: 7 EUR - a day", 70), id="large"),
        pytest.param("1 Tr 0.2 w\n" + text_at(72, 600, "Fee: 7 EUR - a day"), id="outlines"),
        pytest.param(text_at(72, 600, "Fee: 7 EUR - a day") + bar(72, 597, 228, 1), id="underlined"),
    ],
)
@pytest.mark.parametrize("turn", [0, 90])
def test_words_that_are_seen_stay(tmp_path: Path, seen: str, turn: int) -> None:
    item = page(tmp_path, SEEN + seen, f"/MediaBox [0 0 612 792] /Rotate {turn}")
    assert sorted(item.text.split("\n")) == ["Fee: 7 EUR - a day", "Minutes of the council"]
    assert not item.facts.hidden_text


@pytest.mark.parametrize("text", ["John Norton, III", "Floor 1", "Ill will I"])
@pytest.mark.parametrize("direction", ["0 1 -1 0", "0 -1 1 0"])
def test_turned_letters_of_one_stroke_are_seen_where_they_are_drawn(
    tmp_path: Path, text: str, direction: str
) -> None:
    """Turned by a quarter, they are level bars, and a word of a few of them is as wide as it is high."""
    turned = f"BT /F1 12 Tf {direction} 300 400 Tm ( {text}) Tj ET\n"
    assert text in page(tmp_path, SEEN + turned).text
    (tmp_path / "white").mkdir()
    assert page(tmp_path / "white", SEEN + WHITE + turned).facts.hidden_text == text


def test_words_on_a_photograph_are_seen() -> None:
    noise = np.random.default_rng(0).integers(90, 160, (200, 300, 3), np.uint8)
    layer = PlacedText("word", (Word(0, 4, Box.unit(0.1, 0.1, 0.3, 0.2)),))
    assert InkMap(noise).find_seen(layer).all()


def test_a_text_layer_of_a_scan_is_seen_where_the_picture_has_its_letters(tmp_path: Path) -> None:
    """The layer is invisible; its words stand where the picture has letters, or not."""
    drawn = page(tmp_path, SEEN)
    picture = Image.open(tmp_path / "items" / str(drawn.image)).convert("L")
    data = picture.tobytes().hex() + ">"
    size = f"/W {picture.width} /H {picture.height}"
    image = f"q 612 0 0 792 0 0 cm BI {size} /BPC 8 /CS /G /F /AHx ID {data}\nEI Q\n"
    item = page(tmp_path, image + "3 Tr\n" + SEEN + text_at(72, 300, "elsewhere"))
    assert item.text == "Minutes of the council"
    assert item.facts.hidden_text == "elsewhere"


@pytest.mark.parametrize(
    ("codes", "text"),
    [(["4E2D56FD"], "中国"), (["FF11FF15"], "15"), (["4E2D56FD", "56FD4E2D"], "中国国中")],
    ids=["ideographs", "full-width figures", "two texts in one place"],
)
def test_letters_that_a_missing_font_cannot_draw_are_not_hidden(
    tmp_path: Path, codes: list[str], text: str
) -> None:
    """PDFium draws nothing for ideographs of a font that the file does not contain; other readers do."""
    font = (
        "/Font << /F1 << /Type /Font /Subtype /Type0 /BaseFont /SimSun /Encoding /UniGB-UCS2-H "
        "/DescendantFonts [ << /Type /Font /Subtype /CIDFontType2 /BaseFont /SimSun "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> /FontDescriptor << "
        "/Type /FontDescriptor /FontName /SimSun /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 "
        "/Ascent 859 /Descent -141 /CapHeight 700 /StemV 80 >> >> ] >> >>"
    )
    data = pdf_bytes(PdfPage("\n".join(f"BT /F1 24 Tf 72 700 Td <{each}> Tj ET" for each in codes)))
    path = data.decode("latin-1").replace("/Font << /F1 3 0 R >>", font)
    items = items_of(tmp_path, path.encode("latin-1"))
    assert "".join(items[0].text.split()) == text
    assert not items[0].facts.hidden_text


def test_marks_between_hidden_words_go_with_them(tmp_path: Path) -> None:
    item = page(tmp_path, SEEN + WHITE + text_at(72, 600, "EUR - 7"))
    assert item.facts.hidden_text == "EUR - 7"


def test_a_number_behind_dots_is_seen(tmp_path: Path) -> None:
    line = "Fees " + 30 * "." + "8"
    assert page(tmp_path, text_at(72, 600, line, 12)).text == line


@pytest.mark.parametrize("is_drawn", [True, False])
def test_letters_of_level_strokes_are_seen_as_their_neighbours_are(is_drawn: bool) -> None:
    picture = Image.new("L", (400, 100), "white")
    if is_drawn:
        draw = ImageDraw.Draw(picture)
        draw.text((10, 40), "Table", "black", ImageFont.load_default(24))
        draw.rectangle((100, 44, 120, 46), "black")
        draw.rectangle((98, 60, 122, 62), "black")
    words = (
        Word(0, 5, Box.unit(0.025, 0.4, 0.2, 0.66)),
        Word(6, 7, Box.unit(0.24, 0.4, 0.31, 0.66)),
    )
    seen = InkMap(np.asarray(picture)).find_seen(PlacedText("Table 二", words))
    assert seen.tolist() == [is_drawn, is_drawn]


def test_words_of_half_a_point_are_hidden_whatever_their_letters(tmp_path: Path) -> None:
    words = "The fee is EUR 3,333. 1,777 roi lrdl"
    item = page(tmp_path, SEEN + text_at(72, 600, words, 0.5))
    assert item.text == "Minutes of the council"
    assert item.facts.hidden_text == words


def test_short_words_of_two_points_are_seen(tmp_path: Path) -> None:
    words = "roi lrdl trc idri lsd iris lot cro"
    assert page(tmp_path, SEEN + text_at(72, 600, words, 2)).text == f"Minutes of the council\n{words}"


def test_places_of_words_are_whole_numbers_where_others_are_hidden(tmp_path: Path) -> None:
    item = page(tmp_path, text_at(72, 700, "A mast") + WHITE + text_at(72, 600, "of oak"))
    assert repr([(word.start, word.end) for word in item.words]) == "[(0, 1), (2, 6)]"
