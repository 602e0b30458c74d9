"""A collection with everything that a backup holds, and a place for its backups."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fake_conversion import FakeConversion
from filled_collection import age, upload, write_run

from vrag.corpus import convert
from vrag.index.build import add
from vrag.index.collection import Collection


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with files and a collection, and a copy of it. The manifest has the paths of the place."""
    place = tmp_path_factory.mktemp("backed-up") / "place"
    folder, collection = place / "files", Collection.create(place / "collection")
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "convert_all", FakeConversion())
        (folder / "a.txt").write_text("pic one\ntwo")
        (folder / "b.txt").write_text("-\npic three")
        add(collection, [folder])
        upload(collection, "early.txt", "early")
        upload(collection, "sent.txt", "-\n-\npic four")
    (collection.directory / "served.json").write_text('{"beside": "first"}')
    write_run(collection, "1")
    write_run(collection, "2")
    collection.close()
    age(collection.directory)
    shutil.copytree(place, place.with_name("copy"))
    return place


@pytest.fixture
def filled(pristine: Path, conversion: FakeConversion) -> Collection:
    """A collection with two documents, an uploaded one, and two runs."""
    shutil.rmtree(pristine)
    shutil.copytree(pristine.with_name("copy"), pristine)
    return Collection.open(pristine / "collection")


@pytest.fixture
def docs(pristine: Path) -> Path:
    """The folder of the documents of `filled`."""
    return pristine / "files"


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    """The directory of backups of `filled`, which does not exist yet."""
    return tmp_path / "backups"
