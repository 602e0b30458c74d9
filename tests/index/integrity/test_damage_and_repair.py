"""Damage to the bytes of a collection: it is named, and made good from the documents where they are."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents
from PIL import Image
from stored_items import blob_path

from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity import verification
from vrag.index.integrity.problems import ProblemKind
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.index.maintenance import remove
from vrag.index.store import DATABASE
from vrag.search.engine import Engine
from vrag.storage import rescue
from vrag.storage.database import Database
from vrag.types import DocumentStatus, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vrag.index.integrity.problems import VerifyReport

PAGE = 4096
"""Bytes of a page of the database."""
WAL_HEADER, FRAME_HEADER = 32, 24


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents and a collection of them."""
    home = tmp_path_factory.mktemp("made")
    (home / "documents").mkdir()
    for number in range(20):
        (home / "documents" / f"{number}.txt").write_text(f"Ferry {number} sails at nine. " * 40)
    Image.effect_noise((80, 60), 50).convert("RGB").save(home / "documents" / "c.png")
    collection = Collection.create(home / "collection", CorpusOptions(ocr="never", workers=1))
    add(collection, [home / "documents"])
    Engine(collection).search([Query("ferry")], 1)
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A copy of the collection without a log; its documents stay where they were indexed."""
    copy = shutil.copytree(made / "collection", tmp_path / "collection")
    with closing(Collection.open(copy)) as collection:
        assert collection.store.database.checkpoint()
    for ending in ("-wal", "-shm"):
        (copy / f"{DATABASE}{ending}").unlink()
    return copy


@pytest.fixture
def no_sources(made: Path) -> object:
    """The documents are gone during the test."""
    (made / "documents").rename(made / "gone")
    yield
    (made / "gone").rename(made / "documents")


def flip(path: Path, byte: int = 100, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[byte % len(data)] ^= 1 << bit
    path.write_bytes(data)


def content(home: Path) -> dict[str, object]:
    with closing(Collection.open(home)) as collection:
        return contents(collection)


def repair(home: Path) -> VerifyReport:
    def read_again(collection: Collection, paths: Sequence[Path]) -> object:
        return add(collection, paths)

    return verify(LocalLocation(home), repair=True, prepare=lambda _: read_again)


def picture(home: Path) -> Path:
    """The picture of c.png."""
    with closing(Collection.open(home)) as collection:
        (name,) = collection.store.read_items(["image"], "image IS NOT NULL").column("image")
        return blob_path(collection, name)


def cached_array(home: Path) -> Path:
    return max((home / "cache").rglob("*"), key=lambda path: path.is_file() and path.stat().st_size)


def page_of(home: Path, text: bytes) -> int:
    """The place of a text in the database."""
    return (home / DATABASE).read_bytes().index(text)


DAMAGED: dict[str, Callable[[Path], Path]] = {
    "database": lambda home: home / DATABASE,
    "picture": picture,
    "cache": cached_array,
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damage_is_named_and_repaired(home: Path, name: str, damage: str) -> None:
    before = content(home)
    path = DAMAGED[name](home)
    if damage == "flip":
        place = page_of(home, b"Ferry 7 sails") if name == "database" else 100
        flip(path, place)
    elif damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif name == "cache":
        return  # is made again: nothing is damaged
    else:
        path.unlink()
    if name == "database" and damage == "remove":
        with pytest.raises(CollectionError, match=r"collection\.db is missing.*Restore a backup"):
            verify(LocalLocation(home))
        return
    report = verify(LocalLocation(home))
    named = path.relative_to(home).as_posix()
    assert named in {problem.file for problem in report.problems if problem.kind is ProblemKind.DAMAGE}
    assert not report.ok
    assert verify(LocalLocation(home)).problems == report.problems, "looking changes nothing"
    if name == "database" and damage == "cut":
        with suppress(CollectionError):  # where not even its first pages are left
            repair(home)
        return

    repaired = repair(home)
    assert (repaired.ok, repaired.open) == (True, ()), repaired.problems
    assert content(home) == before
    assert verify(LocalLocation(home)).problems == ()


def test_any_flipped_bit_of_the_database_is_named(home: Path) -> None:
    path, chance = home / DATABASE, random.Random(3)
    whole = path.read_bytes()
    for _ in range(30):
        path.write_bytes(whole)
        flip(path, chance.randrange(len(whole)), chance.randrange(8))
        with suppress(CollectionError):  # named as well
            assert verify(LocalLocation(home)).problems


@pytest.fixture
def logged(home: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the collection with a log, of which no index is left: as after a loss of power."""
    with closing(Collection.open(home)) as collection, monkeypatch.context() as patch:
        remove(collection, ["0.txt", "1.txt", "2.txt"])
        patch.setattr(Database, "checkpoint", bool)  # the log stays
        for number in range(3):
            add(collection, [made / "documents" / f"{number}.txt"])
        copy = shutil.copytree(home, tmp_path / "logged")
    (copy / f"{DATABASE}-shm").unlink()
    return copy


def test_a_flipped_bit_of_the_log_is_named_and_repaired(logged: Path, made: Path) -> None:
    before = content(made / "collection")
    wal = logged / f"{DATABASE}-wal"
    assert wal.stat().st_size > 3 * PAGE
    flip(wal, WAL_HEADER + FRAME_HEADER + 50)
    report = verify(LocalLocation(logged))
    assert f"The log of {DATABASE} is damaged" in report.problems[0].detail
    with pytest.raises(CollectionError, match=r"damaged.*verify --repair"):
        Collection.open(logged)
    assert repair(logged).repaired
    with closing(Collection.open(logged)) as collection:
        add(collection, [made / "documents"])  # what was committed in the log alone is read again
    assert content(logged) == before
    assert verify(LocalLocation(logged)).problems == ()


def test_whoever_reads_a_damaged_page_is_told_what_to_do(home: Path) -> None:
    flip(home / DATABASE, page_of(home, b"Ferry 7 sails"))
    with closing(Collection.open(home)) as collection:
        with pytest.raises(CollectionError, match=r"checksum of a page.*verify --repair"):
            collection.store.read_items(["text"])
        assert len(collection.documents()) == 21, "what is not damaged can be read"


def test_a_damaged_picture_is_named_by_its_document(home: Path) -> None:
    flip(picture(home))
    with closing(Collection.open(home)) as collection:
        (id,) = collection.store.read_items(["id"], "image IS NOT NULL").column("id")
        with pytest.raises(CollectionError, match=r"picture of c_1 is damaged.*verify --repair"):
            collection.image(id)


@pytest.mark.usefixtures("no_sources")
@pytest.mark.parametrize("name", ["database", "picture"])
def test_what_cannot_be_read_again_is_listed_and_the_rest_stays(home: Path, name: str) -> None:
    before = content(home)
    if name == "database":
        flip(home / DATABASE, page_of(home, b"Ferry 7 sails"))
    else:
        flip(picture(home))
    repaired = repair(home)
    assert not repaired.ok
    lost = {problem.subject for problem in repaired.open if "could not be read again" in problem.detail}
    assert lost == {"c.png"} if name == "picture" else "7.txt" in lost
    assert len(lost) < 10
    assert all(problem.advice for problem in repaired.open if problem.subject in lost)
    with closing(Collection.open(home)) as collection:
        states = {document.name: document.status for document in collection.documents()}
        assert {name for name, status in states.items() if status is not DocumentStatus.READY} == lost
        assert len(collection.catalog().ids) == len(before["items"]) - len(lost)  # pyright: ignore
        remove(collection, sorted(lost))
    assert verify(LocalLocation(home)).problems == ()


@pytest.mark.usefixtures("no_sources")
def test_the_hash_of_what_is_left_is_that_of_its_items(home: Path) -> None:
    flip(home / DATABASE, page_of(home, b"Ferry 7 sails"))
    repair(home)
    with closing(Collection.open(home)) as collection:
        left = collection.items(collection.catalog().ids).values()
        clean = Collection.create(home.parent / "clean")
        shutil.copytree(home / "blobs", clean.directory / "blobs")
        with clean.store.change() as change:
            change.put_items((item, None) for item in left)
        assert collection.store.item_hash == clean.store.item_hash


def test_a_reader_sees_the_repaired_database_as_a_later_version(home: Path) -> None:
    with closing(Collection.open(home)) as reader:
        version, ids = reader.version, reader.catalog().ids
        reader.store.database.checkpoint()
        flip(home / DATABASE, page_of(home, b"Ferry 7 sails"))
        repair(home)
        assert reader.version > version + 1000, "also than those of commits that a damaged log had"
        assert reader.catalog().ids == ids
        assert len(reader.items(ids)) == len(ids)


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the code catches it."""


@pytest.mark.parametrize("at", range(8))
def test_a_repair_that_was_killed_is_done_again(home: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    before = content(home)
    flip(home / DATABASE, page_of(home, b"Ferry 7 sails"))
    left = iter([None] * at)

    def count(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            if next(left, Killed) is Killed:
                raise Killed
            return call(*arguments)

        return counted

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(verification, "_copy", count(getattr(verification, "_copy")))  # noqa: B009 - private
        for name in ("replace_file", "sync"):
            patch.setattr(rescue, name, count(getattr(rescue, name)))
        repair(home)
    if rescue.is_rescue_interrupted(home / DATABASE):
        with pytest.raises(CollectionError, match=r"was interrupted.*verify --repair"):
            Collection.open(home)
    repair(home)
    with closing(Collection.open(home)) as collection:
        pending = [d for d in collection.documents() if d.status is DocumentStatus.PENDING]
        add(collection, [document.path for document in pending])
    assert verify(LocalLocation(home)).problems == ()
    assert content(home) == before


def test_a_repair_that_is_impossible_says_what_cannot_be_read_and_leaves_nothing(home: Path) -> None:
    flip(home / DATABASE, 2000)  # on the first page, which says where all tables are
    before = {path.name for path in home.iterdir()}
    with pytest.raises(
        CollectionError, match="its list of documents, or what it was built with, cannot be read"
    ):
        repair(home)
    assert {path.name for path in home.iterdir()} - before <= {"build.lock", "build-next.lock"}
    flip(home / DATABASE, 2000)
    assert verify(LocalLocation(home)).problems == ()
