"""Picture files → page items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from vrag.corpus.ocr import read_picture
from vrag.corpus.pictures import store_jpeg
from vrag.errors import CorpusError
from vrag.geometry import Size
from vrag.types import Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from vrag.corpus.base import Desk, Source

__all__ = ["ImageFile"]

JPEG_QUALITY = 92


class ImageFile:
    """An open picture file."""

    def __init__(self, source: Source, desk: Desk) -> None:
        from PIL import Image, UnidentifiedImageError

        self._source = source
        self._desk = desk
        try:
            self._image = Image.open(source.path)
        except UnidentifiedImageError as error:
            raise CorpusError("This is not a picture, or it is damaged.") from error
        self.count = 1

    def item(self, ordinal: int) -> Item:
        """Makes the item of one frame."""
        from PIL import ImageOps

        image = ImageOps.exif_transpose(self._image).convert("RGB")
        text, words = read_picture(image) if self._desk.options.ocr else ("", ())
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text=text,
            words=words,
            text_source=TextSource.OCR if text else TextSource.NONE,
            size=Size(*image.size),
            image=store_jpeg(image, JPEG_QUALITY, self._desk, self._source, ordinal),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._image.close()
