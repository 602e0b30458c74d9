"""The size at which a picture is shown when so many pixels may be spent on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

from vrag.geometry import MAX_ASPECT, Size
from vrag.model_profiles import Profile

_STRIP = 4
"""Visual tokens: a side that is shorter could lose more than a fifth of its length by rounding."""


@dataclass(frozen=True, slots=True)
class FittedImage:
    """The size at which a picture is shown."""

    shown: Size
    """Of the picture itself; never larger than it is."""
    margin: Size
    """White pixels on the right and at the bottom."""

    @property
    def canvas(self) -> Size:
        """The size of the picture with its margin: both sides are multiples of the model's factor."""
        return Size(self.shown.width + self.margin.width, self.shown.height + self.margin.height)


def fit(native: Size, pixels: int, profile: Profile) -> FittedImage:
    """Return the size of a picture of `native` pixels, for which `pixels` may be spent.

    Both sides are scaled by one number, at most 1, and rounded down to multiples of the model's factor. What
    that does not work for is shown on a white canvas instead: pictures smaller than the model takes, whose
    canvas comes as near to that as it can, and strips, whose canvas is the one that shows most of them and
    that keep their proportions so: rounding alone would squeeze a line of text to half its height.

    The canvas takes at most `pixels`, and has sides that the model's own processor leaves as they are.

    Args:
        native: Pixels of what is stored.
        pixels: Pixels that may be spent, margins included.
        profile: The model's limits.

    Raises:
        ValueError: If a side is under one pixel, or not even one visual token may be spent.
    """
    room = pixels // profile.factor**2
    if min(native) < 1 or room < 1:
        raise ValueError(f"{native.width}×{native.height} pixels cannot be shown in {pixels}")
    wide, high = _grid(native, pixels, profile.factor)
    small = native.area < profile.min_tokens * profile.factor**2
    if small or min(wide, high) < _STRIP or max(wide, high) > MAX_ASPECT * min(wide, high):
        return _padded(native, room, profile)
    return FittedImage(Size(wide * profile.factor, high * profile.factor), Size(0, 0))


def _grid(native: Size, pixels: int, factor: int) -> tuple[int, int]:
    """Both sides in visual tokens, rounded down, in whole numbers so that no bit is lost."""
    width, height = native
    if pixels >= native.area:
        return width // factor, height // factor
    return isqrt(pixels * width // (height * factor**2)), isqrt(pixels * height // (width * factor**2))


@lru_cache(4096)  # memory is shared out anew in every turn, among much the same pictures
def _padded(native: Size, room: int, profile: Profile) -> FittedImage:
    """On the canvas of at most `room` tokens that shows most of it; of equals the most fitting one."""
    canvases = (_canvas(native, high, room, profile) for high in range(1, room + 1))
    _, shown, canvas = min(found for found in canvases if found is not None)
    return FittedImage(shown, Size(canvas.width - shown.width, canvas.height - shown.height))


def _canvas(
    native: Size, high: int, room: int, profile: Profile
) -> tuple[tuple[int, int, int], Size, Size] | None:
    """Return the canvas of `high` tokens, what is shown on it, and before them what speaks against it."""
    factor, widest = profile.factor, min(room // high, int(MAX_ASPECT) * high)
    narrowest = _up(high, int(MAX_ASPECT))
    if widest < narrowest:
        return None
    shown = _inside(native, Size(widest * factor, high * factor))
    wanted = max(_up(shown.width, factor), _up(profile.min_tokens, high), narrowest)
    wide = min(wanted, widest)
    against = -shown.area, abs(wide * high - profile.min_tokens), abs(wide - high)
    return against, shown, Size(wide * factor, high * factor)


def _inside(native: Size, frame: Size) -> Size:
    """Return the picture as large as the frame allows, never larger than it is."""
    width, height = native
    if width <= frame.width and height <= frame.height:
        return native
    if frame.width * height <= frame.height * width:
        return Size(frame.width, max(1, frame.width * height // width))
    return Size(max(1, frame.height * width // height), frame.height)


def _up(whole: int, part: int) -> int:
    """Division, rounded up."""
    return -(-whole // part)
