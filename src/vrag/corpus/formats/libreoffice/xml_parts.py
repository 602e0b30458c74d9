"""XML of an OpenDocument file: parts of the archive, their elements, and the text in them.

The archive is what LibreOffice stored of a document that may be hostile; it is read in a restricted worker. A
part that declares a document type is refused, so that there are no entities but those of XML itself, and no
reference leads out of the part. Its bytes are bounded before it is unpacked.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, cast
from xml.etree.ElementTree import ParseError, TreeBuilder, XMLParser

from vrag.corpus.sniff import ARCHIVE_ERRORS
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

MAX_PART_BYTES = 256 * 2**20
"""Unpacked bytes of one part."""
_READ_BYTES = 2**20
MAX_REPEATED = 1000
"""Spaces that one element may stand for."""
NAMES = {
    "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
    "text": "urn:oasis:names:tc:opendocument:xmlns:text:1.0",
    "table": "urn:oasis:names:tc:opendocument:xmlns:table:1.0",
    "draw": "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0",
    "svg": "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0",
    "style": "urn:oasis:names:tc:opendocument:xmlns:style:1.0",
    "presentation": "urn:oasis:names:tc:opendocument:xmlns:presentation:1.0",
    "chart": "urn:oasis:names:tc:opendocument:xmlns:chart:1.0",
    "meta": "urn:oasis:names:tc:opendocument:xmlns:meta:1.0",
    "field": "urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0",
    "math": "http://www.w3.org/1998/Math/MathML",
    "dc": "http://purl.org/dc/elements/1.1/",
    "xlink": "http://www.w3.org/1999/xlink",
}
"""Prefixes of names in XML → their namespaces."""


def xml_name(name: str) -> str:
    """Return a name with its namespace, as the parser writes it.

    >>> xml_name("dc:date")
    '{http://purl.org/dc/elements/1.1/}date'
    """
    prefix, _, local = name.partition(":")
    return f"{{{NAMES[prefix]}}}{local}"


PARAGRAPHS = frozenset({xml_name("text:p"), xml_name("text:h")})
SPACES, TAB, LINE_BREAK = xml_name("text:s"), xml_name("text:tab"), xml_name("text:line-break")
NOT_SHOWN = frozenset(
    map(
        xml_name,
        (
            "office:annotation",
            "office:annotation-end",
            "text:tracked-changes",
            "text:note-citation",
            "svg:title",
            "svg:desc",
            "presentation:notes",
        ),
    )
)
"""Elements within others whose text is not that of the place where they stand."""


class _Builder(TreeBuilder):
    """A builder of elements that refuses document types, before any of their entities is read."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Refuse: the parser has found `<!DOCTYPE`."""
        del name, pubid, system
        raise CorpusError("A part of the document declares a document type.")


def parse_xml(file: BinaryIO) -> Element:
    """Parse XML. Raises `CorpusError` if it is damaged, or declares a document type."""
    parser = XMLParser(target=_Builder())  # noqa: S314 - without document types, in a restricted process
    try:
        while data := file.read(_READ_BYTES):
            parser.feed(data)
        return parser.close()
    except (ParseError, ValueError) as error:
        raise CorpusError(f"A part of the document is damaged: {error}.") from error


class XmlParts:
    """The parts of an OpenDocument file. Raises `CorpusError` if it is no archive."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            self._archive = zipfile.ZipFile(file)
        except ARCHIVE_ERRORS as error:
            raise CorpusError("The contents that LibreOffice stored are damaged.") from error

    def root(self, name: str) -> Element | None:
        """Parse a part; None if there is none. Raises `CorpusError` if it is refused or damaged."""
        if name not in self._archive.NameToInfo:
            return None
        if self._archive.getinfo(name).file_size > MAX_PART_BYTES:
            raise CorpusError(f"A part of the document unpacks to more than {MAX_PART_BYTES:,} bytes.")
        try:
            with self._archive.open(name) as part:
                return parse_xml(cast("BinaryIO", part))
        except ARCHIVE_ERRORS as error:
            raise CorpusError(f"A part of the document is damaged: {error}.") from error


def find_all(element: Element, name: str) -> Iterator[Element]:
    """Yield the elements of a name within another one, in order."""
    return element.iter(xml_name(name))


def attribute(element: Element, name: str) -> str:
    """Return the value of an attribute; "" if it is not there."""
    return str(element.get(xml_name(name), ""))


def repeated(element: Element, name: str) -> int:
    """Return how often an element stands there, by the attribute that says so."""
    value = attribute(element, name)
    return int(value) if value.isdecimal() and len(value) < 9 else 1


def shown_text(element: Element) -> str:
    """Return the text of an element as it is shown: a line for each paragraph."""
    lines = [_paragraph_text(each).strip() for each in _shown_paragraphs(element)]
    return "\n".join(filter(None, lines))


def _shown_paragraphs(element: Element) -> Iterator[Element]:
    """Yield the outermost paragraphs; what stands in one of them is part of its text."""
    if element.tag in PARAGRAPHS:
        yield element
        return
    for child in element:
        if child.tag not in NOT_SHOWN:
            yield from _shown_paragraphs(child)


def _paragraph_text(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        parts += [_inline_text(child), child.tail or ""]
    return "".join(parts)


def _inline_text(element: Element) -> str:
    match element.tag:
        case tag if tag in NOT_SHOWN:
            return ""
        case tag if tag == SPACES:
            return " " * min(repeated(element, "text:c"), MAX_REPEATED)
        case tag if tag == TAB:
            return "\t"
        case tag if tag == LINE_BREAK:
            return "\n"
        case tag if tag in PARAGRAPHS:  # of a frame within the paragraph
            return f"\n{_paragraph_text(element)}\n"
        case _:
            return _paragraph_text(element)
