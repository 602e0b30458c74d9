"""pyarrow at arm's length: it ships no types and takes a tenth of a second to import."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ArrowLibrary", "ArrowSchema", "ArrowTable", "arrow", "integers", "make_integers"]

ArrowLibrary: TypeAlias = Any
ArrowSchema: TypeAlias = Any
"""A `pyarrow.Schema`."""
ArrowTable: TypeAlias = Any
"""A `pyarrow.Table`."""


def arrow() -> ArrowLibrary:
    """The module `pyarrow`, with its submodule `compute`."""
    importlib.import_module("pyarrow.compute")
    return importlib.import_module("pyarrow")


def integers(array: Any) -> NDArray[np.int32]:  # noqa: ANN401 - pyarrow has no types
    """View an Arrow array of 32-bit integers without nulls, (n,): its own `to_numpy` imports pandas."""
    values: NDArray[Any] = np.from_dlpack(array)
    return values


def make_integers(values: Sequence[int]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Make an Arrow array of 64-bit integers from a buffer: `pyarrow.array` imports pandas."""
    pa = arrow()
    buffer = pa.py_buffer(np.asarray(values, np.int64).tobytes())
    return pa.Array.from_buffers(pa.int64(), len(values), [None, buffer])
