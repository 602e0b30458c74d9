"""JSON lines that were packed by gzip: read as they are, and bounded."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vrag.cases import rows as row_files
from vrag.cases.rows import read_rows
from vrag.errors import CaseError

if TYPE_CHECKING:
    from pathlib import Path

LINES = b"".join(json.dumps({"uid": n, "query": "Wer? \u00fc"}).encode() + b"\n\n" for n in range(3))


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.NDJSON.GZ"])
def test_packed_lines_read_as_plain_ones(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / name).write_bytes(gzip.compress(b"\xef\xbb\xbf" + LINES))

    assert [*read_rows(tmp_path / name)] == [*read_rows(tmp_path / "a.jsonl")]


@pytest.mark.parametrize("name", ["a.gz", "a.json.gz", "a.tar.gz"])
def test_what_else_is_packed_is_of_another_kind(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(LINES))

    with pytest.raises(CaseError, match=r"ends in \.gz"):
        list(read_rows(tmp_path / name))


def test_a_line_that_would_fill_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"1" * 200))
    monkeypatch.setattr(row_files, "MAX_LINE_CHARACTERS", 100)

    with pytest.raises(CaseError, match="a line of more than 100"):
        list(read_rows(tmp_path / "a.jsonl.gz"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, 200), byte=st.integers(0, 255), end=st.integers(0, 200))
def test_a_damaged_file_gives_rows_that_were_in_it_or_an_error(
    tmp_path: Path, at: int, byte: int, end: int
) -> None:
    data = bytearray(gzip.compress(LINES, mtime=0))
    data[at % len(data)] = byte
    (tmp_path / "a.jsonl.gz").write_bytes(data[:end] if end < len(data) else data)

    found: list[object] = []
    try:
        found.extend(read_rows(tmp_path / "a.jsonl.gz"))
    except CaseError as error:
        assert "a.jsonl.gz" in error.message  # noqa: PT017 - either will do
    else:
        assert found in ([], [json.loads(line) for line in LINES.split(b"\n\n")[:-1]])
