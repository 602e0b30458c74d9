"""Documents for the viewer: lines of all directions, a long one, and a rectangle known to the pixel."""

from __future__ import annotations

import io
from types import MappingProxyType
from typing import TYPE_CHECKING

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from PIL import Image, ImageDraw
from stored_items import put_blob, put_files, put_items

from vrag.corpus.converter import CorpusOptions
from vrag.geometry import Box, Size
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.types import Document, DocumentStatus, Item, ItemFacts, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LONG = 1000
"""Pages of the long document."""
PRINTED = 900, "A-9"
"""A page of it that has another number printed on it, and this number."""
LETTER = "/MediaBox [0 0 612 792]"
COLUMNS = ("The morning boat", "leaves at seven.", "Nobody applauds."), ("It is a modest", "kind of service.")
WORDS = (
    text_at(60, 720, "The harbour report of 2024", 20)
    + text_at(60, 690, "Net revenue grew by four", 12)
    + text_at(60, 675, "per cent over the year.", 12)
    + text_at(60, 640, "Caf\\351 and cr\\350me: R\\311SUM\\311", 12)
    + "".join(text_at(60, 600 - 16 * row, line, 12) for row, line in enumerate(COLUMNS[0]))
    + "".join(text_at(320, 600 - 16 * row, line, 12) for row, line in enumerate(COLUMNS[1]))
)
SIDEWAYS = "BT /F1 14 Tf 0 1 -1 0 300 200 Tm (Share of net revenue upwards) Tj ET\n" + text_at(
    60, 700, "Upright", 14
)
UPRIGHT_BY_ROTATION = "BT /F1 14 Tf 0 1 -1 0 200 100 Tm (Net revenue on a turned page) Tj ET\n"
UPSIDE_DOWN = text_at(60, 700, "Net revenue of a page", 14) + text_at(60, 660, "that lies upside down", 14)
SPOT = (0.25, 0.5, 0.5, 0.625)
"""Of the black rectangle on a page, in fractions of it."""
SPOTTED = "0 0 0 rg 153 297 153 99 re f\n" + text_at(60, 720, "A black rectangle", 12)
HEBREW = "שלום עולם 2024", "ביקורת הנמל"
MIXED = ("Harbour", 0.1, 0.3), ("שלום", 0.55, 0.65), ("עולם", 0.4, 0.5), ("Office", 0.7, 0.85)
"""A line that begins at the left, with two words that run the other way, and their left and right sides."""
LONG_TEXT = "Page {} of the log. Fog at noon, net revenue unknown."


def build(place: Path, folder: Path) -> Collection:
    """Makes the collection of all of them."""
    folder.mkdir()
    turned = PdfPage(UPRIGHT_BY_ROTATION, f"{LETTER} /Rotate 90")
    pages = (PdfPage(WORDS), PdfPage(SIDEWAYS), turned, PdfPage(SPOTTED))
    (folder / "words.pdf").write_bytes(pdf_bytes(*pages))
    (folder / "other.pdf").write_bytes(pdf_bytes(PdfPage(text_at(60, 700, "Another document", 12))))
    upside_down = PdfPage(UPSIDE_DOWN, f"{LETTER} /Rotate 180")
    (folder / "upside-down.pdf").write_bytes(pdf_bytes(upside_down))
    notes = "\n\n".join(
        f"## Part {n}\n\nThe ferry of part {n} has a net revenue. {'Fog. ' * 150}" for n in range(3)
    )
    (folder / "notes.md").write_text(f"# Notes\n\n{notes}\n")
    collection = Collection.create(place, CorpusOptions(ocr="never", workers=1))
    assert add(collection, [folder]).failed == 0
    _insert(collection, folder / "hebrew.pdf", [_hebrew()])
    _insert(collection, folder / "long.pdf", [_log(number) for number in range(1, LONG + 1)], dict([PRINTED]))
    return collection


def _hebrew() -> tuple[str, list[Word]]:
    """Lines that begin at the right of a page of 1000 by 1400 pixels."""
    text, words = "", list[Word]()
    for row, line in enumerate(HEBREW):
        at = 0.9
        for word in line.split():
            text += "" if not text else "\n" if at == 0.9 else " "
            width = 0.025 * len(word)
            box = Box.unit(at - width, 0.1 + 0.05 * row, at, 0.125 + 0.05 * row)
            words.append(Word(len(text), len(text) + len(word), box))
            text += word
            at -= width + 0.015
    for number, (word, left, right) in enumerate(MIXED):
        text += " " if number else "\n"
        words.append(Word(len(text), len(text) + len(word), Box.unit(left, 0.2, right, 0.225)))
        text += word
    return text, words


def _log(number: int) -> tuple[str, list[Word]]:
    text, words, at = LONG_TEXT.format(number), list[Word](), 0.1
    start = 0
    for word in text.split():
        start = text.index(word, start)
        width = 0.012 * len(word)
        words.append(Word(start, start + len(word), Box.unit(at, 0.1, at + width, 0.12)))
        start += len(word)
        at += width + 0.008
    return text, words


def _insert(
    collection: Collection,
    file: Path,
    pages: list[tuple[str, list[Word]]],
    labels: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Adds a document whose file is gone; its pages share one picture."""
    name = file.name
    document = name.encode().hex().ljust(64, "0")
    size = Size(1000, 1400)
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle((100, 140, 900, 170), outline="gray")
    buffer = io.BytesIO()
    image.save(buffer, "JPEG")
    picture = put_blob(collection, buffer.getvalue())
    items = [
        Item(
            id=item_id(document, ordinal),
            document=document,
            document_name=name,
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text=text,
            words=tuple(words),
            text_source=TextSource.LAYER,
            size=size,
            image=picture,
            facts=ItemFacts(label=labels.get(ordinal, "")),
        )
        for ordinal, (text, words) in enumerate(pages, 1)
    ]
    put_items(collection, items)
    row = Document(
        path=str(file),
        id=document,
        name=name,
        size=1,
        mtime_ns=1,
        status=DocumentStatus.READY,
        items=len(items),
    )
    put_files(collection, [(row, len(items))])
