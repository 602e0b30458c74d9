from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.index.integrity.checksums import RowPart, checksum, find_damage, flip_back, part_checksums
from vrag.index.integrity.sealed_json import Seal, check_seal, seal_json
from vrag.index.schema import arrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

PART = RowPart("all", ("id", "text", "numbers", "vector"))


def rows(values: list[tuple[str, str | None, list[int] | None, list[float]]]) -> Any:  # noqa: ANN401
    pa = arrow()
    ids, texts, numbers, vectors = zip(*values, strict=True)
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "text": pa.array(texts, pa.string()),
            "numbers": pa.array(numbers, pa.list_(pa.int32())),
            "vector": pa.array(vectors, pa.list_(pa.float32(), 2)),
        }
    )


ROW = st.tuples(
    st.text(max_size=5),
    st.none() | st.text(max_size=8),
    st.none() | st.lists(st.integers(-9, 9), max_size=4),
    st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2),
)


@given(values=st.lists(ROW, min_size=1, max_size=6), data=st.data())
def test_a_row_has_the_same_checksum_wherever_it_is_and_another_when_it_changes(
    values: list[tuple[str, str | None, list[int] | None, list[float]]], data: st.DataObject
) -> None:
    table = rows(values)
    sums = part_checksums(table, PART.columns)
    start = data.draw(st.integers(0, len(values) - 1))
    assert (part_checksums(table.slice(start), PART.columns) == sums[start:]).all()
    assert sums.all(), "0 stands for none"
    for number, (id, text, numbers, vector) in enumerate(values):
        for other in (
            (id + "x", text, numbers, vector),
            (id, None if text is not None else "", numbers, vector),
            (id, text, [*(numbers or []), 0], vector),
            (id, text, numbers, [vector[0], -vector[1] if vector[1] else 1.0]),
        ):
            assert part_checksums(rows([other]), PART.columns)[0] != sums[number]


def test_letters_that_move_from_one_cell_to_the_next_are_noticed() -> None:
    one, two = (
        part_checksums(rows([(a, b, [], [0, 0])]), PART.columns) for a, b in (("ab", "c"), ("a", "bc"))
    )
    assert one[0] != two[0]


def test_damage_names_the_row_and_rows_without_checksums_are_sound() -> None:
    pa = arrow()
    table = rows([("a", "one", [], [0, 0]), ("b", "two", [], [0, 0]), ("c", "three", [], [0, 0])])
    sums: NDArray[np.uint32] = part_checksums(table, PART.columns)
    sums[1] ^= 4
    kind = pa.list_(pa.uint32(), 1)
    stored = pa.array([[int(sums[0])], [int(sums[1])], None], kind)
    assert [damage.row for damage in find_damage(table.append_column("checksums", stored), [PART])] == [1]


@given(data=st.binary(min_size=1, max_size=300), choice=st.integers(0))
def test_one_flipped_bit_is_flipped_back(data: bytes, choice: int) -> None:
    flipped = bytearray(data)
    flipped[choice // 8 % len(data)] ^= 1 << choice % 8
    assert checksum(bytes(flipped)) != checksum(data)
    assert flip_back(bytes(flipped), checksum(data)) == data


def test_more_than_one_flipped_bit_is_left_alone() -> None:
    assert flip_back(b"abXX", zlib.crc32(b"abcd")) is None


@pytest.mark.parametrize("bit", range(0, 8 * 62, 3))
def test_a_flipped_bit_in_a_sealed_file_shows(bit: int) -> None:
    data = bytearray(seal_json({"schema": 2, "name": "ä"}))
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    assert check_seal(bytes(data), ("schema", "name")) is Seal.BROKEN


def test_a_file_of_an_earlier_version_has_no_seal() -> None:
    assert check_seal(b'{"schema": 2}') is Seal.MISSING
    assert check_seal(seal_json({"schema": 2})) is Seal.SOUND
