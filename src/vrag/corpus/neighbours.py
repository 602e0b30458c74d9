"""The pictures beside a document: files in its folder or below, and nothing else.

An HTML file names pictures. Its reader may be in a process that opens no path and asks for them by name; so
this holds whoever asks: the file lies in the folder, with all links followed, and begins like a picture.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from vrag.corpus.sniff import describe_head, is_picture
from vrag.errors import CorpusError, FileTooLargeError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

MAX_BYTES = 256 * 2**20
"""Larger pictures are not read."""
OUTSIDE = "The picture lies outside of the folder of the HTML file."
_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def open_neighbour(folder: Path, name: str) -> BinaryIO:
    """Open a picture in a folder or below it, by its path relative to the folder.

    Raises `CorpusError` if it lies elsewhere, is not a picture or too large, `OSError` if there is no such
    file and `ValueError` if the name cannot be that of a file.
    """
    if name.startswith("/") or (folder / name).parts[: len(folder.parts)] != folder.parts:
        raise CorpusError(OUTSIDE)
    path = (folder / name).resolve(strict=False)
    if not path.is_relative_to(folder.resolve(strict=True)):
        raise CorpusError(OUTSIDE)
    _check_regular(path.lstat())
    # Not by `fdopen`: a worker on Windows is given the name of the file object, which is its path.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _FLAGS))  # noqa: SIM115 - the caller closes it
    try:
        _check_picture(file)
    except BaseException:
        file.close()
        raise
    return file


def _check_picture(file: BinaryIO) -> None:
    status = os.fstat(file.fileno())
    _check_regular(status)
    if status.st_size > MAX_BYTES:
        raise FileTooLargeError(f"It has {status.st_size:,} bytes; the limit is {MAX_BYTES:,}.")
    head = file.read(1024)
    if not is_picture(head):
        raise CorpusError(f"This is not a picture that can be read: {describe_head(head)}.")
    file.seek(0)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CorpusError("It is not a regular file.")
