"""Collections that clients create through a server.

They lie in the folder of the server's first collection and hold the file `served.json`, which names that
one. A new collection is created under a hidden name and then renamed, and a deleted one is renamed to a
hidden name first: if the process is killed in between, no incomplete collection has a visible name, and a
later start deletes the hidden one.
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

log = logging.getLogger("vrag.server")
MARK = "served.json"
"""File in a collection that a server created: `{"beside": <directory name of the first collection>}`."""
_HIDDEN = ".vrag-served-"
"""Prefix of collections that are being created or deleted."""
_STALE_SECONDS = 600.0
"""Age from which such a directory was left by a killed server; a younger one may be in use."""


def create_managed(first: Collection, name: str) -> Collection:
    """Create a collection next to another one, with the same options and embedder, atomically.

    Raises `CollectionError` if the name is taken, or the disk fails.
    """
    place = first.directory.parent / name
    scratch = _hidden(place)
    try:
        Collection.create(scratch, first.header.options, embedder=first.header.embedder)
        write_file(scratch / MARK, json.dumps({"beside": first.directory.name}).encode())
        scratch.rename(place)  # fails if the place is taken
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise CollectionError(
            f"The collection {place} cannot be created: {error.strerror or error}."
        ) from error
    return Collection.open(place)


def hide(collection: Collection) -> Path:
    """Rename a collection to a hidden name while nobody writes to it; return its new place.

    Raises `CollectionBusy` if another process is writing to it and `CollectionError` if the disk fails.
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
    """Return the collections that a server created, by name; delete incomplete ones.

    A collection that cannot be opened, or whose embedder differs from that of the first, is logged and stays
    where it is. Those in `known` are open already.
    """
    if not isinstance(first.location, LocalLocation):
        return {}
    open_already = {collection.address for collection in known}
    found: dict[str, Collection] = {}
    try:
        places = sorted(first.directory.parent.iterdir())
    except OSError as error:
        log.warning("The folder of the server's collections cannot be read: %s.", error.strerror)
        return {}
    for place in places:
        if place.name.startswith(_HIDDEN):
            with suppress(OSError):
                if time.time() - place.stat().st_mtime > _STALE_SECONDS:
                    shutil.rmtree(place, ignore_errors=True)
            continue
        if os.fspath(place) in open_already or not _is_managed(place, first):
            continue
        collection = _open_like(first, place)
        if collection is not None:
            found[place.name] = collection
    return found


def _hidden(place: Path) -> Path:
    return place.with_name(f"{_HIDDEN}{secrets.token_hex(8)}")


def _open_like(first: Collection, place: Path) -> Collection | None:
    """Open a collection if it has no vectors, or those of the same embedder; else log why it is left out."""
    try:
        collection = Collection.open(place)
    except VragError as error:
        log.warning("The collection %s is left out: %s", place.name, error)
        return None
    embedder, expected = collection.header.embedder, first.header.embedder
    if embedder is None or (expected is not None and embedder.fingerprint == expected.fingerprint):
        return collection
    log.warning("The collection %s is left out: its vectors come from another embedder.", collection.address)
    return None


def _is_managed(place: Path, first: Collection) -> bool:
    if not re.fullmatch(NAME_PATTERN, place.name) or place.is_symlink():
        return False
    try:
        mark: Any = json.loads((place / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return mark == {"beside": first.directory.name}
