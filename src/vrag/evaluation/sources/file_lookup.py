"""Documents by the names that questions have for them; no path is ever made of what data says."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Generic, TypeVar

from vrag.errors import CaseError
from vrag.evaluation.benchmark import FileDocument, StreamDocument
from vrag.evaluation.sources.archive import Member, members
from vrag.evaluation.sources.source_files import find_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from vrag.evaluation.benchmark import Hub

__all__ = [
    "PDF",
    "FileNames",
    "check_name",
    "document",
    "filed",
    "find_documents",
    "need_all",
    "pdf_name",
    "safe_name",
]

PDF = (".pdf",)
"""How names of PDFs end, in lower case."""

LONGEST_NAME = 200
"""Bytes of a file name."""
_SAFE_BYTES, _LONGEST_ENDING = 180, 20
"""Bytes of a name that is made, and of what counts as its ending."""
FORBIDDEN = frozenset('/\\:*?"<>|')
"""What file names cannot have on some system."""
SHOWN = 5
"""Names in a message."""
OTHER_ARCHIVES = frozenset({".7z", ".001", ".bz2", ".gz", ".rar", ".tar", ".tgz", ".xz", ".z01", ".zst"})
"""How names of archives end that are not read here."""
_File = TypeVar("_File", bound="Path | Member")


class FileNames(Generic[_File]):
    """Files by name: as it is spelled, or else in other case or another form of Unicode.

    Archives that were packed or unpacked on another system spell names otherwise.
    """

    def __init__(self, files: Iterable[_File]) -> None:
        self._files: dict[str, _File] = {}
        self._alike: dict[str, _File] = {}
        self.add(files)

    def add(self, files: Iterable[_File]) -> None:
        """Adds files; those of names that are taken are not."""
        for file in files:
            if not isinstance(file, Path) or file.is_file():  # pipes are none
                self._files.setdefault(file.name, file)
                self._alike.setdefault(_folded(file.name), file)

    def get(self, name: str) -> _File | None:
        """The file of a name; of several in different folders, the first."""
        return self._files.get(name) or self._alike.get(_folded(name))

    def without(self, names: Iterable[str]) -> list[_File]:
        """The files that none of these names is for."""
        named = {self.get(name) for name in names}
        return [file for file in self._files.values() if file not in named]


def find_documents(
    folder: Path, wanted: Iterable[str], endings: Collection[str] = PDF, archives: str = "*.zip"
) -> FileNames[Path | Member]:
    """The documents in a folder, however deep; where some that are wanted are missing, in archives as well.

    Args:
        folder: Where to look.
        wanted: Their names.
        endings: Of names of documents, in lower case.
        archives: Which are opened first; all others after them, as long as any document is missing.

    Raises:
        CaseError: If an archive is damaged, or may not be read; see `members`.
    """
    files = FileNames[Path | Member](path for path in find_all(folder, "*") if path.suffix.lower() in endings)
    names = list(wanted)
    for path in dict.fromkeys(find_all(folder, archives) + find_all(folder, "*.[zZ][iI][pP]")):
        if all(files.get(name) for name in names):
            break
        files.add(members(path, endings))
    return files


def filed(names: Iterable[str], files: FileNames[_File]) -> Iterator[FileDocument | StreamDocument]:
    """The documents of names that there is a file for, under those names."""
    for name in names:
        if file := files.get(name):
            yield document(name, file)


def document(name: str, file: Path | Member) -> FileDocument | StreamDocument:
    """The document in a file."""
    return FileDocument(name, file) if isinstance(file, Path) else StreamDocument(name, file.pieces)


def need_all(names: Iterable[str], files: FileNames[_File], folder: Path, hub: Hub) -> None:
    """Makes sure that there is a file for every name.

    Raises:
        CaseError: If there is not; names some of those that are missing.
    """
    wanted = list(names)
    if gone := [name for name in wanted if files.get(name) is None]:
        listed = ", ".join(f"{name:.80}" for name in gone[:SHOWN]) + (", …" if len(gone) > SHOWN else "")
        raise CaseError(
            f"{folder} lacks {len(gone)} of the {len(wanted)} documents that are asked about: {listed}.",
            f"{_to_unpack(folder)}Get them from {hub.repo}. {hub.note}".strip(),
        )


def _to_unpack(folder: Path) -> str:
    """What to do about archives that are not read here, or have other names; empty without any."""
    there = find_all(folder, "*")
    packed = [path.name for path in there if path.suffix.lower() in OTHER_ARCHIVES]
    if packed:
        return f"Archives such as {packed[0]:.80} are not read: unpack them first. "
    zips = [path.name for path in there if path.suffix.lower() == ".zip"]
    return f"They are not in {zips[0]:.80} under these names: unpack it, and see. " if zips else ""


def pdf_name(name: str) -> str:
    """A name that ends in `.pdf`.

    >>> pdf_name("report"), pdf_name("report.PDF"), pdf_name("v1.2")
    ('report.pdf', 'report.PDF', 'v1.2.pdf')
    """
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def check_name(name: str, where: str, *, own: bool = False) -> str:
    """A name of a document that is a plain file name.

    Args:
        name: The name.
        where: What to call its row in an error.
        own: It is in somebody's own file, who can change it.

    Raises:
        CaseError: If it leads to another folder, or is no file name on some system.
    """
    bad = not name.isprintable() or bool(FORBIDDEN & set(name)) or name.startswith(".") or not name.strip()
    if bad or len(name.encode(errors="replace")) > LONGEST_NAME:
        alone = re.split(r"[/\\]", name)[-1]
        hint = "Has the file been changed? Take it as it was published."
        if own:
            hint = f"Name the file alone: {alone:.80}. Files of one name in two folders need other names."
        raise CaseError(f"{where} names a document that is no file name: {name!r:.80}.", hint)
    return name


def safe_name(name: str) -> str:
    """A name with an underscore for each sign that file names do not have everywhere, and not too long.

    Its ending stays: without one nobody would read the file.

    >>> safe_name("a/b: c.pdf"), safe_name("..")
    ('a_b_ c.pdf', '_.')
    """
    kept = "".join("_" if sign in FORBIDDEN or not sign.isprintable() else sign for sign in name)
    ending = PurePosixPath(kept).suffix.encode(errors="replace")
    if len(ending) > _LONGEST_ENDING:
        ending = b""
    told = kept.encode(errors="replace")
    if len(told) > _SAFE_BYTES:
        told = told[: _SAFE_BYTES - len(ending)].decode(errors="ignore").encode() + ending
    return re.sub(r"^(?=$|\s*$)|^\.", "_", told.decode(errors="ignore"))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
