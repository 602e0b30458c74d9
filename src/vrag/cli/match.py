"""`vrag match`: where a page matches a query, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.embed.similarity_map import SimilarityMatcher
    from vrag.index.collection import Collection
    from vrag.settings import Settings


def match(
    page: str = typer.Argument(..., help="Id of an item of the collection, or a picture file."),
    query: str = typer.Argument(..., help="What to look for on the page."),
    output: Path = typer.Option(Path("match.png"), "--output", "-o", help="Output picture."),
    word: int | None = typer.Option(None, min=1, help="Number of the only query token to show."),
    collection: opt.CollectionOption = None,
    embedder: opt.EmbedderOption = None,
    visual_tokens: opt.VisualTokensOption = None,
    device: opt.DeviceOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Mark where a page matches a query, with a multi-vector embedder.

    Example: vrag match ./page.jpg "shore power" --embedder colqwen2 -o heat.png
    """
    if not query.strip():
        raise typer.BadParameter("The query is empty.")
    settings = opt.load_flags(locals()).settings
    from vrag.embed.similarity_map import draw_heat, regions

    image, source = _open_page(page, settings)
    heat = _open_matcher(settings, source).match_map(image, query)
    if word is not None and word > len(heat.tokens):
        raise typer.BadParameter(f"The query has {len(heat.tokens)} tokens: {' '.join(heat.tokens)}")
    try:
        draw_heat(image, heat, None if word is None else word - 1).save(output)
    except ValueError as error:
        raise typer.BadParameter(f"{output} is not a picture file. Use out.png or out.jpg.") from error
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror or error}.") from error
    places = regions(heat)
    if as_json:
        boxes = [{"box": place.box.as_tuple(), "score": place.score} for place in places]
        print_json({"picture": str(output), "tokens": heat.tokens, "regions": boxes})
        return
    echo("Written: ", (str(output), "bold"))
    numbered = (f"{number} {plain(token)}" for number, token in enumerate(heat.tokens, start=1))
    echo(f"Tokens: {' · '.join(numbered)}")
    for place in places:
        edges = ", ".join(f"{edge:.3f}" for edge in place.box.as_tuple())
        echo(f"  {place.score:.2f}  [{edges}]")


def _open_page(page: str, settings: Settings) -> tuple[Image, Collection | None]:
    """Open the picture file of that name, or else the picture of the item and its collection."""
    from vrag.corpus.formats.image import open_picture
    from vrag.errors import CorpusError
    from vrag.index.collection import Collection

    if not Path(page).is_file():
        collection = Collection.open(settings.collection)
        return collection.image(page), collection
    try:
        with open_picture(Path(page), settings.max_pixels) as image:
            return image.convert("RGB"), None
    except (CorpusError, OSError, ValueError, SyntaxError) as error:
        raise CorpusError(f"{page} cannot be opened as a picture: {error}") from error


def _open_matcher(settings: Settings, source: Collection | None) -> SimilarityMatcher:
    """Open the embedder of the settings, or else the collection's.

    The vectors of `source`, the collection that the picture is from, must be by this embedder: else the
    picture would not show why a search found it.
    """
    from vrag.embed.similarity_map import SimilarityMatcher
    from vrag.errors import EmbedError
    from vrag.factory import load_embedder
    from vrag.index.collection import Collection

    bound = source if settings.embedder else source or Collection.open(settings.collection)
    recorded = bound.header.embedder if bound else None
    if not settings.embedder and (recorded is None or "://" in recorded.name):
        reason = f"{recorded.name} is a server and makes no maps" if recorded else "it has no embedder"
        raise EmbedError(f"The collection cannot be used: {reason}.", "Choose a model: --embedder colqwen2")
    try:
        name = settings.embedder or (recorded.name if recorded else "")
        embedder = load_embedder(settings, name, recorded.settings if recorded else None)
    except EmbedError as error:
        hint = "" if settings.embedder else "Name the current path of the model: --embedder MODEL"
        raise EmbedError(error.message, f"{error.hint} {hint}".strip()) from error
    if bound is not None and recorded is not None:
        bound.header.check_embedder(embedder)
    if not isinstance(embedder, SimilarityMatcher):
        message = f"{embedder.name} cannot show where a page matches."
        raise EmbedError(message, "Use a multi-vector model: --embedder colqwen2")
    return embedder
