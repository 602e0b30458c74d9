"""The bytes of a document are those that were indexed, or there are none, with the reason."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from built_files import write

from vrag.index import source_file
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.source_file import (
    CheckedFiles,
    OpenSource,
    SourceBytes,
    SourceFault,
    read_source,
    read_stamp,
)
from vrag.index.vectors.embed_items import local
from vrag.types import ABSENT, Document, DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable

CONTENT = b"one and two\n" * 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "a.txt"
    place.write_bytes(CONTENT)
    return place


def document_at(path: Path) -> Document:
    """The document that was made from the file as it is now."""
    data, status = path.read_bytes(), path.stat()
    return Document(
        path=str(path),
        id=hashlib.sha256(data).hexdigest(),
        name=path.name,
        size=len(data),
        mtime_ns=status.st_mtime_ns,
        status=DocumentStatus.READY,
    )


def change_one_byte(path: Path) -> None:
    """Another file of the same size and times."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def link_to_copy(path: Path) -> None:
    """A link to a file with the very same bytes."""
    copy = path.with_name("copy.txt")
    path.rename(copy)
    path.symlink_to(copy)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_link_to_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def truncate(path: Path) -> None:
    path.write_bytes(CONTENT[:-1])


def extend(path: Path) -> None:
    path.write_bytes(CONTENT + b"x")


def test_an_unchanged_file_is_read(path: Path) -> None:
    source = read_source(document_at(path))

    assert isinstance(source, SourceBytes)
    assert (source.path, source.data, source.stamp) == (path, CONTENT, read_stamp(path))


def test_times_of_a_file_do_not_matter(path: Path) -> None:
    document = document_at(path)
    os.utime(path, ns=(0, 0))
    assert isinstance(read_source(document), SourceBytes)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (Path.unlink, SourceFault.GONE),
        (change_one_byte, SourceFault.CHANGED),
        (truncate, SourceFault.CHANGED),
        (extend, SourceFault.CHANGED),
        (link_to_copy, SourceFault.NOT_A_FILE),
        (replace_by_folder, SourceFault.NOT_A_FILE),
        (replace_by_pipe, SourceFault.NOT_A_FILE),
        (replace_by_link_to_device, SourceFault.NOT_A_FILE),
    ],
)
def test_a_file_that_is_no_longer_the_same_is_not_used(
    path: Path, change: Callable[[Path], None], fault: SourceFault
) -> None:
    document = document_at(path)
    files = CheckedFiles()
    opened = files.open(document)
    assert isinstance(opened, OpenSource)
    with opened.file as file:
        assert (file.read(), opened.size, opened.name) == (CONTENT, len(CONTENT), "a.txt")
    change(path)
    assert read_source(document) is fault
    assert files.open(document) is fault
    assert CheckedFiles().open(document) is fault


def test_a_file_is_hashed_once_while_its_stamp_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document, files = document_at(path), CheckedFiles()
    for _ in range(2):
        opened = files.open(document)
        assert isinstance(opened, OpenSource)
        opened.file.close()
        monkeypatch.setattr(hashlib, "file_digest", None)


def test_a_file_whose_folder_became_a_file_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    path = write(folder / "a.txt", "one")
    document = document_at(path)
    shutil.rmtree(folder)
    folder.write_text("no folder")
    assert read_source(document) is SourceFault.GONE


def test_a_link_put_there_after_it_was_looked_at_is_not_followed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, open_ = document_at(path), os.open

    def swapping_open(name: Path, flags: int) -> int:
        link_to_copy(path)
        return open_(name, flags)

    monkeypatch.setattr(source_file.os, "open", swapping_open)
    assert read_source(document) is SourceFault.NOT_A_FILE


def test_a_file_put_there_after_it_was_looked_at_is_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, open_ = document_at(path), os.open

    def swapping_open(name: Path, flags: int) -> int:
        copy = path.with_name("copy.txt")
        copy.write_bytes(CONTENT)
        copy.replace(path)
        return open_(name, flags)

    monkeypatch.setattr(source_file.os, "open", swapping_open)
    assert read_source(document) is SourceFault.NOT_A_FILE


def test_large_files_and_documents_without_a_file_are_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = document_at(path)
    assert read_source(replace(document, mtime_ns=ABSENT)) is SourceFault.ABSENT
    assert CheckedFiles().open(replace(document, mtime_ns=ABSENT)) is SourceFault.ABSENT
    assert read_source(replace(document, id="")) is SourceFault.ABSENT
    assert read_source(replace(document, path="a\0b")) is SourceFault.UNREADABLE
    monkeypatch.setattr(source_file, "MAX_SOURCE_BYTES", len(CONTENT) - 1)
    assert read_source(document) is SourceFault.TOO_LARGE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(path: Path) -> None:
    document = document_at(path)
    path.chmod(0)
    assert read_source(document) is SourceFault.UNREADABLE


@pytest.mark.usefixtures("conversion")
class TestCollection:
    def test_of_equal_files_any_that_is_still_there(self, collection: Collection, folder: Path) -> None:
        first, second = write(folder / "a.txt", "one"), write(folder / "b.txt", "one")
        add(collection, [folder])
        id = collection.documents()[0].id
        assert collection.source(id) == read_source(collection.documents()[0])
        opened = collection.open_source(id)
        assert isinstance(opened, OpenSource)
        opened.file.close()

        first.unlink()
        source = collection.source(id)
        assert isinstance(source, SourceBytes)
        assert source.path == second

        second.write_text("two")
        assert collection.source(id) is SourceFault.GONE

    def test_an_uploaded_copy_moves_with_its_collection(self, collection: Collection, tmp_path: Path) -> None:
        path = write(collection.directory / "uploads" / "a.txt", "one")
        add_sources(collection, [path], local(None))
        id = collection.documents()[0].id
        moved = collection.directory.rename(tmp_path / "elsewhere")

        source = Collection.open(moved).source(id)

        assert isinstance(source, SourceBytes)
        assert (source.path, source.data) == (moved / "uploads" / "a.txt", b"one")

    def test_unknown_documents_have_none(self, collection: Collection) -> None:
        assert collection.source("0" * 64) is SourceFault.ABSENT
        assert collection.source("") is SourceFault.ABSENT
