"""Commands that a message names, so that they work as they stand: about the same collection."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.settings import Settings

__all__ = ["again"]

COMMAND = re.compile(
    r"vrag (?:(ask|report|runs (?:list|show|replay|export))"
    r"|search|index (?:add|status|verify|remove|prune|compact))(?= |`|\.|,|$)",
    re.MULTILINE,
)
"""Of a collection; those of the group also follow a search server, with its runs."""
COLLECTION, SEARCH_URL = ("--collection", "-c"), ("--search-url",)


def again(text: str, settings: Settings | None = None) -> str:
    """A text with the flags in the commands it names that lead to the collection it is about.

    Where a command goes there by itself, and in a text that names a place already, nothing is added.

    Args:
        text: Of a hint.
        settings: Those of the collection; by default it is the one that this command line names.
    """
    if not COMMAND.search(text) or any(flag in text for flag in ("--collection", "--search-url")):
        return text
    place, server = _named(sys.argv[1:]) if settings is None else _set(settings)
    at = f" --collection {shlex.quote(place)}" if place else ""
    to = f" --search-url {shlex.quote(server)}" if server else at
    return COMMAND.sub(lambda found: found[0] + (to if found[1] else at), text)


def _named(line: Sequence[str]) -> tuple[str, str]:
    """Collection and search server that a command line names; empty for none."""
    return _value(line, COLLECTION), _value(line, SEARCH_URL)


def _value(line: Sequence[str], names: tuple[str, ...]) -> str:
    for word, following in zip(line, [*line, ""][1:], strict=True):
        if word in names:
            return following
        for name in names:
            if name.startswith("--") and word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=")
    return ""


def _set(settings: Settings) -> tuple[str, str]:
    """Collection and search server of settings, as far as they are not those of every command."""
    here, usual = _places(settings), _places(load_settings().settings)
    if here[1]:
        return "", here[1] if here[1] != usual[1] else ""
    return here[0] if here != usual else "", ""


def _places(settings: Settings) -> tuple[str, str]:
    """Where the first collection and the search server are; a key in an address is not shown."""
    shown = settings.model_dump(mode="json", include={"collection", "collections", "search_url"})
    return (shown["collections"] or [shown["collection"]])[0], shown["search_url"]
