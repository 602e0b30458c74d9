"""A session: collections that are open for search and questions.

`vrag.open` and the commands of the CLI answer questions through it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from platformdirs import user_data_path

from vrag.agent.question import Question
from vrag.errors import SettingsError
from vrag.factory.indexing import apply_sandbox, index_documents
from vrag.factory.search import SearchParts, open_client, open_collections
from vrag.geometry import Box, Size, View, draw_view
from vrag.index.collection import Collection
from vrag.index.opening import open_collection
from vrag.index.shown_names import ShownNames, find_documents, missing_error
from vrag.providers import hide_credentials
from vrag.search.multi import unique_names
from vrag.search.searcher import NamedItems, list_documents
from vrag.settings import SettingsReport, change_settings
from vrag.types import Document, ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from PIL.Image import Image

    from vrag.agent.agent import Agent
    from vrag.agent.answers.conflicts import ConflictReport
    from vrag.agent.events import Event
    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.agent.runs.run_store import RunStore, StoredRun
    from vrag.embed.embedder import Embedder
    from vrag.factory.families import ModelFamily
    from vrag.index.build import AddReport
    from vrag.index.maintenance import UnreadFiles
    from vrag.index.manifest import IndexProgress
    from vrag.render.annotations.evidence_sources import EvidenceSources
    from vrag.search.searcher import Searcher
    from vrag.settings import Settings
    from vrag.types import Hit

log = logging.getLogger("vrag")


DocumentSelection: TypeAlias = "str | PathLike[str] | Document | Iterable[str | PathLike[str] | Document]"
"""Documents, by themselves, or by path, folder, file name or id."""
MAX_AGENTS = 8
"""Agents that a session keeps open."""


@dataclass(slots=True, repr=False)
class Session:
    """Collections that are open for search and questions.

    One session serves many questions, also at once and from several threads. The runs are recorded with the
    first collection.
    """

    settings: Settings
    collections: dict[str, Collection]
    """The collections that are searched, by the names that queries use; empty when a server searches."""
    searcher: Searcher
    scope: frozenset[str] | None = None
    """Ids of the documents that questions are answered from; None for all."""
    paths: tuple[Path, ...] = ()
    """The files and folders of the scope: documents are named by their paths below them."""
    origins: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The origin of each setting, as in `SettingsReport`."""
    embedder: Embedder | None = field(default=None, repr=False)
    """The embedder of the collections; None without vectors, or when a server searches."""
    unread_paths: tuple[Path, ...] = ()
    """The paths of the scope if not all was indexed when it was opened: another process was writing."""
    _agents: dict[tuple[Any, ...], Agent] = field(default_factory=dict["tuple[Any, ...]", "Agent"])
    """The agents of `ask`, by scope, paths, model, agent and the family of the model."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _names: tuple[tuple[Path, ...], ShownNames] | None = None
    """The paths of the session, and the names below them, which are read again when documents are added."""
    _running: Counter[tuple[asyncio.AbstractEventLoop, int]] = field(
        default_factory=Counter[tuple[asyncio.AbstractEventLoop, int]]
    )
    """Number of questions in progress by event loop and policy: the last one closes the connections of its
    agent there, also when the agent is not kept any more."""

    def __repr__(self) -> str:
        """Return what is searched and who answers, in two lines."""
        places = ", ".join(collection.address for collection in self.collections.values())
        scope = "" if self.scope is None else f", {len(self.scope)} documents"
        model = hide_credentials(self.settings.model) or "without a model"
        searched = places or hide_credentials(self.settings.search_url)
        return f"Session({searched}{scope})\n  agent {self.settings.agent}, {model}"

    @property
    def collection(self) -> Collection:
        """The first of the collections: runs are recorded there.

        Raises `SettingsError` if a server searches.
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
        """The recorded runs, where `ask` records them too: see `run_store`."""
        return run_store(
            self.settings, collection=next(iter(self.collections.values()), None), recording=True
        )

    def document_names(self, paths: Sequence[Path] = ()) -> ShownNames:
        """Return the names of documents for people: below these paths, or else below those of the session."""
        folders, known = tuple(paths) or self.paths, self._names
        if known is None or known[0] != folders:
            known = folders, ShownNames(lambda: self.collections, folders)
            if folders == self.paths:
                self._names = known
        return known[1]

    def warm_up(self) -> None:
        """Load all that a search needs, so that the first one is fast and faults show at once."""
        self.searcher.search([Query("warm up")], 1)

    def search(self, query: str, top_k: int = 10) -> list[Hit]:
        """Return the best pages, clips and passages for a query, best first.

        Raises `SearchError` if the query is empty or `top_k` is not within 1 to 1000.
        """
        hits = self.searcher.search([Query(query, self.scope)], top_k)[0]
        return self.document_names().named_hits(hits)

    def conflicts(self, on_document: Callable[[str, int, int], None] | None = None) -> ConflictReport:
        """Return where the documents of the scope disagree, found without a model.

        `on_document` is told the name of each document before it is read, its number from 0, and how many
        there are.

        Raises `SearchError` if a search server does not list its documents.
        """
        from vrag.agent.answers.conflicts import find_conflicts
        from vrag.reading.conflicts.editions import DocumentFacts

        names, files = self.document_names(), {document.id: document for document in self.documents}
        listed = list_documents(self.searcher)
        chosen = [id for id in listed if self.scope is None or id in self.scope]
        documents = [
            DocumentFacts(id, names.name_of(id) or listed[id], files[id].mtime_ns if id in files else 0)
            for id in chosen
        ]
        documents.sort(key=lambda document: document.name)
        searcher = NamedItems(self.searcher, names)
        return find_conflicts(searcher, documents, *filter(None, [on_document]))

    def add(self, *paths: str | PathLike[str]) -> AddReport:
        """Index more files and folders; later questions are answered from them too.

        After a large addition, searches use the previous state until the new one is loaded.

        Raises:
            CorpusError: If none of the documents could be read.
            CollectionBusy: If another process is writing to the collection.
            SettingsError: If a server searches, or several collections are open.
        """
        collection = self.collection
        if len(self.collections) > 1:
            raise SettingsError(
                "Documents are added to one collection, and several are open.",
                "Open one of them: vrag.open(collection=…)",
            )
        settings = self.settings.model_copy(update={"collection": collection.address, "collections": ()})
        report = SettingsReport(settings, dict(self.origins), None)
        indexed = index_documents(report, list(map(Path, paths)), embedder=self.embedder)
        assert indexed.report is not None  # a busy collection raises here
        with self._lock:
            if self.scope is not None:
                self.scope |= {document.id for document in indexed.documents}
                self.paths += tuple(map(Path, paths))
        return indexed.report

    def ask(
        self,
        question: str | Question,
        *,
        model: str | None = None,
        agent: str | None = None,
        documents: DocumentSelection | None = None,
    ) -> RunResult:
        """Answer a question; the run is recorded.

        A model that fails does not raise: the result has no answer, and `failure` says why.

        Args:
            question: The question.
            model: The model for this question, as the setting `model`; "" to answer without a model.
            agent: The agent for this question, as the setting `agent`.
            documents: The documents that may be looked at for this question. A name is looked up among those
                of the session first.

        Raises:
            ValueError: If the question is empty.
            SettingsError: If the settings do not fit each other.
            CollectionError: If one of the documents is not in the collections.
            ModelError: If the checkpoint of a local model cannot be opened.
            RunError: If the run cannot be recorded.
        """
        from vrag.agent.runs.run_result import RunResult

        asked = Question.of(question)
        chosen = self._choose_agent(model, agent, documents)
        with self.runs.record() as log:
            return replace(RunResult.of(chosen.record(asked, log)), draw_place=self._draw_place)

    async def aask(
        self,
        question: str | Question,
        *,
        model: str | None = None,
        agent: str | None = None,
        documents: DocumentSelection | None = None,
    ) -> RunResult:
        """Answer a question like `ask`; many can be awaited at once."""
        from vrag.agent.runs.run_result import RunResult

        events = self._record(Question.of(question), partial(self._choose_agent, model, agent, documents))
        return replace(RunResult.of([event async for event in events]), draw_place=self._draw_place)

    def image(self, evidence: Evidence, *, scale: float = 1.0) -> Image:
        """Return the image of a piece of evidence: the rectangle on the page, or the page without one.

        With a `scale` above 1 the rectangle is so many times as large, drawn from the source file if that is
        still as it was indexed, and otherwise enlarged.

        Raises `SearchError` if the item has no image, or is not in the collection any more, and
        `CollectionError` if the image file is missing or damaged.
        """
        page = self.searcher.image(evidence.item)
        if evidence.box is None:
            return page
        size = Size(*page.size)
        region = View.whole(size, size).cut(Box.unit(*evidence.box))
        view = View(size, region, Size(round(region.width * scale), round(region.height * scale)))
        part = self.searcher.part(evidence.item, view) if scale > 1 else None
        return draw_view(page, view) if part is None else part

    def page(self, evidence: Evidence) -> Image:
        """Return the page of a piece of evidence, with its rectangle and the words of the answer marked.

        Raises as `image`.
        """
        from vrag.render.annotations.pictures import draw_evidence

        return draw_evidence(self.searcher.image(evidence.item), evidence)

    def _draw_place(self, evidence: Evidence) -> bytes:
        """Draw the place of a piece of evidence with its surroundings, as JPEG; empty for a passage."""
        if evidence.kind is ItemKind.PASSAGE:
            return b""
        from vrag.render.annotations.pictures import draw_surroundings, encode_jpeg

        return encode_jpeg(draw_surroundings(self.searcher.image(evidence.item), evidence))

    def stream(
        self,
        question: str | Question,
        *,
        model: str | None = None,
        agent: str | None = None,
        documents: DocumentSelection | None = None,
    ) -> Iterator[Event]:
        """Answer a question and yield the events of the run as they happen; the run is recorded.

        The answer comes as the model writes it, with what it rests on so far; see `AnswerDelta`.
        """
        asked, chosen = Question.of(question), self._followed_agent(model, agent, documents)
        with self.runs.record() as log:
            yield from chosen.record(asked, log)

    async def astream(
        self,
        question: str | Question,
        *,
        model: str | None = None,
        agent: str | None = None,
        documents: DocumentSelection | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Answer a question like `stream`, for asynchronous code. Closing the generator stops the run."""
        open_agent = partial(self._followed_agent, model, agent, documents)
        events = self._record(Question.of(question), open_agent)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _record(
        self, question: Question, open_agent: Callable[[], Agent]
    ) -> AsyncGenerator[Event, None]:
        agent = await asyncio.to_thread(open_agent)
        user = asyncio.get_running_loop(), id(agent.policy)
        self._running[user] += 1
        try:
            with self.runs.record() as log:
                async with aclosing(agent.arecord(question, log)) as events:
                    async for event in events:
                        yield event
        finally:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
                await agent.aclose()

    def agent(self, documents: frozenset[str] | None = None) -> Agent:
        """Return the agent that the settings describe. Its model is loaded at the first question.

        Args:
            documents: Ids of the documents it may look at; None for those of the session's scope.

        Raises:
            SettingsError: If the settings do not fit each other.
            ActionError: If a custom tool cannot be loaded.
            ModelError: If the checkpoint of a local model cannot be opened.
        """
        from vrag.factory.agents import add_unread_notice

        scope = self.scope if documents is None else documents
        return add_unread_notice(self._open_agent(self.settings, scope), self._count_unread())

    def _open_agent(
        self, settings: Settings, scope: frozenset[str] | None, family: ModelFamily | None = None
    ) -> Agent:
        from vrag.factory.agents import open_agent
        from vrag.search.absence import explain_absence

        agent = open_agent(settings, NamedItems(self.searcher, self.document_names()), scope, family=family)
        if not self.collections:
            return agent
        return replace(agent, explain_absence=partial(explain_absence, self.collections.values(), scope))

    def _choose_agent(
        self, model: str | None, agent: str | None, documents: DocumentSelection | None
    ) -> Agent:
        """Return the agent for a question, opened once for each choice and model of a server."""
        from vrag.factory.agents import add_unread_notice
        from vrag.factory.families import open_family

        scope = self.scope if documents is None else self._find_documents(documents)
        settings = self.settings
        if model is not None or agent is not None:
            settings = change_settings(settings, self.origins, model=model, agent=agent)
        family = open_family(settings, quiet=True)
        with self._lock:
            choice = scope, self.paths, model, agent, family
            if choice not in self._agents:
                opened = self._open_agent(settings, scope, family)
                while len(self._agents) >= MAX_AGENTS:
                    del self._agents[next(iter(self._agents))]
                self._agents[choice] = opened
            chosen = self._agents[choice]
        return add_unread_notice(chosen, None if documents else self._count_unread())

    def _followed_agent(
        self, model: str | None, agent: str | None, documents: DocumentSelection | None
    ) -> Agent:
        """Return the same agent for a run that somebody follows."""
        from vrag.agent.events import DraftMode

        return replace(self._choose_agent(model, agent, documents), draft=DraftMode.CITED)

    def _find_documents(self, documents: DocumentSelection) -> frozenset[str]:
        """Return the ids of documents: of the scope where it has them, else of the collections.

        Raises `CollectionError` if one is in none of the collections.
        """
        chosen = [documents] if isinstance(documents, str | os.PathLike | Document) else list(documents)
        served = [document for document in self.documents if document.status.served]
        in_scope = [document for document in served if self.scope is None or document.id in self.scope]
        known, names = {document.id for document in served}, self.document_names()
        ids: set[str] = set()
        for target in chosen:
            if not isinstance(target, Document):
                found = find_documents(os.fspath(target), [in_scope, served], names, copies=True)
                ids.update(document.id for document in found)
            elif target.id in known or not self.collections:  # the documents of a server are not known
                ids.add(target.id)
            else:
                raise missing_error(target.shown_path)
        return frozenset(ids)

    def _count_unread(self) -> UnreadFiles | None:
        """Count the files that answers cannot use yet, because they are being read."""
        from vrag.index.maintenance import count_unread, count_unread_under

        if self.unread_paths:
            return count_unread_under(self.collection, self.unread_paths)
        return None if self.scope is not None else count_unread(self.collections.values())


def run_store(
    settings: Settings, *, collection: Collection | None = None, recording: bool = False
) -> RunStore:
    """Return the store of recorded runs.

    It is the folder of the settings; otherwise that of a collection, by default the first one, or one apart
    when a server searches. The runs of a collection that cannot be written to are in the user's data
    directory: before the first of them, its own are returned, except for `recording`.

    Raises `CollectionError` if the collection cannot be opened.
    """
    from vrag.agent.runs.run_store import RunStore

    data = user_data_path("vrag", appauthor=False)
    if settings.runs_dir or settings.search_url:
        folder = Path(settings.runs_dir).expanduser().absolute() if settings.runs_dir else data / "runs"
        _report_earlier_runs(folder)
        return RunStore(folder, durable=settings.durable)
    collection = collection or open_collection(settings.places[0])
    if collection.home is not None and not _is_writable(collection.runs_dir, collection.home):
        name = hashlib.sha256(os.fsencode(collection.home)).hexdigest()[:8]
        apart = data / "read-only" / f"{collection.home.name}-{name}"
        if recording:
            _report_place(collection.address, apart)
        if recording or apart.is_dir():
            return RunStore(apart, durable=settings.durable)
    return RunStore(collection.runs_dir, collection.home, settings.durable)


def _is_writable(folder: Path, parent: Path) -> bool:
    return os.access(folder if folder.is_dir() else parent, os.W_OK)


@lru_cache
def _report_place(collection: str, folder: Path) -> None:
    """Say once where runs are recorded."""
    log.warning("%s cannot be written to. Runs are recorded in %s (VRAG_RUNS_DIR).", collection, folder)


@lru_cache
def _report_earlier_runs(folder: Path) -> None:
    """Say once that runs of vrag 0.2, each a folder, are not read."""
    if count := sum(1 for _ in folder.glob("*/events.jsonl")):
        log.warning(
            "%s has %d runs of an earlier version of vrag, which are not read. To see them, use vrag 0.2; to "
            "have them here, ask their questions again.",
            folder,
            count,
        )


def evidence_sources(settings: Settings, runs: Sequence[StoredRun]) -> EvidenceSources:
    """Return where the files and pages of the evidence of runs are: the collections, or a search server.

    Raises `CollectionError` if a collection cannot be opened.
    """
    from vrag.render.annotations.evidence_sources import EvidenceSources

    if settings.search_url:
        return EvidenceSources(runs, server=open_client(settings))
    return EvidenceSources(runs, tuple(map(open_collection, dict.fromkeys(settings.places))))


def open_session(
    settings: Settings,
    embedder: Embedder | None = None,
    *,
    scope: frozenset[str] | None = None,
    paths: Sequence[Path] = (),
    origins: Mapping[str, str] | None = None,
) -> Session:
    """Open collections that exist, with the embedder they were built with if it has been loaded already.

    For `scope` and `paths` see `Session`, for `origins` see `SettingsReport`.

    Raises `CollectionError` if there is none and `EmbedError` if the embedder cannot be loaded that a
    collection was built with.
    """
    apply_sandbox(settings)  # parts of pages are drawn from their files
    origins = origins or dict.fromkeys(type(settings).model_fields, "default")
    if settings.search_url:
        return Session(settings, {}, open_client(settings), scope, (), origins)
    opened = open_collections(settings)
    collections = {name: opened[address] for name, address in unique_names(opened).items()}
    parts = SearchParts.open(settings, collections, embedder)
    searcher = parts.searcher({name: parts.engine(collection) for name, collection in collections.items()})
    return Session(settings, collections, searcher, scope, tuple(paths), origins, embedder or parts.embedder)


def open_documents(
    report: SettingsReport,
    paths: Sequence[Path],
    *,
    progress: Callable[[IndexProgress], None] | None = None,
    on_added: Callable[[AddReport], None] | None = None,
) -> Session:
    """Index what is new under some paths and open the collection, with these documents as the scope.

    Wrong settings of the agent are found before anything is indexed. While another process is writing, what
    is indexed already is used. Without paths, the collections of the settings are opened.

    Raises `VragError` if something cannot be opened or read.
    """
    from vrag.factory.agents import check_agent

    check_agent(report.settings)
    if not paths:
        return open_session(report.settings, origins=report.origins)
    settings = report.settings
    if settings.search_url:
        raise SettingsError("A search server has its own documents.", "Leave out the paths or the server.")
    named = settings.collections if report.origins["collections"] == "flag" else ()
    if len(named) > 1:
        raise SettingsError(
            "Documents are indexed into one collection, and several are named.", "Name one of them."
        )
    chosen = {"collection": named[0] if named else settings.collection, "collections": ()}
    report = replace(report, settings=settings.model_copy(update=chosen))
    indexed = index_documents(report, paths, progress=progress, on_added=on_added, skip_if_busy=True)
    scope = frozenset(document.id for document in indexed.documents)
    session = open_session(
        report.settings, indexed.embedder, scope=scope, paths=paths, origins=report.origins
    )
    session.unread_paths = tuple(path.absolute() for path in paths) if indexed.unread else ()
    return session
