"""A conversion whose every step the tests decide, in place of the one that opens real files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

from vrag.corpus.converter import Converted, Failed, Finished, ItemCount
from vrag.geometry import Box, Size
from vrag.index.manifest import read_manifest
from vrag.index.schema import blob_of
from vrag.index.vectors.vector_index import read_vectors
from vrag.types import Item, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from vrag.corpus.converter import Conversion, CorpusOptions, SourceFile
    from vrag.index.collection import Collection

PICTURE = Size(40, 30)


class FakeConversion:
    """Each line of a file is an item, so that a test says in a file's text what will become of it.

    `BAD reason` as first line fails the file, `!reason` fails the line, `pic words` is a page with
    a picture, anything else a passage.
    """

    def __init__(self) -> None:
        self.made: list[str] = []
        """Ids of the items made, to tell what was done again."""
        self.before_item: Callable[[str], None] = lambda _: None
        """Called with the id of each item before it is made."""
        self.healed = False
        """Whether lines that fail no longer do."""

    def __call__(
        self,
        sources: Iterable[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], frozenset[int]],
        *,
        live: bool = False,
    ) -> Iterator[Conversion]:
        for source in sources:
            yield from self._file(source, items_dir, have(source))
            yield Finished(source)

    def _file(self, source: SourceFile, items_dir: Path, have: frozenset[int]) -> Iterator[Conversion]:
        lines = source.path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        if lines and lines[0].startswith("BAD ") and source.path.suffix != ".md":
            yield Failed(source, None, lines[0][4:])
            return
        yield ItemCount(source, len(lines))
        for ordinal, line in enumerate(lines, 1):
            if line.startswith("!") and not self.healed:
                yield Failed(source, ordinal, line[1:])
            elif ordinal not in have:
                self.before_item(item_id(source.document, ordinal))
                yield Converted(source, self._item(source, ordinal, line, items_dir))

    def _item(self, source: SourceFile, ordinal: int, line: str, items_dir: Path) -> Item:
        image = f"{source.document[:16]}/{ordinal}.png" if line.startswith("pic ") else None
        if image:
            (items_dir / image).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", PICTURE, (ordinal, 0, 0)).save(items_dir / image)
        self.made.append(item_id(source.document, ordinal))
        return Item(
            id=item_id(source.document, ordinal),
            document=source.document,
            document_name=source.name,
            kind=ItemKind.PAGE if image else ItemKind.PASSAGE,
            ordinal=ordinal,
            text=line,
            words=(Word(0, 3, Box.unit(0.25, 0.5, 0.75, 1.0)),) if image else (),
            text_source=TextSource.LAYER if image else TextSource.FILE,
            size=PICTURE if image else None,
            image=image,
        )


def contents(collection: Collection) -> dict[str, object]:
    """Everything a collection holds, in an order of its own: equal for equal collections."""
    store = collection.store
    ids = store.read_items(["id"]).column("id")
    items = sorted(store.items(ids).values(), key=lambda item: item.id)
    files = {item.image for item in items} | {item.clip.path for item in items if item.clip}
    pictures = {name: store.blobs.read(blob_of(name)) for name in sorted(filter(None, files))}
    vectors = (
        {id: each.tolist() for id, each in read_vectors(collection)} if collection.header.embedder else {}
    )
    return {
        "items": items,
        "files": read_manifest(collection),
        "pictures": pictures,
        "vectors": vectors,
        "hash": store.item_hash,
    }
