"""HTML files → passage items, then a page item for each picture in the file or in its folder.

Pictures are taken from `data:` references and from files in the folder of the HTML file or below it, never
from the network and never from elsewhere on the disk: not by `..`, an absolute path, `file:` or a symbolic
link. Pictures in the network (`http:`, `//host`, a `<base>` that leads there), those smaller
than an icon, and missing ones that only decorate are left out silently; any other picture that cannot be read
fails with its reason, and the text stays.

A document is the bytes of its HTML file alone. Its pictures are therefore those that lay there when it was
added: a picture that changes later, or is put beside a copy of the same HTML file elsewhere, counts only when
the HTML file changes too, or is removed and added again. The alternative, an id over all files together,
would make a document's identity depend on files that come, go and fail on their own.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import warnings
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urljoin, urlsplit

from vrag.corpus.converter import OpenFile
from vrag.corpus.formats.image import open_picture, picture_item
from vrag.corpus.formats.sections import html_page
from vrag.corpus.formats.text import SEPARATOR, passage_item, passages, read_text
from vrag.corpus.neighbours import OUTSIDE
from vrag.errors import CorpusError
from vrag.geometry import IMAGE_FORMATS
from vrag.types import TextSource

if TYPE_CHECKING:
    from typing import BinaryIO

    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.formats.sections import Figure
    from vrag.types import Item

SUFFIXES = (".html", ".htm")
MIN_SIDE = 32
"""Pixels; a picture with a shorter side is a spacer, a line or an icon."""
MISSING = "It cannot be read: No such file or directory."
"""The reason for a picture that is not there."""


class _Neighbour(NamedTuple):
    """A picture in the folder of the file."""

    name: str
    """Its path relative to the folder."""
    identity: tuple[int, int]
    """Device and number of the file."""
    size: int
    """Bytes."""


class _FigureContent(NamedTuple):
    figure: Figure
    content: _Neighbour | bytes | str
    """Its file, its bytes, or the reason why it cannot be read."""


class HtmlFile(OpenFile):
    """An HTML file that was read.

    Raises `FileTooLargeError` if it has more than 64 MiB, and `CorpusError` if it is not text, or has neither
    words nor pictures.
    """

    reads_neighbours = True

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source, self._context = source, context
        sections, figures, base = html_page(read_text(source))
        self._passages = passages(sections, context.options)
        self._pictures: list[_FigureContent] = []
        seen: set[tuple[int, int] | bytes | str] = set()
        for figure in figures:  # each picture once; failures each for itself
            content = self._find_content(figure.reference, base)
            if content is None or (content == MISSING and figure.is_decorative):
                continue
            key: tuple[int, int] | bytes | str = figure.reference
            if not isinstance(content, str):
                key = content if isinstance(content, bytes) else content.identity
            if key not in seen:
                seen.add(key)
                self._pictures.append(_FigureContent(figure, content))
        self.count = len(self._passages) + len(self._pictures)
        if not self.count:
            raise CorpusError("There is neither text nor a picture in the file.")

    def item(self, ordinal: int) -> Item:
        """Make the item of a passage or, after the last of these, of a picture."""
        if ordinal <= len(self._passages):
            return passage_item(self._passages[ordinal - 1], self._source, ordinal)
        figure, content = self._pictures[ordinal - len(self._passages) - 1]
        try:
            item = self._picture_item(content, ordinal)
        except CorpusError as error:
            reference = figure.reference
            name = reference[:40] + "…" if len(reference) > 80 else reference
            raise CorpusError(f"{name}: {error}") from error
        item = replace(item, heading=SEPARATOR.join(filter(None, figure.headings)))
        if item.text or not figure.text:
            return item
        return replace(item, text=figure.text, text_source=TextSource.FILE)

    def _picture_item(self, content: _Neighbour | bytes | str, ordinal: int) -> Item:
        if isinstance(content, str):
            raise CorpusError(content)
        size = content.size if isinstance(content, _Neighbour) else len(content)
        with (
            self._open(content) as file,
            open_picture(file, self._context.options.max_pixels) as image,
        ):
            return picture_item(image, self._source, self._context, ordinal, size)

    def _open(self, content: _Neighbour | bytes) -> BinaryIO:
        if isinstance(content, bytes):
            return BytesIO(content)
        return self._source.open_neighbour(content.name)

    def _find_content(self, reference: str, base: str) -> _Neighbour | bytes | str | None:
        """Return a picture's file or bytes, or the reason why there is none.

        None when it is in the network, or too small to show anything.
        """
        if _scheme(reference) == "data":
            content = _decode_data_url(reference)
            return None if isinstance(content, bytes) and _is_small(BytesIO(content)) else content
        try:
            reference = urljoin(base, reference)
            scheme = _scheme(reference)
            if scheme == "file" or len(scheme) == 1:  # a drive of Windows
                return OUTSIDE
            if scheme or reference.startswith(("//", "\\\\")):
                return None
            name = unquote(urlsplit(reference).path, errors="surrogateescape")
            with self._source.open_neighbour(name) as file:
                status = os.fstat(file.fileno())
                neighbour = _Neighbour(name, (status.st_dev, status.st_ino), status.st_size)
                return None if _is_small(file) else neighbour
        except CorpusError as error:
            return str(error)
        except (OSError, ValueError, RuntimeError) as error:
            return f"It cannot be read: {getattr(error, 'strerror', None) or error}."


def _scheme(reference: str) -> str:
    """Return the scheme of a URL, `http` of `http://host/a`; "" of a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", reference)
    return match[1].lower() if match else ""


def _decode_data_url(reference: str) -> bytes | str:
    """Return the bytes of a `data:` URL (RFC 2397), or why there are none."""
    head, comma, body = reference.partition(",")
    if not comma:
        return "It has no content."
    data = unquote_to_bytes(body)
    if not head.lower().endswith(";base64"):
        return data
    try:
        packed = re.sub(rb"\s", b"", data)
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except binascii.Error as error:
        return f"It is damaged: {error}."


def _is_small(file: BinaryIO) -> bool:
    """Return whether a file is a picture, and too small to show anything."""
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file, formats=IMAGE_FORMATS) as image:
            return min(image.size) < MIN_SIDE
    except Exception:  # noqa: BLE001 - hostile bytes; item() fails with the reason
        return False
