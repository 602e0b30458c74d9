"""A search that shows gold pages first: what a sample needs to be about the right page."""

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
    from vrag.search.engine import Searcher
    from vrag.types import Case, Hit, Item, Query

__all__ = ["OracleSearcher"]


@dataclass(frozen=True, slots=True)
class OracleSearcher:
    """The searcher of one case: of what a search finds, the gold pages come first.

    The environment shows the first hit that was not shown yet. So that is a gold page when an unseen one
    was found, else the best of the others. Nothing is added to what was found, and each hit keeps its
    score and its rank.
    """

    inner: Searcher
    case: Case

    @property
    def version(self) -> str:
        """That of the collection and of the order: equal versions find the same, in the same order."""
        gold = json.dumps([self.case.file_name, self.case.reference_page]).encode()
        return f"{self.inner.version}+gold-{hashlib.sha256(gold).hexdigest()[:12]}"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """See `Searcher.search`; gold pages first, otherwise in the order found."""
        found = self.inner.search(queries, top_k)
        return [sorted(hits, key=lambda hit: not is_gold(hit, self.case)) for hits in found]

    def item(self, id: str) -> Item:
        """See `Searcher.item`."""
        return self.inner.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """See `Searcher.image`."""
        return self.inner.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """See `Searcher.frames`."""
        return self.inner.frames(id, fps=fps, most=most)
