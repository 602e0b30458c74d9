"""A search server under load, beside a minimal one of FastAPI and FAISS that does what the reference's does.

Theirs is one route that embeds the queries, searches an `IndexFlatIP` and answers with lists, on the event
loop. Ours is `vrag.server` over a collection with the same vectors, with all it checks. The vectors of
queries are the same and precomputed, so that what is compared is serving and search. Both run in processes
of their own with one BLAS thread; both are up all the time and loaded in turn; clients are keep-alive
connections of one process that ask again as soon as they are answered.

Ours answers in the shape of `/search` with ids, names and addresses of pages besides, so its responses are
three times as long.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import importlib.util
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI, Request

from benchmarks.dense import QUERIES, write
from benchmarks.table import Comparison, compared, show

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.embed.embedder import EmbedContent

TOP_K = 3
CLIENTS = (1, 8, 64)
CASES = ((20_000, 1024, "exact"), (100_000, 2048, "exact"), (100_000, 2048, "auto"))
"""Vectors, dimension, and how ours searches them."""
SECONDS, WARM_UP, RUNS = 4.0, 1.5, 3


@dataclass(frozen=True, slots=True)
class Load:
    """What clients saw."""

    rate: float
    """Requests per second."""
    p50: float
    """Milliseconds."""
    p99: float


class Precomputed:
    """An `Embedder` that looks vectors up: the query `q7` has row 7."""

    name = "precomputed"
    modalities: frozenset[Any] = frozenset()
    settings: Mapping[str, str | int] = MappingProxyType({})

    def __init__(self, queries: NDArray[np.float32]) -> None:
        from vrag.embed.embedder import VectorKind

        self.kind = VectorKind.SINGLE
        self.dimension = queries.shape[1]
        self.fingerprint = f"precomputed-{queries.shape[1]}"
        self._queries = queries

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """Not asked for: the collection has its vectors."""
        raise NotImplementedError

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """The rows of the table."""
        return list(self._queries[[int(query[1:]) for query in queries]])


def main(
    runs: int = RUNS, seconds: float = SECONDS, cases: Sequence[tuple[int, int, str]] = CASES
) -> list[Comparison]:
    """Loads both servers in turn for each number of vectors and clients."""
    if importlib.util.find_spec("faiss") is None:
        print("serving: skipped, it needs faiss-cpu")
        return []
    rows: list[Comparison] = []
    for (items, dimension), group in itertools.groupby(cases, key=_size):
        with tempfile.TemporaryDirectory() as directory:
            prepare(Path(directory), items, dimension)
            for _, _, tier in group:
                rows += _measure(Path(directory), f"{items:,} × {dimension}, {tier}", tier, runs, seconds)
    return rows


def _size(case: tuple[int, int, str]) -> tuple[int, int]:
    return case[:2]


def prepare(directory: Path, items: int, dimension: int) -> None:
    """The same vectors for both: a collection, and an array that theirs indexes."""
    write(directory, items, dimension)
    vectors = np.load(directory / "vectors.npy", mmap_mode="r")
    queries = np.load(directory / "queries.npy")
    _collect(directory / "collection", vectors, queries)


def _collect(directory: Path, vectors: NDArray[np.float32], queries: NDArray[np.float32]) -> None:
    from benchmarks.collections_of_vectors import commit_items
    from vrag.index.collection import Collection
    from vrag.types import Document, DocumentStatus, Item, ItemKind, item_id

    collection = Collection.create(directory, embedder=Precomputed(queries))
    for at in range(0, len(vectors), 5000):
        part = [
            Item(
                id=item_id(f"{number:016x}", 1),
                document=f"{number:016x}" * 4,
                document_name=f"report-{number}.pdf",
                kind=ItemKind.PAGE,
                ordinal=1,
            )
            for number in range(at, min(at + 5000, len(vectors)))
        ]
        commit_items(collection, part, list(vectors[at : at + len(part)]))
        documents = [
            Document(
                path=f"/{item.document_name}",
                id=item.document,
                name=item.document_name,
                size=1,
                mtime_ns=1,
                status=DocumentStatus.READY,
                items=1,
            )
            for item in part
        ]
        with collection.store.change() as change:
            change.put_files((document, 1) for document in documents)


def serve_ours(directory: Path, tier: str) -> None:
    """Serves the collection; prints the port when it answers."""
    from vrag.index.collection import Collection
    from vrag.index.vectors.tiers import VectorOptions
    from vrag.search.engine import Engine, Ranking
    from vrag.server.app import create_app
    from vrag.server.http.uvicorn_server import listen, run_server
    from vrag.server.item_files import CollectionFiles
    from vrag.server.options import ServerOptions

    collection = Collection.open(directory / "collection")
    embedder = Precomputed(np.load(directory / "queries.npy"))
    engine = Engine(collection, embedder, rankings=[Ranking.VECTOR], vectors=VectorOptions(tier))
    assert engine.version
    options = ServerOptions()
    app = create_app(engine, options, files=CollectionFiles([collection]))
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    run_server(app, listening, options, lambda: print(port, engine.tier, flush=True))


def serve_theirs(directory: Path) -> None:
    """One route over a flat index, on the event loop; prints the port."""
    import uvicorn

    from vrag.server.http.uvicorn_server import listen

    faiss: Any = importlib.import_module("faiss")
    faiss.omp_set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    vectors = np.load(directory / "vectors.npy")
    table = np.load(directory / "queries.npy")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    entries = [{"type": "image", "file_path": f"corpus/report-{n}_1.jpg"} for n in range(len(vectors))]
    del vectors
    app = FastAPI()

    async def search(request: Request) -> dict[str, Any]:
        body = await request.json()
        embedded = table[[int(query[1:]) for query in body["queries"]]]
        scores, rows = index.search(embedded, body.get("top_k", 3))
        found = zip(scores.tolist(), rows.tolist(), strict=True)
        return {
            "results": [
                {"score": score, "indice": row, "data": [entries[at] for at in row]} for score, row in found
            ]
        }

    app.post("/search")(search)
    listening = listen("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])


def _measure(directory: Path, name: str, tier: str, runs: int, seconds: float) -> list[Comparison]:
    with _running("ours", directory, tier) as ours, _running("theirs", directory, "") as theirs:
        _agree(ours, theirs, exact=tier == "exact")
        rows: list[Comparison] = []
        for clients in CLIENTS:
            loads: dict[int, list[Load]] = {ours: [], theirs: []}
            for _ in range(runs):
                for port, seen in loads.items():
                    asyncio.run(_load(port, clients, WARM_UP))
                    seen.append(asyncio.run(_load(port, clients, seconds)))
            rows += _compared(f"search server, {name}, {clients} clients", *loads.values())
            show(rows[-3:])
    return rows


def _compared(name: str, ours: list[Load], theirs: list[Load]) -> list[Comparison]:
    figures: tuple[tuple[str, Callable[[Load], float]], ...] = (
        ("requests/s", lambda load: load.rate),
        ("ms, median", lambda load: load.p50),
        ("ms, 99th percentile", lambda load: load.p99),
    )
    return [
        compared(name, statistics.median(map(of, ours)), statistics.median(map(of, theirs)), unit, len(ours))
        for unit, of in figures
    ]


@contextlib.contextmanager
def _running(side: str, directory: Path, tier: str) -> Generator[int]:
    """The port of a server in a process of its own."""
    line = [sys.executable, "-m", "benchmarks.serving", "--serve", side, str(directory), tier]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline().split(maxsplit=1)
            print(side, *said[1:])
            yield int(said[0])
        finally:
            process.terminate()


def _agree(ours: int, theirs: int, *, exact: bool) -> None:
    """Both find the same, or the approximate tier nearly so."""
    same = 0
    for number in range(QUERIES):
        found = [asyncio.run(_ask_once(port, f"q{number}")) for port in (ours, theirs)]
        same += found[0] == found[1]
    print(f"the same three hits for {same} of {QUERIES} queries")
    assert same == QUERIES or (same >= 0.9 * QUERIES and not exact)


async def _ask_once(port: int, query: str) -> list[int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request([query]))
    found = json.loads(await _response(reader))
    writer.close()
    return found["results"][0]["indice"]


async def _load(port: int, clients: int, seconds: float) -> Load:
    """Clients ask one query after the other for some time."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    requests = [_request([f"q{number}"]) for number in range(QUERIES)]

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for at in itertools.count(number * 37):
            started = time.perf_counter()
            if started >= end:
                break
            writer.write(requests[at % QUERIES])
            await _response(reader)
            times.append(time.perf_counter() - started)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    took = time.perf_counter() - started
    p50, p99 = np.percentile(np.array(times) * 1000, [50, 99])
    return Load(len(times) / took, float(p50), float(p99))


def _request(queries: list[str]) -> bytes:
    body = json.dumps({"queries": queries, "top_k": TOP_K}).encode()
    fields = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": len(body)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    head = f"POST /search HTTP/1.1\r\n{lines}\r\n"
    return head.encode() + body


async def _response(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]
    return await reader.readexactly(int(length))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", nargs=3)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--case", type=int, action="append", help="number of a case; all when absent")
    arguments = parser.parse_args()
    wanted: list[int] = arguments.case or list(range(len(CASES)))
    if arguments.serve:
        side, place, chosen = arguments.serve
        serve_ours(Path(place), chosen) if side == "ours" else serve_theirs(Path(place))
    else:
        show(main(arguments.runs, arguments.seconds, [CASES[number] for number in wanted]))
