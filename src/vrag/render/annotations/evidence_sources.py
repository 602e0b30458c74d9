"""The files and pages that evidence lies on: from the collections, a search server, or the run itself."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_store import StoredRun
from vrag.errors import CollectionError, SearchError
from vrag.geometry import IMAGE_FORMATS, Box, Size, Space, View, draw_view
from vrag.index.collection import Collection
from vrag.index.source_file import SourceBytes, SourceFault
from vrag.render.figures import ImageStore, StoredImage, image_reader
from vrag.render.run_view import RunView
from vrag.search.searcher import ItemStore
from vrag.types import ABSENT, Document, DocumentStatus, Item, ItemKind

PDF_SUFFIX = ".pdf"
PART_SIDE = 1600
"""Pixels of the longer side of a part that is drawn from its source file."""
MAX_ENLARGEMENT = 4.0
"""Of such a part, compared with the stored picture of its page."""
MIN_STORED_SIDE = 480
"""Pixels of the longer side below which a part of a stored picture is enlarged to twice its size."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """A picture of a part of a page."""

    image: Image.Image
    """RGB."""
    area: Box
    """The part, in fractions of the page."""


@dataclass(frozen=True)
class EvidenceSources:
    """Where the files and pages of evidence are looked for, in this order."""

    runs: Sequence[StoredRun]
    """The runs whose evidence it is: they have the pictures that their models were shown."""
    collections: Sequence[Collection] = ()
    server: ItemStore | None = None
    """The items of a search server, where the pages come from one."""
    max_bytes: int | None = None
    """Size of a PDF file beyond which it is not read; its stored pages are used."""

    def pdf(self, evidence: Evidence) -> SourceBytes | str:
        """Return the PDF file of evidence, if it is as it was indexed; or the reason that it is not used."""
        if not evidence.document.lower().endswith(PDF_SUFFIX):
            return "The document is not a PDF file."
        fault: str = SourceFault.ABSENT
        for collection in self.collections:
            document = self._documents.get(evidence.document_id)
            if self.max_bytes is not None and document is not None and document.size > self.max_bytes:
                return SourceFault.TOO_LARGE
            try:
                source = collection.source(evidence.document_id)
            except CollectionError:  # such as one that was deleted meanwhile
                continue
            if isinstance(source, SourceBytes):
                return source
            fault = source if source is not SourceFault.ABSENT else fault
        return fault

    def page(self, evidence: Evidence) -> Image.Image | None:
        """Return the picture of the whole item, RGB: as it is stored, or else as the model was shown it.

        Of a clip it is the frame that the model was shown. None for a passage, and where there is none any
        more.
        """
        shown = self._shown_page(evidence) if evidence.kind is ItemKind.CLIP else None
        return shown or self._stored_page(evidence) or self._shown_page(evidence)

    def part(self, evidence: Evidence, box: Box) -> PagePart | None:
        """Return a part of a page, drawn from the source file where that is as it was indexed.

        Otherwise it is cut from `page`; None where that is None.
        """
        if (found := self._find_item(evidence)) is not None:
            store, item = found
            assert item.size is not None
            region = View.whole(item.size, item.size).cut(box)
            scale = min(max(PART_SIDE / max(region.width, region.height, 1), 1), MAX_ENLARGEMENT)
            view = View(item.size, region, Size(round(region.width * scale), round(region.height * scale)))
            drawn = store.part(item.id, view) if region.area > 0 else None
            if drawn is not None:
                return PagePart(drawn, view.convert(region, Space.UNIT))
        page = self.page(evidence)
        return None if page is None else _cut(page, box)

    def recorded(self, evidence: Evidence) -> Image.Image | None:
        """Return the picture of the evidence as it was recorded, RGB; None where it is missing or damaged."""
        stored = self._recorded_picture(evidence.crop_sha256 or "")
        return None if stored is None else _decoded(stored)

    def page_count(self, document: str) -> int | None:
        """Return how many pages a document had when it was indexed; None where that is not known."""
        found = self._documents.get(document)
        return found.items if found is not None and found.status is DocumentStatus.READY else None

    def is_hash(self, document: str) -> bool:
        """Return whether the id of a document is the SHA-256 of its file, as it is in a collection."""
        found = self._documents.get(document)
        return bool(self.collections) and (found is None or found.mtime_ns != ABSENT)

    @cached_property
    def _documents(self) -> dict[str, Document]:
        """The documents of the collections, by their ids; of equal ones the first."""
        found: dict[str, Document] = {}
        for collection in self.collections:
            with suppress(CollectionError):
                for document in collection.documents():
                    found.setdefault(document.id, document)
        return found

    @cached_property
    def _views(self) -> list[RunView]:
        return [RunView.of(run.events) for run in self.runs]

    def _find_item(self, evidence: Evidence) -> tuple[ItemStore, Item] | None:
        """Return the item that the evidence is of, if it is still there and has a picture, and its store."""
        stores: list[ItemStore] = [*self.collections, *([self.server] if self.server else [])]
        for store in stores:
            try:
                item = store.item(evidence.item)
            except (SearchError, CollectionError):
                continue
            is_same = (item.document, item.ordinal) == (evidence.document_id, evidence.page)
            if is_same and item.image is not None and item.size is not None:
                return store, item
        return None

    def _stored_page(self, evidence: Evidence) -> Image.Image | None:
        if (found := self._find_item(evidence)) is None:
            return None
        store, item = found
        try:
            return store.image(item.id)
        except (SearchError, CollectionError):
            return None

    def _shown_page(self, evidence: Evidence) -> Image.Image | None:
        for view in self._views:
            shown, _ = view.images_of(evidence)
            stored = None if shown is None else self._recorded_picture(shown.sha256)
            if shown is not None and stored is not None:
                width, height = view.content_of(shown)
                size = round(stored.size.width * width), round(stored.size.height * height)
                return _decoded(stored).crop((0, 0, *size))
        return None

    def _recorded_picture(self, sha256: str) -> StoredImage | None:
        return ImageStore.of([sha256], image_reader(self.runs)).stored_images.get(sha256)


def _cut(page: Image.Image, box: Box) -> PagePart | None:
    size = Size(*page.size)
    view = View.whole(size, size)
    region = view.cut(box)
    if region.area <= 0:
        return None
    scale = 2 if max(region.width, region.height) < MIN_STORED_SIDE else 1
    shown = Size(round(scale * region.width), round(scale * region.height))
    return PagePart(draw_view(page, View(size, region, shown)), view.convert(region, Space.UNIT))


def _decoded(stored: StoredImage) -> Image.Image:
    with Image.open(io.BytesIO(stored.data), formats=IMAGE_FORMATS) as image:
        return image.convert("RGB")
