"""Image files → page items: one per image, and one per frame of a TIFF or HEIF file."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.converter import OpenFile
from vrag.corpus.pages.ink import load_opencv
from vrag.corpus.pages.page_pass import read_picture
from vrag.corpus.sniff import describe, describe_head, is_heif
from vrag.errors import CorpusError, FileTooLargeError, MissingExtra, UnsupportedFormatError
from vrag.geometry import IMAGE_FORMATS, MAX_ASPECT, Size
from vrag.types import Item, ItemKind, item_id

if TYPE_CHECKING:
    from typing import BinaryIO

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image as Picture
    from PIL.ImageFile import ImageFile as ImageFormat

    from vrag.corpus.converter import ConversionContext, SourceFile

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif")
HEIF_SUFFIXES = (".heic", ".heif")
"""Of pictures of phones, which need pillow-heif."""
LOSSLESS_FORMATS = frozenset({"PNG", "BMP", "GIF", "TIFF"})
JPEG_QUALITY = 92
ROWS_OF_A_LOOK = 64
"""Rows in which colours are looked for at once."""
MIN_SIDE = 8
"""Pixels; smaller pictures show nothing."""
MAX_PNG_PIXELS = 16_000_000
"""Larger pictures take seconds to compress without loss."""
MAX_PNG_GROWTH = 2.0
"""Size of a PNG over that of its source beyond which JPEG is taken."""


class ImageFile(OpenFile):
    """An open image file. Raises as `open_picture` does."""

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source, self._context = source, context
        self._file = source.open()
        try:
            self._image = open_picture(self._file, context.options.max_pixels, find_formats(self._file))
        except BaseException:
            self._file.close()
            raise
        has_frames = self._image.format in {"TIFF", "HEIF"}
        self.count: int = getattr(self._image, "n_frames", 1) if has_frames else 1

    def item(self, ordinal: int) -> Item:
        """Make the item of one frame."""
        if self.count > 1:
            with warnings.catch_warnings(action="ignore"):
                self._image.seek(ordinal - 1)
            _check_size(self._image, self._context.options.max_pixels)
        return picture_item(self._image, self._source, self._context, ordinal, self._source.size / self.count)

    def close(self) -> None:
        """Close the image."""
        self._image.close()
        self._file.close()


def open_picture(
    file: Path | BinaryIO, max_pixels: int, formats: tuple[str, ...] = IMAGE_FORMATS
) -> ImageFormat:
    """Open an image without decoding it.

    Raises `FileTooLargeError` if decoding it would take more pixels than allowed, `CorpusError` if it is not
    an image or has a shape that no model accepts, and `OSError` if it cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # our own limit is stricter and comes with a better reason
    try:
        with warnings.catch_warnings(action="ignore"):
            image = Image.open(file, formats=formats)
    except UnidentifiedImageError as error:
        raise CorpusError(f"This is not a picture that can be read: {_kind(file)}.") from error
    try:
        _check_size(image, max_pixels)
    except BaseException:
        image.close()
        raise
    return image


def find_formats(file: BinaryIO) -> tuple[str, ...]:
    """Find Pillow's names of the formats that a picture of a document may have, and load what HEIF needs.

    Phones store HEIF (HEIC), at times with the suffix of JPEG. Only converters, which are sandboxed, read
    it, by libheif. Raises `UnsupportedFormatError` if pillow-heif is needed and not installed.
    """
    file.seek(0)
    head = file.read(12)
    file.seek(0)
    if not is_heif(head):
        return IMAGE_FORMATS
    try:
        from pillow_heif import register_heif_opener  # pyright: ignore[reportUnknownVariableType]
    except ImportError as error:
        missing = MissingExtra("pillow-heif", "heic")
        raise UnsupportedFormatError(
            f"pillow-heif is needed to read pictures in HEIC: {missing.message}",
            f"{missing.hint}. Then try the file again.",
        ) from error
    register_heif_opener(thumbnails=False, decode_threads=1)
    return ("HEIF",)


def _kind(file: Path | BinaryIO) -> str:
    if isinstance(file, Path):
        return describe(file)
    file.seek(0)
    return describe_head(file.read(1024))


def _check_size(image: Picture, max_pixels: int) -> None:
    width, height = image.size
    shape = f"The picture has {width:,} × {height:,} pixels"
    if width * height > max_pixels:
        raise FileTooLargeError(f"{shape}; the limit is {max_pixels:,} in all.")
    if min(width, height) < MIN_SIDE:
        raise CorpusError(f"{shape}; no side may be shorter than {MIN_SIDE}.")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise CorpusError(f"{shape}; no side may be {MAX_ASPECT:g} times the other.")


def picture_item(
    opened: ImageFormat, source: SourceFile, context: ConversionContext, ordinal: int, size: float
) -> Item:
    """Make the item of an image that takes `size` bytes in its file: read its text and store it.

    Raises `CorpusError` if it is damaged.
    """
    with warnings.catch_warnings(action="ignore"):
        image = flatten(opened)
    reading = read_picture(image, context.options.ocr)
    stored = None
    area = image.width * image.height
    if opened.format in LOSSLESS_FORMATS and area <= MAX_PNG_PIXELS:
        encoded = BytesIO()
        image.save(encoded, format="PNG", compress_level=6)
        if encoded.tell() <= MAX_PNG_GROWTH * max(size, area / 8):
            stored = context.store_picture(source, ordinal, ".png", encoded.getvalue())
    return Item(
        id=item_id(source.document, ordinal),
        document=source.document,
        document_name=source.name,
        kind=ItemKind.PAGE,
        ordinal=ordinal,
        text=reading.text,
        words=reading.words,
        text_source=reading.text_source,
        facts=reading.facts,
        size=Size(*image.size),
        image=stored or store_jpeg(image, JPEG_QUALITY, context, source, ordinal),
    )


def store_jpeg(
    image: Picture, quality: int, context: ConversionContext, source: SourceFile, ordinal: int
) -> str:
    """Store an item's image of mode L, RGB or RGBX as JPEG; see `ConversionContext.store_picture`.

    Without chroma subsampling, which would smear coloured text.
    """
    encoded = BytesIO()
    image.save(encoded, format="JPEG", quality=quality, subsampling=0)
    return context.store_picture(source, ordinal, ".jpg", encoded.getvalue())


def drop_colors(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows of RGBX as rows of grey if no pixel has a colour, else as they are."""
    import numpy as np

    cv2 = load_opencv()
    grey = np.empty(pixels.shape[:2], np.uint8)
    for top in range(0, len(pixels), ROWS_OF_A_LOOK):
        red, green, blue, _ = cv2.split(pixels[top : top + ROWS_OF_A_LOOK])
        if not (np.array_equal(red, green) and np.array_equal(red, blue)):
            return pixels
        grey[top : top + ROWS_OF_A_LOOK] = red
    return grey


def to_image(pixels: NDArray[np.uint8]) -> Picture:
    """Return rows of RGBX, or of grey, as an image, which shares them."""
    from PIL import Image

    height, width = pixels.shape[:2]
    mode = "L" if pixels.ndim == 2 else "RGBX"
    return Image.frombuffer(mode, (width, height), pixels, "raw", mode, pixels.strides[0], 1)


def flatten(image: Picture) -> Picture:
    """Return the image upright, in mode L or RGB, on white where it is transparent.

    Raises `CorpusError` if its data is damaged.
    """
    from PIL import Image, ImageOps

    try:
        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I") or upright.mode == "F":
            return _to_8_bits(upright)
        if upright.mode in {"L", "RGB"} and "transparency" not in upright.info:
            return upright.copy() if upright is image else upright
        if not upright.has_transparency_data:
            return upright.convert("L" if upright.mode == "1" else "RGB")
        layer = upright.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        reason = str(error).strip().rstrip(".") or "it ends early"
        raise CorpusError(f"The picture is damaged: {reason}.") from error


def _to_8_bits(image: Picture) -> Picture:
    """Scale an image of 16 or 32 bits a pixel to 8: by its type's range, or else by its own."""
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
