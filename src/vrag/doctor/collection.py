"""Checks of settings, collections, their embedders, and the search server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.doctor.check import Check, ok, skipped, warning
from vrag.errors import ServerError
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from vrag.settings import Settings, SettingsReport

COMMON_WORDS = "the total of the page in 2023"
"""Query to a search server, to see whether its hits can be shown."""
MAX_HITS = 5
MAX_ITEMS = 100
"""Items among which a picture to open is looked for."""


def check_settings(report: SettingsReport) -> Check:
    """List the settings that are not the default, and variables that look like settings."""
    from vrag.settings import unknown_variables

    values = report.settings.model_dump(mode="json")  # keys and passwords are masked in it
    chosen = {name: origin for name, origin in sorted(report.origins.items()) if origin != "default"}
    details = {name: {"value": values[name], "origin": origin} for name, origin in chosen.items()}
    names = ", ".join(f"{name} ({origin})" for name, origin in chosen.items())
    message = f"Not the default: {names}." if names else "All settings have their defaults."
    if unknown := unknown_variables():
        guesses = (f"{name} (did you mean {near}?)" if near else name for name, near in unknown.items())
        hint = "Correct or unset them; `vrag config show` lists all settings."
        return warning(f"Unknown settings: {', '.join(guesses)}. {message}", hint, details)
    return ok(message, details=details)


def check_collection(report: SettingsReport, place: str) -> Check:
    """Open a collection and one of its pictures, and count what it contains."""
    from vrag.factory import vector_options
    from vrag.index.build import status
    from vrag.index.collection import Collection

    named = {report.origins["collection"], report.origins["collections"]} != {"default"}
    if not named and not _exists(place):
        return warning(f"There is no collection yet in {place}.", "Make one: vrag index add PATH")
    collection = Collection.open(place)
    now = status(collection, vector_options(report.settings))
    details = {
        "address": now.address,
        "documents": now.documents,
        "items": now.items,
        "bytes": now.bytes,
        "files": {str(state): count for state, count in now.files.items()},
        "version": now.content_version,
        "tier": asdict(now.tier) if now.tier else None,
    }
    if not now.items:
        return warning(f"It is empty: {now.address}", "Add documents: vrag index add PATH", details)
    tier = f", searched by {now.tier.name}" if now.tier else ""
    size = f"{now.bytes / 1e6:.1f} MB"
    message = f"{now.documents} documents, {now.items} items, {size}{tier}: {now.address}"
    rows = collection.scan(["id", "image"]).data.slice(0, MAX_ITEMS).to_pylist()
    if first := next((row["id"] for row in rows if row["image"]), None):
        collection.image(first)  # raises if the picture is missing or damaged
    if now.pending or now.problems:
        problems = f"{len(now.problems)} files could not be read, {len(now.pending)} are unfinished."
        return warning(f"{problems} {message}", "See which and why: vrag index status", details)
    return ok(message, details=details)


def _exists(place: str) -> bool:
    from vrag.index.location import CollectionHeader
    from vrag.index.remote.object_storage import is_url

    return is_url(place) or CollectionHeader.read(Path(place)) is not None


def check_embedder(report: SettingsReport, place: str) -> Check:
    """Open the embedder that a collection was built with, and check that it is the same."""
    from vrag.factory import open_marked
    from vrag.index.collection import Collection

    if not _exists(place):
        return skipped("There is no collection yet.")
    header = Collection.open(place).header
    recorded = header.embedder
    if recorded is None:
        return skipped("The collection has no vectors; words are searched.")
    if report.settings.ranking == "lexical":
        return skipped(f"{recorded.name} is not used: the ranking is lexical.")
    if recorded.imported:
        hint = "Name the model: vrag index import DIR --embedder MODEL"
        return warning("Its vectors were imported without a model: they are not searched.", hint)
    header.check_embedder(open_marked(report.settings, recorded))
    return ok(f"{recorded.name} opens and is the model that made the vectors.")


def check_search_server(settings: Settings, seconds: float) -> Check:
    """Search on a search server, and open a picture that it finds."""
    from vrag.search.client import SearchClient

    token = settings.key("search_key")
    root = Path(settings.image_root) if settings.image_root else None
    with SearchClient(
        settings.search_url, token=token, timeout=seconds, retries=0, image_root=root
    ) as client:
        hits = client.search([Query(COMMON_WORDS)], MAX_HITS)[0]
        try:
            version, corpora = client.version, client.corpora
        except ServerError:
            message = "It searches, but does not report a version: it is not `vrag serve`."
            hint = "Set the directory of its pictures: VRAG_IMAGE_ROOT"
            return warning(message, hint, {"hits": len(hits)})
        details = {"version": version, "corpora": list(corpora), "hits": len(hits)}
        if page := next((hit.item for hit in hits if hit.kind is ItemKind.PAGE), None):
            client.image(page)
    found = "shows what it finds" if hits else "does not find even common words"
    return ok(f"It searches {', '.join(corpora) or 'a collection'}, and {found}.", details=details)
