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
    """Distinct contents of files that snapshots need, each of which is stored once."""
    bytes: int
    """Bytes of all that is stored."""
    problems: tuple[CheckProblem, ...]
    seconds: float


def check_backups(
    backups: Path, *, wait: float = 0.0, progress: Callable[[int, int], None] | None = None
) -> BackupCheck:
    """Read everything in a directory of backups, and compare it with its hashes.

    Where the directory may be written to, damaged contents are set aside: the next backup stores them again
    if the collection still has the files. `wait` is the time to wait for another process, in seconds.
    `progress` receives after each content how many are done, of how many. Raises `CollectionBusy` if a backup
    is being made.
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
        size = store.size()
        contents, problems = find_problems(store, isolate=may_write, progress=progress)
    return BackupCheck(
        snapshots=len(store.names()),
        objects=contents,
        bytes=size,
        problems=tuple(problems),
        seconds=time.monotonic() - started,
    )


def find_problems(
    store: BackupStore, *, isolate: bool, progress: Callable[[int, int], None] | None = None
) -> tuple[int, list[CheckProblem]]:
    """Read all contents that snapshots need; return their number, and what is damaged or missing.

    With `isolate` damaged contents are set aside; the caller holds the lock then.
    """
    problems: list[CheckProblem] = []
    uses: dict[str, dict[str, list[str]]] = {}
    """The paths by which each content is known, with the snapshots that have it there."""
    for name in store.names():
        try:
            content = store.read(name)
            if defect := store.find_database_defect(content):
                problems.append(CheckProblem((name,), store.database(name).name, defect))
            else:
                for path, sha256 in store.contents(content).items():
                    uses.setdefault(sha256, {}).setdefault(path, []).append(name)
        except CollectionError as error:
            problems.append(CheckProblem((name,), "", error.message))
    for done, (sha256, paths) in enumerate(sorted(uses.items()), 1):
        for _ in store.blobs.damaged([sha256]):
            defect = "missing" if store.blobs.absent([sha256]) else "damaged"
            detail = f"Its content {sha256} is {defect}."
            problems += [CheckProblem(tuple(names), path, detail) for path, names in paths.items()]
            if isolate and defect == "damaged":
                store.isolate(sha256)
        if progress:
            progress(done, len(uses))
    return len(uses), problems
