"""Problems that a verification finds, and checks of single files of a collection."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from vrag.storage.array_cache import find_damaged_file, is_unfinished_cache
from vrag.storage.sealed_json import is_sealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Progress: TypeAlias = "Callable[[int, int], None]"
"""Receives how many items or runs are checked, and how many there are."""

_QUESTIONS = "questions"
_LINKS = "files"
"""Folders of the cache that hold other things than arrays."""


class ProblemKind(StrEnum):
    """The kinds of problems."""

    DAMAGE = "damage"
    """Something is not as it was written."""
    LEFTOVER = "leftover"
    """A killed process or a loss of power left it; nothing that was acknowledged is affected."""


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
    """The file concerned, by its path relative to the collection if it is in there; empty for a row."""
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


def check_caches(cache_dir: Path) -> Iterator[VerifyProblem]:
    """Check every byte of the caches in a directory."""
    for path in sorted(cache_dir.iterdir()) if cache_dir.is_dir() else ():
        if path.name == _QUESTIONS:
            found = next(filter(_is_broken, sorted(path.glob("*.json"))), None)
        elif path.is_dir() and path.name != _LINKS and not is_unfinished_cache(path.name):
            found = find_damaged_file(path)
        else:
            continue
        if found is not None:
            name = found.relative_to(cache_dir.parent).as_posix()
            detail = "Its checksum does not match. It is a cache and is made again when it is needed."
            yield VerifyProblem("", name, detail, file=name)


def delete_cache(damaged: Path) -> None:
    """Delete a damaged file of a cache, with the arrays that belong to it."""
    if damaged.parent.name == _QUESTIONS:
        damaged.unlink(missing_ok=True)
    else:
        shutil.rmtree(damaged.parent, ignore_errors=True)  # what is left is not used


def _is_broken(path: Path) -> bool:
    try:
        return not is_sealed(path.read_bytes())
    except FileNotFoundError:
        return False
    except OSError:
        return True
