"""The files and pages that evidence lies on: from the collections, a search server, or the run itself."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_store import StoredRun
from vrag.errors import CollectionError, SearchError
from vrag.index.collection import Collection
from vrag.index.source_file import SourceBytes, SourceFault
from vrag.render.figures import ImageStore, StoredImage, image_reader
from vrag.render.run_view import RunView
from vrag.search.searcher import ItemStore
from vrag.types import ABSENT, Item

PDF_SUFFIX = ".pdf"


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

    def pdf(self, evidence: Evidence) -> bytes | str:
        """Return the PDF file of evidence, if it is as it was indexed; or the reason that it is not used."""
        if not evidence.document.lower().endswith(PDF_SUFFIX):
            return "It is not a PDF file."
        if not self.collections:
            return SourceFault.ABSENT
        fault: str = SourceFault.ABSENT
        for collection in self.collections:
            if self.max_bytes is not None and self._size(collection, evidence.document_id) > self.max_bytes:
                return SourceFault.TOO_LARGE
            source = collection.source(evidence.document_id)
            if isinstance(source, SourceBytes):
                return source.data
            fault = source if source is not SourceFault.ABSENT else fault
        return fault

    def page(self, evidence: Evidence) -> Image.Image | None:
        """Return the picture of the whole item, RGB: as it is stored, or else as the model was shown it.

        None for a passage, and where there is none any more.
        """
        stores: list[ItemStore] = [*self.collections, *([self.server] if self.server else [])]
        for store in stores:
            try:
                if _is_item_of(store.item(evidence.item), evidence):
                    return store.image(evidence.item)
            except (SearchError, CollectionError):
                continue
        return self._shown_page(evidence)

    def part(self, evidence: Evidence) -> Image.Image | None:
        """Return the picture of the evidence as it was recorded, RGB; None where it is missing or damaged."""
        stored = self._pictures([evidence.crop_sha256 or ""])
        return None if stored is None else _decoded(stored)

    def is_hash(self, document: str) -> bool:
        """Return whether the id of a document is the SHA-256 of its file, as it is in a collection."""
        return bool(self.collections) and document not in self._imported

    @staticmethod
    def _size(collection: Collection, document: str) -> int:
        return max(collection.file_table.find("id", [document], ["size"])["size"].to_pylist(), default=0)

    @cached_property
    def _imported(self) -> frozenset[str]:
        documents = (document for collection in self.collections for document in collection.documents())
        return frozenset(document.id for document in documents if document.mtime_ns == ABSENT)

    @cached_property
    def _views(self) -> list[RunView]:
        return [RunView.of(run.events) for run in self.runs]

    def _shown_page(self, evidence: Evidence) -> Image.Image | None:
        for view in self._views:
            shown, _ = view.images_of(evidence)
            stored = None if shown is None else self._pictures([shown.sha256])
            if shown is not None and stored is not None:
                width, height = view.content_of(shown)
                size = round(stored.size.width * width), round(stored.size.height * height)
                return _decoded(stored).crop((0, 0, *size))
        return None

    def _pictures(self, hashes: Sequence[str]) -> StoredImage | None:
        store = ImageStore.of(hashes, image_reader(self.runs))
        return next(iter(store.stored_images.values()), None)


def _is_item_of(item: Item, evidence: Evidence) -> bool:
    return (item.document, item.ordinal) == (evidence.document_id, evidence.page) and item.image is not None


def _decoded(stored: StoredImage) -> Image.Image:
    with Image.open(io.BytesIO(stored.data)) as image:
        return image.convert("RGB")
