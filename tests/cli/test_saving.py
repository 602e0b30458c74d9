"""Files that commands write: whole or not at all, and what a kill left is taken away by the next."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NoReturn

import pytest

from vrag.cli.terminal import files as output
from vrag.cli.terminal.files import write_file
from vrag.errors import RunError


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    for text in (b"one", b"two"):
        assert write_file(str(target), text) == {"file": str(target), "bytes": 3}
        assert target.read_bytes() == text
    assert names(tmp_path) == {"report.html"}


@pytest.mark.parametrize("name", ["a" * 250, "\u8239" * 83, "[*]?.html"])
def test_any_name_that_the_disk_takes_can_be_written(name: str, tmp_path: Path) -> None:
    write_file(str(tmp_path / name), b"one")
    assert names(tmp_path) == {name}


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_breaks_off_leaves_the_old_file_and_no_part(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    write_file(str(target), b"old")

    def refuse(*_: object) -> NoReturn:
        raise fault

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(RunError if isinstance(fault, OSError) else KeyboardInterrupt):
        write_file(str(target), b"new")
    assert names(tmp_path) == {"report.html"}
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["report.html", "[or]*.html"])
def test_what_a_kill_left_is_taken_away_and_nothing_else(name: str, tmp_path: Path) -> None:
    killed = f".{name}.0123abcd{output.UNFINISHED}"
    others = {f".{name}.20261122", f".other.html.0123abcd{output.UNFINISHED}", f"{name}.part"}
    young = f".{name}.89abcdef{output.UNFINISHED}"
    for rest in (killed, young, *others):
        (tmp_path / rest).write_bytes(b"half")
    before = time.time() - 2 * output.STALE_SECONDS
    for rest in (killed, *others):
        os.utime(tmp_path / rest, (before, before))
    write_file(str(tmp_path / name), b"whole")
    assert names(tmp_path) == {name, young, *others}


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in ("missing/report.html", "file/report.html", ".", "n" * 300):
        with pytest.raises(RunError, match="cannot be written") as told:
            write_file(str(tmp_path / place), b"one")
        assert told.value.hint
    assert names(tmp_path) == {"file"}
