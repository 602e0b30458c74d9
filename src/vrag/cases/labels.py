"""Several labels in one column of text, as the reference's parquet has them: `Table####Chart`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["read_labels", "write_labels"]

BETWEEN, NONE = "####", "Nan"


def write_labels(labels: Sequence[str]) -> str:
    """One text of all labels; `Nan` of none. Labels that would not come back are written as JSON."""
    if not labels:
        return NONE
    text = BETWEEN.join(labels)
    return text if read_labels(text) == list(labels) else json.dumps(list(labels), ensure_ascii=False)


def read_labels(text: object) -> list[str]:
    """The labels in a text; none of what is no text.

    >>> read_labels("Table####Chart"), read_labels("Nan")
    (['Table', 'Chart'], [])
    """
    if not isinstance(text, str) or text == NONE:
        return []
    if text.startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, list) and all(isinstance(part, str) for part in cast("list[object]", value)):
                return cast("list[str]", value)
    return [part for part in text.split(BETWEEN) if part]
