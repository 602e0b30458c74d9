"""The `Embedder` protocol and its types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_SPECIAL_TOKEN = re.compile(r"<(\||/?)(\w+)(\|)>")


class VectorKind(StrEnum):
    """The number of vectors of a content."""

    SINGLE = "single"
    """One; contents are compared by the dot product."""
    MULTI = "multi"
    """One per token or patch; compared by MaxSim (Khattab and Zaharia 2020, ColBERT)."""


class Modality(StrEnum):
    """A kind of input of an embedder."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EmbedContent:
    """An input of an embedder: a text, an image, a clip, or several of them as one."""

    text: str = ""
    image: Image | None = None
    """RGB."""
    video: Path | None = None
    """A video file; the embedder samples its frames as its model asks."""

    @property
    def modalities(self) -> frozenset[Modality]:
        """The modalities that it consists of."""
        parts = {Modality.TEXT: self.text or None, Modality.IMAGE: self.image, Modality.VIDEO: self.video}
        return frozenset(modality for modality, part in parts.items() if part is not None)


class EmbedderInfo(Protocol):
    """The identity of an embedder: the part of an `Embedder` that a collection keeps."""

    @property
    def name(self) -> str:
        """Its name in settings: `sentence:/models/colqwen2`."""
        ...

    @property
    def kind(self) -> VectorKind:
        """The kind of its vectors: one for a content, or many."""
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
        """The settings that vectors depend on, by the names that `open_embedder` takes.

        A collection keeps them. What was not chosen when it was opened is left out: the model's own stands.
        """
        ...

    @property
    def modalities(self) -> frozenset[Modality]:
        """The inputs that it takes; empty where a collection does not record them."""
        ...


class Embedder(EmbedderInfo, Protocol):
    """A model that converts contents and queries to vectors that can be compared.

    A vector depends on its own content alone: not on what else is in the batch, nor on the order.
    May be called from several threads; calls wait for each other.
    """

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """Embed contents, in their order.

        Returns:
            For each content (dimension,) when single, (vectors, dimension) when multi.

        Raises:
            EmbedError: If any of the contents cannot be embedded; the others may be tried alone.
            EmbedderFailedError: If it is not the contents: its server or device failed.
        """
        ...

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """Embed queries, in their order, to vectors of the shape of those of contents.

        Raises `EmbedError` if any of them cannot be embedded.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MatchMap:
    """The similarity of each token of a query and each patch of an image."""

    tokens: tuple[str, ...]
    """The tokens of the query."""
    similarity: NDArray[np.float32]
    """(tokens, rows, columns): the rows and columns of patches cover the image evenly."""


def embeds_text_only(embedder: EmbedderInfo) -> bool:
    """Return whether an embedder is known to take text and nothing else."""
    return embedder.modalities == frozenset({Modality.TEXT})


def escape_special_tokens(text: str) -> str:
    """Break the special tokens of models in a text of documents or people.

    A page that happens to hold `<|image_pad|>` would otherwise stand for an image that is not there.

    >>> escape_special_tokens("a <|image_pad|> b")
    'a < |image_pad| > b'
    """
    return _SPECIAL_TOKEN.sub(r"< \1\2\3 >", text)
