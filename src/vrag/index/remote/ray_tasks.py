"""What a machine of a cluster does when items are made by many (`ray.py`): it converts, and it embeds.

Results travel as tables of one row each: the number of the source in its wave, a pickled message, and the
pickled files of the item, pictures and clips, by name.
"""

from __future__ import annotations

import importlib
import os
import pickle
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vrag.corpus.convert import convert_all
from vrag.corpus.converter import Converted, Failed, Finished, SourceFile
from vrag.corpus.worker import explain
from vrag.errors import CollectionError, FingerprintMismatch, VragError
from vrag.index.embed_items import Embedded, embed_all
from vrag.index.tables.schema import ArrowTable, arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vrag.corpus.converter import Conversion
    from vrag.corpus.options import CorpusOptions
    from vrag.embed.embedder import Embedder

__all__ = [
    "COLUMNS",
    "Embedding",
    "Message",
    "Origin",
    "RayTask",
    "RayTaskDone",
    "RayTaskFailed",
    "convert",
    "store_file",
]

Ray: TypeAlias = Any
"""The module `ray`, which has no types to speak of."""

_PIECE = 16 * 2**20
"""Bytes of a file that are fetched at once."""


class RayTask(NamedTuple):
    """What a task is to do about one file."""

    number: int
    """Of the source in its wave."""
    source: SourceFile
    have: frozenset[int]


class RayTaskDone(NamedTuple):
    """All rows of a source are on their way."""

    rows: int
    """How many besides this one."""


class RayTaskFailed(NamedTuple):
    """Something is wrong that is not a file's fault."""

    error: VragError


Message: TypeAlias = "Conversion | Embedded | RayTaskDone | RayTaskFailed"


COLUMNS = ("number", "made", "files")


def row(number: int, message: Message, files: dict[str, bytes] | None = None) -> ArrowTable:
    values = ([number], [pickle.dumps(message)], [pickle.dumps(files or {})])
    pa = arrow()
    types = (pa.int64(), pa.large_binary(), pa.large_binary())
    return pa.table({name: pa.array(v, t) for name, v, t in zip(COLUMNS, values, types, strict=True)})


class Origin:
    """An actor on this machine: gives out its files, and keeps in mind what was begun and not ended."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def begin(self, key: str) -> bool:
        """Notes that something was begun; says whether it was begun before and never ended."""
        again = key in self._begun
        self._begun.add(key)
        return again

    def end(self, key: str) -> None:
        """Notes that something was ended."""
        self._begun.discard(key)

    def read(self, path: Path, at: int) -> bytes:
        """A piece of a file, from some place on; empty at its end.

        Raises:
            OSError: If it cannot be read.
        """
        with path.open("rb") as file:
            file.seek(at)
            return file.read(_PIECE)


def convert(
    orders: ArrowTable,
    corpus: CorpusOptions,
    origin: Any,  # noqa: ANN401 - an actor handle
    shared: bool,
) -> Iterator[ArrowTable]:
    """Converts files: what a task of the cluster does.

    Args:
        orders: A table with pickled orders.
        corpus: How files become items.
        origin: The actor of `Origin`.
        shared: Whether to look for files where they lie.

    Yields:
        Tables of one row: number of the source, pickled message, pickled stored files by name.
    """
    given = [pickle.loads(order) for order in orders["order"].to_pylist()]  # noqa: S301 - from `_Job`
    with tempfile.TemporaryDirectory(prefix="vrag-") as scratch:
        try:
            yield from _converted(given, corpus, _Fetch(origin, Path(scratch), shared))
        except VragError as error:
            yield row(given[0].number, RayTaskFailed(error))


def _converted(orders: Sequence[RayTask], corpus: CorpusOptions, fetch: _Fetch) -> Iterator[ArrowTable]:
    places: dict[str, RayTask] = {}
    sources: list[SourceFile] = []
    for order in orders:
        try:
            sources.append(fetch.source(order))
            places[order.source.document] = order
        except OSError as error:
            yield row(order.number, Failed(order.source, None, explain(error)))
            yield row(order.number, RayTaskDone(1))
    rows = Counter[int]()
    items = fetch.scratch / "items"
    alone = replace(corpus, workers=1)
    for one in convert_all(iter(sources), items, alone, lambda source: places[source.document].have):
        number = places[one.source.document].number
        if isinstance(one, Finished):
            yield row(number, RayTaskDone(rows[number]))
        else:
            rows[number] += 1
            yield row(number, one, _taken(one, items))


class _Fetch(NamedTuple):
    """Makes files visible to a task."""

    origin: Any
    scratch: Path
    shared: bool

    def source(self, order: RayTask) -> SourceFile:
        """The source of an order as this machine sees it.

        Raises:
            OSError: If it can be read neither here nor there.
        """
        source = order.source
        if self.shared and _is_here(source):
            return source
        path = self.scratch / str(order.number) / f"file{source.path.suffix}"
        path.parent.mkdir()
        with path.open("wb") as file:
            while piece := self._piece(source.path, file.tell()):
                file.write(piece)
        os.utime(path, ns=(source.mtime_ns, source.mtime_ns))
        return replace(source, path=path)

    def _piece(self, path: Path, at: int) -> bytes:
        ray: Ray = importlib.import_module("ray")
        try:
            return ray.get(self.origin.read.remote(path, at))
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, OSError) else OSError(str(error)) from error


def _is_here(source: SourceFile) -> bool:
    """Whether this machine sees a file of that size and time at its path."""
    try:
        found = source.path.stat()
    except OSError:
        return False
    return (found.st_size, found.st_mtime_ns) == (source.size, source.mtime_ns)


def _taken(made: Conversion, items: Path) -> dict[str, bytes]:
    """The stored files of an item, taken out of the folder."""
    files: dict[str, bytes] = {}
    if isinstance(made, Converted):
        clip = made.item.clip
        for name in (made.item.image, clip.path if clip else None):
            if name is not None:
                files[name] = (items / name).read_bytes()
                (items / name).unlink()
    return files


class Embedding:
    """Embeds items: what an actor of the cluster does, with a model that it opens once.

    Ray begins a batch again for ever when the process dies of it. So what is begun and ended is noted:
    a batch that comes back is embedded one by one, and an item that comes back a second time fails.

    Args:
        opened: Opens the embedder.
        fingerprint: What it must be.
        origin: The actor of `Origin`.
    """

    def __init__(self, opened: Callable[[], Embedder], fingerprint: str, origin: Any) -> None:  # noqa: ANN401
        self._origin = origin
        self._embedder: Embedder | None = None
        self._fault: VragError | None = None
        try:
            embedder = opened()
            if embedder.fingerprint != fingerprint:
                raise FingerprintMismatch(
                    f"A machine of the cluster has other weights for {embedder.name}.",
                    "Put the same model at the same path on all machines.",
                )
            self._embedder = embedder
        except VragError as error:
            self._fault = error

    def __call__(self, rows: ArrowTable) -> Iterator[ArrowTable]:
        """Gives items their vectors; passes all else on.

        Args:
            rows: As `convert` yields them.

        Yields:
            Tables of one row of the same kind.
        """
        waiting: list[_PendingItem] = []
        for number, message, files in zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True):
            made: Message = pickle.loads(message)  # noqa: S301 - from our own tasks
            if isinstance(made, Converted):
                waiting.append(_PendingItem(number, made, pickle.loads(files)))  # noqa: S301
            else:
                yield row(number, made)
        try:
            yield from self._carefully(waiting)
        except VragError as error:
            yield row(waiting[0].number, RayTaskFailed(error))

    def _carefully(self, waiting: Sequence[_PendingItem]) -> Iterator[ArrowTable]:
        if not waiting:
            return
        if not self._died_of(waiting):
            yield from self._embedded(waiting)
        else:
            for one in waiting:
                if self._died_of([one]):
                    yield row(one.number, one.failed("It crashed the process that embeds it."))
                else:
                    yield from self._embedded([one])
                self._ended([one])
        self._ended(waiting)

    def _died_of(self, waiting: Sequence[_PendingItem]) -> bool:
        ray: Ray = importlib.import_module("ray")
        return ray.get(self._origin.begin.remote(_key(waiting)))

    def _ended(self, waiting: Sequence[_PendingItem]) -> None:
        self._origin.end.remote(_key(waiting))

    def _embedded(self, waiting: Sequence[_PendingItem]) -> Iterator[ArrowTable]:
        if self._embedder is None:
            raise self._fault or CollectionError("The embedder could not be opened.")
        places = {one.place: one for one in waiting}
        with tempfile.TemporaryDirectory(prefix="vrag-") as scratch:
            for one in waiting:
                for name, content in one.files.items():
                    store_file(Path(scratch) / name, content)
            items = (one.made for one in waiting)
            for made in embed_all(items, self._embedder, Path(scratch), len(waiting)):
                if isinstance(made, Embedded):
                    one = places[made.source.document, made.item.ordinal]
                    yield row(one.number, made, one.files)
                elif isinstance(made, Failed):
                    yield row(places[made.source.document, made.ordinal or 0].number, made)


class _PendingItem(NamedTuple):
    """An item that is to be embedded."""

    number: int
    made: Converted
    files: dict[str, bytes]

    @property
    def place(self) -> tuple[str, int]:
        """Which item of which document it is."""
        return self.made.source.document, self.made.item.ordinal

    def failed(self, reason: str) -> Failed:
        """It cannot be embedded."""
        return Failed(self.made.source, self.made.item.ordinal, reason)


def _key(waiting: Sequence[_PendingItem]) -> str:
    """Names items that are embedded together."""
    return " ".join(one.made.item.id for one in waiting) + f" of {len(waiting)}"


def store_file(path: Path, content: bytes) -> None:
    """Writes beside the final name and renames: a reader never sees half a picture."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CollectionError(f"{path.name} cannot be written to {path.parent}: {error.strerror}.") from error
