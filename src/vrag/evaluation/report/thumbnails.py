"""Small images of pages and frames: each once, however many cases show it, within a number of bytes."""

from __future__ import annotations

import base64
import io
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from PIL.Image import Image

DEFAULT_BYTES = 24_000_000
"""Size of images in a page that a browser opens at once."""
MAX_BYTES = 500_000_000
"""Size above which browsers no longer read a page."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


@dataclass
class Thumbnails:
    """The images of a report, while they are gathered."""

    side: int = 720
    """Longest side, in pixels; smaller images are not enlarged."""
    quality: int = 60
    """JPEG quality, 1 to 95."""
    most_bytes: int = DEFAULT_BYTES
    """Size of all images in the page; 0 for none at all."""
    evidence_only: bool = False
    """True if pages without evidence of an answer have no image."""
    pictures: list[str] = field(default_factory=list[str])
    """Data URLs of the images, by their numbers."""
    left: int = 0
    """Images without room; some of them may be unreadable."""
    full: bool = False
    """True if one did not fit. No other is made then, as making them takes the time."""
    bytes: int = 0
    """Characters of all data URLs."""
    _numbers: dict[Hashable, int | None] = field(default_factory=dict["Hashable", "int | None"])

    def number(self, key: Hashable, read: Callable[[], Image | None]) -> int | None:
        """Return the number of the image of a page or a frame; None where there is none, or no room.

        `read` returns the image, and is called once for each key.
        """
        if key in self._numbers or not self.most_bytes:
            return self._numbers.get(key)
        number = None
        if not self.full and (data := _jpeg(read, self.side, self.quality)):
            address = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
            self.full = self.bytes + len(address) > self.most_bytes
            if not self.full:
                number = len(self.pictures)
                self.bytes += len(address)
                self.pictures.append(address)
        self.left += self.full
        self._numbers[key] = number
        return number


def thumbnails_of(wanted: str) -> Thumbnails:
    """Parse the choice of images.

    Args:
        wanted: `all`, `evidence` (pages of evidence only), `none`, or a size: `8 MB`, `500k`.

    Raises:
        ValueError: If it is not one of these.

    >>> thumbnails_of("8 MB").most_bytes, thumbnails_of("none").most_bytes
    (8000000, 0)
    """
    word = wanted.strip().lower()
    if word == "evidence":
        return Thumbnails(evidence_only=True)
    if word in {"all", "none"}:
        return Thumbnails(most_bytes=MAX_BYTES if word == "all" else 0)
    if (found := _SIZE.fullmatch(word)) is None:
        raise ValueError(f"{wanted!r} is neither all, evidence nor none, nor a size such as 8MB")
    return Thumbnails(most_bytes=min(MAX_BYTES, int(float(found[1]) * _UNITS[found[2]])))


def _jpeg(read: Callable[[], Image | None], side: int, quality: int) -> bytes | None:
    """Return a small copy of an image; None where it cannot be read."""
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
