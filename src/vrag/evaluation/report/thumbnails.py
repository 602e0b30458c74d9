"""Small pictures of pages: each page once, however many cases show it, in so many bytes at most."""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL.Image import Image

__all__ = ["Thumbnails"]


@dataclass
class Thumbnails:
    """The pictures of a report, as they are gathered."""

    side: int = 720
    """Longest side, in pixels; what is smaller is not enlarged."""
    quality: int = 60
    """Of the JPEG files, 1 to 95."""
    most_bytes: int = 24_000_000
    """Of all of them together, as they stand in the page; 0 for none at all."""
    pictures: list[str] = field(default_factory=list[str])
    """Addresses that hold the pictures themselves, by their numbers."""
    left: int = 0
    """Pictures that there was no room for."""
    bytes: int = 0
    """Characters of all addresses."""
    _numbers: dict[tuple[str, int], int | None] = field(default_factory=dict[tuple[str, int], "int | None"])

    def number(self, document: str, page: int, read: Callable[[], Image | None]) -> int | None:
        """The number of the picture of a page; None where there is none, or no room.

        Args:
            document: File name.
            page: From 1.
            read: Gives the picture; asked once for each page that there is a picture of.
        """
        key = (document, page)
        if self._numbers.get(key) is None and (key not in self._numbers or self.bytes < self.most_bytes):
            self._numbers[key] = self._kept(read)
        return self._numbers[key]

    def _kept(self, read: Callable[[], Image | None]) -> int | None:
        if not self.most_bytes:
            return None
        data = _jpeg(read, self.side, self.quality)
        if data is None:
            return None
        address = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
        if self.bytes + len(address) > self.most_bytes:
            self.left += 1
            return None
        self.bytes += len(address)
        self.pictures.append(address)
        return len(self.pictures) - 1


def _jpeg(read: Callable[[], Image | None], side: int, quality: int) -> bytes | None:
    """A small copy of a picture; None where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            image = read()
            if image is None:
                return None
            small = image.convert("RGB")
            small.thumbnail((side, side))
            target = io.BytesIO()
            small.save(target, "JPEG", quality=quality, optimize=True)
    except (OSError, ValueError, SyntaxError, Warning):
        return None
    return target.getvalue()
