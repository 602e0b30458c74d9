"""Files that are added while others are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents

from vrag.index.build import add, add_live
from vrag.index.collection import Collection
from vrag.index.manifest import Writer
from vrag.index.vectors.embed_items import local
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from pathlib import Path

    from fake_conversion import FakeConversion

    from vrag.types import Document


class Feed:
    """Files that become known one group after another, and what is told of them."""

    def __init__(self, collection: Collection, *groups: list[Path]) -> None:
        self.collection = collection
        self.groups = list(groups)
        self.told: list[tuple[str, str, int]] = []

    def take(self) -> list[Path]:
        return self.groups.pop(0) if self.groups else []

    def committed(self, document: Document, rows: int) -> None:
        on_disk = {row.path: row for row in Collection.open(self.collection.directory).documents()}
        assert on_disk[document.path] == document
        self.told.append((document.name, document.status.value, rows))

    def run(self) -> None:
        add_live(self.collection, self.take, local(None, live=True), self.committed)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def files(folder: Path) -> list[Path]:
    texts = ("one\ntwo", "one\n!torn\nthree", "BAD It is damaged.", "one\ntwo")
    return [write(folder / f"{name}.txt", text) for name, text in zip("abcd", texts, strict=True)]


@pytest.mark.usefixtures("conversion")
def test_gives_what_adding_them_at_once_gives(
    collection: Collection, files: list[Path], tmp_path: Path
) -> None:
    feed = Feed(collection, files[:1], files[1:3], files[3:])
    feed.run()
    assert sorted(feed.told) == [
        ("a.txt", "ready", 2),
        ("b.txt", "partial", 2),
        ("c.txt", "failed", 0),
        ("d.txt", "ready", 2),
    ]
    other = Collection.create(tmp_path / "other")
    add(other, files)
    assert contents(collection) == contents(other)


@pytest.mark.usefixtures("conversion")
def test_what_is_there_is_told_at_once(collection: Collection, files: list[Path]) -> None:
    add(collection, files)
    feed = Feed(collection, files[:1])
    feed.run()
    assert feed.told == [("a.txt", "ready", 2)]


def test_what_failed_is_tried_again_also_in_the_same_run(
    collection: Collection, files: list[Path], conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer, "DOCUMENT_SECONDS", 0.0)
    feed = Feed(collection, [files[1]])

    def heal() -> list[Path]:
        if feed.told and not conversion.healed:
            conversion.healed = True
            return [files[1]]
        return feed.groups.pop(0) if feed.groups else []

    feed.take = heal
    feed.run()
    assert feed.told == [("b.txt", "partial", 2), ("b.txt", "ready", 3)]
    assert len(conversion.made) == 3, "what was there is not made again"


def test_an_interruption_keeps_what_was_made(
    collection: Collection, files: list[Path], conversion: FakeConversion
) -> None:
    feed = Feed(collection)
    groups = iter([[files[0]], [files[1]]])

    def take() -> list[Path]:
        if group := next(groups, None):
            return group
        raise KeyboardInterrupt

    feed.take = take
    with pytest.raises(KeyboardInterrupt):
        feed.run()
    assert [name for name, _, _ in feed.told] == ["a.txt", "b.txt"]
    assert {row.status for row in collection.documents()} == {DocumentStatus.READY, DocumentStatus.PARTIAL}
    made = list(conversion.made)
    Feed(collection, files[:1]).run()
    assert conversion.made == made
