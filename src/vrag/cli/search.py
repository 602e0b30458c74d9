"""`vrag search` and `vrag match`: the pages that a query finds, and where it matches on a page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, warn
from vrag.cli.terminal.help import common_options
from vrag.errors import CorpusError, EmbedError, SearchError
from vrag.factory.indexing import documents_under, load_embedder
from vrag.factory.session import Session, open_session
from vrag.index.collection import Collection
from vrag.index.opening import open_collection
from vrag.providers import is_embedding_server
from vrag.reading.questions.query_analysis import without_form
from vrag.search.engine import Ranking
from vrag.search.searcher import excerpt
from vrag.settings import Settings
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.embed.similarity_map import SimilarityMatcher

SNIPPET_CHARS = 140
"""Characters of a hit's text that are printed."""


@common_options("top_k", "docs", "collections", "as_json")
def search(
    query: str = typer.Argument(..., help="What to look for."),
    top_k: int = typer.Option(10, "--top-k", "-k", min=1, max=1000, help="Number of hits."),
    docs: list[Path] = typer.Option(
        [], "--docs", "-d", help="Search only this indexed file or folder; repeatable."
    ),
    kind: list[str] = typer.Option([], "--kind", help="Find only pages, passages or clips; repeatable."),
    collections: opt.CollectionsOption = None,
    corpus: list[str] = typer.Option([], "--corpus", help="Search only this one of several collections."),
    ranking: opt.RankingOption = None,
    embedder: opt.EmbedderOption = None,
    embed_query_instruction: opt.QueryInstructionOption = None,
    device: opt.DeviceOption = None,
    reranker: opt.RerankerOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Search the collection and list the hits, best first.

    Examples:

      vrag search "passengers in 2024" --top-k 3

      vrag search "passengers in 2024" --collection reports --collection slides
    """
    if not query.strip():
        raise typer.BadParameter("The query is empty.")
    settings = opt.load_reading_flags(locals()).settings
    session = open_session(settings)
    _warn_without_vectors(session, embed_query_instruction)
    if unknown := sorted(set(kind) - {str(known) for known in ItemKind}):
        raise typer.BadParameter(f"Unknown kind of item {unknown[0]!r}; known: {', '.join(ItemKind)}.")
    documents = frozenset(
        document.id for place in session.collections.values() for document in documents_under(place, docs)
    )
    if docs and not documents:
        names = ", ".join(map(str, docs))
        raise SearchError(f"No document in {names} is indexed.", "Index it: vrag index add PATH")
    kinds = frozenset(map(ItemKind, kind)) if kind else None
    words = without_form(query)
    corpora = frozenset(corpus) or None
    results = session.searcher.search([Query(words, documents if docs else None, kinds, corpora)], top_k)
    hits = session.document_names(docs).named_hits(results[0])
    items = [session.searcher.item(hit.item) for hit in hits]
    snippets = [excerpt(plain(item.text), words, SNIPPET_CHARS, before=30) for item in items]
    labels = [plain(item.facts.label) for item in items]
    found = list(zip(hits, snippets, labels, strict=True))
    if as_json:
        records = [
            {**asdict(hit), **({"page_label": label} if label else {}), "snippet": text}
            for hit, text, label in found
        ]
        print_json({"query": query, "hits": records})
        return
    for hit, text, label in found:
        name = (plain(hit.title), "magenta")
        printed = f" (printed {label})" if label else ""
        place = f", {hit.kind} {hit.ordinal}{printed}  "
        echo((f"{hit.rank:3}. ", "bold"), name, place, (f"{hit.score:.3f}", "dim"))
        echo("     ", (text, "dim"))
    if not hits:
        echo("No hits.")


def _warn_without_vectors(session: Session, query_instruction: str | None) -> None:
    """Print which collections have no vectors, and options that have no effect on them."""
    places = session.collections
    lexical = [name for name, place in places.items() if place.header.embedder is None]
    if query_instruction and len(lexical) == len(places):
        warn("--query-instruction has no effect: none of the collections has vectors.")
        return
    is_mixed = len(lexical) < len(places) and session.settings.ranking != Ranking.LEXICAL
    if lexical and (is_mixed or session.settings.ranking == "fused"):
        names = plain(", ".join(sorted(lexical)))
        warn(f"Collections without vectors are ranked by words only: {names}.")


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
    settings = opt.load_reading_flags(locals()).settings
    from vrag.embed.similarity_map import draw_heat, regions  # with all that reads pictures

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
    if not Path(page).is_file():
        collection = open_collection(settings.collection)
        return collection.image(page), collection
    from vrag.corpus.formats.image import open_picture

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

    bound = source if settings.embedder else source or open_collection(settings.collection)
    recorded = bound.header.embedder if bound else None
    if not settings.embedder and (recorded is None or is_embedding_server(recorded.name)):
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
