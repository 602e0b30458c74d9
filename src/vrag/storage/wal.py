"""The check of a write-ahead log, which SQLite's page checksums do not cover.

SQLite ends its recovery at the first frame whose checksum is wrong, since that is what a loss of power in
the middle of a commit leaves. A bit that flips later looks the same to it: every commit from there on would
be gone without a word. Here the two are told apart, before SQLite opens the file:

- The index of the log (`-shm`) is updated once a commit is on the disk. If it says that more frames are
  committed than can be read, the log is damaged. It is believed only within one run of the operating
  system: after a loss of power it may be older than the log, or newer than a log that was emptied.
- A frame is written only when all earlier commits are on the disk. If a frame that can be read follows a
  commit that cannot, the log is damaged.

Damage to the last commit of a log without an index cannot be told from a commit that was interrupted.
Format: https://sqlite.org/walformat.html
"""

from __future__ import annotations

import struct
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

_HEADER = struct.Struct(">IIIIIIII")
"""Magic number, version, page size, checkpoint, two salts, two checksums."""
_FRAME = struct.Struct(">IIIIII")
"""Page number, pages after a commit or 0, two salts, two checksums."""
_MAGIC = 0x377F0682
"""Of a log whose checksums are over little-endian words; big-endian ones add 1."""
_INDEX = struct.Struct("=IIIBBHIIIIIIII")
"""Version, unused, change, whether initialised, byte order, page size, frames, pages, checksum of the last
frame, salts, checksum of this header."""
_INDEX_WORDS = 10
"""Words of the index header that its checksum covers."""
_DATABASE_HEADER_BYTES = 100
_RETRY_SECONDS = 0.01
_ATTEMPTS = 5
"""Reads of a log that is being written, until index and log belong together."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The part of a log that is committed, as its index says."""

    frames: int
    salts: bytes


def describe_wal_damage(database: Path) -> str:
    """Return how the log of a database is damaged; an empty string if it is whole.

    The log may be written meanwhile. Raises `OSError` if it cannot be read.
    """
    path = database.with_name(f"{database.name}-wal")
    index_path = database.with_name(f"{database.name}-shm")
    for _ in range(_ATTEMPTS):
        index = _read_index(index_path)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        if _read_index(index_path) == index:
            return _describe(data, index)
    return ""  # a writer is at work, and SQLite reads by its index


def describe_cut(database: Path) -> str:
    """Return how a database is cut off: pages that its header counts are neither in it nor in its log.

    SQLite takes what is missing for zeros, without comparing a checksum. An interrupted checkpoint leaves
    such a file too, with a log that has the pages. Raises `OSError` if it cannot be read.
    """
    missing = range(0)
    for attempt in range(_ATTEMPTS):
        if attempt:  # a writer may have moved the log to it meanwhile
            time.sleep(_RETRY_SECONDS)
        missing = _missing_pages(database)
        if not missing or set(missing) <= _pages_of_log(database):
            return ""
    return f"{len(missing):,} pages are missing at its end"


def count_missing_bytes(database: Path) -> int:
    """Return how many bytes are missing at the end of a database by its header, whatever its log has."""
    size, page_size, pages = _read_size(database)
    return max(pages * page_size - size, 0)


def _missing_pages(database: Path) -> range:
    """Return the numbers of the pages that are not, or not as a whole, in the file."""
    size, page_size, pages = _read_size(database)
    return range(size // page_size + 1, pages + 1) if page_size else range(0)


def _read_size(database: Path) -> tuple[int, int, int]:
    """Return the bytes of a database, the bytes of a page, and the number of pages by its header.

    The last is 0 where the header does not say.
    """
    with database.open("rb") as file:
        head = file.read(_DATABASE_HEADER_BYTES)
        size = file.seek(0, 2)
    if len(head) < _DATABASE_HEADER_BYTES:
        return size, 0, 0
    page_size = int.from_bytes(head[16:18]) if head[16:18] != b"\0\1" else 1 << 16
    is_counted = head[24:28] == head[92:96]  # the number of changes for which the number of pages holds
    return size, page_size, int.from_bytes(head[28:32]) if is_counted else 0


def _pages_of_log(database: Path) -> set[int]:
    """Return the numbers of the pages in a log, as far as that can be read."""
    try:
        data = database.with_name(f"{database.name}-wal").read_bytes()
    except FileNotFoundError:
        return set()
    header = _read_header(data)
    if header is None:
        return set()
    frames = _Frames(data, header)
    return set(frames.pages[: frames.valid].tolist())


def _describe(data: bytes, index: _Index | None) -> str:
    has_commits = index is not None and index.frames > 0
    if index is not None and has_commits and len(data) < _HEADER.size:
        return f"all {index.frames:,} pages of it are gone"
    header = _read_header(data)
    if header is None:
        return "its header is damaged" if has_commits or len(data) > _HEADER.size else ""
    if len(data) == _HEADER.size and not has_commits:
        return ""
    frames = _Frames(data, header)
    if index is not None and index.salts == header.salts and frames.valid < index.frames:
        return f"page {frames.valid + 1:,} of {index.frames:,} that were committed cannot be read"
    if frames.has_lost_commit():
        return f"page {frames.valid + 1:,} cannot be read, and later ones can"
    return ""


class _Header(NamedTuple):
    """The header of a log."""

    page_size: int
    order: str
    """Byte order of the words over which checksums are computed."""
    salts: bytes
    sums: tuple[int, int]
    """Its own checksum, with which those of the frames begin."""


def _read_header(data: bytes) -> _Header | None:
    """Read the header of a log; None if it is missing, cut off or damaged."""
    if len(data) < _HEADER.size:
        return None
    magic, _, page_size, *_, first, second = _HEADER.unpack_from(data)
    order = ">" if magic & 1 else "<"
    is_header = magic & ~1 == _MAGIC and page_size & (page_size - 1) == 0 and page_size >= 512
    if not is_header or _sum_header(data[:24], order) != (first, second):
        return None
    return _Header(page_size, order, data[16:24], (first, second))


class _Frames:
    """The frames of a log, and how many from the first one can be read."""

    def __init__(self, data: bytes, header: _Header) -> None:
        import numpy as np  # slow import, and most logs are empty

        size = _FRAME.size + header.page_size
        count = (len(data) - _HEADER.size) // size
        raw = np.frombuffer(data, np.uint8, count * size, _HEADER.size).reshape(count, size)
        heads = raw[:, : _FRAME.size]
        covered = np.concatenate((heads[:, :8], raw[:, _FRAME.size :]), axis=1)
        words = np.ascontiguousarray(covered).view(f"{header.order}u4").astype(np.uint32)
        stored = np.ascontiguousarray(heads[:, 16:24]).view(">u4").astype(np.uint32)
        before = np.concatenate((np.asarray([header.sums], np.uint32), stored[:-1])) if count else stored
        computed = continue_checksums(words, before)
        is_ours = (heads[:, 8:16] == np.frombuffer(header.salts, np.uint8)).all(axis=1)
        self._whole: NDArray[np.bool_] = is_ours & (computed == stored).all(axis=1)
        """(frames,) true where a frame has the checksum that follows from the one before it."""
        self._commits = np.ascontiguousarray(heads[:, 4:8]).view(">u4")[:, 0] != 0
        """(frames,) true where a frame ends a commit."""
        self.pages = np.ascontiguousarray(heads[:, :4]).view(">u4")[:, 0]
        """(frames,) the numbers of their pages."""
        broken = np.flatnonzero(~self._whole)
        self.valid = int(broken[0]) if broken.size else count

    def has_lost_commit(self) -> bool:
        """Return whether a frame that can be read follows a commit that cannot, or of which a part cannot."""
        (whole,) = self._whole[self.valid :].nonzero()
        if not whole.size:
            return False
        return bool(self._commits[self.valid : self.valid + int(whole[-1])].any())


def _read_index(path: Path) -> _Index | None:
    """Read the index of a log; None if there is none to believe."""
    try:
        if path.stat().st_mtime < _boot_time():
            return None
        with path.open("rb") as file:
            first, second = file.read(_INDEX.size), file.read(_INDEX.size)
    except OSError:
        return None
    if len(second) < _INDEX.size or first != second:
        return None
    _, _, _, is_initialised, *_, checksum_1, checksum_2 = _INDEX.unpack(first)
    if not is_initialised or _sum_header(first[: _INDEX_WORDS * 4], "=") != (checksum_1, checksum_2):
        return None
    return _Index(_INDEX.unpack(first)[6], first[32:40])


def _boot_time() -> float:
    """Return when the operating system started, in seconds of the epoch; now where it does not say."""
    if sys.platform == "linux":
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time()


def _sum_header(data: bytes, order: str) -> tuple[int, int]:
    """Return both sums of the checksum of a header, whose words have this byte order."""
    first = second = 0
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


def continue_checksums(words: NDArray[np.uint32], before: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return both sums of checksums, (n, 2), after an even number of words, (n, words); modulo 2^32.

    `before` are the sums before them, (n, 2).
    """
    count = words.shape[1]
    return before @ _carry(count) + words @ _weights(count)


@lru_cache(maxsize=8)
def _weights(words: int) -> NDArray[np.uint32]:
    """Return the share of each word in both sums of a checksum modulo 2^32, (words, 2).

    SQLite adds a pair (x, y) to the sums (a, b) as a' = a + x + b, b' = b + y + a'. That is linear: a word's
    share is what the pairs behind it make of its own.
    """
    import numpy as np

    shares = np.empty((words, 2), np.uint32)
    carried = [1, 0, 0, 1]  # of a and b in each of the two sums, behind the last pair
    for pair in reversed(range(words // 2)):
        a_a, a_b, b_a, b_b = carried
        shares[2 * pair] = (a_a + b_a) & 0xFFFFFFFF, (a_b + b_b) & 0xFFFFFFFF
        shares[2 * pair + 1] = b_a, b_b
        carried = [each & 0xFFFFFFFF for each in (a_a + b_a, a_b + b_b, a_a + 2 * b_a, a_b + 2 * b_b)]
    return shares


@lru_cache(maxsize=8)
def _carry(words: int) -> NDArray[np.uint32]:
    """Return the share of the sums before so many words in those after them, (2, 2)."""
    import numpy as np

    carried = np.eye(2, dtype=np.uint32)
    step = np.asarray([[1, 1], [1, 2]], np.uint32)
    for _ in range(words // 2):
        carried = step @ carried
    return carried
