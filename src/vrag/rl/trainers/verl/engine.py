"""verl and what it brings along, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from vrag.errors import MissingExtra

__all__ = ["library"]


def library(name: str) -> Any:  # noqa: ANN401 - none of these libraries is typed
    """One of the libraries of the extra `verl`.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        root = name.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != root:
            raise
        raise MissingExtra(root.replace("_", "-"), "verl") from error
