"""Items on their way from the converters into the tables get their vectors."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from vrag.corpus.convert import convert_all
from vrag.corpus.converter import Conversion, Converted, Failed, Finished
from vrag.embed.embedder import EmbedContent, Embedder, Modality, VectorKind
from vrag.errors import CollectionError, EmbedderGone, EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.corpus.converter import SourceFile
    from vrag.corpus.options import CorpusOptions
    from vrag.types import Item

__all__ = ["BATCH", "Embedded", "Made", "Producer", "content_of", "embed_all", "local"]

BATCH = 16
"""Items that are handed to the embedder at once, or as many as it works on at once, if that is more.

What is in work when the process is killed is made anew.
"""
_PIXELS = 100_000_000
"""Of decoded pictures that wait for the embedder together: 300 MB. One alone may have more."""


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """An item was made, and its vector."""

    source: SourceFile
    item: Item
    vector: NDArray[np.floating]
    """(dimension,), or (vectors, dimension)."""


Made: TypeAlias = Conversion | Embedded
"""What becomes of sources: in a collection with an embedder, every item comes as `Embedded`."""


class Producer(Protocol):
    """Makes items of sources: here, on other machines, or from what somebody else made."""

    def __call__(
        self,
        sources: Iterator[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], Collection[int]],
        /,
    ) -> Generator[Made, None, None]:
        """Makes what is missing of each source, in the order that `convert_all` promises.

        Args:
            sources: What to make items of; taken one by one.
            items_dir: Where pictures and clips are stored before their item is yielded.
            options: How to convert.
            have: Ordinals that need not be made, asked once per source.
        """
        ...


def local(embedder: Embedder | None, batch: int = BATCH) -> Producer:
    """The producer that works on this machine: converters in processes, the embedder in this one.

    Args:
        embedder: Makes the vectors; None for a collection without.
        batch: How many items the embedder works on at once.
    """

    def produce(
        sources: Iterator[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], Collection[int]],
    ) -> Generator[Made, None, None]:
        made = convert_all(sources, items_dir, options, have)
        return made if embedder is None else embed_all(made, embedder, items_dir, batch)

    return produce


def embed_all(
    conversions: Generator[Conversion, None, None], embedder: Embedder, items_dir: Path, batch: int = BATCH
) -> Generator[Made, None, None]:
    """Gives every item its vector. An item that cannot be embedded fails by itself, with the reason.

    `Finished` is held back until all items of its source are out.

    Args:
        conversions: What becomes of sources. Closed in the end.
        embedder: Makes the vectors.
        items_dir: Where pictures and clips are stored.
        batch: How many items the embedder works on at once.

    Raises:
        EmbedderGone: If the embedder itself fails: no item is to blame, and none is given up.
        CollectionError: If the embedder gives vectors of another shape than it promises.
    """
    waiting: list[Converted] = []
    held: list[Finished] = []
    with closing(conversions):
        for made in conversions:
            if isinstance(made, Converted):
                waiting.append(made)
            elif isinstance(made, Finished) and any(item.source is made.source for item in waiting):
                held.append(made)
            else:
                yield made
            if len(waiting) >= max(BATCH, batch):
                yield from _embedded(waiting, embedder, items_dir)
                yield from held
                waiting, held = [], []
        yield from _embedded(waiting, embedder, items_dir)
        yield from held


def content_of(item: Item, items_dir: Path, modalities: Collection[Modality]) -> EmbedContent:
    """What an embedder is shown of an item: the richest form that it can look at.

    A page is its picture, a clip its video, or one frame of it where video is not understood, a passage
    its text under its headings. For embedders of text alone it is always the text.

    Raises:
        EmbedError: If the item has nothing that the embedder can look at, or it cannot be read.
    """
    if item.clip is not None and Modality.VIDEO in modalities:
        return EmbedContent(video=items_dir / item.clip.path)
    if item.image is not None and Modality.IMAGE in modalities:
        return EmbedContent(image=_picture(items_dir / item.image))
    text = f"{item.heading}\n{item.text}".strip()
    if not text or Modality.TEXT not in modalities:
        known = ", ".join(sorted(modalities))
        raise EmbedError(f"It holds nothing that the embedder can look at ({known}).")
    return EmbedContent(text=text)


def _picture(path: Path) -> Image:
    from PIL import UnidentifiedImageError
    from PIL.Image import DecompressionBombError
    from PIL.Image import open as open_image

    try:
        with open_image(path) as image:
            return image.convert("RGB")
    except (OSError, UnidentifiedImageError, DecompressionBombError) as error:
        raise EmbedError(f"Its picture cannot be opened: {error}.") from error


def _embedded(batch: Sequence[Converted], embedder: Embedder, items_dir: Path) -> Iterator[Embedded | Failed]:
    """Embeds a batch, in parts whose pictures are not too large together."""
    ready: list[tuple[Converted, EmbedContent]] = []
    pixels = 0
    for made in batch:
        try:
            content = content_of(made.item, items_dir, embedder.modalities)
        except EmbedError as error:
            yield Failed(made.source, made.item.ordinal, str(error))
            continue
        more = content.image.width * content.image.height if content.image else 0
        if ready and pixels + more > _PIXELS:
            yield from _embedded_together(ready, embedder)
            ready, pixels = [], 0
        ready.append((made, content))
        pixels += more
    if ready:
        yield from _embedded_together(ready, embedder)


def _embedded_together(
    ready: Sequence[tuple[Converted, EmbedContent]], embedder: Embedder
) -> Iterator[Embedded | Failed]:
    """Embeds at once; if that fails, one by one, to know which is to blame."""
    try:
        vectors = embedder.embed_items([content for _, content in ready])
    except EmbedderGone:
        raise
    except EmbedError:
        for made, content in ready:
            yield _embedded_alone(made, content, embedder)
    else:
        if len(vectors) != len(ready):
            raise CollectionError(f"The embedder gave {len(vectors)} vectors for {len(ready)} items.")
        for (made, _), vector in zip(ready, vectors, strict=True):
            yield _checked(made, vector, embedder)


def _embedded_alone(made: Converted, content: EmbedContent, embedder: Embedder) -> Embedded | Failed:
    try:
        return _checked(made, embedder.embed_items([content])[0], embedder)
    except EmbedderGone:
        raise
    except EmbedError as error:
        return Failed(made.source, made.item.ordinal, f"It cannot be embedded: {error}")


def _checked(made: Converted, vector: NDArray[np.floating], embedder: Embedder) -> Embedded | Failed:
    vector = np.asarray(vector)
    axes = 1 if embedder.kind is VectorKind.SINGLE else 2
    if vector.ndim != axes or vector.shape[-1] != embedder.dimension or not vector.size:
        raise CollectionError(
            f"The embedder {embedder.name} gave numbers of shape {vector.shape} for an item, not vectors of "
            f"{embedder.dimension}.",
            "Nothing of this batch was stored. Check the embedder.",
        )
    if not np.isfinite(vector).all():
        return Failed(made.source, made.item.ordinal, "Its vector is not finite: the model cannot take it.")
    return Embedded(made.source, made.item, vector)
