"""Lines of JSON that are only added to, each whole or not at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from vrag.errors import SampleError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Journal", "sync", "write_lines"]

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Journal(Generic[M]):
    """A file with one entry a line.

    An entry is on the disk when `append` returns. A process that dies while it writes leaves a torn last
    line, which is no entry: reading leaves it out, and the next writer cuts it off.
    """

    path: Path
    kind: type[M]

    def read(self) -> list[M]:
        """All entries.

        Raises:
            SampleError: If a line is damaged that is not the last.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [self._entry(line, number) for number, line in enumerate(lines, 1)]

    def open(self) -> IO[bytes]:
        """Opens it for `append`, without a torn last line. There may be one writer at a time."""
        stream = self.path.open("ab", buffering=0)
        whole = self.path.read_bytes().rfind(b"\n") + 1
        if whole < stream.tell():
            stream.truncate(whole)
        sync(self.path.parent)
        return stream

    def append(self, stream: IO[bytes], entry: M) -> None:
        """Adds an entry.

        Raises:
            SampleError: If the disk refuses. Nothing of the entry is in the file then.
        """
        line = entry.model_dump_json().encode() + b"\n"
        before = os.fstat(stream.fileno()).st_size
        try:
            if stream.write(line) < len(line):
                raise OSError("there is no room")  # noqa: TRY301 - told as the other refusals
            os.fsync(stream.fileno())
        except OSError as error:
            stream.truncate(before)
            raise SampleError(f"{self.path} cannot be written: {error}.", "Make room, then go on.") from error

    def rewrite(self, entries: list[M]) -> None:
        """Replaces all entries at once."""
        write_lines(self.path, [entry.model_dump_json() for entry in entries])

    def _entry(self, line: bytes, number: int) -> M:
        try:
            return self.kind.model_validate_json(line)
        except ValidationError as error:
            raise SampleError(
                f"Line {number} of {self.path} is damaged: {error.errors()[0]['msg']}.",
                "Take the line out; its case is then sampled again.",
            ) from error


def write_lines(path: Path, lines: list[str]) -> None:
    """Writes a file as a whole: the old one stands until the new one is on the disk."""
    unfinished = path.with_name(f".{path.name}.new")
    with unfinished.open("wb") as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Puts a file or the names in a directory on the disk, where the system can."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
