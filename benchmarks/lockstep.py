"""Rollouts as a batch loop makes them: a turn of all, then the next turn of all. What to compare with.

So does the reference, in its trainer: the replies of all trajectories that still go on are generated together
and awaited together, their searches are one call, then each is acted upon, and only then does the next turn
begin. Model, environment, grammar and pictures are ours in both, and acting is done in threads where the
reference does one after the other: all that differs is who waits for whom.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vrag.agent.actions import Search
from vrag.agent.environment import Environment
from vrag.agent.events import ImageShown
from vrag.agent.policy import Reply
from vrag.agent.question import Question
from vrag.agent.runs.event_log import EventLog
from vrag.background import run_in_thread
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vrag.agent.method import AgentEpisode
    from vrag.agent.methods.vrag import VragMethod
    from vrag.agent.policy import Policy
    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.search.searcher import Searcher
    from vrag.types import Hit, Item

__all__ = ["Lane", "LockStep"]


@dataclass
class Lane:
    """One trajectory of a batch."""

    question: str
    episode: AgentEpisode
    record: EventLog
    turn: Any = None
    """What its model asked for last."""
    answer: str | None = None
    events: list[Any] = field(default_factory=list[Any])

    @property
    def shown(self) -> list[str]:
        """Hashes of the pictures that it was shown, in order."""
        return [event.sha256 for event in self.events if isinstance(event, ImageShown)]

    async def generate(self, policy: Policy, *, last: bool) -> None:
        """One reply of the model."""
        self.record.step += 1
        async with aclosing(
            policy.reply(self.episode.context(last=last).messages, self.record.step)
        ) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    assert part.sampled.ids, "tokens were asked for"
                    self.turn = self.episode.parse(part.text)

    def act(self, *, more: bool) -> None:
        """Carries out what it asked for."""
        outcome = self.episode.step(self.turn, self.record, more=more)
        self.events += self.record.drain()
        if outcome.answer is not None:
            self.answer = outcome.answer.text


class LockStep:
    """Makes the rollouts of a batch, turn by turn.

    Args:
        policy: The model.
        environment: The same as that of the other side.
        method: Likewise.
    """

    def __init__(self, policy: Policy, environment: Environment, method: VragMethod) -> None:
        self._policy, self._method = policy, method
        self._found = _Found(environment.searcher)
        self._environment = replace(environment, searcher=self._found)

    async def batch(self, questions: Sequence[str]) -> list[Lane]:
        """All of these to their end."""
        lanes = [self._lane(question) for question in questions]
        for step in range(1, self._method.steps + 1):
            active = [lane for lane in lanes if lane.answer is None]
            if not active:
                break
            more = step < self._method.steps
            await asyncio.gather(*(lane.generate(self._policy, last=not more) for lane in active))
            await run_in_thread(lambda asking=active: self._search(asking))
            await asyncio.gather(*(run_in_thread(lambda one=lane: one.act(more=more)) for lane in active))  # noqa: B023
        return lanes

    def _lane(self, question: str) -> Lane:
        episode = self._method.begin(self._environment, Question(question))
        return Lane(question, episode, EventLog(question))

    def _search(self, lanes: Sequence[Lane]) -> None:
        """All searches of a turn in one call."""
        actions = [lane.turn.action for lane in lanes]
        queries = [action.query for action in actions if isinstance(action, Search)]
        self._found.ahead(queries, self._environment.options.hits)


class _Found:
    """A `Searcher` whose searches were made before."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._hits: dict[tuple[str, int], list[Hit]] = {}

    @property
    def version(self) -> str:
        """Of what searches."""
        return self._searcher.version

    def ahead(self, texts: Sequence[str], top_k: int) -> None:
        """Searches these in one call."""
        if texts:
            found = self._searcher.search([Query(text) for text in texts], top_k)
            self._hits = {(text, top_k): hits for text, hits in zip(texts, found, strict=True)}

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """What was found."""
        return [self._hits[query.text, top_k] for query in queries]

    def item(self, id: str) -> Item:
        """Of the collection."""
        return self._searcher.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Of the collection."""
        return self._searcher.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Of the collection."""
        return self._searcher.frames(id, fps=fps, most=most)

    def part(self, id: str, view: View) -> Image | None:
        """Of the collection."""
        return self._searcher.part(id, view)
