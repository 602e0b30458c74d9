"""JSON files that are damaged in any way: an error that says what to do, or the file is not needed."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from vrag.corpus.converter import CorpusOptions
from vrag.errors import VragError
from vrag.index.backups.backup import back_up
from vrag.index.backups.check import find_problems
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.index.maintenance import status
from vrag.search.engine import Engine
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

FILES = {
    "cache": "collection/cache/*/cache.json",
    "snapshot": "backups/*/backup.json",
    "mark of backups": "backups/backups.json",
}
DEEP = b"[" * 100_000
WRONG: tuple[Any, ...] = (None, [], {}, "x", -1, float("inf"), 10**400, [[]])
VALUES = (b"", b"[]", b"null", b"7", b"1e400", b'"x"', b"{}", b'{"\xff": 1}', DEEP, b'{"a":' * 100_000)


def damages(data: bytes) -> Iterator[bytes]:
    """Yield damaged contents of a file: no JSON, another kind of value, wrong types by name, names twice."""
    yield from VALUES
    yield data[: len(data) // 2]
    with suppress(ValueError):
        content = json.loads(data)
        content.pop("checksum", None)
        for name in content:
            for value in WRONG:
                yield json.dumps(content | {name: value}).encode()
            yield json.dumps(content).encode()[:-1] + b', "' + name.encode() + b'": 1e400}'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with a cache, beside its backups."""
    home = tmp_path_factory.mktemp("home")
    (home / "a.txt").write_text("The ferry sails at nine.")
    add(Collection.create(home / "collection", CorpusOptions(ocr="never", workers=1)), [home / "a.txt"])
    search(home)
    back_up(Collection.open(home / "collection"), home / "backups")
    return home


@contextmanager
def clear_errors() -> Generator[None]:
    """Suppress errors that say what happened and what to do."""
    try:
        yield
    except VragError as error:
        if not (str(error) and error.hint):
            raise AssertionError from error


def search(home: Path) -> Any:  # noqa: ANN401 - whatever it is
    return Engine(Collection.open(home / "collection")).search([Query("ferry")], 3)


def read_backups(home: Path) -> None:
    store = BackupStore.open(home / "backups")
    for name in store.names():
        with clear_errors():
            store.read(name)
    with clear_errors():
        find_problems(store, isolate=False)


ACTIONS: dict[str, Callable[[Path], object]] = {
    "search": search,
    "status": lambda home: status(Collection.open(home / "collection")),
    "backups": read_backups,
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_a_clear_error_or_not_needed(home: Path, tmp_path: Path, name: str) -> None:
    copy = shutil.copytree(home, tmp_path / "home")
    path = next(copy.glob(FILES[name]))
    whole = path.read_bytes()
    wanted = {"backups"}.intersection(path.relative_to(copy).parts) or {"search", "status"}
    for content in damages(whole):
        path.write_bytes(content)
        for action in wanted:
            with clear_errors():
                ACTIONS[action](copy)
    for content in (b"7", DEEP):
        path.write_bytes(content)
        with clear_errors():
            verify(LocalLocation(copy / "collection"))
    path.write_bytes(whole)
    assert search(copy)
