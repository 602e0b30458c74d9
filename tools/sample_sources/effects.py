"""What scanners and cameras do to a clean picture.

Arrays are H × W (grey) or H × W × 3 (colour), float32, 0 to 255. All noise is seeded. Only
`turned` moves anything, and `turned_box` follows it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

__all__ = ["photographed", "scanned", "turned", "turned_box"]

Pixels = npt.NDArray[np.float32]
UnitBox = tuple[float, float, float, float]


def turned(image: Image.Image, degrees: float, ground: int) -> Image.Image:
    """The picture turned counter-clockwise about its centre, its size kept."""
    return image.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=ground)


def turned_box(box: UnitBox, size: tuple[int, int], degrees: float) -> UnitBox:
    """The upright box around a unit box that was turned with its picture of `size`."""
    width, height = size
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    corners = [(x * width - width / 2, y * height - height / 2) for x in box[::2] for y in box[1::2]]
    xs = [(cos * x + sin * y) / width + 0.5 for x, y in corners]
    ys = [(cos * y - sin * x) / height + 0.5 for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)


def _smooth_noise(shape: tuple[int, int], cell: int, random: np.random.Generator) -> Pixels:
    """Noise in -1 to 1 whose features are about `cell` pixels wide."""
    small = random.random((shape[0] // cell + 2, shape[1] // cell + 2), dtype=np.float32)
    picture = Image.fromarray(small, mode=None).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
    return np.asarray(picture, dtype=np.float32) * 2 - 1


def _vignette(shape: tuple[int, int], depth: float) -> Pixels:
    """A factor of 1 in the middle that falls to `1 - depth` in the corners."""
    rows = np.linspace(-1, 1, shape[0], dtype=np.float32)[:, None]
    columns = np.linspace(-1, 1, shape[1], dtype=np.float32)[None, :]
    return (1 - depth * (rows**2 + columns**2) / 2).astype(np.float32)


def _fold(height: int, at: float) -> Pixels:
    """A column of brightness offsets: the shadow and the light of one horizontal fold."""
    distance = np.arange(height, dtype=np.float32) - at * height
    shadow = -16 * np.exp(-((distance / 2.2) ** 2))
    light = 5 * np.exp(-(((distance - 6) / 5) ** 2))
    return (shadow + light).astype(np.float32)[:, None]


def scanned(image: Image.Image, degrees: float, seed: int) -> Image.Image:
    """A grey scan of a typed page: uneven ink, folds, soft focus, noise, turned by `degrees`."""
    random = np.random.default_rng(seed)
    page: Pixels = np.asarray(image.convert("L"), dtype=np.float32)
    shape = (page.shape[0], page.shape[1])
    ink = 238 - page
    ink *= 0.93 + 0.16 * _smooth_noise(shape, 9, random)
    page = 233 - ink + 4 * _smooth_noise(shape, 160, random) + _fold(shape[0], 0.345) + _fold(shape[0], 0.672)
    soft = turned(_picture(page), degrees, ground=206).filter(ImageFilter.GaussianBlur(0.75))
    page = np.asarray(soft, dtype=np.float32) * _vignette(shape, 0.07)
    page += random.normal(0, 3.2, shape).astype(np.float32)
    return _picture(page)


def photographed(image: Image.Image, seed: int, *, depth: float = 0.3, noise: float = 3.0) -> Image.Image:
    """A colour photograph: light that falls off to the corners, soft focus, sensor noise."""
    random = np.random.default_rng(seed)
    soft = image.convert("RGB").filter(ImageFilter.GaussianBlur(0.6))
    pixels: Pixels = np.asarray(soft, dtype=np.float32)
    shape = (pixels.shape[0], pixels.shape[1])
    light = _vignette(shape, depth) * (1 + 0.025 * _smooth_noise(shape, 220, random))
    grain = random.normal(0, noise, shape).astype(np.float32)
    return _picture((pixels * light[..., None] + grain[..., None]).astype(np.float32))


def _picture(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
