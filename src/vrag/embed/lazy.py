"""An embedder that is opened when it is first needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vrag.embed.fingerprint import check_same

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vrag.embed.embedder import EmbedContent, Embedder, EmbedderInfo, Modality, VectorKind

__all__ = ["DeferredEmbedder"]


class DeferredEmbedder:
    """Stands for the embedder whose mark a collection bears, and opens it at the first item or query.

    So nothing has to be loaded to find that there is nothing to add.

    Args:
        mark: What the collection says of it.
        opened: Opens it.
    """

    def __init__(self, mark: EmbedderInfo, opened: Callable[[], Embedder]) -> None:
        self._mark = mark
        self._opened = opened
        self._embedder: Embedder | None = None
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        """How settings named it when the collection was made."""
        return self._mark.name

    @property
    def kind(self) -> VectorKind:
        """Whether one vector stands for a thing, or many."""
        return self._mark.kind

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._mark.dimension

    @property
    def fingerprint(self) -> str:
        """That of the collection: what is opened must have it."""
        return self._mark.fingerprint

    @property
    def settings(self) -> Mapping[str, str | int]:
        """Those that the collection keeps."""
        return self._mark.settings

    @property
    def modalities(self) -> frozenset[Modality]:
        """What it can look at. Opens it."""
        return self.open().modalities

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """The vectors of contents. Opens it."""
        return self.open().embed_items(contents)

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """The vectors of queries. Opens it."""
        return self.open().embed_queries(queries)

    def open(self) -> Embedder:
        """The embedder itself.

        Raises:
            EmbedError: If it cannot be opened.
            FingerprintMismatch: If it is another than that of the collection.
        """
        with self._turn:
            if self._embedder is None:
                embedder = self._opened()
                check_same(self._mark, embedder)
                self._embedder = embedder
            return self._embedder
