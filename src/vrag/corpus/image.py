"""Picture files → page items: one per picture, and one per frame of a TIFF."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Self

from vrag.corpus.ocr import read_picture
from vrag.corpus.pictures import store_jpeg, store_png
from vrag.corpus.sniff import describe
from vrag.errors import CorpusError, TooLarge
from vrag.geometry import MAX_ASPECT, Size
from vrag.types import Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

    from vrag.corpus.base import Desk, Source

__all__ = ["ImageFile"]

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF")
"""Pillow's names. No others: some of its readers start programs or are little tested."""
LOSSLESS = frozenset({"PNG", "BMP", "GIF", "TIFF"})
JPEG_QUALITY = 92
LEAST_SIDE = 8
"""Pixels; smaller pictures show nothing."""
MOST_PNG_PIXELS = 16_000_000
"""Larger pictures take seconds to compress without loss."""
WASTE = 2.0
"""How many times the size of the source a PNG may be before JPEG is taken."""


class ImageFile:
    """An open picture file.

    Raises:
        TooLarge: If decoding it would take more pixels than allowed; nothing is decoded to tell.
        CorpusError: If it is not a picture or has a shape that no model accepts.
    """

    def __init__(self, source: Source, desk: Desk) -> None:
        from PIL import Image, UnidentifiedImageError

        self._source = source
        self._desk = desk
        Image.MAX_IMAGE_PIXELS = None  # our own limit is stricter and comes with a better reason
        try:
            with warnings.catch_warnings(action="ignore"):
                self._image = Image.open(source.path, formats=FORMATS)
        except UnidentifiedImageError as error:
            raise CorpusError(f"This is not a picture that can be read: {describe(source.path)}.") from error
        try:
            self._check(self._image)
            self.count: int = getattr(self._image, "n_frames", 1) if self._image.format == "TIFF" else 1
        except BaseException:
            self._image.close()
            raise

    def item(self, ordinal: int) -> Item:
        """Makes the item of one frame."""
        with warnings.catch_warnings(action="ignore"):
            if self.count > 1:
                self._image.seek(ordinal - 1)
                self._check(self._image)
            image = flatten(self._image)
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
            image=self._store(image, ordinal),
        )

    def _store(self, image: Picture, ordinal: int) -> str:
        if self._image.format in LOSSLESS and image.width * image.height <= MOST_PNG_PIXELS:
            most = WASTE * max(self._source.size / self.count, image.width * image.height / 8)
            name = store_png(image, self._desk, self._source, ordinal)
            path = self._desk.items_dir / name
            if path.stat().st_size <= most:
                return name
            path.unlink()
        return store_jpeg(image, JPEG_QUALITY, self._desk, self._source, ordinal)

    def _check(self, image: Picture) -> None:
        """Refuses by the size in the header, before anything is decoded."""
        width, height = image.size
        shape = f"The picture has {width:,} × {height:,} pixels"
        if width * height > self._desk.options.max_pixels:
            raise TooLarge(f"{shape}; the limit is {self._desk.options.max_pixels:,} in all.")
        if min(width, height) < LEAST_SIDE:
            raise CorpusError(f"{shape}; no side may be shorter than {LEAST_SIDE}.")
        if max(width, height) > MAX_ASPECT * min(width, height):
            raise CorpusError(f"{shape}; no side may be {MAX_ASPECT:g} times the other.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._image.close()


def flatten(image: Picture) -> Picture:
    """The picture upright, in mode L or RGB, with what is transparent on white.

    Raises:
        CorpusError: If its data is damaged.
    """
    from PIL import Image, ImageOps

    try:
        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I") or upright.mode == "F":
            return _scaled(upright)
        if upright.mode in {"L", "RGB"} and "transparency" not in upright.info:
            return upright.copy() if upright is image else upright
        if not upright.has_transparency_data:
            return upright.convert("L" if upright.mode == "1" else "RGB")
        layer = upright.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise CorpusError(
            f"The picture is damaged: {str(error).strip().rstrip('.') or 'it ends early'}."
        ) from error


def _scaled(image: Picture) -> Picture:
    """A picture of 16 or 32 bits a pixel, in 8: by its type's range, or else by its own."""
    import numpy as np
    from PIL import Image

    values = np.asarray(image, dtype=np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I;16") or (image.mode == "I" and low >= 0 and 255 < high <= 65535):
        low, high = 0.0, 65535.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0 if high > 1 else 1.0
    scaled = (values - low) / max(high - low, 1e-9) * 255
    return Image.fromarray(np.clip(scaled, 0, 255).astype(np.uint8))
