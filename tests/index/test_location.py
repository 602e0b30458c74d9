"""The header of a collection, whatever a disk or a person made of it."""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.location import CollectionHeader
from vrag.index.store import DATABASE
from vrag.storage import database
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADER = CollectionHeader.of(CorpusOptions(), HashEmbedder(VectorKind.MULTI, 8))
DEEP = "[" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


WRITTEN: dict[str, Any] = json.loads(HEADER.to_json())


def places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:  # noqa: ANN401 - any JSON
    """Where a JSON object has values, by the names that lead to them."""
    found = [path]
    if isinstance(value, dict):
        for name in value:  # pyright: ignore[reportUnknownVariableType]
            found += places(value[name], (*path, str(name)))  # pyright: ignore[reportUnknownArgumentType]
    return found


def with_value(header: Any, path: tuple[str, ...], value: object) -> Any:  # noqa: ANN401 - any JSON
    if not path:
        return value
    return header | {path[0]: with_value(header[path[0]], path[1:], value)}


def read(text: str) -> CollectionHeader | None:
    """The header as it is read, or None for damage that is told in words."""
    header: CollectionHeader | None = None
    message = ""
    try:
        header = CollectionHeader.parse(text, "/collection")
    except CollectionError as error:
        message = error.message
    assert (header is None) == (len(message) > len("/collection"))
    assert "\n" not in message
    return header


@given(st.data())
def test_any_value_anywhere_is_read_or_told(data: st.DataObject) -> None:
    value = data.draw(JSON | st.sampled_from([float("nan"), 1e999, 10**400, -1, "", True]))
    changed = with_value(WRITTEN, data.draw(st.sampled_from(places(WRITTEN))), value)
    header = read(json.dumps(changed))
    if header is not None:
        assert len(header.options.fingerprint) == 12
        with_other_workers = replace(header.options, workers=3)
        assert with_other_workers.fingerprint == header.options.fingerprint


@given(st.text(max_size=40) | JSON.map(json.dumps))
def test_any_text_is_told(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize("text", [DEEP, '{"embedder":' * 50_000, '{"embedder": null, "corpus": ' + DEEP])
def test_endless_nesting_is_told(tmp_path: Path, text: str) -> None:
    assert read(text) is None
    with Collection.create(tmp_path / "collection").store.change() as change:
        change.put_header(text)
    for open_one in (Collection.open, CollectionHeader.read):
        with pytest.raises(CollectionError, match="nested too deeply"):
            open_one(tmp_path / "collection")


def test_whoever_reads_the_header_writes_nothing(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "collection", HEADER.options)
    add(collection, [])
    collection.close()
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(collection.directory / DATABASE, copy)
    assert CollectionHeader.read(copy) == collection.header
    assert [path.name for path in copy.iterdir()] == [DATABASE]


def test_the_header_is_read_beside_a_writer(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "collection")
    with collection.store.change() as change:
        change.put_header(HEADER.to_json())  # in the log
    assert CollectionHeader.read(collection.directory) == HEADER
    with collection.store.change() as change:
        change.put_header(collection.header.to_json())
    assert CollectionHeader.read(collection.directory) == collection.header


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the code catches it."""


@pytest.mark.parametrize("at", range(4))
def test_a_creation_that_was_killed_leaves_no_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    left = iter([None] * at)

    def count(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **options: object) -> object:
            if next(left, Killed) is Killed:
                raise Killed
            return call(*arguments, **options)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(database.Schema, "migrating", count(database.Schema.migrating))
        for name in ("connect", "sync", "replace_file"):
            patch.setattr(database, name, count(getattr(database, name)))
        with pytest.raises(Killed):
            Collection.create(tmp_path, HEADER.options)
    with pytest.raises(CollectionError, match="no collection"):
        Collection.open(tmp_path)
    assert Collection.open_or_create(tmp_path, CorpusOptions(dpi=99)).header.options.dpi == 99
    assert Collection.open(tmp_path).documents() == []


@pytest.mark.parametrize(
    "text", [DEEP, "[]", '{"pid": [], "host": {}}', '{"pid": 1}', "\x00", '{"pid": NaN}']
)
def test_a_damaged_note_about_the_writer_does_not_hide_that_it_writes(tmp_path: Path, text: str) -> None:
    collection = Collection.create(tmp_path / "collection")
    with collection.build():
        (collection.directory / "build.json").write_text(text, encoding="utf-8")
        with pytest.raises(CollectionBusy, match="Another process is writing"), collection.build():
            pass


def test_a_commit_waits_for_the_moment_of_another_one(tmp_path: Path) -> None:
    """Also where the setting is not to wait: that is for processes that read documents."""
    collection = Collection.create(tmp_path / "collection", wait=0.0)
    other = ExitStack()
    other.enter_context(Collection.open(collection.directory).store.database.lock())
    threading.Timer(0.05, other.close).start()
    with collection.store.change() as change:
        change.put_header(HEADER.to_json())
    assert CollectionHeader.read(collection.directory) == HEADER
