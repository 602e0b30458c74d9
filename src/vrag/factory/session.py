"""What can be searched, with all that is needed to ask it questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platformdirs import user_data_path

from vrag.errors import SettingsError
from vrag.factory.search import open_client, open_searcher
from vrag.index.collection import Collection
from vrag.search.multi import named
from vrag.types import Query

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.agent.runs.run_store import RunStore
    from vrag.embed.embedder import Embedder
    from vrag.search.engine import Searcher
    from vrag.settings import Settings
    from vrag.types import Document


__all__ = ["Session", "open_workbench", "run_store"]


@dataclass(frozen=True, slots=True)
class Session:
    """What can be searched, with all that is needed to ask it questions."""

    settings: Settings
    collections: dict[str, Collection]
    """Those that are searched, by the names that queries may look in; none when a server searches."""
    searcher: Searcher

    @property
    def collection(self) -> Collection:
        """The first of the collections: runs are recorded there.

        Raises:
            SettingsError: If a server searches.
        """
        if not self.collections:
            raise SettingsError(
                f"{self.settings.search_url} searches; there is no collection here.",
                "Leave out VRAG_SEARCH_URL.",
            )
        return next(iter(self.collections.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """What the collections are called in a query."""
        return tuple(self.collections)

    @property
    def documents(self) -> list[Document]:
        """Those of all collections; none when a server searches."""
        return [document for collection in self.collections.values() for document in collection.documents()]

    def warm_up(self) -> None:
        """Loads all that a search needs, so that the first one does not wait, and faults show at once."""
        self.searcher.search([Query("warm up")], 1)

    @property
    def runs(self) -> RunStore:
        """The recorded runs of the collection, or of all search servers."""
        return run_store(self.settings)

    def agent(self, documents: frozenset[str] | None = None) -> Agent:
        """The agent that these settings describe. What it asks is loaded at the first question.

        Args:
            documents: Ids of the documents it may look at; None for all.

        Raises:
            SettingsError: If the settings do not fit each other.
            ActionError: If an action of others cannot be loaded.
            ModelError: If the checkpoint of a local model cannot be opened.
        """
        from vrag.factory.agents import open_agent

        return open_agent(self.settings, self.searcher, documents)


def run_store(settings: Settings) -> RunStore:
    """Where runs are recorded: with the first collection, or, when a server searches, apart from any.

    Raises:
        CollectionError: If the collection cannot be opened.
    """
    from vrag.agent.runs.run_store import RunStore

    if settings.search_url:
        return RunStore(user_data_path("vrag", appauthor=False) / "runs")
    collection = Collection.open(settings.places[0])
    return RunStore(collection.runs_dir, within=collection.home)


def open_workbench(settings: Settings, embedder: Embedder | None = None) -> Session:
    """Opens collections that exist, for questions.

    Args:
        settings: Where they are, and how they are searched.
        embedder: The one they were built with, where it has been loaded already.

    Raises:
        CollectionError: If there is none.
        EmbedError: If the embedder cannot be loaded that a collection was built with.
    """
    if settings.search_url:
        return Session(settings, {}, open_client(settings))
    opened = {collection.address: collection for collection in map(Collection.open, settings.places)}
    collections = {name: opened[address] for name, address in named(opened).items()}
    return Session(settings, collections, open_searcher(settings, collections, embedder))
