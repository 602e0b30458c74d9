"""What a way of answering is: VRAG, VimRAG, and the baselines RAG and ReAct are those that there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vrag.agent.policy import EnclosedImage, Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.actions import Answer, Turn
    from vrag.agent.environment import Environment
    from vrag.agent.evidence import EvidenceCandidate
    from vrag.agent.memory.energies import MemoryOptions
    from vrag.agent.policy import Message
    from vrag.agent.question import Question
    from vrag.agent.replies.tool_calls import AnswerNode
    from vrag.agent.runs.event_log import EventLog

__all__ = ["ActionOutcome", "ActionRejected", "Context", "Episode", "Method"]


class ActionRejected(ValueError):
    """An action cannot be carried out; the message is a sentence that the model is told."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the model is told next."""

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
    """What came of a turn."""

    answer: Answer | AnswerNode | None = None
    """The answer, where the turn gave one that stands."""
    refused: bool = False
    """Whether it was not carried out."""


class Episode(Protocol):
    """The state of one run: what was asked, shown and remembered."""

    def prepare(self, record: EventLog) -> None:
        """Does what comes before the first model call, and says it as a part of that step. May block.

        Args:
            record: Where it is said.

        Raises:
            SearchError, CollectionError: If the search or the collection fails.
        """
        ...

    def context(self, *, last: bool) -> Context:
        """What the model is told next; what is told once is told the same from then on. Does not block.

        Args:
            last: Whether it must answer now.
        """
        ...

    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Any]:
        """Takes a reply apart; never raises.

        Args:
            reply: What the model wrote.
            last: Whether it had to answer: then any readable answer counts, where replies are repaired.
            cut: Whether the reply was cut off at its token limit: then what does not end is not completed.
        """
        ...

    def announce(self, turn: Turn[Any], record: EventLog) -> None:
        """Says what is about to be done."""
        ...

    def step(self, turn: Turn[Any], record: EventLog, *, more: bool) -> ActionOutcome:
        """Does it, and says what came of it. May block.

        Args:
            turn: The reply, taken apart.
            record: Where it is said.
            more: Whether the model may be asked once more.

        Raises:
            SearchError, CollectionError: If the search or the collection fails. A fault of the
                action itself is told to the model, and is no error.
        """
        ...

    def shorten(self, *, last: bool) -> tuple[str, ...]:
        """Takes about half of the pictures out of what the model is told, those that count least first.

        Args:
            last: Whether it must answer now.

        Returns:
            The names under which the model knew them; none where there is no picture left.
        """
        ...

    def conclude(self, record: EventLog) -> ActionOutcome:
        """Gives the answer that stands while the model is asked something more, where there is one."""
        ...

    def evidence(self, answer: str | None) -> Sequence[EvidenceCandidate]:
        """What the answer rests on; without an answer, where it was looked for. May block."""
        ...


class Method(Protocol):
    """A way of answering. Frozen: one serves all runs."""

    @property
    def name(self) -> str:
        """How it is called in run files and on the command line."""
        ...

    @property
    def steps(self) -> int:
        """Model calls of a run, where nothing else is said."""
        ...

    @property
    def instruction(self) -> str | None:
        """The user's own wording of the instruction; None for ours."""
        ...

    @property
    def reselect(self) -> bool:
        """Whether the model is asked which of its evidence counts."""
        ...

    @property
    def repair(self) -> bool:
        """Whether replies that break the grammar are read where their meaning is clear."""
        ...

    @property
    def memory(self) -> MemoryOptions | None:
        """How memory is shared out, where there is any."""
        ...

    def begin(self, environment: Environment, question: str | Question) -> Episode:
        """A new run: nothing searched, nothing shown but what came with the question. May block.

        Raises:
            ValueError: If the question is empty.
        """
        ...
