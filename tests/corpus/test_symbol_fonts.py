"""Signs that a page draws with fonts of pictures: by the name of the font."""

from __future__ import annotations

import pytest

from corpus.pdf_files import assemble
from vrag.corpus.formats.pdf_text.pdf_layer import read_layer
from vrag.corpus.formats.pdf_text.symbol_fonts import SIGNS, font_family
from vrag.corpus.formats.pdfium import Pdf


def read(content: str, name: str, *, is_private: bool = True) -> str:
    """The text of a page whose font F1 is Helvetica and F2 one of signs.

    Args:
        content: What is drawn.
        name: Name of the font of signs.
        is_private: Whether its codes are private characters in the text layer.
    """
    table = (
        "/CIDInit /ProcSet findresource begin\nbegincmap\n/CMapName /Signs def\n/CMapType 2 def\n"
        "1 begincodespacerange\n<00> <ff>\nendcodespacerange\n1 beginbfrange\n<20> <ff> <f020>\nendbfrange\n"
        "endcmap\nend"
    )
    unicode_table = "/ToUnicode 7 0 R" if is_private else ""
    widths = " ".join(["600"] * 224)
    pdf = Pdf(
        assemble(
            [
                "<< /Type /Catalog /Pages 2 0 R >>",
                "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                (
                    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 6 0 R "
                    "/Resources << /Font << /F1 4 0 R /F2 5 0 R >> >> >>"
                ),
                "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
                (
                    f"<< /Type /Font /Subtype /TrueType /BaseFont /{name} /FirstChar 32 /LastChar 255 "
                    f"/Widths [{widths}] {unicode_table} /FontDescriptor 8 0 R >>"
                ),
                f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
                f"<< /Length {len(table)} >>\nstream\n{table}\nendstream",
                (
                    f"<< /Type /FontDescriptor /FontName /{name} /Flags 4 /FontBBox [0 -200 1000 900] "
                    "/ItalicAngle 0 /Ascent 900 /Descent -200 /CapHeight 700 /StemV 80 >>"
                ),
            ]
        )
    )
    with pdf.page(1) as page:
        text = read_layer(page).text
    pdf.close()
    return text


def signed(code: int, label: str = "Paid") -> str:
    return f"BT /F2 12 Tf 72 700 Td <{code:02x}> Tj /F1 12 Tf 20 0 Td ({label}) Tj ET\n"


@pytest.mark.parametrize("is_private", [True, False])
@pytest.mark.parametrize(
    ("name", "code", "sign"),
    [
        ("Wingdings", 0xFC, "✓"),
        ("ABCDEF+Wingdings-Regular", 0xFE, "☑"),
        ("Wingdings", 0x6C, "●"),
        ("Wingdings2", 0x50, "✓"),
        ("Wingdings2", 0x52, "☑"),
        ("Wingdings2", 0x53, "☒"),
        ("Wingdings3", 0x70, "▲"),
        ("Webdings", 0x61, "✔"),
        ("Webdings", 0x72, "✗"),
        ("SymbolMT", 0x61, "α"),
        ("Symbol", 0x44, "Δ"),
        ("ITCZapfDingbats-Medium", 0x34, "✔"),
    ],
)
def test_a_code_is_the_sign_of_its_font(name: str, code: int, sign: str, *, is_private: bool) -> None:
    assert read(signed(code), name, is_private=is_private) == f"{sign} Paid"


@pytest.mark.parametrize(
    ("name", "sign"), [("Wingdings", "🖃"), ("Symbol", "+"), ("Webdings", "🗱"), ("Wingdings3", "⭱")]
)
def test_one_code_is_another_sign_in_each_font(name: str, sign: str) -> None:
    assert read(signed(0x2B), name) == f"{sign} Paid"


def test_a_letter_of_symbol_within_a_word_is_a_greek_one() -> None:
    content = "BT /F1 12 Tf 72 700 Td (Dose 5 ) Tj /F2 12 Tf (m) Tj /F1 12 Tf (g a day) Tj ET\n"
    assert read(content, "Symbol", is_private=False) == "Dose 5 μg a day"


@pytest.mark.parametrize("name", ["FontAwesome", "ABCDEF+icomoon", "Calibri"])
def test_private_characters_of_other_fonts_are_left_out(name: str) -> None:
    assert read(signed(0xB0), name) == "Paid"


@pytest.mark.parametrize("name", ["OpenSymbol", "CIDFont+F3", "T3"])
def test_fonts_that_stand_for_several_have_the_signs_of_one_meaning(name: str) -> None:
    assert read(signed(0xB7), name) == "• Paid"
    assert read(signed(0x61), name) == "Paid"


@pytest.mark.parametrize("name", ["Arial", "Symbola", "SymbolSans", "Wingdings4"])
def test_letters_of_other_fonts_stay(name: str) -> None:
    assert read(signed(0x61), name, is_private=False) == "a Paid"


def test_each_font_has_a_sign_or_none_for_each_code() -> None:
    assert {len(signs) for signs in SIGNS.values()} == {0x100 - 0x21}


def test_a_font_is_known_by_its_name_whatever_its_prefix_and_style() -> None:
    names = ["AAAAAB+Wingdings-Regular", "Wingdings 3", "Symbol,Bold", "ITC Zapf Dingbats", "Symbol Neu"]
    assert [font_family(name) for name in names] == ["wingdings", "wingdings3", "symbol", "zapfdingbats", ""]
