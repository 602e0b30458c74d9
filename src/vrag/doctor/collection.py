"""Checks of what is searched: settings, collections, their embedders, a search server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.doctor.check import Check, CheckStatus
from vrag.errors import ServerError
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from vrag.index.collection import Collection
    from vrag.settings import Settings, SettingsReport

__all__ = ["check_collection", "check_embedder", "check_search_server", "check_settings"]

COMMON_WORDS = "the total of the page in 2023"
"""What a server is asked, to see whether what it finds can be shown."""
HITS = 5
FIRST = 100
"""Items among which a picture to open is looked for."""


def check_settings(report: SettingsReport) -> Check:
    """What is set and by what, and variables that look like settings and are none."""
    from vrag.settings import unknown_variables

    values = report.settings.model_dump(mode="json")  # keys and passwords are masked in it
    chosen = {name: origin for name, origin in sorted(report.origins.items()) if origin != "default"}
    details = {name: {"value": values[name], "origin": origin} for name, origin in chosen.items()}
    told = ", ".join(f"{name} ({origin})" for name, origin in chosen.items())
    message = f"Not the default: {told}." if told else "All are the defaults."
    if strange := unknown_variables():
        meant = ", ".join(f"{name} (is {near} meant?)" if near else name for name, near in strange.items())
        hint = "Correct or unset them; `vrag config show` lists all settings."
        return Check("", CheckStatus.WARNING, f"No settings: {meant}. {message}", hint, details)
    return Check("", CheckStatus.OK, message, details=details)


def check_collection(report: SettingsReport, place: str) -> Check:
    """Whether a collection is there, can be read, and holds what it says.

    Raises:
        CollectionError: If it was named and cannot be opened.
    """
    from vrag.factory import vector_options
    from vrag.index.build import status
    from vrag.index.collection import Collection

    named = {report.origins["collection"], report.origins["collections"]} != {"default"}
    if not named and not _exists(place):
        return Check(
            "",
            CheckStatus.WARNING,
            f"There is no collection yet in {place}.",
            "Make one: vrag index add PATH",
        )
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
    searched = f", searched by {now.tier.name}" if now.tier else ""
    message = (
        f"{now.documents} documents, {now.items} items, {now.bytes / 1e6:.1f} MB{searched}: {now.address}"
    )
    if not now.items:
        return Check(
            "", CheckStatus.WARNING, f"It is empty: {now.address}", "Fill it: vrag index add PATH", details
        )
    _open_first_picture(collection)
    if now.pending or now.problems:
        trouble = f"{len(now.problems)} files could not be read, {len(now.pending)} are unfinished. {message}"
        return Check("", CheckStatus.WARNING, trouble, "See which and why: vrag index status", details)
    return Check("", CheckStatus.OK, message, details=details)


def _exists(place: str) -> bool:
    from vrag.index.collection_json import CollectionHeader
    from vrag.index.remote.object_storage import is_url

    return is_url(place) or CollectionHeader.read(Path(place)) is not None


def _open_first_picture(collection: Collection) -> None:
    """Opens one picture, if there is one among the first items.

    Raises:
        CollectionError: If it is missing or damaged.
    """
    rows = collection.scan(["id", "image"]).data.slice(0, FIRST).to_pylist()
    first = next((row["id"] for row in rows if row["image"]), None)
    if first is not None:
        collection.image(collection.item(first))


def check_embedder(report: SettingsReport, place: str) -> Check:
    """Whether the embedder that a collection was built with can be opened, and is the same still.

    Raises:
        EmbedError: If it cannot be opened.
        FingerprintMismatch: If it is another.
    """
    from vrag.factory import open_marked
    from vrag.index.collection import Collection

    if not _exists(place):
        return Check("", CheckStatus.SKIPPED, "There is no collection yet.")
    header = Collection.open(place).header
    mark = header.embedder
    if mark is None:
        return Check("", CheckStatus.SKIPPED, "The collection is searched by words alone.")
    if report.settings.ranking == "lexical":
        return Check("", CheckStatus.SKIPPED, f"{mark.name} is not used: the ranking is lexical.")
    if not mark.imported:
        header.check_embedder(open_marked(report.settings, mark))
        return Check("", CheckStatus.OK, f"{mark.name} opens and is the one that made the vectors.")
    return Check(
        "",
        CheckStatus.WARNING,
        "Its vectors were imported, and nobody has said which model made them: they are not searched.",
        "Name the model: vrag index import DIR --embedder MODEL",
    )


def check_search_server(settings: Settings, seconds: float) -> Check:
    """Whether a search server answers, and pictures can be had.

    Args:
        settings: Where it is, what it asks for, and where the pictures of one are that only names them.
        seconds: To wait for it.

    Raises:
        ServerError: If it does not.
        SettingsError: If its key does not go there: see `Settings.key`.
        SearchError: If it finds what it cannot show.
    """
    from vrag.search.client import SearchClient

    token = settings.key("search_key")
    root = Path(settings.image_root) if settings.image_root else None
    with SearchClient(
        settings.search_url, token=token, timeout=seconds, retries=0, image_root=root
    ) as client:
        hits = client.search([Query(COMMON_WORDS)], HITS)[0]
        try:
            version, corpora = client.version, client.corpora
        except ServerError:
            message = "It searches, and does not say which version of what: it is not vrag serve."
            hint = "Its pictures are opened in the directory that holds them: VRAG_IMAGE_ROOT"
            return Check("", CheckStatus.WARNING, message, hint, {"hits": len(hits)})
        details = {"version": version, "corpora": list(corpora), "hits": len(hits)}
        if shown := next((hit.item for hit in hits if hit.kind is ItemKind.PAGE), None):
            client.image(shown)
    what = ", ".join(corpora) or "a collection"
    found = "shows what it finds" if hits else "does not find even common words"
    return Check("", CheckStatus.OK, f"It searches {what}, and {found}.", details=details)
