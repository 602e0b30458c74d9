"""Lines are whole or not there, and files old or new, whenever their writer dies."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.atomic_io import (
    Journal,
    atomic_file,
    bind,
    one_writer,
    read_lines,
    replace_directory,
    write_lines,
    write_whole,
)
from vrag.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable

LINES = st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=5)


def filled(path: Path, *lines: bytes) -> Path:
    with Journal(path) as journal:
        for line in lines:
            journal.append(line)
    return path


def test_an_entry_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for durable in (True, False):
        with Journal(path, durable=durable) as journal:
            before = read_lines(path)
            journal.append("two – …".encode())
            assert read_lines(path) == [*before, "two – …".encode()]


def test_a_torn_last_line_is_no_entry_at_every_byte_and_is_cut_off(tmp_path: Path) -> None:
    lines = [b"one", "two – …".encode(), b"", b"three"]
    path = filled(tmp_path / "lines", *lines)
    whole = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == 10]
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        expected = lines[: sum(end <= length for end in ends)]
        assert read_lines(path) == expected
        assert read_lines(filled(path, b"new")) == [*expected, b"new"]


@given(LINES, st.binary(max_size=40), st.integers(1, 8))
def test_whatever_the_torn_end_is_every_whole_line_stays(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: bytes, block: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + torn.replace(b"\n", b""))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("vrag.atomic_io._BLOCK", block)
        filled(path, b"new")
    assert read_lines(path) == [*lines, b"new"]
    assert path.read_bytes().endswith(b"\n")


@given(LINES, LINES)
def test_what_replaces_them_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: list[bytes]
) -> None:
    path = filled(tmp_path_factory.mktemp("whole") / "lines", *before)
    write_lines(path, after)
    assert read_lines(path) == after
    assert [child.name for child in path.parent.iterdir()] == ["lines"]


def test_a_file_that_is_not_there_has_no_entries_where_that_is_said(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none", missing_ok=True) == []
    with pytest.raises(FileNotFoundError):
        read_lines(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        Journal(tmp_path / "no" / "folder")


def test_an_entry_of_several_lines_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "lines") as journal, pytest.raises(ValueError, match="one line"):
        journal.append(b"one\ntwo")
    assert read_lines(tmp_path / "lines") == []


class Died(BaseException):
    """The process is gone: nothing is cleaned up."""


class Doom:
    """Lets so many opens, writes, cuts, syncs and renames happen, and dies in the next; 0 for never."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.left = 0
        doom = self

        class Stream(io.FileIO):
            """A file of which a write that dies leaves a half."""

            def write(self, data: Any, /) -> int:  # noqa: ANN401 - bytes
                doom.step(lambda: super(Stream, self).write(data[: len(data) // 2]))
                return super().write(data)

            def truncate(self, size: int | None = None, /) -> int:
                doom.step()
                return super().truncate(size)

        def opened(path: Path, mode: str, **_: object) -> Stream:
            doom.step()
            return Stream(path, mode.replace("b", ""))

        patched.setattr(Path, "open", opened)
        patched.setattr("vrag.atomic_io.open", opened, raising=False)
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patched.setattr(owner, name, self._counted(getattr(owner, name)))

    def step(self, half: Callable[[], object] = lambda: None) -> None:
        """One more; what a death leaves of it is `half`."""
        self.left -= 1
        if self.left == 0:
            half()
        if self.left <= 0 and self.left > -1000:
            raise Died

    def _counted(self, act: Callable[..., object]) -> Callable[..., object]:
        def do(*arguments: object, **named: object) -> object:
            self.step()
            return act(*arguments, **named)

        return do


def at_every_moment(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], check: Callable[[], None]
) -> int:
    """Acts and dies, one step later each time, until it comes to its end; how many times it died."""
    for moment in range(1, 1000):
        with monkeypatch.context() as patched:
            doom = Doom(patched)
            doom.left = moment
            with suppress(Died):
                act()
            over = doom.left > 0
            doom.left = -1000
        check()
        if over:
            return moment - 1
    raise AssertionError


def test_dying_at_any_write_loses_no_entry_that_was_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = filled(tmp_path / "lines", b"zero"), [b"zero"]

    def act() -> None:
        with path.open("r+b") as file:  # of one that died before
            file.seek(0, os.SEEK_END)
            file.write(b"to")
        with Journal(path) as journal:
            for _ in range(3):
                journal.append(line := b"entry %d" % len(told))
                told.append(line)

    def check() -> None:
        found = read_lines(path)
        assert [line for line in found if line in told] == told
        assert len(found) <= len(told) + 1  # one may be there before it is told of
        write_lines(path, told)

    assert at_every_moment(monkeypatch, act, check) > 10


def test_dying_at_any_write_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = set[bytes]()

    def check() -> None:
        seen.add(path.read_bytes())
        path.write_bytes(b"old")

    assert at_every_moment(monkeypatch, lambda: write_whole(path, b"new one"), check) > 4
    assert seen == {b"old", b"new one"}


def test_a_refused_file_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_a_refused_entry_leaves_nothing_and_the_next_one_follows_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "lines"
    with Journal(path) as journal:
        journal.append(b"one")
        for _ in range(2):
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", full)
                with pytest.raises(OSError, match="No space"):
                    journal.append(b"refused")
            assert path.read_bytes() == b"one\n"
        journal.append(b"two")
    assert path.read_bytes() == b"one\ntwo\n"


def test_what_cannot_be_taken_out_at_once_is_taken_out_before_the_next_entry(tmp_path: Path) -> None:
    class Sick(io.FileIO):
        sick = False

        def write(self, data: Any, /) -> int:  # noqa: ANN401 - bytes
            return super().write(data[:2] if self.sick else data)

        def truncate(self, size: int | None = None, /) -> int:
            if self.sick:
                raise OSError(errno.EIO, "It is sick")
            return super().truncate(size)

    def opened(*_: object, **__: object) -> Sick:
        return stream

    path, stream = tmp_path / "lines", Sick(tmp_path / "lines", "a+")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "open", opened)
        patched.setattr("vrag.atomic_io.open", opened, raising=False)
        journal = Journal(path)
    with journal:
        journal.append(b"one")
        stream.sick = True
        for reason in ("No space", "sick"):
            with pytest.raises(OSError, match=reason):
                journal.append(b"refused")
        assert path.read_bytes() == b"one\nre"
        stream.sick = False
        journal.append(b"two")
    assert read_lines(path) == [b"one", b"two"]


CHILD = """
import sys
from pathlib import Path
from vrag.atomic_io import replace_directory, Journal, read_lines
path = Path(sys.argv[1])
with Journal(path) as journal:
    for number in range(len(read_lines(path)), 100_000):
        journal.append(b"%d " % number * 2000)
        print(number, flush=True)
"""


@pytest.mark.smoke
@pytest.mark.slow
def test_a_writer_that_is_killed_loses_nothing_that_it_told_of(tmp_path: Path) -> None:
    path, told = tmp_path / "lines", -1
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE) as child:
            assert child.stdout
            for _ in range(9):
                told = int(child.stdout.readline())
            os.kill(child.pid, signal.SIGKILL)
    found = read_lines(path)
    assert found == [b"%d " % number * 2000 for number in range(len(found))]
    assert len(found) > told


def test_one_writes_and_the_lock_is_free_again(tmp_path: Path) -> None:
    lock, busy = tmp_path / "lock", RunError("Another one writes.")
    for _ in range(2):
        with one_writer(lock, busy), pytest.raises(RunError, match="Another one"), one_writer(lock, busy):
            pass
    with pytest.raises(OSError, match="file"), one_writer(filled(tmp_path / "file") / "lock", busy):
        pass


@pytest.mark.slow
def test_the_lock_of_another_writer_is_waited_for(tmp_path: Path) -> None:
    lock, announced = tmp_path / "lock", list[str]()
    code = (
        "import sys; from pathlib import Path; from vrag.atomic_io import one_writer\n"
        "with one_writer(Path(sys.argv[1]), ValueError()): print('held', flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", code, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        busy = one_writer(lock, lambda: RunError(f"waited {len(announced)}"), wait=0.1)
        with pytest.raises(RunError, match="waited 0"), busy:
            pass

        release = other.stdin.close

        def announce() -> None:
            announced.append("once")
            release()

        with one_writer(lock, RunError("never"), wait=60, on_wait=announce):
            assert announced == ["once"]


def test_what_a_folder_is_made_with_is_written_once_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    assert bind(path, {"model": "a", "boxes": (1, 2)}) == []
    before = path.read_bytes()
    assert bind(path, {"boxes": [1, 2], "model": "a"}) == []
    assert bind(path, {"model": "b", "boxes": (1, 2), "seed": 1}) == ["model", "seed"]
    assert bind(path, {"model": "a"}) == ["boxes"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["", "{", "[1]", "1", "\x00", "[" * 100_000])
def test_a_damaged_account_of_what_it_is_made_with_is_told(tmp_path: Path, damage: str) -> None:
    (tmp_path / "made.json").write_text(damage)
    with pytest.raises(ValueError, match=r"."):
        bind(tmp_path / "made.json", {"model": "a"})
    assert (tmp_path / "made.json").read_text() == damage


@pytest.mark.parametrize("name", ["a" * 255, "é" * 127, "𝄞" * 63])
def test_a_file_may_have_the_longest_name_of_the_file_system(tmp_path: Path, name: str) -> None:
    with atomic_file(tmp_path / name) as file:
        file.write(b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, b"whole")]


def test_a_directory_that_cannot_be_replaced_is_put_back(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "former").touch()
    with pytest.raises(FileNotFoundError):
        replace_directory(tmp_path / "missing", target)
    assert [path.name for path in tmp_path.rglob("*")] == ["target", "former"]


@pytest.mark.slow
def test_files_are_put_on_the_disk_also_when_the_main_thread_has_ended(tmp_path: Path) -> None:
    """No thread can be started any more then."""
    paths = [tmp_path / str(number) for number in range(3)]
    for path in paths:
        path.write_text("x")
    program = (
        "import atexit, os, sys, threading\n"
        "from pathlib import Path\n"
        "from vrag.atomic_io import sync_files\n"
        "def sync_late():\n"
        "    threading.main_thread().join()\n"
        "    sync_files([Path(name) for name in sys.argv[1:]])\n"
        "    os.write(1, b'synced')\n"
        "threading.Thread(target=sync_late).start()\n"
    )
    command = [sys.executable, "-c", program, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("synced", 0), done.stderr
