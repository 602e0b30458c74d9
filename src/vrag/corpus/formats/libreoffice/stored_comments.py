"""Comments of Excel and PowerPoint files that LibreOffice does not store, or only as a note about them.

These are the threads of Excel, of which a workbook has a replacement for older programs ("Your version of
Excel allows you to read this threaded comment …"), the authors of its other comments, and the comments of
slides: modern ones, and those of programs whose authors LibreOffice does not know.
"""

from __future__ import annotations

import posixpath
import zipfile
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from vrag.corpus.formats.libreoffice.xml_parts import parse_xml
from vrag.corpus.sniff import ARCHIVE_ERRORS
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

MAX_BYTES = 16 * 2**20
"""Unpacked bytes of one part; a larger one is not read."""
MAX_COMMENTS = 10_000
THREAD_AUTHOR = "tc="
"""Beginning of the author of a plain comment that stands for a thread, in older programs."""
RELATION_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
STRICT_RELATION_ID = "{http://purl.oclc.org/ooxml/officeDocument/relationships}id"


class StoredComments(NamedTuple):
    """Comments of a workbook or a presentation, each with its author and its day."""

    cells: Mapping[tuple[str, str], Sequence[str]] = MappingProxyType({})
    """Comments and threads by the name of the sheet and the address of the cell: ("Budget", "C14")."""
    slides: Mapping[int, Sequence[str]] = MappingProxyType({})
    """Comments by the number of the slide, from 1, among those that are shown."""


def read_stored_comments(file: BinaryIO) -> StoredComments:
    """Read the comments of an Office Open XML file; none of another file, or of one that is damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            package = _Package(archive)
            return StoredComments(dict(_cell_comments(package)), dict(_slide_comments(package)))
    except (CorpusError, *ARCHIVE_ERRORS):
        return StoredComments()


class _Package:
    """The parts of an Office Open XML file, and which of them belongs to which."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def root(self, name: str) -> Element | None:
        """Parse a part; None if there is none. Raises `CorpusError` if it is refused or too large."""
        if name not in self._archive.NameToInfo:
            return None
        if self._archive.getinfo(name).file_size > MAX_BYTES:
            raise CorpusError("A part of the document is too large.")
        with self._archive.open(name) as part:
            return parse_xml(cast("BinaryIO", part))

    def related(self, name: str) -> dict[str, tuple[str, str]]:
        """Return, by their ids, the kinds and the paths of the parts that belong to a part."""
        folder, base = posixpath.split(name)
        relations = self.root(f"{folder}/_rels/{base}.rels")
        found: dict[str, tuple[str, str]] = {}
        for each in relations if relations is not None else ():
            if each.get("TargetMode") != "External":
                path = posixpath.normpath(posixpath.join("/" + folder, each.get("Target", "")))
                found[each.get("Id", "")] = each.get("Type", "").rsplit("/", 1)[-1].casefold(), path[1:]
        return found

    def listed(self, name: str, element: str) -> Iterator[tuple[Element, str]]:
        """Yield the elements of a part that name another one, such as its sheets, with the paths of these."""
        root, related = self.root(name), self.related(name)
        for each in root.iter() if root is not None else ():
            if _local(each) == element:
                number = each.get(RELATION_ID) or each.get(STRICT_RELATION_ID) or ""
                if number in related:
                    yield each, related[number][1]

    def of_kind(self, name: str, *kinds: str) -> Iterator[Element]:
        """Yield the roots of the parts of some kinds that belong to a part."""
        for kind, path in self.related(name).values():
            root = self.root(path) if kind in kinds else None
            if root is not None:
                yield root


def _local(element: Element) -> str:
    return element.tag.rsplit("}", 1)[-1]


def _named(element: Element, *names: str) -> Iterator[Element]:
    """Yield the elements of some names within another one; their namespaces differ by version."""
    return (each for each in element.iter() if _local(each) in names)


def _comment(author: str, moment: str, text: str) -> str:
    head = ", ".join(filter(None, (author, moment.partition("T")[0])))
    return f"{head}: {text}" if head else text


def _cell_comments(package: _Package) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield the comments of a workbook with the names of their sheets and the addresses of their cells."""
    workbook = "xl/workbook.xml"
    persons = {
        person.get("id", ""): person.get("displayName", "")
        for root in package.of_kind(workbook, "person")
        for person in _named(root, "person")
    }
    for worksheet, path in package.listed(workbook, "sheet"):
        found: dict[str, list[str]] = {}
        for address, comment in [*_threads(package, path, persons), *_notes(package, path)]:
            found.setdefault(address, []).append(comment)
        for address, comments in found.items():
            yield (worksheet.get("name", ""), address), comments


def _threads(package: _Package, path: str, persons: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the comments of the threads of a sheet with the addresses of their cells."""
    for root in package.of_kind(path, "threadedcomment"):
        for each in islice(_named(root, "threadedComment"), MAX_COMMENTS):
            text = "".join(next(_named(each, "text"), each).itertext()).strip()
            if text:
                author = persons.get(each.get("personId", ""), "")
                yield each.get("ref", ""), _comment(author, each.get("dT", ""), text)


def _notes(package: _Package, path: str) -> Iterator[tuple[str, str]]:
    """Yield the plain comments of a sheet; those that stand for a thread are left out."""
    for root in package.of_kind(path, "comments"):
        authors = ["".join(author.itertext()).strip() for author in _named(root, "author")]
        for each in islice(_named(root, "comment"), MAX_COMMENTS):
            number = each.get("authorId", "")
            author = authors[int(number)] if number.isdecimal() and int(number) < len(authors) else ""
            text = "".join("".join(run.itertext()) for run in _named(each, "t")).strip()
            if text and not author.startswith(THREAD_AUTHOR):
                yield each.get("ref", ""), _comment("" if text.startswith(author) else author, "", text)


def _slide_comments(package: _Package) -> Iterator[tuple[int, list[str]]]:
    """Yield the comments of the slides that are shown, with their numbers."""
    presentation = "ppt/presentation.xml"
    authors = {
        author.get("id", ""): author.get("name", "")
        for root in package.of_kind(presentation, "commentauthors", "authors")
        for author in _named(root, "cmAuthor", "author")
    }
    number = 0
    for _, path in package.listed(presentation, "sldId"):
        slide = package.root(path)
        if slide is None or slide.get("show") in {"0", "false"}:
            continue
        number += 1
        comments = [
            _comment(authors.get(each.get("authorId", ""), ""), _moment(each), text)
            for root in package.of_kind(path, "comments")
            for each in islice(_named(root, "cm", "reply"), MAX_COMMENTS)
            if (text := _slide_comment_text(each))
        ]
        if comments:
            yield number, comments


def _moment(comment: Element) -> str:
    return comment.get("dt") or comment.get("created") or ""


def _slide_comment_text(comment: Element) -> str:
    """Return the text of a comment without its replies: plain, or paragraphs in a text body."""
    for child in comment:
        if _local(child) == "text":
            return "".join(child.itertext()).strip()
        if _local(child) == "txBody":
            lines = ("".join(paragraph.itertext()).strip() for paragraph in _named(child, "p"))
            return "\n".join(filter(None, lines))
    return ""
