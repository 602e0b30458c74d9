"""Rules of Windows on a Linux machine; with this folder on PYTHONPATH each Python process starts with them.

The package sees what Python on Windows has: `os.name` and `sys.platform`, no modules, functions, flags
and signals of POSIX, an event loop without signal handlers. The file system refuses what NTFS refuses, for
all code:

- to delete, rename or replace a file that some process has open or mapped, and to rename a folder with such
  a file. Processes are those of the same process group;
- to rename to a name that exists, to replace a folder, to delete a read-only file, to open a folder;
- names with characters that are reserved, devices, and trailing dots and spaces; symbolic links, which need a
  privilege;
- to write a file to the disk through a descriptor that cannot write.

What it does not have: names without case, modes of files that are no modes, drives, code pages, consoles, and
native code's own view of all this. `tests/test_platforms.py` checks the rules themselves.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import fcntl
import inspect
import io
import os
import re
import shutil
import stat
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Any

ABSENT_MODULES = frozenset(
    "crypt curses fcntl grp nis posix pty pwd readline resource spwd syslog termios tty".split()
)
ABSENT_NAMES = {
    "mmap": re.compile("MADV_.*|MAP_.*|PROT_.*"),
    "os": re.compile(
        "O_(NOFOLLOW|NONBLOCK|CLOEXEC|DIRECTORY|SYNC|PATH|TMPFILE|NOCTTY|DIRECT|NOATIME)|fork.*|.*(g|u|p|s)id|"
        "killpg|sched_.*|(f|l)?chown|fchmod|mkfifo|mknod|f?statvfs|uname|wait.*|W[A-Z].*|posix_.*|p(read|write)v?|"
        "sendfile|getloadavg|nice|(g|s)etpriority|register_at_fork|sync|fdatasync|ttyname|ctermid|getgroups|"
        "setgroups|mem_fd|chroot|fchdir|lockf|pipe2|openpty"
    ),
    "signal": re.compile(
        "SIG(?!(ABRT|FPE|ILL|INT|SEGV|TERM|_DFL|_IGN)$)[A-Z].*|pthread_.*|alarm|pause|sig.*|set_?itimer|getitimer"
    ),
    "socket": re.compile("AF_UNIX|SO_REUSEPORT|TCP_USER_TIMEOUT|TCP_NOTSENT_LOWAT|socketpair_unix"),
    "time": re.compile("tzset|clock_.*|pthread_.*|CLOCK_.*"),
}
"""Attributes that modules lack on Windows."""
PRESENT_NAMES = {"getpid", "getppid", "signal", "waitpid", "waitstatus_to_exitcode"}
VALUES: dict[str, dict[str, object]] = {"os": {"name": "nt"}, "sys": {"platform": "win32"}}
RESERVED = re.compile(
    r'[<>:"\\|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])\s*(\.|$)', re.IGNORECASE
)
_system = types.SimpleNamespace(
    **{name: getattr(os, name) for name in "open mkdir rename replace unlink fsync symlink link".split()},
    io_open=open,
)


class WindowsModule(types.ModuleType):
    """A module as it is on Windows; what is set is set in the real one."""

    def __init__(self, real: types.ModuleType) -> None:
        super().__init__(real.__name__)
        object.__setattr__(self, "_real", real)

    def __getattribute__(self, name: str) -> Any:
        real: types.ModuleType = object.__getattribute__(self, "_real")
        values = VALUES.get(real.__name__, {})
        absent = ABSENT_NAMES.get(real.__name__)
        if name in values:
            return values[name]
        if absent is not None and name not in PRESENT_NAMES and absent.fullmatch(name):
            raise AttributeError(f"module {real.__name__!r} has no attribute {name!r} on Windows")
        return getattr(real, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_real"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "_real"), name)


_modules: dict[str, WindowsModule] = {}
_import = builtins.__import__


def import_as_on_windows(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> types.ModuleType:
    """Import a module; for code of the package as it is on Windows."""
    importer: dict[str, Any] = globals or {}
    if not str(importer.get("__name__", "")).startswith("vrag") or level:
        return _import(name, globals, locals, fromlist, level)
    if name.partition(".")[0] in ABSENT_MODULES:
        raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)
    module = _import(name, globals, locals, fromlist, level)
    if name in ABSENT_NAMES or name in VALUES:
        return _modules.setdefault(name, WindowsModule(module))
    return module


def _open_files() -> Iterator[str]:
    """Yield the paths of the files that the processes of this group have open or mapped."""
    group = os.getpgrp()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.getpgid(int(pid)) != group:
                continue
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    yield os.readlink(f"/proc/{pid}/fd/{number}")
            with _system.io_open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
                yield from (line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/"))


def _check_not_open(path: Any, *, folder: bool) -> None:
    """Refuse to touch a file that is open, or a folder with one."""
    place = os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path))))
    name = os.path.join(place, os.path.basename(os.fsdecode(path)))
    for opened in _open_files():
        inside = folder and opened.startswith(name + os.sep) and not os.path.isdir(opened)
        if inside or (opened == name and not folder):
            message = "The process cannot access the file because it is being used by another process"
            raise PermissionError(errno.EACCES, f"{message}: {opened}", os.fsdecode(path))


def _check_name(path: Any) -> None:
    """Refuse a name that no file can have."""
    if not isinstance(path, int) and RESERVED.search(PurePath(os.fsdecode(path)).name):
        raise OSError(errno.EINVAL, "The filename, directory name, or volume label syntax is incorrect", path)


def _is_folder(path: Any) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def open_descriptor(path: Any, flags: int, mode: int = 0o777, **rest: Any) -> int:
    """Open a file as `os.open` does."""
    if flags & os.O_CREAT:
        _check_name(path)
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", os.fsdecode(path))
    return _system.open(path, flags, mode, **rest)


def open_file(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
    """Open a file as `open` does."""
    if set(mode) & set("wxa"):
        _check_name(file)
    return _system.io_open(file, mode, *rest, **named)


def make_folder(path: Any, *rest: Any, **named: Any) -> None:
    """Make a folder as `os.mkdir` does."""
    _check_name(path)
    _system.mkdir(path, *rest, **named)


def rename(source: Any, target: Any, **named: Any) -> None:
    """Rename as `os.rename` does: no target is replaced."""
    _check_name(target)
    if os.path.lexists(target) and not os.path.samefile(source, target):
        message = "Cannot create a file when that file already exists"
        raise FileExistsError(errno.EEXIST, message, os.fsdecode(source), None, os.fsdecode(target))
    _check_not_open(source, folder=_is_folder(source))
    _system.rename(source, target, **named)


def replace(source: Any, target: Any, **named: Any) -> None:
    """Rename as `os.replace` does: no folder is replaced, nor what is open."""
    _check_name(target)
    _check_not_open(source, folder=_is_folder(source))
    if os.path.lexists(target):
        if _is_folder(target) or not os.lstat(target).st_mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "Access is denied", os.fsdecode(target))
        _check_not_open(target, folder=False)
    _system.replace(source, target, **named)


def unlink(path: Any, **named: Any) -> None:
    """Delete a file as `os.unlink` does."""
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and not status.st_mode & stat.S_IWUSR):
        raise PermissionError(errno.EACCES, "Access is denied", os.fsdecode(path))
    caller = inspect.currentframe()
    if (
        caller and caller.f_back and caller.f_back.f_globals.get("__name__") != "tempfile"
    ):  # whose files delete themselves on Windows
        _check_not_open(path, folder=False)
    _system.unlink(path, **named)


def fsync(file: Any) -> None:
    """Write a file to the disk as `os.fsync` does."""
    descriptor = file if isinstance(file, int) else file.fileno()
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    _system.fsync(descriptor)


def symlink(source: Any, target: Any, *_: Any, **__: Any) -> None:
    """Refuse a symbolic link as `os.symlink` does without the privilege."""
    raise OSError(errno.EINVAL, "A required privilege is not held by the client", source, 1314, target)


def link(source: Any, target: Any, **named: Any) -> None:
    """Make a hard link as `os.link` does."""
    _check_name(target)
    _system.link(source, target, **named)


def _no_signal_handlers(*_: object) -> None:
    raise NotImplementedError


def install() -> None:
    """Apply the rules to this process."""
    functions: dict[str, Callable[..., Any]] = {
        "open": open_descriptor, "mkdir": make_folder, "rename": rename, "replace": replace, "unlink": unlink,
        "remove": unlink, "fsync": fsync, "symlink": symlink, "link": link,
    }  # fmt: skip
    for name, function in functions.items():
        setattr(os, name, function)
    io.open = builtins.open = open_file
    setattr(shutil, "_use_fd_functions", False)  # noqa: B010 - no stub has it; it deletes by paths on Windows
    for loop in (asyncio.SelectorEventLoop, asyncio.BaseEventLoop, asyncio.AbstractEventLoop):
        loop.add_signal_handler = loop.remove_signal_handler = _no_signal_handlers  # type: ignore[method-assign]
    builtins.__import__ = import_as_on_windows


install()
