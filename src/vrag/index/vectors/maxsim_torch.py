"""Late interaction on an accelerator, through torch.

Vectors lie on the device as float16. There they are multiplied in float16, and the best candidates again
in float32, which settles their order; so the scores are exact, and only an item that float16 moves past
all candidates could be missed. On a processor everything is multiplied in float32: float16 arithmetic is
slow there. Tested with the device `cpu`; unproven on a GPU.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vrag.errors import MissingExtra, SettingsError
from vrag.index.vectors.maxsim import Queries, runs
from vrag.index.vectors.topk import best, named, shortlist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.index.vectors.maxsim import PageRun, Pages
    from vrag.index.vectors.tiers import Tier

__all__ = ["DeviceMaxSim"]

Torch: TypeAlias = Any
"""The module, many of whose functions have no types."""
Tensor: TypeAlias = Any
Number: TypeAlias = Any
"""A `torch.dtype`."""

_BLOCK = 1 << 18
"""Vectors multiplied at once: with 320 query vectors 160 MB of products."""
_TOGETHER = 16
"""Queries multiplied at once."""
_MIN_CANDIDATES = 100


def _torch() -> Torch:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise MissingExtra("torch", "models") from None


class DeviceMaxSim:
    """A `VectorIndex` that scores every vector on a device of torch.

    Args:
        tier: How it came to be chosen.
        ids: Of the items, sorted.
        pages: Their vectors; all of them must fit on the device.
        device: As torch names it: `cuda`, `cuda:1`, `cpu`.

    Raises:
        MissingExtra: If torch is not installed.
        SettingsError: If there is no such device, or too little room on it.
    """

    def __init__(self, tier: Tier, ids: Sequence[str], pages: Pages, device: str) -> None:
        self.tier = tier
        self._ids = ids
        self._pages = pages
        self._torch = torch = _torch()
        try:
            self._device = torch.device(device)
            self._vectors = self._sent(pages.vectors)
        except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without CUDA
            line = str(error).splitlines()[0]
            raise SettingsError(
                f"Vectors cannot be searched on {device}: {line}", "Use device cpu."
            ) from error

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """See `VectorIndex`."""
        found: list[list[tuple[str, float]]] = [[] for _ in queries]
        asked = [number for number, query in enumerate(queries) if len(query) and np.isfinite(query).all()]
        rows = np.flatnonzero(self._pages.lengths > 0)
        for at in range(0, len(asked) if len(rows) else 0, _TOGETHER):
            numbers = asked[at : at + _TOGETHER]
            near = self._scores(Queries([queries[number] for number in numbers]), rows, self._coarse)
            for number, scores in zip(numbers, near.T, strict=True):
                found[number] = self._rescored(queries[number], top_k, scores, masks[number])
        return found

    @property
    def _coarse(self) -> Number:
        return self._torch.float32 if self._device.type == "cpu" else self._torch.float16

    def _rescored(
        self, query: NDArray[np.float32], top_k: int, near: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> list[tuple[str, float]]:
        allowed = np.flatnonzero(mask & np.isfinite(near))
        rows = allowed[shortlist(near[allowed], max(_MIN_CANDIDATES, top_k + top_k // 2), 0.0)]
        if not len(rows):
            return []
        scores = self._scores(Queries([query]), rows, self._torch.float32)[rows, 0]
        return named(self._ids, best(rows, scores, top_k))

    def _scores(self, queries: Queries, rows: NDArray[np.int64], number: Number) -> NDArray[np.float32]:
        """MaxSim of queries with some items, (items, queries); −inf for the others."""
        columns = self._torch.from_numpy(queries.columns).to(self._device, number)
        scores = np.full((len(self._ids), queries.count), -np.inf, np.float32)
        for run in runs(self._pages.starts, self._pages.lengths, rows, _BLOCK):
            scores[run.rows] = queries.sums(self._most(run, columns))
        return scores

    def _most(self, run: PageRun, columns: Tensor) -> NDArray[np.float32]:
        """The greatest product of each item with each query vector, (items, query vectors)."""
        product = self._vectors[run.begin : run.end].to(columns.dtype) @ columns
        lengths = self._torch.from_numpy(self._pages.lengths[run.rows]).to(self._device)
        most = self._torch.segment_reduce(product.float(), "max", lengths=lengths, axis=0)
        return most.cpu().numpy()

    def _sent(self, vectors: NDArray[np.float16]) -> Tensor:
        """The vectors on the device, block by block: no second copy of all of them is made here."""
        torch = self._torch
        sent = torch.empty(vectors.shape, dtype=torch.float16, device=self._device)
        for at in range(0, len(vectors), _BLOCK):
            part = slice(at, at + _BLOCK)
            sent[part] = torch.from_numpy(np.array(vectors[part]))
        return sent
