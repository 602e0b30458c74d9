"""Checksums of rows and of the files that rows name: CRC-32, which changes with every single bit.

A row has one checksum for each of its *parts*, the columns that are read together, in the column `checksums`.
The key of the row is part of each, so that no part is taken for that of another row. Numbers are compared by
their bytes, and every cell counts with its length. 0 means that a checksum is not known.

Rows that an earlier version of vrag wrote have no checksums: they are read without a check.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

ArrowArray: TypeAlias = Any
"""A `pyarrow.Array`, which has no types."""
ArrowTable: TypeAlias = Any
"""A `pyarrow.Table`."""

CHECKSUMS = "checksums"
"""The column of the checksums of a row: a list of 32-bit numbers, one for each `RowPart` of the table."""
_NULL = b"\xff\xff\xff\xff"
"""The length of a cell without a value, as it enters a checksum."""
_BLOCK_BYTES = 1 << 20
_MAX_FLIP_BYTES = 64 << 20
"""Bytes in which a flipped bit is looked for: some seconds."""


def _shifted(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0xEDB88320 if byte & 1 else 0)
    return byte


_TABLE = [_shifted(byte) for byte in range(256)]
"""The table of CRC-32 by bytes."""
_INDEX = {entry >> 24: byte for byte, entry in enumerate(_TABLE)}
"""The number of the entry by its highest byte, which no other entry has."""


class RowPart(NamedTuple):
    """Columns of a table that share a checksum."""

    title: str
    """The part, for people."""
    columns: tuple[str, ...]
    """Empty for the bytes of a file, which are not in the table."""
    column: str = CHECKSUMS
    """The column of the checksum."""
    place: int = 0
    """The place of the checksum in a list."""
    is_small: bool = True
    """True if the other columns are read as well where one of them is, so that it can be checked."""


class RowDamage(NamedTuple):
    """A part of a row whose checksum is another than was stored."""

    row: int
    part: RowPart


def checksum(data: bytes) -> int:
    """Compute the checksum of bytes: never 0."""
    return zlib.crc32(data) or 1


def file_checksum(file: BinaryIO) -> int:
    """Compute the checksum of an open file from its position to its end."""
    total = 0
    while block := file.read(_BLOCK_BYTES):
        total = zlib.crc32(block, total)
    return total or 1


def flip_back(data: bytes, expected: int) -> bytes | None:
    """Return bytes with the one bit flipped back that makes them have this checksum; None if none does.

    A flipped bit changes a CRC by a value that depends on its distance from the end alone: the difference is
    taken back byte by byte, until it is that of a bit in the last byte.
    """
    if len(data) > _MAX_FLIP_BYTES:
        return None
    difference, last_bits = zlib.crc32(data) ^ expected, {_TABLE[1 << bit]: 1 << bit for bit in range(8)}
    for at in reversed(range(len(data))):
        if difference in last_bits:
            flipped = data[:at] + bytes([data[at] ^ last_bits[difference]]) + data[at + 1 :]
            return flipped if checksum(flipped) == expected else None
        index = _INDEX[difference >> 24]
        difference = ((difference ^ _TABLE[index]) << 8 | index) & 0xFFFFFFFF
    return None


def with_parts(columns: Sequence[str], parts: Sequence[RowPart], stored: Sequence[str]) -> list[str]:
    """Add to columns that are read those with which they can be checked, as far as they are `stored`."""
    wanted = dict.fromkeys(columns)
    for part in parts:
        if part.column in stored and not wanted.keys().isdisjoint(part.columns[1:]):
            if part.is_small:
                wanted |= dict.fromkeys(part.columns)
            if wanted.keys() >= set(part.columns):
                wanted[part.column] = None
    return list(wanted)


def part_checksums(table: ArrowTable, columns: Sequence[str]) -> NDArray[np.uint32]:
    """Compute the checksum of these columns of each row, (rows,)."""
    totals: list[int] = []
    for batch in table.select(list(columns)).to_batches():
        sums = [0] * batch.num_rows
        for column in batch.columns:
            sums = [
                zlib.crc32(cell, zlib.crc32(length, total))
                for total, (length, cell) in zip(sums, _cells(column), strict=True)
            ]
        totals += sums
    return np.maximum(np.asarray(totals, np.uint32), 1)


def find_damage(table: ArrowTable, parts: Sequence[RowPart]) -> list[RowDamage]:
    """Compare the parts that a table has with their checksums; those without a checksum count as sound."""
    names = set(table.column_names)
    found: list[RowDamage] = []
    for part in parts:
        if part.columns and names.issuperset((*part.columns, part.column)):
            stored = stored_checksums(table, part)
            differs = (stored != 0) & (stored != part_checksums(table, part.columns))
            found += [RowDamage(int(row), part) for row in np.flatnonzero(differs)]
    return found


def stored_checksums(table: ArrowTable, part: RowPart) -> NDArray[np.uint32]:
    """Return the stored checksum of a part of each row, (rows,): 0 where there is none."""
    if not table.num_rows:
        return np.zeros(0, np.uint32)
    column = table[part.column].combine_chunks()
    if not hasattr(column.type, "list_size"):
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.uint32)
    numbers = np.asarray(column.flatten().fill_null(0).to_numpy(zero_copy_only=False), np.uint32)
    values = np.zeros(len(column), np.uint32)
    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    values[present] = numbers.reshape(-1, column.type.list_size)[:, part.place]
    return values


def _cells(array: ArrowArray) -> Iterator[tuple[bytes, bytes | memoryview]]:
    """Yield the length of each cell as bytes, and the cell."""
    data, starts, ends = _spans(array)
    lengths = (ends - starts).astype("<u4").tobytes()
    view = memoryview(b"" if data is None else data).cast("B")
    present = None
    if array.null_count:
        present = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_).tolist()
    holes = _nulls_within(array, starts, ends)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if (present is not None and not present[row]) or (holes is not None and holes[row]):
            yield _NULL, b""
        else:
            yield lengths[4 * row : 4 * row + 4], view[start:end]


def _spans(array: ArrowArray) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
    """Return a buffer, and where in it the bytes of each cell begin and end, (cells,)."""
    kind = str(array.type)
    if kind in {"string", "binary", "large_string", "large_binary"}:
        _, offsets, data = array.buffers()
        ends = _offsets(array, offsets, large=kind.startswith("large"))
        return data, ends[:-1], ends[1:]
    if kind.startswith(("list", "large_list")):
        ends = _offsets(array, array.buffers()[1], large=kind.startswith("large"))
        data, begin, width = _flat(array.values)
        return data, begin + ends[:-1] * width, begin + ends[1:] * width
    data, begin, width = _flat(array)
    starts = begin + np.arange(len(array), dtype=np.int64) * width
    return data, starts, starts + width


def _offsets(array: ArrowArray, buffer: Any, *, large: bool) -> NDArray[np.int64]:  # noqa: ANN401
    if buffer is None or not len(array):
        return np.zeros(len(array) + 1, np.int64)
    number = np.int64 if large else np.int32
    values = np.frombuffer(buffer, number, len(array) + 1, array.offset * np.dtype(number).itemsize)
    return values.astype(np.int64)


def _flat(array: ArrowArray) -> tuple[Any, int, int]:
    """Return the buffer of an array of equally long cells, where its first begins, and the bytes of each."""
    if hasattr(array.type, "list_size"):
        data, begin, width = _flat(array.values)
        width *= array.type.list_size
        return data, begin + array.offset * width, width
    width = array.type.bit_width // 8
    return array.buffers()[1], array.offset * width, width


def _nulls_within(
    array: ArrowArray, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Return in which cells of a list a number is missing, (cells,); None if in none, as it was written."""
    numbers = array
    while hasattr(numbers, "values"):
        numbers = numbers.values
    if numbers is array or not numbers.null_count:
        return None
    width = numbers.type.bit_width // 8
    missing = np.asarray(numbers.is_null().to_numpy(zero_copy_only=False), np.int64)
    before = np.concatenate(([0], np.cumsum(missing)))
    first, last = ((place // width - numbers.offset).clip(0, len(missing)) for place in (starts, ends))
    return before[last] > before[first]
