"""The objects of a published collection, and their names.

::

    HEAD                            the newest publication, and former ones: the one object that changes
    manifests/ab/<sha256>           of a publication: the pieces of its database, and its blobs
    pieces/ab/<sha256>              a part of a database
    blobs/ab/<sha256>               pictures, clips and vectors, as on disk

All objects but `HEAD` are named by their content and never changed, and it is written after all that it
names. So a reader sees one publication or the next, whole, and needs no lock.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from vrag.errors import CollectionError, first_line
from vrag.parsing import parse_json
from vrag.storage.sealed_json import is_sealed, seal_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vrag.index.remote.object_storage import Objects

log = logging.getLogger("vrag")

HEAD = "HEAD"
REPUBLISH = "Publish it again: vrag index publish URL"
AT_ONCE = 16
"""Objects that are transferred at the same time: object storage is slow, but serves many requests at once."""
_FORMAT = 1
"""Version of the layout. A higher one is refused."""
_ATTEMPTS = 5
"""Attempts to read a `HEAD` that may be replaced meanwhile."""
_MIN_PIECE, _MAX_PIECE = 1 << 12, 1 << 28
"""Bounds of the size of a piece that are believed."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Publication:
    """One state of a collection."""

    number: int
    """From 1, growing."""
    at: float
    """Time of publication in seconds since 1970."""
    version: int
    """Version of the collection, which grows with each publication."""
    manifest: str
    """SHA-256 of its manifest."""
    source: str
    """SHA-256 of the database from which it was published."""
    database: int
    """Bytes of the database."""
    bytes: int
    """Size, blobs included."""

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Publication:
        """Parse the fields of `HEAD`. Raises `ValueError` or `TypeError`."""
        found = cls(**fields)
        if not all(
            type(count) is int and count >= 0
            for count in (found.number, found.version, found.database, found.bytes)
        ):
            raise ValueError("a number of it is none")
        if type(found.at) not in {int, float} or not math.isfinite(found.at):
            raise ValueError("it has no time")
        if not (_is_hash(found.manifest) and _is_hash(found.source)):
            raise ValueError("a hash of it is none")
        return found


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """The content of `HEAD`."""

    current: Publication
    header: str
    """What the collection was built with, as JSON."""
    former: tuple[Publication, ...] = ()
    """Former publications that still exist, the oldest first."""

    @classmethod
    def read(cls, objects: Objects, *, damaged_ok: bool = False) -> PublishedHead | None:
        """Read what is published below a URL; None when nothing is.

        With `damaged_ok`, a damaged `HEAD` counts as nothing. Raises `CollectionError`.
        """
        message = ""
        for attempt in reversed(range(_ATTEMPTS)):
            content = objects.read(HEAD)
            if content is None:
                objects.check()
                return None
            try:
                return cls._parse(content, objects.url)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                reason = f"it has no {error.args[0]}" if isinstance(error, KeyError) else first_line(error)
                message = f"{objects.url}/{HEAD} is damaged: {reason}."
                if not attempt and not damaged_ok:
                    raise CollectionError(message, REPUBLISH) from error
        log.warning("%s It is written anew.", message)
        return None

    @classmethod
    def _parse(cls, content: bytes, url: str) -> PublishedHead:
        if not is_sealed(content):
            raise ValueError("its checksum does not match")
        fields: dict[str, Any] = parse_json(content)
        if type(fields["format"]) is not int or type(fields["header"]) is not str:
            raise TypeError("a value of it has another type")
        if fields["format"] > _FORMAT:
            raise CollectionError(
                f"{url} was published by a newer version of vrag.", "Upgrade: pip install -U vrag-agent"
            )
        former = tuple(Publication.parse(entry) for entry in fields["former"])
        return cls(Publication.parse(fields["current"]), fields["header"], former)

    def write(self, objects: Objects) -> None:
        """Write it as the newest, as a whole."""
        objects.write(HEAD, seal_json({"format": _FORMAT, **asdict(self)}))


@dataclass(frozen=True, slots=True)
class PublicationManifest:
    """The content of a publication, by hashes."""

    piece_bytes: int
    """Size of each piece but the last."""
    pieces: Sequence[str]
    """Of the database, in order."""
    blobs: Sequence[str]

    @classmethod
    def read(cls, objects: Objects, publication: Publication) -> PublicationManifest:
        """Read the manifest of a publication. Raises `CollectionError`."""
        content: Any = parse_json(read_object(objects, "manifests", publication.manifest))
        match content:
            case {"piece_bytes": int(size), "pieces": [*pieces], "blobs": [*blobs]} if (
                _MIN_PIECE <= size <= _MAX_PIECE and all(map(_is_hash, [*pieces, *blobs]))
            ):
                return cls(size, pieces, blobs)
            case _:
                name = object_name("manifests", publication.manifest)
                raise ObjectLost(f"{objects.url}/{name} is not a manifest.", REPUBLISH)

    def names(self) -> list[str]:
        """Return the names of its objects."""
        kinds = ("pieces", self.pieces), ("blobs", self.blobs)
        return [object_name(kind, sha256) for kind, hashes in kinds for sha256 in hashes]

    def to_json(self) -> bytes:
        """Return the bytes that `read` reads."""
        return json.dumps(asdict(self)).encode()


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def object_name(kind: str, sha256: str) -> str:
    """Return the name of an object of a kind: `blobs`, `pieces` or `manifests`."""
    return f"{kind}/{sha256[:2]}/{sha256}"


class ObjectLost(CollectionError):
    """An object of a publication is gone or damaged."""


def read_object(objects: Objects, kind: str, sha256: str) -> bytes:
    """Read an object that is named by its content. Raises `ObjectLost` if it is gone or damaged."""
    name = object_name(kind, sha256)
    data = objects.read(name)
    if data is None:
        raise ObjectLost(f"{objects.url}/{name} is missing.", REPUBLISH)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ObjectLost(f"{objects.url}/{name} is damaged.", f"Delete this object there. {REPUBLISH}")
    return data


class FilePart(NamedTuple):
    """The content of an object, as a part of a file on this machine."""

    path: Path
    start: int
    size: int

    def read(self) -> bytes:
        """Read it. Raises `OSError`."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.size)
