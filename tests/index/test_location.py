"""The header of a collection, whatever a disk or a person made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.collection import Collection
from vrag.index.location import CollectionHeader
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from pathlib import Path

HEADER = CollectionHeader.of(CorpusOptions(), HashEmbedder(VectorKind.MULTI, 8))
DEEP = "[" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("header")
    HEADER.write(folder)
    return json.loads((folder / "collection.json").read_bytes())


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


def read(text: str | bytes, folder: Path) -> CollectionHeader | None:
    """The header as it is read, or None for damage that is told in words."""
    (folder / "collection.json").write_bytes(text.encode() if isinstance(text, str) else text)
    header: CollectionHeader | None = None
    message = ""
    try:
        header = CollectionHeader.read(folder)
    except CollectionError as error:
        message = str(error)
    assert (header is None) == (len(message) > len("collection.json"))
    assert "\n" not in message
    return header


@given(st.data())
def test_any_value_anywhere_is_read_or_told(
    tmp_path_factory: pytest.TempPathFactory, written: dict[str, Any], data: st.DataObject
) -> None:
    value = data.draw(JSON | st.sampled_from([float("nan"), 1e999, 10**400, -1, "", True]))
    changed = with_value(written, data.draw(st.sampled_from(places(written))), value)
    header = read(json.dumps(changed), tmp_path_factory.getbasetemp())
    if header is not None:
        assert len(header.options.fingerprint) == 12
        with_other_workers = replace(header.options, workers=3)
        assert with_other_workers.fingerprint == header.options.fingerprint


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_told(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    assert read(content, tmp_path_factory.getbasetemp()) is None


@pytest.mark.parametrize("text", [DEEP, '{"schema":' * 50_000, '{"schema": 2, "corpus": ' + DEEP])
def test_endless_nesting_is_told(tmp_path: Path, text: str) -> None:
    assert read(text, tmp_path) is None
    with pytest.raises(CollectionError, match="nested too deeply"):
        Collection.open(tmp_path)


@pytest.mark.parametrize(
    "text", [DEEP, "[]", '{"pid": [], "host": {}}', '{"pid": 1}', "\x00", '{"pid": NaN}']
)
def test_a_damaged_note_about_the_writer_does_not_hide_that_it_writes(tmp_path: Path, text: str) -> None:
    collection = Collection.create(tmp_path / "collection")
    with collection.lock():
        (collection.directory / "writer.json").write_text(text, encoding="utf-8")
        with pytest.raises(CollectionBusy, match="Another process is writing"), collection.lock():
            pass
