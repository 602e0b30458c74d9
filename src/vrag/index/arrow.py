"""pyarrow at arm's length: it ships no types and takes a tenth of a second to import."""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

__all__ = ["ArrowLibrary", "ArrowSchema", "ArrowTable", "arrow"]

ArrowLibrary: TypeAlias = Any
ArrowSchema: TypeAlias = Any
"""A `pyarrow.Schema`."""
ArrowTable: TypeAlias = Any
"""A `pyarrow.Table`."""


def arrow() -> ArrowLibrary:
    """The module `pyarrow`, with its submodule `compute`."""
    importlib.import_module("pyarrow.compute")
    return importlib.import_module("pyarrow")
