"""Files of one name in different folders: what of their folders tells them apart, and nothing more."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["DocumentSelector", "distinct_names"]


class DocumentSelector(NamedTuple):
    """The files of a document that a client means; None where any will do."""

    document: str
    name: str | None = None
    folder: str | None = None
    """As `distinct_names` says it."""

    def fits(self, document: str, name: str, folder: str | None) -> bool:
        """Whether a file is one of them."""
        return document == self.document and self.name in {None, name} and self.folder in {None, folder}


def distinct_names(paths: Iterable[str]) -> dict[str, str]:
    """The folders of those files that share their name with another one.

    Args:
        paths: Absolute, each once.

    Returns:
        By path the shortest end of the folder that no other file of this name has, with `/` between its
        parts: of `/srv/2023/q1/a.pdf` and `/srv/2024/q1/a.pdf` these are `2023/q1` and `2024/q1`. Files
        whose name nothing else has are left out.
    """
    named: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        named[PurePath(path).name].append(path)
    return {
        path: folder
        for same_named in named.values()
        if len(same_named) > 1
        for path, folder in zip(same_named, _ends([_parts(namesake) for namesake in same_named]), strict=True)
    }


def _parts(path: str) -> tuple[str, ...]:
    folder = PurePath(path).parent
    return folder.relative_to(folder.anchor).parts


def _ends(folders: Sequence[tuple[str, ...]]) -> list[str]:
    ends = [""] * len(folders)
    left = set(range(len(folders)))
    for length in range(1, max(map(len, folders)) + 1):
        counts = Counter(folder[-length:] for folder in folders)
        for at in [at for at in left if counts[folders[at][-length:]] == 1]:
            ends[at] = "/".join(folders[at][-length:]) or "/"
            left.remove(at)
    return ends
