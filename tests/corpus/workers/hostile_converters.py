"""Converters that their file has taken over: they try what such code would try, and tell the outcome."""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import resource
import socket
import struct
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.corpus.converter import OpenFile
from vrag.corpus.workers.replies import FRAME
from vrag.types import Item, ItemKind, item_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.corpus.converter import ConversionContext, SourceFile

LIBC = ctypes.CDLL(None, use_errno=True)


class Hostile(OpenFile):
    """A file with an attempt per line: `name argument`. Each item says what the kernel answered."""

    reads_neighbours = True

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source, self._context = source, context
        with source.open() as file:
            self._lines = file.read().decode().splitlines()
        self.count = len(self._lines)

    def item(self, ordinal: int) -> Item:
        name, _, argument = self._lines[ordinal - 1].partition(" ")
        try:
            outcome = f"DONE: {ATTEMPTS[name](argument, self._source)!r:.80}"
        except OSError as error:
            outcome = f"{type(error).__name__} {error.errno}: {os.strerror(error.errno or 0)}"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            outcome = f"{type(error).__name__}: {error}"
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.PASSAGE,
            ordinal=ordinal,
            text=outcome,
        )


def call(function: str, *arguments: Any) -> int:  # noqa: ANN401 - of C
    """Call a C function. Raises `OSError` if it returns a negative number."""
    result = int(getattr(LIBC, function)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def system_call(number: int, *arguments: Any) -> int:  # noqa: ANN401 - of C
    """Make a system call by its number."""
    return call("syscall", ctypes.c_long(number), *arguments)


def open_socket(family: int, kind: int, address: Any) -> str:  # noqa: ANN401 - of any family
    with socket.socket(family, kind) as opened:
        opened.connect(address)
    return "connected"


def listen(port: str) -> str:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", int(port or 0)))
        opened.listen()
    return "listens"


def start_threads() -> str:
    """Start threads without end, and let them all go."""
    end = threading.Event()
    count = 0
    try:
        while count < 50_000:
            threading.Thread(target=end.wait, daemon=True).start()
            count += 1
    finally:
        end.set()
    return f"{count} threads"


def duplicate_descriptors() -> int:
    """Duplicate a descriptor without end, and close them all."""
    duplicates: list[int] = []
    try:
        while len(duplicates) < 10_000:
            duplicates.append(os.dup(0))
    finally:
        for duplicate in duplicates:
            os.close(duplicate)
    return len(duplicates)


def raise_limit() -> str:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "raised"


def type_into_terminal() -> int:
    return fcntl.ioctl(2, 0x5412, b"x")[0]


def open_beside(name: str, source: SourceFile) -> bytes:
    with source.open_neighbour(name) as file:
        return file.read(40)


def open_by_handle() -> int:
    handle = struct.pack("Ii", 8, 0) + bytes(128)
    return system_call(304 if os.uname().machine == "x86_64" else 265, -100, handle, 0)


ATTEMPTS: dict[str, Callable[[str, SourceFile], object]] = {
    "read": lambda path, _: Path(path).read_bytes()[:40],
    "list": lambda path, _: [child.name for child in Path(path).iterdir()],
    "source": lambda _, source: source.path.read_bytes()[:40],
    "reopen": lambda _, source: Path(f"/proc/self/fd/{source.file._origin}").read_bytes()[:9],  # type: ignore[attr-defined]
    "write-source": lambda _, source: os.write(source.file._origin, b"x"),  # type: ignore[attr-defined]
    "neighbour": open_beside,
    "write": lambda path, _: Path(path).write_bytes(b"x"),
    "append": lambda path, _: os.open(path, os.O_WRONLY | os.O_APPEND),
    "mkdir": lambda path, _: Path(path).mkdir(),
    "unlink": lambda path, _: Path(path).unlink(),
    "rename": lambda path, _: Path(path).rename(path + "x"),
    "link": lambda path, _: os.link(path, path + "x"),
    "symlink": lambda path, _: Path(path + "x").symlink_to(path),
    "truncate": lambda path, _: os.truncate(path, 0),
    "chmod": lambda path, _: Path(path).chmod(0o777),
    "chown": lambda path, _: os.chown(path, 0, 0),
    "utime": lambda path, _: os.utime(path),
    "xattr": lambda path, _: os.setxattr(path, "user.a", b"x"),
    "mknod": lambda path, _: os.mknod(path + "x"),
    "mkfifo": lambda path, _: os.mkfifo(path + "x"),
    "memfd": lambda _a, _s: os.memfd_create("a"),
    "tcp": lambda port, _: open_socket(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(port))),
    "udp": lambda _a, _s: open_socket(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 9)),
    "tcp6": lambda _a, _s: open_socket(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 9)),
    "unix": lambda path, _: open_socket(socket.AF_UNIX, socket.SOCK_STREAM, path),
    "abstract": lambda name, _: open_socket(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name),
    "socketpair": lambda _a, _s: socket.socketpair()[0].fileno(),
    "netlink": lambda _a, _s: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).fileno(),
    "raw": lambda _a, _s: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).fileno(),
    "listen": lambda port, _: listen(port),
    "fork": lambda _a, _s: os.fork() or os._exit(0),
    "vfork": lambda _a, _s: os.posix_spawn("/bin/true", ["true"], {}),
    "exec": lambda path, _: os.execv(path, [path]),
    "execveat": lambda _a, _s: system_call(
        322 if os.uname().machine == "x86_64" else 281, 0, b"", None, None, 4096
    ),
    "clone3": lambda _a, _s: system_call(435, bytes(88), 88),
    "namespace": lambda _a, _s: call("unshare", 0x10000000),
    "mount-namespace": lambda _a, _s: call("unshare", 0x20000),
    "setns": lambda _a, _s: call("setns", 0, 0),
    "ptrace": lambda pid, _: call("ptrace", 16, int(pid), 0, 0),
    "read-memory": lambda pid, _: call("process_vm_readv", int(pid), bytes(16), 0, bytes(16), 0, 0),
    "kill": lambda pid, _: os.kill(int(pid), 0),
    "kill-all": lambda _a, _s: os.kill(-1, 0),
    "tgkill": lambda pid, _: system_call(
        234 if os.uname().machine == "x86_64" else 131, int(pid), int(pid), 0
    ),
    "sigqueue": lambda pid, _: call("sigqueue", int(pid), 0, 0),
    "pidfd": lambda pid, _: os.pidfd_open(int(pid)),
    "own-signals": lambda _a, _s: fcntl.fcntl(0, fcntl.F_SETOWN, 1),
    "mount": lambda path, _: call("mount", b"none", path.encode(), b"tmpfs", 0, None),
    "chroot": lambda path, _: os.chroot(path),
    "chdir": lambda path, _: os.chdir(path),
    "io_uring": lambda _a, _s: system_call(425, 8, bytes(120)),
    "bpf": lambda _a, _s: system_call(321 if os.uname().machine == "x86_64" else 280, 0, bytes(64), 64),
    "perf": lambda _a, _s: system_call(
        298 if os.uname().machine == "x86_64" else 241, bytes(128), 0, -1, -1, 0
    ),
    "userfaultfd": lambda _a, _s: system_call(323 if os.uname().machine == "x86_64" else 282, 0),
    "keyctl": lambda _a, _s: system_call(250 if os.uname().machine == "x86_64" else 219, 0, -3, 0),
    "open-by-handle": lambda _a, _s: open_by_handle(),
    "clock": lambda _a, _s: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "hostname": lambda _a, _s: socket.sethostname("a"),
    "reboot": lambda _a, _s: call("reboot", 0),
    "module": lambda _a, _s: system_call(313 if os.uname().machine == "x86_64" else 273, 0, b"", 0),
    "setuid": lambda _a, _s: os.setuid(0),
    "setgroups": lambda _a, _s: os.setgroups([0]),
    "nice": lambda _a, _s: os.nice(1),
    "personality": lambda _a, _s: call("personality", 0x0040000),
    "dumpable": lambda _a, _s: call("prctl", 4, 1, 0, 0, 0),
    "seccomp": lambda _a, _s: call("prctl", 22, 1, 0, 0, 0),
    "tiocsti": lambda _a, _s: type_into_terminal(),
    "raise-limit": lambda _a, _s: raise_limit(),
    "parent-limit": lambda pid, _: resource.prlimit(int(pid), resource.RLIMIT_CPU, (1, 1)),
    "memory": lambda _a, _s: len(mmap.mmap(-1, 64 * 2**30)),
    "threads": lambda _a, _s: start_threads(),
    "descriptors": lambda _a, _s: duplicate_descriptors(),
    "environment": lambda name, _: os.environ[name],
    "new-syscall": lambda _a, _s: system_call(999),
}


class Liar(OpenFile):
    """A file with JSON per line: a reply that is sent instead of an item, and the bytes that follow it."""

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source = source
        with source.open() as file:
            self._lines = [json.loads(line) for line in file.read().decode().splitlines()]
        self.count = 2

    def item(self, ordinal: int) -> Item:
        stream: Any = self._source.link._replies  # type: ignore[attr-defined]
        for head, tail in self._lines:
            data = (
                head.encode("utf-8", "surrogatepass") if isinstance(head, str) else json.dumps(head).encode()
            )
            stream.write(FRAME.pack(len(data), len(tail)) + data + tail.encode("latin-1"))
        stream.flush()
        time.sleep(60)
        raise AssertionError("the parent has not ended this process")
