"""Small documents of each format: with a word that is read of it, and one of the file that nobody sees."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from corpus.annotated_pdfs import annotated_page, appearance, widget
from corpus.office_files import docx, open_document, rtf, word_run
from corpus.pdf_files import text_at
from corpus.texts.test_epub import book_bytes
from corpus.texts.test_mail import write_mail

if TYPE_CHECKING:
    from collections.abc import Callable

DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"
PRESENTATION = "urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"
COMMENT = (
    f'<office:annotation xmlns:dc="{DUBLIN_CORE}"><dc:creator>Ada</dc:creator><text:p>the lantern</text:p>'
    "</office:annotation>"
)


@dataclass(frozen=True)
class Sample:
    """A document with what is read of it."""

    data: Callable[[], bytes]
    seen: str
    """Words that are read of it; empty where only OCR reads some."""
    unseen: str = ""
    """A word of the file that nobody sees."""


def scan(kind: str) -> bytes:
    """A picture of a line of text, large enough for OCR."""
    image, file = Image.new("RGB", (640, 160), "white"), io.BytesIO()
    ImageDraw.Draw(image).text((40, 50), "Lantern on the pier", "black", font_size=44)
    image.save(file, kind)
    return file.getvalue()


def phone_picture(*pictures: Image.Image, **options: object) -> bytes:
    """A HEIC file of one picture or a series."""
    from pillow_heif import register_heif_opener  # pyright: ignore[reportUnknownVariableType]

    register_heif_opener()
    file = io.BytesIO()
    pictures[0].save(file, "HEIF", quality=90, save_all=True, append_images=pictures[1:], **options)
    return file.getvalue()


def pdf_page() -> bytes:
    """A page with a field, and white words."""
    field = widget("/FT /Tx /V (lantern) /AP << /N 7 0 R >>")
    content = text_at(60, 704, "Lamp", 12) + "1 1 1 rg " + text_at(60, 500, "unseen words", 12)
    drawing = appearance("BT /Helv 11 Tf 2 5 Td (lantern) Tj ET")
    return annotated_page(field, content=content, extra=(drawing,))


def word_text() -> bytes:
    """A text with a comment and hidden words."""
    reference = '<w:commentRangeStart w:id="1"/><w:r><w:commentReference w:id="1"/></w:r>'
    words = f"<w:p>{word_run('the lantern')}</w:p>"
    comment = f'<w:comment w:id="1" w:author="Ada" w:date="2026-05-03T10:00:00Z">{words}</w:comment>'
    body = f"<w:p>{word_run('Lamps')}{reference}</w:p><w:p>{word_run('unseen', '<w:vanish/>')}</w:p>"
    return docx(body, comment)


def sheet() -> bytes:
    """A sheet with a comment, and a hidden row."""
    cell = '<table:table-cell office:value-type="string">{}<text:p>{}</text:p></table:table-cell>'
    hidden = f'<table:table-row table:visibility="collapse">{cell.format("", "unseen")}</table:table-row>'
    row = f"<table:table-row>{cell.format(COMMENT, 'Lamps')}</table:table-row>"
    return open_document("spreadsheet", f'<table:table table:name="S">{row}{hidden}</table:table>')


def slide() -> bytes:
    """A slide with speaker notes."""
    frame = (
        '<draw:frame {} svg:x="2cm" svg:y="2cm" svg:width="20cm" svg:height="3cm"><draw:text-box>'
        "<text:p>{}</text:p></draw:text-box></draw:frame>"
    )
    note = frame.format('presentation:class="notes"', "the lantern")
    notes = f'<presentation:notes xmlns:presentation="{PRESENTATION}">{note}</presentation:notes>'
    shown = frame.format("", "Lamps")
    return open_document("presentation", f'<draw:page draw:name="p">{shown}{notes}</draw:page>')


def web_page() -> bytes:
    """A page with a hidden paragraph, and a picture of text."""
    picture = base64.b64encode(scan("PNG")).decode()
    return f'<p>The lantern</p><p hidden>unseen</p><img src="data:image/png;base64,{picture}">'.encode()


def mail(kind: str = "image", subtype: str = "png", name: str = "bay.png") -> bytes:
    """A message with an attachment of some kind: a picture of text."""
    message = write_mail(body="The lantern burns gas.")
    message.add_attachment(scan("PNG"), kind, subtype, filename=name)
    return bytes(message)


def mailbox() -> bytes:
    return b"From ada@lights.example Mon Jun  1 10:00:00 2026\n" + mail() + b"\n"


TEXT = b"# Lamps\n\nThe lantern burns gas.\n"
RECORD = b'{"lamp": "The lantern burns gas."}\n'
PICTURE_KINDS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".webp": "WEBP",
    ".bmp": "BMP",
    ".gif": "GIF",
    ".tif": "TIFF",
    ".tiff": "TIFF",
}
SAMPLES = {
    ".pdf": Sample(pdf_page, "lantern", "unseen"),
    **{suffix: Sample(partial(scan, kind), "") for suffix, kind in PICTURE_KINDS.items()},
    **dict.fromkeys((".html", ".htm", ".xhtml"), Sample(web_page, "lantern", "unseen")),
    **dict.fromkeys((".txt", ".md", ".markdown"), Sample(lambda: TEXT, "lantern")),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), Sample(lambda: RECORD, "lantern")),
    ".csv": Sample(lambda: b"Lamp,Range\nlantern,9\n", "Lamp"),
    ".tsv": Sample(lambda: b"Lamp\tRange\nlantern\t9\n", "Lamp"),
    ".eml": Sample(mail, "lantern"),
    ".mbox": Sample(mailbox, "lantern"),
    ".epub": Sample(book_bytes, "burns colza"),
}
OFFICE_SAMPLES = {
    ".docx": Sample(word_text, "the lantern", "unseen"),
    ".ods": Sample(sheet, "the lantern", "unseen"),
    ".odp": Sample(slide, "the lantern"),
    ".rtf": Sample(lambda: rtf("the lantern"), "the lantern"),
}
PHONE_SUFFIXES = (".heic", ".heif")
FILM_KINDS = {
    ".mp4": "mp4",
    ".mkv": "matroska",
    ".mov": "mov",
    ".webm": "matroska",
    ".m4v": "mp4",
    ".avi": "avi",
}
