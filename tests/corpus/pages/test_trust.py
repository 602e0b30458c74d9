"""Text layers whose letters are not those of the picture."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, NoReturn

import pytest

from corpus.pdf_files import remapped_pdf, text_at
from corpus.test_pdf import items_of
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.pages import page_pass, trust
from vrag.corpus.pages.placed_text import PlacedText
from vrag.corpus.pages.trust import frequent_share, is_improbable
from vrag.types import TextSource

if TYPE_CHECKING:
    from pathlib import Path

LINES = ["The harbour office sells the old pilot boat", "for EUR 18,500 to the highest bidder in May"]
CONTENT = "".join(text_at(60, 700 - 40 * number, line, 22) for number, line in enumerate(LINES))
LETTERS = ascii_lowercase + ascii_uppercase
VISIBLE = [chr(code) for code in range(33, 127)]


def refuse(*_: object, **__: object) -> NoReturn:
    """Stands for what must not be called."""
    pytest.fail("it was called")


def shift(count: int) -> dict[str, str]:
    return {
        letter: letters[(place + count) % 26]
        for letters in (ascii_lowercase, ascii_uppercase)
        for place, letter in enumerate(letters)
    }


BROKEN = {
    "shifted by 1": shift(1),
    "shifted by 13": shift(13),
    "glyph numbers": {letter: chr(ord(letter) - 29) for letter in VISIBLE if ord(letter) > 61},
    "digits for letters": {letter: str(place % 10) for place, letter in enumerate(LETTERS)},
    "digits for vowels": dict(zip("aeiost", "431057", strict=True)),
    "one letter": dict.fromkeys(VISIBLE, "A"),
    "ideographs": {letter: chr(0x4E00 + 7 * place) for place, letter in enumerate(LETTERS)},
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_layer_that_the_picture_contradicts_is_not_used(tmp_path: Path, kind: str) -> None:
    (item,) = items_of(tmp_path, remapped_pdf(CONTENT, BROKEN[kind]), CorpusOptions())
    assert item.text.split("\n") == LINES
    assert item.text_source is TextSource.OCR


def test_private_characters_are_no_words_and_their_ink_is_read(tmp_path: Path) -> None:
    private = {letter: chr(0xE000 + ord(letter)) for letter in VISIBLE}
    (item,) = items_of(tmp_path, remapped_pdf(CONTENT, private), CorpusOptions())
    assert item.text.split("\n") == LINES


def test_a_line_of_a_broken_font_among_others_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a text in two fonts, one is broken: the text as a whole is not improbable."""
    del monkeypatch
    good = "the owner of the boat received a letter on the state of the sails"
    bad = good.translate(str.maketrans(shift(1)))
    assert frequent_share(f"{good}\n{bad}") >= trust.MIN_FREQUENT
    assert frequent_share(bad) < trust.MIN_FREQUENT_IN_LINE


@pytest.mark.parametrize(
    "text",
    [
        "The price of the warehouse at Lantern Quay is stated in the deed of sale of the year 1931.",
        "Der Preis des Lagerhauses am Laternenkai steht im Kaufvertrag aus dem Jahr 1931.",
        "Le prix de l'entrepôt du quai de la Lanterne figure dans l'acte de vente de l'année 1931.",
        "El precio del almacén del muelle de la Linterna consta en la escritura de compraventa de 1931.",
        "Cena magazynu przy nabrzeżu Latarni jest podana w umowie sprzedaży z roku 1931, strona druga.",
        "Lyhtylaiturin varaston hinta on mainittu vuoden 1931 kauppakirjassa, sen toisella sivulla.",
        "A Lámpás rakparton álló raktár ára az 1931-es adásvételi szerződésben szerepel.",
        "Fener Rıhtımı'ndaki deponun fiyatı 1931 yılının satış sözleşmesinde belirtilmiştir.",
        "Cena skladu na Lucernovém nábřeží je uvedena v kupní smlouvě z roku 1931 na druhé straně.",
        "Цена склада на Фонарной набережной указана в договоре купли-продажи тысяча девятьсот года.",
        "Η τιμή της αποθήκης στην προβλήτα αναφέρεται στο συμβόλαιο πώλησης του έτους εκείνου.",
        "2023 2024 Change Passengers 48,120 51,934 7.9 % Freight in tonnes 9,310 8,775 -5.7 %",
        "仓库的价格写在一九三一年的买卖合同里面，合同的第二页上还有买方和卖方的名字。",
    ],
)
def test_texts_of_languages_are_not_improbable(text: str) -> None:
    assert not is_improbable(text)
    assert frequent_share(text) >= trust.MIN_FREQUENT


def test_a_usual_text_is_not_compared_with_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "read_strip", refuse)
    monkeypatch.setattr(page_pass, "read_directions", refuse)
    (item,) = items_of(tmp_path, remapped_pdf(CONTENT, {}), CorpusOptions())
    assert item.text_source is TextSource.LAYER


def test_improbable_letters_that_the_picture_has_stay(tmp_path: Path) -> None:
    """Part numbers are no language, and are on the page."""
    content = "".join(
        text_at(60, 700 - 40 * number, f"HX4K-QZ7W-{number}VB2J ZQXW KVBJ") for number in range(4)
    )
    (item,) = items_of(tmp_path, remapped_pdf(content, {}), CorpusOptions())
    assert item.text_source is TextSource.LAYER
    assert item.text.startswith("HX4K-QZ7W-0VB2J ZQXW KVBJ")


def test_nothing_is_compared_without_words() -> None:
    import numpy as np

    assert not trust.contradicts(np.zeros((10, 10, 3), np.uint8), PlacedText())
