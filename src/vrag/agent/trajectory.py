"""A run as one value: the fold of its events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    Event,
    ImageShown,
    InvalidAction,
    ModelCalled,
    RunFailed,
    RunStarted,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtGiven,
    UsageReported,
)
from vrag.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.agent.evidence import BoxSides, Evidence
    from vrag.types import Hit

__all__ = ["Step", "Trajectory", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run cost. A count is None when no step could tell."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    visual_tokens: int = 0
    seconds: float = 0.0

    def plus(self, event: UsageReported) -> Usage:
        """The sum with one step more."""
        return Usage(
            _sum(self.prompt_tokens, event.prompt_tokens),
            _sum(self.completion_tokens, event.completion_tokens),
            self.visual_tokens + event.visual_tokens,
            self.seconds + event.seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model call and what came of it."""

    number: int
    thought: str | None = None
    query: str | None = None
    """What was searched."""
    crop: BoxSides | None = None
    """What was cropped, as the model wrote it."""
    invalid: str | None = None
    """Why the reply was not carried out."""
    hits: tuple[Hit, ...] = ()
    shown: tuple[ImageShown, ...] = ()
    reply: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A run: question, steps, and how it ended."""

    run_id: str = ""
    question: str = ""
    steps: tuple[Step, ...] = ()
    answer: str | None = None
    """None when the agent abstained, failed or never answered."""
    evidence: tuple[Evidence, ...] = ()
    stop_reason: StopReason | None = None
    """None while the run goes on, or when it was cut off."""
    failure: str | None = None
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Trajectory:
        """Folds the events of one run.

        Raises:
            RunError: If they do not begin with the start of a run.
        """
        trajectory = reduce(_after, events, cls())
        if not trajectory.run_id:
            raise RunError("These events hold no run: the first one must be run_started.")
        return trajectory

    @property
    def pages_shown(self) -> tuple[str, ...]:
        """Ids of the items shown whole, in order, each once."""
        shown = (image for step in self.steps for image in step.shown if not image.crop)
        return tuple(dict.fromkeys(image.item for image in shown))


def _after(run: Trajectory, event: Event) -> Trajectory:  # noqa: C901, PLR0911 - one flat case per event
    match event:
        case RunStarted():
            return replace(run, run_id=event.run_id, question=event.question)
        case AnswerGiven():
            return replace(run, answer=event.text, evidence=event.evidence, stop_reason=event.stop_reason)
        case RunFailed():
            return replace(run, failure=event.message, stop_reason=event.stop_reason)
        case UsageReported():
            return replace(run, usage=run.usage.plus(event))
        case ModelCalled():
            step = Step(number=event.step, reply=event.reply, flags=event.flags)
            thought = run.steps[-1].thought if run.steps and run.steps[-1].number == event.step else None
            return replace(run, steps=(*_before(run, event.step), replace(step, thought=thought)))
        case ThoughtGiven():
            return _with(run, event.step, thought=event.text)
        case SearchRequested():
            return _with(run, event.step, query=event.query)
        case SearchReturned():
            return _with(run, event.step, hits=event.hits)
        case CropRequested():
            return _with(run, event.step, crop=event.box)
        case InvalidAction():
            return _with(run, event.step, invalid=event.reason)
        case ImageShown():
            shown = run.steps[-1].shown if run.steps else ()
            return _with(run, event.step, shown=(*shown, event))
        case _:
            return run


def _before(run: Trajectory, step: int) -> tuple[Step, ...]:
    return tuple(s for s in run.steps if s.number < step)


def _with(run: Trajectory, step: int, **changes: object) -> Trajectory:
    current = run.steps[-1] if run.steps and run.steps[-1].number == step else Step(number=step)
    changed = replace(current, **changes)  # pyright: ignore[reportArgumentType] - names are checked by replace
    return replace(run, steps=(*_before(run, step), changed))


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
