"""The folders of a collection's files, relative to the folder that all of them lie in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePath

from vrag.server.collections.uploads import lies_in

FOLDER_SIGN = "／"
"""Stands for the slashes in the name of a file that was uploaded with its folder (`safe_name`)."""


def relative_folders(paths: Iterable[str], uploads: Path) -> dict[str, str]:
    """Return the folder of each file, by absolute path, with `/` between its parts and empty at the top.

    A folder is relative to the innermost one that holds all files; if that is the root of the disk, each of
    its branches begins with the innermost folder that holds all of the branch. Files in `uploads` have the
    folder that is part of their name; one below `uploads` if another file of the name is there already.

    >>> relative_folders(["/r/2023/a.pdf", "/r/2024/q1/a.pdf", "/r/b.pdf"], Path("/uploads"))
    {'/r/2023/a.pdf': '2023', '/r/2024/q1/a.pdf': '2024/q1', '/r/b.pdf': ''}
    """
    uploaded: list[str] = []
    others: dict[str, tuple[str, ...]] = {}
    for path in paths:
        if lies_in(path, uploads):
            uploaded.append(path)
        else:
            others[path] = PurePath(path).parent.parts
    folders = _below_common(others)
    taken = {(folder, PurePath(path).name) for path, folder in folders.items()}
    for path in uploaded:
        name = PurePath(path).name
        folder = tuple(name.split(FOLDER_SIGN)[:-1])
        folders[path] = (uploads.name, *folder) if (folder, name) in taken else folder
    return {path: "/".join(folder) for path, folder in folders.items()}


def _below_common(folders: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Leave out what all folders begin with."""
    distinct = set(folders.values())
    common = _common(distinct)
    if len(common) > 1 or common in distinct:
        return {path: folder[len(common) :] for path, folder in folders.items()}
    branches: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for folder in distinct:
        branches[folder[len(common)]].add(folder)
    starts = {name: _common(branch) for name, branch in branches.items()}
    length = 1  # enough parts from the end for the branches to differ
    while len({start[-length:] for start in starts.values()}) < len(starts):
        length += 1
    cuts = {name: max(len(start) - length, len(common)) for name, start in starts.items()}
    return {path: folder[cuts[folder[len(common)]] :] for path, folder in folders.items()}


def _common(folders: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the parts that all folders begin with."""
    common: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return tuple(common)
