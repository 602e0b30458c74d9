"""What a server's runs are answered by in tests: scripted replies, at the pace of the test."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import DraftMode
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Delta, Reply
from vrag.agent.runs.run_meta import Via
from vrag.agent.runs.run_store import RunStore
from vrag.errors import SettingsError
from vrag.model_profiles import PROFILES
from vrag.render.annotations.evidence_sources import EvidenceSources
from vrag.server.http.users import EVERYBODY
from vrag.server.runs.run_manager import Requester
from vrag.server.runs.schema import AgentChoice, Capabilities, CapabilityLimits, Defaults, ModelChoice
from vrag.server.runs.user_runs import UserRuns
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from vrag.agent.policy import Message
    from vrag.agent.runs.run_store import StoredRun
    from vrag.search.searcher import Searcher
    from vrag.server.collections.registry import OpenCollection
    from vrag.server.http.users import User
    from vrag.server.runs.run_manager import RunManager
    from vrag.server.runs.schema import AgentSelection

SEARCH = "<think>Where is it?</think><search>ferry passengers</search>"
ANSWER = "<think>There.</think><answer>48,200</answer>"
OFFER = Capabilities(
    agents=(
        AgentChoice(name="vrag", title="VRAG", steps=10, hits=10),
        AgentChoice(name="vimrag", title="VimRAG", steps=20, hits=3),
    ),
    models=(ModelChoice(name="", title="Without a model"), ModelChoice(name="scripted", title="scripted")),
    collections=(),
    defaults=Defaults(agent="vrag", model="scripted"),
    limits=CapabilityLimits(upload_bytes=1000, upload_types=(".pdf",)),
    examples=("How many passengers?",),
    version="0",
)


def runs_of(manager: RunManager, client: str = "", user: User = EVERYBODY, via: Via = Via.PAGE) -> UserRuns:
    """The runs of a host, as a client sees them."""
    return UserRuns(manager, Requester(user, client, via))


@dataclass
class PacedPolicy:
    """Says its replies in order; before each it waits until the test lets it, from any thread."""

    replies: Sequence[str] = (SEARCH, ANSWER)
    go: threading.Event = field(default_factory=threading.Event)
    name: str = "scripted"
    told: list[Sequence[Message]] = field(default_factory=list["Sequence[Message]"])
    fault: Exception | None = None
    """What the first reply raises."""
    piece: int = 1000
    """Characters of a piece of a reply after its first twelve."""

    @property
    def sampling(self) -> dict[str, float | int | str | bool]:
        return {}

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        self.told.append(history)
        while not self.go.is_set():  # noqa: ASYNC110 - set from any thread
            await asyncio.sleep(0.005)
        if self.fault is not None:
            raise self.fault
        text = self.replies[turn - 1]
        yield Delta(text[:12])
        for start in range(12, len(text), self.piece):
            yield Delta(text[start : start + self.piece])
        yield Reply(text)

    async def aclose(self) -> None:
        return


@dataclass(frozen=True)
class Nothing:
    """`CollectionSet` of a server without collections of its own."""

    absent: str = "There are no collections here."
    open_collections: tuple[OpenCollection, ...] = ()

    def create(self, name: str) -> OpenCollection:
        raise SettingsError(self.absent)

    def drop(self, name: str) -> None:
        raise SettingsError(self.absent)


@dataclass
class Scripted:
    """An `AgentProvider` of one policy over the tiny corpus."""

    directory: Path
    policy: PacedPolicy = field(default_factory=PacedPolicy)
    searcher: Searcher = field(default_factory=tiny_corpus)
    offer: Capabilities = OFFER
    choices: list[AgentSelection] = field(default_factory=list["AgentSelection"])

    @property
    def store(self) -> RunStore:
        return RunStore(self.directory)

    def evidence_sources(self, runs: Sequence[StoredRun]) -> EvidenceSources:
        return EvidenceSources(runs, server=self.searcher)

    def agent(self, choice: AgentSelection) -> Agent:
        self.choices.append(choice)
        if choice.model not in {None, "", "scripted"}:
            raise SettingsError(f"There is no model {choice.model!r} here.", "There is: scripted.")
        options = EnvironmentOptions(documents=choice.documents)
        environment = Environment(self.searcher, PROFILES["qwen2.5-vl"], options)
        method = Vimrag() if choice.agent == "vimrag" else VragMethod()
        return Agent(self.policy, environment, method, draft=DraftMode.CITED)

    async def aclose(self) -> None:
        return
