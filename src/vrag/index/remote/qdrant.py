"""Qdrant as the store of the vectors.

The collection, on disk or published, stays the source of truth: items and pictures come
from there. Qdrant gets one point per item, with its vectors and filter fields, under an id made from the
item's. So a push can be stopped and repeated: existing points stay, missing ones are uploaded, and those
that the collection no longer holds are deleted last.

Single vectors are one named vector, compared by the dot product. Late interaction is two: `pooled`,
the averages of `vrag/index/vectors/pooled.py`, searched by a graph; and `vectors`, all of an item's as
float16, on disk and without a graph, which give the candidates their scores by MaxSim. Ties go by item id.

Proven against the client's local mode, which searches exactly and in memory. Unproven here, for want
of a server: speed, how close to exact the graph's candidates are, and authentication.
"""

from __future__ import annotations

import importlib
import os
import re
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError, FingerprintMismatch, MissingExtra, SearchError, first_line
from vrag.index.vectors.pooled import FACTOR, pool
from vrag.index.vectors.vector_index import read_vectors
from vrag.providers import hide_credentials, reachable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from numpy.typing import NDArray

    from vrag.index.collection import Collection
    from vrag.index.location import EmbedderRecord
    from vrag.types import Query

Client: TypeAlias = Any
"""A `qdrant_client.QdrantClient`."""

_ADDRESS = re.compile(r"(qdrants?)://([^/?#@]+)/([A-Za-z0-9._-]+)/?")
_SPACE = uuid.UUID("b4ca8e63-ccab-5d1f-9c1e-6b1f0d7a5e21")
"""The namespace of the ids of our points among all UUIDs."""
_MARK = str(uuid.uuid5(_SPACE, "mark"))
"""Id of the point without vectors that describes the others."""
_POOLED = "pooled"
_NUMBERS = 2**20
"""Numbers that are uploaded in one request: some ten megabytes of JSON."""
_ROWS = 256
_SCROLL = 4096


def is_qdrant(address: str) -> bool:
    """Check whether an address is that of a collection in Qdrant.

    >>> is_qdrant("qdrant://localhost:6333/reports"), is_qdrant("s3://bucket/reports")
    (True, False)
    """
    return _ADDRESS.fullmatch(address) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """The result of a push."""

    uploaded: int
    """Points that were uploaded."""
    present: int
    """Points that existed already."""
    deleted: int
    """Points of items that the collection no longer holds."""
    without: int
    """Items that have no vector and therefore no point."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """The description of all points."""

    fingerprint: str
    kind: str
    dimension: int
    factor: int
    """Vectors that were averaged to one; 0 for single vectors."""
    content: str
    """The collection's version whose push was finished last; empty while the first is under way."""

    @classmethod
    def of(cls, embedder: EmbedderRecord, content: str) -> _Mark:
        """Describe the points made from a collection."""
        factor = FACTOR if embedder.kind is VectorKind.MULTI else 0
        return cls(embedder.fingerprint, embedder.kind.value, embedder.dimension, factor, content)

    def fits(self, other: _Mark) -> bool:
        """Check whether points of both can be compared with each other."""
        return replace(self, content="") == replace(other, content="")


class QdrantStore:
    """A collection in Qdrant, by its name there. May be shared by threads.

    With `indexed`, Qdrant indexes the filter fields, which its local mode does not.
    """

    def __init__(self, client: Client, name: str, *, indexed: bool = True) -> None:
        self.name = name
        self._client = client
        self._indexed = indexed
        self._models = _library("qdrant_client.models")
        self._faults = _library("qdrant_client.http.exceptions")

    @classmethod
    def at(cls, address: str) -> QdrantStore:
        """Use the one at `qdrant://host:port/name`, or `qdrants://` for HTTPS.

        The key, if one is needed, is the environment's `QDRANT_API_KEY`. No request is sent yet. Raises
        `CollectionError` if the address is not valid and `MissingExtra` if the client is not installed.
        """
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise CollectionError(
                f"{hide_credentials(address)!r} is not a collection in Qdrant.",
                "Give one like qdrant://localhost:6333/reports.",
            )
        scheme, host, name = match.groups()
        client = _library("qdrant_client").QdrantClient(
            url=reachable(f"{'https' if scheme == 'qdrants' else 'http'}://{host}"),
            port=443 if scheme == "qdrants" and ":" not in host else 6333,
            api_key=os.environ.get("QDRANT_API_KEY") or None,
            timeout=60,
            check_compatibility=False,
        )
        return cls(client, name)

    def push(self, collection: Collection, progress: Callable[[int, int], None] | None = None) -> PushReport:
        """Update the points to those of a collection; existing points are not sent again.

        Readers find the former points until the end, and new ones as they come. The collection is not locked:
        what is added meanwhile waits for the next push. `progress` receives how many items have been checked,
        of how many. Raises `FingerprintMismatch` if the points there are of another embedder, and
        `CollectionError` if the collection holds no vectors, Qdrant holds something else under this name, or
        cannot be reached: uploaded points stay.
        """
        embedder = collection.header.embedder
        if embedder is None:
            raise CollectionError(
                f"{collection.address} holds no vectors.", "Build it with an embedder: vrag index add --help"
            )
        catalog = collection.catalog()
        with self._failures():
            mark = self._prepare(_Mark.of(embedder, ""))
            existing = set(self._ids())
            uploaded = 0
            for batch in self._missing_points(collection, embedder, existing, len(catalog.ids), progress):
                self._client.upload_points(self.name, batch, batch_size=len(batch), max_retries=3, wait=True)
                uploaded += len(batch)
            gone = sorted(existing.difference(catalog.ids))
            for at in range(0, len(gone), _SCROLL):
                ids = [_point_id(item) for item in gone[at : at + _SCROLL]]
                self._client.delete(self.name, points_selector=ids, wait=True)
            self._write_mark(replace(mark, content=catalog.content))
        present = len(existing) - len(gone)
        return PushReport(
            uploaded=uploaded,
            present=present,
            deleted=len(gone),
            without=max(len(catalog.ids) - present - uploaded, 0),
        )

    def check(self, collection: Collection) -> None:
        """Refuse points that are not of this collection as it is now.

        Raises `FingerprintMismatch` if they are of another embedder, and `CollectionError` if there are none,
        they are of another state of the collection, or Qdrant cannot be reached.
        """
        embedder = collection.header.embedder
        with self._failures():
            mark = self._mark() if self._client.collection_exists(self.name) else None
        if mark is None or embedder is None:
            raise CollectionError(f"Qdrant has no collection {self.name} of vrag.", _PUSH)
        _check(self.name, mark, _Mark.of(embedder, ""))
        if mark.content != collection.content_version:
            raise CollectionError(
                f"The points of {self.name} are of another state of {collection.address}.", _PUSH
            )

    def search(
        self, vector: NDArray[np.float32], query: Query, top_k: int, *, candidates: int, exact: bool = False
    ) -> list[tuple[str, float]]:
        """Find the best items for the vector of a query, which has the filters: ids and scores, ties by id.

        The vector is (dimension,), or (tokens, dimension) for late interaction, where that many `candidates`
        get scores by MaxSim. With `exact` it is compared with all points, without a graph. Raises
        `SearchError` if Qdrant cannot be reached, or refuses.
        """
        models = self._models
        must = [
            models.FieldCondition(key=key, match=models.MatchAny(any=sorted(map(str, values))))
            for key, values in {"document": query.documents, "kind": query.kinds}.items()
            if values is not None
        ]
        request: dict[str, Any] = {
            "query": vector.tolist(),
            "using": "vector",
            "query_filter": models.Filter(must=must) if must else None,
            "limit": top_k,
        }
        if exact:
            request["search_params"] = models.SearchParams(exact=True)
        if vector.ndim == 2:
            request["using"] = "vectors"
            if not exact:
                request["prefetch"] = models.Prefetch(
                    query=vector.tolist(),
                    using=_POOLED,
                    limit=max(candidates, top_k),
                    filter=request["query_filter"],
                )
        with self._failures(SearchError):
            found = self._client.query_points(self.name, with_payload=["item"], **request).points
        hits = [(str(point.payload["item"]), float(point.score)) for point in found]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def _prepare(self, mark: _Mark) -> _Mark:
        """Return the mark of the points there; create the collection if there is none."""
        if not self._client.collection_exists(self.name):
            self._client.create_collection(self.name, vectors_config=self._config(mark))
            if self._indexed:
                for key in ("document", "kind"):
                    self._client.create_payload_index(self.name, key, "keyword", wait=True)
        there = self._mark()
        if there is None:
            if self._client.count(self.name).count:
                raise CollectionError(
                    f"The collection {self.name} in Qdrant does not belong to vrag.", "Choose another name."
                )
            self._write_mark(mark)
            return mark
        _check(self.name, there, mark)
        return there

    def _config(self, mark: _Mark) -> dict[str, Any]:
        models = self._models
        common: dict[str, Any] = {"size": mark.dimension, "distance": models.Distance.DOT}
        if not mark.factor:
            return {"vector": models.VectorParams(**common)}
        common["multivector_config"] = models.MultiVectorConfig(
            comparator=models.MultiVectorComparator.MAX_SIM
        )
        whole = models.VectorParams(
            **common,
            on_disk=True,
            datatype=models.Datatype.FLOAT16,
            hnsw_config=models.HnswConfigDiff(m=0),  # scored, never searched by a graph
        )
        return {"vectors": whole, _POOLED: models.VectorParams(**common)}

    def _mark(self) -> _Mark | None:
        found = self._client.retrieve(self.name, ids=[_MARK], with_payload=True)
        try:
            return _Mark(**found[0].payload["mark"]) if found else None
        except (KeyError, TypeError):
            return None

    def _write_mark(self, mark: _Mark) -> None:
        point = self._models.PointStruct(id=_MARK, vector={}, payload={"mark": asdict(mark)})
        self._client.upsert(self.name, points=[point], wait=True)

    def _ids(self) -> Iterator[str]:
        place: Any = None
        while True:
            found, place = self._client.scroll(
                self.name, limit=_SCROLL, offset=place, with_payload=["item"], with_vectors=False
            )
            yield from (str(point.payload["item"]) for point in found if "item" in (point.payload or {}))
            if place is None:
                return

    def _missing_points(
        self,
        collection: Collection,
        embedder: EmbedderRecord,
        existing: set[str],
        items: int,
        progress: Callable[[int, int], None] | None,
    ) -> Iterator[list[Any]]:
        """Yield points that are missing, in batches of bounded size."""
        columns = ("id", "document", "kind", "ordinal")
        payloads = {row["id"]: row for row in collection.store.read_items(columns).records()}
        batch: list[Any] = []
        numbers = 0
        for done, (item, vectors) in enumerate(read_vectors(collection), 1):
            if progress:
                progress(done, max(items, done))
            payload = payloads.get(item)
            if payload is not None and item not in existing:
                vector = vectors.astype(np.float32)
                named = {"vectors": vector.tolist(), _POOLED: pool(vector, FACTOR).tolist()}
                if embedder.kind is VectorKind.SINGLE:
                    named = {"vector": vector[0].tolist()}
                content = {"item": item} | {name: payload[name] for name in columns[1:]}
                batch.append(self._models.PointStruct(id=_point_id(item), vector=named, payload=content))
                numbers += vector.size
            if numbers >= _NUMBERS:
                yield batch
                batch, numbers = [], 0
        if batch:
            yield batch

    @contextmanager
    def _failures(self, kind: type[CollectionError | SearchError] = CollectionError) -> Generator[None]:
        """Convert errors of the client: of HTTP, of gRPC, or ValueError in its local mode."""
        try:
            yield
        except (self._faults.ApiException, ConnectionError, TimeoutError, ValueError) as error:
            raise kind(
                f"Qdrant's collection {self.name} cannot be used: {first_line(error)}.",
                "Check that the server is running, its address, and QDRANT_API_KEY.",
            ) from error


_PUSH = "Push the collection: vrag index publish qdrant://HOST:6333/NAME"


def _library(name: str) -> Any:  # noqa: ANN401 - it has no types
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra("qdrant-client", "qdrant") from error


def _check(name: str, mark: _Mark, expected: _Mark) -> None:
    if not mark.fits(expected):
        raise FingerprintMismatch(
            f"The points of {name} in Qdrant were made by another embedder ({mark.fingerprint}).",
            "Push this collection under another name.",
        )


def _point_id(item: str) -> str:
    return str(uuid.uuid5(_SPACE, item))
