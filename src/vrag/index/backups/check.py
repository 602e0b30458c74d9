"""The check of a directory of backups: everything in it is read, and compared with its hashes."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.store import BackupStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vrag.index.backups.snapshot import BackedUpFile


class CheckProblem(NamedTuple):
    """A damaged part of a backup."""

    snapshots: tuple[str, ...]
    """Names of the snapshots that need it."""
    file: str
    """Path of the file in the collection; empty where the snapshot itself is damaged."""
    detail: str
    """The defect, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupCheck:
    """The result of checking backups."""

    snapshots: int
    objects: int
    """Distinct contents of files, each of which is stored once."""
    bytes: int
    """Bytes of all objects."""
    problems: tuple[CheckProblem, ...]
    seconds: float


def check_backups(
    backups: Path, *, wait: float = 0.0, progress: Callable[[int, int], None] | None = None
) -> BackupCheck:
    """Read everything in a directory of backups, and compare it with its hashes.

    Where the directory may be written to, damaged objects are set aside: the next backup stores them again if
    the collection still has the files. `wait` is the time to wait for another process, in seconds. `progress`
    receives after each object how many are done, of how many. Raises `CollectionBusy` if a backup is being
    made.
    """
    started = time.monotonic()
    store = BackupStore.open(backups)
    with ExitStack() as stack:
        may_write = True
        try:
            stack.enter_context(store.lock(wait))
        except CollectionBusy:
            raise
        except CollectionError:
            may_write = False
        sizes = store.objects.sizes()
        problems = find_problems(store, isolate=may_write, progress=progress)
    return BackupCheck(
        snapshots=len(store.names()),
        objects=len(sizes),
        bytes=sum(sizes.values()),
        problems=tuple(problems),
        seconds=time.monotonic() - started,
    )


def find_problems(
    store: BackupStore, *, isolate: bool, progress: Callable[[int, int], None] | None = None
) -> list[CheckProblem]:
    """Read all objects of all snapshots, and return what is damaged or missing.

    With `isolate` damaged objects are set aside; the caller holds the lock then.
    """
    problems: list[CheckProblem] = []
    uses: dict[BackedUpFile, list[str]] = {}
    for name in store.names():
        try:
            for file in store.read(name)[1]:
                uses.setdefault(file._replace(mtime_ns=0), []).append(name)
        except CollectionError as error:
            problems.append(CheckProblem((name,), "", error.message))
    objects = {(file.sha256, file.size) for file in uses}
    defects: dict[tuple[str, int], str] = {}
    for done, (sha256, size) in enumerate(sorted(objects), 1):
        if defect := store.objects.find_defect(sha256, size):
            defects[sha256, size] = defect
        if progress:
            progress(done, len(objects))
    for sha256, _ in defects if isolate else ():
        store.objects.isolate(sha256)
    for file, names in uses.items():
        if defect := defects.get((file.sha256, file.size)):
            problems.append(CheckProblem(tuple(names), file.name, defect))
    return problems
