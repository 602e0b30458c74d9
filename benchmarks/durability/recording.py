"""Recorded writes of processes below a folder, and the states that a loss of power may leave of them.

`record` runs a command under strace, with the data of every write. `Recording` reads the trace into
operations in order, and makes the state of the disk at a point of them. An operation is on the disk for
certain once an `fsync` has returned that began after it: of the file for its data, of the folder for its
names. Of the others any may be on the disk and any may not: names and data alike, in any order. This is
what POSIX promises; real file systems promise more.

Writes through a mapping or by copies within the kernel would not be seen: they are refused.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

CALLS = (
    "openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,rename,renameat,renameat2,link,linkat,unlink,"
    "unlinkat,mkdir,mkdirat,rmdir,fsync,fdatasync,sync,syncfs,ftruncate,truncate,lseek,sendfile,"
    "copy_file_range,symlinkat,symlink,fallocate"
)
MARKS = "marks"
"""Name of the file, beside the folder, to which a process writes what it was told: one line each."""
_LINE = re.compile(r"(\d+) +(.*)", re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)\) += +(-?\d+|0x[0-9a-f]+)(?:<([^>]*)>)?(.*)", re.DOTALL)
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_HANDLE = re.compile(r"^(AT_FDCWD|\d+)<((?:\\x[0-9a-f]{2})*)>")


class Loss(StrEnum):
    """What becomes of operations that are not on the disk for certain."""

    ALL = "all lost"
    EMPTY = "names kept, data lost"
    ZEROS = "names and sizes kept, zeros"
    RANDOM = "random subset"
    NONE = "nothing lost"


@dataclass(slots=True)
class Inode:
    """A file or a folder."""

    is_folder: bool
    number: int


@dataclass(slots=True)
class Operation:
    """A change, or a mark."""

    kind: str
    """`data`, `size`, `names`, `sync` or `mark`."""
    inode: Inode | None = None
    offset: int = 0
    data: bytes = b""
    size: int = 0
    names: tuple[tuple[Inode, str, Inode | None], ...] = ()
    """Folder, name, and what it then is."""
    begun: int = 0
    """Number of operations before a `sync` began."""
    certain: float = float("inf")
    """Number of the operation after which it is on the disk for certain."""


@dataclass
class Recording:
    """The operations of a trace, in order."""

    root: Inode
    operations: list[Operation] = field(default_factory=list[Operation])

    @property
    def syncs(self) -> list[int]:
        """The places of the syncs."""
        return [at for at, operation in enumerate(self.operations) if operation.kind == "sync"]

    def marks(self, point: int) -> list[str]:
        """What was told before a point."""
        return [o.data.decode() for o in self.operations[:point] if o.kind == "mark"]

    def points(self) -> list[int]:
        """Before and after each sync and mark, in the middle between them, and at every eighth operation."""
        ends = [0, *(at for at, o in enumerate(self.operations) if o.kind in {"sync", "mark"})]
        places = {*range(0, len(self.operations), 8), len(self.operations)}
        for before, after in zip(ends, [*ends[1:], len(self.operations)], strict=True):
            places |= {after, min(after + 1, len(self.operations)), (before + after) // 2}
        return sorted(places)

    def kept(self, point: int, loss: Loss, seed: int = 0) -> bytes:
        """For each operation before a point 1 if it is on the disk, 2 if zeros are, else 0.

        `seed` is for `RANDOM`.
        """
        chance = random.Random(f"{point} {seed}")
        share = chance.choice([0.2, 0.5, 0.8])
        flags = bytearray()
        for operation in self.operations[:point]:
            if operation.kind in {"sync", "mark"}:
                flags.append(0)
            elif operation.certain <= point or loss is Loss.NONE:
                flags.append(1)
            elif loss is Loss.RANDOM:
                flags.append(chance.random() < share)
            elif loss is Loss.ALL or (operation.kind != "names" and loss is Loss.EMPTY):
                flags.append(0)
            else:
                flags.append(1 if operation.kind == "names" else 2)
        return bytes(flags).rstrip(b"\0")

    def state(self, flags: bytes) -> dict[str, bytes | None]:  # noqa: C901, PLR0912 - one branch a kind
        """The files by path, folders as None, with the operations that `kept` returned."""
        names: dict[int, dict[str, Inode]] = {}
        contents: dict[int, bytearray] = {}
        for operation, flag in zip(self.operations, flags, strict=False):
            if not flag:
                continue
            for folder, name, inode in operation.names:
                entries = names.setdefault(folder.number, {})
                if inode is None:
                    entries.pop(name, None)
                else:
                    entries[name] = inode
            if operation.inode is not None:
                content = contents.setdefault(operation.inode.number, bytearray())
                if operation.kind == "data":
                    end = operation.offset + len(operation.data)
                    content.extend(bytes(max(0, end - len(content))))
                    if flag == 1:  # else zeros where the file has grown, and what was there before
                        content[operation.offset : end] = operation.data
                elif flag == 1:
                    content.extend(bytes(max(0, operation.size - len(content))))
                    del content[operation.size :]
        found: dict[str, bytes | None] = {}
        waiting = [("", self.root)]
        while waiting:
            path, folder = waiting.pop()
            for name, inode in names.get(folder.number, {}).items():
                below = f"{path}{name}"
                if inode.is_folder:
                    found[below] = None
                    waiting.append((f"{below}/", inode))
                else:
                    found[below] = bytes(contents.get(inode.number, b""))
        return found


def digest(state: dict[str, bytes | None]) -> str:
    """A hash over a state."""
    total = hashlib.sha256()
    for path in sorted(state):
        data = state[path]
        total.update(f"{path}\0{-1 if data is None else len(data)}\0".encode() + (data or b""))
    return total.hexdigest()


def materialize(state: dict[str, bytes | None], folder: Path) -> None:
    """Write a state into a folder that does not exist yet."""
    folder.mkdir(parents=True)
    for path in sorted(state):
        data = state[path]
        if data is None:
            (folder / path).mkdir(exist_ok=True)
        else:
            (folder / path).write_bytes(data)


def record(command: Sequence[str], folder: Path, trace: Path, env: dict[str, str]) -> Recording:
    """Run a command under strace, and read what it and its children wrote below a folder that is empty."""
    line = ["strace", "-f", "-y", "-xx", "-s", str(1 << 24), "--seccomp-bpf", "-qq", "-o", str(trace)]
    subprocess.run([*line, "-e", f"trace={CALLS}", *command], env=env, check=True)
    return _Reader(folder).read(trace)


class _Reader:
    """The reader of a trace. `names` are those that the processes see, whether on the disk or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.fspath(folder)
        self.marks = os.fspath(folder.with_name(MARKS))
        self.root = Inode(True, 0)
        self.recording = Recording(self.root)
        self.names: dict[str, Inode] = {self.folder: self.root}
        self.sizes: dict[int, int] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        """Places in open files, by handle and inode; -1 for those that are appended to."""
        self.count = 0
        self.unsynced: dict[int, list[int]] = {}
        """Operations on an inode that no sync has covered yet."""

    def read(self, trace: Path) -> Recording:
        waiting: dict[str, tuple[str, int]] = {}
        with trace.open(encoding="ascii") as lines:
            for line in lines:
                match = _LINE.fullmatch(line.rstrip("\n"))
                assert match is not None, line[:200]
                thread, text = match.groups()
                begun = len(self.recording.operations)
                if text.endswith(_UNFINISHED):
                    waiting[thread] = text[: -len(_UNFINISHED)], begun
                    continue
                if resumed := _RESUMED.fullmatch(text):
                    start, begun = waiting.pop(thread)
                    text = start + resumed[2]
                if (call := _CALL.fullmatch(text)) and not call[3].startswith("-"):
                    self._apply(call[1], call[2], call[3], call[4], begun)
        return self.recording

    def _apply(  # noqa: C901, PLR0912 - one branch a call
        self, name: str, arguments: str, result: str, opened: str | None, begun: int
    ) -> None:
        match name:
            case "openat" | "open" | "creat":
                self._open(name, arguments, result, _decode(opened or ""))
            case "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2":
                self._write(name, arguments, int(result))
            case "lseek":
                handle, path = self._handle(arguments)
                if (inode := self.names.get(path)) is not None:
                    key = handle, inode.number
                    if self.offsets.get(key, 0) >= 0:
                        self.offsets[key] = int(result, 0)
            case "ftruncate":
                _, path = self._handle(arguments)
                if (inode := self.names.get(path)) is not None:
                    self._resize(inode, int(arguments.rsplit(", ", 1)[1]))
            case "fsync" | "fdatasync":
                _, path = self._handle(arguments)
                if (inode := self.names.get(path)) is not None:
                    self._sync([inode.number], begun)
            case "sync" | "syncfs":
                self._sync(list(self.unsynced), begun)
            case "mkdir" | "mkdirat":
                (path,) = self._paths(arguments)
                self._create(path, is_folder=True)
            case "rename" | "renameat" | "renameat2":
                self._rename(*self._paths(arguments))
            case "link" | "linkat":
                self._link(*self._paths(arguments))
            case "unlink" | "unlinkat" | "rmdir":
                (path,) = self._paths(arguments)
                if self.names.pop(path, None) is not None:
                    self._change((path, None))
            case _:
                if self.folder in _decode(arguments):
                    raise ValueError(f"{name} is not understood: {_decode(arguments)[:300]}")

    def _open(self, name: str, arguments: str, result: str, path: str) -> None:
        if path == self.marks or not self._is_below(path):
            return
        creates = name == "creat" or "O_CREAT" in arguments
        if path not in self.names:
            if not creates:
                return
            self._create(path, is_folder=False)
        inode = self.names[path]
        if inode.is_folder:
            return
        self.offsets[result, inode.number] = -1 if "O_APPEND" in arguments else 0
        if "O_TRUNC" in arguments and self.sizes.get(inode.number, 0):
            self._resize(inode, 0)

    def _write(self, name: str, arguments: str, size: int) -> None:
        handle, path = self._handle(arguments)
        if path != self.marks and path not in self.names:
            return
        data = b"".join(_bytes(text) for text in _STRING.findall(arguments))[:size]
        assert len(data) == size, (name, arguments[-200:])
        if path == self.marks:
            for line in data.splitlines():
                self._add(Operation("mark", data=line))
            return
        inode = self.names[path]
        key = handle, inode.number
        if name == "pwrite64":
            offset = int(arguments.rsplit(", ", 1)[1])
        elif name in {"pwritev", "pwritev2"}:
            raise ValueError(f"{name} is not understood")
        else:
            offset = self.offsets.get(key, 0)
            if offset < 0:
                offset = self.sizes.get(inode.number, 0)
            else:
                self.offsets[key] = offset + size
        self.sizes[inode.number] = max(self.sizes.get(inode.number, 0), offset + size)
        self._add(Operation("data", inode, offset, data), inode.number)

    def _resize(self, inode: Inode, size: int) -> None:
        self.sizes[inode.number] = size
        self._add(Operation("size", inode, size=size), inode.number)

    def _create(self, path: str, *, is_folder: bool) -> None:
        if not self._is_below(path):
            return
        self.count += 1
        self.names[path] = Inode(is_folder, self.count)
        self._change((path, self.names[path]))

    def _rename(self, source: str, target: str) -> None:
        inode = self.names.pop(source, None)
        if inode is None:
            if self._is_below(target):
                raise ValueError(f"{source} comes from outside")
            return
        inside = self._is_below(target)
        for path in [path for path in self.names if path.startswith(f"{source}/")]:
            below = self.names.pop(path)
            if inside:
                self.names[target + path[len(source) :]] = below
        if inside:
            self.names[target] = inode
            self._change((source, None), (target, inode))
        else:
            self._change((source, None))

    def _link(self, source: str, target: str) -> None:
        if source in self.names:
            self.names[target] = self.names[source]
            self._change((target, self.names[source]))

    def _change(self, *changes: tuple[str, Inode | None]) -> None:
        places = ((Path(path), inode) for path, inode in changes)
        entries = tuple((self.names[os.fspath(path.parent)], path.name, inode) for path, inode in places)
        self._add(Operation("names", names=entries), *{folder.number for folder, _, _ in entries})

    def _sync(self, inodes: Sequence[int], begun: int) -> None:
        at = len(self.recording.operations) + 1
        for number in inodes:
            waiting = self.unsynced.get(number, [])
            covered = bisect.bisect_left(waiting, begun)
            for place in waiting[:covered]:
                operation = self.recording.operations[place]
                operation.certain = min(operation.certain, at)
            self.unsynced[number] = waiting[covered:]
        self._add(Operation("sync", begun=begun))

    def _add(self, operation: Operation, *inodes: int) -> None:
        for number in inodes:
            self.unsynced.setdefault(number, []).append(len(self.recording.operations))
        self.recording.operations.append(operation)

    def _is_below(self, path: str) -> bool:
        return path.startswith(f"{self.folder}/")

    def _handle(self, arguments: str) -> tuple[str, str]:
        match = _HANDLE.match(arguments)
        return (match[1], _decode(match[2])) if match else ("", "")

    def _paths(self, arguments: str) -> list[str]:
        """The paths that a call names, absolute."""
        found: list[str] = []
        base = ""
        for match in re.finditer(
            r'(?:AT_FDCWD|\d+)<((?:\\x[0-9a-f]{2})*)>|"((?:\\x[0-9a-f]{2})*)"', arguments
        ):
            if match[2] is None:
                base = _decode(match[1])
            else:
                found.append(os.path.normpath(Path(base) / _decode(match[2])))
        return found


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _decode(text: str) -> str:
    return os.fsdecode(
        re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), text.encode())
    )


def losses(recording: Recording, seeds: int) -> list[tuple[int, Loss, int]]:
    """Points, losses and seeds whose states differ; of equal ones the last, where most was told before."""
    last: dict[bytes, tuple[int, Loss, int]] = {}
    ways = [(loss, 0) for loss in Loss if loss is not Loss.RANDOM]
    ways += [(Loss.RANDOM, seed) for seed in range(seeds)]
    for point in recording.points():
        for loss, seed in ways:
            last[recording.kept(point, loss, seed)] = point, loss, seed
    return sorted(last.values())
