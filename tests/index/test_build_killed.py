"""Whenever building is killed, the next time makes it whole."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from built_files import READY, texts, the_document, write
from fake_conversion import contents
from stored_items import location_of

from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.location import STAGING
from vrag.index.maintenance import compact, prune, remove
from vrag.index.manifest import Writer
from vrag.index.store import CollectionStore
from vrag.storage.blobs import BlobStore
from vrag.storage.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from fake_conversion import FakeConversion

    from vrag.storage.connection import Connection


pytestmark = pytest.mark.usefixtures("conversion")


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the code catches it."""


class Assassin:
    """Kills before or after the n-th commit, or the n-th time that blobs are put on the disk or deleted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.left = at
        self._after = after
        for kind, names in ((CollectionStore, ("erase", "compact")), (BlobStore, ("sync", "delete"))):
            for name in names:
                monkeypatch.setattr(kind, name, self._wrap(getattr(kind, name)))
        write = Database.write

        @contextmanager
        def write_once(database: Database, wait: float | None = None) -> Generator[Connection]:
            self._count(after=False)
            with write(database, wait) as connection:
                yield connection
            self._kill(after=True)

        monkeypatch.setattr(Database, "write", write_once)

    def _wrap(self, call: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*args: object) -> None:
            self._count(after=False)
            call(*args)
            self._kill(after=True)

        return wrapped

    def _count(self, *, after: bool) -> None:
        self.left -= 1
        self._kill(after=after)

    def _kill(self, *, after: bool) -> None:
        if self.left == 0 and self._after == after:
            raise Killed


def scene(folder: Path) -> list[Callable[[Collection], object]]:
    """Steps that write in every way there is. Each may be run again."""

    def first(collection: Collection) -> None:
        write(folder / "a.txt", *(f"pic a {n}" for n in range(5)))
        write(folder / "b.txt", "one", "!two", "three")
        write(folder / "c.txt", "BAD whole")
        write(folder / "twin.txt", *(f"pic a {n}" for n in range(5)))
        _age(folder)
        add(collection, [folder])

    def change(collection: Collection) -> None:
        write(folder / "a.txt", *(f"pic changed {n}" for n in range(7)))
        write(folder / "c.txt", "now it works")
        _age(folder)
        add(collection, [folder])

    def drop(collection: Collection) -> None:
        (folder / "b.txt").unlink(missing_ok=True)
        prune(collection)
        if any(document.name == "twin.txt" for document in collection.documents()):
            remove(collection, ["twin.txt"])
        (folder / "twin.txt").unlink(missing_ok=True)

    return [first, change, drop, compact]


def _age(folder: Path) -> None:
    """Equal times in every round: the manifest holds them, and a file rewritten alike is unchanged."""
    for path in folder.iterdir():
        os.utime(path, ns=(10**18, 10**18))


class TestKilled:
    @pytest.mark.slow
    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("step", range(4))
    def test_before_or_after_any_commit_running_again_equals_a_clean_build(
        self, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, step: int, *, after: bool
    ) -> None:
        monkeypatch.setattr(Writer, "ITEMS", 3)
        clean = Collection.create(tmp_path / "clean")
        for run in scene(folder)[: step + 1]:
            run(clean)
        expected = contents(clean)

        for at in range(1, 100):
            victim = Collection.create(tmp_path / f"victim{at}")
            for path in folder.iterdir():
                path.unlink()
            for run in scene(folder)[:step]:
                run(victim)
            with monkeypatch.context() as patch:
                assassin = Assassin(patch, at, after=after)
                with suppress(Killed):
                    scene(folder)[step](victim)
            again = Collection.open(victim.directory)
            scene(folder)[step](again)
            add(again, [folder])
            assert contents(again) == expected, f"killed at write {at}"
            assert verify(location_of(again)).ok
            if assassin.left > 0:
                assert at > 1
                return
        pytest.fail("the kill never came too late")

    def test_parts_of_pictures_are_cleared_away(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        path = write(folder / "a.txt", "pic one", "pic two")

        def leave_a_part(id: str) -> None:
            part = collection.directory / STAGING / id.split("-", maxsplit=1)[0] / "9.jpg.part"
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(b"x")
            raise Killed

        conversion.before_item = leave_a_part
        with pytest.raises(Killed):
            add(collection, [path])
        conversion.before_item = lambda _: None
        add(collection, [path])
        assert verify(location_of(collection)).ok

    def test_twice_in_a_row(
        self, tmp_path: Path, folder: Path, conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Writer, "ITEMS", 2)
        write(folder / "a.txt", *(f"pic {n}" for n in range(12)))
        collection = Collection.create(tmp_path / "victim")
        for _ in range(30):
            with monkeypatch.context() as patch:
                Assassin(patch, 6, after=False)
                try:
                    add(collection, [folder])
                except Killed:
                    continue
            break
        assert len(texts(collection)) == 12
        assert the_document(collection).status is READY
        assert len(conversion.made) < 30, "what was committed is not made again"
