"""Settings become objects. The only module that knows how the parts fit together."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.policies.extractive import ExtractivePolicy
from vrag.agent.runs import RunStore
from vrag.agent.vrag import VragAgent
from vrag.corpus.options import CorpusOptions
from vrag.index.header import Header
from vrag.index.store import Collection
from vrag.index.upkeep import lies_under
from vrag.profiles import profile_named
from vrag.search.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vrag.settings import Settings, SettingsReport
    from vrag.types import Document

__all__ = ["Workbench", "corpus_options", "documents_under", "open_for_adding", "open_workbench"]

CORPUS_SETTINGS = ("dpi", "ocr", "page_seconds", "max_pixels", "passage_chars", "workers")


@dataclass(frozen=True, slots=True)
class Workbench:
    """A collection with all that is needed to ask it questions."""

    settings: Settings
    collection: Collection
    engine: Engine

    @property
    def runs(self) -> RunStore:
        """The recorded runs of the collection."""
        return RunStore(self.collection.runs_dir)

    def agent(self, documents: frozenset[str] | None = None) -> VragAgent:
        """The agent that these settings describe.

        Args:
            documents: Ids of the documents it may look at; None for all.
        """
        settings = self.settings
        profile = profile_named(settings.profile)
        options = EnvironmentOptions(
            hits=settings.hits, show=settings.show, padding=settings.padding, documents=documents
        )
        policy = ExtractivePolicy(self.engine, profile.boxes)
        return VragAgent(policy, Environment(self.engine, profile, options), settings.max_steps)


def corpus_options(settings: Settings) -> CorpusOptions:
    """How files become items under these settings."""
    return CorpusOptions(**{name: getattr(settings, name) for name in CORPUS_SETTINGS})


def open_for_adding(report: SettingsReport) -> tuple[Collection, CorpusOptions]:
    """The collection to add to, made if there is none, and the options to add with.

    A collection keeps the settings it was built with: where nobody asked for anything else, they
    stand; where somebody did, a difference is an error that says what to do.

    Raises:
        CollectionError: If the collection cannot be opened or made.
    """
    asked, directory = corpus_options(report.settings), report.settings.collection
    if Header.read(directory) is None:
        return Collection.create(directory, asked), asked
    collection = Collection.open(directory)
    chosen = {name: getattr(asked, name) for name in CORPUS_SETTINGS if report.origins[name] != "default"}
    return collection, replace(collection.header.options, **chosen)


def open_workbench(settings: Settings) -> Workbench:
    """Opens a collection that exists, for questions.

    Raises:
        CollectionError: If there is none.
    """
    collection = Collection.open(settings.collection)
    return Workbench(settings, collection, Engine(collection))


def documents_under(collection: Collection, paths: Sequence[Path]) -> list[Document]:
    """The documents that these files and folders hold now, as far as they have items.

    What the collection still knows and the disk no longer holds is left out: it waits for `prune`.
    """
    return [
        document
        for document in collection.documents()
        if document.status.served
        and any(lies_under(path, document) for path in paths)
        and os.path.lexists(document.path)
    ]
