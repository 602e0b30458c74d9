"""The files that a version of a table consists of, and the pictures that its rows name.

The manifest of the version has the names of its data files, and the numbers in the names of its deletion
files. All other files of a table belong to other versions, or to none: what was compacted away,
and what killed writers left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.index.schema import STORED_FILES
from vrag.index.tables.layout import MANIFEST_END, manifest_name
from vrag.index.vectors.maxsim import encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vrag.index.tables.table import Table

TABLES = ("items", "files")
"""The tables of a collection."""


def manifest_path(table: str, version: int) -> str:
    """Return the path of the manifest of a version of a table below the database."""
    return f"{table}.lance/{manifest_name(version)}"


def table_files(index: Path, manifests: Mapping[str, bytes]) -> Iterator[str]:
    """List the files that manifests refer to, by their paths below the database in the directory `index`.

    `manifests` are their contents by `manifest_path`. A file that is missing is not listed.
    """
    for name, manifest in manifests.items():
        table = index / name.split("/", 1)[0]
        for path in table.rglob("*"):
            relative = path.relative_to(index).as_posix()
            if refers(manifest, relative) and path.is_file():
                yield relative


def refers(manifest: bytes, name: str) -> bool:
    """Return whether a manifest refers to a file of its table.

    It begins with the transaction that made it, which names files of former versions; the first eight of its
    last sixteen bytes say where the list of its own begins. It spells out the names of data files. Of a
    deletion file, named `<fragment>-<version>-<id>`, it holds the id, a random number of 64 bits, as a varint
    of protocol buffers.
    """
    _, folder, *rest = name.split("/", 2)
    if folder in {"_versions", "_transactions"} or not rest:
        return False
    if manifest.endswith(MANIFEST_END):
        manifest = manifest[int.from_bytes(manifest[-16:-8], "little") :]
    if folder == "_deletions":
        number = rest[0].rsplit(".", 1)[0].rsplit("-", 1)[-1]
        return not number.isdecimal() or encode_varint(int(number)) in manifest
    return folder != "data" or rest[0].encode() in manifest


def stored_files(items: Table, where: str | None = None) -> set[str]:
    """Read the names of the pictures and clips of items, of all or of those `where`, relative to `items/`."""
    columns = tuple(STORED_FILES.values())
    rows = items.read(columns, where).data
    return {name for column in columns for name in rows[column].to_pylist() if name is not None}
