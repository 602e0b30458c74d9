"""HTML files → passage items, then a page item for each picture that lies beside the file or in it.

Pictures are taken from `data:` references and from files in the folder of the HTML file or below it, never
from the network and never from elsewhere on the disk: not by `..`, an absolute path, `file:` or a symbolic
link. What stands in the network (`http:`, `//host`, a `<base>` that leads there) and what is smaller
than an icon is left out in silence; any other picture that cannot be read fails with its reason, and the text
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
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, unquote_to_bytes, urljoin, urlsplit

from vrag.corpus.formats.image import FORMATS, open_picture, picture_item
from vrag.corpus.formats.sections import html_page
from vrag.corpus.formats.text import SEPARATOR, passage_item, passages, read_text
from vrag.errors import CorpusError
from vrag.types import TextSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.formats.sections import Figure
    from vrag.types import Item

__all__ = ["SUFFIXES", "HtmlFile"]

SUFFIXES = (".html", ".htm")
MIN_SIDE = 32
"""Pixels; a picture with a shorter side is a spacer, a line or an icon."""
MAX_BYTES = 256 * 2**20
"""Larger pictures are not read."""
ELSEWHERE = "The picture lies outside of the folder of the HTML file"


@dataclass(frozen=True, slots=True)
class _FoundPicture:
    """A picture, or why there is none."""

    figure: Figure
    content: Path | bytes | str
    """Its file, its bytes, or the reason why it cannot be read."""


class HtmlFile:
    """An HTML file that was read.

    Raises:
        TooLarge: If it has more than 64 MiB.
        CorpusError: If it is no text, or has neither words nor pictures.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source = source
        self._context = context
        sections, figures, base = html_page(read_text(source))
        self._passages = passages(sections, context.options)
        self._pictures = list(_distinct(_look_up(figures, base, source.path.parent)))
        self.count = len(self._passages) + len(self._pictures)
        if not self.count:
            raise CorpusError("There is neither text nor a picture in the file.")

    def item(self, ordinal: int) -> Item:
        """Makes the item of a passage or, after the last of these, of a picture."""
        if ordinal <= len(self._passages):
            return passage_item(self._passages[ordinal - 1], self._source, ordinal)
        found = self._pictures[ordinal - len(self._passages) - 1]
        try:
            return self._picture(found, ordinal)
        except CorpusError as error:
            raise CorpusError(f"{_name(found.figure.reference)}: {error}") from error

    def _picture(self, found: _FoundPicture, ordinal: int) -> Item:
        content = found.content
        if isinstance(content, str):
            raise CorpusError(content)
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        file = BytesIO(content) if isinstance(content, bytes) else content
        with open_picture(file, self._context.options.max_pixels) as image:
            item = picture_item(image, self._source, self._context, ordinal, size)
        heading = SEPARATOR.join(filter(None, found.figure.headings))
        if item.text or not found.figure.text:
            return replace(item, heading=heading)
        return replace(item, heading=heading, text=found.figure.text, text_source=TextSource.FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._passages.clear()
        self._pictures.clear()


def _look_up(figures: Iterable[Figure], base: str, folder: Path) -> Iterator[_FoundPicture]:
    """The pictures that the file has itself."""
    for figure in figures:
        content = _content(figure.reference, base, folder)
        if content is not None and not _is_small(content):
            yield _FoundPicture(figure, content)


def _distinct(found: Iterable[_FoundPicture]) -> Iterator[_FoundPicture]:
    """Each picture once, as it is first shown; failures each for itself."""
    seen: set[Path | bytes | str] = set()
    for picture in found:
        key = picture.content if not isinstance(picture.content, str) else picture.figure.reference
        if key not in seen:
            seen.add(key)
            yield picture


def _scheme(reference: str) -> str:
    """`http` of `http://host/a`; "" of a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", reference)
    return match[1].lower() if match else ""


def _content(reference: str, base: str, folder: Path) -> Path | bytes | str | None:
    """A picture's file or bytes, the reason why it cannot be had, or None when it stands elsewhere."""
    if _scheme(reference) == "data":
        return _embedded(reference)
    try:
        reference = urljoin(base, reference)
        scheme = _scheme(reference)
        if scheme == "file" or len(scheme) == 1:  # a drive of Windows
            return f"{ELSEWHERE}."
        if scheme or reference.startswith(("//", "\\\\")):
            return None
        return _beside(unquote(urlsplit(reference).path, errors="surrogateescape"), folder)
    except (OSError, ValueError, RuntimeError) as error:
        return f"It cannot be read: {getattr(error, 'strerror', None) or error}."


def _beside(name: str, folder: Path) -> Path | str:
    """A regular file below a folder, with all links followed; or why there is none.

    Raises:
        OSError: If there is no such file.
        ValueError: If the name cannot be that of a file.
    """
    if name.startswith("/") or Path(name).is_absolute():
        return f"{ELSEWHERE}."
    path = (folder / name).resolve(strict=False)
    if not path.is_relative_to(folder.resolve(strict=True)):
        return f"{ELSEWHERE}."
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "It is not a regular file."
    return (
        path
        if status.st_size <= MAX_BYTES
        else f"It has {status.st_size:,} bytes; the limit is {MAX_BYTES:,}."
    )


def _embedded(reference: str) -> bytes | str:
    """The bytes of a `data:` reference (RFC 2397), or why there are none."""
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
    """Whether a picture is one, and too small to show anything."""
    from PIL import Image

    if isinstance(content, str):
        return False
    file = BytesIO(content) if isinstance(content, bytes) else content
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file, formats=FORMATS) as image:
            return min(image.size) < MIN_SIDE
    except Exception:  # noqa: BLE001 - hostile bytes; it fails with its reason when its turn comes
        return False


def _name(reference: str) -> str:
    """How a picture is called in a reason."""
    return reference[:40] + "…" if len(reference) > 80 else reference
