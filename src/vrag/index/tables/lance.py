"""LanceDB: its import, the opening of a directory of tables, and its failures."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

LanceTable: TypeAlias = Any
"""A `lancedb.table.LanceTable`, which has no types to speak of; None for a table without a version."""

_RUST_SOURCE = re.compile(r",?\s*\S+\.rs:\d+:\d+")
"""The place in LanceDB's code where it noticed an error, which helps nobody here."""
_FAILURES = (RuntimeError, OSError, ValueError, LookupError, MemoryError)
"""What LanceDB and pyarrow raise, also where a damaged file makes no sense."""
_PANIC = "PanicException"
"""A failed assumption of LanceDB: a `BaseException` of no importable class."""
_CACHE_BYTES = 32 * 2**20
"""What LanceDB remembers of the versions of a table. Its own limit is several gigabytes, which a process that
follows a table for weeks would fill."""
_CATALOG_CLIENTS = "lance_namespace_urllib3_client"
"""The clients of remote catalogs, which LanceDB imports for their types: a third of its import time."""


def open_database(path: str, options: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401
    """Open a directory of tables with caches of limited size; `options` are those of its storage."""
    lancedb = import_lancedb()
    session = lancedb.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES)
    return lancedb.connect(path, storage_options=options, session=session)


def import_lancedb() -> Any:  # noqa: ANN401 - has no types to speak of
    """Import LanceDB without the clients of remote catalogs, which are never used here.

    An empty package stands in for theirs, so that only its submodules with types are loaded. It is removed
    afterwards: other code in this process finds the real one.
    """
    stand_in = None
    if not {"lancedb", _CATALOG_CLIENTS} & sys.modules.keys() and (spec := find_spec(_CATALOG_CLIENTS)):
        stand_in = sys.modules[_CATALOG_CLIENTS] = module_from_spec(spec)
    try:
        import lancedb
    except ImportError:
        if stand_in is None:
            raise
        del sys.modules[_CATALOG_CLIENTS]  # this release needs the package itself
        import lancedb
    finally:
        if stand_in is not None and sys.modules.get(_CATALOG_CLIENTS) is stand_in:
            del sys.modules[_CATALOG_CLIENTS]
    return lancedb


def is_failure(error: BaseException) -> bool:
    """Check whether LanceDB or pyarrow could not do something."""
    return isinstance(error, _FAILURES) or type(error).__name__ == _PANIC


def describe_failure(error: BaseException) -> str:
    """Return what failed in one line, without its end."""
    text = str(error).strip() or type(error).__name__
    return _RUST_SOURCE.sub("", text.splitlines()[0])[:300].rstrip(" .,")
