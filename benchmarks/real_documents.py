"""The real documents as a collection, and questions asked of them: what agents are measured on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.converter import CorpusOptions
from vrag.index.build import add
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.types import Item

__all__ = ["DATASET", "PDFS", "collected", "pages_of"]

DATASET = Path(__file__).resolve().parents[2] / "shared" / "data" / "mmlongbench-dev" / "rag_dataset.json"
PDFS = DATASET.with_name("pdf")


def collected(directory: Path, files: Sequence[Path], *, clip_seconds: float = 60.0) -> Collection:
    """The collection of some files, made or brought up to date; pages without text stay without."""
    options = CorpusOptions(ocr="never", clip_seconds=clip_seconds)
    collection = Collection.open_or_create(directory, options)
    add(collection, list(files), options)
    return collection


def pages_of(collection: Collection) -> list[Item]:
    """All items that have a picture, by document and page."""
    ids = collection.store.read_items(["id"]).column("id")
    items = [item for item in collection.items(ids).values() if item.size is not None]
    return sorted(items, key=lambda item: (item.document_name, item.ordinal))
