"""The file system of SQLite's databases under the eyes of a test: it is told of each write and each sync."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw

from vrag.storage import connection
from vrag.storage.connection import load_checksums

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from typing_extensions import Buffer

_BASE, _NAME = "cksmvfs", "watched"
"""The file system of SQLite's databases, and the one that watches it."""


def watch_files(
    patch: pytest.MonkeyPatch,
    *,
    before: Callable[[], object] = lambda: None,
    synced: Callable[[Path], object] = lambda _: None,
) -> WatchedFiles:
    """Watch the databases that this process opens from now on, until `patch` is undone.

    `before` is called before each write, sync and cut; `synced` after each sync.
    """
    files = WatchedFiles(before, synced)
    patch.setattr(connection, "_FILE_SYSTEM", _NAME)
    return files


class WatchedFiles(apsw.VFS):
    """The file system; it has to live as long as a database is open in it."""

    def __init__(self, before: Callable[[], object], synced: Callable[[Path], object]) -> None:
        load_checksums()
        self._before, self._synced = before, synced
        super().__init__(_NAME, _BASE)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        """Open a file."""
        return _WatchedFile(name, flags, self._before, self._synced)


class _WatchedFile(apsw.VFSFile):
    def __init__(
        self,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        before: Callable[[], object],
        synced: Callable[[Path], object],
    ) -> None:
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._before, self._synced = before, synced
        super().__init__(_BASE, name, flags)

    def xWrite(self, data: Buffer, offset: int) -> None:  # noqa: N802
        self._before()
        cast("Any", super()).xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._before()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._before()
        super().xSync(flags)
        if self._path is not None:
            self._synced(Path(self._path))
