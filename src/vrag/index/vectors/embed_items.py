"""The embedding of items, between their conversion and the tables."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vrag.corpus.converter import Conversion, Converted, Failed, Finished
from vrag.embed.embedder import EmbedContent, Embedder, Modality, VectorKind
from vrag.errors import CollectionError, EmbedderFailedError, EmbedError
from vrag.geometry import IMAGE_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.corpus.converter import CorpusOptions, SourceFile
    from vrag.types import Item

MIN_BATCH = 16
"""Items that are embedded at once, or as many as the embedder works on at once, if that is more.

A batch is repeated when the process was killed.
"""
_MAX_PIXELS = 100_000_000
"""Pixels of decoded pictures that wait for the embedder together: 300 MB. One alone may have more."""


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """An item that was made, and its vector."""

    source: SourceFile
    item: Item
    vector: NDArray[np.floating]
    """(dimension,), or (vectors, dimension)."""


Made: TypeAlias = Conversion | Embedded
"""A result of a producer: with an embedder, an item comes as `Embedded` if it has a vector."""

Present: TypeAlias = "Callable[[SourceFile], Collection[int]]"
"""Returns the ordinals of a source's items that are present already; called once per source."""

Producer: TypeAlias = (
    "Callable[[Iterator[SourceFile], Path, CorpusOptions, Present], Generator[Made, None, None]]"
)
"""Makes what is missing of each source, here, on other machines, or from an imported index, in the order that
`convert_all` promises. Sources are taken one by one; pictures and clips are stored in the directory before
their item is yielded."""


def local(embedder: Embedder | None, batch: int = MIN_BATCH, *, live: bool = False) -> Producer:
    """Return the producer that works on this machine: converters in processes, the embedder in this one.

    The embedder, None for a collection without vectors, works on `batch` items at once. `live` is that of
    `convert_all`; a file is then embedded as soon as its last item is there.
    """

    def produce(
        sources: Iterator[SourceFile], items_dir: Path, options: CorpusOptions, have: Present
    ) -> Generator[Made, None, None]:
        from vrag.corpus.convert import convert_all  # with the converters of all formats

        made = convert_all(sources, items_dir, options, have, live=live)
        return made if embedder is None else embed_all(made, embedder, items_dir, batch, live=live)

    return produce


def embed_all(
    conversions: Generator[Conversion, None, None],
    embedder: Embedder,
    items_dir: Path,
    batch: int = MIN_BATCH,
    *,
    live: bool = False,
) -> Generator[Made, None, None]:
    """Embed every item that has content for the embedder; another one stays without a vector.

    An item that cannot be embedded fails by itself, with the reason.
    `Finished` is held back until all items of its source are out; `live`, what waits is embedded then. The
    conversions are closed in the end. Raises `EmbedderFailedError` if the embedder itself fails: no item is
    the cause, and none is given up, and `CollectionError` if the embedder returns vectors of another shape
    than it promises.
    """
    waiting: list[Converted] = []
    finished: list[Finished] = []
    with closing(conversions):
        for made in conversions:
            if isinstance(made, Converted):
                waiting.append(made)
            elif isinstance(made, Finished) and any(item.source is made.source for item in waiting):
                finished.append(made)
            else:
                yield made
            if len(waiting) >= max(MIN_BATCH, batch) or (live and finished):
                yield from _embed(waiting, embedder, items_dir)
                yield from finished
                waiting, finished = [], []
        yield from _embed(waiting, embedder, items_dir)
        yield from finished


def content_of(item: Item, items_dir: Path, modalities: Collection[Modality]) -> EmbedContent | None:
    """Return the richest form of an item that an embedder supports.

    A page is its picture, a clip its video, or one frame of it where video is not understood, a passage its
    text under its headings. For embedders of text alone it is always the text. Returns None if the item has
    no form that the embedder supports, such as a page without text; raises `EmbedError` if it cannot be read,
    or has no content at all.
    """
    if item.clip is not None and Modality.VIDEO in modalities:
        return EmbedContent(video=items_dir / item.clip.path)
    if item.image is not None and Modality.IMAGE in modalities:
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(items_dir / item.image, formats=IMAGE_FORMATS) as image:
                return EmbedContent(image=image.convert("RGB"))
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise EmbedError(f"Its picture cannot be opened: {error}.") from error
    text = f"{item.heading}\n{item.text}".strip()
    if text and Modality.TEXT in modalities:
        return EmbedContent(text=text)
    if not text and item.image is None and item.clip is None:
        raise EmbedError("It has neither a picture nor text.")
    return None


def _embed(
    batch: Sequence[Converted], embedder: Embedder, items_dir: Path
) -> Iterator[Embedded | Converted | Failed]:
    """Embed a batch, in parts whose pictures are not too large together."""
    ready: list[tuple[Converted, EmbedContent]] = []
    pixels = 0
    for made in batch:
        try:
            content = content_of(made.item, items_dir, embedder.modalities)
        except EmbedError as error:
            yield Failed(made.source, made.item.ordinal, str(error))
            continue
        if content is None:
            yield made
            continue
        size = content.image.width * content.image.height if content.image else 0
        if ready and pixels + size > _MAX_PIXELS:
            yield from _embed_together(ready, embedder)
            ready, pixels = [], 0
        ready.append((made, content))
        pixels += size
    if ready:
        yield from _embed_together(ready, embedder)


def _embed_together(
    ready: Sequence[tuple[Converted, EmbedContent]], embedder: Embedder
) -> Iterator[Embedded | Failed]:
    """Embed at once; if that fails, one by one, to find the one that cannot be embedded."""
    try:
        vectors = embedder.embed_items([content for _, content in ready])
    except EmbedderFailedError:
        raise
    except EmbedError:
        for made, content in ready:
            try:
                yield _check_vector(made, embedder.embed_items([content])[0], embedder)
            except EmbedderFailedError:
                raise
            except EmbedError as error:
                yield Failed(made.source, made.item.ordinal, f"It cannot be embedded: {error}")
    else:
        if len(vectors) != len(ready):
            raise CollectionError(f"The embedder returned {len(vectors)} vectors for {len(ready)} items.")
        for (made, _), vector in zip(ready, vectors, strict=True):
            yield _check_vector(made, vector, embedder)


def _check_vector(made: Converted, vector: NDArray[np.floating], embedder: Embedder) -> Embedded | Failed:
    vector = np.asarray(vector)
    axes = 1 if embedder.kind is VectorKind.SINGLE else 2
    if vector.ndim != axes or vector.shape[-1] != embedder.dimension or not vector.size:
        raise CollectionError(
            f"The embedder {embedder.name} returned numbers of shape {vector.shape} for an item, not "
            f"vectors of {embedder.dimension}.",
            "Nothing of this batch was stored. Check the embedder.",
        )
    if not np.isfinite(vector).all():
        return Failed(made.source, made.item.ordinal, "Its vector is not finite: the model cannot take it.")
    return Embedded(made.source, made.item, vector)
