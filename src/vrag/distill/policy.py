"""The experts as a policy: the decisions of planner and grounder become turns in the grammar.

So a sample is an ordinary run, carried out by the one environment and recorded as any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vrag.agent.actions import Answer, Crop
from vrag.agent.policy import Delta, Message, Picture, Reply, Retry, Tokens
from vrag.agent.prompts import box_words
from vrag.background import run_in_thread
from vrag.distill.expert_messages import (
    ExpertView,
    PlannerReply,
    UnusableReplyError,
    box_sides,
    cited_images,
    feasible,
    pictures_in,
    read_box,
    read_plan,
    seen_by,
    write_turn,
)
from vrag.distill.experts import Expert, Experts, consult, prompt
from vrag.distill.sample_store import ExpertUsage
from vrag.geometry import Box
from vrag.model_profiles import Profile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExpertPolicy:
    """Planner and grounder of one run; it counts what they cost, so each run has its own.

    The planner decides a thought and an action. Where that is a box, the grounder predicts it again, from
    the history and the thought, and its box replaces the planner's (VRAG-RL, arXiv 2505.22019).
    """

    experts: Experts
    learner: Profile
    """The family of the model that learns: of the environment's images and of the boxes in the run."""
    steps: int
    """Turns of the run; at the last one the planner must answer."""
    usage: dict[str, ExpertUsage] = field(default_factory=dict[str, ExpertUsage])
    """The calls of each expert, by its role."""
    name: str = "experts"
    expert_views: dict[str, ExpertView] = field(default_factory=dict[str, ExpertView])
    """This run as each family sees it, by the name of the family."""

    @property
    def sampling(self) -> dict[str, float | int | str | bool]:
        """The names of the experts, and their families."""
        known: dict[str, float | int | str | bool] = {}
        for expert in self.experts.all:
            known |= {expert.role: expert.model.name, f"{expert.role}_profile": expert.profile.name}
        return known

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        """Ask the experts for the next turn; see `Policy.reply`. Failed and unusable replies are retries.

        Raises `ModelError` if an expert sends no usable reply.
        """
        prompts, completions = self._count_tokens()
        retries: asyncio.Queue[Retry | None] = asyncio.Queue()

        async def decide() -> str:
            plan = await self._plan(history, turn >= self.steps, retries.put_nowait)
            action = plan.action
            if isinstance(action, Crop):
                action = await self._locate(plan.thought, action, history, retries.put_nowait)
            return write_turn(plan.thought, action)

        deciding = asyncio.create_task(decide())
        deciding.add_done_callback(lambda _: retries.put_nowait(None))
        try:
            while (retry := await retries.get()) is not None:
                yield retry
            text = await deciding
        finally:
            deciding.cancel()
            await asyncio.gather(deciding, return_exceptions=True)
        yield Delta(text)
        all_prompts, all_completions = self._count_tokens()
        tokens = Tokens(prompt=all_prompts - prompts, completion=all_completions - completions)
        yield Reply(text, tokens=tokens)

    async def aclose(self) -> None:
        """Do nothing: the caller closes the experts."""

    async def _plan(
        self, history: Sequence[Message], last: bool, report: Callable[[Retry], None]
    ) -> PlannerReply:
        planner, pictures = self.experts.planner, pictures_in(history)
        system = prompt("planner.md", **box_words(planner.profile))
        request = prompt("planner_last.md" if last else "planner_turn.md")

        def read(text: str) -> PlannerReply:
            plan = read_plan(text)
            if last and not isinstance(plan.action, Answer):
                raise UnusableReplyError("This was the last turn, and there is no answer in it.")
            if isinstance(plan.action, Answer):
                _check_citations(plan.action, len(pictures))
            if isinstance(plan.action, Crop):
                picture = _find_picture(plan.action, pictures)
                if self.experts.grounder is None:
                    feasible(plan.action.box, seen_by(picture.view, planner.profile), planner.profile)
            return plan

        return await self._consult(planner, history, (system, request), read, report)

    async def _locate(
        self, thought: str, crop: Crop, history: Sequence[Message], report: Callable[[Retry], None]
    ) -> Crop:
        """Return the crop for the learner, with the box of the grounder, or else of the planner."""
        pictures = pictures_in(history)
        picture = _find_picture(crop, pictures)
        expert = self.experts.grounder or self.experts.planner
        view = seen_by(picture.view, expert.profile)

        def for_learner(box: Box) -> Crop:
            return Crop(box_sides(box, picture.view, self.learner), crop.image)

        if self.experts.grounder is None:
            return for_learner(feasible(crop.box, view, expert.profile))
        system = prompt("grounder.md", **box_words(expert.profile))
        number, sides = crop.image or len(pictures), expert.profile.written_sides
        request = prompt("grounder_turn.md", thought=thought, number=number, sides=sides)

        def read(text: str) -> Crop:
            return for_learner(feasible(read_box(text), view, expert.profile))

        return await self._consult(expert, history, (system, request), read, report)

    async def _consult(
        self,
        expert: Expert,
        history: Sequence[Message],
        prompts: tuple[str, str],
        read: Callable[[str], T],
        report: Callable[[Retry], None],
    ) -> T:
        family = expert.profile
        expert_view = self.expert_views.setdefault(family.name, ExpertView(self.learner, family))
        messages = await run_in_thread(lambda: expert_view.conversation(history, *prompts))
        usage = self.usage.setdefault(expert.role, ExpertUsage(model=expert.model.name))
        return await consult(expert, messages, read, usage, report)

    def _count_tokens(self) -> tuple[int, int]:
        """Count the tokens of all prompts and of all replies so far."""
        used = self.usage.values()
        return sum(usage.prompt_tokens for usage in used), sum(usage.completion_tokens for usage in used)


def _check_citations(answer: Answer, shown: int) -> None:
    """Raise `UnusableReplyError` if an answer cites none of the images shown: learners are told to cite."""
    if shown and not answer.abstains and not cited_images(answer.text, shown):
        raise UnusableReplyError(
            "The answer cites no image: after each statement, write the number of the image that shows it in "
            "brackets, as [1]."
        )


def _find_picture(crop: Crop, pictures: Sequence[Picture]) -> Picture:
    """Return the image of a crop; raise `UnusableReplyError` if there is none."""
    if not pictures:
        raise UnusableReplyError("No picture has been shown yet; search first.")
    number = crop.image or len(pictures)
    if number > len(pictures):
        raise UnusableReplyError(f"There is no picture {number}; {len(pictures)} were shown.")
    return pictures[number - 1]
