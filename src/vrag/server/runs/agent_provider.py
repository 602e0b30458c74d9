"""What a server's runs are answered by. Built elsewhere: a server opens nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.agent.runs.run_store import RunStore
    from vrag.server.runs.schema import Capabilities, RunRequest, Thinking

__all__ = ["AgentProvider", "AgentSelection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSelection:
    """What a request says of the agent that is to answer; None where it says nothing."""

    agent: str | None = None
    model: str | None = None
    """Empty for the offline policy."""
    collection: str | None = None
    documents: frozenset[str] | None = None
    max_steps: int | None = None
    top_k: int | None = None
    thinking: Thinking | None = None

    @classmethod
    def of(cls, asked: RunRequest) -> AgentSelection:
        """The choice of a request."""
        return cls(
            agent=asked.agent,
            model=asked.model,
            collection=asked.collection,
            documents=None if asked.documents is None else frozenset(asked.documents),
            max_steps=asked.max_steps,
            top_k=asked.top_k,
            thinking=asked.thinking,
        )


class AgentProvider(Protocol):
    """Agents on demand, and the place where their runs are recorded. Used from several threads."""

    @property
    def offer(self) -> Capabilities:
        """What may be asked for, as it is now. May block."""
        ...

    @property
    def store(self) -> RunStore:
        """Where runs are recorded."""
        ...

    def agent(self, choice: AgentSelection) -> Agent:
        """The agent that a request asks for, which may be one that was given before. May block.

        Raises:
            SettingsError: If there is no such model or collection, or the choices do not fit each other.
            ModelError: If a checkpoint cannot be opened.
        """
        ...
