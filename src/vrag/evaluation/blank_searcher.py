"""A searcher with white images, to measure what is answered without looking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

from vrag.search.searcher import ForwardedItems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size
    from vrag.search.searcher import Searcher
    from vrag.types import Hit, Query

BLANK = "-blank"
"""Ending of versions of collections with white images: their runs are not runs of the collection."""


class BlankSearcher(ForwardedItems):
    """A `Searcher` that finds the same and shows nothing: a control that tells looking from guessing."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = self._items = searcher

    @property
    def version(self) -> str:
        """Version that differs from that of the collection: its runs are not runs of the collection."""
        return f"{self._searcher.version}{BLANK}"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Return the hits of the searcher."""
        return self._searcher.search(queries, top_k)

    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        """Return a white image of the same size."""
        return _white(self._searcher.image(id, least=least))

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return white frames at the same moments."""
        frames = self._searcher.frames(id, fps=fps, most=most)
        return [type(frame)(_white(frame.image), frame.seconds) for frame in frames]


def _white(image: Image.Image) -> Image.Image:
    return Image.new("RGB", image.size, "white")
