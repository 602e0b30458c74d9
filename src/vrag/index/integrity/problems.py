"""Problems that a verification finds, and checks of single files of a collection."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from vrag.atomic_io import write_whole
from vrag.index.array_cache import find_damaged_file, is_unfinished_cache
from vrag.index.content_stamps import STAMPS_FILE
from vrag.index.integrity.checksums import flip_back
from vrag.index.integrity.sealed_json import SEALED, Seal, check_seal, is_sealed, seal_json
from vrag.index.location import COPIES, FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Progress: TypeAlias = "Callable[[int, int], None]"
"""Receives how many items or runs are checked, and how many there are."""

_NAMES = {FILE_NAME: ("schema", "corpus", "corpus_fingerprint", "embedder"), "served.json": ("beside",)}
"""Sealed files of a collection that have a copy, with the names in those of earlier versions."""
_LOST = {
    FILE_NAME: "Build the collection again in another directory: vrag index add PATH --collection DIR",
    "served.json": "Add the collection to those that the server is started with, by --collection.",
}
"""The way to replace a sealed file that is lost with its copy."""
_MAX_FLIP_BYTES = 1 << 13
"""Size of a small file up to which every bit is tried."""
_QUESTIONS = "questions"
_LINKS = "files"
"""Folders of the cache that hold other things than arrays."""


class ProblemKind(StrEnum):
    """The kinds of problems."""

    DAMAGE = "damage"
    """Something is not as it was written."""
    LEFTOVER = "leftover"
    """A killed process or a loss of power left it; nothing that was acknowledged is affected."""
    UNPROTECTED = "unprotected"
    """An earlier version of vrag wrote it without a checksum: damage to it would not be found."""


@dataclass(frozen=True, slots=True)
class VerifyProblem:
    """A defect of a collection."""

    document: str
    """Id of the document; empty for a file that belongs to none."""
    subject: str
    """Item, file or run concerned, for people."""
    detail: str
    """The defect, in one sentence."""
    kind: ProblemKind = ProblemKind.DAMAGE
    file: str = ""
    """The file concerned, by its path relative to the collection if it is in there; empty for a row of a
    table."""
    item: str = ""
    """Id of the item concerned, if it is one."""
    repaired: bool = False
    """True if it is gone after a repair."""
    deleted: bool = False
    """True if the repair deleted what it was about, instead of making it whole."""
    advice: str = ""
    """The way to repair it by hand, where a repair cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of a verification."""

    files: int
    """Rows of the manifest."""
    items: int
    pictures: int
    """Stored pictures and clips."""
    runs: int = 0
    runs_dir: str = ""
    """Directory of those runs that are not in the collection; empty if all are."""
    problems: tuple[VerifyProblem, ...]
    repaired: bool
    """True if a repair changed anything."""

    @property
    def ok(self) -> bool:
        """True if no damage was found, or all of it was repaired."""
        return not any(problem.kind is ProblemKind.DAMAGE for problem in self.open)

    @property
    def open(self) -> tuple[VerifyProblem, ...]:
        """The problems that were not repaired."""
        return tuple(problem for problem in self.problems if not problem.repaired)

    @property
    def worst(self) -> ProblemKind | None:
        """The worst kind among the problems that were not repaired; None if there are none."""
        kinds = {problem.kind for problem in self.open}
        return next((kind for kind in ProblemKind if kind in kinds), None)

    def plus(self, runs: int, problems: Sequence[VerifyProblem]) -> VerifyReport:
        """Add what was found in runs."""
        repaired = self.repaired or any(problem.repaired for problem in problems)
        return replace(self, runs=self.runs + runs, problems=(*self.problems, *problems), repaired=repaired)


def check_sealed_files(directory: Path) -> Iterator[VerifyProblem]:
    """Check the header of the collection in a directory, and the files like it, with their copies."""
    for name, names in _NAMES.items():
        own, copy = (_state(directory / place, names) for place in (name, f"{COPIES}/{name}"))
        if own is None and copy is None:
            continue
        if own is None or own is Seal.BROKEN:
            is_repairable = copy is Seal.SOUND or _flipped_seal(directory / name) is not None
            advice = "" if is_repairable else _LOST[name]
            detail = "It is missing." if own is None else "Its checksum does not match."
            yield VerifyProblem("", name, detail, file=name, advice=advice)
        elif own is Seal.MISSING:
            yield VerifyProblem("", name, "It has no checksum.", ProblemKind.UNPROTECTED, name)
        elif copy is Seal.BROKEN:
            detail = f"It is damaged: it is not the copy of {name}."
            yield VerifyProblem("", f"{COPIES}/{name}", detail, file=f"{COPIES}/{name}")
        elif copy is not None and _differs(directory, name):
            detail = f"It is the copy of an earlier {name}: the process that wrote it was stopped."
            yield VerifyProblem("", f"{COPIES}/{name}", detail, ProblemKind.LEFTOVER, f"{COPIES}/{name}")
        elif copy is None:
            detail = f"The copy of {name} is missing."
            yield VerifyProblem("", f"{COPIES}/{name}", detail, ProblemKind.UNPROTECTED, f"{COPIES}/{name}")


def copy_sealed_files(directory: Path) -> None:
    """Write the copies of the header of a collection, and of the files like it. Raises `OSError`."""
    for name in _NAMES:
        if (directory / name).is_file():
            (directory / COPIES).mkdir(exist_ok=True)
            write_whole(directory / COPIES / name, (directory / name).read_bytes())


def repair_sealed_files(directory: Path) -> None:
    """Write sealed files again, from their copy, or by flipping a bit back. Raises `OSError`."""
    for name, names in _NAMES.items():
        path, copy = directory / name, directory / COPIES / name
        own, other = _state(path, names), _state(copy, names)
        if own is Seal.SOUND or own is Seal.MISSING:
            data = path.read_bytes()
            data = data if own is Seal.SOUND else seal_json(json.loads(data))
        elif other is Seal.SOUND:
            data = copy.read_bytes()
        elif (repaired := _flipped_seal(path) or _flipped_seal(copy)) is not None:
            data = repaired
        else:
            continue
        for target in (path, copy):
            if not target.is_file() or target.read_bytes() != data:
                target.parent.mkdir(exist_ok=True)
                write_whole(target, data)


def check_caches(cache_dir: Path) -> Iterator[VerifyProblem]:
    """Check every byte of the caches in a directory."""
    for path in sorted(cache_dir.iterdir()) if cache_dir.is_dir() else ():
        if path.name == _QUESTIONS:
            broken = (each for each in sorted(path.glob("*.json")) if _state(each, ()) is Seal.BROKEN)
            found = next(broken, None)
        elif path.name == STAMPS_FILE:
            found = path if _state(path, ()) is Seal.BROKEN else None
        elif path.is_dir() and path.name != _LINKS and not is_unfinished_cache(path.name):
            found = find_damaged_file(path)
        else:
            continue
        if found is not None:
            name = found.relative_to(cache_dir.parent).as_posix()
            detail = "Its checksum does not match. It is a cache and is made again when it is needed."
            yield VerifyProblem("", name, detail, file=name)


def undo_bit_flip(data: bytes, is_sound: Callable[[bytes], bool]) -> bytes | None:
    """Return small data with the one bit flipped back that makes it sound; None if none does."""
    for at in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        if is_sound(bytes(flipped)):
            return bytes(flipped)
    return None


def _state(path: Path, names: Sequence[str]) -> Seal | None:
    try:
        return check_seal(path.read_bytes(), names)
    except FileNotFoundError:
        return None
    except OSError:
        return Seal.BROKEN


def _differs(directory: Path, name: str) -> bool:
    return (directory / name).read_bytes() != (directory / COPIES / name).read_bytes()


def _flipped_seal(path: Path) -> bytes | None:
    """Return a sealed file with its flipped bit flipped back."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    match = SEALED.fullmatch(data)
    if match is not None:
        body = flip_back(match[1], int(match[2], 16))
        if body is not None:
            return body + data[match.end(1) :]
    return repair_seal(data)


def repair_seal(data: bytes) -> bytes | None:
    """Return a small sealed file with its flipped bit flipped back, wherever that is; None if none does."""
    if len(data) > _MAX_FLIP_BYTES:
        return None
    return undo_bit_flip(data, is_sealed)
