"""Items made from a local directory of files, for servers of the reference, which only name files.

Such a server answers with paths of its own machine and has no ids. A path that it names is never opened: its
trailing parts are looked up inside of one directory, and files outside of it are refused, through links too.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import warnings
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.formats.image import SUFFIXES, flatten, open_picture
from vrag.corpus.formats.video import SUFFIXES as VIDEO_SUFFIXES
from vrag.corpus.media import check_clip, clip_frames, decode_as_small_as
from vrag.errors import CollectionError, CorpusError, SearchError, SettingsError
from vrag.geometry import Size
from vrag.types import Clip, Item, ItemKind, TextSource

if TYPE_CHECKING:
    from collections.abc import Generator

    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

    from vrag.corpus.formats.video import VideoFrame
    from vrag.types import Hit

MAX_PIXELS = 100_000_000
MAX_PASSAGES = 10_000
"""Passages that are kept in memory, the latest."""
_DRIVE = re.compile(r"[A-Za-z]:")
_ORIENTATION = 0x0112
_ROTATED = frozenset({5, 6, 7, 8})
"""EXIF orientations that swap width and height."""


class ImageRoot:
    """The `ItemStore` of the files below a directory. May be shared by threads.

    A picture is a page without text: `report_12.jpg` is page 12 of `report`, and a name without a number page
    1 of a document of that name. A video is a clip, and its picture the first frame. Ids depend on the path
    below the directory and nothing else, so that a new object over it knows them too. Passages are those that
    the server sent; they are kept for a while and known to this object only. Raises `SettingsError` if it is
    not a directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        if not self.directory.is_dir():
            raise SettingsError(
                f"{directory} is not a directory.", "Give the directory of the server's pictures."
            )
        self._names: dict[str, str] = {}
        self._passages: OrderedDict[str, Item] = OrderedDict()
        self._listed = False
        self._lock = threading.Lock()

    def id_of(self, server_path: str) -> str | None:
        """Return the id of the item for a path of the server; None when it is not below the directory.

        Its longest end that exists counts: of `/data/corpus/img/a_1.jpg` first `data/corpus/img/a_1.jpg`,
        then `corpus/img/a_1.jpg` and so on to `a_1.jpg`.
        """
        parts = _parts(server_path)
        for start in range(len(parts)):
            name = "/".join(parts[start:])
            if self._inside(name) is not None:
                with self._lock:
                    self._names[_id(name)] = name
                return _id(name)
        return None

    def remember(self, server_path: str, content: str) -> str:
        """Keep a passage that the server sent, and return its id."""
        base = _parts(server_path)[-1:] or ["text"]
        document, id = _digest(server_path), f"{_digest(f'{server_path} {content}')[:16]}-1"
        with self._lock:
            self._passages[id] = Item(
                id=id,
                document=document,
                document_name=base[0],
                kind=ItemKind.PASSAGE,
                ordinal=1,
                text=content,
                text_source=TextSource.FILE,
            )
            while len(self._passages) > MAX_PASSAGES:
                self._passages.popitem(last=False)
        return id

    def holds(self, id: str) -> bool:
        """Check whether there is an item with this id. Lists the directory once."""
        if id in self._passages or id in self._names:
            return True
        with self._lock:
            if not self._listed:
                self._names = {_id(name): name for name in self._files()} | self._names
                self._listed = True
        return id in self._names

    def hit_of(self, id: str, hit: Hit) -> Hit:
        """Return a hit of the server with the id and the document that its item has here."""
        if (passage := self._passages.get(id)) is not None:
            return replace(hit, item=id, document=passage.document, document_name=passage.document_name)
        name = self._names[id]
        stem, number = page_of(name)
        return replace(hit, item=id, document=_document(name), document_name=stem, ordinal=number)

    def item(self, id: str) -> Item:
        """Return an item as `ItemStore.item` describes."""
        if (passage := self._passages.get(id)) is not None:
            return passage
        name, path = self._file(id)
        stem, number = page_of(name)
        clip, size = None, None
        if _is_video(name):
            with _damage_reported(path.name):
                clip = Clip(name, 0.0, check_clip(path))
            size = Size(*self._frames(name, path, 1.0, 1)[0].image.size)
        else:
            with _damage_reported(path.name), open_picture(path, MAX_PIXELS) as image:
                size = Size(*(reversed(image.size) if _is_rotated(image) else image.size))
        return Item(
            id=id,
            document=_document(name),
            document_name=stem,
            kind=ItemKind.CLIP if clip else ItemKind.PAGE,
            ordinal=number,
            size=size,
            image=name,
            clip=clip,
        )

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return the picture of an item, RGB, upright, on white where it is transparent."""
        if id in self._passages:
            raise SearchError(f"The item {id!r} has no picture: it is a passage.")
        name, path = self._file(id)
        if _is_video(name):
            return self._frames(name, path, 1.0, 1)[0].image
        with _damage_reported(name), open_picture(path, MAX_PIXELS) as image:
            if least is not None:
                decode_as_small_as(image, Size(*reversed(least)) if _is_rotated(image) else least)
            with warnings.catch_warnings(action="ignore"):
                return flatten(image).convert("RGB")

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return frames of a video as `ItemStore.frames` describes."""
        if id in self._passages:
            raise SearchError(f"The item {id!r} has no frames: it is a passage.")
        name, path = self._file(id)
        if not _is_video(name):
            raise SearchError(f"The item {id!r} has no frames: it is a page.")
        return self._frames(name, path, fps, most)

    def _frames(self, name: str, path: Path, fps: float, most: int) -> list[VideoFrame]:
        with _damage_reported(name):
            check_clip(path)
            return clip_frames(path, 0.0, fps=fps, most=most)

    def _file(self, id: str) -> tuple[str, Path]:
        if not self.holds(id):
            raise SearchError(f"There is no item {id[:100]!r} below {self.directory}.")
        name = self._names[id]
        path = self._inside(name)
        if path is None:
            raise CollectionError(f"{name} is no longer below {self.directory}.")
        return name, path

    def _inside(self, name: str) -> Path | None:
        """Return the file with this name below the directory; None without one, or if a link leads out."""
        if not name.lower().endswith((*SUFFIXES, *VIDEO_SUFFIXES)):
            return None
        try:
            path = (self.directory / name).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return None
        return path if path.is_relative_to(self.directory) and path.is_file() else None

    def _files(self) -> list[str]:
        """List all pictures and videos below the directory, by relative path; not in linked folders."""
        found: list[str] = []
        for folder, _, files in os.walk(self.directory):
            below = Path(folder).relative_to(self.directory)
            found += [(below / file).as_posix() for file in files]
        return sorted(name for name in found if self._inside(name) is not None)


def page_of(path: str) -> tuple[str, int]:
    """Return document and page by a file name: `<stem>_<page>.jpg`; page 1 where there is no number.

    >>> page_of("corpus/img/report_12.jpg")
    ('report', 12)
    """
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    stem, _, page = name.rsplit(".", 1)[0].rpartition("_")
    if stem and page.isascii() and page.isdigit() and int(page[:10]) > 0:
        return stem, int(page[:10])
    return name, 1


def _parts(server_path: str) -> list[str]:
    """Split a path that a server names; no parts when the path is hostile."""
    parts = [part for part in server_path.replace("\\", "/").split("/") if part not in {"", "."}]
    if parts and _DRIVE.fullmatch(parts[0]):
        parts = parts[1:]
    hostile = any(part == ".." or ":" in part or not part.isprintable() for part in parts)
    return [] if hostile else parts


def _id(name: str) -> str:
    """Make an id in the form of all ids of items: 16 hexadecimal digits and the page."""
    return f"{_digest(name)[:16]}-{page_of(name)[1]}"


def _document(name: str) -> str:
    """Return the id of the document that a file belongs to: all pages of one stem in one folder."""
    return _digest(f"{name.rpartition('/')[0]}/{page_of(name)[0]}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_video(name: str) -> bool:
    return name.lower().endswith(VIDEO_SUFFIXES)


def _is_rotated(image: ImageFile) -> bool:
    return image.getexif().get(_ORIENTATION) in _ROTATED


@contextmanager
def _damage_reported(name: str) -> Generator[None]:
    try:
        yield
    except (OSError, CorpusError) as error:
        raise CollectionError(
            f"{name} cannot be opened: {error}", "Replace it by an undamaged copy."
        ) from error
