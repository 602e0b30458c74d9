"""Files of a data set as they were published or downloaded: found in a folder, read row by row."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.row_files import read_rows
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from vrag.evaluation.benchmark import Hub
    from vrag.evaluation.sources.load_report import Remarks
    from vrag.types import Case

__all__ = ["blamed", "choose_split", "distinct_names", "find_all", "missing", "objects"]


def find_all(folder: Path, *patterns: str) -> list[Path]:
    """The files in a folder, however deep, whose path ends as the first pattern that any does.

    Args:
        folder: Names in it that begin with a dot are passed over; links to files are files.
        patterns: `a/b*.json` fits a file `b1.json` in a folder `a`, which may be `folder`.

    Returns:
        In order; none if there are none.

    Raises:
        CaseError: If it is no folder.
    """
    if not folder.is_dir():
        raise CaseError(f"{folder} is no folder.", "Name the folder that the files were downloaded into.")
    paths = sorted(_files(folder.absolute()))
    for pattern in patterns:
        fitting = (path for path in paths if path.match(pattern))
        if found := [path for path in fitting if path.is_file()]:  # a pipe would be waited for
            return found
    return []


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        yield from (Path(parent) / name for name in names if not name.startswith("."))


def choose_split(
    folder: Path, splits: Mapping[str, tuple[str, ...]], split: str | None, hub: Hub
) -> tuple[str, list[Path]]:
    """The files of a split.

    Args:
        folder: Where to look.
        splits: The patterns of each split's files, the usual split first.
        split: Which one; None for the first that is there.
        hub: Where to get them.

    Returns:
        Its name and its files: those of one place, or one where they are one file.

    Raises:
        CaseError: If there is no such split, or its files are missing.
    """
    if split is not None and split not in splits:
        raise CaseError(
            f"There is no split {split!r} with answers.", f"Those that can be asked: {', '.join(splits)}."
        )
    wanted = [split] if split is not None else list(splits)
    for name in wanted:
        if found := find_all(folder, *splits[name]):
            shards = [path for path in found if path.parent == found[0].parent]
            return name, shards if found[0].suffix == ".parquet" else shards[:1]
    raise missing(folder, splits[wanted[0]][0], hub)


def missing(folder: Path, what: str, hub: Hub) -> CaseError:
    """The error of a file that is not there; tells where it can be had."""
    return CaseError(f"{folder} holds no {what}.", f"Get it from {hub.repo}. {hub.note}".strip())


def objects(paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of files, each with its place in words.

    Raises:
        CaseError: If a file cannot be read, or a row is no object.
    """
    for path in paths:
        for number, row in enumerate(read_rows(path), 1):
            where = f"{path}, row {number}"
            if not isinstance(row, dict):
                raise CaseError(f"{where} is no object.", "Take the file as it was published.")
            yield where, cast("dict[str, Any]", row)


@contextmanager
def blamed(where: str) -> Generator[None]:
    """Names the place in errors about what stands there.

    Raises:
        CaseError: With the place.
    """
    try:
        yield
    except CaseError as error:
        hint = error.hint or "Take the file as it was published."
        raise CaseError(f"{where}: {error.message}", hint) from error


def distinct_names(cases: Iterable[Case], remarks: Remarks) -> Iterator[Case]:
    """Cases whose uids differ: one that is there twice comes once, another with its uid gets a new one."""
    seen: dict[str, Case] = {}
    for case in cases:
        if seen.get(case.uid) == case:
            remarks.count("questions are there twice and were taken once", case.uid)
            continue
        uid = case.uid
        if uid in seen:
            remarks.count("questions had the id of another, to which a number was added", uid)
            uid = next(free for n in count(2) if (free := f"{case.uid}-{n}") not in seen)
        seen[uid] = case
        yield replace(case, uid=uid)
