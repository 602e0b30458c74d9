"""Lists of entries of an index of the reference: each entry names a file, or is itself a text.

The reference keeps such lists as `.jsonl`: `{"type": "image" | "video", "file_path"}` or
`{"type": "text", "file_path", "content"}`, with `uid` where it was given one. Its paths are those
of the machine that it was written on, and a list may come from anybody: `FileFinder` looks for the files,
and decides which of them an entry may name at all.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vrag.corpus.convert import convert_all
from vrag.corpus.converter import Conversion, Converted, Finished, ItemCount, SourceFile
from vrag.corpus.discover import Skipped, find
from vrag.corpus.formats.image import SUFFIXES as PICTURES
from vrag.corpus.formats.video import SUFFIXES as VIDEOS
from vrag.types import ABSENT, Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from vrag.corpus.converter import CorpusOptions
    from vrag.index.vectors.embed_items import Present

MAX_LINE_BYTES = 64 * 2**20
"""Bytes of one entry at most."""
_WHOLE_VIDEO = 366 * 24 * 3600.0
"""Seconds: an entry stands for a whole video, which is therefore not cut."""
_SEPARATOR = re.compile(r"[\\/]")
_SURROGATES = re.compile("[\ud800-\udfff]")


class BadEntry(ValueError):
    """An entry that cannot be used, with the reason."""


class EntryKind(StrEnum):
    """The kind of an entry: the reference's `type`."""

    IMAGE = "image"
    VIDEO = "video"
    TEXT = "text"


_ITEM_KINDS = {
    EntryKind.IMAGE: ItemKind.PAGE,
    EntryKind.VIDEO: ItemKind.CLIP,
    EntryKind.TEXT: ItemKind.PASSAGE,
}
_SUFFIXES = {
    EntryKind.IMAGE: frozenset(PICTURES),
    EntryKind.VIDEO: frozenset(VIDEOS),
    EntryKind.TEXT: frozenset[str](),
}
"""Suffixes of the files that an entry may name. A text is in its entry, never in a file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListEntry:
    """One line of a list."""

    kind: EntryKind
    path: str
    """The path in the list: valid Unicode, maybe of another machine; may be empty for a text."""
    content: str = ""
    """The text of a text."""
    uid: str = ""
    origin: Path
    """Folder of the list: relative paths start there."""
    size: int | None = None
    """Bytes of the file when the list was written, where it is given."""
    vector: Callable[[], NDArray[np.float32]] | None = None
    """Reads its vector or vectors; None when it has none yet."""
    digest: str
    """SHA-256 over kind, name, text and vectors: the id of its document when there is no file."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return _SEPARATOR.split(self.path)[-1] or self.uid or str(self.kind)

    @classmethod
    def parse(cls, record: object, origin: Path) -> ListEntry:
        """Parse one line of a `.jsonl`."""
        if not isinstance(record, dict):
            raise BadEntry("It is not a JSON object.")
        fields = cast("dict[str, Any]", record)
        try:
            kind = EntryKind(fields.get("type"))
        except ValueError:
            raise BadEntry(f"Its type is {fields.get('type')!r}, not image, video or text.") from None
        path = _read_text(fields, "file_path", required=kind is not EntryKind.TEXT)
        content = _read_text(fields, "content", required=kind is EntryKind.TEXT)
        uid = fields.get("uid", "")
        if isinstance(uid, bool) or not isinstance(uid, str | int):
            raise BadEntry("Its uid is neither a text nor a number.")
        uid = valid_text(str(uid))
        entry = cls(kind=kind, path=path, content=content, uid=uid, origin=origin, digest="")
        return replace(entry, digest=entry.digest_with(b""))

    def digest_with(self, vectors: bytes) -> str:
        """Compute the digest with these vectors."""
        head = "\0".join((self.kind, self.name, self.content, ""))
        return hashlib.sha256(head.encode() + vectors).hexdigest()


def valid_text(text: str) -> str:
    """Replace surrogates, which no file can store."""
    return _SURROGATES.sub("\ufffd", text)


def _read_text(fields: Mapping[str, Any], name: str, *, required: bool) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise BadEntry(f"Its {name} is not a text.")
    if required and not value.strip():
        raise BadEntry(f"It has no {name}.")
    return valid_text(value)


def read_list(path: Path) -> Iterator[ListEntry | Skipped]:
    """Read the lines of a `.jsonl` in order, one at a time; for a line that cannot be used, the reason.

    Empty lines are left out.
    """
    with path.open("rb") as file:
        for number in itertools.count(1):
            line = file.readline(MAX_LINE_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_LINE_BYTES:
                yield Skipped(path, f"Line {number} and what follows: longer than {MAX_LINE_BYTES:,} bytes.")
                return
            try:
                if line.strip():
                    yield ListEntry.parse(json.loads(line), path.parent)
            except BadEntry as error:
                yield Skipped(path, f"Line {number}: {error}")
            except (ValueError, RecursionError):
                yield Skipped(path, f"Line {number}: It is not JSON, or cut short.")


class FileFinder:
    """A finder of the files that entries name, in two folders and nowhere else.

    Files are copied into a collection, shown and passed on, and the author of the list chose their names. A
    file therefore counts only when it is below the folder of the list or below `folder`, after all links are
    followed; an image only by the suffix of a picture, a video only by that of a video. Files elsewhere,
    named by an absolute path or one with `..`, are not even accessed.

    The order is: the path, from the folder of the list; a file of that name below `folder`, of several the
    one whose path ends most like the entry's. Where the list has a size, files of another size are ignored.
    Without `folder`, all files are below the folder of the list.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._real: dict[Path, Path] = {}
        self._by_name: dict[str, list[Path]] = {}
        for path in find([folder]) if folder else ():
            if isinstance(path, Path):
                self._by_name.setdefault(path.name, []).append(path)

    def find(self, entry: ListEntry) -> Path | None:
        """Return the absolute path of its file; None when there is none, or several are as likely."""
        suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 - a name of another system
        if suffix not in _SUFFIXES[entry.kind]:
            return None
        return self._find_by_path(entry) or self._find_by_name(entry)

    def _find_by_path(self, entry: ListEntry) -> Path | None:
        """Return the file at its path, if that is below the folder of the list."""
        origin = os.path.abspath(entry.origin)  # noqa: PTH100 - the path is to be the one that was typed
        path = Path(os.path.abspath(os.path.join(origin, entry.path)))  # noqa: PTH100, PTH118
        if not path.is_relative_to(origin) or not _matches(os.fspath(path), entry):
            return None
        try:
            if entry.origin not in self._real:
                self._real[entry.origin] = entry.origin.resolve(strict=True)
            return path if path.resolve(strict=True).is_relative_to(self._real[entry.origin]) else None
        except (OSError, RuntimeError):
            return None

    def _find_by_name(self, entry: ListEntry) -> Path | None:
        parts = _SEPARATOR.split(entry.path)
        best: list[Path] = []
        longest = 0
        for path in self._by_name.get(entry.name, ()):
            if _matches(os.fspath(path), entry):
                pairs = zip(reversed(parts), reversed(path.parts), strict=False)
                common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
                if common > longest:
                    best, longest = [], common
                best += [path] if common == longest else []
        return best[0] if len(best) == 1 else None


def _matches(path: str, entry: ListEntry) -> bool:
    if not os.path.isfile(path):  # noqa: PTH113 - also says no to what cannot be a path
        return False
    return entry.size is None or os.path.getsize(path) == entry.size  # noqa: PTH202


@dataclass(frozen=True, slots=True)
class Listing:
    """Distinct entries, with the rows of the manifest that they will have."""

    entries: dict[str, ListEntry]
    """By path of the row: that of the file, or a made-up one."""
    sources: tuple[Path | SourceFile, ...]
    """The sources for `build.add_sources`: entries without a file first, as a `SourceFile` of its own."""
    found: frozenset[str]
    """Digests of the entries whose file was found."""
    missing: int
    """Entries that name a file which was not found."""
    duplicates: int
    """Entries that repeat another one."""


def list_entries(entries: Iterable[ListEntry], finder: FileFinder) -> Listing:
    """Find the files of entries, and remove duplicates.

    Of entries with the same content (kind, name, text, vectors) or the same file, the first counts; one
    whose file is found before one whose file is not.

    The row of an entry without a file: its path is the one in the list, below the folder of the list
    when it is relative, with `#uid` or a number where that is needed to tell rows apart; its
    modification time is `ABSENT`.
    """
    placed = [(entry, finder.find(entry)) for entry in entries]
    placed.sort(key=lambda pair: pair[1] is None)  # stable: found ones first, each part in order
    rows: dict[str, ListEntry] = {}
    bare: list[SourceFile] = []
    files: list[Path] = []
    seen: set[str] = set()
    for entry, file in placed:
        if entry.digest in seen or (file is not None and os.fspath(file) in rows):
            continue
        seen.add(entry.digest)
        if file is not None:
            rows[os.fspath(file)] = entry
            files.append(file)
            continue
        name = entry.path.replace("\0", "\ufffd") or entry.name
        path = os.path.abspath(os.path.join(entry.origin, name))  # noqa: PTH100, PTH118 - may be no path here
        path = f"{path}#{entry.uid}" if entry.uid else path
        numbered = (f"{path}#{number}" for number in itertools.count(2))
        path = next(free for free in itertools.chain([path], numbered) if free not in rows)
        rows[path] = entry
        bare.append(SourceFile(Path(path), entry.digest, entry.name, len(entry.content.encode()), ABSENT))
    return Listing(
        rows,
        (*bare, *files),
        frozenset(rows[os.fspath(file)].digest for file in files),
        sum(rows[os.fspath(source.path)].kind is not EntryKind.TEXT for source in bare),
        len(placed) - len(rows),
    )


def convert_entries(
    entries: Mapping[str, ListEntry],
    sources: Iterator[SourceFile],
    items_dir: Path,
    options: CorpusOptions,
    have: Present,
) -> Generator[Conversion, None, None]:
    """Make the items of `Listing.entries`: of files as always, but videos stay whole; of others one.

    Sources without a file come before those with one.
    """
    for source in sources:
        entry = entries[os.fspath(source.path)]
        if source.mtime_ns != ABSENT:
            rest = itertools.chain([source], sources)
            for made in convert_all(rest, items_dir, replace(options, clip_seconds=_WHOLE_VIDEO), have):
                if isinstance(made, Converted):
                    uid = entries[os.fspath(made.source.path)].uid
                    yield Converted(made.source, replace(made.item, uid=uid))
                else:
                    yield made
            return
        yield ItemCount(source, 1)
        if 1 not in have(source):
            yield Converted(source, bare_item(source, entry))
        yield Finished(source)


def bare_item(source: SourceFile, entry: ListEntry) -> Item:
    """Make the one item of an entry without a file."""
    text = entry.content
    return Item(
        id=item_id(source.document, 1),
        document=source.document,
        document_name=source.name,
        kind=_ITEM_KINDS[entry.kind],
        ordinal=1,
        text=text,
        text_source=TextSource.FILE if text else TextSource.NONE,
        uid=entry.uid,
    )
