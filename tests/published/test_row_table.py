"""Parquet read a row at a time: every row is found where it lies, and damage has a name."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest
from document_sets import IMAGE, cell, pa, write_table
from hypothesis import given
from hypothesis import strategies as st

from vrag.cases.rows import RowReader, Spot, table_rows
from vrag.errors import CaseError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("image", IMAGE), ("name", pa.string())])
COUNT = 11


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{"id": at, "image": cell(b"%d" % at), "name": f"n{at}"} for at in range(COUNT)]
    return write_table(tmp_path_factory.mktemp("table") / "a.parquet", rows, SCHEMA, group=4)


def test_rows_come_with_their_places_and_the_columns_asked_for(table: Path) -> None:
    found = list(table_rows([table, table], ["id"], ["name", "unknown"]))

    assert [row for _, row in found] == [{"id": at, "name": f"n{at}"} for at in range(COUNT)] * 2
    assert [spot for spot, _ in found[:5]] == [Spot(table, at // 4, at % 4) for at in range(5)]
    assert next(iter(table_rows([table], ["id"], None)))[1].keys() == {"id", "image", "name"}


@given(wanted=st.lists(st.integers(0, COUNT - 1), max_size=12))
def test_any_order_of_rows_can_be_read(table: Path, wanted: list[int]) -> None:
    spots = [spot for spot, _ in table_rows([table], ["id"])]
    reader = RowReader(["image"], ["id"])

    assert [reader.read(spots[at])["id"] for at in wanted] == wanted


def test_rows_in_order_are_read_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RowReader(["id"])
    opened: list[Spot] = []
    batches = reader._batches  # pyright: ignore[reportPrivateUsage]

    def counted(spot: Spot) -> object:
        opened.append(spot)
        return batches(spot)

    monkeypatch.setattr(reader, "_batches", counted)

    for spot, _ in table_rows([table], ["id"]):
        reader.read(spot)

    assert [spot.group for spot in opened] == [0, 1, 2]


def test_threads_do_not_take_rows_from_one_another(table: Path) -> None:
    reader, wrong = RowReader(["id"]), list[int]()
    places = [(at, spot) for at, (spot, _) in enumerate(table_rows([table], ["id"]))]

    def work(seed: int) -> None:
        for at, spot in random.Random(seed).sample(places, COUNT):
            if reader.read(spot)["id"] != at:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


@pytest.mark.parametrize("cut", [0, 3, 100, 400, -5])
def test_a_file_that_is_cut_short_is_damaged(table: Path, tmp_path: Path, cut: int) -> None:
    (tmp_path / "cut.parquet").write_bytes(table.read_bytes()[:cut])

    with pytest.raises(CaseError, match=r"cut\.parquet is not a parquet file, or damaged") as caught:
        list(table_rows([tmp_path / "cut.parquet"], ["id"]))
    assert "again" in caught.value.hint


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_byte_that_is_wrong_is_read_or_damage(
    table: Path, tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    data = bytearray(table.read_bytes())
    data[at % len(data)] = byte
    path = tmp_path_factory.mktemp("wrong") / "wrong.parquet"
    path.write_bytes(data)
    reader = RowReader(["image"])

    try:
        for spot, _ in table_rows([path], ["id"], ["name"]):
            reader.read(spot)
    except CaseError as error:
        assert "wrong.parquet" in error.message  # noqa: PT017 - most bytes do no harm


def test_missing_files_columns_and_rows_are_named(table: Path, tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"none\.parquet cannot be read: No such file"):
        list(table_rows([tmp_path / "none.parquet"], ["id"]))
    with pytest.raises(CaseError, match="no column 'query'; its columns: id, image, name"):
        list(table_rows([table], ["id", "query"]))
    with pytest.raises(CaseError, match="no column 'page_1'"):
        RowReader(["page_1"]).read(Spot(table, 0, 0))
    with pytest.raises(CaseError, match="ends before row 5 of its row group 1"):
        RowReader(["id"]).read(Spot(table, 0, 4))


def test_text_that_is_no_utf8_is_damage(tmp_path: Path) -> None:
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), pa.py_buffer(b"\xff\xfe")]
    )
    pq_table = pa.Table.from_arrays([text], ["id"])
    from document_sets import parquet

    parquet.write_table(pq_table, tmp_path / "a.parquet")

    with pytest.raises(CaseError, match="damaged"):
        list(table_rows([tmp_path / "a.parquet"], ["id"]))
