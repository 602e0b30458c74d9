"""Settings become what a server answers questions with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.agent.rag import Rag
from vrag.agent.react import React
from vrag.agent.runs import RunStore
from vrag.agent.vimrag import Vimrag
from vrag.agent.vrag import Vrag
from vrag.assemble.answering import HITS, open_agent
from vrag.assemble.models import LOCAL
from vrag.assemble.shelf import Shelf
from vrag.assemble.workbench import run_store
from vrag.corpus.convert import CONVERTERS
from vrag.errors import CollectionError, SettingsError
from vrag.index.table import literal
from vrag.server.library.counts import Counts, counted
from vrag.server.runs.wire import (
    AgentChoice,
    CollectionChoice,
    Defaults,
    ModelChoice,
    Offer,
    OfferLimits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vrag.agent.loop import Agent
    from vrag.server.library.holdings import Holding
    from vrag.server.runs.desk import Choice
    from vrag.settings import Settings

__all__ = ["Agents"]

OFFLINE = "Offline: quotes, does not read"
_KEPT = 64
"""Agents that are remembered: building one reads settings and finds actions of others."""
_AGENTS = (
    AgentChoice(name="vrag", title="VRAG: one conversation", steps=Vrag().steps, hits=HITS["vrag"]),
    AgentChoice(
        name="vimrag", title="VimRAG: a graph that remembers", steps=Vimrag().steps, hits=HITS["vimrag"]
    ),
    AgentChoice(name="rag", title="RAG: one search, one answer", steps=Rag().steps, hits=HITS["rag"]),
    AgentChoice(name="react", title="ReAct: search alone", steps=React().steps, hits=HITS["react"]),
)


@dataclass(frozen=True)
class Agents:
    """Agents on demand, as settings and a request say; an `Answering`."""

    settings: Settings
    shelf: Shelf
    examples: tuple[str, ...] = ()
    """Questions that the documents answer, for people who look around."""
    upload_bytes: int = 512 * 1024 * 1024

    @property
    def offer(self) -> Offer:
        """What may be asked for, as it is now."""
        settings = self.settings
        return Offer(
            agents=_AGENTS,
            models=tuple(ModelChoice(name=name, title=name or OFFLINE) for name in self._models),
            collections=self._collections(),
            defaults=Defaults(
                agent=settings.agent,
                model=_shown(settings.model),
                max_steps=settings.max_steps or None,
                top_k=settings.hits or None,
                thinking=settings.thinking,
            ),
            limits=OfferLimits(upload_bytes=self.upload_bytes, upload_types=tuple(sorted(CONVERTERS))),
            examples=self.examples,
            version=__version__,
        )

    @property
    def store(self) -> RunStore:
        """Where runs are recorded: with the first collection."""
        return run_store(self.settings)

    def agent(self, choice: Choice) -> Agent:
        """The agent that a request asks for.

        Raises:
            SettingsError: If there is no such model or collection, or the choices do not fit each other.
            ModelError: If a checkpoint cannot be opened.
        """
        self._check_collection(choice.collection)
        if choice.documents is not None:
            self._check_documents(choice.documents, choice.collection)
        several = len(self.shelf.names) > 1
        return self._open(choice, choice.collection if several else None)

    @cached_property
    def _open(self) -> Callable[[Choice, str | None], Agent]:
        @lru_cache(_KEPT)
        def open_(choice: Choice, collection: str | None) -> Agent:
            settings = self.settings.model_copy(update=self._changes(choice))
            return open_agent(settings, self.shelf, choice.documents, collection)

        return open_

    @cached_property
    def _models(self) -> Mapping[str, str]:
        """What models are called, and what they are in the settings. Paths stay here."""
        asked = ("", self.settings.model, *self.settings.models)
        return {_shown(name): name for name in asked}

    def _changes(self, choice: Choice) -> dict[str, Any]:
        changes: dict[str, Any] = {
            "agent": choice.agent,
            "max_steps": choice.max_steps,
            "hits": choice.top_k,
            "thinking": choice.thinking,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        if choice.model is not None:
            if choice.model not in self._models:
                known = ", ".join(name or "'' (offline)" for name in self._models)
                raise SettingsError(f"There is no model {choice.model!r} here.", f"There are: {known}.")
            changes["model"] = self._models[choice.model]
            if not changes["model"]:
                changes["base_url"] = ""
        return changes

    def _check_collection(self, name: str | None) -> None:
        if name is not None and name not in self.shelf.names:
            known = ", ".join(self.shelf.names) or "none: another server searches"
            raise SettingsError(f"There is no collection {name!r}.", f"There are: {known}.")

    def _check_documents(self, ids: frozenset[str], collection: str | None) -> None:
        wanted = f"id IN ({', '.join(map(literal, sorted(ids)))})"
        known: set[str] = set()
        for holding in self.shelf.holdings:
            if collection not in {None, holding.name}:
                continue
            known.update(holding.collection.file_table.read(["id"], wanted).data["id"].to_pylist())
        if self.shelf.holdings and (unknown := ids - known):
            raise SettingsError(
                f"{len(unknown)} of the {len(ids)} documents are not there.",
                "GET /collections/{name}/documents lists those that are.",
            )

    def _collections(self) -> tuple[CollectionChoice, ...]:
        return tuple(_offered(holding) for holding in self.shelf.holdings)


def _offered(holding: Holding) -> CollectionChoice:
    """A collection as it is offered; one that cannot be read just now holds nothing."""
    try:
        counts, readable = counted(holding.collection), True
    except CollectionError:
        counts, readable = Counts(), False
    mark = holding.collection.header.embedder
    return CollectionChoice(
        name=holding.name,
        documents=counts.documents,
        items=counts.items,
        writable=readable and not holding.reason,
        embedder=mark.name if mark else None,
    )


def _shown(model: str) -> str:
    """A model as clients know it: of a checkpoint here, its name without the path."""
    return Path(model.removeprefix(LOCAL)).name if model.startswith(LOCAL) else model
