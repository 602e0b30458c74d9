"""Faults of the disk below a folder, by a library in front of the C library (`faults.c`).

It counts the calls that change a file below the folder, and kills the whole process group before the n-th
of them or in the middle of it, or refuses from there on all that needs space. So every point of an
operation can be chosen, with equal chance, however short the time that it takes. What a process does
through a mapping is not counted: of that, SQLite has the index of its log alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
from enum import IntEnum
from pathlib import Path

_VARIABLE = "DURABILITY_FAULTS"
"""Path of the control file, for processes that are started."""
_COUNTERS = struct.Struct("qqqq")
"""Calls so far, the chosen one, the kind of fault, calls that were refused."""
_PATH_BYTES = 4096


class Fault(IntEnum):
    """A kind of fault."""

    NONE = 0
    COUNT = 1
    KILL = 2
    """SIGKILL before the call."""
    TORN = 3
    """SIGKILL in the middle of it, if it is a write."""
    FULL = 4
    """The disk is full from there on."""


class Faults:
    """The control of faults below a folder, shared with all processes that are started or forked."""

    def __init__(self, scratch: Path, root: Path) -> None:
        self._path = scratch / "faults"
        self._path.write_bytes(_COUNTERS.pack(0, 0, 0, 0) + os.fsencode(root).ljust(_PATH_BYTES, b"\0"))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        os.environ[_VARIABLE] = str(self._path)
        ctypes.CDLL(None).faults_open(os.fsencode(self._path))

    def arm(self, fault: Fault, at: int = 0) -> None:
        """Begin to count anew, with a fault at a call, from 1 on."""
        self._map[: _COUNTERS.size] = _COUNTERS.pack(0, at, fault, 0)

    @property
    def calls(self) -> int:
        """Calls so far."""
        return _COUNTERS.unpack(self._map[: _COUNTERS.size])[0]

    @property
    def refused(self) -> int:
        """Calls that were refused."""
        return _COUNTERS.unpack(self._map[: _COUNTERS.size])[3]


def start_again_with_faults(scratch: Path) -> None:
    """Replace this process by the same one with the library, unless it has it."""
    if "LD_PRELOAD" in os.environ:
        return
    library = scratch / "faults.so"
    source = Path(__file__).with_name("faults.c")
    scratch.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    variables = {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    os.execve(
        sys.executable, [sys.executable, "-m", "benchmarks.durability", *sys.argv[1:]], os.environ | variables
    )
