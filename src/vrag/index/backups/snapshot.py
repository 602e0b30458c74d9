"""Snapshots: the description of a backup, as a file of JSON lines.

The first line has the facts of the backup, each of the others a file of the collection. The name ends with a
hash of the lines, so damage to either shows.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from vrag.errors import CollectionError
from vrag.index.tables.file_records import FileRecord
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 1
"""Version of the layout of a directory of backups; a newer one is refused."""
HASH = re.compile(r"[0-9a-f]{64}")
_NAME_DIGITS = 16
"""Digits of the hash in the name of a snapshot."""


class BackedUpFile(NamedTuple):
    """A file of a snapshot."""

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
    """Its time in UTC, and a hash of its content."""
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
    """Files of the state."""
    bytes: int
    """Bytes of these files."""
    added_bytes: int
    """Bytes that were not stored before."""
    damaged: tuple[FileRecord, ...] = ()
    """Records of the files of tables that were not as they were recorded, and are stored as they were. Their
    names are relative to the collection."""


def format_snapshot(snapshot: BackupSnapshot, files: Iterable[BackedUpFile]) -> tuple[str, bytes]:
    """Return the name and the content of a snapshot that has no name yet."""
    facts = asdict(snapshot)
    del facts["name"]
    rows = ({"format": FORMAT} | facts, *files)
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    seconds, microseconds = divmod(int(snapshot.created * 1e6), 1_000_000)
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))
    return f"{moment}-{microseconds:06d}-{_hash(content)}", content


def parse_snapshot(name: str, content: bytes) -> tuple[BackupSnapshot, list[BackedUpFile]]:
    """Parse the content of a snapshot, and compare it with the hash in its name.

    Raises `ValueError` if it is damaged, and `CollectionError` if a newer version of vrag made it.
    """
    if _hash(content) != name[-_NAME_DIGITS:]:
        raise ValueError("its hash does not match")
    try:
        first, *lines = content.splitlines()
        facts: dict[str, Any] = parse_json(first)
        if facts.pop("format") > FORMAT:
            raise CollectionError(
                f"The snapshot {name} was made by a newer version of vrag ({facts.get('vrag')}).",
                "Upgrade: pip install -U vrag-agent",
            )
        files = [BackedUpFile(*parse_json(line)) for line in lines]
        facts["damaged"] = tuple(FileRecord(*fields) for fields in facts.get("damaged", ()))
        snapshot = BackupSnapshot(name=name, **facts)
        has_hashes = all(HASH.fullmatch(file.sha256) for file in files)  # they become paths of objects
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("it has other values") from error
    if not has_hashes:
        raise ValueError("a hash in it is none")
    return snapshot, files


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_NAME_DIGITS]
