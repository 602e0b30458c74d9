"""Requests of a parent process to its worker, with open files: the worker opens no path of its own.

A request is pickled: a worker trusts its parent, and the parent does not trust its worker (`replies.py`).
Files travel as descriptors, through a Unix socket. Windows has none for that: there, a file is given by its
path.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from vrag.corpus.drawing import DrawTask
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from vrag.corpus.converter import Converter, CorpusOptions, SourceFile

SEND_SECONDS = 120.0
"""Time after which a worker that takes no request counts as blocked."""
HAS_DESCRIPTORS = sys.platform != "win32"
_HEAD = struct.Struct("!Q?")
"""Bytes of a request, and whether a file comes with it."""


@dataclass(frozen=True, slots=True)
class Task:
    """Open a file, which comes along, and make some of its items."""

    converter: Converter
    source: SourceFile
    options: CorpusOptions
    ordinals: tuple[int, ...] | None
    """Items to make; None for the first ones that are missing, on opening."""
    have: frozenset[int] = frozenset()
    """Items not to make."""
    opening_seconds: float = 0.0
    """Seconds of processor time that opening the file may take beyond the time limit of a page."""
    notes: bytes = field(default=b"", repr=False)
    """`OpenFile.notes` of the worker that has opened the file first."""
    refusal: str = ""
    """The reason why no file comes along; empty if one does."""

    @property
    def page_seconds(self) -> float:
        """Time limit of each item, in seconds of processor time."""
        return self.options.page_seconds


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a worker that asked for a file: one that comes along, or an error."""

    error: CorpusError | OSError | ValueError | None = None


Request = Task | DrawTask | Grant


class ReceivedRequest(NamedTuple):
    """A request, and the file that came with it."""

    request: Request
    file: GivenFile | None


class RequestSender:
    """The parent's end. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: IO[bytes] | None = None
        if HAS_DESCRIPTORS:
            self._socket, self._far = socket.socketpair()
            self._socket.settimeout(SEND_SECONDS)

    @property
    def stdin(self) -> int:
        """Standard input of the worker, as `subprocess.Popen` takes it."""
        return self._far.fileno() if HAS_DESCRIPTORS else subprocess.PIPE

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        """Begin, when the process has started."""
        self._pipe = process.stdin
        if HAS_DESCRIPTORS:
            self._far.close()

    def send(self, request: Request, file: BinaryIO | None = None) -> None:
        """Send a request, with a file. Raises `OSError` if the worker has ended, or takes nothing."""
        path = None if HAS_DESCRIPTORS or file is None else str(file.name)
        data = pickle.dumps((request, path), protocol=pickle.HIGHEST_PROTOCOL)
        head = _HEAD.pack(len(data), file is not None)
        with self._lock:
            if self._pipe is not None:
                self._pipe.write(head + data)
                self._pipe.flush()
            elif file is None:
                self._socket.sendall(head + data)
            else:
                socket.send_fds(self._socket, [head], [file.fileno()])
                self._socket.sendall(data)

    def close(self) -> None:
        """Close it, by which the worker ends."""
        if HAS_DESCRIPTORS:
            self._socket.close()
        elif self._pipe is not None:
            self._pipe.close()


class RequestReceiver:
    """The worker's end: its standard input."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor) if HAS_DESCRIPTORS else None
        self._pipe = None if HAS_DESCRIPTORS else os.fdopen(descriptor, "rb")

    def receive(self) -> ReceivedRequest:
        """Wait for a request. Raises `EOFError` when the parent is gone, and what unpickling raises."""
        descriptors: list[int] = []
        size, has_file = _HEAD.unpack(self._read(_HEAD.size, descriptors))
        request, path = pickle.loads(self._read(size, descriptors))  # noqa: S301 - from the parent process
        if not has_file:
            return ReceivedRequest(request, None)
        return ReceivedRequest(request, GivenFile(descriptors[0] if descriptors else Path(path)))

    def close(self) -> None:
        """Close it."""
        for end in (self._socket, self._pipe):
            if end is not None:
                end.close()

    def _read(self, size: int, descriptors: list[int]) -> bytearray:
        data = bytearray()
        while len(data) < size:
            wanted = min(size - len(data), 2**20)
            if self._pipe is not None:
                part = self._pipe.read(wanted)
            else:
                assert self._socket is not None
                part, received, _, _ = socket.recv_fds(self._socket, wanted, 1)
                descriptors += received
            if not part:
                raise EOFError
            data += part
        return data


class GivenFile:
    """A file that the parent has opened, or named. It may be opened several times at once."""

    def __init__(self, origin: int | Path) -> None:
        self._origin = origin

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it at its start."""
        if isinstance(self._origin, Path):
            return self._origin.open(mode)
        return io.BufferedReader(_DescriptorReader(self, self._origin), 65536)

    def take(self, mode: Literal["rb", "r+b"]) -> BinaryIO:
        """Open it, once, for who closes it."""
        origin = self._origin if isinstance(self._origin, Path) else os.dup(self._origin)
        return open(origin, mode)  # noqa: PTH123 - a path or a descriptor

    def __del__(self) -> None:
        """Close it when nothing reads it any longer."""
        if isinstance(self._origin, int):
            os.close(self._origin)


class _DescriptorReader(io.RawIOBase):
    """A reader with its own position in a file whose descriptor others share."""

    def __init__(self, file: GivenFile, descriptor: int) -> None:
        self._file, self._descriptor, self._position = file, descriptor, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        data = os.pread(self._descriptor, len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = 0
        if whence == os.SEEK_CUR:
            base = self._position
        elif whence == os.SEEK_END:
            base = os.fstat(self._descriptor).st_size
        if base + offset < 0:
            raise ValueError("The position is before the start of the file.")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def fileno(self) -> int:
        """Refuse: whoever has the descriptor would move the position of all."""
        raise io.UnsupportedOperation("fileno")
