"""Recorded runs that a model is to learn from: what they hold, their rows, and pictures read when shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.runs.run_store import RunStore
from vrag.errors import TrainingError
from vrag.rl.sft_rows import taught_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from vrag.rl.model import TrainableModel
    from vrag.rl.rows import DroppedRow, Row

__all__ = ["SftDataset", "digest_of", "find_recordings", "material_of"]

_EVENTS, _FILES = "events.jsonl", "files"


@dataclass(frozen=True, slots=True, eq=False)
class SftDataset:
    """What a network learns from recorded runs."""

    rows: Sequence[Row]
    files: Mapping[str, bytes]
    """Pictures of the rows, `<sha256>.jpg`; each is read anew when it is asked for, so that thousands of
    runs are not in memory."""
    dropped: Sequence[DroppedRow]
    """Calls of which no row was made."""


def find_recordings(folders: Iterable[Path]) -> list[Path]:
    """The folders of all recorded runs in some folders, however deep, in order.

    Raises:
        TrainingError: If there are none.
    """
    named = list(folders)
    found = [
        path.parent
        for folder in named
        for path in sorted(folder.rglob(_EVENTS))
        if not path.parent.name.startswith(".")  # of a process that died while it wrote it
    ]
    if not found:
        raise TrainingError(
            f"There are no recorded runs in {', '.join(map(str, named))}.",
            "Record some: vrag data demonstrate.",
        )
    return found


def digest_of(runs: Iterable[Path]) -> str:
    """A hash over the names of runs and all that they hold, in their order; where they lie is not part of it.

    Raises:
        TrainingError: If one cannot be read.
    """
    whole = hashlib.sha256()
    for run in runs:
        whole.update(f"{run.name}\n".encode())
        files = _files(run)
        for path in (run / _EVENTS, *(files[name] for name in sorted(files))):
            whole.update(f"{path.name} {_hash(path)}\n".encode())
    return whole.hexdigest()[:16]


def material_of(network: TrainableModel, runs: Iterable[Path]) -> SftDataset:
    """Rows of recorded runs, in their order. One run at a time is in memory, beside the rows.

    Raises:
        RunError: If a run is damaged.
        TrainingError: If one cannot be read.
    """
    rows: list[Row] = []
    dropped: list[DroppedRow] = []
    pictures: dict[str, Path] = {}
    for run in runs:
        files = _files(run)
        stored = RunStore(run.parent).read(run.name)
        made = taught_rows(network, stored.events, {name: _bytes(path) for name, path in files.items()})
        rows += made.rows
        dropped += made.dropped
        pictures |= {name: path for name, path in files.items() if name.endswith(".jpg")}
    return SftDataset(rows, _OnDisk(pictures), dropped)


@dataclass(frozen=True, slots=True, eq=False)
class _OnDisk(Mapping[str, bytes]):
    """Files by name, read when they are asked for.

    Raises:
        TrainingError: If one that was there is gone or cannot be read.
    """

    paths: Mapping[str, Path]

    def __getitem__(self, name: str) -> bytes:
        return _bytes(self.paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def _files(run: Path) -> dict[str, Path]:
    """The files that a run names, by name, without unfinished ones."""
    folder = run / _FILES
    found = folder.iterdir() if folder.is_dir() else ()
    return {path.name: path for path in found if not path.name.startswith(".")}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> TrainingError:
    return TrainingError(
        f"{path} cannot be read: {error.strerror or error}.",
        "Runs that are learned from have to stay: bring it back, and give the same command again.",
    )
