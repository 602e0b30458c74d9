"""Storing the picture of an item."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from vrag.errors import CollectionError

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.corpus.converter import ConversionContext, SourceFile

__all__ = ["store_jpeg", "store_png"]


def store_jpeg(
    image: Image, quality: int, context: ConversionContext, source: SourceFile, ordinal: int
) -> str:
    """Stores a picture as JPEG without chroma subsampling, which would smear coloured text.

    Args:
        image: Of mode L, RGB or RGBX.
        quality: libjpeg's scale, 1 to 95.
        context: Where to store it.
        source: The file it comes from.
        ordinal: The number of its item.

    Returns:
        The path relative to the items directory.

    Raises:
        CollectionError: If it cannot be written.
    """
    return _store(image, "jpg", context, source, ordinal, quality=quality, subsampling=0)


def store_png(image: Image, context: ConversionContext, source: SourceFile, ordinal: int) -> str:
    """Stores a picture without loss; otherwise like `store_jpeg`."""
    return _store(image, "png", context, source, ordinal, compress_level=6)


def _store(
    image: Image, suffix: str, context: ConversionContext, source: SourceFile, ordinal: int, **how: int
) -> str:
    """Writes beside the final name and renames: a reader never sees half a picture."""
    name = f"{source.document[:16]}/{ordinal}.{suffix}"
    path = context.items_dir / name
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(part, "JPEG" if suffix == "jpg" else "PNG", **how)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise CollectionError(
            f"A picture cannot be written to {context.items_dir}: {error.strerror or error}."
        ) from error
    return name
