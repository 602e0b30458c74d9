from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
import pytest
from PIL import Image

from corpus.annotated_pdfs import LABEL, annotated_page, annotation, appearance, text_field, widget
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from corpus.test_pdf import read_pages
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.pdf import PdfFile, read_layer
from vrag.corpus.formats.pdf_text.field_text import FieldText, FieldWord, insert_fields, read_with_annotations
from vrag.corpus.formats.pdfium import Pdf
from vrag.geometry import Box
from vrag.reading.page_text import read_page_text
from vrag.reading.tables.finder import find_tables

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

OPTIONS = CorpusOptions(ocr="never")
TYPED = "BT /Helv 11 Tf 2 5 Td (%s) Tj ET"
DRAWN_BY_7 = "/AP << /N 7 0 R >>"


def read_item(tmp_path: Path, data: bytes) -> Item:
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    with PdfFile(read_source(path), ConversionContext(tmp_path / "items", OPTIONS)) as file:
        assert file.count == 1
        return file.item(1)


def contrast(tmp_path: Path, item: Item, word: str) -> int:
    """Contrast of the picture in the box of a word, from 0 to 255."""
    assert item.image
    assert item.size
    (box,) = (each.box for each in item.words if item.text[each.start : each.end] == word)
    with Image.open(tmp_path / "items" / item.image) as picture:
        pixels = np.asarray(picture.convert("L")).astype(int)
    width, height = item.size
    part = pixels[
        int(box.y1 * height) : int(box.y2 * height) + 1, int(box.x1 * width) : int(box.x2 * width) + 1
    ]
    return int(part.max() - part.min())


@pytest.mark.parametrize("form", ["", "/NeedAppearances true"])
@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize(
    "boxes", ["/MediaBox [0 0 612 792]", "/MediaBox [0 0 612 792] /CropBox [40 400 600 760]"]
)
def test_a_value_stands_behind_its_label_and_in_the_picture(
    tmp_path: Path, form: str, turn: int, boxes: str
) -> None:
    data = annotated_page(text_field(), entries=f"{boxes} /Rotate {turn}", form=form)
    item = read_item(tmp_path, data)
    if turn == 0:
        assert item.text == f"{LABEL} HM-552-9071"
    assert sorted(item.text.split()) == sorted([*LABEL.split(), "HM-552-9071"])
    assert contrast(tmp_path, item, "HM-552-9071") > 100
    assert all(item.text[word.start : word.end].strip() for word in item.words)


def test_each_value_follows_the_label_of_its_line(tmp_path: Path) -> None:
    content = (
        text_at(60, 704, "Name", 12) + text_at(60, 664, "Boat", 12) + text_at(60, 600, "Sign below.", 12)
    )
    fields = [
        text_field("/V (Ilse Varga)"),
        text_field("/V (Kittiwake)", "260 660 480 680", "b"),
    ]
    item = read_item(tmp_path, annotated_page(*fields, content=content))
    assert item.text == "Name Ilse Varga\nBoat Kittiwake\nSign below."


def test_a_field_below_its_label_is_a_line_of_its_own(tmp_path: Path) -> None:
    content = text_at(60, 704, "Name of the boat", 12) + text_at(60, 600, "Sign below.", 12)
    item = read_item(
        tmp_path, annotated_page(text_field("/V (Kittiwake)", "60 660 300 680"), content=content)
    )
    assert item.text == "Name of the boat\nKittiwake\nSign below."


def test_a_row_of_fields_stands_behind_its_one_label(tmp_path: Path) -> None:
    heads = "".join(text_at(x, 704, head, 12) for x, head in ((200, "Item"), (320, "Count"), (440, "Price")))
    rows = text_at(60, 664, "Row 1", 12) + text_at(60, 634, "Row 2", 12)
    fields = [
        text_field(
            f"/V (r{row}c{column})",
            f"{80 + 120 * column} {y} {190 + 120 * column} {y + 20}",
            f"{row}{column}",
        )
        for row, y in ((1, 660), (2, 630))
        for column in (1, 2, 3)
    ]
    item = read_item(tmp_path, annotated_page(*fields, content=heads + rows))
    assert item.text == "Item Count Price\nRow 1 r1c1 r1c2 r1c3\nRow 2 r2c1 r2c2 r2c3"


def test_a_field_within_a_sentence_is_read_there(tmp_path: Path) -> None:
    content = text_at(60, 704, "I, the owner", 12) + text_at(300, 704, "agree.", 12)
    item = read_item(tmp_path, annotated_page(text_field("/V (Ilse)", "160 700 280 720"), content=content))
    assert item.text == "I, the owner Ilse agree."


def test_the_chosen_entry_of_a_list_is_read(tmp_path: Path) -> None:
    field = widget("/FT /Ch /Ff 131072 /Opt [[(1) (Oak jetty)] [(2) (Elm jetty)]] /V (2)")
    assert read_item(tmp_path, annotated_page(field)).text == f"{LABEL} Elm jetty"


def test_letters_in_cells_of_their_own_are_one_word(tmp_path: Path) -> None:
    field = text_field("/V (HM5529071) /Ff 16777216 /MaxLen 12")
    assert read_item(tmp_path, annotated_page(field)).text == f"{LABEL} HM5529071"


def test_a_field_of_several_lines_is_read_line_by_line(tmp_path: Path) -> None:
    field = text_field(r"/V (First line\nSecond line) /Ff 4096", "260 640 480 720")
    lines = read_item(tmp_path, annotated_page(field)).text.splitlines()
    assert lines == [f"{LABEL} First line", "Second line"]


@pytest.mark.parametrize("form", ["", "/NeedAppearances true"])
def test_the_text_is_what_the_picture_shows_of_a_field_with_another_appearance(
    tmp_path: Path, form: str
) -> None:
    """A viewer draws the appearance again only where the form asks for it."""
    drawing = appearance(TYPED % "Old")
    data = annotated_page(text_field(f"/V (New) {DRAWN_BY_7}"), extra=(drawing,), form=form)
    item = read_item(tmp_path, data)
    shown = "New" if form else "Old"
    assert item.text == f"{LABEL} {shown}"
    assert contrast(tmp_path, item, shown) > 100


@pytest.mark.parametrize(("state", "mark"), [("Yes", "☑"), ("Off", "☐")])
def test_a_check_box_has_a_mark_of_its_state_before_its_label(tmp_path: Path, state: str, mark: str) -> None:
    drawings = "/AP << /N << /Yes 7 0 R >> >>"
    box = widget(f"/FT /Btn /V /{state} /AS /{state} {drawings}", "40 702 52 714")
    item = read_item(tmp_path, annotated_page(box, extra=(appearance(TYPED % "4", font="ZapfDingbats"),)))
    assert item.text == f"{mark} {LABEL}"


def test_radio_buttons_have_marks_of_their_states(tmp_path: Path) -> None:
    content = text_at(60, 704, "Full cover", 12) + text_at(60, 674, "Third party", 12)
    drawings = "/AP << /N << /{0} 8 0 R >> >>"
    buttons = [
        widget(f"/FT /Btn /Ff 49152 /V /full /AS /full {drawings.format('full')}", "40 702 52 714"),
        widget(f"/FT /Btn /Ff 49152 /V /full /AS /Off {drawings.format('third')}", "40 672 52 684", "b"),
    ]
    data = annotated_page(*buttons, content=content, extra=(appearance("0 0 12 12 re f", "0 0 12 12"),))
    assert read_item(tmp_path, data).text == "◉ Full cover\n○ Third party"


@pytest.mark.parametrize(
    "entries", ["/Contents (Paid in full) /DA (/Helv 11 Tf 0 g)", f"/Contents (unseen) {DRAWN_BY_7}"]
)
def test_typed_text_is_read_as_it_is_drawn(tmp_path: Path, entries: str) -> None:
    data = annotated_page(annotation("FreeText", entries), extra=(appearance(TYPED % "Paid in full"),))
    item = read_item(tmp_path, data)
    assert item.text == f"{LABEL} Paid in full"
    assert contrast(tmp_path, item, "Paid") > 100


@pytest.mark.parametrize("line", ["." * 60, "_" * 40, ". " * 30])
def test_text_typed_on_a_line_to_write_on_follows_its_label(tmp_path: Path, line: str) -> None:
    typed = annotation("FreeText", "/Contents (Ilse Varga) /DA (/Helv 11 Tf 0 g)", "110 700 300 720")
    item = read_item(tmp_path, annotated_page(typed, content=text_at(60, 704, f"Name: {line}", 12)))
    assert item.text.startswith("Name: Ilse Varga")


def test_a_stamp_over_a_line_does_not_cut_it(tmp_path: Path) -> None:
    content = text_at(60, 704, "The fee is forty euros and payable in May.", 12)
    stamp = annotation("Stamp", DRAWN_BY_7, "100 700 320 720")
    item = read_item(tmp_path, annotated_page(stamp, content=content, extra=(appearance(TYPED % "VOID"),)))
    assert item.text == "The fee is forty euros and payable in May.\nVOID"


def test_the_content_of_a_comment_is_a_line_at_its_icon(tmp_path: Path) -> None:
    note = annotation("Text", "/Contents (Ask the yard about this.)", "500 700 520 720")
    item = read_item(tmp_path, annotated_page(note))
    assert item.text == f"{LABEL}\nAsk the yard about this."
    field = text_field("/V (Tern)", "60 640 200 660")
    beside = annotation("Text", "/Contents (Which Tern?)", "210 640 230 660")
    assert read_item(tmp_path, annotated_page(field, beside)).text == f"{LABEL}\nTern\nWhich Tern?"
    icon = Box.unit(500 / 612, 72 / 792, 520 / 612, 92 / 792)
    for word in item.words[-5:]:
        assert word.box.as_tuple() == pytest.approx(icon.as_tuple())
    assert [item.text[line.start : line.end] for line in read_page_text(item).lines] == item.text.splitlines()
    assert find_tables(item, None) == ()


@pytest.mark.parametrize("flags", [2, 32], ids=["hidden", "not for view"])
@pytest.mark.parametrize("subtype", ["Widget", "FreeText", "Stamp"])
def test_what_is_not_shown_is_not_read(tmp_path: Path, subtype: str, flags: int) -> None:
    entries = f"/F {flags} /FT /Tx /T (a) /V (Secret) /Contents (Secret) /DA (/Helv 11 Tf 0 g) {DRAWN_BY_7}"
    data = annotated_page(annotation(subtype, entries), extra=(appearance(TYPED % "Secret"),))
    assert read_item(tmp_path, data).text == LABEL


@pytest.mark.parametrize("subtype", ["Link", "Highlight", "Underline", "Popup"])
def test_marks_on_the_content_and_links_add_nothing(tmp_path: Path, subtype: str) -> None:
    entries = "/Contents (A remark) /QuadPoints [60 720 200 720 60 700 200 700]"
    item = read_item(tmp_path, annotated_page(annotation(subtype, entries, "60 700 200 720")))
    assert item.text == LABEL


def test_words_beyond_the_rectangle_of_a_field_are_cut_off_and_not_read(tmp_path: Path) -> None:
    drawing = appearance(TYPED % "seen" + " BT /Helv 11 Tf 300 5 Td (cut) Tj ET")
    data = annotated_page(text_field(f"/V (seen cut) {DRAWN_BY_7}"), extra=(drawing,))
    assert read_item(tmp_path, data).text == f"{LABEL} seen"


def test_values_on_an_empty_page_are_its_text(tmp_path: Path) -> None:
    fields = [text_field("/V (one)", "100 500 200 520"), text_field("/V (two)", "300 500 400 520", "b")]
    assert read_item(tmp_path, annotated_page(*fields, content="")).text == "one two"


def test_the_annotations_of_a_page_can_be_read_again() -> None:
    pdf = Pdf(annotated_page(text_field()))
    with pdf.page(1) as page:
        first = read_with_annotations(page, read_layer)
        assert read_with_annotations(page, read_layer) == first
    pdf.close()
    assert first.text == f"{LABEL} HM-552-9071"


class CountedFile:
    """A file that counts how often it is opened."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.count = path, 0
        path.write_bytes(data)

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        self.count += 1
        return self.path.open(mode)


@pytest.mark.parametrize(
    ("data", "count"), [(pdf_bytes(PdfPage(text_at(72, 700, "words"))), 1), (annotated_page(text_field()), 2)]
)
def test_a_page_without_annotations_opens_its_file_once(tmp_path: Path, data: bytes, count: int) -> None:
    file = CountedFile(tmp_path / "file.pdf", data)
    pdf = Pdf(file)
    with pdf.page(1) as page:
        read_with_annotations(page, read_layer)
    pdf.close()
    assert file.count == count


@pytest.mark.slow
def test_a_page_with_annotations_gives_the_same_whatever_was_read_before_it(tmp_path: Path) -> None:
    """In a process of its own: PDFium is started anew only where nothing is open."""
    notes = [
        annotation("FreeText", f"/Contents ({words}) /DA (/Helv {size} Tf 0 g)")
        for words, size in (("Wide WWW", 18), ("iii", 9))
    ]
    pages = [
        PdfPage(text_at(72, 500, "Same words"), f"/MediaBox [0 0 612 792] /Annots [{note}]") for note in notes
    ]
    path = tmp_path / "file.pdf"
    path.write_bytes(pdf_bytes(*pages, PdfPage(text_at(72, 500, "Same words"))))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:

        def read(*ordinals: int) -> dict[int, tuple[Item, bytes]]:
            return process.submit(read_pages, path, ordinals).result()

        alone = read(1) | read(2) | read(3)
        assert alone[1][0].text == "Wide WWW\nSame words"
        assert read(1, 2, 3) == read(3, 2, 1) == read(2, 3, 1) == read(2, 1, 3, 1, 2) == alone


def test_words_are_inserted_where_they_stand_and_all_words_match_the_text() -> None:
    words = [
        FieldWord("", "Name", Box.unit(0.1, 0.1, 0.2, 0.12)),
        FieldWord(" ", "Boat", Box.unit(0.5, 0.1, 0.6, 0.12)),
        FieldWord("\n", "End", Box.unit(0.1, 0.5, 0.2, 0.52), angle=90),
        FieldWord(" ", "here", Box.unit(0.2, 0.5, 0.3, 0.52), angle=90),
    ]

    def entry(word: str, x: float, y: float) -> FieldText:
        box = Box.unit(x, y, x + 0.1, y + 0.02)
        return FieldText(box, words=[FieldWord("", word, box, 270 if word == "alone" else 0)])

    fields = [entry("Kittiwake", 0.65, 0.1), entry("Ilse", 0.25, 0.1), entry("alone", 0.1, 0.3)]
    page = insert_fields(words, fields)
    joined = page.text
    assert joined == "Name Ilse Boat Kittiwake\nalone\nEnd here"
    assert [joined[word.start : word.end] for word in page.words] == joined.split()
    assert [(joined[part.start : part.end], part.angle) for part in page.turned] == [
        ("alone", 270),
        ("End here", 90),
    ]
