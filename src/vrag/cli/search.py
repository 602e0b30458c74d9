"""`vrag search`: the pages that a query finds, without an agent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import (
    Collections,
    Device,
    Embedder,
    Json,
    QueryInstruction,
    RankBy,
    emit_json,
    plain,
    say,
    search_settings,
    warn,
)

if TYPE_CHECKING:
    from vrag.factory import Session
    from vrag.types import Item

__all__ = ["search"]


def search(
    query: str = typer.Argument(..., help="What to look for."),
    top_k: int = typer.Option(10, "--top-k", "-k", min=1, max=1000, help="How many items to list."),
    docs: list[Path] = typer.Option([], "--docs", "-d", help="Look in these indexed files or folders only."),
    kind: list[str] = typer.Option(
        [], "--kind", help="Look for page, passage or clip only; may be repeated."
    ),
    collection: list[str] | None = Collections,
    corpus: list[str] = typer.Option([], "--corpus", help="Of several collections, look in this one only."),
    ranking: str | None = RankBy,
    embedder: str | None = Embedder,
    query_instruction: str | None = QueryInstruction,
    device: str | None = Device,
    reranker: str | None = typer.Option(None, help="Model that ranks the best hits anew."),
    as_json: bool = Json,
) -> None:
    """Search the collection and list what was found, best first.

    Examples of use:

      vrag search "passengers in 2024" --top-k 3

      vrag search "passengers in 2024" --collection reports --collection slides
    """
    if not query.strip():
        raise typer.BadParameter("The query is empty.")
    from vrag.errors import SearchError
    from vrag.factory import documents_under, open_session
    from vrag.types import ItemKind, Query

    session = open_session(
        search_settings(collection, ranking, embedder, query_instruction, device, reranker)
    )
    _warn_of_missing_vectors(session, query_instruction)
    unknown = sorted(set(kind) - {str(known) for known in ItemKind})
    if unknown:
        raise typer.BadParameter(f"There is no kind of item {unknown[0]!r}; known: {', '.join(ItemKind)}.")
    documents = frozenset(
        document.id for place in session.collections.values() for document in documents_under(place, docs)
    )
    if docs and not documents:
        raise SearchError(
            f"Nothing in {', '.join(map(str, docs))} is indexed.", "Index it: vrag index add PATH"
        )
    kinds = frozenset(map(ItemKind, kind)) if kind else None
    corpora = frozenset(corpus) or None
    hits = session.searcher.search([Query(query, documents if docs else None, kinds, corpora)], top_k)[0]
    items = {hit.item: session.searcher.item(hit.item) for hit in hits}
    if as_json:
        found = [{**asdict(hit), "snippet": snippet(items[hit.item], query)} for hit in hits]
        emit_json({"query": query, "hits": found})
        return
    for hit in hits:
        say(
            (f"{hit.rank:3}. ", "bold"),
            (plain(hit.document_name), "magenta"),
            f", {hit.kind} {hit.ordinal}  ",
            (f"{hit.score:.3f}", "dim"),
        )
        say("     ", (snippet(items[hit.item], query), "dim"))
    if not hits:
        say("Nothing was found.")


def _warn_of_missing_vectors(session: Session, query_instruction: str | None) -> None:
    """Print which collections take part by words alone, and options that have no effect there."""
    from vrag.search.engine import Ranking

    places = session.collections
    wordy = [name for name, place in places.items() if place.header.embedder is None]
    if query_instruction and len(wordy) == len(places):
        warn("--query-instruction has no effect: no collection that is searched has vectors.")
    elif wordy and len(wordy) < len(places) and session.settings.ranking != Ranking.LEXICAL:
        warn(f"Without vectors, and so ranked by words alone: {plain(', '.join(sorted(wordy)))}.")


def snippet(item: Item, query: str, length: int = 140) -> str:
    """The stretch of an item's text that begins shortly before the first word of the query."""
    text = plain(item.text)
    low = text.casefold()
    places = [at for word in query.casefold().split() if len(word) > 2 and (at := low.find(word)) >= 0]
    start = max(0, min(places) - 30) if places else 0
    return ("…" if start else "") + plain(text[start:], length)
