"""How an answer was made, in words: by which agent and model, over what, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from vrag.agent.events import SearchRequested
from vrag.agent.trajectory import Usage
from vrag.view.outcome import OFFLINE
from vrag.view.wording import amount, money, seconds, when

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.view.story import Story

__all__ = ["Making", "Table", "method_name", "provenance"]

METHODS = {"vrag": "VRAG", "vimrag": "VimRAG", "rag": "RAG", "react": "ReAct"}


def method_name(story: Story) -> str:
    """What the agent of a run is called."""
    return METHODS.get(story.settings.agent, story.settings.agent)


@dataclass(frozen=True, slots=True)
class Making:
    """What it took to answer a question, or several."""

    steps: int
    searches: int
    usage: Usage
    seconds: float
    """Of one run from its first event to its last; of several, added up."""

    @classmethod
    def of(cls, stories: Iterable[Story]) -> Making:
        """Of all these runs together."""
        told = list(stories)
        usages = (chapter.usage for story in told for chapter in story.chapters if chapter.usage)
        return cls(
            steps=sum(len(story.chapters) for story in told),
            searches=sum(len(story.all(SearchRequested)) for story in told),
            usage=reduce(Usage.plus, usages, Usage()),
            seconds=sum(story.seconds for story in told),
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


def provenance(story: Story) -> dict[str, str]:
    """Who answered, over what, and when: in words, by name; what is not known is left out."""
    policy = story.settings.policy
    told = {
        "agent": method_name(story),
        "model": "none: the offline policy, which quotes" if policy == OFFLINE else policy,
        "collection": story.started.collection,
        "asked": when(story.started.ts),
        "run": story.started.run_id,
    }
    return {name: value for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class Table:
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
    def of(cls, stories: Sequence[Story]) -> Table:
        """Of one run or more."""
        facts = [provenance(story) for story in stories]
        shared = dict(set(facts[0].items()).intersection(*(fact.items() for fact in facts)))
        figures = [Making.of([story]).figures for story in stories]
        total = Making.of(stories).figures
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
