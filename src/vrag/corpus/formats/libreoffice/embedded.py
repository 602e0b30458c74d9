"""Parts of documents that LibreOffice does not print: documents in Word (`w:altChunk`), objects, SmartArt.

Objects are those of an Office Open XML file of which its pages show an icon, or nothing. One that is drawn
shows what its author wanted people to see of it, and that is read from the page.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, cast

from vrag.corpus.formats.libreoffice.xml_parts import parse_xml
from vrag.corpus.formats.sections import plain_sections
from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.formats.texts.outline import Section
from vrag.corpus.sniff import ARCHIVE_ERRORS, decode
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

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

DIAGRAM, WORKBOOK = re.compile(r"xl/diagrams/data\d*\.xml"), "xl/workbook.xml"
DIAGRAM_HEADING = "Diagram"
UNREAD_DIAGRAM = (
    "The workbook has diagrams (SmartArt), which are not read. Save its sheets as PDF in Excel, and add that."
)

MAX_LIST_BYTES, MAX_PART_BYTES = 2**20, 64 * 2**20
"""Unpacked bytes of a list of relations, and of a part with objects, beyond which it is not read."""
MAX_LISTS = 2000
KINDS = ("/package", "/oleObject")
"""Ends of the types of relations that lead to objects."""
ELEMENTS = frozenset({"OLEObject", "oleObj", "oleObject"})
"""Local names of the elements that place an object: of Word, PowerPoint and Excel."""
ICON_ATTRIBUTES = (
    ("DrawAspect", "Icon"),
    ("dvAspect", "DVASPECT_ICON"),
    ("showAsIcon", "1"),
    ("showAsIcon", "true"),
)
UNREAD_OBJECT = (
    "The document has an embedded document ({}) that is not read. "
    "Open it there, save it as a file, and add it."
)
UNREAD_OBJECTS = (
    "The document may have embedded documents, which are not read. "
    "Open them, save them as files, and add them."
)


class EmbeddedTexts(NamedTuple):
    """The embedded documents and the diagrams that are not printed."""

    sections: tuple[Section, ...] = ()
    unread: tuple[str, ...] = ()
    """Sentences about those that are not read."""


def read_embedded(file: BinaryIO) -> EmbeddedTexts:
    """Read embedded web pages and texts in Word, and diagrams in Excel, and tell of what else is not seen."""
    sections: list[Section] = []
    unread: list[str] = []
    try:
        with zipfile.ZipFile(file) as archive:
            try:
                names = _embedded_names(archive)
            except CorpusError:
                return EmbeddedTexts((), (UNREAD_LIST,))
            unread += _find_unread_objects(archive)
            try:
                sections += _read_diagrams(archive)
            except (CorpusError, *ARCHIVE_ERRORS):
                unread.append(UNREAD_DIAGRAM)
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


def _read_diagrams(archive: zipfile.ZipFile) -> list[Section]:
    """Read the diagrams of a workbook.

    Raises `CorpusError` if they are damaged or too large, or some sheet is hidden: they may be on that one.
    """
    names = [name for name in archive.namelist() if DIAGRAM.fullmatch(name)]
    if not names:
        return []
    sheets = _read(archive, WORKBOOK, MAX_PART_BYTES).iter()
    if any(each.get("state", "visible") != "visible" for each in sheets if _local(each.tag) == "sheet"):
        raise CorpusError("Some sheets are hidden.")
    texts = (_read_paragraphs(_read(archive, name, MAX_PART_BYTES)) for name in names)
    return [Section((DIAGRAM_HEADING,), text) for text in texts if text]


def _read_paragraphs(root: Element) -> str:
    """Return the paragraphs of drawn text in a part, a line each."""
    paragraphs = (each for each in root.iter() if _local(each.tag) == "p")
    lines = ("".join(run.text or "" for run in each.iter() if _local(run.tag) == "t") for each in paragraphs)
    return "\n".join(filter(None, map(str.strip, lines)))


class _PlacedObject(NamedTuple):
    relation: str
    program: str
    is_drawn: bool


def _find_unread_objects(archive: zipfile.ZipFile) -> list[str]:
    """Return sentences for people about the embedded objects of a file that its pages do not show."""
    found: list[str] = []
    lists = [name for name in archive.namelist() if name.endswith(".rels") and "/charts/" not in name]
    for name in lists[:MAX_LISTS]:
        try:
            found += _list_unread(archive, name)
        except (CorpusError, *ARCHIVE_ERRORS):
            found.append(UNREAD_OBJECTS)
    return list(dict.fromkeys(found))


def _list_unread(archive: zipfile.ZipFile, name: str) -> list[str]:
    folder, base = posixpath.split(name)
    part = posixpath.join(posixpath.dirname(folder), base.removesuffix(".rels"))
    if part not in archive.NameToInfo:
        return []
    targets = {
        each.get("Id", ""): each.get("Target", "")
        for each in _read(archive, name, MAX_LIST_BYTES)
        if each.get("Type", "").endswith(KINDS) and each.get("TargetMode") != "External"
    }
    root = _read(archive, part, MAX_PART_BYTES) if targets else None
    objects = _list_objects(root) if root is not None else ()
    return [
        UNREAD_OBJECT.format(_name_kind(targets[each.relation], each.program))
        for each in objects
        if each.relation in targets and not each.is_drawn
    ]


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> Element:
    """Parse a part. Raises `CorpusError` if it is damaged or too large."""
    if archive.getinfo(name).file_size > limit:
        raise CorpusError("A part of the document is too large.")
    with archive.open(name) as part:
        return parse_xml(cast("BinaryIO", part))


def _list_objects(root: Element) -> Iterator[_PlacedObject]:
    """Yield the objects in a part; one in an element `object` of Word is drawn if this has a picture."""
    unseen = {
        child
        for each in root.iter()
        if _local(each.tag) == "object" and not any(_local(inner.tag) == "imagedata" for inner in each.iter())
        for child in each
    }
    for each in root.iter():
        if _local(each.tag) in ELEMENTS:
            relation = next((value for key, value in each.items() if key.endswith("}id")), "")
            is_icon = any(each.get(key) == value for key, value in ICON_ATTRIBUTES)
            program = each.get("ProgID") or each.get("progId") or ""
            yield _PlacedObject(relation, program, not is_icon and each not in unseen)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _name_kind(target: str, program: str) -> str:
    """Return what people know an object by: the suffix of its file, or else the program that made it."""
    suffix = posixpath.splitext(target)[1].lower()
    return suffix if suffix and suffix != ".bin" else program or "of an unknown kind"
