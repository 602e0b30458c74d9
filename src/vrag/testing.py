"""Fakes for tests, here and in projects that build on vrag. Nothing in the package imports them."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from vrag.agent.policy import Delta, Reply
from vrag.corpus.formats.video import VideoFrame
from vrag.embed.embedder import Modality, VectorKind
from vrag.errors import ModelError, SearchError
from vrag.geometry import Box, Size, View
from vrag.types import Clip, Hit, Item, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from vrag.agent.policy import Message
    from vrag.embed.embedder import EmbedContent
    from vrag.types import Query

LINE, LEFT, CHARACTER = 40, 40, 10
"""Pixels: height of a line, left margin, width of a character on a page that `page` draws."""


@dataclass(frozen=True, slots=True)
class ScriptedPolicy:
    """A policy that gives scripted replies one after the other.

    It goes by the number of the call in its run, so that one policy serves many runs, as a real one
    does. Each reply comes in pieces of `piece` characters. A reply that is an exception is raised.
    """

    replies: tuple[str | Exception, ...]
    piece: int = 7
    name: str = "scripted"
    sampling: Mapping[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(
        self,
        history: Sequence[Message],  # noqa: ARG002 - a script does not listen
        turn: int = 1,
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the next reply of the script. Raises `ModelError` if the script has ended."""
        if turn > len(self.replies):
            raise ModelError("The script has ended.")
        text = self.replies[turn - 1]
        if isinstance(text, Exception):
            raise text
        for start in range(0, len(text), self.piece):
            yield Delta(text[start : start + self.piece])
        yield Reply(text)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


@dataclass(frozen=True, slots=True)
class HashEmbedder:
    """Vectors of words: each word has a direction of its own, drawn from its hash.

    Texts that share words are near each other, pictures are the words of their average colour and
    size: enough to test everything around an embedder but its quality. A multi-vector is one vector
    per word.
    """

    kind: VectorKind = VectorKind.SINGLE
    dimension: int = 64
    seed: int = 0
    modalities: frozenset[Modality] = frozenset({Modality.TEXT, Modality.IMAGE})
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int])

    @property
    def name(self) -> str:
        """Its name in settings."""
        return f"hash:{self.kind}-{self.dimension}-{self.seed}"

    @property
    def fingerprint(self) -> str:
        """Differs by kind, dimension and seed."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """Embed contents."""
        vectors: list[NDArray[np.float32]] = []
        for content in contents:
            words = content.text.casefold().split()
            if content.image is not None:
                thumbnail = content.image.resize((4, 4)).convert("RGB").tobytes()
                words += [f"{place}:{value // 16}" for place, value in enumerate(thumbnail)]
                words += [f"{content.image.width}×{content.image.height}"]
            vectors.append(self._vector(words))
        return vectors

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """Embed queries."""
        return [self._vector(query.casefold().split()) for query in queries]

    def _vector(self, words: Sequence[str]) -> NDArray[np.float32]:
        directions: list[NDArray[np.float32]] = []
        for word in words or [""]:
            digest = hashlib.sha256(f"{self.seed} {word}".encode()).digest()
            drawn = np.random.default_rng(int.from_bytes(digest[:8])).standard_normal(self.dimension)
            directions.append((drawn / np.linalg.norm(drawn)).astype(np.float32))
        if self.kind is VectorKind.MULTI:
            return np.stack(directions)
        total = np.stack(directions).sum(axis=0)
        return total / np.float32(np.linalg.norm(total) or 1)


@dataclass(frozen=True, slots=True)
class MemorySearcher:
    """A searcher over items in memory, by shared words; images are drawn on demand.

    It is a `Searcher` in every respect but scale, so that the environment can be tested without
    an index.
    """

    items: tuple[Item, ...]
    version: str = "memory"
    queries: list[Query] = field(default_factory=list["Query"], compare=False)
    """All queries so far, in order."""

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find items that share words with the query, most first, ties by id."""
        self.queries.extend(queries)
        return [self._hits(query, top_k) for query in queries]

    def item(self, id: str) -> Item:
        """Return the item with this id. Raises `SearchError` if there is none."""
        for item in self.items:
            if item.id == id:
                return item
        raise SearchError(f"There is no item {id!r}.")

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:  # noqa: ARG002 - it is one
        """Return the file names of the documents, by their ids, sorted by name."""
        listed = {item.document: item.document_name for item in self.items}
        return dict(sorted(listed.items(), key=lambda entry: entry[1]))

    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        """Draw an item: its words, each on a grey patch that fills its box.

        With `least` it is made smaller by the steps that a stored JPEG is decoded in.
        """
        image = self._drawn(id)
        for step in (8, 4, 2):
            if least and image.width >= step * least.width and image.height >= step * least.height:
                return image.reduce(step)
        return image

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Draw frames of a clip that has ten a second; each shows its time in the video."""
        item = self.item(id)
        if item.clip is None:
            raise SearchError(f"The item {id!r} has no frames: it is a {item.kind}.")
        seconds = item.clip.end - item.clip.start
        asked = max(1, math.ceil(seconds * fps))
        step = 1 / fps if asked <= most else (seconds - 0.1) / max(1, most - 1)
        times = [round(item.clip.start + number * step, 6) for number in range(min(asked, most))]
        frames: list[VideoFrame] = []
        for time in times:
            image = self._drawn(id)
            ImageDraw.Draw(image).text((LEFT, LINE), f"{time:.3f} s", fill="black")
            frames.append(VideoFrame(image, time))
        return frames

    def part(self, id: str, view: View) -> None:
        """Draw nothing: there are no files."""

    def _drawn(self, id: str) -> Image.Image:
        item = self.item(id)
        if item.size is None:
            raise SearchError(f"The item {id!r} has no picture.")
        return _draw(item, item.size).copy()

    def _hits(self, query: Query, top_k: int) -> list[Hit]:
        wanted = set(query.text.casefold().split())
        scored = [(len(wanted & set(item.text.casefold().split())), item) for item in self.items]
        found = [
            (score, item)
            for score, item in scored
            if score
            and (query.documents is None or item.document in query.documents)
            and (query.kinds is None or item.kind in query.kinds)
        ]
        found.sort(key=lambda pair: (-pair[0], pair[1].id))
        return [
            Hit(item.id, float(score), rank, item.document, item.document_name, item.ordinal, item.kind)
            for rank, (score, item) in enumerate(found[:top_k], 1)
        ]


@lru_cache(maxsize=8)  # a run draws its pages several times
def _draw(item: Item, size: Size) -> Image.Image:
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for word in item.words:
        x1, y1, x2, y2 = word.box.as_tuple()
        corners = (x1 * size.width, y1 * size.height, x2 * size.width, y2 * size.height)
        draw.rectangle(corners, fill="lightgrey")
        draw.text(corners[:2], item.text[word.start : word.end].encode("ascii", "replace"), fill="black")
    return image


def page(document: str, ordinal: int, text: str, *, size: Size | None = None) -> Item:
    """Make a page whose lines of text stand one below the other, with word boxes that fit the drawing."""
    size = size or Size(1000, 1400)
    words: list[Word] = []
    for number, line in enumerate(text.split("\n")):
        start = sum(len(previous) + 1 for previous in text.split("\n")[:number])
        at = 0
        for word in line.split(" "):
            x, y = LEFT + at * CHARACTER, LINE * (number + 1)
            corners = (x, y, x + len(word) * CHARACTER, y + LINE * 0.6)
            sides = (min(1.0, side / whole) for side, whole in zip(corners, (*size, *size), strict=True))
            words.append(Word(start + at, start + at + len(word), Box.unit(*sides)))
            at += len(word) + 1
    return Item(
        id=item_id(_document_id(document), ordinal),
        document=_document_id(document),
        document_name=document,
        kind=ItemKind.PAGE,
        ordinal=ordinal,
        text=text,
        words=tuple(word for word in words if word.end > word.start),
        text_source=TextSource.LAYER,
        size=size,
        image=f"{_document_id(document)[:16]}/{ordinal}.png",
    )


def passage(document: str, ordinal: int, text: str) -> Item:
    """Make a passage of a text file."""
    return Item(
        id=item_id(_document_id(document), ordinal),
        document=_document_id(document),
        document_name=document,
        kind=ItemKind.PASSAGE,
        ordinal=ordinal,
        text=text,
        text_source=TextSource.FILE,
    )


def clip(
    document: str, ordinal: int, text: str, start: float, end: float, *, size: Size | None = None
) -> Item:
    """Make a clip with subtitles: from `start` to `end`, in seconds of the video."""
    path = f"{_document_id(document)[:16]}/{ordinal}"
    return Item(
        id=item_id(_document_id(document), ordinal),
        document=_document_id(document),
        document_name=document,
        kind=ItemKind.CLIP,
        ordinal=ordinal,
        text=text,
        text_source=TextSource.FILE,
        size=size or Size(640, 360),
        image=f"{path}.jpg",
        clip=Clip(f"{path}.mp4", start, end, (start,)),
    )


def tiny_corpus() -> MemorySearcher:
    """Make three pages and a passage about an invented ferry."""
    return MemorySearcher(
        (
            page("ferry.pdf", 1, "The Lantern Ferry\nAnnual report 2024"),
            page(
                "ferry.pdf",
                2,
                "Passengers in 2024\nThe ferry carried 48,200 passengers in 2024.\nCars: 3,100",
            ),
            page("ferry.pdf", 3, "Prices\nA return ticket costs 12 crowns.\nChildren travel free."),
            passage("notes.md", 1, "The ferry does not run in January because of ice."),
        )
    )


def _document_id(name: str) -> str:
    return name.encode().hex().ljust(64, "0")[:64]
