"""What an agent did, step by step, in the few words that a list of cases has room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.render.text_format import count, moment, place
from vrag.reward.parts import answer_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.agent.events import ImageShown
    from vrag.agent.runs.run_result import RunResult, RunStep

__all__ = ["THOUGHT", "ActionSummary", "StepSummary", "summarize_steps"]

THOUGHT = 10_000
"""Characters of a thought after which it is cut: the run has all of it. Long ones are folded in the page."""
_LINE = 2000
"""Characters of all else after which it is cut."""
_SHOWN = 12
"""Pictures of a step that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class ActionSummary:
    """One thing that a step did."""

    kind: str
    """`search`, `crop`, `tool`, `fault` or `answer`."""
    text: str


@dataclass(frozen=True, slots=True)
class StepSummary:
    """One step."""

    number: int
    thought: str
    acts: tuple[ActionSummary, ...]
    seen: tuple[str, ...]
    """What the model was shown: document and page."""

    def as_dict(self) -> dict[str, Any]:
        """What the page is made of."""
        return {
            "n": self.number,
            "thought": self.thought,
            "acts": [[act.kind, act.text] for act in self.acts],
            "seen": self.seen,
        }


def summarize_steps(run: RunResult) -> tuple[StepSummary, ...]:
    """The steps of a run; its last one answers, or abstains, where it came to that."""
    strides = [_summarize_step(step) for step in run.steps]
    said = answer_of(run)
    if strides and said is not None:
        last = strides[-1]
        answer = ActionSummary("answer", cut(said, THOUGHT))
        strides[-1] = StepSummary(last.number, last.thought, (*last.acts, answer), last.seen)
    return tuple(strides)


def cut(text: str, most: int = _LINE) -> str:
    """Text of bounded length."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _summarize_step(step: RunStep) -> StepSummary:
    return StepSummary(step.number, cut(step.thought or "", THOUGHT), tuple(_acts(step)), _seen(step.shown))


def _acts(step: RunStep) -> Iterable[ActionSummary]:
    if step.action is not None:
        yield ActionSummary("tool", cut(f"{step.action}: {step.query or ''}"))
    elif step.query is not None:
        yield ActionSummary("search", cut(step.query))
        if not step.hits and not step.shown:
            yield ActionSummary("fault", "Nothing was found.")
    if step.crop is not None:
        yield ActionSummary("crop", place(step.crop))
    if step.invalid is not None:
        yield ActionSummary("fault", cut(step.invalid))


def _seen(shown: tuple[ImageShown, ...]) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(_name(one) for one in shown))
    more = len(named) - _SHOWN
    return named if more <= 0 else (*named[:_SHOWN], f"and {count(more, 'picture')} more")


def _name(shown: ImageShown) -> str:
    where = f"page {shown.page}" if shown.seconds is None else moment(shown.seconds)
    return f"{shown.document}, {where}{', closer' if shown.crop else ''}"
