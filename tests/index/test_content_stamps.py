from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from vrag.corpus import discover
from vrag.index import content_stamps
from vrag.index.build import add
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path

    from fake_conversion import FakeConversion

    from vrag.corpus.converter import SourceFile

pytestmark = pytest.mark.usefixtures("conversion")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were hashed because of their state."""
    names: list[str] = []

    def read(path: Path) -> SourceFile:
        names.append(path.name)
        return discover.read_source(path)

    monkeypatch.setattr(content_stamps, "read_source", read)
    return names


@pytest.fixture
def old_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as written long before they are read."""
    monkeypatch.setattr(discover, "_CLOCK_NS", -(10**18))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def rewrite(path: Path, text: str) -> None:
    """Write other content of the same length, and restore the modification time."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of a disk ticks slowly
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def forget_stamps(collection: Collection) -> None:
    with collection.store.database.write() as connection:
        connection.execute("DELETE FROM stamps")


def texts(collection: Collection) -> list[str]:
    return sorted(collection.store.read_items(["text"]).column("text"))


@pytest.mark.usefixtures("old_files")
class TestAnUnnoticedTime:
    """Files of the same size and modification time as before."""

    def test_does_not_hide_a_file_that_was_rewritten(self, collection: Collection, folder: Path) -> None:
        path = write(folder / "fees.txt", "EUR 104")
        add(collection, [folder])
        rewrite(path, "EUR 273")

        assert add(collection, [folder]).changed == 1
        assert texts(collection) == ["EUR 273"]

    def test_does_not_hide_another_file_in_its_place(self, collection: Collection, folder: Path) -> None:
        path = write(folder / "fees.txt", "EUR 104")
        add(collection, [folder])
        other, status = write(folder.parent / "other.txt", "EUR 273"), path.stat()
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(path)

        assert add(collection, [folder]).changed == 1
        assert texts(collection) == ["EUR 273"]

    def test_does_not_hide_that_a_link_leads_elsewhere(self, collection: Collection, folder: Path) -> None:
        first, second = write(folder / "a.txt", "EUR 104"), write(folder / "b.txt", "EUR 273")
        os.utime(second, ns=(first.stat().st_atime_ns, first.stat().st_mtime_ns))
        link = folder / "link.txt"
        link.symlink_to(first)
        add(collection, [link])
        link.unlink()
        link.symlink_to(second)

        assert add(collection, [link]).changed == 1
        assert texts(collection) == ["EUR 273"]


@pytest.mark.usefixtures("old_files")
class TestUnchangedFiles:
    def test_are_not_read(self, collection: Collection, folder: Path, hashed: list[str]) -> None:
        for number in range(5):
            write(folder / f"{number}.txt", str(number))
        add(collection, [folder])

        assert add(Collection.open(collection.directory), [folder]).unchanged == 5
        assert hashed == []

    def test_are_hashed_once_where_nothing_is_known_of_them(
        self, collection: Collection, folder: Path, hashed: list[str], conversion: FakeConversion
    ) -> None:
        write(folder / "a.txt", "one")
        add(collection, [folder])
        forget_stamps(collection)

        assert [add(collection, [folder]).unchanged for _ in range(2)] == [1, 1]
        assert hashed == ["a.txt"]
        assert len(conversion.made) == 1

    def test_are_hashed_once_when_only_their_state_has_changed(
        self, collection: Collection, folder: Path, hashed: list[str], conversion: FakeConversion
    ) -> None:
        linked, restored = write(folder / "linked.txt", "one"), write(folder / "restored.txt", "two")
        add(collection, [folder])
        version = collection.version
        before = linked.stat().st_ctime_ns
        while linked.stat().st_ctime_ns == before:
            (folder.parent / "other name").unlink(missing_ok=True)
            (folder.parent / "other name").hardlink_to(linked)
        status = restored.stat()
        copy = write(folder.parent / "copy", "two")
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        copy.replace(restored)

        assert [add(collection, [folder]).unchanged for _ in range(2)] == [2, 2]
        assert sorted(hashed) == ["linked.txt", "restored.txt"]
        assert len(conversion.made) == 2
        assert collection.version == version


class TestTimesThatProveNothing:
    def test_those_of_files_that_were_just_written(
        self, collection: Collection, folder: Path, hashed: list[str]
    ) -> None:
        write(folder / "a.txt", "one")
        add(collection, [folder])
        add(collection, [folder])
        assert hashed == ["a.txt"]

    def test_those_of_files_of_the_future_since_the_clock_was_set_back(
        self, collection: Collection, folder: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(folder / "a.txt", "one")
        add(collection, [folder])
        monkeypatch.setattr(discover.time, "time_ns", lambda: 10**18)
        for _ in range(2):
            add(collection, [folder])
        assert hashed == ["a.txt", "a.txt"]

    @pytest.mark.usefixtures("old_files")
    def test_those_of_a_system_without_a_time_of_change(
        self, collection: Collection, folder: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_time(status: os.stat_result) -> int:
            del status
            return 0

        for module in (discover, content_stamps):
            monkeypatch.setattr(module, "change_time_ns", no_time)
        path = write(folder / "a.txt", "one")
        add(collection, [folder])
        add(collection, [folder])
        assert hashed == ["a.txt"]
        rewrite(path, "two")
        add(collection, [folder])
        assert texts(collection) == ["two"]
