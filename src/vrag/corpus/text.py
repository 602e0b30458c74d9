"""Text files → passage items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from vrag.types import Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from vrag.corpus.base import Desk, Source

__all__ = ["TextFile"]


class TextFile:
    """A text file that was read."""

    def __init__(self, source: Source, desk: Desk) -> None:
        self._source = source
        text = source.path.read_text(errors="replace")
        size = desk.options.passage_chars
        self._passages = [text[i : i + size] for i in range(0, len(text), size)]
        self.count = len(self._passages)

    def item(self, ordinal: int) -> Item:
        """Makes the item of one passage."""
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.PASSAGE,
            ordinal=ordinal,
            text=self._passages[ordinal - 1],
            text_source=TextSource.FILE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
