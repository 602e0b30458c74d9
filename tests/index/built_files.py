"""What tests of building share: files to write, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.index.collection import Collection
    from vrag.types import Document

READY, PARTIAL = DocumentStatus.READY, DocumentStatus.PARTIAL
FAILED, PENDING = DocumentStatus.FAILED, DocumentStatus.PENDING


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def texts(collection: Collection) -> list[str]:
    return sorted(collection.store.read_items(["text"]).column("text"))


def the_document(collection: Collection) -> Document:
    (document,) = collection.documents()
    return document
