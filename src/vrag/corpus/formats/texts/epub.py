"""Books in EPUB → the chapters in their order as passages, then a page for each picture.

An EPUB is a ZIP archive of XHTML. Its list of contents is read by the parser of HTML, which knows neither
entities nor external references of XML. A chapter that is encrypted, as in books from shops, is told as not
read.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.formats.texts.illustrated_text import (
    FigureContent,
    IllustratedText,
    PictureContent,
    decode_data_url,
    is_small_picture,
)
from vrag.corpus.formats.texts.outline import Section
from vrag.corpus.formats.texts.web.empty_elements import close_empty_elements
from vrag.corpus.sniff import ARCHIVE_ERRORS, decode
from vrag.errors import CorpusError, FileTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selectolax.lexbor import LexborNode

    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.formats.texts.web.figures import Figure

SUFFIXES = (".epub",)
CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
MAX_MEMBERS = 100_000
MAX_MEMBER_BYTES = 64 * 2**20
"""Unpacked bytes of one file of a book."""
MAX_TEXT_BYTES = 256 * 2**20
"""Unpacked bytes of all chapters together."""
MAX_LISTED = 20_000
"""Files that a list of contents names."""
FONTS = "http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"
"""Ways to hide fonts, which leave the text as it is."""
_HEADING = re.compile(r"<h[1-6][\s>]", re.IGNORECASE)
UNREAD = "The document has an encrypted chapter (DRM), {}, which is not read. A copy without DRM can be."
CHAPTERS = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})


class BookContents(NamedTuple):
    """The list of contents of a book."""

    title: str
    chapters: tuple[str, ...]
    """Names of its chapters in the archive, in reading order."""


class EpubFile(IllustratedText):
    """A book that was opened.

    Raises `FileTooLargeError` if it unpacks to too much, and `CorpusError` if it is damaged, encrypted or
    without words and pictures.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        with BookArchive(source) as archive:
            contents = archive.read_contents()
            figures: list[FigureContent] = []
            super().__init__(source, context, _read_chapters(archive, contents, figures), figures)


class BookArchive:
    """The files of a book."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._file = source.open()
        try:
            self._archive = zipfile.ZipFile(self._file)
        except ARCHIVE_ERRORS as error:
            self._file.close()
            raise CorpusError(f"The book is damaged: {error}.") from error
        self._members = {info.filename: info for info in self._archive.infolist()}
        if len(self._members) > MAX_MEMBERS:
            raise FileTooLargeError(f"The book has more than {MAX_MEMBERS:,} files.")
        self._unpacked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raises `CorpusError` if it is missing, damaged or too large."""
        info = self._members.get(name)
        if info is None:
            raise CorpusError(f"The book has no file {name[:200]}.")
        try:
            with self._archive.open(info) as member:
                data = member.read(MAX_MEMBER_BYTES + 1)
        except ARCHIVE_ERRORS as error:
            raise CorpusError(f"{name[:200]} is damaged: {error}.") from error
        self._unpacked += len(data)
        if len(data) > MAX_MEMBER_BYTES or self._unpacked > MAX_TEXT_BYTES:
            raise FileTooLargeError(f"The book unpacks to more than {MAX_TEXT_BYTES:,} bytes.")
        return data

    def size_of(self, name: str) -> int | None:
        """Return the bytes that a file says it unpacks to; None if there is no such file."""
        info = self._members.get(name)
        return None if info is None else info.file_size

    def open_picture(self, name: str) -> BytesIO:
        """Open a picture of the book, when the book itself may be closed."""
        with BookArchive(self._source) as archive:
            return BytesIO(archive.read(name))

    def read_contents(self) -> BookContents:
        """Read the list of contents. Raises `CorpusError` if it lists no chapter."""
        roots = [node.attributes.get("full-path") or "" for node in self._elements(CONTAINER, {"rootfile"})]
        name = next(filter(None, roots), "")
        items: dict[str, str] = {}
        spine: list[str] = []
        title = ""
        for node in self._elements(name, {"item", "itemref", "title"}):
            tag, attributes = _local_name(node), node.attributes
            if tag == "item" and attributes.get("media-type") in CHAPTERS:
                items[attributes.get("id") or ""] = attributes.get("href") or ""
            elif tag == "itemref":
                spine.append(attributes.get("idref") or "")
            elif tag == "title":
                title = title or " ".join(node.text().split())
        chapters = [_resolve(name, items[key]) for key in spine if key in items]
        if not chapters:
            raise CorpusError("The book lists no chapter.")
        return BookContents(title, tuple(dict.fromkeys(chapters[:MAX_LISTED])))

    def encrypted(self) -> frozenset[str]:
        """Return the names of the files that are encrypted, fonts left out."""
        if ENCRYPTION not in self._members:
            return frozenset()
        names: set[str] = set()
        method = ""
        for node in self._elements(ENCRYPTION, {"encryptionmethod", "cipherreference"}):
            if _local_name(node) == "encryptionmethod":
                method = node.attributes.get("algorithm") or ""
            elif method not in FONTS:
                names.add(unquote(node.attributes.get("uri") or ""))
        return frozenset(names)

    def _elements(self, name: str, wanted: set[str]) -> Iterator[LexborNode]:
        """Yield the elements of some names in a file of XML, in its order."""
        from selectolax.lexbor import LexborHTMLParser

        text = close_empty_elements(decode(self.read(name)))
        found = 0
        for node in LexborHTMLParser(text).css("*"):
            if _local_name(node) in wanted:
                found += 1
                if found > MAX_LISTED:
                    return
                yield node


def _local_name(node: LexborNode) -> str:
    return str(node.tag).rpartition(":")[2]


def _resolve(base: str, reference: str) -> str:
    """Return the name of a file in the archive that a reference in another one means."""
    path = unquote(urlsplit(reference).path)
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path)).lstrip("/")


def _read_chapters(
    archive: BookArchive, contents: BookContents, pictures: list[FigureContent]
) -> Iterator[Section]:
    """Yield the sections of the chapters below the title of the book, and add their pictures."""
    above = (contents.title,) if contents.title else ()
    encrypted = archive.encrypted()
    if encrypted.issuperset(contents.chapters):
        raise CorpusError("The book is encrypted (DRM): vrag cannot read it.")
    unread: list[str] = []
    for name in contents.chapters:
        if name in encrypted:
            unread.append(UNREAD.format(name))
            continue
        try:
            text = decode(archive.read(name))
        except FileTooLargeError:
            raise
        except CorpusError as error:
            unread.append(f"The document has a chapter that is not read: {error}")
            continue
        # A reader of books shows no title of a chapter beside its headings.
        with_title = _HEADING.search(text) is None
        sections, figures, _ = html_page(close_empty_elements(text), with_title=with_title)
        for section in sections:
            if section.text:
                yield section._replace(headings=(*above, *section.headings), unread=tuple(unread))
                unread = []
        pictures += _find_pictures(archive, name, figures, above)
    if unread:
        yield Section(above, contents.title or "(a book)", (), tuple(unread))


def _find_pictures(
    archive: BookArchive, document: str, figures: list[Figure], above: tuple[str, ...]
) -> Iterator[FigureContent]:
    for figure in figures:
        placed = figure._replace(headings=(*above, *figure.headings))
        content = _find_picture(archive, document, figure.reference)
        is_small = isinstance(content, PictureContent) and is_small_picture(content.open())
        is_lost = isinstance(content, str) and figure.is_decorative
        if content is not None and not is_small and not is_lost:
            yield FigureContent(placed, content)


def _find_picture(archive: BookArchive, document: str, reference: str) -> PictureContent | str | None:
    """Return the content of a picture, or why there is none; None if it is elsewhere or a drawing."""
    if reference.lower().startswith("data:"):
        return decode_data_url(reference)
    if urlsplit(reference).scheme or reference.startswith("//"):
        return None
    name = _resolve(document, reference)
    size = archive.size_of(name)
    if size is None:
        return "It is not in the book."
    if size > MAX_MEMBER_BYTES:
        return f"It has {size:,} bytes; the limit is {MAX_MEMBER_BYTES:,}."
    return PictureContent(partial(archive.open_picture, name), size, name)
