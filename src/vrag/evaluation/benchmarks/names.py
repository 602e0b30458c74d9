"""Documents by the names that questions have for them; no path is ever made of what data says."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from vrag.errors import CaseError
from vrag.evaluation.benchmark import Filed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vrag.evaluation.benchmark import Hub

__all__ = ["Names", "check_name", "filed", "need_all", "pdf_name", "safe_name"]

LONGEST_NAME = 200
"""Bytes of a file name."""
FORBIDDEN = frozenset('/\\:*?"<>|')
"""What file names cannot have on some system."""
SHOWN = 5
"""Names in a message."""


class Names:
    """Files by name: as it is spelled, or else in other case or another form of Unicode.

    Archives that were packed or unpacked on another system spell names otherwise.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths: dict[str, Path] = {}
        self._alike: dict[str, Path] = {}
        for path in paths:
            if path.is_file():  # pipes are none
                self._paths.setdefault(path.name, path)
                self._alike.setdefault(_folded(path.name), path)

    def get(self, name: str) -> Path | None:
        """The file of a name; of several in different folders, the first."""
        return self._paths.get(name) or self._alike.get(_folded(name))

    def without(self, names: Iterable[str]) -> list[Path]:
        """The files that none of these names is for."""
        named = {self.get(name) for name in names}
        return [path for path in self._paths.values() if path not in named]


def filed(names: Iterable[str], files: Names) -> Iterator[Filed]:
    """The documents of names that there is a file for, under those names."""
    for name in names:
        if path := files.get(name):
            yield Filed(name, path)


def need_all(names: Iterable[str], files: Names, folder: Path, hub: Hub) -> None:
    """Makes sure that there is a file for every name.

    Raises:
        CaseError: If there is not; names some of those that are missing.
    """
    wanted = list(names)
    if gone := [name for name in wanted if files.get(name) is None]:
        listed = ", ".join(f"{name:.80}" for name in gone[:SHOWN]) + (", …" if len(gone) > SHOWN else "")
        raise CaseError(
            f"{folder} lacks {len(gone)} of the {len(wanted)} documents that are asked about: {listed}.",
            f"Get them from {hub.repo}. {hub.note}".strip(),
        )


def pdf_name(name: str) -> str:
    """A name that ends in `.pdf`.

    >>> pdf_name("report"), pdf_name("report.PDF"), pdf_name("v1.2")
    ('report.pdf', 'report.PDF', 'v1.2.pdf')
    """
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def check_name(name: str, where: str) -> str:
    """A name of a document that is a plain file name.

    Raises:
        CaseError: If it leads to another folder, or is no file name on some system.
    """
    bad = not name.isprintable() or bool(FORBIDDEN & set(name)) or name.startswith(".") or not name.strip()
    if bad or len(name.encode(errors="replace")) > LONGEST_NAME:
        raise CaseError(
            f"{where} names a document that is no file name: {name!r:.80}.",
            "Has the file been changed? Take it as it was published.",
        )
    return name


def safe_name(name: str) -> str:
    """A name with an underscore for each sign that file names do not have everywhere, and not too long.

    >>> safe_name("a/b: c.pdf"), safe_name("..")
    ('a_b_ c.pdf', '_.')
    """
    kept = "".join("_" if sign in FORBIDDEN or not sign.isprintable() else sign for sign in name)
    return re.sub(r"^(?=$|\s*$)|^\.", "_", kept.encode(errors="replace")[:180].decode(errors="ignore"))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
