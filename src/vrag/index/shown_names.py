"""The names of documents for people: the paths of their files, as citations and lists show them.

A name is the path below the folder that a question is asked about. If it is asked about the whole collection,
it is the path below the innermost folder that holds all of its files. Of several files with the same content,
the one that was asked about is named, and of those one that is still there. So no two documents have the same
name, and a file that was renamed has its new one.
"""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from vrag.errors import CollectionError
from vrag.index.source_file import KEPT_COPIES, lies_in
from vrag.types import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from vrag.index.collection import Collection
    from vrag.types import Document, Hit, Item

FOLDER_SIGN = "／"
"""Stands for the slashes in the name of a file that was uploaded with its folder (`safe_name`)."""
_MIN_ID_DIGITS = 8
"""Digits of a document's id by which it may be named."""
_MAX_LISTED = 10
"""Paths that an error lists at most."""


class _NamedFile(NamedTuple):
    document: Document
    name: str


class _CollectionNames(NamedTuple):
    """The names of the documents of one version of a collection."""

    version: int
    """Of the collection."""
    files: dict[str, list[_NamedFile]]
    """The files of each document, by its id, sorted by path."""
    names: frozenset[str]

    @classmethod
    def read(cls, collection: Collection, folders: Sequence[str]) -> _CollectionNames:
        """Name the files in these absolute folders, or all files if there are none."""
        version = collection.version
        documents = [document for document in collection.documents() if document.status.served]
        if folders:
            names = _names_below(folders, documents)
        else:
            names = _names_in_collection(documents, collection.directory / KEPT_COPIES)
        files: defaultdict[str, list[_NamedFile]] = defaultdict(list)
        for document in documents:
            if document.path in names:
                files[document.id].append(_NamedFile(document, names[document.path]))
        return cls(version, dict(files), frozenset(names.values()))

    def name_of(self, id: str) -> str | None:
        files = self.files.get(id, [])
        if len(files) > 1:
            documents = [file.document for file in files]
            files = [file for file in files if is_present(file.document, documents)] or files
        return files[0].name if files else None

    def find(self, names: Container[str]) -> list[Document]:
        """Return the files that have one of these names."""
        return [file.document for files in self.files.values() for file in files if file.name in names]


_NO_NAMES = _CollectionNames(-1, {}, frozenset())


class ShownNames:
    """The names of the documents of some collections. May be shared by threads; follows the collections.

    Args:
        collections: Returns the collections by their names.
        paths: The files and folders that questions are asked about; all if there are none.
    """

    def __init__(
        self, collections: Callable[[], Mapping[str, Collection]], paths: Sequence[str | Path] = ()
    ) -> None:
        self._collections = collections
        self._folders = tuple(dict.fromkeys(folder for path in paths for folder in absolute_paths(path)))
        self._known: dict[tuple[str, tuple[str, ...]], _CollectionNames] = {}
        """By the address of the collection, and the folders."""

    @classmethod
    def of(cls, collection: Collection) -> ShownNames:
        """Return the names of the documents of one collection."""
        return cls(lambda: {collection.address: collection})

    def name_of(self, id: str) -> str | None:
        """Return the name of a document by its id; None for a document that no collection has.

        Where several collections have files of one name, the name of the collection comes first. A collection
        that cannot be read, such as one that is gone from the disk, names none.
        """
        collections = self._collections()
        for folders in dict.fromkeys([self._folders, ()]):
            for title, collection in collections.items():
                name = self._read(collection, folders).name_of(id)
                if name is not None:
                    others = (each for each in collections.values() if each is not collection)
                    is_shared = any(name in self._read(other, folders).names for other in others)
                    return f"{title}/{name}" if is_shared else name
        return None

    def find(self, name: str, documents: Sequence[Document]) -> list[Document]:
        """Return those of some documents that have this name, or else have it after that of their collection.

        Copies have names of their own, though only one of them is shown.
        """
        known = {(document.path, document.id): document for document in documents}
        collections = self._collections().values()
        for folders in dict.fromkeys([self._folders, ()]):
            for names_in in (_name_alone, _names_after_collection):
                files = [
                    file
                    for collection in collections
                    for file in self._read(collection, folders).find(names_in(name, collection))
                ]
                if found := [known[key] for file in files if (key := (file.path, file.id)) in known]:
                    return found
        return []

    def named(self, item: Item) -> Item:
        """Return an item with the name of its document."""
        name = self.name_of(item.document)
        return item if name is None else replace(item, shown_name=name)

    def named_hits(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return hits with the names of their documents."""
        names = {id: self.name_of(id) for id in dict.fromkeys(hit.document for hit in hits)}
        return [replace(hit, shown_name=names[hit.document] or hit.shown_name) for hit in hits]

    def _read(self, collection: Collection, folders: tuple[str, ...]) -> _CollectionNames:
        key = collection.address, folders
        known = self._known.get(key)
        try:
            if known is None or known.version != collection.version:
                known = self._known[key] = _CollectionNames.read(collection, folders)
        except CollectionError:
            return _NO_NAMES
        return known


def _name_alone(name: str, _: Collection) -> set[str]:
    return {name}


def _names_after_collection(name: str, collection: Collection) -> set[str]:
    """Return what is left of a name without the name of the collection: any end of its address."""
    parts = [part for part in collection.address.replace(os.sep, "/").split("/") if part]
    ends = ("/".join(parts[start:]) + "/" for start in range(len(parts)))
    return {name.removeprefix(end) for end in ends if name.startswith(end)}


def find_documents(
    target: str, groups: Sequence[Sequence[Document]], names: ShownNames, *, copies: bool = False
) -> list[Document]:
    """Find the documents at or below a path; else one by a name of it; else by its id.

    A name is one that is shown, or the end of a path. An id may be cut to its first eight digits. The first
    of the groups in which there is a document is used. With `copies`, a name may be that of several files
    with the same content.

    Raises `CollectionError` if there is none, or the name is that of several.
    """
    for documents in groups:
        for path in absolute_paths(target):
            if below := [document for document in documents if is_below(path, document)]:
                return below
        found = find_named(target, documents, names)
        if len({document.id for document in found} if copies else found) > 1:
            raise _ambiguous_error(target, found)
        if not found and len(target) >= _MIN_ID_DIGITS:
            found = [document for document in documents if document.id.startswith(target.lower())]
        if found:
            return found
    raise missing_error(target)


def find_named(name: str, documents: Sequence[Document], names: ShownNames) -> list[Document]:
    """Find the documents that are shown by a name; else those with paths that end with it."""
    parts = _readable(name.replace(os.sep, "/").removeprefix("./"))
    if shown := names.find(parts, documents):
        return shown
    return [
        document
        for document in documents
        if document.name == name or _readable(document.path.replace(os.sep, "/")).endswith(f"/{parts}")
    ]


def missing_error(target: str) -> CollectionError:
    """Return the error that nothing in the collection is meant by a path, a name or an id."""
    return CollectionError(f"{target} is not in the collection.", "See: vrag index status")


def _ambiguous_error(target: str, found: Sequence[Document]) -> CollectionError:
    paths = [document.shown_path for document in found]
    more = f" and {len(paths) - _MAX_LISTED} more" if len(paths) > _MAX_LISTED else ""
    listed = ", ".join(paths[:_MAX_LISTED]) + more
    return CollectionError(
        f"{len(paths)} documents are named {target}: {listed}.", "Give the path of the one you mean."
    )


def absolute_paths(path: str | Path) -> tuple[str, str]:
    """Return a path as it is written, made absolute; and without links."""
    return os.path.abspath(path), os.path.realpath(path)  # noqa: PTH100 - Path.resolve would follow links


def is_below(path: str, document: Document) -> bool:
    """Check whether a document is the file at this absolute path, or below it."""
    own, path = os.path.normcase(document.path), os.path.normcase(path)  # case counts for nothing on Windows
    return own == path or own.startswith(path.rstrip(os.sep) + os.sep)


def is_present(document: Document, others: Iterable[Document] = ()) -> bool:
    """Return whether a file is there under its very name, as far as that can be known.

    Where names differ in case or Unicode form alone, and the disk makes no difference between them, only one
    of `others` and this one is the name of the file.
    """
    path = document.path
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    folded = _folded(path)
    if all(other.path == path or _folded(other.path) != folded for other in others):
        return True
    try:
        return os.path.basename(path) in os.listdir(os.path.dirname(path))  # noqa: PTH119, PTH120, PTH208 - any bytes
    except OSError:
        return True


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _names_below(folders: Sequence[str], documents: Iterable[Document]) -> dict[str, str]:
    """Return the names of files below some absolute folders, or of these files themselves, by path.

    A name has more of the folders above it where two files would have the same one.
    """
    parts: dict[str, tuple[str, ...]] = {}
    lengths: dict[str, int] = {}
    for document in documents:
        folder = min((folder for folder in folders if is_below(folder, document)), key=len, default=None)
        if folder is not None:
            parts[document.path] = PurePath(document.path).parts
            lengths[document.path] = max(1, len(parts[document.path]) - len(PurePath(folder).parts))
    while True:
        names = {path: "/".join(parts[path][-length:]) for path, length in lengths.items()}
        paths_by_name: defaultdict[str, list[str]] = defaultdict(list)
        for path, name in names.items():
            paths_by_name[name].append(path)
        shared = [path for paths in paths_by_name.values() if len(paths) > 1 for path in paths]
        longer = {path: lengths[path] + 1 for path in shared if lengths[path] < len(parts[path])}
        if not longer:
            return {path: _readable(name) for path, name in names.items()}
        lengths |= longer


def _names_in_collection(documents: Iterable[Document], uploads: Path) -> dict[str, str]:
    """Return the names of all files of a collection, by path."""
    files = list(documents)
    folders = relative_folders((file.path for file in files if file.mtime_ns != ABSENT), uploads)
    names: dict[str, str] = {}
    for file in files:
        own = file.name.split(FOLDER_SIGN)[-1] if lies_in(file.path, uploads) else file.name
        names[file.path] = _readable("/".join(filter(None, [folders.get(file.path, ""), own])))
    return names


def _readable(name: str) -> str:
    """Return a name as valid Unicode, whatever the bytes on disk are."""
    return os.fsencode(name).decode("utf-8", "replace")


def relative_folders(paths: Iterable[str], uploads: Path) -> dict[str, str]:
    """Return the folder of each file, by absolute path, with `/` between its parts and empty at the top.

    A folder is relative to the innermost one that holds all files; if that is the root of the disk, each of
    its branches begins with the innermost folder that holds all of the branch. Files in `uploads` have the
    folder that is part of their name; one below `uploads` if another file of the name is there already.

    >>> relative_folders(["/r/2023/a.pdf", "/r/2024/q1/a.pdf", "/r/b.pdf"], Path("/uploads"))
    {'/r/2023/a.pdf': '2023', '/r/2024/q1/a.pdf': '2024/q1', '/r/b.pdf': ''}
    """
    uploaded: list[str] = []
    others: dict[str, tuple[str, ...]] = {}
    for path in paths:
        if lies_in(path, uploads):
            uploaded.append(path)
        else:
            others[path] = PurePath(path).parent.parts
    folders = _below_common(others)
    taken = {(folder, PurePath(path).name) for path, folder in folders.items()}
    for path in uploaded:
        name = PurePath(path).name
        folder = tuple(name.split(FOLDER_SIGN)[:-1])
        folders[path] = (uploads.name, *folder) if (folder, name) in taken else folder
    return {path: "/".join(folder) for path, folder in folders.items()}


def _below_common(folders: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Leave out what all folders begin with."""
    distinct = set(folders.values())
    common = _common(distinct)
    if len(common) > 1 or common in distinct:
        return {path: folder[len(common) :] for path, folder in folders.items()}
    branches: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for folder in distinct:
        branches[folder[len(common)]].add(folder)
    starts = {name: _common(branch) for name, branch in branches.items()}
    length = 1  # enough parts from the end for the branches to differ
    while len({start[-length:] for start in starts.values()}) < len(starts):
        length += 1
    cuts = {name: max(len(start) - length, len(common)) for name, start in starts.items()}
    return {path: folder[cuts[folder[len(common)]] :] for path, folder in folders.items()}


def _common(folders: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the parts that all folders begin with."""
    common: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return tuple(common)
