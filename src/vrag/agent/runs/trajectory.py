"""A run as one value: the fold of its events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from vrag.agent.events import (
    ActionRequested,
    AnswerGiven,
    CropRequested,
    Event,
    GraphChanged,
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
    from vrag.agent.memory.memory_graph import Graph
    from vrag.types import Hit

N = TypeVar("N", int, float)

__all__ = ["RunUsage", "Trajectory", "TrajectoryStep"]


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What a run cost. A count is None when no step could tell."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    visual_tokens: int = 0
    """Of the pictures in all prompts: a picture counts once in every prompt that holds it."""
    pixels: int = 0
    """Of the same pictures."""
    seconds: float = 0.0
    model_seconds: float = 0.0
    cost: float | None = None
    """In the currency of the prices; None where they are unknown."""
    cached_tokens: int | None = None

    def plus(self, event: UsageReported) -> RunUsage:
        """The sum with one step more."""
        return RunUsage(
            _sum(self.prompt_tokens, event.prompt_tokens),
            _sum(self.completion_tokens, event.completion_tokens),
            self.visual_tokens + event.visual_tokens,
            self.pixels + event.pixels,
            self.seconds + event.seconds,
            self.model_seconds + event.model_seconds,
            _sum(self.cost, event.cost),
            _sum(self.cached_tokens, event.cached_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryStep:
    """One model call and what came of it."""

    number: int
    thought: str | None = None
    query: str | None = None
    """What was searched."""
    crop: BoxSides | None = None
    """What was cropped, as the model wrote it."""
    action: str | None = None
    """Name of the action of others that was taken."""
    node: str | None = None
    """The node of the memory graph that it made."""
    invalid: str | None = None
    """Why the reply was not carried out."""
    hits: tuple[Hit, ...] = ()
    shown: tuple[ImageShown, ...] = ()
    reply: str = ""
    flags: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    """How the reply was read, where it breaks the grammar and its meaning is clear."""
    usage: UsageReported | None = None
    """What it cost; None of a step that was cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A run: question, steps, and how it ended."""

    run_id: str = ""
    question: str = ""
    steps: tuple[TrajectoryStep, ...] = ()
    answer: str | None = None
    """None when the agent abstained, failed or never answered."""
    evidence: tuple[Evidence, ...] = ()
    unsupported: tuple[str, ...] = ()
    """Why pieces of evidence were left out."""
    stop_reason: StopReason | None = None
    """None while the run goes on, or when it was cut off."""
    failure: str | None = None
    usage: RunUsage = field(default_factory=RunUsage)
    graph: Graph | None = None
    """The memory graph at the end; None without one."""

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


def _after(run: Trajectory, event: Event) -> Trajectory:  # noqa: C901, PLR0911, PLR0912 - one flat case per event
    match event:
        case RunStarted():
            return replace(run, run_id=event.run_id, question=event.question)
        case AnswerGiven():
            return replace(
                run,
                answer=event.text,
                evidence=event.evidence,
                unsupported=event.unsupported,
                stop_reason=event.stop_reason,
            )
        case RunFailed():
            return replace(run, failure=event.message, stop_reason=event.stop_reason)
        case UsageReported():
            return replace(_with(run, event.step, usage=event), usage=run.usage.plus(event))
        case ModelCalled():
            return _with(run, event.step, reply=event.reply, flags=event.flags, repairs=event.repairs)
        case ThoughtGiven():
            return _with(run, event.step, thought=event.text)
        case SearchRequested():
            return _with(run, event.step, query=event.query, node=event.node)
        case SearchReturned():
            return _with(run, event.step, hits=event.hits)
        case CropRequested():
            return _with(run, event.step, crop=event.box, node=event.node)
        case ActionRequested():
            return _with(run, event.step, action=event.name, query=event.text, node=event.node)
        case GraphChanged():
            return replace(run, graph=event.graph)
        case InvalidAction():
            return _with(run, event.step, invalid=event.reason)
        case ImageShown():
            shown = run.steps[-1].shown if run.steps else ()
            return _with(run, event.step, shown=(*shown, event))
        case _:
            return run


def _before(run: Trajectory, step: int) -> tuple[TrajectoryStep, ...]:
    return tuple(s for s in run.steps if s.number < step)


def _with(run: Trajectory, step: int, **changes: object) -> Trajectory:
    current = run.steps[-1] if run.steps and run.steps[-1].number == step else TrajectoryStep(number=step)
    changed = replace(current, **changes)  # pyright: ignore[reportArgumentType] - names are checked by replace
    return replace(run, steps=(*_before(run, step), changed))


def _sum(a: N | None, b: N | None) -> N | None:
    return b if a is None else a if b is None else a + b
