"""The `Method` protocol, implemented by VRAG, VimRAG, RAG and ReAct, and the state of one of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from vrag.agent.actions import Answer, Turn
from vrag.agent.environment import Environment
from vrag.agent.evidence import EvidenceCandidate
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.policy import EnclosedImage, Message, Picture, Policy
from vrag.agent.question import Question
from vrag.agent.replies.tool_calls import AnswerNode
from vrag.agent.runs.event_log import EventLog

__all__ = ["ActionOutcome", "Context", "Episode", "Method"]


@dataclass(frozen=True, slots=True)
class Context:
    """The messages of the next model call."""

    messages: tuple[Message, ...]
    remembered: tuple[Picture, ...] = ()
    """Those of its pictures that come from memory."""
    fresh: tuple[Picture, ...] = ()
    """Those that the step before brought."""

    @property
    def pictures(self) -> tuple[Picture | EnclosedImage, ...]:
        """All of its pictures, those that came with the question included."""
        parts = (part for message in self.messages for part in message.parts)
        return tuple(part for part in parts if isinstance(part, Picture | EnclosedImage))


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The outcome of a turn."""

    answer: Answer | AnswerNode | None = None
    """The answer, where the turn gave one that stands."""
    refused: bool = False
    """True if the action was not carried out."""


class Episode(Protocol):
    """The state of one run: what was asked, shown and remembered.

    `prepare`, `step` and `evidence` may block, and raise `SearchError` or `CollectionError` if the search or
    the collection fails. All events go to the log that they are given.
    """

    def prepare(self, log: EventLog) -> None:
        """Do what comes before the first model call; its events are part of that step."""
        ...

    def context(self, *, last: bool) -> Context:
        """Return the messages of the next call; what was told once stays the same from then on.

        Args:
            last: Whether the model must answer now.
        """
        ...

    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Any]:
        """Parse a reply; never raises.

        Args:
            reply: The text that the model wrote.
            last: Whether it had to answer: then any readable answer counts, where replies are repaired.
            cut: Whether the reply was cut off at its token limit: then what does not end is not completed.
        """
        ...

    def announce(self, turn: Turn[Any], log: EventLog) -> None:
        """Add the event of the action that is about to be carried out."""
        ...

    def step(self, turn: Turn[Any], log: EventLog, *, more: bool) -> ActionOutcome:
        """Carry out the action of a reply. A fault of the action is told to the model, and is no error.

        Args:
            turn: The parsed reply.
            log: Takes the events.
            more: Whether the model may be asked once more.
        """
        ...

    def shorten(self, *, last: bool) -> tuple[str, ...]:
        """Remove about half of the pictures from the context, those that count least first.

        Args:
            last: Whether the model must answer now.

        Returns:
            The names under which the model knew them; none where there is no picture left.
        """
        ...

    def conclude(self, log: EventLog) -> ActionOutcome:
        """Return the answer that stands while the model is asked something more, where there is one."""
        ...

    def evidence(self, answer: str | None) -> Sequence[EvidenceCandidate]:
        """Return the evidence of the answer; without an answer, where the agent looked."""
        ...


class Method(Protocol):
    """A way to answer questions. Frozen: one object serves all runs. See `vrag.agent.methods.registry`."""

    name: ClassVar[str]
    """In run files and on the command line."""
    title: ClassVar[str]
    """For people."""
    description: ClassVar[str]
    """In a few words."""
    steps: ClassVar[int]
    """Model calls of a run, unless limits say otherwise."""
    hits: ClassVar[int]
    """Hits of a search, unless settings say otherwise."""

    @property
    def instruction(self) -> str | None:
        """The user's own wording of the instruction; None for the built-in one."""
        ...

    @property
    def reselect(self) -> bool:
        """True if the model is asked which of its evidence counts."""
        ...

    @property
    def repair(self) -> bool:
        """True if replies that break the grammar are read where their meaning is clear."""
        ...

    @property
    def memory(self) -> MemoryOptions | None:
        """The options of the memory, where there is one."""
        ...

    def offline_policy(self, environment: Environment) -> Policy:
        """Open the policy without a model that writes replies in the grammar of this method."""
        ...

    def begin(self, environment: Environment, question: str | Question) -> Episode:
        """Begin a run: nothing is searched or shown but what came with the question. May block.

        Raises:
            ValueError: If the question is empty.
        """
        ...
