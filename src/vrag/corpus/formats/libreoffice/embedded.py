"""Embedded documents that LibreOffice does not print: whole ones of Word (`w:altChunk`), and objects."""

from __future__ import annotations

import zipfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, cast

from vrag.corpus.formats.libreoffice.embedded_objects import find_unread_objects
from vrag.corpus.formats.libreoffice.xml_parts import ARCHIVE_ERRORS, parse_xml
from vrag.corpus.formats.sections import plain_sections
from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.sniff import decode
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from typing import BinaryIO

    from vrag.corpus.formats.texts.outline import Section

RELATIONS = "word/_rels/document.xml.rels"
PRINTED_SUFFIXES = frozenset({".docx", ".docm", ".dotx", ".dotm"})
HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
HEADING = "Embedded document"
UNREAD = (
    "The document embeds another one ({}), which is not read. Open it in Word, save it, and add it again."
)
UNREAD_LIST = "The document may embed others, which are not read. Open it in Word, save it, and add it again."
MAX_BYTES = 16 * 2**20
"""Unpacked bytes of a list of relations, or of an embedded document."""


class EmbeddedTexts(NamedTuple):
    """The embedded documents that are not printed."""

    sections: tuple[Section, ...] = ()
    unread: tuple[str, ...] = ()
    """Sentences about those that are not read."""


def read_embedded(file: BinaryIO) -> EmbeddedTexts:
    """Read the embedded web pages and texts of a document of Word, and tell of what else is not seen."""
    sections: list[Section] = []
    unread: list[str] = []
    try:
        with zipfile.ZipFile(file) as archive:
            try:
                names = _embedded_names(archive)
            except CorpusError:
                return EmbeddedTexts((), (UNREAD_LIST,))
            unread += find_unread_objects(archive)
            for name in names:
                try:
                    sections += _sections(archive, name)
                except (CorpusError, *ARCHIVE_ERRORS):
                    unread.append(UNREAD.format(PurePosixPath(name).suffix or "of an unknown kind"))
    except (zipfile.BadZipFile, ValueError):
        return EmbeddedTexts()
    return EmbeddedTexts(tuple(sections), tuple(dict.fromkeys(unread)))


def _embedded_names(archive: zipfile.ZipFile) -> list[str]:
    """Return the paths of embedded documents that LibreOffice does not print.

    Raises `CorpusError` if their list is damaged or too large.
    """
    if RELATIONS not in archive.NameToInfo:
        return []
    if archive.getinfo(RELATIONS).file_size > MAX_BYTES:
        raise CorpusError("It is too large.")
    with archive.open(RELATIONS) as part:
        relations = parse_xml(cast("BinaryIO", part))
    targets = [each.get("Target", "") for each in relations if each.get("Type", "").endswith("/aFChunk")]
    names = [target[1:] if target.startswith("/") else f"word/{target}" for target in targets]
    return [name for name in names if PurePosixPath(name).suffix.lower() not in PRINTED_SUFFIXES]


def _sections(archive: zipfile.ZipFile, name: str) -> list[Section]:
    """Read one embedded document. Raises `CorpusError` if it is of a kind that is not read, or too large."""
    suffix = PurePosixPath(name).suffix.lower()
    is_html = suffix in HTML_SUFFIXES
    if name not in archive.NameToInfo or not (is_html or suffix == ".txt"):
        raise CorpusError("It is of a kind that is not read.")
    if archive.getinfo(name).file_size > MAX_BYTES:
        raise CorpusError("It is too large.")
    text = decode(archive.read(name))
    found = html_page(text)[0] if is_html else plain_sections(text)
    return [section._replace(headings=(HEADING, *section.headings)) for section in found]
