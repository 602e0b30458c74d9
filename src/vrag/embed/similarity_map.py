"""Similarity maps of images and queries: an image with its matches marked, and regions to crop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from vrag.geometry import Box

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.embed.embedder import MatchMap

_COLD = np.array((255, 236, 179), np.float32)
_WARM = np.array((200, 16, 46), np.float32)
"""Colours of the marks, weakest and strongest."""
_STRONGEST = 0.65
"""Opacity of the strongest mark."""


@runtime_checkable
class SimilarityMatcher(Protocol):
    """An embedder that can tell where an image matches a query."""

    def match_map(self, image: Image, query: str) -> MatchMap:
        """Compute where an image matches a query. Raises `EmbedError` if the model gives no map."""
        ...


@dataclass(frozen=True, slots=True)
class MatchRegion:
    """A part of an image that matches."""

    box: Box
    """Its box in `Space.UNIT`."""
    score: float
    """Greatest heat within it, from 0 to 1: 1 for the best match of the picture."""


def heat(found: MatchMap, token: int | None = None) -> NDArray[np.float32]:
    """Compute how well each patch matches: (rows, columns), from 0 to 1.

    Each token's similarities are first stretched from 0, its mean over the patches, to 1, its best:
    tokens that are alike everywhere thereby weigh as little as they tell, and no patch counts for being
    near to everything. The heat is the mean over the tokens, stretched to 0 to 1. MaxSim itself counts
    each token's best patch alone; this shows which patches came near to it.

    With `token`, only that token of the query counts. Raises `IndexError` if there is no such token.
    """
    similarity = found.similarity if token is None else found.similarity[[token]]
    if not similarity.size:
        return np.zeros(found.similarity.shape[1:], np.float32)
    above = similarity - similarity.mean(axis=(1, 2), keepdims=True)
    total = np.clip(above, 0, None).sum(axis=0)
    best = float(total.max())
    return (total / best if best > 0 else total).astype(np.float32)


def draw_heat(image: Image, found: MatchMap, token: int | None = None) -> Image:
    """Mark the matches of an image in colour; returns RGB of the same size.

    Raises `IndexError` if there is no such token.
    """
    from PIL import Image as Images

    shades = Images.fromarray(np.uint8(np.round(255 * heat(found, token))))
    smooth = np.asarray(shades.resize(image.size, Images.Resampling.BICUBIC), dtype=np.float32) / 255
    strength = (smooth * _STRONGEST)[..., None]
    mark = _COLD + smooth[..., None] * (_WARM - _COLD)
    page = np.asarray(image.convert("RGB"), dtype=np.float32)
    return Images.fromarray(np.uint8(np.round((1 - strength) * page + strength * mark)))


def regions(found: MatchMap, *, least: float = 0.5, most: int = 3) -> list[MatchRegion]:
    """Find the parts of an image whose heat is at least `least`: the boxes around adjacent patches.

    Returns at most `most` regions, the hottest first; ties from top to bottom.
    """
    values = heat(found)
    rows, columns = values.shape
    hot = {(int(row), int(column)) for row, column in np.argwhere((values >= least) & (values > 0))}
    found_regions: list[MatchRegion] = []
    while hot:
        patches = {min(hot)}
        edge = list(patches)
        while edge:
            row, column = edge.pop()
            sides = {(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)}
            edge.extend(sides & hot - patches)
            patches |= sides & hot
        hot -= patches
        top, bottom = min(row for row, _ in patches), max(row for row, _ in patches) + 1
        left, right = min(column for _, column in patches), max(column for _, column in patches) + 1
        box = Box.unit(left / columns, top / rows, right / columns, bottom / rows)
        found_regions.append(MatchRegion(box, max(float(values[patch]) for patch in patches)))
    return sorted(found_regions, key=lambda region: -region.score)[:most]
