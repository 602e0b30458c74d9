"""`vrag search`: the pages that a query finds, without an agent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, warn

if TYPE_CHECKING:
    from vrag.factory import Session
    from vrag.types import Item

SNIPPET_CHARS = 140


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
    settings = opt.load_flags(locals()).settings
    from vrag.errors import SearchError
    from vrag.factory import documents_under, open_session
    from vrag.types import ItemKind, Query

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
    corpora = frozenset(corpus) or None
    hits = session.searcher.search([Query(query, documents if docs else None, kinds, corpora)], top_k)[0]
    snippets = [snippet(session.searcher.item(hit.item), query) for hit in hits]
    if as_json:
        records = [{**asdict(hit), "snippet": text} for hit, text in zip(hits, snippets, strict=True)]
        print_json({"query": query, "hits": records})
        return
    for hit, text in zip(hits, snippets, strict=True):
        name = (plain(hit.document_name), "magenta")
        echo((f"{hit.rank:3}. ", "bold"), name, f", {hit.kind} {hit.ordinal}  ", (f"{hit.score:.3f}", "dim"))
        echo("     ", (text, "dim"))
    if not hits:
        echo("No hits.")


def _warn_without_vectors(session: Session, query_instruction: str | None) -> None:
    """Print which collections have no vectors, and options that have no effect on them."""
    from vrag.search.engine import Ranking

    places = session.collections
    lexical = [name for name, place in places.items() if place.header.embedder is None]
    if query_instruction and len(lexical) == len(places):
        warn("--query-instruction has no effect: none of the collections has vectors.")
    elif lexical and len(lexical) < len(places) and session.settings.ranking != Ranking.LEXICAL:
        names = plain(", ".join(sorted(lexical)))
        warn(f"Collections without vectors are ranked by words only: {names}.")


def snippet(item: Item, query: str) -> str:
    """Return the part of an item's text that begins shortly before the first word of the query."""
    text = plain(item.text)
    low = text.casefold()
    places = [at for word in query.casefold().split() if len(word) > 2 and (at := low.find(word)) >= 0]
    start = max(0, min(places) - 30) if places else 0
    return ("…" if start else "") + plain(text[start:], SNIPPET_CHARS)
