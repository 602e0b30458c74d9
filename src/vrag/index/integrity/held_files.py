"""Files that stay as they are while a backup reads them, whatever a writer deletes or replaces meanwhile.

Each is linked into a directory of its own. A hard link keeps the content when its name is gone. Where the
file system has none, or the collection may not be written to, a symbolic link stands in, or else a copy: what
is deleted behind a symbolic link is missing, and the backup begins again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.atomic_io import one_writer
from vrag.errors import CollectionBusy

if TYPE_CHECKING:
    from collections.abc import Generator

PREFIX = ".backup-"
"""Prefix of the directories of held files: in the collection, or else in that of the backups."""
_LOCK = "lock"
_IN_USE = CollectionBusy("Another backup uses the directory of held files.", "Run the command again.")


class HeldFiles:
    """A directory of held files, laid out as the collection."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, name: str) -> Path:
        """Return where a file is held, by its path relative to the collection."""
        return self.directory / "collection" / name

    def hold(self, source: Path, name: str) -> Path:
        """Hold a file, unless it is held already, and return where.

        Raises `FileNotFoundError` if it does not exist.
        """
        target = self.path(name)
        if not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            for link in (os.link, _link_symbolically, shutil.copyfile):
                try:
                    link(source, target)
                except FileNotFoundError:
                    raise
                except OSError:  # not on this file system, or not for this user
                    if link is shutil.copyfile:
                        raise
                else:
                    break
        return target

    def release(self, keep: str) -> None:
        """Release all files but those in one directory: others can be held under their names."""
        for path in (self.directory / "collection").glob("*"):
            if path.is_dir() and path.name != keep:
                shutil.rmtree(path, ignore_errors=True)
            elif not path.is_dir():
                path.unlink()


@contextmanager
def hold_files(collection: Path, backups: Path) -> Generator[HeldFiles]:
    """Open a directory for held files, and remove it in the end, and those that killed processes left."""
    for parent in (collection, backups):
        sweep_held_files(parent)
    with ExitStack() as stack:
        try:
            directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=collection))
        except OSError:
            directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=backups))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.enter_context(one_writer(directory / _LOCK, _IN_USE))
        yield HeldFiles(directory)


def sweep_held_files(parent: Path) -> None:
    """Remove what killed processes held in a directory. One that has no lock yet may just be made."""
    for lock in parent.glob(f"{PREFIX}*/{_LOCK}"):
        with suppress(OSError, CollectionBusy):
            with one_writer(lock, _IN_USE):
                shutil.rmtree(lock.parent, ignore_errors=True)
            shutil.rmtree(lock.parent, ignore_errors=True)  # Windows deletes no lock that is held


def _link_symbolically(source: Path, target: Path) -> None:
    source.lstat()  # a symbolic link can be made to nothing
    target.symlink_to(source)
