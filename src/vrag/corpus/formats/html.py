"""HTML files → passage items, then a page item for each picture in the file or in its folder.

Pictures are taken from `data:` references and from files in the folder of the HTML file or below it, never
from the network and never from elsewhere on the disk: not by `..`, an absolute path, `file:` or a symbolic
link. Pictures in the network (`http:`, `//host`, a `<base>` that leads there) and those smaller
than an icon are left out silently; any other picture that cannot be read fails with its reason, and the text
stays.

A document is the bytes of its HTML file alone. Its pictures are therefore those that lay there when it was
added: a picture that changes later, or is put beside a copy of the same HTML file elsewhere, counts only when
the HTML file changes too, or is removed and added again. The alternative, an id over all files together,
would make a document's identity depend on files that come, go and fail on their own.
"""

from __future__ import annotations

import base64
import binascii
import re
import stat
import warnings
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urljoin, urlsplit

from vrag.corpus.converter import OpenFile
from vrag.corpus.formats.image import open_picture, picture_item
from vrag.corpus.formats.sections import html_page
from vrag.corpus.formats.text import SEPARATOR, passage_item, passages, read_text
from vrag.errors import CorpusError
from vrag.geometry import IMAGE_FORMATS
from vrag.types import TextSource

if TYPE_CHECKING:
    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.formats.sections import Figure
    from vrag.types import Item

SUFFIXES = (".html", ".htm")
MIN_SIDE = 32
"""Pixels; a picture with a shorter side is a spacer, a line or an icon."""
MAX_BYTES = 256 * 2**20
"""Larger pictures are not read."""
OUTSIDE = "The picture lies outside of the folder of the HTML file."


class _FigureContent(NamedTuple):
    figure: Figure
    content: Path | bytes | str
    """Its file, its bytes, or the reason why it cannot be read."""


class HtmlFile(OpenFile):
    """An HTML file that was read.

    Raises `FileTooLargeError` if it has more than 64 MiB, and `CorpusError` if it is not text, or has neither
    words nor pictures.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source, self._context = source, context
        sections, figures, base = html_page(read_text(source))
        self._passages = passages(sections, context.options)
        self._pictures: list[_FigureContent] = []
        seen: set[Path | bytes | str] = set()
        for figure in figures:  # each picture once; failures each for itself
            content = _find_content(figure.reference, base, source.path.parent)
            if content is None or _is_small(content):
                continue
            key = figure.reference if isinstance(content, str) else content
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

    def _picture_item(self, content: Path | bytes | str, ordinal: int) -> Item:
        if isinstance(content, str):
            raise CorpusError(content)
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        file = BytesIO(content) if isinstance(content, bytes) else content
        with open_picture(file, self._context.options.max_pixels) as image:
            return picture_item(image, self._source, self._context, ordinal, size)


def _find_content(reference: str, base: str, folder: Path) -> Path | bytes | str | None:
    """Return a picture's file or bytes, the reason why there is none, or None when it is in the network."""
    if _scheme(reference) == "data":
        return _decode_data_url(reference)
    try:
        reference = urljoin(base, reference)
        scheme = _scheme(reference)
        if scheme == "file" or len(scheme) == 1:  # a drive of Windows
            return OUTSIDE
        if scheme or reference.startswith(("//", "\\\\")):
            return None
        return _find_file(unquote(urlsplit(reference).path, errors="surrogateescape"), folder)
    except (OSError, ValueError, RuntimeError) as error:
        return f"It cannot be read: {getattr(error, 'strerror', None) or error}."


def _scheme(reference: str) -> str:
    """Return the scheme of a URL, `http` of `http://host/a`; "" of a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", reference)
    return match[1].lower() if match else ""


def _find_file(name: str, folder: Path) -> Path | str:
    """Return a regular file below a folder, with all links followed, or why there is none.

    Raises `OSError` if there is no such file and `ValueError` if the name cannot be that of a file.
    """
    if name.startswith("/") or Path(name).is_absolute():
        return OUTSIDE
    path = (folder / name).resolve(strict=False)
    if not path.is_relative_to(folder.resolve(strict=True)):
        return OUTSIDE
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "It is not a regular file."
    if status.st_size > MAX_BYTES:
        return f"It has {status.st_size:,} bytes; the limit is {MAX_BYTES:,}."
    return path


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


def _is_small(content: Path | bytes | str) -> bool:
    """Return whether the content is a picture, and too small to show anything."""
    from PIL import Image

    if isinstance(content, str):
        return False
    file = BytesIO(content) if isinstance(content, bytes) else content
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file, formats=IMAGE_FORMATS) as image:
            return min(image.size) < MIN_SIDE
    except Exception:  # noqa: BLE001 - hostile bytes; item() fails with the reason
        return False
