"""Storing the picture of an item."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from vrag.errors import CollectionError

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.corpus.base import Desk, Source

__all__ = ["store_jpeg", "store_png"]


def store_jpeg(image: Image, quality: int, desk: Desk, source: Source, ordinal: int) -> str:
    """Stores a picture as JPEG without chroma subsampling, which would smear coloured text.

    Args:
        image: Of mode L, RGB or RGBX.
        quality: libjpeg's scale, 1 to 95.
        desk: Where to store it.
        source: The file it comes from.
        ordinal: The number of its item.

    Returns:
        The path relative to the items directory.

    Raises:
        CollectionError: If it cannot be written.
    """
    return _store(image, "jpg", desk, source, ordinal, quality=quality, subsampling=0)


def store_png(image: Image, desk: Desk, source: Source, ordinal: int) -> str:
    """Stores a picture without loss; otherwise like `store_jpeg`."""
    return _store(image, "png", desk, source, ordinal, compress_level=6)


def _store(image: Image, suffix: str, desk: Desk, source: Source, ordinal: int, **how: int) -> str:
    """Writes beside the final name and renames: a reader never sees half a picture."""
    name = f"{source.document[:16]}/{ordinal}.{suffix}"
    path = desk.items_dir / name
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(part, "JPEG" if suffix == "jpg" else "PNG", **how)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise CollectionError(
            f"A picture cannot be written to {desk.items_dir}: {error.strerror or error}."
        ) from error
    return name
