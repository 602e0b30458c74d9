"""The policy without a model: search, crop to the words that answer, quote them, or abstain.

It speaks the same grammar through the same environment as a model would. What it answers is a
quotation, not reading comprehension: questions that need counting, colours, arithmetic or a look
at a chart are beyond it, and it is made to abstain rather than guess.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.actions import ABSTENTION, TAG, Action, Answer, Crop, Search, parse, render
from vrag.agent.extractive import SelectedAnswer, best_quote, completed, search_query
from vrag.agent.policy import Delta, Message, Part, Picture, Reply, Role, Text
from vrag.agent.prompts import prompt
from vrag.geometry import Box, Space
from vrag.model_profiles import Profile
from vrag.types import Item

if TYPE_CHECKING:
    from vrag.search.searcher import Searcher

__all__ = [
    "ExtractivePolicy",
    "ExtractiveReader",
    "OfflinePolicy",
    "ResolvedQuestion",
    "without_tags",
    "written_box",
]


@dataclass(frozen=True, slots=True)
class OfflinePolicy(ABC):
    """The base of the policies without a model, one for each grammar."""

    searcher: Searcher
    """The source of the words of the pages shown."""
    profile: Profile
    """Of the environment: it says how boxes are written."""

    @property
    def name(self) -> str:
        """The name in run files and on the command line."""
        return "extractive"

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """Nothing: it does not sample."""
        return {}

    async def reply(
        self,
        history: Sequence[Message],
        turn: int = 1,  # noqa: ARG002 - the history tells all
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Decide from what was shown so far; the same history gives the same reply."""
        thought, action = self._decide(history)
        text = f"<think>{without_tags(thought)}</think>\n{action}"
        yield Delta(text)
        yield Reply(text)

    @abstractmethod
    def _decide(self, history: Sequence[Message]) -> tuple[str, str]:
        """Return the thought and the action, rendered in the grammar."""

    async def aclose(self) -> None:  # noqa: B027 - optional: none of them holds resources
        """Do nothing: no resources are held."""


@dataclass(frozen=True, slots=True)
class ResolvedQuestion:
    """A question as the policies without a model take it."""

    text: str
    """The question, completed from earlier questions; earlier answers are not used."""
    remark: str
    """Remark for the first thought about the completion and about ignored images; empty, or sentences that
    end with a space."""

    @classmethod
    def of(cls, history: Sequence[Message]) -> ResolvedQuestion:
        """Find the question of a history, which stands in the first message of the user."""
        parts = (part for message in history for part in message.parts)
        asked = next(part.asked for part in parts if isinstance(part, Text) and part.asked is not None)
        whole = completed(asked.text, [previous_turn.question for previous_turn in asked.history])
        remarks = [f"As it follows on the question before, it means: {whole} "] if whole != asked.text else []
        if asked.images:
            remarks.append("The pictures that came with the question cannot be looked at without a model. ")
        return cls(whole, "".join(remarks))


@dataclass(frozen=True, slots=True)
class ExtractivePolicy(OfflinePolicy):
    """A policy that looks at the best few pages and quotes the words that answer.

    It crops to what comes nearest even when it then abstains: people see where it looked.
    """

    looks: int = 3
    """Pages to look at before deciding."""
    crops: bool = True
    """True if it may look closer; ReAct may not."""

    def _decide(self, history: Sequence[Message]) -> tuple[str, str]:
        thought, action = self._next_action(_RunSummary.of(history))
        return thought, render(action)

    def _next_action(self, summary: _RunSummary) -> tuple[str, Action]:
        query = without_tags(search_query(summary.question)) or summary.question
        if not summary.searches:
            return f"{summary.remark}The words worth looking for: {query}", Search(query)
        fresh = summary.last_turn_showed_something
        if not summary.crops and fresh and summary.searches < self.looks and not summary.must_answer:
            return "One page may not be enough; another look at what else was found.", Search(query)
        items = [self.searcher.item(item) for item in summary.items]
        if self.crops and not summary.crops and not summary.must_answer:
            nearest = best_quote(summary.question, items, threshold=0)
            if nearest and nearest.box:
                return self._look_closer(nearest, summary)
        return _quoted(summary.question, items)

    def _look_closer(self, quote: SelectedAnswer, summary: _RunSummary) -> tuple[str, Action]:
        picture = next(p for p in summary.pictures if p.item == quote.item and not p.crop)
        assert quote.box is not None
        thought = f"Image {picture.number} comes nearest here: {quote.text[:200]}"
        return thought, Crop(written_box(quote.box, picture, self.profile), picture.number)


@dataclass(frozen=True, slots=True)
class ExtractiveReader(OfflinePolicy):
    """A policy for RAG that quotes the words that answer from the pages shown with the question."""

    def _decide(self, history: Sequence[Message]) -> tuple[str, str]:
        resolved = ResolvedQuestion.of(history)
        shown = _items_shown([part for message in history for part in message.parts])
        thought, answer = _quoted(resolved.text, [self.searcher.item(item) for item in shown])
        return resolved.remark + thought, render(answer)


def _quoted(question: str, items: Sequence[Item]) -> tuple[str, Answer]:
    """Quote the words of some items that answer best, or abstain; returns a thought and the answer."""
    quote = best_quote(question, items)
    if quote is None:
        return "No text on the pages shown answers the question well enough to quote.", Answer(ABSTENTION)
    if not quote.literal:
        thought = "The question needs counting, looking or calculating; a quotation cannot answer it."
        return thought, Answer(ABSTENTION)
    return "These words answer it best.", Answer(without_tags(quote.text) or ABSTENTION)


@dataclass(frozen=True, slots=True)
class _RunSummary:
    """The state of a run, as its history tells."""

    question: str
    remark: str
    searches: int
    crops: int
    items: tuple[str, ...]
    pictures: tuple[Picture, ...]
    last_turn_showed_something: bool
    must_answer: bool

    @classmethod
    def of(cls, history: Sequence[Message]) -> _RunSummary:
        actions = [parse(message.text).action for message in history if message.role is Role.ASSISTANT]
        observations = [message for message in history[1:] if message.role is Role.USER]
        parts = [part for message in observations for part in message.parts]
        resolved = ResolvedQuestion.of(history)
        return cls(
            question=resolved.text,
            remark=resolved.remark,
            searches=sum(isinstance(action, Search) for action in actions),
            crops=sum(isinstance(action, Crop) for action in actions),
            items=tuple(_items_shown(parts)),
            pictures=tuple(part for part in parts if isinstance(part, Picture)),
            last_turn_showed_something=bool(observations)
            and bool(list(_items_shown(observations[-1].parts))),
            must_answer=bool(observations) and Text(prompt("answer_now.md")) in observations[-1].parts,
        )


def written_box(box: Box, picture: Picture, profile: Profile) -> tuple[float, float, float, float]:
    """Return a box in unit coordinates, as a model of that family would write it for a picture."""
    written = picture.view.convert(box, profile.boxes)
    if profile.boxes is not Space.RELATIVE:  # in whole numbers, as models write them
        written = written.round_out()
    return profile.sides(written)


def _items_shown(parts: Sequence[Part]) -> list[str]:
    pages = [
        part.item for part in parts if isinstance(part, Text) or (isinstance(part, Picture) and not part.crop)
    ]
    return [item for item in pages if item is not None]


def without_tags(text: str) -> str:
    """Replace the brackets of grammar tags, so that no page can write in the grammar."""
    return TAG.sub(lambda tag: f"‹{tag[0][1:-1]}›", text).strip()
