"""`vrag match`: where on a page a query matched, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.display import Collection, Device, Embedder, Json, emit_json, plain, say
from vrag.settings import load_settings

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.embed.heat import Matcher
    from vrag.settings import Settings

__all__ = ["match"]


def match(
    page: str = typer.Argument(..., help="Id of an item of the collection, or a picture file."),
    query: str = typer.Argument(..., help="What to look for on it."),
    output: Path = typer.Option(Path("match.png"), "--output", "-o", help="Where the picture goes."),
    word: int | None = typer.Option(None, min=1, help="Number of one token of the query to show alone."),
    collection: str | None = Collection,
    embedder: str | None = Embedder,
    device: str | None = Device,
    as_json: bool = Json,
) -> None:
    """Mark where a page matches a query, by an embedder that makes many vectors of a page.

    Example: vrag match ./page.jpg "shore power" --embedder colqwen2 -o heat.png
    """
    if not query.strip():
        raise typer.BadParameter("The query is empty.")
    from vrag.embed.heat import draw_heat, regions

    settings = load_settings(collection=collection, embedder=embedder, device=device).settings
    image = _picture(page, settings)
    found = _matcher(settings).match_map(image, query)
    if word is not None and word > len(found.tokens):
        raise typer.BadParameter(f"The query has {len(found.tokens)} tokens: {' '.join(found.tokens)}")
    drawn = draw_heat(image, found, None if word is None else word - 1)
    try:
        drawn.save(output)
    except ValueError as error:
        raise typer.BadParameter(f"{output} names no kind of picture; write out.png or out.jpg.") from error
    places = regions(found)
    if as_json:
        boxes = [{"box": place.box.as_tuple(), "score": place.score} for place in places]
        emit_json({"picture": str(output), "tokens": found.tokens, "regions": boxes})
        return
    say("Drawn: ", (str(output), "bold"))
    numbered = (f"{number} {plain(token)}" for number, token in enumerate(found.tokens, start=1))
    say(f"Tokens: {' · '.join(numbered)}")
    for place in places:
        edges = ", ".join(f"{edge:.3f}" for edge in place.box.as_tuple())
        say(f"  {place.score:.2f}  [{edges}]")


def _picture(page: str, settings: Settings) -> Image:
    """The picture file of that name, or else the item's."""
    from PIL import Image, UnidentifiedImageError

    from vrag.errors import CorpusError
    from vrag.index.store import Collection as Stored

    if not Path(page).is_file():
        stored = Stored.open(settings.collection)
        return stored.image(stored.item(page))
    try:
        with Image.open(page) as image:
            if image.width * image.height > settings.max_pixels:
                raise CorpusError(f"{page} has more than {settings.max_pixels:,} pixels.")
            return image.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise CorpusError(f"{page} cannot be opened as a picture: {error}") from error


def _matcher(settings: Settings) -> Matcher:
    """The embedder of the settings, or else the collection's, as far as it can say where it matched."""
    from vrag.embed.heat import Matcher
    from vrag.embed.registry import open_embedder
    from vrag.errors import EmbedError
    from vrag.index.store import Collection as Stored

    spec = settings.embedder
    if not spec:
        mark = Stored.open(settings.collection).header.embedder
        if mark is None:
            raise EmbedError("The collection has no embedder.", "Name one: --embedder colqwen2")
        spec = mark.name
    opened = open_embedder(spec, device=settings.device, dtype=settings.dtype, batch=settings.batch)
    if not isinstance(opened, Matcher):
        raise EmbedError(f"{spec} cannot say where a page matched.", "Use a model of many vectors: colqwen2")
    return opened
