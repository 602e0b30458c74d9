"""The files of a table in a directory, as Lance names them.

Lance goes by the names of the manifests, one for each version. `latest_version_hint.json`, which it rewrites
with each, is no more than a hint.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vrag.parsing import parse_json

if TYPE_CHECKING:
    from pathlib import Path

HINT = "latest_version_hint.json"
MANIFEST_END = b"LANC"
"""The last bytes of a manifest that is whole."""
_VERSIONS = "_versions"
_MANIFEST = re.compile(rf"{_VERSIONS}/(\d+)\.manifest")
_INVERTED_DIGITS = 20
"""Digits of a name that is 2^64 - 1 minus the version, so that a listing begins with the newest manifest; the
names of Lance's first scheme are the version."""
_MAX_VERSION = 2**64 - 1


def manifest_name(version: int) -> str:
    """Return the name of the manifest of a version, which counts from 1.

    >>> manifest_name(4)
    '_versions/18446744073709551611.manifest'
    """
    return f"{_VERSIONS}/{_MAX_VERSION - version:0{_INVERTED_DIGITS}d}.manifest"


def version_of(name: str) -> int | None:
    """Return the version that a manifest is of, by its name; None for another file.

    >>> version_of("_versions/18446744073709551611.manifest"), version_of("_versions/4.manifest")
    (4, 4)
    """
    match = _MANIFEST.fullmatch(name)
    if match is None:
        return None
    return _MAX_VERSION - int(match[1]) if len(match[1]) == _INVERTED_DIGITS else int(match[1])


def list_manifests(table: Path) -> dict[str, int]:
    """Return the versions of the table in a directory by the names of their manifests.

    Raises `FileNotFoundError` or `NotADirectoryError` if there is no table.
    """
    names = [f"{_VERSIONS}/{path.name}" for path in (table / _VERSIONS).iterdir()]
    return {name: version for name in names if (version := version_of(name)) is not None}


def newest_version(table: Path) -> int:
    """Return the newest version of the table in a directory, by the names of its manifests; 0 for none."""
    try:
        return max(list_manifests(table).values(), default=0)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def list_files(table: Path) -> set[str]:
    """List the files of the table in a directory, by path relative to it, with `/`.

    The hint and the unfinished files of killed writers are left out, and so are files that vanish meanwhile.
    """
    return {
        path.relative_to(table).as_posix()
        for path in table.rglob("*")
        if path.name != HINT and not path.name.startswith(".") and "#" not in path.name and path.is_file()
    }


def hint_path(table: Path) -> Path:
    """Return the path of Lance's hint in the directory of a table."""
    return table / _VERSIONS / HINT


def is_hint_wrong(table: Path) -> bool:
    """Return whether the table in a directory has a hint that does not name its newest version."""
    try:
        return parse_json(hint_path(table).read_bytes()) != {"version": newest_version(table)}
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
