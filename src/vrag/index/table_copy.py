"""Copies of small tables as Arrow files, with which a process reads a table without LanceDB.

Importing LanceDB takes longer than most searches. A copy is derived from one version of a table and named by
a hash over that version's manifest. The manifest names the data files and the deletion files of its version,
whose names are random: equal manifests mean equal rows, also where a directory was copied, or restored from
a backup so that version numbers are given out a second time. A commit writes a new manifest, so a copy is
never read for another version than its own. The copy appears whole or not at all, by
`vrag.index.array_cache`.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.array_cache import ArrayContent, find, make, sweep
from vrag.index.schema import arrow

if TYPE_CHECKING:
    from vrag.index.schema import ArrowTable

MAX_BYTES = 64 * 2**20
"""Size of a table's data files beyond which no copy is made: reading it takes longer than the import."""
_PREFIX = "table-"
_FILE = "rows"
_MANIFEST = re.compile(r"(\d{20})\.manifest")
"""Lance's second naming scheme: 2^64 - 1 minus the version, so that the newest comes first."""
_MAX_VERSION = 2**64 - 1


class Manifest(NamedTuple):
    """The manifest of the newest version of a table."""

    table: Path
    """The directory of the table."""
    version: int
    """LanceDB's number of it, from 1."""
    hash: str
    """32 hexadecimal digits over its content."""

    def data_bytes(self) -> int:
        """Return the size of all data files of the table, also of those that the version does not need."""
        return sum(path.stat().st_size for path in (self.table / "data").iterdir())


def newest_manifest(table: Path) -> Manifest | None:
    """Find the newest version of the table in a directory, as Lance does: by the names of its manifests.

    Returns None when there is no version, or one that is named by another scheme.
    """
    try:
        names = [path.name for path in (table / "_versions").iterdir() if path.suffix == ".manifest"]
        matches = [_MANIFEST.fullmatch(name) for name in names]
        numbers = [match[1] for match in matches if match]
        if not numbers or len(numbers) < len(names):
            return None
        content = (table / "_versions" / f"{min(numbers)}.manifest").read_bytes()
    except OSError:
        return None
    return Manifest(table, _MAX_VERSION - int(min(numbers)), hashlib.sha256(content).hexdigest()[:32])


class TableCopies:
    """The copies of one table, by its name, in a directory of caches."""

    def __init__(self, cache_dir: Path, name: str) -> None:
        self._cache_dir = cache_dir
        self._prefix = f"{_PREFIX}{name}-"

    def read(self, manifest: Manifest) -> ArrowTable | None:
        """Read the copy of a version, mapped into memory; None when there is none, or it is damaged."""
        stored = find(self._path(manifest))
        if stored is None:
            return None
        pa = arrow()
        try:
            return pa.ipc.open_file(pa.py_buffer(stored.arrays[_FILE])).read_all()
        except (KeyError, ValueError, OSError):  # pyarrow's own errors are ValueErrors
            return None

    def write(self, manifest: Manifest, rows: ArrowTable) -> None:
        """Keep the rows of a version, where its directory can be written to, and delete older copies."""

        def build(directory: Path) -> ArrayContent:
            pa = arrow()
            with pa.OSFile(str(directory / _FILE), "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
                out.write_table(rows)
            size = (directory / _FILE).stat().st_size
            return ArrayContent({_FILE: (np.uint8, (size,))}, {"rows": rows.num_rows})

        with suppress(OSError):
            make(self._cache_dir, self._path(manifest), build)
            sweep(self._cache_dir, self._prefix, self._path(manifest).name)

    def _path(self, manifest: Manifest) -> Path:
        return self._cache_dir / f"{self._prefix}{manifest.hash}"
