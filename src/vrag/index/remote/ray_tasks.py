"""The tasks and actors that run on the machines of a Ray cluster.

Results travel as tables of one row each: the number of the source, a pickled message, and the
pickled files of the item, pictures and clips, by name.
"""

from __future__ import annotations

import importlib
import os
import pickle
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vrag.atomic_io import atomic_file
from vrag.corpus.convert import convert_all
from vrag.corpus.converter import Converted, Failed, Finished, SourceFile
from vrag.corpus.workers.worker import explain
from vrag.errors import CollectionError, FingerprintMismatch, VragError
from vrag.index.vectors.embed_items import Embedded, embed_all
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vrag.corpus.converter import Conversion, CorpusOptions
    from vrag.embed.embedder import Embedder

Ray: TypeAlias = Any
"""The module `ray`, which has no types to speak of."""

_CHUNK_BYTES = 16 * 2**20
"""Bytes of a file that are fetched at once."""


class RayTask(NamedTuple):
    """One file to convert."""

    number: int
    """Number of the source."""
    source: SourceFile
    have: frozenset[int]


class RayTaskDone(NamedTuple):
    """All rows of a source are on their way."""

    rows: int
    """Number of rows besides this one."""


class RayTaskFailed(NamedTuple):
    """A failure that no file has caused."""

    error: VragError


ArrowTable: TypeAlias = Any
"""A `pyarrow.Table`, which Ray passes from task to task."""
Message: TypeAlias = "Conversion | Embedded | RayTaskDone | RayTaskFailed"

COLUMNS = ("number", "made", "files")


def row(number: int, message: Message, files: dict[str, bytes] | None = None) -> ArrowTable:
    """Build a table of one row."""
    values = ([number], [pickle.dumps(message)], [pickle.dumps(files or {})])
    pa: Any = importlib.import_module("pyarrow")
    types = (pa.int64(), pa.large_binary(), pa.large_binary())
    return pa.table({name: pa.array(v, t) for name, v, t in zip(COLUMNS, values, types, strict=True)})


class Origin:
    """An actor on this machine: it sends its files, and remembers what was begun and not ended."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def begin(self, key: str) -> bool:
        """Note that something was begun; return whether it was begun before and never ended."""
        is_repeated = key in self._begun
        self._begun.add(key)
        return is_repeated

    def end(self, key: str) -> None:
        """Note that something was ended."""
        self._begun.discard(key)

    def read(self, path: Path, offset: int) -> bytes:
        """Read a chunk of a file at an offset; empty at its end."""
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_CHUNK_BYTES)


def convert(
    orders: ArrowTable,
    corpus: CorpusOptions,
    origin: Any,  # noqa: ANN401 - an actor handle
    shared: bool,
) -> Iterator[ArrowTable]:
    """Convert files: a task of the cluster.

    The orders are pickled; with `shared`, files are looked for at their own paths first. Yields tables of one
    row: number of the source, pickled message, pickled stored files by name.
    """
    ray: Ray = importlib.import_module("ray")
    tasks: list[RayTask] = [pickle.loads(order) for order in orders["order"].to_pylist()]  # noqa: S301

    def fetch(source: SourceFile, path: Path) -> SourceFile:
        """Return the source if this machine has it at its path; else fetch it to `path`."""
        with suppress(OSError):
            found = source.path.stat()
            if shared and (found.st_size, found.st_mtime_ns) == (source.size, source.mtime_ns):
                return source
        path.parent.mkdir()
        with path.open("wb") as file:
            try:
                while chunk := ray.get(origin.read.remote(source.path, file.tell())):
                    file.write(chunk)
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, OSError) else OSError(str(error)) from error
        os.utime(path, ns=(source.mtime_ns, source.mtime_ns))
        return replace(source, path=path)

    with scratch_directory() as scratch:
        tasks_by_id: dict[str, RayTask] = {}
        sources: list[SourceFile] = []
        for task in tasks:
            path = scratch / str(task.number) / f"file{task.source.path.suffix}"
            try:
                sources.append(fetch(task.source, path))
                tasks_by_id[task.source.document] = task
            except OSError as error:
                yield row(task.number, Failed(task.source, None, explain(error)))
                yield row(task.number, RayTaskDone(1))
        try:
            yield from _convert_sources(sources, tasks_by_id, corpus, scratch / "items")
        except VragError as error:
            yield row(tasks[0].number, RayTaskFailed(error))


def _convert_sources(
    sources: Sequence[SourceFile], tasks: Mapping[str, RayTask], corpus: CorpusOptions, items: Path
) -> Iterator[ArrowTable]:
    """Convert sources, whose tasks are by document; the files of items are moved into the rows."""
    rows = Counter[int]()
    alone = replace(corpus, workers=1)
    for made in convert_all(iter(sources), items, alone, lambda source: tasks[source.document].have):
        number = tasks[made.source.document].number
        if isinstance(made, Finished):
            yield row(number, RayTaskDone(rows[number]))
            continue
        files: dict[str, bytes] = {}
        if isinstance(made, Converted):
            clip = made.item.clip
            for name in filter(None, (made.item.image, clip.path if clip else None)):
                files[name] = (items / name).read_bytes()
                (items / name).unlink()
        rows[number] += 1
        yield row(number, made, files)


class Embedding:
    """An actor of the cluster that embeds items, with a model opened once and checked by its fingerprint.

    Ray repeats a batch forever when the process dies of it. So what is begun and ended is noted with the
    `Origin` actor: a batch that comes back is embedded one by one, and an item that comes back a second time
    fails.
    """

    def __init__(self, open_embedder: Callable[[], Embedder], fingerprint: str, origin: Any) -> None:  # noqa: ANN401
        self._origin = origin
        self._embedder: Embedder | None = None
        self._failure: VragError | None = None
        try:
            embedder = open_embedder()
            if embedder.fingerprint != fingerprint:
                raise FingerprintMismatch(
                    f"A machine of the cluster has other weights for {embedder.name}.",
                    "Put the same model at the same path on all machines.",
                )
            self._embedder = embedder
        except VragError as error:
            self._failure = error

    def __call__(self, rows: ArrowTable) -> Iterator[ArrowTable]:
        """Embed items of the rows that `convert` yields; yield such rows, with all others unchanged."""
        waiting: list[_PendingItem] = []
        for number, message, files in zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True):
            made: Message = pickle.loads(message)  # noqa: S301 - from our own tasks
            if isinstance(made, Converted):
                waiting.append(_PendingItem(number, made, pickle.loads(files)))  # noqa: S301
            else:
                yield row(number, made)
        try:
            yield from self._embed_safely(waiting)
        except VragError as error:
            yield row(waiting[0].number, RayTaskFailed(error))

    def _embed_safely(self, waiting: Sequence[_PendingItem]) -> Iterator[ArrowTable]:
        if not waiting:
            return
        if not self._died_of(waiting):
            yield from self._embed(waiting)
        else:
            for item in waiting:
                if self._died_of([item]):
                    made, reason = item.made, "It crashed the process that embeds it."
                    yield row(item.number, Failed(made.source, made.item.ordinal, reason))
                else:
                    yield from self._embed([item])
                self._origin.end.remote(_key([item]))
        self._origin.end.remote(_key(waiting))

    def _died_of(self, waiting: Sequence[_PendingItem]) -> bool:
        ray: Ray = importlib.import_module("ray")
        return ray.get(self._origin.begin.remote(_key(waiting)))

    def _embed(self, waiting: Sequence[_PendingItem]) -> Iterator[ArrowTable]:
        if self._embedder is None:
            raise self._failure or CollectionError("The embedder could not be opened.")
        pending = {(item.made.source.document, item.made.item.ordinal): item for item in waiting}
        with scratch_directory() as scratch:
            for item in waiting:
                for name, content in item.files.items():
                    store_file(scratch / name, content)
            items = (item.made for item in waiting)
            for made in embed_all(items, self._embedder, scratch, len(waiting)):
                if isinstance(made, Embedded | Converted):
                    item = pending[made.source.document, made.item.ordinal]
                    yield row(item.number, made, item.files)
                elif isinstance(made, Failed):
                    yield row(pending[made.source.document, made.ordinal or 0].number, made)


class _PendingItem(NamedTuple):
    number: int
    made: Converted
    files: dict[str, bytes]


def _key(waiting: Sequence[_PendingItem]) -> str:
    """Make the key of items that are embedded together."""
    return " ".join(item.made.item.id for item in waiting) + f" of {len(waiting)}"


def store_file(path: Path, content: bytes) -> None:
    """Write a picture or clip as a whole: a reader never sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, durable=False) as file:
            file.write(content)
    except OSError as error:
        raise CollectionError(
            f"{path.name} cannot be written to {path.parent}: {error.strerror or error}.",
            "Free some disk space or fix the permissions.",
        ) from error
