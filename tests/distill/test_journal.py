"""Lines are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from vrag.distill.journal import Journal
from vrag.errors import SampleError


class Line(BaseModel):
    text: str


def filled(path: Path, *texts: str) -> Journal[Line]:
    journal = Journal(path, Line)
    with journal.open() as stream:
        for text in texts:
            journal.append(stream, Line(text=text))
    return journal


def test_a_torn_last_line_is_no_entry_at_every_byte_and_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    journal = filled(path, "one", "two – …", "three")
    whole = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == 10]
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        expected = sum(end <= length for end in ends)
        assert len(journal.read()) == expected
        with journal.open() as stream:
            journal.append(stream, Line(text="new"))
        assert [line.text for line in journal.read()] == [*["one", "two – …", "three"][:expected], "new"]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    journal = filled(path, "one")
    path.write_bytes(b"what\n" + path.read_bytes())
    with pytest.raises(SampleError, match=r"Line 1 of .* is damaged"):
        journal.read()


def test_a_full_disk_leaves_nothing_of_the_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = filled(tmp_path / "lines.jsonl", "one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with journal.open() as stream:
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(SampleError, match="No space"):
            journal.append(stream, Line(text="two"))
    assert [line.text for line in journal.read()] == ["one"]


def test_rewriting_replaces_everything_at_once(tmp_path: Path) -> None:
    journal = filled(tmp_path / "lines.jsonl", "one", "two")
    journal.rewrite([Line(text="two")])
    assert [line.text for line in journal.read()] == ["two"]
    assert [path.name for path in tmp_path.iterdir()] == ["lines.jsonl"]
