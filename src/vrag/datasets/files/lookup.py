"""Files of a data set as published or downloaded: found by name, read row by row.

No path is ever made of what data says.
"""

from __future__ import annotations

import os
import re
import unicodedata
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vrag.cases.rows import object_of, read_rows
from vrag.datasets.files.archive import Member, members
from vrag.datasets.protocols import FileDocument, StreamDocument
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Mapping

    from vrag.datasets.protocols import Hub

PDF = (".pdf",)
"""Endings of PDFs, in lower case."""
MAX_NAME_BYTES = 200
_MAX_SAFE_BYTES, _MAX_ENDING_BYTES = 180, 20
"""Length of a name that is made, and of what counts as its ending."""
FORBIDDEN = frozenset('/\\:*?"<>|')
"""Characters that file names cannot have on some system."""
MAX_EXAMPLES = 5
"""Names in a message."""
OTHER_ARCHIVES = frozenset({".7z", ".001", ".bz2", ".gz", ".rar", ".tar", ".tgz", ".xz", ".z01", ".zst"})
"""Endings of archives that are not read here."""
_File = TypeVar("_File", bound="Path | Member")


class FileNames(Generic[_File]):
    """Files by name, also in other case or another form of Unicode.

    Archives that were packed or unpacked on another system spell names otherwise.
    """

    def __init__(self, files: Iterable[_File]) -> None:
        self._files: dict[str, _File] = {}
        self._alike: dict[str, _File] = {}
        self.add(files)

    def add(self, files: Iterable[_File]) -> None:
        """Add files, except those whose names are taken."""
        for file in files:
            if not isinstance(file, Path) or file.is_file():  # pipes are not files
                self._files.setdefault(file.name, file)
                self._alike.setdefault(_folded(file.name), file)

    def get(self, name: str) -> _File | None:
        """Return the file of a name; of several in different folders, the first."""
        return self._files.get(name) or self._alike.get(_folded(name))

    def without(self, names: Iterable[str]) -> list[_File]:
        """Return the files that have none of these names."""
        named = {self.get(name) for name in names}
        return [file for file in self._files.values() if file not in named]


def find_documents(
    folder: Path, names: Iterable[str], endings: Collection[str] = PDF, archives: str = "*.zip"
) -> FileNames[Path | Member]:
    """Find the documents in a folder, however deep; where some of `names` are missing, in archives as well.

    `archives` is the pattern of those to open first; all others follow as long as any document is missing.
    Raises `CaseError` if an archive is damaged, or may not be read; see `members`.
    """
    files = FileNames[Path | Member](path for path in find_all(folder, "*") if path.suffix.lower() in endings)
    needed = list(names)
    for path in dict.fromkeys(find_all(folder, archives) + find_all(folder, "*.[zZ][iI][pP]")):
        if all(files.get(name) for name in needed):
            break
        files.add(members(path, endings))
    return files


def filed(names: Iterable[str], files: FileNames[_File]) -> Iterator[FileDocument | StreamDocument]:
    """Yield the documents of names that have a file, under those names."""
    for name in names:
        if file := files.get(name):
            yield document(name, file)


def document(name: str, file: Path | Member) -> FileDocument | StreamDocument:
    """Return the document in a file."""
    return FileDocument(name, file) if isinstance(file, Path) else StreamDocument(name, file.pieces)


def need_all(names: Iterable[str], files: FileNames[_File], folder: Path, hub: Hub) -> None:
    """Check that there is a file for every name.

    Raises `CaseError` if there is not; names some of those that are missing.
    """
    needed = list(names)
    absent = [name for name in needed if files.get(name) is None]
    if not absent:
        return
    examples = ", ".join(f"{name:.80}" for name in absent[:MAX_EXAMPLES])
    paths = find_all(folder, "*")
    unread = [path.name for path in paths if path.suffix.lower() in OTHER_ARCHIVES]
    zips = [path.name for path in paths if path.suffix.lower() == ".zip"]
    unpack = ""
    if unread:
        unpack = f"Archives such as {unread[0]:.80} are not read: unpack them first. "
    elif zips:
        unpack = f"They are not in {zips[0]:.80} under these names: unpack it, and see. "
    raise CaseError(
        f"{folder} lacks {len(absent)} of the {len(needed)} documents that are asked about: "
        f"{examples}{', …' if len(absent) > MAX_EXAMPLES else ''}.",
        f"{unpack}Get them from {hub.repo}. {hub.note}".strip(),
    )


def pdf_name(name: str) -> str:
    """Return the name with the ending `.pdf`.

    >>> pdf_name("report"), pdf_name("report.PDF"), pdf_name("v1.2")
    ('report.pdf', 'report.PDF', 'v1.2.pdf')
    """
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def check_name(name: str, where: str, *, own: bool = False) -> str:
    """Return the name of a document if it is a plain file name.

    With `own` it is in the user's own file, who can change it. Raises `CaseError`, with the place of its row,
    if it leads to another folder, or is not a file name on some system.
    """
    bad = not name.isprintable() or bool(FORBIDDEN & set(name)) or name.startswith(".") or not name.strip()
    if bad or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        alone = re.split(r"[/\\]", name)[-1]
        hint = "Has the file been changed? Take it as it was published."
        if own:
            hint = f"Name the file alone: {alone:.80}. Files of one name in two folders need other names."
        raise CaseError(f"{where} names a document that is not a file name: {name!r:.80}.", hint)
    return name


def safe_name(name: str) -> str:
    """Replace each character that file names cannot have everywhere by an underscore, and shorten the name.

    Its ending stays: without one nobody would read the file.

    >>> safe_name("a/b: c.pdf"), safe_name("..")
    ('a_b_ c.pdf', '_.')
    """
    kept = "".join("_" if sign in FORBIDDEN or not sign.isprintable() else sign for sign in name)
    ending = PurePosixPath(kept).suffix.encode(errors="replace")
    if len(ending) > _MAX_ENDING_BYTES:
        ending = b""
    encoded = kept.encode(errors="replace")
    if len(encoded) > _MAX_SAFE_BYTES:
        encoded = encoded[: _MAX_SAFE_BYTES - len(ending)].decode(errors="ignore").encode() + ending
    return re.sub(r"^(?=$|\s*$)|^\.", "_", encoded.decode(errors="ignore"))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def find_all(folder: Path, *patterns: str) -> list[Path]:
    """Find the files in a folder, however deep, whose path ends as the first pattern that any does.

    Names that begin with a dot are passed over; links to files are files. The pattern `a/b*.json` fits a file
    `b1.json` in a folder `a`, which may be `folder`. The files are in order; none if there are none. Raises
    `CaseError` if it is not a folder.
    """
    if not folder.is_dir():
        raise CaseError(
            f"{folder} is not a directory.", "Name the folder that the files were downloaded into."
        )
    paths: list[Path] = []
    for parent, folders, names in os.walk(folder.absolute()):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        paths += (Path(parent) / name for name in names if not name.startswith("."))
    paths.sort()
    for pattern in patterns:
        fitting = (path for path in paths if path.match(pattern))
        if found := [path for path in fitting if path.is_file()]:  # reading a pipe would block
            return found
    return []


def choose_split(
    folder: Path, splits: Mapping[str, tuple[str, ...]], split: str | None, hub: Hub
) -> tuple[str, list[Path]]:
    """Return the name and the files of a split: those of one folder, or one where they are one file.

    `splits` has the patterns of each split's files, the usual split first. Without a name, it is the first
    that is present. Raises `CaseError` if there is no such split, or its files are missing.
    """
    if split is not None and split not in splits:
        raise CaseError(
            f"There is no split {split!r} with answers.", f"Those that can be asked: {', '.join(splits)}."
        )
    candidates = [split] if split is not None else list(splits)
    for name in candidates:
        if found := find_all(folder, *splits[name]):
            shards = [path for path in found if path.parent == found[0].parent]
            return name, shards if found[0].suffix == ".parquet" else shards[:1]
    raise missing(folder, splits[candidates[0]][0], hub)


def missing(folder: Path, files: str, hub: Hub) -> CaseError:
    """Return the error of files that are not there, with the place to get them from."""
    return CaseError(f"{folder} holds no {files}.", f"Get it from {hub.repo}. {hub.note}".strip())


def objects(paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of files, each with its place in words; an error if a row is not an object."""
    for path in paths:
        for number, row in enumerate(read_rows(path), 1):
            where = f"{path}, row {number}"
            with blamed():
                fields = object_of(row, where)
            yield where, fields


@contextmanager
def blamed(where: str = "") -> Generator[None]:
    """Put the place in front of the message of a `CaseError`, and add a hint if it has none."""
    try:
        yield
    except CaseError as error:
        hint = error.hint or "Take the file as it was published."
        raise CaseError(f"{where}: {error.message}" if where else error.message, hint) from error
