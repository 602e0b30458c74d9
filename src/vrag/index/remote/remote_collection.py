"""A published collection in object storage, for readers.

::

    published.json          which versions of the tables are the newest: the one object that changes
    collection.json         as on disk
    index/                  the tables, without the versions that were never published
    items/                  pictures and clips, as on disk

All objects but `published.json` are written once and never changed, and it is written after all that it
names. So a reader sees one publication or the next, whole, and needs no lock. Search caches are in the
user's cache directory and recorded runs in the user's data directory, in a folder named by the URL.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import re
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from vrag.errors import CollectionError, first_line
from vrag.index.integrity.sealed_json import Seal, check_seal, seal_json
from vrag.index.location import FILE_NAME, CollectionHeader
from vrag.index.remote.object_storage import Objects, storage_hint
from vrag.index.tables.store import TableStore, TableVersion
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from typing_extensions import Buffer

log = logging.getLogger("vrag")

RECORD = "published.json"
_NAMES = ("schema", "current", "former")
"""The names in a record without a checksum."""
REPUBLISH = "Publish it again: vrag index publish URL"
ELSEWHERE = "Publish the collection under another URL: vrag index publish URL"
"""Advice where another collection may be published already."""
_TABLES = re.compile(r"index(-[0-9a-f]{8})?")
_SCHEMA = 1
"""Version of the layout. A higher one is refused."""
_MAX_READS = 5
"""Maximum attempts to read a complete record: the library requests the size of an object first and then so
many bytes, which are too few when a longer one has been written in between."""
FRESH_SECONDS = 1.0
"""Interval at which readers check whether something newer was published."""
_BUFFER_BYTES = 2**19
"""Bytes of a picture that are transferred at once."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One state of a collection."""

    number: int
    """From 1, growing."""
    at: float
    """Time of publication in seconds since 1970."""
    tables: str
    """Name of the database."""
    items: int
    """LanceDB's version of the items; 0 for none."""
    files: int
    """LanceDB's version of the manifest; 0 for none."""
    bytes: int
    """Size, pictures included."""

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Publication:
        """Parse the fields of `published.json`. Raises `ValueError` or `TypeError`."""
        publication = cls(**fields)
        counts = (publication.number, publication.items, publication.files, publication.bytes)
        if not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError("a number of it is none")
        if type(publication.at) not in {int, float} or not math.isfinite(publication.at):
            raise ValueError("it has no time")
        if not _TABLES.fullmatch(publication.tables):
            raise ValueError("its tables have another name")
        return publication

    def version(self, table: str) -> int:
        """Return LanceDB's version of a table."""
        return {"items": self.items, "files": self.files}[table]


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """The content of `published.json`."""

    current: Publication
    former: tuple[Publication, ...] = ()
    """Former publications that still exist, the oldest first."""

    @classmethod
    def read(cls, objects: Objects, *, damaged_ok: bool = False) -> PublishedRecord | None:
        """Read the record below a URL; None when nothing was published there.

        With `damaged_ok`, a damaged record counts as none. Raises `CollectionError`.
        """
        message = ""
        for attempt in reversed(range(_MAX_READS)):
            content = objects.read(RECORD)
            if content is None:
                objects.check()
                return None
            try:
                return cls._parse(content, objects.url)
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                reason = f"it has no {error.args[0]}" if isinstance(error, KeyError) else first_line(error)
                message = f"{objects.url}/{RECORD} is damaged: {reason}."
                if not attempt and not damaged_ok:
                    raise CollectionError(message, REPUBLISH) from error
        log.warning("%s It is written anew.", message)
        return None

    @classmethod
    def _parse(cls, content: bytes, url: str) -> PublishedRecord:
        record: dict[str, Any] = parse_json(content)
        if check_seal(content, _NAMES) is Seal.BROKEN:
            raise ValueError("its checksum does not match")
        schema = record["schema"]
        if type(schema) is not int:
            raise TypeError("its schema is not a number")
        if schema > _SCHEMA:
            raise CollectionError(
                f"{url} was published by a newer version of vrag.", "Upgrade: pip install -U vrag-agent"
            )
        former = tuple(Publication.parse(entry) for entry in record["former"])
        return cls(Publication.parse(record["current"]), former)

    def write(self, objects: Objects) -> None:
        """Write it as the newest record, as a whole."""
        objects.write(RECORD, seal_json({"schema": _SCHEMA, **asdict(self)}))


class PublishedTables(TableStore):
    """The tables of a published collection: a read-only `TableStore`, always read by LanceDB.

    With `record`, it reads those versions; otherwise the newest published ones.
    """

    def __init__(self, objects: Objects, record: PublishedRecord | None = None) -> None:
        self.name = objects.url
        self.options = objects.options
        self._objects = objects
        self._fixed = record is not None
        self._record = record
        self._checked = -FRESH_SECONDS
        self._lock = threading.Lock()

    @property
    def record(self) -> PublishedRecord:
        """The newest record, or one that is at most a second older."""
        with self._lock:
            stale = time.monotonic() - self._checked >= FRESH_SECONDS
            if self._record is None or (stale and not self._fixed):
                self._record = PublishedRecord.read(self._objects)
                self._checked = time.monotonic()
            if self._record is None:
                raise CollectionError(
                    f"No collection is published at {self.name}.", "Publish one: vrag index publish URL"
                )
            return self._record

    def table_version(self, table: str) -> TableVersion | None:
        """Return the published version of a table."""
        now = self.record.current
        version = now.version(table)
        return TableVersion(f"{self.name}/{now.tables}", version, now.number) if version else None

    def renew(self) -> None:
        """Read the record again at the next use."""
        self._checked = -FRESH_SECONDS

    def hint(self, message: str) -> str:
        """Return what to do about damage, or a failure of object storage."""
        return ELSEWHERE if message == "checksum" else storage_hint(message)

    def prepare(self) -> str:
        """Refuse to write."""
        raise read_only(self.name)


class RemoteCollection:
    """The read-only `CollectionLocation` of a published collection, by its URL in object storage."""

    repair_hint = REPUBLISH

    def __init__(self, url: str) -> None:
        from platformdirs import user_cache_path, user_data_path

        objects = Objects(url)
        plain = re.sub(r"[^A-Za-z0-9]+", "-", objects.url.rsplit("/", 1)[-1])[:40].strip("-")
        place = f"{objects.options.get('aws_endpoint', '')} {objects.url}"
        folder = f"{plain}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"  # readable, one for each URL
        self.address = objects.url
        self.directory: Path = user_data_path("vrag", appauthor=False) / "published" / folder
        self.cache_dir: Path = user_cache_path("vrag", appauthor=False) / "published" / folder
        self.store = PublishedTables(objects)
        self._objects = objects

    def header(self) -> CollectionHeader:
        """Read the header of the collection."""
        _ = self.store.record  # written last: without it nothing is published yet
        content = self._objects.read(FILE_NAME) or b""
        where = f"{self.address}/{FILE_NAME}"
        return CollectionHeader.parse(content.decode("utf-8", "replace"), where, ELSEWHERE)

    def open(self, stored: str) -> BinaryIO:
        """Open a stored picture or clip."""
        stream = _Stream(self._objects, f"items/{stored_name(stored)}")
        return cast("BinaryIO", io.BufferedReader(stream, _BUFFER_BYTES))

    def size(self) -> int:
        """Return the size of the current publication in bytes."""
        return self.store.record.current.bytes

    @property
    def is_being_written(self) -> bool:
        """False: a publication is complete."""
        return False

    def lock(self, wait: float | None = None) -> AbstractContextManager[None]:  # noqa: ARG002 - the protocol's
        """Refuse to write."""
        raise read_only(self.address)


class _Stream(io.RawIOBase):
    """An object as a file, which transfers only what is read; failures are `CollectionError`s."""

    def __init__(self, objects: Objects, name: str) -> None:
        super().__init__()
        self._objects = objects
        self._file = objects.open(name)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        with self._objects.failures("read"):
            return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move the position; nothing is transferred."""
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


def stored_name(stored: str) -> str:
    """Check the path of a picture or clip relative to `items/`, and return it.

    >>> stored_name("00ff00ff00ff00ff/3.png")
    '00ff00ff00ff00ff/3.png'
    """
    parts = stored.split("/")
    odd = any(part in {"", ".", ".."} for part in parts) or re.search(r"[\x00-\x1f\x7f\\%?#]", stored)
    if odd or PurePosixPath(stored).is_absolute():
        raise CollectionError(f"The picture {stored!r} lies outside of the collection.")
    return stored


def read_only(address: str) -> CollectionError:
    """Build the error for writing to a published collection."""
    return CollectionError(
        f"{address} is published and read-only.",
        "Change the collection it was published from, and publish it again: vrag index publish URL",
    )
