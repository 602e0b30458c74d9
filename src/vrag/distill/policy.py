"""The experts as a policy: what planner and grounder decide becomes a turn in the grammar.

So a sample is an ordinary run, carried out by the one environment and recorded as any other.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from vrag.agent.actions import Answer, Crop
from vrag.agent.background import run_in_thread
from vrag.agent.policy import Delta, Reply, Tokens
from vrag.agent.prompts import box_words
from vrag.distill.expert import Tally, Usable, consult
from vrag.distill.expert_prompt import ExpertView, box_sides, feasible, pictures_in, seen_by
from vrag.distill.json_extract import Unusable
from vrag.distill.planner_reply import read_box, read_plan, written
from vrag.distill.prompts import prompt

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from vrag.agent.policy import Message, Picture, Retry
    from vrag.distill.expert import Expert, Experts
    from vrag.distill.planner_reply import PlannerReply
    from vrag.geometry import Box
    from vrag.model_profiles import Profile

__all__ = ["ExpertPolicy"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExpertPolicy:
    """Planner and grounder of one run; it counts what they cost, so each run has its own.

    The planner decides a thought and an action. Where that is a box, the grounder predicts it again, from
    the history and the thought, and its box replaces the planner's (VRAG-RL, arXiv 2505.22019).
    """

    experts: Experts
    learner: Profile
    """The family of the model that learns: of the environment's pictures and of the boxes in the run."""
    steps: int
    """Turns of the run; at the last one the planner must answer."""
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict[str, Tally](Tally))
    """What was asked of each expert, by its role."""
    name: str = "experts"
    expert_views: dict[str, ExpertView] = field(default_factory=dict[str, ExpertView])
    """How each family is told this run, by its name."""

    @property
    def sampling(self) -> dict[str, float | int | str | bool]:
        """Who the experts are, and their families."""
        known: dict[str, float | int | str | bool] = {}
        for expert in self.experts.all:
            known |= {expert.role: expert.model.name, f"{expert.role}_profile": expert.profile.name}
        return known

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        """Asks the experts for the next turn; see `Policy.reply`. Failed and useless replies are retries.

        Raises:
            ModelError: If an expert sends nothing that can be used.
        """
        prompts, completions = self._tokens()
        plan: PlannerReply | None = None
        async with aclosing(self._planned(history, last=turn >= self.steps)) as parts:
            async for part in parts:
                if isinstance(part, Usable):
                    plan = part.value
                else:
                    yield part
        assert plan is not None
        action = plan.action
        if isinstance(action, Crop):
            async with aclosing(self._located(plan.thought, action, history)) as boxes:
                async for box in boxes:
                    if isinstance(box, Usable):
                        action = box.value
                    else:
                        yield box
        text = written(plan.thought, action)
        yield Delta(text)
        all_prompts, all_completions = self._tokens()
        yield Reply(
            text, tokens=Tokens(prompt=all_prompts - prompts, completion=all_completions - completions)
        )

    async def aclose(self) -> None:
        """Holds nothing: the experts belong to whoever made them."""

    async def _planned(
        self, history: Sequence[Message], *, last: bool
    ) -> AsyncGenerator[Retry | Usable[PlannerReply], None]:
        """What the planner wants."""
        planner, pictures = self.experts.planner, pictures_in(history)
        system = prompt("planner.md", **box_words(planner.profile))
        request = prompt("planner_last.md" if last else "planner_turn.md")

        def read(text: str) -> PlannerReply:
            plan = read_plan(text)
            if last and not isinstance(plan.action, Answer):
                raise Unusable("This was the last turn, and there is no answer in it.")
            if isinstance(plan.action, Crop):
                picture = _picture(plan.action, pictures)
                if self.experts.grounder is None:
                    feasible(plan.action.box, seen_by(picture.view, planner.profile), planner.profile)
            return plan

        async with aclosing(self._consult(planner, history, system, request, read)) as parts:
            async for part in parts:
                yield part

    async def _located(
        self, thought: str, crop: Crop, history: Sequence[Message]
    ) -> AsyncGenerator[Retry | Usable[Crop], None]:
        """The crop with the box of the grounder, or of the planner where there is none, for the learner."""
        pictures = pictures_in(history)
        picture = _picture(crop, pictures)
        expert = self.experts.grounder or self.experts.planner
        view = seen_by(picture.view, expert.profile)
        if self.experts.grounder is None:
            yield Usable(self._crop(feasible(crop.box, view, expert.profile), picture, crop))
            return
        system = prompt("grounder.md", **box_words(expert.profile))
        number, sides = crop.image or len(pictures), expert.profile.written_sides
        request = prompt("grounder_turn.md", thought=thought, number=number, sides=sides)

        def read(text: str) -> Crop:
            return self._crop(feasible(read_box(text), view, expert.profile), picture, crop)

        async with aclosing(self._consult(expert, history, system, request, read)) as parts:
            async for part in parts:
                yield part

    def _crop(self, box: Box, picture: Picture, crop: Crop) -> Crop:
        """A box in item pixels as the model that learns would write it."""
        return Crop(box_sides(box, picture.view, self.learner), crop.image)

    async def _consult(
        self,
        expert: Expert,
        history: Sequence[Message],
        system: str,
        request: str,
        read: Callable[[str], T],
    ) -> AsyncGenerator[Retry | Usable[T], None]:
        family = expert.profile
        expert_view = self.expert_views.setdefault(family.name, ExpertView(self.learner, family))
        told = await run_in_thread(lambda: expert_view.conversation(history, system, request))
        async with aclosing(consult(expert, told, read, self.tallies[expert.role])) as parts:
            async for part in parts:
                yield part

    def _tokens(self) -> tuple[int, int]:
        """Tokens of all prompts and all replies so far."""
        tallies = self.tallies.values()
        return sum(one.prompt_tokens for one in tallies), sum(one.completion_tokens for one in tallies)


def _picture(crop: Crop, pictures: Sequence[Picture]) -> Picture:
    """The picture that a crop is of.

    Raises:
        Unusable: If there is none.
    """
    if not pictures:
        raise Unusable("No picture has been shown yet; search first.")
    number = crop.image or len(pictures)
    if number > len(pictures):
        raise Unusable(f"There is no picture {number}; {len(pictures)} were shown.")
    return pictures[number - 1]
