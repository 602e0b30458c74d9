"""A server with collections on disk, and a conversion whose pace the test decides."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import httpx

from vrag.corpus.converter import Converted, Failed, Finished, ItemCount
from vrag.errors import CollectionBusy
from vrag.factory.collection_registry import CollectionRegistry
from vrag.index.collection import Collection
from vrag.server.app import add_routes, create_app
from vrag.server.collections.routes import collection_routes
from vrag.server.collections.service import CollectionService
from vrag.server.http.background import ItemThreadPool
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions
from vrag.server.state.database import ServerState
from vrag.settings import Settings
from vrag.types import Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterator
    from collections.abc import Collection as CollectionOf
    from pathlib import Path

    from fastapi import FastAPI

    from vrag.agent.suggestions import QuestionSuggester
    from vrag.corpus.converter import CorpusOptions, SourceFile
    from vrag.index.vectors.embed_items import Made
    from vrag.server.collections.registry import OpenCollection
    from vrag.server.collections.uploads import UploadLimits

FIRST = "first"
SECONDS = 300.0
"""Time after which a test gives up waiting."""


@dataclass
class Lines:
    """Makes a passage of each line of a file, in this process: real workers take a second to start.

    A line that begins with `!` cannot be made, for the reason that follows; a file that begins with `BAD `
    cannot be opened.
    """

    go: threading.Event = field(default_factory=threading.Event)
    """Set while lines may be made."""
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released for every file that was opened."""
    fail: BaseException | None = None
    """What it raises in place of opening the next file."""
    pace: float = 0.0
    """Seconds that a line takes."""
    mended: bool = False
    """True if what could not be made can be now."""
    made: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.go.set()

    def __call__(
        self,
        sources: Iterator[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], CollectionOf[int]],
    ) -> Generator[Made, None, None]:
        for source in sources:
            if self.fail is not None:
                raise self.fail
            lines = source.path.read_text(encoding="utf-8", errors="replace").splitlines()
            if lines and lines[0].startswith("BAD "):
                yield Failed(source, None, lines[0][4:])
                yield Finished(source)
                continue
            yield ItemCount(source, len(lines))
            self.began.release()
            for ordinal, line in enumerate(lines, 1):
                assert self.go.wait(SECONDS)
                time.sleep(self.pace)
                if line.startswith("!") and self.mended:
                    line = line[1:]  # noqa: PLW2901
                if line.startswith("!"):
                    yield Failed(source, ordinal, line[1:])
                elif ordinal not in have(source):
                    self.made.append(line)
                    yield Converted(source, passage(source, ordinal, line))
            yield Finished(source)


def passage(source: SourceFile, ordinal: int, text: str) -> Item:
    return Item(
        id=item_id(source.document, ordinal),
        document=source.document,
        document_name=source.name,
        kind=ItemKind.PASSAGE,
        ordinal=ordinal,
        text=text,
        text_source=TextSource.FILE,
    )


@dataclass
class Served:
    """The open collections of a shelf, with another conversion in place of the real one."""

    shelf: CollectionRegistry
    lines: Lines

    @property
    def absent(self) -> str:
        return self.shelf.absent

    @property
    def open_collections(self) -> tuple[OpenCollection, ...]:
        return tuple(map(self._paced, self.shelf.open_collections))

    def create(self, name: str) -> OpenCollection:
        return self._paced(self.shelf.create(name))

    def drop(self, name: str) -> None:
        self.shelf.drop(name)

    def _paced(self, open_collection: OpenCollection) -> OpenCollection:
        return replace(open_collection, producer=self.lines) if open_collection.producer else open_collection


@dataclass
class Desk:
    """A running server, as a client sees it."""

    client: httpx.Client
    shelf: CollectionRegistry
    lines: Lines
    address: str

    @property
    def uploads(self) -> Path:
        return self.shelf.collection.directory / "uploads"

    def put(self, name: str, content: bytes | str, collection: str = FIRST) -> httpx.Response:
        data = content.encode() if isinstance(content, str) else content
        return self.client.put(f"/collections/{collection}/documents/{name}", content=data)

    def job(self, id: str) -> dict[str, Any]:
        return self.client.get(f"/jobs/{id}").raise_for_status().json()

    def jobs(self, collection: str = FIRST) -> list[dict[str, Any]]:
        """The jobs of a collection, the newest first."""
        return self.client.get(f"/collections/{collection}/jobs").raise_for_status().json()["jobs"]

    def ended(self, response: httpx.Response) -> dict[str, Any]:
        """The job of an upload, once it has ended."""
        assert response.status_code == 202, response.text
        return until(lambda: job if (job := self.job(response.json()["id"]))["state"] in OVER else None)

    def ended_again(self, name: str) -> dict[str, Any]:
        """The newest job of a file, once it has ended."""
        return until(lambda: job if (job := self._newest(name))["state"] in OVER else None)

    def _newest(self, name: str) -> dict[str, Any]:
        return next(job for job in self.jobs() if job["file"] == name)

    def added(self, name: str, content: str, collection: str = FIRST) -> str:
        """Uploads a document that can be read; says its id."""
        job = self.ended(self.put(name, content, collection))
        assert job["state"] == "finished", job
        return job["document"]

    @contextlib.contextmanager
    def locked(self, collection: str = FIRST) -> Generator[None]:
        """Another process writes, as soon as this one does not."""
        (written,) = [opened for opened in self.shelf.open_collections if opened.name == collection]
        with contextlib.ExitStack() as stack:
            until(lambda: self._lock(written.collection, stack))
            yield

    def wait_for_writer(self, collection: str) -> None:
        """Wait until the job that added a document has also released the collection."""
        with self.locked(collection):
            return

    def _lock(self, collection: Collection, stack: contextlib.ExitStack) -> bool:
        try:
            stack.enter_context(collection.build())
        except CollectionBusy:
            return False
        return True

    def documents(self, collection: str = FIRST) -> list[dict[str, Any]]:
        answer = self.client.get(f"/collections/{collection}/documents").raise_for_status().json()
        return answer["documents"]

    def found(self, query: str) -> list[str]:
        """Names of the documents that a search finds."""
        answer = self.client.post("/search", json={"queries": query, "top_k": 20}).raise_for_status().json()
        return [entry["document_name"] for entry in answer["results"][0]["data"]]

    def files(self) -> list[str]:
        """What lies in the folder of uploads, hidden files included."""
        return sorted(path.name for path in self.uploads.iterdir()) if self.uploads.is_dir() else []


OVER = {"finished", "failed", "cancelled"}


def until(look: Callable[[], Any]) -> Any:  # noqa: ANN401
    """What a look sees, once it sees something."""
    end = time.monotonic() + SECONDS
    while not (seen := look()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.02)
    return seen


def first_collection(folder: Path) -> Path:
    """The directory of an empty collection in a folder of its own."""
    place = folder / "shelves" / FIRST
    if not place.exists():
        Collection.create(place)
    return place


@contextlib.contextmanager
def library(
    folder: Path,
    *,
    options: ServerOptions | None = None,
    limits: UploadLimits | None = None,
    lines: Lines | None = None,
    real: bool = False,
    suggester: QuestionSuggester | None = None,
    **settings: Any,  # noqa: ANN401
) -> Generator[Desk]:
    """A server on a socket of this machine, whose first collection lies in a folder.

    Args:
        folder: Where.
        options: Of the server.
        limits: Of uploads.
        lines: The conversion; None for one that does not wait.
        real: Whether files are converted as they are elsewhere, in place of `lines`.
        suggester: Of questions; None for the reader.
        settings: Others than the collection.
    """
    given: dict[str, Any] = {"collection": str(first_collection(folder)), "workers": 1} | settings
    shelf, lines = CollectionRegistry.open(Settings(**given)), lines or Lines()
    state = ServerState.open(folder / "state")
    options = replace(options or ServerOptions(), state=state)
    collections = shelf if real else Served(shelf, lines)
    app = app_of(shelf, CollectionService(collections, options, limits, suggester=suggester), options)
    ready = threading.Event()
    server = make_server(app, options, ready.set)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(SECONDS)
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(base_url=address, timeout=SECONDS) as client:
                yield Desk(client, shelf, lines, address)
        finally:
            server.should_exit = True
            lines.go.set()
            thread.join(SECONDS)
            assert not thread.is_alive()
            state.close()


def app_of(shelf: CollectionRegistry, library: CollectionService, options: ServerOptions) -> FastAPI:
    """Search, items and the library of a shelf."""
    app = create_app(shelf, options, files=shelf, corpora=lambda: shelf.names)
    desks = ItemThreadPool(options, ServerMetrics())
    add_routes(app, collection_routes(library, desks, options))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with inner(app):
            await library.start()
            yield
            await library.close(options.closing_seconds)
            await desks.close(options.closing_seconds)

    app.router.lifespan_context = lifespan
    return app
