"""Search over many vectors per item, by late interaction: exact, on processors or by torch on a device.

MaxSim(query, item) = Σ over query vectors of the max over item vectors of their dot product (Khattab and
Zaharia 2020, "ColBERT", equation 3). There is no division by lengths. Vectors are stored as float16;
exact scores are those of the stored vectors, multiplied in float32. Items have as many vectors as they
have: nothing is padded. An item without vectors is found by no query.

The products of stored vectors of few bits with the vectors of queries are computed by onnxruntime.
Measured on two cores with AVX-512 (processor milliseconds per 768,000 vectors of 128 numbers, 20 query
vectors): numpy takes 164 to turn float16 into float32 and 95 to multiply; onnxruntime does both in 71,
and int8 products in 17. A graph of two nodes is all it takes, so it is written here, byte by byte, by
the rules of protocol buffers and `onnx.proto3`.
"""

from __future__ import annotations

import importlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from vrag.corpus.converter import usable_cores
from vrag.errors import MissingExtra, SettingsError, first_line
from vrag.index.vectors.tiers import VectorIndex, best, shortlist
from vrag.storage.array_cache import drop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.index.vectors.tiers import Tier

_FLOAT, _UINT8, _INT8, _INT32, _FLOAT16 = 1, 2, 3, 6, 10
"""`TensorProto.DataType`."""
_ATTRIBUTE_INT = 2
"""`AttributeProto.AttributeType.INT`."""
_IR_VERSION = 8
_OPERATORS = 13
T = TypeVar("T")
R = TypeVar("R")

Torch: TypeAlias = Any
"""The module `torch`, many of whose functions have no types."""

BATCH_SIZE = 16
"""Queries multiplied at once."""
_BLOCK_SIZE = 3072
"""Vectors multiplied at once: 1.5 MB as float32 stay near the processor."""
_DEVICE_BLOCK_SIZE = 1 << 18
"""Vectors multiplied at once by torch: with 320 query vectors 160 MB of products."""
_MIN_DEVICE_CANDIDATES = 100


def multiply_float16(stored: NDArray[np.float16], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Multiply in float32: (vectors, dimension) by (dimension, query vectors), both contiguous."""
    return _open_product(_FLOAT16)(stored, queries)


def multiply_int8(stored: NDArray[np.uint8], queries: NDArray[np.int8]) -> NDArray[np.int32]:
    """Multiply in int32: (vectors, dimension) by (dimension, query vectors), both contiguous.

    Where the processor has no VNNI, sums of two products are kept in 16 bits and would overflow: keep
    queries within ±64, then 2 · 255 · 64 fits.
    """
    return _open_product(_UINT8)(stored, queries)


@cache
def _open_product(number: int) -> Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]:
    """Make the function that multiplies stored vectors of a type, on one thread: the caller has its own."""
    import onnxruntime

    if number == _FLOAT16:
        nodes = [_node("Cast", ["a"], ["f"], to=_FLOAT), _node("MatMul", ["f", "b"], ["c"])]
        b, c = _FLOAT, _FLOAT
    else:
        nodes, b, c = [_node("MatMulInteger", ["a", "b"], ["c"])], _INT8, _INT32
    graph = [*(_field(1, node) for node in nodes), _field(2, b"product")]
    graph += [_field(11, _matrix("a", number)), _field(11, _matrix("b", b)), _field(12, _matrix("c", c))]
    model = _field(1, _IR_VERSION) + _field(7, b"".join(graph)) + _field(8, _field(2, _OPERATORS))
    lib: Any = onnxruntime
    options = lib.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = lib.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda stored, queries: session.run(None, {"a": stored, "b": queries})[0]


def _node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: int) -> bytes:
    """Encode a `NodeProto`."""
    names = [_field(1, name.encode()) for name in inputs] + [_field(2, name.encode()) for name in outputs]
    given = [
        _field(5, _field(1, name.encode()) + _field(3, value) + _field(20, _ATTRIBUTE_INT))
        for name, value in attributes.items()
    ]
    return b"".join([*names, _field(4, operator.encode()), *given])


def _matrix(name: str, number: int) -> bytes:
    """Encode a `ValueInfoProto` of a tensor with two sides of any length."""
    sides = b"".join(_field(1, _field(2, f"{name}{side}".encode())) for side in range(2))
    tensor = _field(1, number) + _field(2, sides)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    """Encode a field of a message: an integer, or a text or message after its length."""
    if isinstance(value, int):
        return encode_varint(number << 3) + encode_varint(value)
    return encode_varint(number << 3 | 2) + encode_varint(len(value)) + value


def encode_varint(value: int) -> bytes:
    """Encode an integer as protocol buffers do: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def map_threads(work: Callable[[T], R], inputs: Sequence[T]) -> list[R]:
    """Apply `work` to each input, in order, on as many threads as BLAS would use.

    That is OMP_NUM_THREADS, or one for each core this process may run on. numpy and onnxruntime release the
    interpreter while they multiply.
    """
    count = min(_count_threads(), len(inputs))
    if count <= 1:
        return [work(value) for value in inputs]
    cuts = [len(inputs) * part // count for part in range(count + 1)]
    parts = [inputs[begin:end] for begin, end in pairwise(cuts)]

    def run(part: Sequence[T]) -> list[R]:
        return [work(value) for value in part]

    return [result for results in executor().map(run, parts) for result in results]


def _count_threads() -> int:
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if setting.isdigit() and int(setting):
        return int(setting)
    return usable_cores()


@cache
def executor() -> ThreadPoolExecutor:
    """Return the threads of this process. A forked one does not inherit them and makes its own."""
    return ThreadPoolExecutor(_count_threads(), thread_name_prefix="vrag-scores")


if sys.platform != "win32":
    os.register_at_fork(after_in_child=executor.cache_clear)


class PageRun(NamedTuple):
    """Items whose vectors lie one after the other."""

    begin: int
    """Start of the vectors of the first."""
    end: int
    """End of those of the last."""
    rows: NDArray[np.int64]
    """The items."""
    starts: NDArray[np.int64]
    """Offsets of the vectors of each item, relative to `begin`."""


def runs(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], rows: NDArray[np.int64], block: int
) -> Iterator[PageRun]:
    """Cut items into runs of at most `block` vectors, unless one item has more, in their stored order.

    `starts` and `lengths` (items,) say where the vectors of each begin and how many there are: at least 1
    for those among `rows`.
    """
    rows = rows[np.argsort(starts[rows], kind="stable")]
    begins, ends = starts[rows], starts[rows] + lengths[rows]
    gaps: list[int] = (np.flatnonzero(begins[1:] != ends[:-1]) + 1).tolist()
    first = 0
    for last in [*gaps, len(rows)]:
        while first < last:
            fits: int = np.searchsorted(ends[first:last], int(begins[first]) + block, side="right").item()
            after = first + max(1, fits)
            part = slice(first, after)
            yield PageRun(int(begins[first]), int(ends[after - 1]), rows[part], begins[part] - begins[first])
            first = after


class Queries:
    """Queries side by side, to be multiplied at once: each (vectors, dimension), not empty, finite."""

    def __init__(self, queries: Sequence[NDArray[np.float32]]) -> None:
        self.count = len(queries)
        lengths = [len(query) for query in queries]
        self._starts = np.cumsum([0, *lengths[:-1]])
        self.columns = np.ascontiguousarray(np.concatenate(queries).T, dtype=np.float32)
        """(dimension, vectors of all queries)."""

    def sums(self, maxima: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sum over each query's vectors: (items, vectors of all queries) to (items, queries)."""
        return np.add.reduceat(maxima, self._starts, axis=1, dtype=np.float64)


class Pages:
    """The vectors of items as they are stored: (vectors, dimension), finite.

    `starts` (items,) says where those of each item begin, `lengths` (items,) how many it has; with `frugal`,
    mapped memory is released after use.
    """

    def __init__(
        self,
        vectors: NDArray[np.float16],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        *,
        frugal: bool = False,
    ) -> None:
        self.vectors = vectors
        self.starts = starts
        self.lengths = lengths
        self._frugal = frugal

    def frugal(self) -> Pages:
        """Return the same vectors for a single pass over all of them."""
        return Pages(self.vectors, self.starts, self.lengths, frugal=True)

    def release(self) -> None:
        """Release the memory of what was read, where the pages are frugal."""
        if self._frugal:
            drop(self.vectors)

    def page(self, row: int) -> NDArray[np.float16]:
        """Return the vectors of one item, (vectors, dimension)."""
        return self.vectors[self.starts[row] : self.starts[row] + self.lengths[row]]

    def scores(
        self, queries: Queries, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Compute MaxSim of queries with some items, at least one, all of which have vectors.

        Returns the rows in the order in which they are stored, and scores (rows, queries).
        """

        def score(run: PageRun) -> NDArray[np.float64]:
            product = multiply_float16(self.vectors[run.begin : run.end], queries.columns)
            sums = queries.sums(np.maximum.reduceat(product, run.starts, axis=0))
            self.release()
            return sums

        pieces = list(runs(self.starts, self.lengths, rows, _BLOCK_SIZE))
        scores = np.concatenate(map_threads(score, pieces)).astype(np.float32)
        return np.concatenate([run.rows for run in pieces]), scores


class ExactMaxSim(VectorIndex):
    """A `VectorIndex` that scores every vector of every item."""

    def __init__(self, tier: Tier, ids: Sequence[str], pages: Pages) -> None:
        super().__init__(tier, ids, BATCH_SIZE)
        self._pages = pages

    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        rows = np.flatnonzero(masks[0] & (self._pages.lengths > 0))
        if not len(rows):
            return [[] for _ in queries]
        order, scores = self._pages.scores(Queries(queries), rows)
        return [best(order, scores[:, number], top_k) for number in range(len(queries))]


class DeviceMaxSim(VectorIndex):
    """A `VectorIndex` that scores every vector on a device of torch.

    Vectors lie on the device as float16. There they are multiplied in float16, and the best candidates
    again in float32, which settles their order; so the scores are exact, and only an item that float16 moves
    past all candidates could be missed. On a processor everything is multiplied in float32: float16
    arithmetic is slow there. Tested with the device `cpu`; unproven on a GPU. All vectors must fit on the
    device, which torch names `cuda`, `cuda:1`, `cpu`; otherwise `SettingsError` is raised.
    """

    SHARES_MASK = False

    def __init__(self, tier: Tier, ids: Sequence[str], pages: Pages, device: str) -> None:
        super().__init__(tier, ids, BATCH_SIZE)
        self._pages = pages
        try:
            self._torch: Torch = importlib.import_module("torch")
        except ImportError:
            raise MissingExtra("torch", "models") from None
        try:
            self._device = self._torch.device(device)
            # Block by block: no second copy of all of them is made here.
            half = self._torch.float16
            self._vectors = self._torch.empty(pages.vectors.shape, dtype=half, device=self._device)
            for at in range(0, len(pages.vectors), _DEVICE_BLOCK_SIZE):
                part = slice(at, at + _DEVICE_BLOCK_SIZE)
                self._vectors[part] = self._torch.from_numpy(np.array(pages.vectors[part]))
        except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without CUDA
            raise SettingsError(
                f"Vectors cannot be searched on {device}: {first_line(error)}.", "Use device cpu."
            ) from error

    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        rows = np.flatnonzero(self._pages.lengths > 0)
        if not len(rows):
            return [[] for _ in queries]
        coarse = self._torch.float32 if self._device.type == "cpu" else self._torch.float16
        scores = self._scores(Queries(queries), rows, coarse)
        found: list[list[tuple[int, float]]] = []
        for query, near, mask in zip(queries, scores.T, masks, strict=True):
            allowed = np.flatnonzero(mask & np.isfinite(near))
            count = max(_MIN_DEVICE_CANDIDATES, top_k + top_k // 2)
            rows = allowed[shortlist(near[allowed], count, 0.0)]
            exact = self._scores(Queries([query]), rows, self._torch.float32)[rows, 0]
            found.append(best(rows, exact, top_k))
        return found

    def _scores(self, queries: Queries, rows: NDArray[np.int64], dtype: Any) -> NDArray[np.float32]:  # noqa: ANN401
        """Return MaxSim of queries with some items, (items, queries); −inf for the others."""
        torch = self._torch
        columns = torch.from_numpy(queries.columns).to(self._device, dtype)
        scores = np.full((len(self._ids), queries.count), -np.inf, np.float32)
        for run in runs(self._pages.starts, self._pages.lengths, rows, _DEVICE_BLOCK_SIZE):
            product = self._vectors[run.begin : run.end].to(dtype) @ columns
            lengths = torch.from_numpy(self._pages.lengths[run.rows]).to(self._device)
            maxima = torch.segment_reduce(product.float(), "max", lengths=lengths, axis=0)
            scores[run.rows] = queries.sums(maxima.cpu().numpy())
        return scores
