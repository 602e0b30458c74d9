"""The collection that a command used last: commands that read use it where none is named.

It is remembered in one file of the user. An option, a variable and a settings file outrank it. Commands that
write to a collection, servers and Python do not use it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from platformdirs import user_state_path

from vrag.providers import hide_credentials
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.settings import Settings, SettingsReport

USED_LAST = "used last"
"""Origin of the setting `collection` if it is the collection that was used last."""
DEFAULT = "default"
HEADER_FILE = "collection.db"
"""The file that every collection has; it is named here too, since `vrag.index` loads an engine."""


def is_collection(directory: Path) -> bool:
    """Return whether a directory is a collection."""
    return (directory / HEADER_FILE).is_file()


def memory_file() -> Path:
    """Return the file that names the collection that was used last."""
    return user_state_path("vrag", appauthor=False) / "last-collection.json"


def remember_collection(settings: Settings) -> None:
    """Remember the collections of the settings as those that were used last.

    Nothing is remembered of a search server, or of an address with a key in it. A memory that cannot be
    written is left as it is.
    """
    if settings.search_url or any(hide_credentials(place) != place for place in settings.places):
        return
    places = [place if "://" in place else str(Path(place).absolute()) for place in settings.places]
    if places == read_memory():
        return
    with suppress(OSError):
        file = memory_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps({"collections": places}), encoding="utf-8")
        unfinished.replace(file)


def remember_existing_collection(settings: Settings) -> None:
    """Remember the collections of the settings if all of them exist."""
    if all(map(_exists, settings.places)):
        remember_collection(settings)


def read_memory() -> list[str]:
    """Return the addresses of the collections that were used last; none if nothing is remembered."""
    try:
        places: object = json.loads(memory_file().read_text(encoding="utf-8"))["collections"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return list(map(str, cast("list[object]", places))) if isinstance(places, list) else []


def use_memory(report: SettingsReport) -> tuple[SettingsReport, str]:
    """Return the settings with the collection that was used last, where they name none, and a note on it.

    The note is empty if the settings name a collection or a server, if nothing is remembered, or if that is
    the default collection.
    """
    if any(report.origins[name] != DEFAULT for name in ("collection", "collections", "search_url")):
        return report, ""
    places = read_memory()
    if not places or places == [report.settings.collection]:
        return report, ""
    if gone := [place for place in places if not _exists(place)]:
        return report, f"The collection used last is gone: {gone[0]}. The default one is used."
    many = places if len(places) > 1 else []
    settings = report.settings.model_copy(update={"collection": places[0], "collections": tuple(many)})
    origins = report.origins | {"collections" if many else "collection": USED_LAST}
    noun = "Collections" if many else "Collection"
    return replace(report, settings=settings, origins=origins), f"{noun}: {_names(places)} ({USED_LAST})"


def load_collection_settings(collection: str | None = None) -> Settings:
    """Load the settings of a command that reads a collection: the named one, or the one used last."""
    return use_memory(load_settings(collection=collection))[0].settings


def _exists(place: str) -> bool:
    return "://" in place or is_collection(Path(place))


def _names(places: Sequence[str]) -> str:
    """Name collections: those in the user's data folder without its path."""
    home = Path(load_settings().settings.collection).parent
    return ", ".join(Path(p).name if Path(p).parent == home else p for p in places)
