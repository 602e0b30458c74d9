"""Files that stay as they are while a backup reads them, whatever a writer deletes or replaces meanwhile.

Each is linked into a scratch directory. A hard link keeps the content when the file's own name is deleted.
Where hard links are not possible, symbolic links or else copies are used. If a file is deleted behind a
symbolic link, it is missing, and the backup begins again.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from vrag.errors import CollectionError
from vrag.scratch import remove_abandoned, scratch_directory

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


class HeldFiles:
    """A directory of held files, laid out as the collection."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, name: str) -> Path:
        """Return where a file is held, by its path relative to the collection."""
        return self.directory / "collection" / name

    def hold(self, source: Path, name: str) -> Path:
        """Hold a file, unless it is held already, and return where.

        Raises `FileNotFoundError` if it does not exist, `OSError` if it cannot be read, and `CollectionError`
        if the disk is full.
        """
        target = self.path(name)
        try:
            if not os.path.lexists(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                _link_or_copy(source, target)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise CollectionError(
                f"{self.directory} cannot be written to: {error.strerror}.",
                "Free some disk space, and run the command again: it continues.",
            ) from error
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
    """Open a directory for held files in the collection, or else in the backups, and remove it in the end."""
    remove_abandoned(backups)
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(scratch_directory(collection, hidden=True))
        except OSError:
            directory = stack.enter_context(scratch_directory(backups, hidden=True))
        held = HeldFiles(directory)
        stack.callback(shutil.rmtree, held.path(""), ignore_errors=True)  # changes no permissions of files
        yield held


def _link_or_copy(source: Path, target: Path) -> None:
    for link in (os.link, _link_symbolically, shutil.copyfile):
        try:
            link(source, target)
        except FileNotFoundError:
            raise
        except OSError:  # not on this file system, or not for this user
            if link is shutil.copyfile:
                raise
        else:
            return


def _link_symbolically(source: Path, target: Path) -> None:
    source.lstat()  # a symbolic link can be made to nothing
    target.symlink_to(source)
