"""A small collection on disk with every kind of item, and with items whose files lie where they must not."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from vrag.geometry import Box, Size
from vrag.index.collection import Collection
from vrag.index.schema import file_rows, item_rows
from vrag.types import Clip, Document, DocumentStatus, Item, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b"a file that nobody may read"
FILM = bytes(range(256)) * 40
"""Not a video: only its bytes matter here."""


def document_id(name: str) -> str:
    return name.encode().hex().ljust(64, "0")[:64]


def id_of(name: str, ordinal: int = 1) -> str:
    return item_id(document_id(name), ordinal)


def picture(form: str, size: tuple[int, int] = (400, 300)) -> bytes:
    """Of noise on a gradient, so that no two formats or sizes give the same bytes."""
    shade = np.linspace(0, 255, size[0], dtype=np.uint8)
    pixels = np.stack([np.tile(shade, (size[1], 1))] * 3, axis=2)
    pixels[::7, ::5] = (200, 30, 90)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form)
    return buffer.getvalue()


@dataclass(frozen=True)
class Stored:
    """The collection, and the secret beside it."""

    collection: Collection
    secret: Path


def stored(directory: Path) -> Stored:
    """Makes it below a directory."""
    secret = directory / "secret.jpg"
    secret.write_bytes(SECRET)
    collection = Collection.create(directory / "collection")
    items = [
        page("scan.pdf", "JPEG", collection),
        page("chart.png", "PNG", collection),
        make("note.md", ItemKind.PASSAGE, text="The ferry sails at noon."),
        make("film.mp4", ItemKind.CLIP, image="film/1.jpg", size=Size(400, 300), clip="film/1.mp4"),
        make("away.pdf", image="../../secret.jpg", size=Size(4, 4)),
        make("root.pdf", image=str(secret), size=Size(4, 4)),
        make("link.pdf", image="link.jpg", size=Size(4, 4)),
        make("gone.pdf", image="gone.jpg", size=Size(4, 4)),
        make("folder.pdf", image="folder/1.jpg", size=Size(4, 4)),
        make("torn.pdf", image="torn.jpg", size=Size(4, 4)),
        make("away.mp4", ItemKind.CLIP, clip="../../secret.jpg"),
    ]
    films = collection.items_dir / "film"
    films.mkdir()
    (films / "1.mp4").write_bytes(FILM)
    (films / "1.jpg").write_bytes(picture("JPEG"))
    (collection.items_dir / "link.jpg").symlink_to(secret)
    (collection.items_dir / "folder").symlink_to(directory)
    (directory / "1.jpg").write_bytes(SECRET)
    (collection.items_dir / "torn.jpg").write_bytes(picture("JPEG")[:200])
    collection.item_table.append(item_rows(items))
    rows = [
        Document(
            path=f"/{item.document_name}",
            id=item.document,
            name=item.document_name,
            size=1,
            mtime_ns=1,
            status=DocumentStatus.READY,
            items=1,
        )
        for item in items
    ]
    collection.file_table.upsert(file_rows([(row, 1) for row in rows]), "key")
    return Stored(collection, secret)


def page(name: str, form: str, collection: Collection) -> Item:
    """A page whose picture is stored."""
    path = f"{document_id(name)[:16]}/1.{'jpg' if form == 'JPEG' else 'png'}"
    place = collection.items_dir / path
    place.parent.mkdir(parents=True)
    place.write_bytes(picture(form))
    return make(name, image=path, size=Size(400, 300), text="ferry prices")


def make(
    name: str,
    kind: ItemKind = ItemKind.PAGE,
    *,
    text: str = "ferry",
    image: str | None = None,
    size: Size | None = None,
    clip: str | None = None,
) -> Item:
    """An item; its first word has a box where it has a picture."""
    words = (Word(0, 5, Box.unit(0.125, 0.25, 0.5, 0.75)),) if size else ()
    return Item(
        id=id_of(name),
        document=document_id(name),
        document_name=name,
        kind=kind,
        ordinal=1,
        text=text,
        words=words,
        text_source=TextSource.FILE if kind is ItemKind.PASSAGE else TextSource.LAYER,
        size=size,
        image=image,
        clip=Clip(clip, 60.0, 120.0, (60.0, 75.5)) if clip else None,
        heading="Ferries" if kind is ItemKind.PASSAGE else "",
        uid="note-1" if kind is ItemKind.PASSAGE else "",
    )
