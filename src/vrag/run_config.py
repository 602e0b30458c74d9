"""A file with the configuration that a folder is made with, compared when work on it continues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from vrag.atomic_io import write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

__all__ = ["bind", "changed"]


def bind(path: Path, made_with: Mapping[str, Any]) -> list[str]:
    """Write the configuration of a folder, or compare it with the one that the folder was made with.

    Args:
        path: The file. One process at a time: see `vrag.atomic_io.one_writer`.
        made_with: JSON values by name.

    Returns:
        The names of values that differ; none where the file was just written.

    Raises:
        OSError: If the file cannot be read or written.
        ValueError: If the file is damaged.
    """
    now = json.loads(json.dumps(made_with))
    try:
        before: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        write_whole(path, json.dumps(now, indent=2).encode() + b"\n")
        return []
    except RecursionError:
        raise ValueError("it is nested without end") from None
    if not isinstance(before, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - damage, as what is no JSON
    return changed(cast("dict[str, Any]", before), now)


def changed(before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()) -> list[str]:
    """Return the names of JSON values that differ, sorted, except for those in `free`.

    >>> changed({"model": "a", "seed": 1}, {"model": "b", "seed": 2, "hits": 3}, free={"seed"})
    ['hits', 'model']
    """
    names = (before.keys() | now.keys()) - set(free)
    return sorted(name for name in names if before.get(name) != now.get(name))
