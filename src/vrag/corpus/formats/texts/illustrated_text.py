"""Files of text with pictures: passages first, then a page for each picture."""

from __future__ import annotations

import base64
import binascii
import re
import warnings
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from vrag.corpus.converter import OpenFile
from vrag.corpus.formats.image import find_formats, open_picture, picture_item
from vrag.corpus.formats.text import SEPARATOR, passage_item, passages
from vrag.errors import CorpusError
from vrag.types import TextSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.formats.texts.outline import Section
    from vrag.corpus.formats.texts.web.figures import Figure
    from vrag.types import Item

MIN_SIDE = 32
"""Pixels; a picture with a shorter side is a spacer, a line or an icon."""


class PictureContent(NamedTuple):
    """The bytes of a picture."""

    open: Callable[[], BinaryIO]
    """Opens it at its start."""
    size: int
    """Bytes."""
    key: object
    """Equal for pictures that are the same."""

    @classmethod
    def of_bytes(cls, data: bytes) -> PictureContent:
        """Return a picture that is in memory."""
        return cls(partial(BytesIO, data), len(data), data)


class FigureContent(NamedTuple):
    """A picture of a text."""

    figure: Figure
    content: PictureContent | str
    """Its bytes, or the reason why it cannot be read."""


class IllustratedText(OpenFile):
    """An open file of text with pictures, each of which is one item however often it is shown.

    Raises `CorpusError` if it has neither words nor pictures.
    """

    def __init__(
        self,
        source: SourceFile,
        context: ConversionContext,
        sections: Iterable[Section],
        figures: Iterable[FigureContent],
    ) -> None:
        self._source, self._context = source, context
        self._passages = passages(sections, context.options)
        self._pictures: list[FigureContent] = []
        seen: set[object] = set()
        for figure, content in figures:
            key = figure.reference if isinstance(content, str) else content.key
            if key not in seen:
                seen.add(key)
                self._pictures.append(FigureContent(figure, content))
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
            raise CorpusError(f"The document has a picture that is not read, {name}: {error}") from error
        item = replace(item, heading=SEPARATOR.join(filter(None, figure.headings)))
        if item.text or not figure.text:
            return item
        return replace(item, text=figure.text, text_source=TextSource.FILE)

    def _picture_item(self, content: PictureContent | str, ordinal: int) -> Item:
        if isinstance(content, str):
            raise CorpusError(content)
        limit = self._context.options.max_pixels
        with content.open() as file, open_picture(file, limit, find_formats(file)) as image:
            return picture_item(image, self._source, self._context, ordinal, content.size)


def decode_data_url(reference: str) -> PictureContent | str:
    """Return the content of a `data:` URL (RFC 2397), or why there is none."""
    head, comma, body = reference.partition(",")
    if not comma:
        return "It has no content."
    data = unquote_to_bytes(body)
    if not head.lower().endswith(";base64"):
        return PictureContent.of_bytes(data)
    try:
        packed = re.sub(rb"\s", b"", data)
        return PictureContent.of_bytes(base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True))
    except binascii.Error as error:
        return f"It is damaged: {error}."


def is_small_picture(file: BinaryIO) -> bool:
    """Return whether a file is a picture, and too small to show anything."""
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file, formats=find_formats(file)) as image:
            return min(image.size) < MIN_SIDE
    except Exception:  # noqa: BLE001 - hostile bytes; the item fails with the reason
        return False
