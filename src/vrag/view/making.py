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
    from collections.abc import Iterable

    from vrag.view.story import Story

__all__ = ["Making", "method_name", "provenance"]

METHODS = {"vrag": "VRAG", "vimrag": "VimRAG"}


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
