"""The pictures of a page: each is in it once, as data, and drawn wherever it is shown.

A picture is an `<image>` among the definitions of one hidden drawing, and every place that shows it refers
to that. So a page needs no file beside it, and a picture that is shown five times costs its bytes once.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.geometry import Size
from vrag.render.html import Markup, element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["ImageStore", "StoredImage"]

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredImage:
    """A picture of the album."""

    id: str
    """Of its definition in the page."""
    size: Size
    data: bytes
    """A JPEG file."""


@dataclass(frozen=True, slots=True)
class ImageStore:
    """All pictures of a page, and why others are not in it."""

    stored_images: Mapping[str, StoredImage]
    """By the hash of their file."""
    missing: Mapping[str, str]
    """Why a picture cannot be shown, by its hash."""

    @classmethod
    def of(cls, hashes: Iterable[str], read: Callable[[str], bytes | None]) -> ImageStore:
        """Reads pictures.

        Args:
            hashes: SHA-256 of their files; what is no hash is not asked for.
            read: Gives the file of a hash, or None where there is none.
        """
        stored_images: dict[str, StoredImage] = {}
        missing: dict[str, str] = {}
        for sha256 in dict.fromkeys(hashes):
            data = read(sha256) if _HASH.fullmatch(sha256) else None
            if data is None:
                missing[sha256] = "The picture is not among the files of the run."
            elif (size := _size(data, sha256)) is None:
                missing[sha256] = "The file of the picture is damaged."
            else:
                stored_images[sha256] = StoredImage(f"picture-{len(stored_images) + 1}", size, data)
        return cls(stored_images, missing)

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(len(stored_image.data) for stored_image in self.stored_images.values())

    def definitions(self) -> Markup:
        """The hidden drawing that holds all pictures."""
        images = (_image(stored_image) for stored_image in self.stored_images.values())
        return element("svg", element("defs", images), class_="album", aria_hidden="true", focusable="false")


def _image(stored_image: StoredImage) -> Markup:
    return element(
        "image",
        id=stored_image.id,
        width=stored_image.size.width,
        height=stored_image.size.height,
        href=f"data:image/jpeg;base64,{base64.b64encode(stored_image.data).decode()}",
    )


def _size(data: bytes, sha256: str) -> Size | None:
    """Size of a picture; None when the file is not the one that was saved, or no JPEG file."""
    from PIL import Image

    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
                return Size(*image.size)
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError):
        return None
