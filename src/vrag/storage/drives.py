"""Network drives, on which the locks and the shared memory of SQLite do not hold.

https://sqlite.org/wal.html: all processes that use a database in WAL mode must be on one machine.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

ALLOWED = ".network-drive"
"""File in a directory whose owner has decided that one machine alone uses it."""
_MOUNTS = Path("/proc/self/mountinfo")
_TYPES = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ceph lustre beegfs gpfs glusterfs davfs fuse.sshfs fuse.glusterfs "
    "fuse.s3fs fuse.rclone fuse.gcsfuse fuse.juicefs fuse.davfs2".split()
)
"""File systems of other machines, by the names that Linux has for them."""
_DRIVE_REMOTE = 4
"""What `GetDriveTypeW` of Windows returns for a network drive."""


def describe_network_drive(directory: Path) -> str:
    """Return the type of the network drive that a directory is on, unless its owner allows its use.

    Empty for a disk of this machine, and where the type is not known, as on macOS.
    """
    with suppress(OSError):
        if (directory / ALLOWED).exists():
            return ""
        if sys.platform == "win32":
            return _describe_windows_drive(directory)
        kind = _read_types(_MOUNTS).get(directory.stat().st_dev, "")
        return kind if kind in _TYPES else ""
    return ""


def _read_types(mounts: Path) -> dict[int, str]:
    """Return the type of each mounted file system by its device, as proc(5) describes the file."""
    types: dict[int, str] = {}
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        fields, _, rest = line.partition(" - ")
        with suppress(ValueError, IndexError):
            major, minor = map(int, fields.split()[2].split(":"))
            types[os.makedev(major, minor)] = rest.split()[0]
    return types


def _describe_windows_drive(directory: Path) -> str:
    drive = directory.resolve().drive
    if drive.startswith("\\\\"):
        return "SMB"
    windows: Any = getattr(ctypes, "windll", None)
    if windows is not None and windows.kernel32.GetDriveTypeW(f"{drive}\\") == _DRIVE_REMOTE:
        return "SMB"
    return ""
