"""Text layers whose letters are not those of the picture."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, NoReturn

import pytest

from corpus.pdf_files import remapped_pdf, text_at
from corpus.test_pdf import items_of
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.formats.pdf_text.pdf_layer import read_layer
from vrag.corpus.formats.pdfium import Pdf
from vrag.corpus.pages import page_pass, trust
from vrag.corpus.pages.placed_text import PlacedText
from vrag.corpus.pages.trust import frequent_share, is_improbable
from vrag.types import ItemFacts, TextSource

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.corpus.pages.ink import Pixels

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


def test_the_layer_of_a_printed_document_is_used_whatever_its_picture_shows() -> None:
    """Where no font has the letters of a document, an office program draws boxes in their places."""
    pdf = Pdf(remapped_pdf(CONTENT, BROKEN["ideographs"]))
    with pdf.page(1) as page:
        layer, pixels = read_layer(page), page.render_pixels(2)
    pdf.close()
    compared = page_pass.read_page(pixels, layer, ItemFacts(), "auto")
    certain = page_pass.read_page(pixels, layer, ItemFacts(), "auto", is_certain=True)
    assert compared.text_source is TextSource.OCR
    assert certain.text == layer.text


def test_nothing_is_compared_without_words() -> None:
    import numpy as np

    assert not trust.contradicts(np.zeros((10, 10, 3), np.uint8), PlacedText())


def two_fonts(*runs: tuple[str, str], mapping: dict[str, str]) -> bytes:
    """A page of lines that begin in a usual font and end in one that stores other letters."""
    lines: list[str] = []
    for number, (usual, broken) in enumerate(runs):
        lines.append(f"BT /F2 16 Tf 60 {700 - 30 * number} Td ({usual} ) Tj /F1 16 Tf ({broken}) Tj ET\n")
    return remapped_pdf("".join(lines), mapping)


RUNS = [
    ("The price of the warehouse is EUR", "612,000"),
    ("The price of the crane is EUR", "48,500"),
    ("The contract was signed in the year", "2027"),
]
STORED_AS = {
    "capital letters": {figure: chr(ord(figure) + 32) for figure in "0123456789,."},
    "the first letters": {figure: chr(ord(figure) + 17) for figure in "0123456789,."},
    "small letters": {figure: chr(ord(figure) + 49) for figure in "0123456789,."},
    "any letters": dict(zip("0123456789", "hqpsmclkry", strict=True)),
    "Greek letters": {figure: chr(0x391 + int(figure)) for figure in "0123456789"},
    "signs": {figure: chr(0xB0 + int(figure)) for figure in "0123456789"},
}


@pytest.mark.parametrize("kind", STORED_AS)
def test_the_words_of_one_wrong_font_are_read_from_the_picture_in_their_places(
    tmp_path: Path, kind: str
) -> None:
    (item,) = items_of(tmp_path, two_fonts(*RUNS, mapping=STORED_AS[kind]), CorpusOptions())
    assert item.text.split("\n") == [" ".join(run) for run in RUNS]
    figures = next(word for word in item.words if item.text[word.start : word.end] == "48,500")
    before = next(word for word in item.words if word.end == figures.start - 1)
    assert figures.box.x1 >= before.box.x2
    assert figures.box.y1 < before.box.y2
    assert item.text_source is TextSource.LAYER


@pytest.mark.parametrize("count", ["7", "12"])
def test_a_page_with_a_word_of_a_wrong_font_that_cannot_be_read_is_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: str
) -> None:
    """The strip of a short number has too low a score; it is too little ink to be read again by itself."""
    read_strip = trust.read_strip

    def read_badly(strip: Pixels) -> tuple[str, float]:
        text, score = read_strip(strip)
        return (text, score) if len(text) > 2 else (text, 0.5)

    monkeypatch.setattr(trust, "read_strip", read_badly)
    runs = [*RUNS, ("The number of boats of the harbour that sail", count)]
    (item,) = items_of(tmp_path, two_fonts(*runs, mapping=STORED_AS["capital letters"]), CorpusOptions())
    assert item.text.split("\n") == [" ".join(run) for run in runs]
    assert item.text_source is TextSource.OCR


@pytest.mark.parametrize("kind", ["the first letters", "any letters"])
def test_a_font_of_which_the_figures_alone_are_wrong_is_not_used(tmp_path: Path, kind: str) -> None:
    content = "".join(text_at(60, 700 - 30 * at, " ".join(run), 16) for at, run in enumerate(RUNS))
    (item,) = items_of(tmp_path, remapped_pdf(content, STORED_AS[kind]), CorpusOptions())
    assert item.text.split("\n") == [" ".join(run) for run in RUNS]
    assert item.text_source is TextSource.OCR


ROTATED = {str(figure): str((figure + 3) % 10) for figure in range(10)}
SWAPPED = {"3": "8", "8": "3", "1": "7", "7": "1"}
COLUMN = [("Berth fee", "1,480"), ("Crane", "93"), ("Storage in winter", "7,200"), ("Slipway", "188")]


@pytest.mark.parametrize("mapping", [ROTATED, SWAPPED, {"6": "9", "9": "6", "8": "0", "0": "8"}])
@pytest.mark.parametrize("font", ["Helvetica", "Times-Roman", "Courier-Bold"])
def test_figures_of_a_font_that_are_stored_as_other_figures_are_those_that_it_draws(
    tmp_path: Path, mapping: dict[str, str], font: str
) -> None:
    runs = [(f"The fee for {name} is EUR", fee) for name, fee in COLUMN]
    data = two_fonts(*runs, mapping=mapping).replace(b"/BaseFont /Helvetica", f"/BaseFont /{font}".encode())
    (item,) = items_of(tmp_path, data, CorpusOptions())
    assert item.text.split("\n") == [" ".join(run) for run in runs]
    assert item.text_source is TextSource.LAYER


def test_figures_that_are_right_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Pixels) -> tuple[str, float]:
        raise AssertionError("a strip of a right page was read")

    monkeypatch.setattr(trust, "read_strip", fail)
    (item,) = items_of(tmp_path, two_fonts(*COLUMN, mapping={}), CorpusOptions())
    assert item.text.split("\n") == [" ".join(run) for run in COLUMN]


@pytest.mark.parametrize(("reads", "is_kept"), [("612,000", True), ("", False)])
def test_figures_of_a_strange_shape_stay_if_ocr_reads_them_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: str, *, is_kept: bool
) -> None:
    """Where it reads nothing, the page is read as a whole."""

    def read_strip(_: Pixels) -> tuple[str, float]:
        return reads, 0.99 if reads else 0.0

    monkeypatch.setattr(trust, "read_strip", read_strip)
    stored = "612,000".translate(str.maketrans({value: key for key, value in ROTATED.items()}))
    data = two_fonts(("The price of the old warehouse is", stored), mapping=ROTATED)
    (item,) = items_of(tmp_path, data, CorpusOptions())
    assert item.text_source is (TextSource.LAYER if is_kept else TextSource.OCR)
    assert item.text.endswith("612,000" if is_kept else stored)


def test_a_font_of_abbreviations_stays_as_it_is(tmp_path: Path) -> None:
    runs = [("The hull is tested by", "DNV RINV"), ("The engine was made by", "MTU GMBH KHD")]
    (item,) = items_of(tmp_path, two_fonts(*runs, mapping={}), CorpusOptions())
    assert item.text.split("\n") == [" ".join(run) for run in runs]


@pytest.mark.parametrize(
    ("words", "is_doubtful"),
    [
        (["VQRLPPP", "TXLUPP"], True),
        (["GBC=AAA", "EI=FAA"], True),
        (["NCLB", "NCLB,", "(NCLB)"], False),
        (["SDKs", "LLMs", "CDRs"], False),
        (["612,000", "48,500"], False),
        (["The", "owner", "of", "MTU", "GMBH"], False),
    ],
)
def test_fonts_are_doubtful_by_their_words(words: list[str], *, is_doubtful: bool) -> None:
    assert trust.is_doubtful_font(words) is is_doubtful


def test_a_bad_reading_of_a_scan_is_not_used(tmp_path: Path) -> None:
    lines = [
        "Permit for a slipway of the harbour, in the old town",
        "It ends on 14 October 2027 and costs EUR 684",
    ]
    drawn = "".join(text_at(60, 700 - 40 * at, line, 20) for at, line in enumerate(lines))
    wrong = dict(zip("leO", "1c0", strict=True))
    (item,) = items_of(tmp_path, remapped_pdf(drawn, wrong), CorpusOptions())
    assert item.text.split("\n") == lines
    assert item.text_source is TextSource.OCR


@pytest.mark.parametrize(
    "word",
    ["IEEE/CVF", "https://www.", "AA-AAAS", "xxx_rcnn", "HTTPs", "Schifffahrt", "نمووو", "1,000", "MCMXXXIV"],
)
def test_abbreviations_and_words_are_hardly_figures(word: str) -> None:
    assert not trust.is_very_odd(word)


@pytest.mark.parametrize(
    "text",
    [
        "The hotel offers H2O and CO2 sensors, B2B and 3D models of the 10th and 20th century.",
        "Mr and Mrs Lind, Ltd, bought 3 kg and 4 lb of flour for the bakery at the harbour on 1st May.",
        "Visit https://www.example.org/html/tbl.xls or send a fax to the office of the harbour in May.",
    ],
)
def test_usual_words_with_figures_are_no_bad_reading(text: str) -> None:
    assert not trust.is_misread(text)
