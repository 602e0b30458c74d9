"""Commands in messages, completed so that they work as printed: about the same collection."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.settings import Settings

COMMAND = re.compile(
    r"vrag (?:(ask|report|runs (?:list|show|replay|export))"
    r"|search|index (?:add|status|verify|remove|prune|compact))(?= |`|\.|,|$)",
    re.MULTILINE,
)
"""Commands on a collection; those of the group also take the runs of a search server."""


def add_location(text: str, settings: Settings | None = None) -> str:
    """Add the flags to the commands in a message that lead to the collection it is about.

    A message that names a collection already, or means the default one, is not changed.

    Args:
        text: A message or hint.
        settings: Settings of the collection; by default it is the one on the command line.
    """
    if not COMMAND.search(text) or any(flag in text for flag in ("--collection", "--search-url")):
        return text
    if settings is None:
        collection = _flag_value("--collection", "-c")
        server = _flag_value("--search-url")
    else:
        collection, server = _unusual_location(settings)
    collection_flag = f" --collection {shlex.quote(collection)}" if collection else ""
    run_flag = f" --search-url {shlex.quote(server)}" if server else collection_flag
    return COMMAND.sub(lambda match: match[0] + (run_flag if match[1] else collection_flag), text)


def _flag_value(*names: str) -> str:
    """Return the value of an option on the command line, or an empty text."""
    line = sys.argv[1:]
    for word, following in zip(line, [*line, ""][1:], strict=True):
        if word in names:
            return following
        if word.startswith(f"{names[0]}="):
            return word.removeprefix(f"{names[0]}=")
    return ""


def _unusual_location(settings: Settings) -> tuple[str, str]:
    """Return the collection and the search server, as far as they are not what commands use by default."""
    here, usual = _location(settings), _location(load_settings().settings)
    if here[1]:
        return "", here[1] if here[1] != usual[1] else ""
    return here[0] if here != usual else "", ""


def _location(settings: Settings) -> tuple[str, str]:
    """Return the first collection and the search server; keys inside an address are masked."""
    shown = settings.model_dump(mode="json", include={"collection", "collections", "search_url"})
    return (shown["collections"] or [shown["collection"]])[0], shown["search_url"]
