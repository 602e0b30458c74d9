"""The agents of a server, built from the settings and each request."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from platformdirs import user_state_path
from pydantic import SecretStr

from vrag import __version__
from vrag.agent.events import DraftMode
from vrag.agent.methods import METHODS
from vrag.agent.runs.run_store import RunStore
from vrag.chat.http_clients import base_of, is_loopback
from vrag.corpus.convert import CONVERTERS, find_missing_software
from vrag.errors import CollectionError, SettingsError
from vrag.factory.agents import add_unread_notice, open_agent
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.families import ModelFamily, open_family
from vrag.factory.models import close_chats, settings_of_choice
from vrag.factory.session import run_store
from vrag.index.maintenance import count_unread
from vrag.providers import LOCAL_PREFIX, PROVIDERS, Provider
from vrag.render.annotations.evidence_sources import EvidenceSources
from vrag.render.exports import MAX_EVIDENCE_BYTES
from vrag.search.absence import explain_absence
from vrag.server.collections.registry import CollectionCounts, count_collection
from vrag.server.runs import schema
from vrag.server.setup.servers import OWN_SERVER, ModelServer, ModelServers
from vrag.settings import AgentName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vrag.agent.agent import Agent
    from vrag.agent.runs.run_store import StoredRun
    from vrag.index.maintenance import UnreadFiles
    from vrag.server.collections.registry import OpenCollection
    from vrag.server.runs.schema import AgentSelection
    from vrag.settings import Settings

TITLE_WITHOUT_MODEL = "Without a model: finds places and short answers"
_AGENTS = tuple(
    schema.AgentChoice(name=name, title=f"{kind.title}: {kind.description}", steps=kind.steps, hits=kind.hits)
    for name in get_args(AgentName)
    for kind in (METHODS[name],)
)


@dataclass(frozen=True)
class Agents:
    """Agents by request; an `AgentProvider`."""

    settings: Settings
    registry: CollectionRegistry
    examples: tuple[str, ...] = ()
    """Example questions that the documents answer."""
    upload_bytes: int = 512 * 1024 * 1024

    @property
    def offer(self) -> schema.Capabilities:
        """The agents, models and collections that clients can choose now."""
        settings = self.settings
        return schema.Capabilities(
            agents=_AGENTS,
            models=tuple(
                schema.ModelChoice(name=name, title=name or TITLE_WITHOUT_MODEL) for name in self._models
            ),
            collections=tuple(map(_describe_collection, self.registry.open_collections)),
            defaults=schema.Defaults(
                agent=settings.agent,
                model=_shown(settings.model),
                max_steps=settings.max_steps or None,
                top_k=settings.hits or None,
                thinking=settings.thinking,
                crop_nodes=settings.crop_nodes,
                verify=settings.verify,
            ),
            limits=self._limits,
            examples=self.examples,
            version=__version__,
        )

    @property
    def _limits(self) -> schema.CapabilityLimits:
        missing = find_missing_software()
        unreadable = {suffix for software in missing for suffix in software.suffixes}
        return schema.CapabilityLimits(
            upload_bytes=self.upload_bytes,
            upload_types=tuple(sorted(CONVERTERS.keys() - unreadable)),
            unreadable=tuple(
                schema.UnreadableTypes(
                    types=tuple(sorted(software.suffixes)), needs=software.name, install=software.install
                )
                for software in missing
            ),
        )

    @property
    def store(self) -> RunStore:
        """The store of recorded runs, as `run_store` describes."""
        return run_store(self.settings, recording=True)

    def evidence_sources(self, runs: Sequence[StoredRun]) -> EvidenceSources:
        """Return where the evidence of runs is: in the open collections, or on the server that searches."""
        collections = tuple(each.collection for each in self.registry.open_collections)
        server = None if collections else self.registry.searcher
        return EvidenceSources(runs, collections, server, MAX_EVIDENCE_BYTES)

    def agent(self, choice: AgentSelection) -> Agent:
        """Return the agent that a request selects, as `AgentProvider.agent`."""
        names = self.registry.names
        if choice.collection is not None and choice.collection not in names:
            known = ", ".join(names) or "none: another server searches"
            raise SettingsError(f"There is no collection {choice.collection!r}.", f"Available: {known}.")
        if choice.documents is not None:
            self._check_documents(choice.documents, choice.collection)
        settings = self._settings_of(choice)
        family = open_family(settings, quiet=True)  # a server may have been started again with other weights
        agent = self._open(replace(choice, user=""), choice.collection if len(names) > 1 else None, family)
        if choice.user:
            agent = replace(agent, environment=replace(agent.environment, user=choice.user))
        return agent if choice.documents else add_unread_notice(agent, self._count_unread(choice.collection))

    def _count_unread(self, name: str | None) -> UnreadFiles | None:
        """Count the files that are being read into a collection, or into any."""
        opened = (each for each in self.registry.open_collections if name in {None, each.name})
        return count_unread(each.collection for each in opened)

    def _explain_absence(self, choice: AgentSelection) -> str:
        """Return why nothing may have been found; empty where another server searches."""
        opened = self.registry.open_collections
        chosen = [each.collection for each in opened if choice.collection in {None, each.name}]
        return explain_absence(chosen, choice.documents) if chosen else ""

    async def aclose(self) -> None:
        """Close connections, as `AgentProvider.aclose`."""
        await close_chats()

    @cached_property
    def _open(self) -> Callable[[AgentSelection, str | None, ModelFamily], Agent]:
        @lru_cache(64)  # building an agent reads settings and finds custom tools
        def open_(choice: AgentSelection, collection: str | None, family: ModelFamily) -> Agent:
            settings = self._settings_of(choice)
            agent = open_agent(settings, self.registry, choice.documents, collection, family)
            explain = partial(self._explain_absence, choice)
            return replace(agent, draft=DraftMode.CITED, explain_absence=explain)

        return open_

    def _settings_of(self, choice: AgentSelection) -> Settings:
        """Return the settings with what a request selects. Raises `SettingsError` for an unknown model."""
        changes: dict[str, Any] = {
            "agent": choice.agent,
            "max_steps": choice.max_steps,
            "hits": choice.top_k,
            "thinking": choice.thinking,
            "crop_nodes": choice.crop_nodes,
            "verify": choice.verify,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        settings = self.settings
        if choice.chosen is not None:
            settings = settings_of_choice(settings, choice.chosen)
        elif choice.model is not None:
            if choice.model not in self._models:
                known = ", ".join(name or "'' (without a model)" for name in self._models)
                raise SettingsError(f"There is no model {choice.model!r}.", f"Available: {known}.")
            changes["model"] = self._models[choice.model]
            if not changes["model"]:
                changes["base_url"] = ""
        return settings.model_copy(update=changes)

    @cached_property
    def _models(self) -> Mapping[str, str]:
        """Models by their public names; paths of checkpoints are not shown to clients."""
        return {_shown(name): name for name in ("", self.settings.model, *self.settings.models)}

    def _check_documents(self, ids: frozenset[str], collection: str | None) -> None:
        unknown = ids - self.registry.known_documents(ids, collection)
        if self.registry.open_collections and unknown:
            some = (
                f"{len(unknown)} of the {len(ids)} chosen documents do"
                if len(ids) > 1
                else "The chosen document does"
            )
            raise SettingsError(f"{some} not exist.", "Reload the list of documents.")


def model_servers(settings: Settings) -> ModelServers:
    """Return the servers that the page offers: that of the settings, and known providers.

    Each has the key that the environment has for it, which only administrators use.
    """
    own: tuple[ModelServer, ...] = ()
    if settings.base_url and not settings.model.startswith(LOCAL_PREFIX):
        with suppress(SettingsError):  # an address that cannot be used; a question says so
            own = (_own_server(settings),)
    return ModelServers((*own, *map(_provider_server, PROVIDERS.values())))


def _provider_server(provider: Provider) -> ModelServer:
    key = os.environ.get(provider.key_variable, "") if provider.key_variable else ""
    return ModelServer(
        name=provider.name,
        title=provider.title,
        base_url=provider.base_url,
        for_everybody=not is_loopback(provider.base_url),
        needs_key=bool(provider.key_variable),
        key=SecretStr(key),
        thinking_switch=provider.thinking_switch,
    )


def _own_server(settings: Settings) -> ModelServer:
    """Describe the server of the settings. Raises `SettingsError` if its address is invalid."""
    try:
        key = settings.key("model_key") or ""
    except SettingsError:  # it is not sent there: see `Settings.key`
        key = ""
    return ModelServer(
        name=OWN_SERVER,
        title="Server of the settings",
        base_url=base_of(settings.base_url),
        for_everybody=bool(settings.model),
        models=tuple(filter(None, (settings.model, *settings.models))),
        key=SecretStr(key),
        thinking_switch=settings.thinking_switch,
    )


def state_folder(settings: Settings) -> Path:
    """Return the folder of what a server keeps over a restart, by what it searches."""
    place = settings.search_url or settings.places[0]
    address = place if "://" in place else str(Path(place).absolute())
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(address).name)[:40].strip(".-")
    digest = hashlib.sha256(address.encode()).hexdigest()[:12]
    return user_state_path("vrag", appauthor=False) / "servers" / f"{name or 'server'}-{digest}"


def _describe_collection(open_collection: OpenCollection) -> schema.CollectionChoice:
    """Return the description of a collection for clients; one that cannot be read counts as empty."""
    try:
        counts, readable = count_collection(open_collection.collection), True
    except CollectionError:
        counts, readable = CollectionCounts(), False
    mark = open_collection.collection.header.embedder
    return schema.CollectionChoice(
        name=open_collection.name,
        documents=counts.documents,
        items=counts.items,
        writable=readable and not open_collection.reason,
        embedder=mark.name if mark else None,
    )


def _shown(model: str) -> str:
    """Return the public name of a model: that of a local checkpoint without its path."""
    return Path(model.removeprefix(LOCAL_PREFIX)).name if model.startswith(LOCAL_PREFIX) else model
