"""`vrag match`: where on a page a query matched, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import Collection, Device, Embedder, Json, VisualTokens, emit_json, plain, say
from vrag.settings import load_settings

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.embed.embedder import Embedder as Model
    from vrag.embed.similarity_map import SimilarityMatcher
    from vrag.index.collection import Collection as Stored
    from vrag.settings import Settings

__all__ = ["match"]


def match(
    page: str = typer.Argument(..., help="Id of an item of the collection, or a picture file."),
    query: str = typer.Argument(..., help="What to look for on it."),
    output: Path = typer.Option(Path("match.png"), "--output", "-o", help="Where the picture goes."),
    word: int | None = typer.Option(None, min=1, help="Number of one token of the query to show alone."),
    collection: str | None = Collection,
    embedder: str | None = Embedder,
    visual_tokens: int | None = VisualTokens,
    device: str | None = Device,
    as_json: bool = Json,
) -> None:
    """Mark where a page matches a query, by an embedder that makes many vectors of a page.

    Example: vrag match ./page.jpg "shore power" --embedder colqwen2 -o heat.png
    """
    if not query.strip():
        raise typer.BadParameter("The query is empty.")
    from vrag.embed.similarity_map import draw_heat, regions

    settings = load_settings(
        collection=collection, embedder=embedder, visual_tokens=visual_tokens, device=device
    ).settings
    image, held = _picture(page, settings)
    found = _matcher(settings, held).match_map(image, query)
    if word is not None and word > len(found.tokens):
        raise typer.BadParameter(f"The query has {len(found.tokens)} tokens: {' '.join(found.tokens)}")
    _save(draw_heat(image, found, None if word is None else word - 1), output)
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


def _save(drawn: Image, output: Path) -> None:
    try:
        drawn.save(output)
    except ValueError as error:
        raise typer.BadParameter(f"{output} names no kind of picture; write out.png or out.jpg.") from error
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror or error}.") from error


def _picture(page: str, settings: Settings) -> tuple[Image, Stored | None]:
    """The picture file of that name; or else the item's, and the collection that holds it."""
    from vrag.corpus.formats.image import open_picture
    from vrag.errors import CorpusError
    from vrag.index.collection import Collection as Stored

    if not Path(page).is_file():
        stored = Stored.open(settings.collection)
        return stored.image(stored.item(page)), stored
    try:
        with open_picture(Path(page), settings.max_pixels) as image:
            return image.convert("RGB"), None
    except (CorpusError, OSError, ValueError, SyntaxError) as error:
        raise CorpusError(f"{page} cannot be opened as a picture: {error}") from error


def _matcher(settings: Settings, held: Stored | None) -> SimilarityMatcher:
    """The embedder of the settings, or else the collection's, as far as it can say where it matched.

    Args:
        settings: How to open it.
        held: The collection that the picture is from: its vectors are to be this embedder's, or else the
            picture would not show why a search found it.
    """
    from vrag.embed.similarity_map import SimilarityMatcher
    from vrag.errors import EmbedError

    opened = _embedder(settings, held)
    if not isinstance(opened, SimilarityMatcher):
        raise EmbedError(
            f"{opened.name} cannot say where a page matched.", "Use a model of many vectors: colqwen2"
        )
    return opened


def _embedder(settings: Settings, held: Stored | None) -> Model:
    from vrag.errors import EmbedError
    from vrag.factory import load_embedder
    from vrag.index.collection import Collection as Stored

    bound = held if settings.embedder else held or Stored.open(settings.collection)
    mark = bound.header.embedder if bound else None
    if not settings.embedder and (mark is None or "://" in mark.name):
        what = f"{mark.name}, a server that makes no maps" if mark else "no embedder"
        raise EmbedError(f"The collection has {what}.", "Name one: --embedder colqwen2")
    try:
        spec = settings.embedder or (mark.name if mark else "")
        opened = load_embedder(settings, spec, mark.settings if mark else None)
    except EmbedError as error:
        way = "" if settings.embedder else "Say where the model is now: --embedder MODEL"
        raise EmbedError(error.message, f"{error.hint} {way}".strip()) from error
    if bound is not None and mark is not None:
        bound.header.check_embedder(opened)
    return opened
