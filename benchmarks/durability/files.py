"""The documents of the studies, their conversion in the process itself, and what a collection holds."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw

from vrag.corpus.convert import CONVERTERS
from vrag.corpus.converter import ConversionContext, Converted, CorpusOptions, Failed, Finished, ItemCount
from vrag.embed.embedder import VectorKind
from vrag.errors import CorpusError
from vrag.index.collection import Collection
from vrag.index.manifest import read_manifest
from vrag.index.schema import blob_of
from vrag.index.vectors.embed_items import embed_all
from vrag.index.vectors.vector_index import read_vectors
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from vrag.corpus.converter import Conversion, SourceFile
    from vrag.index.vectors.embed_items import Made, Present

OPTIONS = CorpusOptions(ocr="never", workers=1)
EMBEDDER = HashEmbedder(VectorKind.SINGLE, 8)
WORDS = "revenue margin growth table figure quarter region forecast cost share asset 收入 增长 利润".split()
ADDED, REPLACED, REMOVED = 1, 2, 3
"""Versions of the documents: with more of them, with changed ones, without some. 0 is the first."""
_CHANGED = {"text 1.txt", "report.pdf", "picture 0.png", "notes 1.md"}
GONE = ("text 2.txt", "report.pdf", "picture 1.png")
"""Documents that are removed."""


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Make a PDF with a text layer: one line of text after the other on small pages."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
        stream = f"BT /F1 10 Tf 20 260 Td {shown}ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 220 280] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode()
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += "".join(f"{offset:010} 00000 n \n" for offset in offsets).encode()
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def line(chance: random.Random) -> str:
    """Return some words in ASCII."""
    return " ".join(chance.choices(WORDS[:-3], k=5))


def write_pdf(path: Path, chance: random.Random, pages: int = 3) -> None:
    """Write a PDF file of some pages."""
    path.write_bytes(pdf([[line(chance) for _ in range(12)] for _ in range(pages)]))


def write_image(path: Path, chance: random.Random) -> None:
    """Write a picture."""
    image = Image.new("RGB", (150, 100), "white")
    ImageDraw.Draw(image).text((20, 20), line(chance), "black")
    image.save(path)


def write_text(path: Path, chance: random.Random, passages: int = 4) -> None:
    """Write a text of some passages."""
    text = "\n\n".join(" ".join(chance.choices(WORDS, k=200)) for _ in range(passages))
    path.write_text(text, encoding="utf-8")


_WRITERS: dict[str, Callable[[Path, random.Random], None]] = {
    **{f"text {number}.txt": write_text for number in range(6)},
    **{f"notes {number}.md": write_text for number in range(3)},
    **{f"picture {number}.png": write_image for number in range(2)},
    "report.pdf": write_pdf,
}
_LATER: dict[str, Callable[[Path, random.Random], None]] = {
    "late.txt": write_text,
    "late.md": write_text,
    "late.png": write_image,
    "late.pdf": write_pdf,
}


def write_documents(folder: Path, version: int) -> None:
    """Write the documents of a version: the same bytes and times whenever that is done."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, write in (_WRITERS | (_LATER if version >= ADDED else {})).items():
        is_changed = version >= REPLACED and name in _CHANGED
        if version < REMOVED or name not in GONE:
            write(folder / name, random.Random(f"{name} {is_changed}"))
            os.utime(folder / name, ns=(10**18, 10**18 + int(is_changed)))


def produce(
    sources: Iterator[SourceFile], items_dir: Path, options: CorpusOptions, have: Present
) -> Generator[Made, None, None]:
    """Convert and embed in this process: to start workers would take longer than all the rest."""
    return embed_all(_convert(sources, items_dir, options, have), EMBEDDER, items_dir)


def _convert(
    sources: Iterator[SourceFile], items_dir: Path, options: CorpusOptions, have: Present
) -> Generator[Conversion, None, None]:
    context = ConversionContext(items_dir, options)
    for source in sources:
        present = set[int](have(source))
        try:
            with closing(CONVERTERS[source.path.suffix](source, context)) as file:
                yield ItemCount(source, file.count)
                for ordinal in range(1, file.count + 1):
                    if ordinal not in present:
                        yield Converted(source, file.item(ordinal))
        except CorpusError as error:
            yield Failed(source, None, str(error))
        yield Finished(source)


def read_content(collection: Collection) -> dict[str, Any]:
    """Return everything a collection holds, in an order of its own: equal for equal collections."""
    store = collection.store
    with store.snapshot():
        ids = store.read_items(["id"]).column("id")
        items = {item.id: item for item in store.items(ids).values()}
        blobs = {item.image for item in items.values()} | {
            item.clip.path for item in items.values() if item.clip
        }
        vectors = (
            {id: each.tobytes() for id, each in read_vectors(collection)}
            if collection.header.embedder
            else {}
        )
        if len(items) != len(ids):
            raise AssertionError("items are doubled")
        return {
            **{f"item {id}": item for id, item in items.items()},
            **{f"file {Path(path).name}": entry for path, entry in read_manifest(collection).items()},
            **{f"picture {name}": store.blobs.read(blob_of(name)) for name in filter(None, blobs)},
            **{f"vector {id}": vector for id, vector in vectors.items()},
            "hash": store.item_hash,
            "header": collection.header,
        }


def find_differences(now: dict[str, Any], clean: dict[str, Any]) -> list[str]:
    """Return the names of what differs."""
    return sorted(name for name in now.keys() | clean.keys() if now.get(name) != clean.get(name))


def by_document(content: dict[str, Any]) -> dict[str, Any]:
    """Return the files of a content with their status and items, by name; pending ones are none."""
    items: dict[str, list[Any]] = {}
    for name, item in content.items():
        if name.startswith("item "):
            items.setdefault(item.document, []).append((item, content.get(f"vector {item.id}")))
    found: dict[str, Any] = {}
    for name, entry in content.items():
        if name.startswith("file ") and entry.document.status.served:
            own = sorted(items.get(entry.document.id, []), key=lambda pair: pair[0].id)
            found[name[5:]] = replace(entry.document, items=0), own
    return found
