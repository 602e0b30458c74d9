"""Making items on a Ray cluster: `vrag index add --engine ray`.

Ray Data runs the same converters and the same embedders, on as many machines as the Ray cluster has.
This process stays the only one that writes to the collection, so that the guarantees of `add` hold:

- All files are known before Ray begins: Ray Data needs its input at once, and streams what it makes.
- A task takes a few files and converts them as `convert_all` does on one machine, in a process of its
  own with time limits and a limit on memory. A file that hangs or crashes costs itself.
- A file is read at its path if the machine of the task sees the same bytes there (by size and
  modification time), as on a shared file system. Otherwise it is fetched from an actor on this one.
- Pictures and clips come back with their items, as bytes, and are stored here: no storage needs to be
  shared. A page is some hundred kilobytes, which is little beside what it costs to make and to embed.
- The embedder is an actor that opens the model once. Its fingerprint must be that of the collection.
- Ray tries again what dies with its machine. Sources of which not everything came back are sent out
  again without what has come; after `ATTEMPTS` rounds they fail, with the reason.

Items come in another order than on one machine. What the collection holds in the end is the same.
"""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import re
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.corpus.converter import Converted, Failed, Finished, ItemCount, SourceFile
from vrag.errors import CollectionError, MissingExtra, first_line
from vrag.index.remote.ray_tasks import (
    COLUMNS,
    Embedding,
    Origin,
    Ray,
    RayTask,
    RayTaskDone,
    RayTaskFailed,
    convert,
    store_file,
)
from vrag.index.vectors.embed_items import MIN_BATCH, Embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from vrag.corpus.converter import CorpusOptions
    from vrag.embed.embedder import Embedder, EmbedderInfo
    from vrag.index.vectors.embed_items import Made, Present, Producer

ATTEMPTS = 3
FILES_PER_TASK = 8
"""Few enough to spread, and enough that starting a process does not weigh."""
_TASK_BYTES = 512 * 2**20
"""Memory that a task requests. Actors do not, or Ray would have the same processes convert and embed."""
_CONNECT_SECONDS = 5.0
_BLOCK_BYTES = 8 * 2**20
"""Bytes of results that Ray passes on at once."""


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
        with _connected(options) as ray:
            yield from job.run(ray, [(source, frozenset(have(source))) for source in sources])

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
    """The constants of all attempts."""

    options: RayOptions
    corpus: CorpusOptions
    open_embedder: Callable[[], Embedder] | None
    fingerprint: str
    items_dir: Path

    def run(self, ray: Ray, wanted: Sequence[tuple[SourceFile, frozenset[int]]]) -> Iterator[Made]:
        progress = [RayProgress(source, have) for source, have in wanted]
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
            arrow: Any = importlib.import_module("pyarrow")
            blocks = [
                arrow.table({"order": [pickle.dumps(order) for order in orders[at : at + FILES_PER_TASK]]})
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
