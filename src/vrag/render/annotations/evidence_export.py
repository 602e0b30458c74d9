"""Evidence as files in a folder: annotated PDF files, Web Annotations, and pictures of each cited place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath
from typing import BinaryIO

from vrag.agent.runs.run_store import StoredRun
from vrag.atomic_io import atomic_file
from vrag.corpus.formats.pdfium import PageFrame
from vrag.errors import CorpusError, FileTooLargeError, RunError
from vrag.geometry import Size, encode_jpeg
from vrag.render.annotations.cited_place import CitedPlace, cited_places
from vrag.render.annotations.evidence_sources import EvidenceSources
from vrag.render.annotations.pdf_copy import StoredPage, annotate_pdf, page_frames, write_stored_pages
from vrag.render.annotations.pictures import draw_numbered, draw_page, draw_part, encode_png
from vrag.render.annotations.web_annotation import annotation_collection
from vrag.render.text_format import size, where
from vrag.text.numerals import count
from vrag.types import ItemKind

ANNOTATIONS = "annotations.jsonld"
SIGNATURE_NOTE = "The file is digitally signed; in the annotated copy the signature is not valid."
STORED_NOTE = "Pages as stored in the collection, not the file itself."
NOTHING_DRAWN_HINT = "Export it as annotations, which need no picture."
MAX_STEM_CHARS = 60
_ANNOTATED = re.compile(r"-annotated(-\d+)?\.pdf$")
_UNSAFE = re.compile(r"[^\w.() -]+")
_MARKS = {ItemKind.PAGE: "p", ItemKind.CLIP: "clip", ItemKind.PASSAGE: "passage"}


class EvidenceFormat(StrEnum):
    """A kind of files that evidence is exported to."""

    PDF = "pdf"
    """Source files with highlights and numbered notes."""
    ANNOTATIONS = "annotations"
    """A W3C Web Annotation collection."""
    PICTURES = "pictures"
    """PNG files of each cited place."""


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file that was written."""

    name: str
    format: EvidenceFormat
    document: str
    """File name of the document; empty for the annotations of all."""
    citations: tuple[str, ...]
    """Numbers of the citations in it."""
    note: str = ""
    """What is to be known of it, such as that it is not made from the source file."""


@dataclass(frozen=True, slots=True)
class OmittedPlace:
    """A cited place of which nothing could be drawn."""

    citation: str
    document: str
    reason: str


@dataclass(frozen=True, slots=True)
class EvidenceExport:
    """The files of an export."""

    folder: Path
    files: tuple[EvidenceFile, ...]
    omitted: tuple[OmittedPlace, ...]

    @property
    def summary(self) -> str:
        """The number of files by kind and their size, in words."""
        kinds = {
            "annotated PDF file": EvidenceFormat.PDF,
            "file of annotations": EvidenceFormat.ANNOTATIONS,
            "picture": EvidenceFormat.PICTURES,
        }
        counts = {noun: sum(file.format is kind for file in self.files) for noun, kind in kinds.items()}
        total = sum((self.folder / file.name).stat().st_size for file in self.files)
        parts = [_plural(number, noun) for noun, number in counts.items() if number]
        return f"{', '.join(parts)}, {size(total)}" if parts else "no files"

    @property
    def annotated_copies(self) -> dict[str, Path]:
        """The annotated copies of source files, which have all their pages, by numbers of citations."""
        copies = (file for file in self.files if _ANNOTATED.search(file.name))
        return {number: self.folder / file.name for file in copies for number in file.citations}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the files, and the places that are missing, a line each."""
        noted = [f"{file.name}: {file.note}" for file in self.files if file.note]
        missing = [f"[{place.citation}] {place.document}: {place.reason}" for place in self.omitted]
        return (*noted, *dict.fromkeys(missing))


def export_evidence(
    runs: Sequence[StoredRun],
    sources: EvidenceSources,
    folder: Path,
    formats: Collection[EvidenceFormat],
    *,
    title: str = "",
    progress: Callable[[str], None] | None = None,
    max_bytes: int | None = None,
) -> EvidenceExport:
    """Write the evidence of the answers of runs to files in a folder, each whole or not at all.

    A document whose file is gone, changed, protected or no PDF file is drawn from its stored pages, and says
    so.

    Args:
        runs: In order; those without an answer cite nothing.
        sources: The files and pages.
        folder: An existing folder; files with the same names are replaced.
        formats: The kinds of files.
        title: Label of the annotations; by default the question, or the number of questions.
        progress: Called with a line that says what is being written.
        max_bytes: Size of all files together beyond which the export is given up.

    Raises:
        RunError: If nothing is cited, or nothing of it can be written.
        FileTooLargeError: If the files are larger than `max_bytes`.
        OSError: If the folder cannot be written.
    """
    places = cited_places(runs)
    if not places:
        raise RunError("No answer has evidence, so there is nothing to export.")
    export = _EvidenceWriter(sources, folder, progress or (lambda _: None), max_bytes)
    documents: dict[str, list[CitedPlace]] = {}
    for place in places:
        documents.setdefault(place.evidence.document_id, []).append(place)
    if EvidenceFormat.PDF in formats or EvidenceFormat.ANNOTATIONS in formats:
        for of_document in documents.values():
            export.write_document(of_document, annotated=EvidenceFormat.PDF in formats)
    if EvidenceFormat.ANNOTATIONS in formats:
        default = runs[0].started.question if len(runs) == 1 else count(len(runs), "question")
        export.write_annotations(places, title or default)
    if EvidenceFormat.PICTURES in formats:
        for place in places:
            export.write_pictures(place)
    exported = EvidenceExport(folder, tuple(export.files), tuple(dict.fromkeys(export.omitted)))
    if not exported.files:
        raise RunError(
            f"Nothing of the evidence can be drawn. {' '.join(exported.notes)}", NOTHING_DRAWN_HINT
        )
    return exported


@dataclass
class _EvidenceWriter:
    sources: EvidenceSources
    folder: Path
    progress: Callable[[str], None]
    max_bytes: int | None
    files: list[EvidenceFile] = field(default_factory=list[EvidenceFile])
    omitted: list[OmittedPlace] = field(default_factory=list[OmittedPlace])
    frames: dict[tuple[str, int], PageFrame] = field(default_factory=dict[tuple[str, int], PageFrame])
    """Visible parts of pages of PDF files, by document and page."""
    names: set[str] = field(default_factory=set[str])
    bytes: int = 0
    """Size of the files together."""

    def write_document(self, places: Sequence[CitedPlace], *, annotated: bool) -> None:
        """Write the annotated copy of a document or its stored pages, and learn the frames of its pages."""
        first = places[0].evidence
        self.progress(first.document)
        source = self.sources.pdf(first)
        reason = (
            source if isinstance(source, str) else self._write_copy(source.data, places, annotated=annotated)
        )
        if annotated and reason:
            self._write_stored_pages(places, reason)

    def write_annotations(self, places: Sequence[CitedPlace], title: str) -> None:
        """Write the annotations of all places."""
        collection = annotation_collection(
            places,
            title=title,
            frame=lambda evidence: self.frames.get((evidence.document_id, evidence.page)),
            is_hash=self.sources.is_hash,
        )
        text = json.dumps(collection, ensure_ascii=False, indent=2)
        numbers = tuple(place.number for place in places)
        self._add(EvidenceFile(ANNOTATIONS, EvidenceFormat.ANNOTATIONS, "", numbers), f"{text}\n".encode())

    def write_pictures(self, place: CitedPlace) -> None:
        """Write the page of a place with its rectangle, and the part inside of it."""
        evidence = place.evidence
        page = self.sources.page(evidence)
        if page is not None:
            pictures = {"": draw_page(page, place)}
            part = None if place.box is None else self.sources.part(evidence, place.box)
            pictures |= {} if part is None else {"-part": draw_part(part, place)}
        elif (recorded := self.sources.recorded(evidence)) is not None:
            pictures = {"-part": draw_numbered(recorded, place)}
        else:
            self._omit(place)
            return
        stem = f"{place.number}-{_stem(evidence.document)}-{_MARKS[evidence.kind]}{evidence.page}"
        for suffix, picture in pictures.items():
            name = f"{stem}{suffix}.png"
            self.progress(name)
            file = EvidenceFile(name, EvidenceFormat.PICTURES, evidence.document, (place.number,))
            self._add(file, encode_png(picture))

    def _write_copy(self, data: bytes, places: Sequence[CitedPlace], *, annotated: bool) -> str:
        """Write the annotated copy of a PDF file; return the reason if that is not possible."""
        first = places[0].evidence
        try:
            pages = {place.evidence.page for place in places}
            frames = page_frames(data, pages, self.sources.page_count(first.document_id))
            self.frames |= {(first.document_id, page): frame for page, frame in frames.items()}
            if annotated:
                name = self._unique_name(f"{_stem(first.document)}-annotated.pdf")
                with self._open(name) as target:
                    signed = annotate_pdf(data, places, target, self._show_percent(first.document))
                note = SIGNATURE_NOTE if signed else ""
                self._list(EvidenceFile(name, EvidenceFormat.PDF, first.document, _numbers(places), note))
        except FileTooLargeError:
            raise
        except CorpusError as error:
            return error.message
        return ""

    def _show_percent(self, document: str) -> Callable[[int], None]:
        def show(done: int) -> None:
            self.progress(f"{document}: {done} %")

        return show

    def _write_stored_pages(self, places: Sequence[CitedPlace], reason: str) -> None:
        """Write the pages of places from their stored pictures; `reason` says why not on the file itself."""
        document = places[0].evidence.document
        by_item: dict[tuple[str, tuple[float, float] | None], list[CitedPlace]] = {}
        for place in places:
            by_item.setdefault((place.evidence.item, place.evidence.seconds), []).append(place)
        pages: list[StoredPage] = []
        for of_item in by_item.values():
            picture = self.sources.page(of_item[0].evidence)
            if picture is None:
                for place in of_item:
                    self._omit(place)
                continue
            caption = (
                f"{where(of_item[0].evidence)} as stored in the collection, not the file itself. {reason}"
            )
            pages.append(StoredPage(encode_jpeg(picture), Size(*picture.size), caption, tuple(of_item)))
        if pages:
            name = self._unique_name(f"{_stem(document)}-cited-pages.pdf")
            with self._open(name) as target:
                write_stored_pages(pages, target)
            shown = [place for page in pages for place in page.places]
            note = f"{STORED_NOTE} {reason}"
            self._list(EvidenceFile(name, EvidenceFormat.PDF, document, _numbers(shown), note))

    def _omit(self, place: CitedPlace) -> None:
        passage = place.evidence.kind is ItemKind.PASSAGE
        reason = "A passage of text has no page." if passage else "The picture of its page is missing."
        self.omitted.append(OmittedPlace(place.number, place.evidence.document, reason))

    def _unique_name(self, name: str) -> str:
        """Return a name that no other file of the export has, on any file system."""
        path, number = PurePath(name), 1
        while name.casefold() in self.names:
            number += 1
            name = f"{path.stem}-{number}{path.suffix}"
        self.names.add(name.casefold())
        return name

    def _open(self, name: str) -> AbstractContextManager[BinaryIO]:
        return atomic_file(self.folder / name, durable=False)

    def _add(self, file: EvidenceFile, data: bytes) -> None:
        with self._open(file.name) as target:
            target.write(data)
        self._list(file)

    def _list(self, file: EvidenceFile) -> None:
        self.files.append(file)
        self.bytes += (self.folder / file.name).stat().st_size
        if self.max_bytes is not None and self.bytes > self.max_bytes:
            raise FileTooLargeError(f"The evidence takes more than {size(self.max_bytes)}.", "Export less.")


def _stem(document: str) -> str:
    """Return the start of the names of files about a document: without its suffix and without separators.

    >>> _stem("../Annual report: 2024.pdf")
    'Annual report- 2024'
    """
    stem = _UNSAFE.sub("-", PurePath(document.replace("\\", "/")).stem).strip(". -")
    return stem[:MAX_STEM_CHARS].strip(". -") or "document"


def _numbers(places: Sequence[CitedPlace]) -> tuple[str, ...]:
    return tuple(place.number for place in places)


def _plural(number: int, noun: str) -> str:
    first, _, rest = noun.partition(" of ")
    return f"{count(number, first)} of {rest}" if rest else count(number, noun)
