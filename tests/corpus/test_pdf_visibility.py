"""Text of PDF pages that has ink in its place and is not drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from corpus.pdf_files import RESOURCES, PdfPage, assemble, pdf_bytes, text_at
from corpus.test_pdf import items_of
from vrag.corpus.converter import CorpusOptions

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = "A mainsail costs EUR 1,950.", "A mainsail costs EUR 2,175."
PICTURE = "q 612 0 0 792 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 /F /AHx ID EE> EI Q\n"
WHITE_BOX = "1 1 1 rg 70 590 400 40 re f 0 g\n"


def layered_pdf(*, is_off: bool) -> bytes:
    """A PDF file with a layer whose sentence stands in the place of another layer's."""
    content = text_at(72, 700, "Price list")
    for name, line in (("Old", OLD), ("New", NEW)):
        content += f"/OC /{name} BDC\n{text_at(72, 600, line)}EMC\n"
    properties = "/Properties << /Old 6 0 R /New 7 0 R >>"
    off = "/OFF [6 0 R]" if is_off else ""
    return assemble(
        [
            f"<< /Type /Catalog /Pages 2 0 R /OCProperties << /OCGs [6 0 R 7 0 R] /D << {off} >> >> >>",
            "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            (
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R "
                f"{RESOURCES[:-2]} {properties} >> >>"
            ),
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
            "<< /Type /OCG /Name (Old) >>",
            "<< /Type /OCG /Name (New) >>",
        ]
    )


def test_a_layer_that_is_off_is_hidden_where_another_stands_in_its_place(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path, layered_pdf(is_off=True))
    assert item.text == f"Price list\n{NEW}"
    assert item.facts.hidden_text == OLD


def test_layers_that_are_on_are_seen(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path, layered_pdf(is_off=False))
    assert "1,950" in item.text
    assert "2,175" in item.text
    assert not item.facts.hidden_text


def test_what_is_painted_over_and_written_anew_is_hidden(tmp_path: Path) -> None:
    content = text_at(72, 600, OLD) + WHITE_BOX + text_at(72, 600, NEW)
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content)))
    assert item.text == NEW
    assert item.facts.hidden_text == OLD


def test_what_is_drawn_again_above_a_picture_is_seen(tmp_path: Path) -> None:
    """As on slides that repeat the title of their template above its picture."""
    covered = text_at(72, 500, OLD)
    content = text_at(72, 600, NEW) + covered + PICTURE + text_at(72, 600, NEW)
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content)))
    assert item.text == NEW
    assert item.facts.hidden_text == OLD


def test_letters_drawn_several_times_to_be_bold_are_seen(tmp_path: Path) -> None:
    content = "".join(text_at(72 + shift, 600, NEW) for shift in (0, 0.3, 0.6))
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content)))
    assert item.text == NEW
    assert not item.facts.hidden_text


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_an_invisible_layer_that_repeats_drawn_letters_is_not_read(tmp_path: Path, shift: float) -> None:
    """Text for search only is not drawn, and says what the letters below it say, some of them misread."""
    repeated = text_at(72 + shift, 600 + shift, NEW.replace("2,175", "2,l75"))
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(f"{text_at(72, 600, NEW)}3 Tr\n{repeated}")))
    assert item.text == NEW
    assert not item.facts.hidden_text


def test_an_invisible_layer_beside_or_unlike_drawn_letters_stays(tmp_path: Path) -> None:
    unlike, beside = text_at(72, 600, "Berths at Orla"), text_at(72, 500, OLD)
    content = f"{text_at(72, 540, OLD)}{unlike}3 Tr\n{text_at(73, 601, 'Whyq zumf hy')}{beside}"
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content)), CorpusOptions(ocr="never"))
    assert "zumf" in item.text + item.facts.hidden_text
    assert (item.text + item.facts.hidden_text).count("mainsail") == 2


def test_a_usual_page_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrag.corpus.formats.pdf.remove_undrawn_text", refuse)
    content = "".join(text_at(72, 700 - 30 * number, NEW) for number in range(10))
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content)))
    assert item.text.count("mainsail") == 10


def refuse(*_: object, **__: object) -> NoReturn:
    """Stands for what must not be called."""
    pytest.fail("it was called")
