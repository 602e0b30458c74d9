"""Snapshots: a directory for each backup, with a copy of the database and a description.

The description (`backup.json`) ends with its own checksum, so damage to it shows. It has the facts of the
backup, the hash of the database, and the files of the collection that are not in its database.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from vrag.errors import CollectionError
from vrag.parsing import parse_json
from vrag.storage.sealed_json import is_sealed, seal_json

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = 2
"""Version of the layout of a directory of backups; others are refused."""
NAME = re.compile(r"\d{8}-\d{6}-\d{6}")
"""Names of snapshots."""
_HASH = re.compile(r"[0-9a-f]{64}")


class BackedUpFile(NamedTuple):
    """A file of a collection that is not in its database: of an upload, or of a run."""

    name: str
    """Path relative to the collection, with slashes."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Modification time."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSnapshot:
    """The facts of a backup."""

    name: str
    """Its time in UTC."""
    collection: str
    """Directory of the collection."""
    created: float
    """Time at which the state of the collection was taken, in seconds since 1970."""
    vrag: str
    """Version of vrag that made it."""
    content_version: str
    """`Collection.content_version` of the state."""
    documents: int
    items: int
    runs: int
    files: int
    """Files of the state: the database, its blobs and others."""
    bytes: int
    """Bytes of these files."""
    added_bytes: int
    """Bytes that were not stored before."""
    missing: tuple[str, ...] = ()
    """Files that the collection refers to and did not have, or that could not be read: it was damaged."""


class SnapshotContent(NamedTuple):
    """The content of a description."""

    snapshot: BackupSnapshot
    database: str
    """SHA-256 of the database."""
    files: list[BackedUpFile]


def name_of(created: float) -> str:
    """Return the name of a snapshot of a time in seconds since 1970."""
    seconds, microseconds = divmod(round(created * 1e6), 1_000_000)
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(seconds))}-{microseconds:06d}"


def format_description(snapshot: BackupSnapshot, database: str, files: Sequence[BackedUpFile]) -> bytes:
    """Return the description of a snapshot."""
    return seal_json({"format": FORMAT, **asdict(snapshot), "database": database, "list": files})


def parse_description(name: str, data: bytes) -> SnapshotContent:
    """Parse the description of the snapshot of a name.

    Raises `ValueError` if it is damaged, and `CollectionError` if a newer version of vrag made it.
    """
    if not is_sealed(data):
        raise ValueError("its checksum does not match")
    try:
        facts: dict[str, Any] = parse_json(data)
        del facts["checksum"]
        if facts.pop("format") > FORMAT:
            raise CollectionError(
                f"The backup {name} was made by a newer version of vrag ({facts.get('vrag')}).",
                "Upgrade: pip install -U vrag-agent",
            )
        database, files = facts.pop("database"), [BackedUpFile(*fields) for fields in facts.pop("list")]
        facts["missing"] = tuple(facts["missing"])
        snapshot = BackupSnapshot(**facts)
        are_hashes = all(_HASH.fullmatch(text) for text in (database, *(file.sha256 for file in files)))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("it has other values") from error
    if snapshot.name != name or not are_hashes:
        raise ValueError("its name is another, or a hash in it is none")
    return SnapshotContent(snapshot, database, files)
