"""A search that shows gold pages first, so that samples are about the right page."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.cases.gold import is_gold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size
    from vrag.search.searcher import Searcher
    from vrag.types import Case, Hit, Item, Query


@dataclass(frozen=True, slots=True)
class OracleSearcher:
    """The searcher of one case: its gold pages come first among the hits.

    The environment shows the first hit that was not shown yet. So that is a gold page when an unseen one
    was found, else the best of the others. No hit is added, and each keeps its score and its rank.
    """

    inner: Searcher
    case: Case

    @property
    def version(self) -> str:
        """The version of the collection and of the order: equal versions find the same hits."""
        gold = json.dumps([self.case.file_name, self.case.reference_page]).encode()
        return f"{self.inner.version}+gold-{hashlib.sha256(gold).hexdigest()[:12]}"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Search; gold pages come first, others in the order found. See `Searcher.search`."""
        found = self.inner.search(queries, top_k)
        return [sorted(hits, key=lambda hit: not is_gold(hit, self.case)) for hits in found]

    def item(self, id: str) -> Item:
        """Return an item; see `Searcher.item`."""
        return self.inner.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return the image of an item; see `Searcher.image`."""
        return self.inner.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return frames of a clip; see `Searcher.frames`."""
        return self.inner.frames(id, fps=fps, most=most)
