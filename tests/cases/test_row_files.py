"""Files of rows, whatever the data set: lines, pipes, parquet, and their ways to be broken."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from published_rows import SLIDEVQA

from vrag.datasets.registry import open_cases
from vrag.errors import CaseError

if TYPE_CHECKING:
    pass

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")


def test_json_lines_are_read_also_where_the_file_is_called_json(tmp_path: Path) -> None:
    lines = "".join(json.dumps(SLIDEVQA | {"qa_id": number}) + "\n\n" for number in range(3))
    for name in ("a.jsonl", "a.json"):
        (tmp_path / name).write_text(lines, encoding="utf-8")
        assert [case.uid for case in open_cases(tmp_path / name)[1]] == ["0", "1", "2"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no files for descriptors here")
def test_json_lines_are_read_out_of_a_pipe_which_gives_them_once() -> None:
    out, into = os.pipe()
    with os.fdopen(into, "w") as pipe:
        pipe.writelines(json.dumps(SLIDEVQA | {"qa_id": number}) + "\n" for number in range(3))
    try:
        assert [case.uid for case in open_cases(Path(f"/dev/fd/{out}"))[1]] == ["0", "1", "2"]
    finally:
        os.close(out)


def test_a_broken_line_is_named_and_what_stands_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(SLIDEVQA) + "\n{\n", encoding="utf-8")
    cases = open_cases(tmp_path / "a.jsonl")[1]

    assert next(cases).uid == "12"
    with pytest.raises(CaseError, match="line 2"):
        next(cases)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b"", "not JSON"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b"[" + b"9" * 5000 + b"]", "not JSON"),
        ("a.json", b'{"examples": 1}', "their columns: examples"),
        ("a.json", b"\xff\xfe", "UTF-8"),
        ("a.json", b"[" * 100_000, "not JSON"),
        ("a.json", b"[]", "no questions"),
        ("a.json", b"3", r"a\.json does not hold a list of cases"),
        ("a.json", b"[3]", r"a\.json, row 1 is not an object"),
        ("a.json", b'[{"a": 1}]', "their columns: a"),
        ("a.jsonl", b"", "no questions"),
        ("a.jsonl", b"\xff", "UTF-8"),
        ("a.parquet", b"PAR1 no", "not a parquet"),
        ("a.parquet", b"", "not a parquet"),
        ("a.parquet", b"PAR1" + bytes(500) + b"PAR1", "not a parquet file, or damaged: .*[^ .]\\.$"),
        ("a.csv", b"a,b", r"\.csv, not in"),
        ("a", b"", "not JSON"),
    ],
)
def test_a_file_that_is_no_data_set_is_refused(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CaseError, match=why):
        open_cases(tmp_path / name)


@pytest.mark.parametrize("name", ["missing.json", "missing.parquet", "folder.json"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.json").mkdir()

    with pytest.raises(CaseError, match="cannot be read"):
        open_cases(tmp_path / name)


def test_a_damaged_parquet_is_refused_wherever_it_breaks(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist([SLIDEVQA] * 50), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for at in range(4, len(whole) - 8, 97):
        (tmp_path / "a.parquet").write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
        try:
            list(open_cases(tmp_path / "a.parquet")[1])
        except CaseError:
            continue
