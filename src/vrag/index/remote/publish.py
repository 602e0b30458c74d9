"""Publishing a collection to object storage, for any number of machines to search it.

One state of the collection is published. It can be stopped or killed anywhere, and the next run uploads what
is missing:

1. Blobs, and the database in pieces. All are named by their content, so what is there need not be uploaded
   again: where little has changed, most pieces are the same. Then the list of all these, and whether all of
   it has arrived is checked.
2. `HEAD`, in one write, which names the list. From here on readers see the new state.

Pruning deletes what no publication of the last hour names. Objects younger than that stay, since a
publication may be about to name them; so what is there, but neither young nor named by the current
publication, is uploaded again, which makes it young.

Of two processes that publish at once, one finds that it was overtaken, and publishes after the other.
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vrag.errors import CollectionError, FingerprintMismatch
from vrag.index.location import CollectionHeader, LocalLocation, is_url
from vrag.index.remote.object_storage import Objects
from vrag.index.remote.publication import (
    AT_ONCE,
    HEAD,
    FilePart,
    ObjectLost,
    Publication,
    PublicationManifest,
    PublishedHead,
    object_name,
)
from vrag.index.remote.remote_collection import read_only
from vrag.index.store import DATABASE, HEADER
from vrag.storage.blobs import hash_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vrag.index.collection import Collection

GRACE = timedelta(hours=1)
"""Age up to which pruning keeps a former publication for its readers."""
PIECE_BYTES = 1 << 17
"""Size of the pieces of a database: few requests for a large one, and little around a page that changed."""
_RENEWED_SECONDS = GRACE.total_seconds() / 2
"""Age from which an object that the current publication does not name is uploaded again."""
_ATTEMPTS = 3
"""Attempts to publish while others do, and to upload what is missing afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """The result of publishing."""

    url: str
    number: int
    """Number of the current publication."""
    fresh: bool
    """True if it is new: False when nothing has changed since the last time."""
    files: int
    """Objects uploaded: blobs, pieces of the database, a manifest."""
    bytes: int
    """Bytes uploaded."""
    present: int
    """Objects that existed already."""
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
    with collection.build() as staging:
        for attempt in range(_ATTEMPTS):
            if made := _publish_once(collection, objects, staging / f"{attempt}", progress):
                break
        else:
            raise _overtaken(objects)
    current = PublishedHead.read(objects)
    if current is None or made.publication not in (current.current, *current.former):
        raise _overtaken(objects)
    pruned = 0 if prune is None else _prune(objects, current, prune)
    return PublishReport(
        url=objects.url,
        number=made.publication.number,
        fresh=made.is_fresh,
        files=made.files,
        bytes=made.bytes,
        present=made.present,
        pruned=pruned,
        seconds=time.monotonic() - started,
    )


class _Published(NamedTuple):
    """The result of an attempt to publish."""

    publication: Publication
    is_fresh: bool
    files: int
    bytes: int
    present: int


def _publish_once(
    collection: Collection, objects: Objects, folder: Path, progress: Callable[[int, int], None] | None
) -> _Published | None:
    """Publish the present state, copied to a new folder first; return None if another process published."""
    before = PublishedHead.read(objects, damaged_ok=True)
    state = _PublishState.of(collection, folder, before)
    _check_header(objects, before, state.header)
    files, size = _upload_missing(objects, state, before, progress)
    publication, is_fresh = replace(state.publication, at=time.time()), True
    if before is not None and publication.manifest == before.current.manifest:
        publication, is_fresh = before.current, False
    elif before == PublishedHead.read(objects, damaged_ok=True):
        former = (*before.former, before.current) if before else ()
        PublishedHead(publication, state.header, former).write(objects)
    else:
        return None
    return _Published(publication, is_fresh, files, size, len(state.files) - files)


@dataclass(frozen=True, slots=True)
class _PublishState:
    """A state of a collection that is being published."""

    publication: Publication
    header: str
    files: Mapping[str, FilePart]
    """What it consists of, by the names of the objects; the manifest is the last."""

    @classmethod
    def of(cls, collection: Collection, folder: Path, before: PublishedHead | None) -> _PublishState:
        """Copy the present state of a collection, of which nothing is deleted meanwhile, to a new folder."""
        folder.mkdir()
        path = folder / DATABASE
        collection.store.database.copy(path)
        source, size = hash_file(path)
        current = before.current if before else None
        with closing(LocalLocation(folder, durable=False).open_store()) as copy:
            version, header = copy.version, copy.setting(HEADER)
            blobs = sorted(copy.named_blobs())
            if current is not None:  # readers compare versions: they grow, whichever copy is published
                wanted = current.version if current.source == source else max(version, current.version + 1)
                if wanted != version:
                    copy.renumber(wanted)
                    version = wanted
        files = {object_name("blobs", blob): _find_blob(collection, blob) for blob in blobs}
        pieces: list[str] = []
        with path.open("rb") as file:
            while data := file.read(PIECE_BYTES):
                piece = hashlib.sha256(data).hexdigest()
                files[object_name("pieces", piece)] = FilePart(path, len(pieces) * PIECE_BYTES, len(data))
                pieces.append(piece)
        (folder / "manifest.json").write_bytes(PublicationManifest(PIECE_BYTES, pieces, blobs).to_json())
        manifest, manifest_size = hash_file(folder / "manifest.json")
        total = sum(file.size for file in files.values())
        files[object_name("manifests", manifest)] = FilePart(folder / "manifest.json", 0, manifest_size)
        return cls(
            Publication(
                number=current.number + 1 if current else 1,
                at=0.0,
                version=version,
                manifest=manifest,
                source=source,
                database=size,
                bytes=total,
            ),
            header,
            files,
        )


def _find_blob(collection: Collection, name: str) -> FilePart:
    path = collection.store.blobs.path(name)
    try:
        return FilePart(path, 0, path.stat().st_size)
    except OSError as error:
        raise _damaged(object_name("blobs", name), error.strerror or str(error)) from error


def _check_header(objects: Objects, before: PublishedHead | None, header: str) -> None:
    """Refuse a collection that would replace one which readers may hold open as another."""
    if before is None:
        return
    published = CollectionHeader.parse(before.header, f"{objects.url}/{HEAD}")
    own = CollectionHeader.parse(header, DATABASE)
    there, here = published.embedder, own.embedder
    if there is None or here is None:
        is_same = there is here
    else:  # an import may have got its embedder since
        is_same = there.imported or there.fingerprint == here.fingerprint
    if not is_same or published.corpus_fingerprint != own.corpus_fingerprint:
        raise FingerprintMismatch(
            f"A collection built with other settings or another embedder is published at {objects.url}.",
            "Publish this one under another URL.",
        )


def _upload_missing(
    objects: Objects,
    state: _PublishState,
    before: PublishedHead | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, int]:
    """Upload what is not there, until all of it is; return how many files, and their bytes."""
    lasting = _named_by(objects, before.current) if before else set[str]()
    oldest = time.time() - _RENEWED_SECONDS
    count = size = 0
    for _ in range(_ATTEMPTS):
        there = objects.list()
        missing = [
            name
            for name, file in state.files.items()
            if name not in there
            or there[name].size != file.size
            or (there[name].modified < oldest and name not in lasting)
        ]
        if not missing:
            return count, size
        _upload(objects, {name: state.files[name] for name in missing}, progress)
        count, size = count + len(missing), size + sum(state.files[name].size for name in missing)
        lasting |= set(missing)  # whatever time its clock shows
    raise CollectionError(
        f"What was uploaded to {objects.url} is not there.", "If another process deletes it, stop that."
    )


def _upload(
    objects: Objects, files: Mapping[str, FilePart], progress: Callable[[int, int], None] | None
) -> None:
    """Upload files, several at once."""

    def upload(name: str) -> None:
        file, sha256 = files[name], name.rsplit("/", 1)[-1]
        try:
            if name.startswith("pieces/"):
                objects.write(name, file.read())
            elif hash_file(file.path)[0] == sha256:
                objects.upload(file.path, name)
            else:
                raise _damaged(name, "it is damaged")
        except OSError as error:
            raise _damaged(name, error.strerror or str(error)) from error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        uploads = pool.map(upload, files)
        try:
            for done, _ in enumerate(uploads, 1):
                if progress:
                    progress(done, len(files))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _damaged(name: str, reason: str) -> CollectionError:
    return CollectionError(f"{name} cannot be read: {reason}.", LocalLocation.repair_hint)


def _overtaken(objects: Objects) -> CollectionError:
    return CollectionError(
        f"Another process published at {objects.url} at the same time.", "Run the command again."
    )


def _prune(objects: Objects, head: PublishedHead, grace: timedelta) -> int:
    """Delete what no recent publication names, after the others are removed from `HEAD`.

    Objects younger than `grace` stay as well: a publication may be about to name them.
    """
    limit = time.time() - grace.total_seconds()
    ends = [publication.at for publication in (*head.former, head.current)][1:]
    former = tuple(entry for entry, end in zip(head.former, ends, strict=True) if end > limit)
    if former != head.former:
        head = replace(head, former=former)
        head.write(objects)
    named = set[str]().union(*(_named_by(objects, each) for each in (head.current, *former)))
    unused = [
        name
        for name, stored in objects.list().items()
        if name.startswith(("blobs/", "pieces/", "manifests/"))
        and name not in named
        and stored.modified <= limit
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(objects.delete, unused))
    return len(unused)


def _named_by(objects: Objects, publication: Publication) -> set[str]:
    """Return the names of the objects of a publication; of one that is damaged, none."""
    try:
        names = PublicationManifest.read(objects, publication).names()
    except ObjectLost:
        names = []
    return {object_name("manifests", publication.manifest), *names}
