"""Copies of small tables, with which a process reads them without LanceDB.

Importing LanceDB takes longer than most searches. A copy is an Arrow file in a cache directory. It is derived
from one version of a table and named by a hash over that version's manifest. The manifest names the data
files and the deletion files of its version, whose names are random: equal manifests mean equal rows, also
where a directory was copied, or restored from a backup so that version numbers are given out a second time. A
commit writes a new manifest, so a copy is never read for another version than its own.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.array_cache import ArrayContent, find, make, sweep
from vrag.index.schema import arrow
from vrag.index.tables.layout import list_manifests, manifest_name

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.index.schema import ArrowTable

MAX_TABLE_BYTES = 64 * 2**20
"""Size of a table's data files beyond which no copy is made: reading it takes longer than the import."""
_PREFIX = "table-"
_FILE = "rows"


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

    Returns None when there is no version, or one that is named by Lance's first scheme.
    """
    try:
        versions = list_manifests(table)
        if not versions or any(manifest_name(version) != name for name, version in versions.items()):
            return None
        newest = max(versions.values())
        content = (table / manifest_name(newest)).read_bytes()
    except OSError:
        return None
    return Manifest(table, newest, hashlib.sha256(content).hexdigest()[:32])


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
