"""Collections that clients have a server make: where they lie, and how they are found again.

They lie beside the first collection of the server, in the same folder, and hold the file `served.json`, which
names that one. A new one is made under a hidden name and then renamed, and one that is deleted is renamed to
a hidden name first: killed in between, there is nothing half done under a name, and a later start clears it
away.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import write_file
from vrag.errors import CollectionError, VragError
from vrag.index.collection import Collection
from vrag.index.location import LocalLocation
from vrag.server.collections.registry import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["MARK", "create_managed", "find_managed", "hide"]

log = logging.getLogger("vrag.server")
MARK = "served.json"
"""In a collection that a server made: `{"beside": <directory name of the first collection>}`."""
_HIDDEN = ".vrag-served-"
"""How the names begin of collections that are just being made or deleted."""
_STALE_SECONDS = 600.0
"""Age from which such a directory is what a killed server left: another one may just be at it."""


def create_managed(first: Collection, name: str) -> Collection:
    """A new collection beside another, of the same options and embedder; all or nothing.

    Raises:
        CollectionError: If there is anything of that name, or the disk fails.
    """
    place = first.directory.parent / name
    scratch = _hidden(place)
    try:
        Collection.create(scratch, first.header.options, embedder=first.header.embedder)
        write_file(scratch / MARK, json.dumps({"beside": first.directory.name}).encode())
        scratch.rename(place)  # refused where there is anything
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise CollectionError(f"The collection {place} cannot be made: {error.strerror or error}.") from error
    return Collection.open(place)


def hide(collection: Collection) -> Path:
    """Takes a collection out of sight while nobody writes to it; says where it is now.

    Raises:
        CollectionBusy: If another process is writing to it.
        CollectionError: If the disk fails.
    """
    place = collection.directory
    gone = _hidden(place)
    try:
        with collection.lock():
            place.rename(gone)
    except OSError as error:
        reason = error.strerror or error
        raise CollectionError(f"The collection {place} cannot be deleted: {reason}.") from error
    return gone


def find_managed(first: Collection, known: Iterable[Collection]) -> dict[str, Collection]:
    """The collections that a server made beside the first one, by name. Clears away what is half done.

    One that cannot be opened, or whose vectors are no longer those of the first, is told of in the log and
    stays where it is.

    Args:
        first: The first collection of the server.
        known: Those that are open already.
    """
    if not isinstance(first.place, LocalLocation):
        return {}
    open_already = {collection.address for collection in known}
    made: dict[str, Collection] = {}
    for place in _beside(first.directory):
        if place.name.startswith(_HIDDEN):
            _clear(place)
        elif os.fspath(place) not in open_already and _bears_mark(place, first):
            collection = _opened(place)
            if collection is not None and _is_like(collection, first):
                made[place.name] = collection
    return made


def _hidden(place: Path) -> Path:
    return place.with_name(f"{_HIDDEN}{secrets.token_hex(8)}")


def _beside(directory: Path) -> list[Path]:
    try:
        return sorted(directory.parent.iterdir())
    except OSError as error:
        log.warning("Other collections of the server cannot be looked for: %s.", error.strerror)
        return []


def _opened(place: Path) -> Collection | None:
    try:
        return Collection.open(place)
    except VragError as error:
        log.warning("The collection %s is left out: %s", place.name, error)
        return None


def _is_like(collection: Collection, first: Collection) -> bool:
    ours, theirs = collection.header.embedder, first.header.embedder
    if ours is None or (theirs is not None and ours.fingerprint == theirs.fingerprint):
        return True
    log.warning("The collection %s is left out: its vectors are of another embedder.", collection.address)
    return False


def _bears_mark(place: Path, first: Collection) -> bool:
    if not re.fullmatch(NAME_PATTERN, place.name) or place.is_symlink():
        return False
    try:
        mark: Any = json.loads((place / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return mark == {"beside": first.directory.name}


def _clear(place: Path) -> None:
    with suppress(OSError):
        if time.time() - place.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(place, ignore_errors=True)
