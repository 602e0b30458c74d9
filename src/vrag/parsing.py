"""JSON and TOML of files that people may edit and disks may damage: every fault is a `ValueError`."""

from __future__ import annotations

import json
import tomllib
from typing import Any

_TOO_DEEP = "it is nested too deeply"


def parse_json(data: str | bytes) -> Any:  # noqa: ANN401 - whatever the file holds
    """Parse JSON. Raises `ValueError`, also for bytes that are not text and for endless nesting.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_toml(data: str | bytes) -> dict[str, Any]:
    """Parse TOML. Raises `ValueError`, also for bytes that are not UTF-8 and for endless nesting."""
    try:
        return tomllib.loads(data.decode() if isinstance(data, bytes) else data)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
