"""A session: collections that are open for search and questions.

`vrag.open` and the commands of the CLI answer questions through it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path

from vrag.agent.question import Question
from vrag.errors import SettingsError
from vrag.factory.indexing import index_documents
from vrag.factory.search import open_client, open_searcher
from vrag.index.collection import Collection
from vrag.search.multi import unique_names
from vrag.settings import SettingsReport
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
    from os import PathLike

    from PIL.Image import Image

    from vrag.agent.agent import Agent
    from vrag.agent.events import Event
    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.agent.runs.run_store import RunStore
    from vrag.embed.embedder import Embedder
    from vrag.index.build import AddReport
    from vrag.index.progress import IndexProgress
    from vrag.search.searcher import Searcher
    from vrag.settings import Settings
    from vrag.types import Document, Hit


__all__ = ["Session", "open_documents", "open_session", "run_store"]


@dataclass(slots=True)
class Session:
    """Collections that are open for search and questions.

    One session serves many questions, also at once. The runs are recorded with the first collection.
    """

    settings: Settings
    collections: dict[str, Collection]
    """The collections that are searched, by the names that queries use; empty when a server searches."""
    searcher: Searcher
    scope: frozenset[str] | None = None
    """Ids of the documents that questions are answered from; None for all."""
    _agent: Agent | None = field(default=None, repr=False)

    @property
    def collection(self) -> Collection:
        """The first of the collections: runs are recorded there.

        Raises:
            SettingsError: If a server searches.
        """
        if not self.collections:
            raise SettingsError(
                f"Searches go to {self.settings.search_url}; this session has no local collection.",
                "Leave out VRAG_SEARCH_URL.",
            )
        return next(iter(self.collections.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the collections, as queries use them."""
        return tuple(self.collections)

    @property
    def documents(self) -> list[Document]:
        """The documents of all collections; none when a server searches."""
        return [document for collection in self.collections.values() for document in collection.documents()]

    @property
    def runs(self) -> RunStore:
        """The recorded runs of the collection, or of all search servers."""
        return run_store(self.settings)

    def warm_up(self) -> None:
        """Load all that a search needs, so that the first one is fast and faults show at once."""
        self.searcher.search([Query("warm up")], 1)

    def search(self, query: str, top_k: int = 10) -> list[Hit]:
        """Return the best pages, clips and passages for a query, best first.

        Raises:
            SearchError: If the query is empty or `top_k` is not within 1 to 1000.
        """
        return self.searcher.search([Query(query, self.scope)], top_k)[0]

    def add(self, *paths: str | PathLike[str]) -> AddReport | None:
        """Index more files and folders; later questions are answered from them too.

        Returns:
            What was added; None if nothing had changed.

        Raises:
            CorpusError: If none of the documents could be read.
            CollectionBusy: If another process is writing to the collection.
            SettingsError: If a server searches, or several collections are open.
        """
        if len(self.collections) != 1:
            raise SettingsError(
                "Documents are added to one collection.", "Open a single collection: vrag.open(collection=…)"
            )
        reports: list[AddReport] = []
        origins = dict.fromkeys(type(self.settings).model_fields, "default")
        indexed = index_documents(
            SettingsReport(self.settings, origins, None), list(map(Path, paths)), on_added=reports.append
        )
        if self.scope is not None:
            self.scope |= {document.id for document in indexed.documents}
            self._agent = None
        return reports[0]

    def ask(self, question: str | Question) -> RunResult:
        """Answer a question; the run is recorded.

        A model that fails does not raise: the result has no answer, and `failure` says why.

        Raises:
            ValueError: If the question is empty.
            SettingsError: If the settings do not fit each other.
            ModelError: If the checkpoint of a local model cannot be opened.
            RunError: If the run cannot be recorded.
        """
        from vrag.agent.runs.run_result import RunResult

        return RunResult.of(self.stream(question))

    async def aask(self, question: str | Question) -> RunResult:
        """Answer a question like `ask`; many can be awaited at once."""
        from vrag.agent.runs.run_result import RunResult

        return RunResult.of([event async for event in self.astream(question)])

    def image(self, evidence: Evidence) -> Image:
        """Return the image of a piece of evidence: the rectangle on the page, or the page without one.

        Raises:
            SearchError: If the item has no image, or is not in the collection any more.
            CollectionError: If the image file is missing or damaged.
        """
        page = self.searcher.image(evidence.item)
        if evidence.box is None:
            return page
        left, top, right, bottom = evidence.box
        sides = left * page.width, top * page.height, right * page.width, bottom * page.height
        return page.crop((floor(sides[0]), floor(sides[1]), ceil(sides[2]), ceil(sides[3])))

    def stream(self, question: str | Question) -> Iterator[Event]:
        """Answer a question and yield the events of the run as they happen; the run is recorded."""
        asked = Question.of(question)
        with self.runs.record() as recording:
            yield from self._default_agent().record(asked, recording)

    async def astream(self, question: str | Question) -> AsyncGenerator[Event, None]:
        """Answer a question like `stream`, for asynchronous code."""
        asked = Question.of(question)
        with self.runs.record() as recording:
            async for event in self._default_agent().arecord(asked, recording):
                yield event

    def agent(self, documents: frozenset[str] | None = None) -> Agent:
        """Return the agent that the settings describe. Its model is loaded at the first question.

        Args:
            documents: Ids of the documents it may look at; None for those of the session's scope.

        Raises:
            SettingsError: If the settings do not fit each other.
            ActionError: If a custom tool cannot be loaded.
            ModelError: If the checkpoint of a local model cannot be opened.
        """
        from vrag.factory.agents import open_agent

        return open_agent(self.settings, self.searcher, documents or self.scope)

    def _default_agent(self) -> Agent:
        """Return the agent of the session, opened once."""
        if self._agent is None:
            self._agent = self.agent()
        return self._agent


def run_store(settings: Settings) -> RunStore:
    """Return the store of recorded runs: that of the first collection, or one apart when a server searches.

    Raises:
        CollectionError: If the collection cannot be opened.
    """
    from vrag.agent.runs.run_store import RunStore

    if settings.search_url:
        return RunStore(user_data_path("vrag", appauthor=False) / "runs")
    collection = Collection.open(settings.places[0])
    return RunStore(collection.runs_dir, within=collection.home)


def open_session(
    settings: Settings, embedder: Embedder | None = None, scope: frozenset[str] | None = None
) -> Session:
    """Open collections that exist.

    Args:
        settings: Where they are, and how they are searched.
        embedder: The embedder they were built with, if it has been loaded already.
        scope: Ids of the documents that questions are answered from; None for all.

    Raises:
        CollectionError: If there is none.
        EmbedError: If the embedder cannot be loaded that a collection was built with.
    """
    if settings.search_url:
        return Session(settings, {}, open_client(settings), scope)
    opened = {collection.address: collection for collection in map(Collection.open, settings.places)}
    collections = {name: opened[address] for name, address in unique_names(opened).items()}
    return Session(settings, collections, open_searcher(settings, collections, embedder), scope)


def open_documents(
    report: SettingsReport,
    paths: Sequence[Path],
    *,
    progress: Callable[[IndexProgress], None] | None = None,
    on_added: Callable[[AddReport], None] | None = None,
) -> Session:
    """Index what is new under some paths and open the collection, with these documents as the scope.

    Wrong settings of the agent are found before anything is indexed. While another process is writing, what
    is indexed already is used.

    Args:
        report: The settings.
        paths: Files and folders; without any, the collections of the settings are opened.
        progress: Receives the progress of indexing.
        on_added: Receives the report of what was added.

    Raises:
        VragError: If something cannot be opened or read.
    """
    from vrag.factory.agents import check_agent

    settings = report.settings
    if paths and settings.search_url:
        raise SettingsError("A search server has its own documents.", "Leave out the paths or the server.")
    check_agent(settings)
    if not paths:
        return open_session(settings)
    indexed = index_documents(report, paths, progress=progress, on_added=on_added, skip_if_busy=True)
    scope = frozenset(document.id for document in indexed.documents)
    return open_session(settings.model_copy(update={"collections": ()}), indexed.embedder, scope)
