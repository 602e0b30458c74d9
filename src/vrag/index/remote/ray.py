"""Making items on a Ray cluster: `vrag index add --engine ray`.

Ray Data runs the same converters and the same embedders, on as many machines as the Ray cluster has.
This process stays the only one that writes to the collection, so that the guarantees of `add` hold:

- Files are sent in waves. Ray Data needs all of its input at once, and files are marked as begun before.
- A task takes a few files and converts them as `convert_all` does on one machine, in a process of its
  own with time limits and a limit on memory. A file that hangs or crashes costs itself.
- A file is read at its path if the machine of the task sees the same bytes there (by size and
  modification time), as on a shared file system. Otherwise it is fetched from an actor on this one.
- Pictures and clips come back with their items, as bytes, and are stored here: no storage needs to be
  shared. A page is some hundred kilobytes, which is little beside what it costs to make and to embed.
- The embedder is an actor that opens the model once per wave. Its fingerprint must be that of the
  collection.
- Ray tries again what dies with its machine. Sources of which not everything came back are sent out
  again without what has come; after `ATTEMPTS` rounds they fail, with the reason.

Items come in another order than on one machine. What the collection holds in the end is the same.

Results travel as tables of one row each: the number of the source in its wave, a pickled message, and the
pickled files of the item, pictures and clips, by name.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import pickle
import re
import socket
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vrag.atomic_io import atomic_file
from vrag.corpus.convert import convert_all
from vrag.corpus.converter import Converted, Failed, Finished, ItemCount, SourceFile
from vrag.corpus.worker import explain
from vrag.errors import CollectionError, FingerprintMismatch, MissingExtra, VragError, first_line
from vrag.index.embed_items import MIN_BATCH, Embedded, embed_all
from vrag.index.schema import ArrowTable, arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from vrag.corpus.converter import Conversion, CorpusOptions
    from vrag.embed.embedder import Embedder, EmbedderInfo
    from vrag.index.embed_items import Made, Present, Producer

Ray: TypeAlias = Any
"""The module `ray`, which has no types to speak of."""

_CHUNK_BYTES = 16 * 2**20
"""Bytes of a file that are fetched at once."""
ATTEMPTS = 3
FILES_PER_TASK = 8
"""Few enough to spread, and enough that starting a process does not weigh."""
FIRST_WAVE, WAVE_GROWTH, LARGEST_WAVE = 256, 8, 16_384
"""Files: the first wave is small so that work begins soon; large ones open the model seldom."""
_TASK_BYTES = 512 * 2**20
"""Memory that a task requests. Actors do not, or Ray would have the same processes convert and embed."""
_CONNECT_SECONDS = 5.0
_BLOCK_BYTES = 8 * 2**20
"""Bytes of results that Ray passes on at once."""


class RayTask(NamedTuple):
    """One file to convert."""

    number: int
    """Number of the source in its wave."""
    source: SourceFile
    have: frozenset[int]


class RayTaskDone(NamedTuple):
    """All rows of a source are on their way."""

    rows: int
    """Number of rows besides this one."""


class RayTaskFailed(NamedTuple):
    """A failure that no file has caused."""

    error: VragError


Message: TypeAlias = "Conversion | Embedded | RayTaskDone | RayTaskFailed"

COLUMNS = ("number", "made", "files")


def row(number: int, message: Message, files: dict[str, bytes] | None = None) -> ArrowTable:
    """Build a table of one row."""
    values = ([number], [pickle.dumps(message)], [pickle.dumps(files or {})])
    pa = arrow()
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

    with tempfile.TemporaryDirectory(prefix="vrag-") as scratch:
        tasks_by_id: dict[str, RayTask] = {}
        sources: list[SourceFile] = []
        for task in tasks:
            path = Path(scratch) / str(task.number) / f"file{task.source.path.suffix}"
            try:
                sources.append(fetch(task.source, path))
                tasks_by_id[task.source.document] = task
            except OSError as error:
                yield row(task.number, Failed(task.source, None, explain(error)))
                yield row(task.number, RayTaskDone(1))
        try:
            yield from _convert_sources(sources, tasks_by_id, corpus, Path(scratch) / "items")
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
        with tempfile.TemporaryDirectory(prefix="vrag-") as scratch:
            for item in waiting:
                for name, content in item.files.items():
                    store_file(Path(scratch) / name, content)
            items = (item.made for item in waiting)
            for made in embed_all(items, self._embedder, Path(scratch), len(waiting)):
                if isinstance(made, Embedded):
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
        raise CollectionError(f"{path.name} cannot be written to {path.parent}: {error.strerror}.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    """Options of the cluster."""

    address: str = ""
    """`auto` or `ray://host:port` for a cluster; empty for one of this machine's own."""
    embedders: int = 1
    """Actors that embed at the same time, each with a model of its own."""
    gpus: float = 0.0
    """GPUs that each of them takes."""
    shared: bool = True
    """True if files are looked for at their own paths, before they are fetched."""
    items: int = MIN_BATCH
    """Items that each of them embeds at once: as many as its model works on at once, if that is more."""


def by_ray(
    options: RayOptions,
    open_embedder: Callable[[], Embedder] | None = None,
    embedder: EmbedderInfo | None = None,
) -> Producer:
    """Return a producer that works on a Ray cluster, for a collection with this embedder.

    `open_embedder` opens it on another machine: a module-level function, or a `partial` of one. When the
    producer is used, it raises `MissingExtra` if Ray is not installed, `CollectionError` if the cluster
    cannot be reached, or gives up, and `VragError` if something fails that no file has caused.
    """

    def produce(
        sources: Iterator[SourceFile], items_dir: Path, corpus: CorpusOptions, have: Present
    ) -> Generator[Made, None, None]:
        fingerprint = embedder.fingerprint if embedder else ""
        job = _RayJob(options, corpus, open_embedder, fingerprint, items_dir)
        size = FIRST_WAVE
        with _connected(options) as ray:
            while wave := list(itertools.islice(sources, size)):
                size = min(size * WAVE_GROWTH, LARGEST_WAVE)
                yield from job.run(ray, [(source, frozenset(have(source))) for source in wave])

    return produce


@contextmanager
def _connected(options: RayOptions) -> Generator[Ray]:
    """Connect Ray; a cluster that is started here is stopped, a running one stays."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        ray: Ray = importlib.import_module("ray")
        importlib.import_module("ray.data")
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield ray
        return
    try:
        match = re.fullmatch(r"(?:ray://)?(?:\[([^]]+)\]|([^:/]+)):(\d+)", options.address)
        if match:  # Ray itself would take minutes to find out that no server listens there
            address = match[1] or match[2], int(match[3])
            socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
        with _silent_stderr():
            ray.init(
                address=options.address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({} if options.address else {"include_dashboard": False}),
            )
    except (RuntimeError, ValueError, OSError) as error:
        raise CollectionError(
            f"Ray cannot be used at {options.address or 'this machine'}: {first_line(error)}.",
            "Check the address, or leave it out to use this machine alone.",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _silent_stderr() -> Generator[None]:
    """Drop what is written to the error stream: Ray's core announces its log level there."""
    sys.stderr.flush()
    original = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
        os.close(null)


@dataclass(slots=True)
class RayProgress:
    """The progress of a source."""

    source: SourceFile
    have: frozenset[int]
    counted: bool = False
    early: list[Made] = field(default_factory=list["Made"])
    """Results that came before the count."""
    ordinals: set[int | None] = field(default_factory=set[int | None])
    """Ordinals of items that have come, or failed."""
    rows: int = 0
    """Rows that came from the present attempt."""
    expected: int | None = None
    finished: bool = False

    def task(self, number: int) -> RayTask:
        """Build the task, now or again: all that has not come."""
        self.rows, self.expected = 0, None
        done = frozenset(ordinal for ordinal in self.ordinals if ordinal is not None)
        return RayTask(number, self.source, self.have | done)

    def take(self, made: ItemCount | Converted | Embedded | Failed) -> Iterator[Made]:
        """Yield what to pass on of a row, in the promised order: the count first, nothing twice."""
        self.rows += 1
        if isinstance(made, ItemCount):
            if not self.counted:
                self.counted = True
                yield replace(made, source=self.source)
                yield from self.early
                self.early = []
            return
        ordinal = made.ordinal if isinstance(made, Failed) else made.item.ordinal
        if ordinal in self.ordinals:
            return
        self.ordinals.add(ordinal)
        made = replace(made, source=self.source)
        if self.counted or ordinal is None:
            yield made
        else:
            self.early.append(made)

    def finish(self) -> Iterator[Made]:
        """Yield the end of the source, once all its rows have come."""
        if not self.finished and self.expected is not None and self.rows >= self.expected:
            self.finished = True
            yield from self.early
            yield Finished(self.source)

    def give_up(self, reason: str) -> Iterator[Made]:
        """Yield the failure and end of a source that could not be finished."""
        self.finished = True
        yield from self.early
        yield Failed(self.source, None, reason)
        yield Finished(self.source)


@dataclass(frozen=True, slots=True)
class _RayJob:
    """The constants of all waves."""

    options: RayOptions
    corpus: CorpusOptions
    open_embedder: Callable[[], Embedder] | None
    fingerprint: str
    items_dir: Path

    def run(self, ray: Ray, wave: Sequence[tuple[SourceFile, frozenset[int]]]) -> Iterator[Made]:
        progress = [RayProgress(source, have) for source, have in wave]
        reason = ""
        for _ in range(ATTEMPTS):
            left = {number: entry for number, entry in enumerate(progress) if not entry.finished}
            if not left:
                return
            try:
                yield from self._attempt(ray, left)
            except (ray.exceptions.RayError, ray.data.exceptions.UserCodeException) as error:
                reason = f"{first_line(error)}."
        for entry in progress:
            if not entry.finished:
                yield from entry.give_up(f"The machines that worked at it were lost. {reason}".strip())

    def _attempt(self, ray: Ray, sources: dict[int, RayProgress]) -> Iterator[Made]:
        orders = [entry.task(number) for number, entry in sources.items()]
        batches = self._dataset(ray, orders).iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        )
        for batch in batches:
            for number, made, files in zip(*(batch[name].to_pylist() for name in COLUMNS), strict=True):
                entry, message = sources[number], pickle.loads(made)  # noqa: S301
                if isinstance(message, RayTaskFailed):
                    raise message.error
                if isinstance(message, RayTaskDone):
                    entry.expected = message.rows
                elif not isinstance(message, Finished):
                    for name, content in pickle.loads(files).items():  # noqa: S301
                        store_file(self.items_dir / name, content)
                    yield from entry.take(message)
                yield from entry.finish()

    def _dataset(self, ray: Ray, orders: Sequence[RayTask]) -> Any:  # noqa: ANN401 - a ray.data.Dataset
        data: Any = ray.data
        context = data.DataContext.get_current()
        before = context.target_max_block_size, context.enable_progress_bars
        context.target_max_block_size, context.enable_progress_bars = _BLOCK_BYTES, False
        try:
            node = ray.get_runtime_context().get_node_id()
            strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
            here = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            origin = (
                ray.remote(Origin).options(num_cpus=0, max_concurrency=8, scheduling_strategy=here).remote()
            )
            blocks = [
                arrow().table({"order": [pickle.dumps(order) for order in orders[at : at + FILES_PER_TASK]]})
                for at in range(0, len(orders), FILES_PER_TASK)
            ]
            made = data.from_arrow(blocks).map_batches(
                convert,
                batch_size=None,
                batch_format="pyarrow",
                fn_args=(self.corpus, origin, self.options.shared),
                num_cpus=1,
                memory=_TASK_BYTES,
            )
            if self.open_embedder is None:
                return made
            return made.map_batches(
                Embedding,
                fn_constructor_args=(self.open_embedder, self.fingerprint, origin),
                batch_size=max(MIN_BATCH, self.options.items),
                batch_format="pyarrow",
                compute=data.ActorPoolStrategy(size=self.options.embedders),
                num_cpus=1,
                num_gpus=self.options.gpus,
            )
        finally:
            context.target_max_block_size, context.enable_progress_bars = before
