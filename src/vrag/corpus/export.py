"""Export of documents to files in a folder: pages as JPEG images, videos as clips.

The same converters as for a collection do the work, without OCR. A page is `<stem>_<page from 1>.jpg`, a
clip `<stem>_<clip from 1>.mp4` or whatever its container is. Where several documents have the same stem,
the second one's files are named `<stem>-2_…` and so on, in the order in which the documents are found.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.convert import CONVERTERS, convert_all
from vrag.corpus.converter import Converted, Failed
from vrag.corpus.discover import Skipped, find, read_source
from vrag.corpus.formats.image import JPEG_QUALITY
from vrag.corpus.formats.image import SUFFIXES as IMAGE
from vrag.corpus.formats.office import SUFFIXES as OFFICE
from vrag.corpus.formats.video import CONTAINERS
from vrag.corpus.formats.video import SUFFIXES as VIDEO
from vrag.errors import CollectionError
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.corpus.converter import Converter, CorpusOptions, SourceFile
    from vrag.geometry import Size
    from vrag.types import Clip, Item

ALREADY_EXISTS = "{} already exists; --overwrite replaces it."


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written."""

    path: Path
    source: Path
    """The document it comes from."""
    ordinal: int
    """Number of the page or clip, from 1."""
    size: Size | None
    """Of the page in pixels; None for clips."""
    clip: Clip | None = None
    """Its times; None for pages. Its path is meaningless here."""


@dataclass(frozen=True, slots=True)
class ExportProblem:
    """A document, page or clip that could not be exported."""

    source: Path
    ordinal: int | None
    """Number of the page or clip; None when it concerns the whole document."""
    reason: str
    """The reason of the failure, for people."""


def export_pages(
    paths: Sequence[Path], out: Path, options: CorpusOptions, *, overwrite: bool = False
) -> Iterator[Exported | ExportProblem]:
    """Write every page of PDF files, office documents and images as a JPEG file, in parallel.

    Folders are searched at any depth; the one to write to is created if needed. Existing files are a problem
    unless they are to be replaced. Files are yielded as they are written, and problems; pages in any order.
    Raises `CollectionError` if the folder cannot be written.
    """
    pages = {suffix: CONVERTERS[suffix] for suffix in (".pdf", *OFFICE, *IMAGE)}
    yield from _Export(out, pages, "It has no pages.", overwrite=overwrite).run(paths, options)


def export_clips(
    paths: Sequence[Path], out: Path, options: CorpusOptions, *, overwrite: bool = False
) -> Iterator[Exported | ExportProblem]:
    """Cut videos into clips of `options.clip_seconds`; otherwise like `export_pages`."""
    videos = {suffix: CONVERTERS[suffix] for suffix in VIDEO}
    yield from _Export(out, videos, "It is not a video.", overwrite=overwrite).run(paths, options)


class _Export:
    """One run, with the names and problems of the documents read so far."""

    def __init__(
        self, out: Path, converters: Mapping[str, Converter], unsupported: str, *, overwrite: bool
    ) -> None:
        self._out = out
        self._converters = converters
        self._unsupported = unsupported
        """Reason for files of other types."""
        self._overwrite = overwrite
        self._stems: set[str] = set()
        self._names: dict[str, str] = {}
        """Document id of this run → prefix of its files' names."""
        self._problems: list[ExportProblem] = []

    def run(self, paths: Sequence[Path], options: CorpusOptions) -> Iterator[Exported | ExportProblem]:
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            with scratch_directory(self._out, hidden=True) as folder:
                options = replace(options, ocr="never")
                for event in convert_all(self._sources(paths), folder, options, converters=self._converters):
                    yield from self._pop_problems()
                    if isinstance(event, Failed):
                        yield ExportProblem(event.source.path, event.ordinal, event.reason)
                    elif isinstance(event, Converted) and (event.item.image or event.item.clip):
                        yield self._deliver(event.source, event.item, folder)
                yield from self._pop_problems()
        except OSError as error:
            raise CollectionError(f"{self._out} cannot be written: {error.strerror or error}.") from error

    def _pop_problems(self) -> list[ExportProblem]:
        problems, self._problems = self._problems, []
        return problems

    def _sources(self, paths: Sequence[Path]) -> Iterator[SourceFile]:
        """Yield the documents, each with an id of its own: equal files are each exported."""
        own = Path(os.path.abspath(self._out))  # noqa: PTH100 - Path.resolve would follow links
        numbers = itertools.count()
        for found in find(paths):
            path = found.path if isinstance(found, Skipped) else found
            if isinstance(found, Skipped):
                self._problems.append(ExportProblem(path, None, found.reason))
            elif path.suffix.lower() not in self._converters:
                self._problems.append(ExportProblem(path, None, self._unsupported))
            elif not path.is_relative_to(own) or path in map(Path.absolute, paths):
                yield from self._read(path, next(numbers))

    def _read(self, path: Path, number: int) -> Iterator[SourceFile]:
        """Yield a document under its name in this run, or nothing when it cannot be read."""
        try:
            source = replace(read_source(path), document=f"{number:016x}")
        except OSError as error:
            self._problems.append(ExportProblem(path, None, f"It cannot be read: {error.strerror or error}."))
            return
        names = itertools.chain([path.stem], (f"{path.stem}-{number}" for number in itertools.count(2)))
        name = next(name for name in names if name.casefold() not in self._stems)  # on any file system
        self._stems.add(name.casefold())
        first_files = (self._out / f"{name}_1{suffix}" for suffix in (".jpg", *CONTAINERS))
        if not self._overwrite and (existing := next(filter(Path.exists, first_files), None)):
            self._problems.append(ExportProblem(path, None, ALREADY_EXISTS.format(existing.name)))
            return
        self._names[source.document] = name
        yield source

    def _deliver(self, source: SourceFile, item: Item, folder: Path) -> Exported | ExportProblem:
        from PIL import Image

        file = folder / (item.clip.path if item.clip else str(item.image))
        suffix = file.suffix if item.clip else ".jpg"
        path = self._out / f"{self._names[source.document]}_{item.ordinal}{suffix}"
        if path.exists() and not self._overwrite:
            file.unlink()
            return ExportProblem(source.path, item.ordinal, ALREADY_EXISTS.format(path.name))
        if suffix == ".jpg" and file.suffix != ".jpg":
            jpeg = file.with_suffix(".jpg")
            with Image.open(file, formats=("PNG", "JPEG")) as image:
                image.convert("RGB").save(jpeg, quality=JPEG_QUALITY, subsampling=0)
            file = jpeg
        file.replace(path)
        return Exported(path, source.path, item.ordinal, None if item.clip else item.size, item.clip)
