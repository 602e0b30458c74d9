"""Settings become what a server answers questions with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.agent.methods.rag import Rag
from vrag.agent.methods.react import React
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_store import RunStore
from vrag.corpus.convert import CONVERTERS
from vrag.errors import CollectionError, SettingsError
from vrag.factory.agents import HITS, open_agent
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.models import LOCAL
from vrag.factory.session import run_store
from vrag.index.tables.table import literal
from vrag.server.collections.counts import CollectionCounts, counted
from vrag.server.runs.schema import (
    AgentChoice,
    Capabilities,
    CapabilityLimits,
    CollectionChoice,
    Defaults,
    ModelChoice,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vrag.agent.agent import Agent
    from vrag.server.collections.registry import OpenCollection
    from vrag.server.runs.agent_provider import AgentSelection
    from vrag.settings import Settings

__all__ = ["Agents"]

OFFLINE = "Offline: quotes, does not read"
_KEPT = 64
"""Agents that are remembered: building one reads settings and finds actions of others."""
_AGENTS = (
    AgentChoice(name="vrag", title="VRAG: one conversation", steps=VragMethod().steps, hits=HITS["vrag"]),
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
    registry: CollectionRegistry
    examples: tuple[str, ...] = ()
    """Questions that the documents answer, for people who look around."""
    upload_bytes: int = 512 * 1024 * 1024

    @property
    def offer(self) -> Capabilities:
        """What may be asked for, as it is now."""
        settings = self.settings
        return Capabilities(
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
            limits=CapabilityLimits(upload_bytes=self.upload_bytes, upload_types=tuple(sorted(CONVERTERS))),
            examples=self.examples,
            version=__version__,
        )

    @property
    def store(self) -> RunStore:
        """Where runs are recorded: with the first collection."""
        return run_store(self.settings)

    def agent(self, choice: AgentSelection) -> Agent:
        """The agent that a request asks for.

        Raises:
            SettingsError: If there is no such model or collection, or the choices do not fit each other.
            ModelError: If a checkpoint cannot be opened.
        """
        self._check_collection(choice.collection)
        if choice.documents is not None:
            self._check_documents(choice.documents, choice.collection)
        several = len(self.registry.names) > 1
        return self._open(choice, choice.collection if several else None)

    @cached_property
    def _open(self) -> Callable[[AgentSelection, str | None], Agent]:
        @lru_cache(_KEPT)
        def open_(choice: AgentSelection, collection: str | None) -> Agent:
            settings = self.settings.model_copy(update=self._changes(choice))
            return open_agent(settings, self.registry, choice.documents, collection)

        return open_

    @cached_property
    def _models(self) -> Mapping[str, str]:
        """What models are called, and what they are in the settings. Paths stay here."""
        asked = ("", self.settings.model, *self.settings.models)
        return {_shown(name): name for name in asked}

    def _changes(self, choice: AgentSelection) -> dict[str, Any]:
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
        if name is not None and name not in self.registry.names:
            known = ", ".join(self.registry.names) or "none: another server searches"
            raise SettingsError(f"There is no collection {name!r}.", f"There are: {known}.")

    def _check_documents(self, ids: frozenset[str], collection: str | None) -> None:
        wanted = f"id IN ({', '.join(map(literal, sorted(ids)))})"
        known: set[str] = set()
        for holding in self.registry.holdings:
            if collection not in {None, holding.name}:
                continue
            known.update(holding.collection.file_table.read(["id"], wanted).data["id"].to_pylist())
        if self.registry.holdings and (unknown := ids - known):
            raise SettingsError(
                f"{len(unknown)} of the {len(ids)} documents are not there.",
                "GET /collections/{name}/documents lists those that are.",
            )

    def _collections(self) -> tuple[CollectionChoice, ...]:
        return tuple(_offered(holding) for holding in self.registry.holdings)


def _offered(holding: OpenCollection) -> CollectionChoice:
    """A collection as it is offered; one that cannot be read just now holds nothing."""
    try:
        counts, readable = counted(holding.collection), True
    except CollectionError:
        counts, readable = CollectionCounts(), False
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
