"""The states of files in which their content is known: what tells that a file need not be read again.

Size and modification time do not prove that a file is unchanged: programs restore the time of a file that
they rewrite, and copies keep that of the original. The time of the last change (`st_ctime`) cannot be set by
a program, and another file in the same place has another inode. A file whose size, times and inode are those
under which its content was hashed is unchanged; any other is hashed, and its new state is remembered. So a
touched, restored or moved folder costs one reading, and no reading of pages.

Where the system has no such time (Windows), the hash decides each time, and so it does for a file that was
changed in the two seconds before it was hashed: it may be changed again within the resolution of the clock.

The states stand beside the manifest, in rows that no reader needs: remembering one is no new version.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.discover import change_time_ns, read_source
from vrag.errors import CollectionError
from vrag.index.schema import encode_path

if TYPE_CHECKING:
    from collections.abc import Collection as CollectionOf
    from pathlib import Path

    from vrag.corpus.converter import SourceFile
    from vrag.index.store import CollectionStore
    from vrag.types import Document


class ContentStamp(NamedTuple):
    """The state of a file."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> ContentStamp:
        """Return the state that the system reports."""
        return cls(status.st_size, status.st_mtime_ns, change_time_ns(status), status.st_ino)


class _KnownContent(NamedTuple):
    document: str
    """SHA-256 of the bytes in hexadecimal."""
    stamp: ContentStamp


class ContentStamps:
    """The states of the files of a collection in which their content is known. For one thread."""

    def __init__(self, store: CollectionStore) -> None:
        self._store = store
        with store.database.read() as connection:
            rows = connection.execute("SELECT path, document, size, mtime_ns, ctime_ns, inode FROM stamps")
            self._kept = {
                path: _KnownContent(document, ContentStamp(*stamp)) for path, document, *stamp in rows
            }
        self._known = dict(self._kept)
        self._differing: dict[bytes, _KnownContent] = {}
        """States in which a file was found to have another content than this, by its path."""

    def is_unchanged(self, path: Path, document: Document) -> bool:
        """Return whether a file is that of a document: it has its size, modification time and bytes.

        It is hashed where its state does not say which bytes it has.
        """
        try:
            status = path.stat()
            if (status.st_size, status.st_mtime_ns) != (document.size, document.mtime_ns):
                return False
            key, stamp = encode_path(os.fspath(path)), ContentStamp.of(status)
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
        key = encode_path(os.fspath(source.path))
        stamp = ContentStamp(source.size, source.mtime_ns, source.ctime_ns, source.inode)
        if stamp.ctime_ns and stamp.inode:
            self._known[key] = _KnownContent(source.document, stamp)
        else:
            self._known.pop(key, None)

    def save(self, paths: CollectionOf[str]) -> None:
        """Keep what is known of these files; where that cannot be written, they are hashed again later."""
        keys = set(map(encode_path, paths))
        known = {key: entry for key, entry in self._known.items() if key in keys}
        new = [(key, *entry) for key, entry in known.items() if self._kept.get(key) != entry]
        gone = [(key,) for key in self._kept.keys() - known.keys()]
        if not new and not gone:
            return
        rows = [(key, document, *stamp) for key, document, stamp in new]
        with suppress(CollectionError), self._store.database.write() as connection:
            connection.executemany("DELETE FROM stamps WHERE path = ?", gone)
            connection.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._kept = known
