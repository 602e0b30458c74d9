"""What every embedder takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

__all__ = ["EmbedContent", "Embedder", "EmbedderInfo", "MatchMap", "Modality", "VectorKind"]


class VectorKind(StrEnum):
    """How many vectors stand for one thing."""

    SINGLE = "single"
    """One; things are compared by the dot product."""
    MULTI = "multi"
    """One per token or patch; compared by MaxSim (Khattab and Zaharia 2020, ColBERT)."""


class Modality(StrEnum):
    """What an embedder can look at."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EmbedContent:
    """What is embedded: a text, a picture, a clip, or several of them as one thing."""

    text: str = ""
    image: Image | None = None
    """RGB."""
    video: Path | None = None
    """A video file; the embedder samples its frames as its model asks."""

    @property
    def modalities(self) -> frozenset[Modality]:
        """What it consists of."""
        parts = {
            Modality.TEXT: bool(self.text),
            Modality.IMAGE: self.image is not None,
            Modality.VIDEO: self.video is not None,
        }
        return frozenset(modality for modality, there in parts.items() if there)


class EmbedderInfo(Protocol):
    """What says which vectors an embedder makes: the part of an `Embedder` that a collection keeps."""

    @property
    def name(self) -> str:
        """How settings name it: `sentence:/models/colqwen2`."""
        ...

    @property
    def kind(self) -> VectorKind:
        """Whether one vector stands for a thing, or many."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash over the weights and all settings that vectors depend on; not over any path."""
        ...

    @property
    def settings(self) -> Mapping[str, str | int]:
        """The settings among them, by the names that `open_embedder` takes; a collection keeps them.

        Only what was chosen when it was opened: what is left out is the model's own.
        """
        ...


class Embedder(EmbedderInfo, Protocol):
    """Turns contents and queries into vectors that can be compared.

    A vector depends on its own content alone: not on what else is in the batch, nor on the order.
    May be called from several threads; calls wait for each other.
    """

    @property
    def modalities(self) -> frozenset[Modality]:
        """What it can look at."""
        ...

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """The vectors of contents, in their order.

        Returns:
            For each content (dimension,) when single, (vectors, dimension) when multi.

        Raises:
            EmbedError: If any of the contents cannot be embedded; the others may be tried alone.
            EmbedderGone: If it is not the contents: its server or device failed.
        """
        ...

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """The vectors of queries, in their order, shaped as those of contents.

        Raises:
            EmbedError: If any of them cannot be embedded.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MatchMap:
    """Which patches of a picture matched a query: the similarity of each query token and patch."""

    tokens: tuple[str, ...]
    """The tokens of the query."""
    similarity: NDArray[np.float32]
    """(tokens, rows, columns): the rows and columns of patches cover the picture evenly."""
