"""A small collection on disk with every kind of item, and with items whose files lie where they must not."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from stored_items import blob_path, put_blob, put_files, put_items

from vrag.geometry import Box, Size
from vrag.index.collection import Collection
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
    film, film_picture = put_blob(collection, FILM, ".mp4"), put_blob(collection, picture("JPEG"))
    away, root, link, gone, torn = (put_blob(collection, picture("JPEG") + name.encode()) for name in "arlgt")
    items = [
        page("scan.pdf", "JPEG", collection),
        page("chart.png", "PNG", collection),
        make("note.md", ItemKind.PASSAGE, text="The ferry sails at noon."),
        make("film.mp4", ItemKind.CLIP, image=film_picture, size=Size(400, 300), clip=film),
        make("away.pdf", image=away, size=Size(4, 4)),
        make("root.pdf", image=root, size=Size(4, 4)),
        make("link.pdf", image=link, size=Size(4, 4)),
        make("gone.pdf", image=gone, size=Size(4, 4)),
        make("torn.pdf", image=torn, size=Size(4, 4)),
        make("away.mp4", ItemKind.CLIP, clip=away),
    ]
    put_items(collection, items)
    blob_path(collection, gone).unlink()
    blob_path(collection, torn).write_bytes(picture("JPEG")[:200])
    rename_image(collection, away, "../../secret.jpg")
    rename_image(collection, root, str(secret))
    blob_path(collection, link).unlink()
    blob_path(collection, link).symlink_to(secret)
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
    put_files(collection, [(row, 1) for row in rows])
    return Stored(collection, secret)


def rename_image(collection: Collection, before: str, after: str) -> None:
    """Write another name of a picture or clip into the rows that have one, as an attacker would."""
    with collection.store.database.write() as connection:
        for column in ("image", "clip"):
            connection.execute(f"UPDATE items SET {column} = ? WHERE {column} = ?", (after, before))


def page(name: str, form: str, collection: Collection) -> Item:
    """A page whose picture is stored."""
    image = put_blob(collection, picture(form), ".jpg" if form == "JPEG" else ".png")
    return make(name, image=image, size=Size(400, 300), text="ferry prices")


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
