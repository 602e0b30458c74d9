"""verl and what it brings along, imported where they are used."""

from __future__ import annotations

from typing import Any

from vrag.embed.device import library as of_models
from vrag.errors import MissingExtra

__all__ = ["library"]


def library(name: str) -> Any:  # noqa: ANN401 - none of these libraries is typed
    """One of the libraries of the extra `verl`.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        return of_models(name)
    except MissingExtra as error:
        raise MissingExtra(name.partition(".")[0].replace("_", "-"), "verl") from error
