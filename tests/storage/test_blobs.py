"""Blobs: on the disk before they are named, checked when read, and collected when nobody names them."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import pytest

from vrag.storage.blobs import BlobStore

HOUR = 3600.0
HOLDER = """
import sys
from pathlib import Path
from vrag.storage.blobs import BlobStore
with BlobStore(Path(sys.argv[1])).hold():
    print("held", flush=True)
    sys.stdin.read()
"""


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def describe(handle: int) -> str:
    """Return the path of an open file."""
    return os.fspath(Path(f"/proc/self/fd/{handle}").readlink())


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


class TestStoring:
    def test_makes_bytes_readable_at_once_and_lasting_by_sync(self, blobs: BlobStore) -> None:
        name = blobs.put(b"picture")
        assert name == name_of(b"picture")
        assert blobs.read(name) == blobs.path(name).read_bytes() == b"picture"
        assert list(blobs.names()) == []
        assert blobs.absent([name]) == [name]
        blobs.sync()
        assert blobs.read(name) == b"picture"
        assert list(blobs.names()) == [name]
        assert blobs.absent([name]) == []

    def test_the_same_twice_stores_it_once(self, blobs: BlobStore, tmp_path: Path) -> None:
        names = [blobs.put(b"same"), blobs.put(b"same")]
        blobs.sync()
        source = tmp_path / "source"
        source.write_bytes(b"same")
        names.append(blobs.put_file(source))
        blobs.sync()
        assert names == [name_of(b"same")] * 3
        assert not source.exists()
        files = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
        assert files == [blobs.path(names[0])]

    def test_a_file_moves_it(self, blobs: BlobStore, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"clip" * 1000)
        name = blobs.put_file(source)
        blobs.sync()
        assert blobs.read(name) == b"clip" * 1000
        assert not source.exists()

    def test_a_stream_copies_as_much_as_is_wanted(self, blobs: BlobStore, tmp_path: Path) -> None:
        names = [blobs.put_stream(BytesIO(b"clip" * 1000), size) for size in (None, 4000, 9)]
        blobs.sync()
        assert [blobs.read(name) for name in names] == [b"clip" * 1000, b"clip" * 1000, b"clipclipc"]
        assert list((tmp_path / "blobs" / "staged").iterdir()) == []

    def test_a_stream_that_fails_leaves_nothing(self, blobs: BlobStore, tmp_path: Path) -> None:
        class Broken(BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                raise OSError(errno.EIO, "broken")

        with pytest.raises(OSError, match="broken"):
            blobs.put_stream(Broken())
        assert list((tmp_path / "blobs" / "staged").iterdir()) == []

    def test_replaces_one_that_was_cut_off(self, blobs: BlobStore) -> None:
        name = blobs.put(b"whole")
        blobs.sync()
        blobs.path(name).write_bytes(b"who")
        assert blobs.put(b"whole") == name
        blobs.sync()
        assert blobs.read(name) == b"whole"

    def test_in_many_threads_stores_all(self, blobs: BlobStore) -> None:
        def store(number: int) -> None:
            for each in range(20):
                blobs.put(f"{each}-{number % 2}".encode())
                blobs.sync()

        threads = [threading.Thread(target=store, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = {name_of(f"{each}-{number}".encode()) for each in range(20) for number in range(2)}
        assert set(blobs.names()) == expected
        assert list(blobs.damaged(expected)) == []

    def test_waits_for_the_disk_before_a_name_and_for_the_name(
        self, blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[tuple[str, str]] = []
        real_fsync, real_replace = os.fsync, os.replace

        def fsync(handle: int) -> None:
            steps.append(("sync", describe(handle)))
            real_fsync(handle)

        def replace(source: str, target: str) -> None:
            steps.append(("name", str(target)))
            real_replace(source, target)

        names = [blobs.put(b"one"), blobs.put(b"two")]
        staged = {name: str(blobs.path(name)) for name in names}
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr("pathlib.Path.replace", replace)
        blobs.sync()
        for name in names:
            path = blobs.path(name)
            named = steps.index(("name", str(path)))
            assert steps.index(("sync", staged[name])) < named
            assert named < len(steps) - 1 - steps[::-1].index(("sync", str(path.parent)))
            assert ("sync", str(tmp_path / "blobs")) in steps

    def test_one_that_others_wrote_waits_for_the_disk_as_well(
        self, blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = BlobStore(tmp_path / "blobs", durable=False)
        name = other.put(b"theirs")
        other.sync()
        synced: list[str] = []

        def fsync(handle: int) -> None:
            synced.append(describe(handle))

        monkeypatch.setattr(os, "fsync", fsync)
        assert blobs.put(b"theirs") == name
        blobs.sync()
        assert str(blobs.path(name)) in synced
        assert str(blobs.path(name).parent) in synced

    def test_that_the_disk_refuses_is_tried_again(
        self, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = blobs.put(b"picture")

        def refuse(handle: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as context:
            context.setattr(os, "fsync", refuse)
            with pytest.raises(OSError, match="No space"):
                blobs.sync()
        assert blobs.read(name) == b"picture"
        blobs.sync()
        assert list(blobs.names()) == [name]


class TestReading:
    @pytest.mark.parametrize("content", [b"", b"othes", b"longer than before"])
    def test_refuses_what_is_damaged(self, blobs: BlobStore, content: bytes) -> None:
        name = blobs.put(b"other")
        blobs.sync()
        blobs.path(name).write_bytes(content)
        with pytest.raises(OSError, match="damaged"):
            blobs.read(name)
        absent = name_of(b"absent")
        assert list(blobs.damaged([name, absent])) == [name, absent]

    @pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63, f"{'0' * 64}/x"])
    def test_refuses_what_is_no_name(self, blobs: BlobStore, name: str) -> None:
        with pytest.raises(ValueError, match="no name of a blob"):
            blobs.read(name)


class TestCollecting:
    def test_deletes_old_ones_that_are_not_named(self, blobs: BlobStore) -> None:
        named, old, new = (blobs.put(data) for data in (b"named", b"old", b"new"))
        blobs.sync()
        for name in (named, old):
            age(blobs.path(name), 2 * HOUR)
        assert blobs.collect({named}) == 1
        assert set(blobs.names()) == {named, new}
        assert blobs.absent([old]) == [old]

    def test_spares_one_that_was_put_again(self, blobs: BlobStore, tmp_path: Path) -> None:
        name = blobs.put(b"again")
        blobs.sync()
        age(blobs.path(name), 2 * HOUR)
        assert BlobStore(tmp_path / "blobs").put(b"again") == name
        assert blobs.collect(set()) == 0
        assert blobs.read(name) == b"again"

    def test_deletes_what_killed_processes_left(self, blobs: BlobStore, tmp_path: Path) -> None:
        unfinished = blobs.path(blobs.put(b"unfinished"))
        assert blobs.collect(set()) == 0
        age(unfinished, 2 * HOUR)
        assert BlobStore(tmp_path / "blobs").collect(set()) == 1
        assert not unfinished.exists()

    def test_waits_while_any_process_holds_the_blobs(self, blobs: BlobStore, tmp_path: Path) -> None:
        name = blobs.put(b"old")
        blobs.sync()
        age(blobs.path(name), 2 * HOUR)
        with BlobStore(tmp_path / "blobs").hold():
            (lock,) = (tmp_path / "blobs" / "holds").iterdir()
            age(lock, 2 * HOUR)
            assert blobs.collect(set()) == 0
        assert blobs.collect(set()) == 1

    @pytest.mark.slow
    def test_does_not_wait_for_a_killed_process(self, blobs: BlobStore, tmp_path: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "blobs")]
        name = blobs.put(b"old")
        blobs.sync()
        age(blobs.path(name), 2 * HOUR)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            assert blobs.collect(set()) == 0
            process.kill()
        (lock,) = (tmp_path / "blobs" / "holds").iterdir()
        age(lock, 2 * HOUR)
        assert blobs.collect(set()) == 1
        assert not lock.exists()

    def test_of_nothing_deletes_nothing(self, blobs: BlobStore) -> None:
        assert blobs.collect(set()) == 0
        assert list(blobs.names()) == []
        blobs.delete([name_of(b"absent")])
