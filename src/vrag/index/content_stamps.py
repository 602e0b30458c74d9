"""The states of files in which their content is known: what tells that a file need not be read again.

Size and modification time do not prove that a file is unchanged: programs restore the time of a file that
they rewrite, and copies keep that of the original. The time of the last change (`st_ctime`) cannot be set by
a program, and another file in the same place has another inode. A file whose size, times and inode are those
under which its content was hashed is unchanged; any other is hashed, and its new state is remembered. So a
touched, restored or moved folder costs one reading, and no reading of pages.

Where the system has no such time (Windows), the hash decides each time, and so it does for a file that was
changed in the two seconds before it was hashed: it may be changed again within the resolution of the clock.

The states are a cache: without it, files are hashed once more.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from platformdirs import user_cache_path

from vrag.atomic_io import atomic_file
from vrag.corpus.discover import change_time_ns, read_source
from vrag.index.integrity.sealed_json import Seal, check_seal, seal_json
from vrag.index.schema import file_key
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection as CollectionOf

    from vrag.corpus.converter import SourceFile
    from vrag.types import Document

STAMPS_FILE = "stamps.json"
"""File in the folder of caches."""
_FORMAT = 1


class _Stamp(NamedTuple):
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Stamp:
        return cls(status.st_size, status.st_mtime_ns, change_time_ns(status), status.st_ino)


class _KnownContent(NamedTuple):
    document: str
    """SHA-256 of the bytes in hexadecimal."""
    stamp: _Stamp


class ContentStamps:
    """The states of the files of a collection in which their content is known. For one thread."""

    def __init__(self, cache_dir: Path) -> None:
        """Read those that are kept in a folder of caches, or for it if it cannot be written to."""
        name = hashlib.sha256(os.fsencode(cache_dir)).hexdigest()[:16]
        self._places = (
            cache_dir / STAMPS_FILE,
            user_cache_path("vrag", appauthor=False) / "stamps" / f"{name}.json",
        )
        self._kept = {key: known for place in reversed(self._places) for key, known in _read(place).items()}
        self._known = dict(self._kept)
        self._differing: dict[str, _KnownContent] = {}
        """States in which a file was found to have another content than this, by the key of its path."""

    def is_unchanged(self, path: Path, document: Document) -> bool:
        """Return whether a file is that of a document: it has its size, modification time and bytes.

        It is hashed where its state does not say which bytes it has.
        """
        try:
            status = path.stat()
            if (status.st_size, status.st_mtime_ns) != (document.size, document.mtime_ns):
                return False
            key, stamp = file_key(os.fspath(path)), _Stamp.of(status)
            wanted = _KnownContent(document.id, stamp)
            if self._known.get(key) == wanted:
                return True
            if self._differing.get(key) == wanted:
                return False
            source = read_source(path)
        except OSError:
            return False
        self.add(source)
        if source.document == document.id:
            return True
        self._differing[key] = wanted
        return False

    def add(self, source: SourceFile) -> None:
        """Remember the state of a file that was hashed."""
        key = file_key(os.fspath(source.path))
        stamp = _Stamp(source.size, source.mtime_ns, source.ctime_ns, source.inode)
        if stamp.ctime_ns and stamp.inode:
            self._known[key] = _KnownContent(source.document, stamp)
        else:
            self._known.pop(key, None)

    def save(self, paths: CollectionOf[str]) -> None:
        """Keep what is known of these files for later. A place that cannot be written to is no error."""
        keys = set(map(file_key, paths))
        known = {key: entry for key, entry in self._known.items() if key in keys}
        if known == self._kept:
            return
        files = {key: [entry.document, *entry.stamp] for key, entry in known.items()}
        data = seal_json({"format": _FORMAT, "files": files})
        for place in self._places:
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(place, durable=False) as file:
                    file.write(data)
                self._kept = known
                return


def _read(place: Path) -> dict[str, _KnownContent]:
    """Read the states in a file; none if it is missing, damaged or of another format."""
    try:
        data = place.read_bytes()
        content: Any = parse_json(data)
        if check_seal(data) is not Seal.SOUND or content["format"] != _FORMAT:
            return {}
        files = cast("dict[str, list[Any]]", content["files"])
        return {key: _KnownContent(document, _Stamp(*stamp)) for key, (document, *stamp) in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
