"""Where an answer was seen: items, rectangles and the words inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from vrag.geometry import Box, Space
from vrag.types import ItemKind

if TYPE_CHECKING:
    from vrag.agent.environment import Episode
    from vrag.agent.policy import Picture
    from vrag.types import Item

__all__ = ["BoxSides", "Evidence", "evidence_of", "words_inside"]

BoxSides = tuple[float, float, float, float]
"""x1, y1, x2, y2."""

QUOTE_LENGTH = 600
"""Characters after which the words of a piece of evidence are cut."""


class Evidence(BaseModel):
    """One place on which an answer rests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: str
    document: str
    """File name, for people."""
    document_id: str
    page: int
    """Position of the item in its document, from 1."""
    kind: ItemKind
    box: BoxSides | None
    """Fractions of the page, 0 to 1; None for a passage, which has no picture."""
    quote: str = ""
    """The words inside the box, where known."""
    crop_sha256: str | None = None
    """Hash of the picture shown, as stored with the run; None for a passage."""


def evidence_of(episode: Episode, answer: str) -> tuple[Evidence, ...]:
    """What a VRAG run has seen: crops first, the last one leading, then pages and passages.

    Items whose text holds the answer word for word come before those that do not. Only items that
    exist in the collection are listed, since each is opened by its id.
    """
    item = episode.environment.searcher.item
    crops = [_pictured(picture, item(picture.item)) for picture in reversed(episode.pictures) if picture.crop]
    pages = {picture.item: picture for picture in episode.pictures if not picture.crop}
    whole = [
        _pictured(pages[seen], item(seen)) if seen in pages else _passage(item(seen)) for seen in episode.seen
    ]
    whole.sort(key=lambda evidence: answer not in item(evidence.item).text)
    return tuple(dict.fromkeys(crops + whole))


def words_inside(item: Item, box: Box) -> str:
    """The words whose centre lies in a unit box, in the order of the text."""
    inside = [word for word in item.words if box.covers(*word.box.center)]
    return " ".join(item.text[word.start : word.end] for word in inside)[:QUOTE_LENGTH]


def _pictured(picture: Picture, item: Item) -> Evidence:
    box = picture.view.convert(picture.view.region, Space.UNIT)
    quote = words_inside(item, box) if picture.crop else ""
    return _evidence(item, box.as_tuple(), quote, picture.sha256)


def _passage(item: Item) -> Evidence:
    return _evidence(item, None, item.text[:QUOTE_LENGTH], None)


def _evidence(item: Item, box: BoxSides | None, quote: str, crop_sha256: str | None) -> Evidence:
    return Evidence(
        item=item.id,
        document=item.document_name,
        document_id=item.document,
        page=item.ordinal,
        kind=item.kind,
        box=box,
        quote=quote,
        crop_sha256=crop_sha256,
    )
