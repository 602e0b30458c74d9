"""Publishing a collection to object storage, for any number of machines to search it.

One state of both tables and all pictures is published. It can be stopped or killed anywhere, and the next
run uploads what is missing:

1. Data files and pictures. Their names are drawn at random or made from the content, so an object
   that is there is the right one. Nobody refers to them yet.
2. The two manifests of LanceDB that say which files a version consists of. Readers go by the version
   that `published.json` names, and do not look for newer ones.
3. A proof: both tables are read back from there, in full by their ids.
4. `collection.json`, once; then `published.json`, in one write. From here on readers see the new state.

Files that belong to no published version are not uploaded (`tables/version_files.py` tells them by their
names). The proof would fail if that were ever not so.

A manifest is named by the number of its version alone. When another collection, or a copy that went
its own way, has published the same number there, the tables go into a database of another name.
"""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from vrag.errors import CollectionError, FingerprintMismatch
from vrag.index.location import FILE_NAME, CollectionHeader, LocalLocation
from vrag.index.manifest import KEEP
from vrag.index.remote.object_storage import Objects, is_url
from vrag.index.remote.remote_collection import (
    ELSEWHERE,
    Publication,
    PublishedRecord,
    PublishedTables,
    read_only,
)
from vrag.index.schema import FILE_PARTS, ITEM_PARTS, file_schema, item_schema
from vrag.index.tables.table import Table
from vrag.index.tables.version_files import TABLES, manifest_path, refers, stored_files, table_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vrag.index.collection import Collection
    from vrag.index.remote.object_storage import StoredObject

GRACE = timedelta(hours=1)
"""Age up to which pruning keeps a former publication for its readers."""
AT_ONCE = 8
"""Files that are uploaded at the same time: an object store is slow, but serves many requests at once."""
MAX_PIECES = 64
"""Data files of a table beyond which they are merged before they are uploaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """The result of publishing."""

    url: str
    number: int
    """Number of the current publication."""
    fresh: bool
    """True if it is new: False when nothing has changed since the last time."""
    files: int
    """Files uploaded."""
    bytes: int
    """Bytes uploaded."""
    present: int
    """Files that existed already."""
    pruned: int
    """Objects deleted that belonged to former publications or to none."""
    seconds: float


def publish(
    collection: Collection,
    url: str,
    *,
    prune: timedelta | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PublishReport:
    """Publish the present state of a collection on this machine at a URL, `s3://bucket/prefix`.

    One collection at a time may be published to a URL: the last one to finish stands. `prune` deletes what
    belongs to no publication that was current within this time; None deletes nothing. `progress` receives
    after each file how many are done, of how many. Raises `FingerprintMismatch` if a collection built with
    other settings is published there, `CollectionBusy` if another process is writing to the collection, and
    `CollectionError` if the storage cannot be reached or refuses, or the collection is damaged: the current
    publication is unchanged.
    """
    started = time.monotonic()
    if is_url(collection.address):
        raise read_only(collection.address)
    objects = Objects(url)
    with collection.lock():
        record = PublishedRecord.read(objects, damaged_ok=True)
        header = _header(objects, collection)
        _merge_small_files(collection)
        state = _PublishState.of(collection, objects, record)
        there = objects.list()
        files, size = _upload(objects, _missing(state.files, there), progress)
        current = record.current if record else None
        versions = {table: current.version(table) for table in TABLES} if current else {}
        is_published = current is not None and (current.tables, versions) == (state.tables, state.versions)
        fresh = header is not None or not is_published
        if fresh or record is None:
            record = _release(objects, collection, state, record, header)
    pruned = 0 if prune is None else _prune(objects, record, prune)
    return PublishReport(
        url=objects.url,
        number=record.current.number,
        fresh=fresh,
        files=files,
        bytes=size,
        present=len(state.files) - files,
        pruned=pruned,
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True, slots=True)
class _PublishState:
    tables: str
    versions: Mapping[str, int]
    """LanceDB's version of each table; 0 for none."""
    manifests: Mapping[str, bytes]
    """By the name of the object."""
    files: Mapping[str, Path]
    """The files that manifests and items refer to, by the name of the object."""

    @classmethod
    def of(cls, collection: Collection, objects: Objects, record: PublishedRecord | None) -> _PublishState:
        """Read the present state of a collection whose lock is held."""
        versions = {"items": collection.item_table.version, "files": collection.file_table.version}
        index = collection.directory / "index"
        manifests = {
            name: (index / name).read_bytes()
            for name in (manifest_path(table, version) for table, version in versions.items() if version)
        }
        tables = record.current.tables if record else "index"
        taken = (objects.read(f"{tables}/{name}") not in (None, data) for name, data in manifests.items())
        if any(taken):
            tables = f"index-{secrets.token_hex(4)}"
        files = {f"{tables}/{name}": index / name for name in table_files(index, manifests)}
        files |= {
            f"items/{name}": collection.items_dir / name for name in stored_files(collection.item_table)
        }
        return cls(tables, versions, {f"{tables}/{name}": data for name, data in manifests.items()}, files)


def _merge_small_files(collection: Collection) -> None:
    """Merge small files where there are many: readers request something of each."""
    for name, table in (("items", collection.item_table), ("files", collection.file_table)):
        if version := table.version:
            index = collection.directory / "index"
            manifest = manifest_path(name, version)
            files = table_files(index, {manifest: (index / manifest).read_bytes()})
            if sum("/data/" in file for file in files) > MAX_PIECES:
                table.compact(KEEP)


def _header(objects: Objects, collection: Collection) -> bytes | None:
    """Return the header to write there; None if it is there already.

    One that would replace a collection which readers may hold open as another is refused.
    """
    own = (collection.directory / FILE_NAME).read_bytes()
    content = objects.read(FILE_NAME)
    if content is None:
        return own
    where = f"{objects.url}/{FILE_NAME}"
    published = CollectionHeader.parse(content.decode("utf-8", "replace"), where, ELSEWHERE)
    there, here = published.embedder, collection.header.embedder
    if there is None or here is None:
        is_same = there is here
    else:  # an import may have got its embedder since
        is_same = there.imported or there.fingerprint == here.fingerprint
    if not is_same or published.corpus_fingerprint != collection.header.corpus_fingerprint:
        raise FingerprintMismatch(
            f"A collection built with other settings or another embedder is published at {objects.url}.",
            "Publish this one under another URL.",
        )
    return None if content == own else own


def _missing(files: Mapping[str, Path], there: Mapping[str, StoredObject]) -> dict[str, Path]:
    """Return the files that are missing there, or incomplete; refuse one that is missing here as well."""
    missing: dict[str, Path] = {}
    for name, path in files.items():
        try:
            size = path.stat().st_size
        except OSError as error:
            raise _damaged(name, error) from error
        if name not in there or there[name].size != size:
            missing[name] = path
    return missing


def _upload(
    objects: Objects, files: Mapping[str, Path], progress: Callable[[int, int], None] | None
) -> tuple[int, int]:
    """Upload files, several at once; return how many and their bytes."""

    def upload(name: str) -> int:
        try:
            return objects.upload(files[name], name)
        except OSError as error:
            raise _damaged(name, error) from error

    total = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sizes = pool.map(upload, files)
        try:
            for done, size in enumerate(sizes, 1):
                total += size
                if progress:
                    progress(done, len(files))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return len(files), total


def _damaged(name: str, error: OSError) -> CollectionError:
    return CollectionError(
        f"{name} cannot be read: {error.strerror or error}.",
        LocalLocation.repair_hint,
    )


def _release(
    objects: Objects,
    collection: Collection,
    state: _PublishState,
    record: PublishedRecord | None,
    header: bytes | None,
) -> PublishedRecord:
    """Make what was uploaded the newest publication, once it is proven to be readable."""
    for name, manifest in state.manifests.items():
        objects.write(name, manifest)
    size = sum(map(len, state.manifests.values())) + sum(path.stat().st_size for path in state.files.values())
    number = record.current.number + 1 if record else 1
    now = Publication(
        number, time.time(), state.tables, state.versions["items"], state.versions["files"], size
    )
    store = PublishedTables(objects, PublishedRecord(now))
    mark = collection.header.embedder
    pairs = (
        (collection.item_table, Table(store, "items", lambda: item_schema(mark), parts=ITEM_PARTS)),
        (collection.file_table, Table(store, "files", file_schema, parts=FILE_PARTS)),
    )
    for here, there in pairs:
        own, published = (sorted(table.read(["id"]).data["id"].to_pylist()) for table in (here, there))
        if own != published:
            raise CollectionError(
                f"The uploaded tables at {objects.url} differ from those here; they were not published.",
                "Publish it under another URL.",
            )
    if header is not None:
        objects.write(FILE_NAME, header)
    after = PublishedRecord(now, (*record.former, record.current) if record else ())
    after.write(objects)
    return after


def _prune(objects: Objects, record: PublishedRecord, grace: timedelta) -> int:
    """Delete what no recent publication refers to, after the others are removed from the record.

    Objects younger than `grace` stay as well: a publication may be about to refer to them.
    """
    limit = time.time() - grace.total_seconds()
    ends = [publication.at for publication in (*record.former, record.current)][1:]
    former = tuple(entry for entry, end in zip(record.former, ends, strict=True) if end > limit)
    if former != record.former:
        record = PublishedRecord(record.current, former)
        record.write(objects)
    manifests, kept = _referred(objects, record)
    unused = [
        name
        for name, stored in objects.list().items()
        if name.startswith(("items/", "index/", "index-"))
        and name not in kept
        and stored.modified.timestamp() <= limit
        and not any(
            name.startswith(f"{table}/") and refers(manifest, name.split("/", 1)[1])
            for table, manifest in manifests
        )
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(objects.delete, unused))
    return len(unused)


def _referred(objects: Objects, record: PublishedRecord) -> tuple[list[tuple[str, bytes]], set[str]]:
    """Return the folder and manifest of each published table, and the names of all that is referred to.

    These are the names of manifests, pictures and clips.
    """
    manifests: list[tuple[str, bytes]] = []
    kept: set[str] = set()
    for publication in (record.current, *record.former):
        for table in TABLES:
            if version := publication.version(table):
                name = f"{publication.tables}/{manifest_path(table, version)}"
                manifests.append((f"{publication.tables}/{table}.lance", objects.read(name) or b""))
                kept.add(name)
        items = Table(
            PublishedTables(objects, PublishedRecord(publication)), "items", lambda: item_schema(None)
        )
        kept |= {f"items/{name}" for name in stored_files(items)}
    return manifests, kept
