"""Replay: the recorded replies go through the environment once more.

On the same version of the collection this gives the same events except `run_id`, `ts` and
seconds. Where it does not, something changed: the collection, the environment or this code.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from vrag.agent.environment import Environment
from vrag.agent.events import Event, ModelCalled, RunFailed, StopReason
from vrag.agent.policy import Delta, Reply, Role
from vrag.agent.vrag import VragAgent
from vrag.errors import ModelError, RunError
from vrag.profiles import profile_named

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from vrag.agent.policy import Message
    from vrag.agent.runs import StoredRun
    from vrag.search.engine import Searcher

__all__ = ["Difference", "RecordedPolicy", "differences", "replay"]

NO_FURTHER_REPLY = "The record holds no further reply."


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """Says again what was said, in the same pieces."""

    name: str
    calls: tuple[ModelCalled, ...]
    failure: str = NO_FURTHER_REPLY
    """What to fail with when the record ends without an answer."""

    async def reply(self, history: Sequence[Message]) -> AsyncGenerator[Delta | Reply, None]:
        """The recorded reply to a history of this length.

        Raises:
            ModelError: If the record ends before it.
        """
        turn = sum(message.role is Role.ASSISTANT for message in history)
        if turn >= len(self.calls):
            raise ModelError(self.failure)
        call, at = self.calls[turn], 0
        for length in call.chunks:
            yield Delta(call.reply[at : at + length])
            at += length
        yield Reply(call.reply, call.finish)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay departs from its record; None stands for an event that is missing."""

    recorded: Event | None
    replayed: Event | None


def replay(run: StoredRun, searcher: Searcher) -> Iterator[Event]:
    """Runs the recorded replies through the environment.

    Raises:
        RunError: If the run never ended, or the collection has changed since.
    """
    started, last = run.started, run.events[-1]
    if run.trajectory.stop_reason in {None, StopReason.CANCELLED}:
        raise RunError(f"The run {run.id} was cut off before its end; there is nothing to compare with.")
    if started.collection != searcher.version:
        raise RunError(
            f"The collection has changed since the run {run.id}: what it would find now is another matter.",
            "Ask the question again instead, or restore the documents as they were.",
        )
    calls = tuple(event for event in run.events if isinstance(event, ModelCalled))
    settings = started.settings
    environment = Environment(searcher, profile_named(settings.profile), settings.environment)
    failure = last.message if isinstance(last, RunFailed) else NO_FURTHER_REPLY
    agent = VragAgent(RecordedPolicy(settings.policy, calls, failure), environment, settings.max_steps)
    return agent.stream(started.question, run_id=run.id)


def differences(recorded: Sequence[Event], replayed: Sequence[Event]) -> list[Difference]:
    """Pairs of events that differ in more than run, time and cost of the model."""
    pairs = zip_longest(recorded, replayed)
    return [Difference(a, b) for a, b in pairs if a is None or b is None or _lasting(a) != _lasting(b)]


def _lasting(event: Event) -> dict[str, Any]:
    """What of an event a replay must give again."""
    return event.model_dump(exclude={"run_id", "ts", "seconds", "prompt_tokens", "completion_tokens"})
