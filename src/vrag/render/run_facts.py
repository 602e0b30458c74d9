"""How an answer was made, in words: by which agent and model, over what, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from vrag.agent.events import SearchRequested
from vrag.agent.runs.trajectory import RunUsage
from vrag.render.outcome import OFFLINE
from vrag.render.text_format import amount, money, seconds, when

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.render.run_page.run_view import RunView

__all__ = ["RunCost", "RunTable", "method_name", "provenance"]

METHODS = {"vrag": "VRAG", "vimrag": "VimRAG", "rag": "RAG", "react": "ReAct"}


def method_name(run_view: RunView) -> str:
    """What the agent of a run is called."""
    return METHODS.get(run_view.settings.agent, run_view.settings.agent)


@dataclass(frozen=True, slots=True)
class RunCost:
    """What it took to answer a question, or several."""

    steps: int
    searches: int
    usage: RunUsage
    seconds: float
    """Of one run from its first event to its last; of several, added up."""

    @classmethod
    def of(cls, stories: Iterable[RunView]) -> RunCost:
        """Of all these runs together."""
        told = list(stories)
        usages = (
            step_view.usage for run_view in told for step_view in run_view.step_views if step_view.usage
        )
        return cls(
            steps=sum(len(run_view.step_views) for run_view in told),
            searches=sum(len(run_view.all(SearchRequested)) for run_view in told),
            usage=reduce(RunUsage.plus, usages, RunUsage()),
            seconds=sum(run_view.seconds for run_view in told),
        )

    @property
    def figures(self) -> dict[str, str]:
        """Each figure in words, by its name; what is not known is left out."""
        used = self.usage
        figures = {"steps": amount(self.steps), "searches": amount(self.searches)}
        if used.prompt_tokens is not None:
            figures["tokens"] = amount(used.prompt_tokens + (used.completion_tokens or 0))
        figures |= {"visual tokens": amount(used.visual_tokens), "time": seconds(self.seconds)}
        return figures if used.cost is None else figures | {"cost": money(used.cost)}


def provenance(run_view: RunView) -> dict[str, str]:
    """Who answered, over what, and when: in words, by name; what is not known is left out."""
    policy = run_view.settings.policy
    told = {
        "agent": method_name(run_view),
        "model": "none: the offline policy, which quotes" if policy == OFFLINE else policy,
        "collection": run_view.started.collection,
        "asked": when(run_view.started.ts),
        "run": run_view.started.run_id,
    }
    return {name: value for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class RunTable:
    """How several answers were made, beside each other: all in words."""

    shared: dict[str, str]
    """What holds for each of them, by name."""
    columns: tuple[str, ...]
    """Names of all else."""
    rows: tuple[tuple[str, ...], ...]
    """One for each answer; a dash where something is not known."""
    together: tuple[str, ...]
    """The same columns of all together; empty where there is no sum, or only one answer."""

    @classmethod
    def of(cls, stories: Sequence[RunView]) -> RunTable:
        """Of one run or more."""
        facts = [provenance(run_view) for run_view in stories]
        shared = dict(set(facts[0].items()).intersection(*(fact.items() for fact in facts)))
        figures = [RunCost.of([run_view]).figures for run_view in stories]
        total = RunCost.of(stories).figures
        rest = dict.fromkeys(name for fact in facts for name in fact if name not in shared)
        columns = (*total, *rest)
        return cls(
            {name: value for name, value in facts[0].items() if name in shared},
            columns,
            tuple(_row(columns, fact | figure) for fact, figure in zip(facts, figures, strict=True)),
            tuple(total.get(name, "") for name in columns) if len(stories) > 1 else (),
        )


def _row(columns: Sequence[str], facts: dict[str, str]) -> tuple[str, ...]:
    return tuple(facts.get(name, "–") for name in columns)
