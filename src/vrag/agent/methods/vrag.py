"""VRAG: think, then search, look closer or answer (VRAG-RL, arXiv 2505.22019).

The history only grows: what the model was shown stays in its sight. Pictures are numbered in the order shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from vrag.agent.actions import (
    Action,
    ActionRejected,
    Answer,
    Crop,
    Extend,
    Invalid,
    Search,
    Select,
    Turn,
    parse,
)
from vrag.agent.environment import Environment
from vrag.agent.events import (
    ActionRequested,
    ActionReturned,
    CropRequested,
    SearchRequested,
    SearchReturned,
)
from vrag.agent.evidence import EvidenceCandidate, passage_evidence, picture_evidence, select_evidence
from vrag.agent.method import ActionOutcome, Context
from vrag.agent.methods.conversation import half_of, question_parts, shortened
from vrag.agent.policy import EnclosedImage, Message, Part, Picture, Policy, Role, Shown, Text
from vrag.agent.prompts import box_words, prompt, with_question, worded
from vrag.agent.question import Question
from vrag.agent.replies.sanitize import spoken
from vrag.agent.replies.tag_repair import read_tags
from vrag.agent.runs.event_log import EventLog
from vrag.errors import CollectionError, SearchError
from vrag.types import Item

_SELECT = "select"
"""The action by which UniDoc-RL takes one of the pages that a search has shown."""
_PASSAGE_LABEL_CHARS = 40
"""Characters of a passage that serve as its label, since it has no number."""
_PAGE_NUMBER = re.compile(r"\d{1,4}")
_MAX_ITEMS = 10
"""Items of a custom tool that are shown at once: as many as a search may show."""
_MAX_TOOL_RESULT_TOKENS = 4096
"""Visual tokens that they may take together."""

__all__ = ["VragEpisode", "VragMethod", "opening"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VragMethod:
    """The method VRAG: one growing conversation."""

    name: ClassVar[str] = "vrag"
    title: ClassVar[str] = "VRAG"
    description: ClassVar[str] = "one conversation"
    steps: ClassVar[int] = 10
    hits: ClassVar[int] = 10

    instruction: str | None = None
    """The user's own wording, in place of ours; released checkpoints know the one they were trained on."""
    reselect: bool = False
    """True if the model is asked which of its evidence counts before the answer is given."""
    repair: bool = True
    """True if replies that break the grammar are read where their meaning is clear."""
    memory: None = field(default=None, init=False)

    def offline_policy(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive import ExtractivePolicy

        return ExtractivePolicy(environment.searcher, environment.profile)

    def begin(self, environment: Environment, question: str | Question) -> VragEpisode:
        """Return a new run: nothing searched, nothing shown but what came with the question; see `Method`."""
        own = self.instruction or environment.profile.instruction
        pending = opening(own, environment.profile.prompt, environment, question)
        return VragEpisode(environment, self.reselect, pending, repair=self.repair)


def opening(own: str | None, file: str, environment: Environment, question: str | Question) -> list[Part]:
    """Return the first message: the instruction with the custom tools, and the question.

    An instruction with `{question}` in it has the question there, and is the end of the message.

    Args:
        own: The user's wording of the instruction, or the checkpoint's; None for ours.
        file: The prompt file with ours.
        environment: It has the custom tools, and the profile.
        question: What is asked.

    Raises:
        ValueError: If the question is empty.
    """
    usages = "".join(
        "\n" + prompt("extension.md", name=extension.name, usage=extension.usage)
        for extension in environment.extensions.values()
    )
    instruction = worded(own, file, actions=usages, profile=environment.profile)
    asked = Question.of(question)
    *before, last = question_parts(asked, environment)
    if (whole := with_question(instruction, asked.text)) is None:
        return [Text(instruction), *before, last]
    return [*before[:-1], Text(whole, asked=asked)]  # what comes before the question ends with words about it


@dataclass(slots=True)
class VragEpisode:
    """The state of one run: the conversation, and what was shown in it."""

    environment: Environment
    reselect: bool
    pending: list[Part]
    """The parts of the next message."""
    repair: bool = True
    """As of the method."""
    history: list[Message] = field(default_factory=list[Message])
    seen: list[str] = field(default_factory=list[str])
    """Ids of the items shown by searches and custom tools, in order."""
    items: dict[str, Item] = field(default_factory=dict[str, "Item"])
    """By id, what was opened."""
    pictures: list[Picture] = field(default_factory=list[Picture])
    fresh: tuple[Picture, ...] = ()
    candidates: list[str] = field(default_factory=list[str])
    """Ids of the pages of the last search, where the model selects one of them."""
    standing: Answer | None = None
    """The answer given last; it is that of the run, unless another takes its place."""
    candidates_at_answer: list[EvidenceCandidate] = field(default_factory=list[EvidenceCandidate])
    """All that could be its evidence when it was given."""
    asking: bool = False
    """True if the model is being asked which evidence counts."""
    chosen: tuple[EvidenceCandidate, ...] | None = None
    """The evidence that it chose; None where it was not asked, or did not choose."""

    def prepare(self, log: EventLog) -> None:
        """Nothing: the model says what is searched."""

    def context(self, *, last: bool) -> Context:
        """Return the conversation so far; see `Episode`."""
        if self.pending:
            *observed, end = self.pending
            urge = self._urge(last)
            is_first_message = not self.history
            parts = [*observed, *urge, end] if is_first_message else [*observed, end, *urge]
            self.history.append(Message(Role.USER, tuple(parts)))
            self.fresh = tuple(part for part in parts if isinstance(part, Picture))
            self.pending = []
        return Context(tuple(self.history), fresh=self.fresh)

    def _urge(self, last: bool) -> list[Part]:
        """Return the request to answer now, where it is due."""
        if self.asking:
            return [] if last else [Text(prompt("reselect_or_search.md"))]
        return [Text(self.environment.profile.answer_now or prompt("answer_now.md"))] if last else []

    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Action]:
        """Take a reply apart; see `Episode`."""
        names = frozenset(self.environment.extensions)
        if self.environment.profile.candidates:
            names |= {_SELECT}
        return self._read(reply, names, last=last, cut=cut)

    def _read(
        self,
        reply: str,
        names: frozenset[str],
        without: frozenset[str] = frozenset(),
        *,
        last: bool,
        cut: bool,
    ) -> Turn[Action]:
        """Return a reply in the grammar of the method; what is said of the evidence is never repaired."""
        if self.asking or not self.repair:
            return parse(reply, names, selecting=self.asking, without=without)
        return read_tags(reply, names, without=without, last=last, cut=cut)

    def announce(self, turn: Turn[Action], log: EventLog) -> None:
        """Say what is about to be done."""
        match turn.action:
            case Search(query):
                log.add(SearchRequested, query=query)
            case Crop(box, image):
                log.add(CropRequested, image=image, box=box)
            case Extend(name, text):
                log.add(ActionRequested, name=name, text=text)
            case _:
                pass

    def step(self, turn: Turn[Action], log: EventLog, *, more: bool) -> ActionOutcome:
        """Do it; see `Episode`."""
        self.history.append(Message(Role.ASSISTANT, (Text(spoken(turn.executed)),)))
        asking, self.asking = self.asking, False
        match turn.action:
            case Answer() as answer:
                return self._answer(answer, ask=more and not asking)
            case Select(numbers) if asking:
                self.chosen = select_evidence(self.candidates_at_answer, numbers)
                return ActionOutcome(self.standing)
            case Invalid() if asking:
                return ActionOutcome(self.standing)
            case action:
                return self._act(action, log)

    def shorten(self, *, last: bool) -> tuple[str, ...]:
        """Take the older half of the pictures out of sight, those of the question last; see `Episode`."""
        parts = [part for message in self.history for part in message.parts]
        shown = [part for part in parts if isinstance(part, Picture)]
        pictures = shown or [part for part in parts if isinstance(part, EnclosedImage)]
        dropped = pictures[: half_of(len(pictures))]
        if dropped:
            self.history = shortened(self.history, dropped, self._urge(last))
            self.fresh = tuple(picture for picture in self.fresh if picture not in dropped)
        return tuple(_name_of(picture) for picture in dropped)

    def conclude(self, log: EventLog) -> ActionOutcome:  # noqa: ARG002 - nothing changes by it
        """Give the answer given last; see `Episode`."""
        return ActionOutcome(self.standing)

    def evidence(self, answer: str | None) -> Sequence[EvidenceCandidate]:
        """Return crops, the last first, then pages and passages, those with the literal answer first."""
        if self.chosen is not None:
            return self.chosen
        seen = self._candidates() if self.standing is None else self.candidates_at_answer
        text = {candidate.evidence.item: self.items[candidate.evidence.item].text for candidate in seen}
        whole = [candidate for candidate in seen if not (candidate.picture and candidate.picture.crop)]
        whole.sort(key=lambda candidate: answer is None or answer not in text[candidate.evidence.item])
        return [candidate for candidate in seen if candidate.picture and candidate.picture.crop] + whole

    def _answer(self, answer: Answer, *, ask: bool) -> ActionOutcome:
        listed = self._candidates()
        self.standing, self.candidates_at_answer = answer, listed
        if not (ask and self.reselect and len(listed) > 1 and not answer.abstains):
            return ActionOutcome(answer)
        self.asking = True
        lines = (f"{number}. {candidate.label}" for number, candidate in enumerate(listed, 1))
        self.pending = [Text(prompt("reselect.md", listed="\n".join(lines)))]
        return ActionOutcome()

    def _act(self, action: Action | Invalid, log: EventLog) -> ActionOutcome:
        try:
            match action:
                case Search(query):
                    self._search(query, log)
                case Crop():
                    self._crop(action, log)
                case Extend(name, text) if name == _SELECT and self.environment.profile.candidates:
                    self._select(text, log)
                case Extend():
                    self._extend(action, log)
                case _:
                    assert isinstance(action, Invalid)
                    raise ActionRejected(action.reason)  # noqa: TRY301 - like what is found to be wrong later
        except ActionRejected as error:
            reason = self.environment.material(log.reject(str(error)))
            self.pending = [Text(self._refusal(reason))]
            return ActionOutcome(refused=True)
        return ActionOutcome()

    def _refusal(self, reason: str) -> str:
        """Return the message about a reply that was not carried out."""
        return prompt("invalid.md", reason=reason, **box_words(self.environment.profile))

    def _nothing_new(self) -> str:
        """Return the message about a search that found only items that were shown before."""
        return prompt("nothing_new.md")

    def _search(self, query: str, log: EventLog) -> None:
        found = self.environment.search(query)
        most = max(self.environment.options.show, self.environment.profile.candidates)
        shown, damaged = self._first_new([hit.item for hit in found], most)
        log.add(SearchReturned, hits=tuple(found), damaged=tuple(damaged))
        nothing = self._nothing_new() if found else prompt("nothing_found.md")
        shown_parts = self._tell(shown, log)
        if self.environment.profile.candidates:
            self.candidates = [part.item for part in shown if isinstance(part, Picture)]
            shown_parts = _numbered(shown_parts)
        self.pending = shown_parts or [Text(nothing)]

    def _select(self, text: str, log: EventLog) -> None:
        """Show a page of the last search once more, alone: the next box is on it."""
        if not self.candidates:
            raise ActionRejected("no pages to select from have been shown; search first")
        if not _PAGE_NUMBER.fullmatch(text) or int(text) >= len(self.candidates):
            last = len(self.candidates) - 1
            raise ActionRejected(f"select takes the number of a page of the last search, 0 to {last}")
        id = self.candidates[int(text)]
        try:
            shown = self._open(id, len(self.pictures) + 1)
        except (SearchError, CollectionError) as error:
            self.environment.unopened(error)
            raise ActionRejected("that page can no longer be opened") from error
        log.add(ActionReturned, items=(id,), texts=())
        self.pending = self._tell([shown], log)

    def _extend(self, action: Extend, log: EventLog) -> None:
        found, unknown = self.environment.extend(action, self.seen)
        shown, damaged = self._open_within_limits(found.items)
        log.add(ActionReturned, items=found.items, texts=found.texts, damaged=(*unknown, *damaged))
        shown_parts: list[Part] = [self._passage(text) for text in found.texts]
        self.pending = shown_parts + self._tell(shown, log) or [Text(prompt("nothing_found.md"))]

    def _crop(self, action: Crop, log: EventLog) -> None:
        if not self.pictures:
            raise ActionRejected("no picture has been shown yet; search first")
        number = action.image or len(self.pictures)
        if number > len(self.pictures):
            raise ActionRejected(f"there is no picture {number}; {len(self.pictures)} were shown")
        source = self.pictures[number - 1]
        region = self.environment.region(source.view, action.box)
        if isinstance(region, str):
            raise ActionRejected(region)
        try:
            picture = self.environment.closer(source.item, source.view, region, number=len(self.pictures) + 1)
        except (SearchError, CollectionError) as error:
            self.environment.unopened(error)
            raise ActionRejected("that picture can no longer be opened") from error
        self.pending = self._tell([picture], log)

    def _open_within_limits(self, items: Sequence[str]) -> tuple[list[Shown], list[str]]:
        """Return the items, shown before or not, as far as there is room, and why others are not shown."""
        shown: list[Shown] = []
        damaged: list[str] = []
        room = _MAX_TOOL_RESULT_TOKENS
        for id in items:
            try:
                tokens = 0 if len(shown) == _MAX_ITEMS else self._cost(id)
                if len(shown) == _MAX_ITEMS or (shown and tokens > room):
                    damaged.append(f"{id} is not shown: there is no room for it.")
                    continue
                shown.append(self._open(id, len(self.pictures) + 1 + _pictures(shown)))
            except (SearchError, CollectionError) as error:
                damaged.append(self.environment.unopened(error))
            else:
                room -= tokens
        return shown, damaged

    def _cost(self, id: str) -> int:
        """Visual tokens of an item."""
        item = self.environment.item(id)
        if item.size is None:
            return 0
        return self.environment.profile.visual_tokens(self.environment.shown_size(item))

    def _first_new(self, items: Iterable[str], most: int) -> tuple[list[Shown], list[str]]:
        """Return the first items that were not shown yet, and why others could not be opened."""
        shown: list[Shown] = []
        damaged: list[str] = []
        for id in items:
            if len(shown) < most and id not in self.seen:
                try:
                    shown.append(self._open(id, len(self.pictures) + 1 + _pictures(shown)))
                except (SearchError, CollectionError) as error:
                    damaged.append(self.environment.unopened(error))
        return shown, damaged

    def _open(self, id: str, number: int) -> Shown:
        item = self.items[id] = self.environment.item(id)
        if item.size is None:
            return self._passage(item.text, id)
        return self.environment.whole(item, number=number)

    def _passage(self, text: str, item: str | None = None) -> Text:
        return Text(prompt("passage.md", text=self.environment.material(text)), item)

    def _tell(self, shown: Sequence[Shown], log: EventLog) -> list[Part]:
        """Return the message about opened items, and add their events."""
        shown_parts: list[Part] = []
        for part in shown:
            assert part.item is not None
            item = self.items[part.item]
            if isinstance(part, Picture):
                self.pictures.append(part)
                log.add_image(part, item, self._tokens(part), label=f"Image {part.number}")
                if self.environment.profile.labelled:
                    shown_parts.append(Text(prompt("shown.md", number=part.number)))
            else:
                log.add_passage(item)
            shown_parts.append(part)
            if not (isinstance(part, Picture) and part.crop) and item.id not in self.seen:
                self.seen.append(item.id)
        return shown_parts

    def _tokens(self, picture: Picture) -> int:
        return self.environment.profile.visual_tokens(picture.view.canvas)

    def _candidates(self) -> list[EvidenceCandidate]:
        """Return all candidates: crops, the last first, then pages and passages in the order shown."""
        items = self.items
        crops = [
            picture_evidence(picture, items[picture.item], f"Image {picture.number}")
            for picture in reversed(self.pictures)
            if picture.crop
        ]
        pages = {picture.item: picture for picture in self.pictures if not picture.crop}
        whole = [
            picture_evidence(pages[id], items[id], f"Image {pages[id].number}")
            if id in pages
            else passage_evidence(
                items[id],
                f"The passage “{self.environment.material(items[id].text[:_PASSAGE_LABEL_CHARS])} …”",
            )
            for id in self.seen
        ]
        return crops + whole


def _numbered(parts: Sequence[Part]) -> list[Part]:
    """Return each picture after its number, from 0, as UniDoc-RL names the pages of a search."""
    shown_parts: list[Part] = []
    for part in parts:
        if isinstance(part, Picture):
            shown_parts.append(Text(prompt("shown.md", number=_pictures(shown_parts))))
        shown_parts.append(part)
    return shown_parts


def _name_of(picture: Picture | EnclosedImage) -> str:
    return f"Image {picture.number}" if isinstance(picture, Picture) else "a picture of the question"


def _pictures(parts: Iterable[Part]) -> int:
    return sum(isinstance(part, Picture) for part in parts)
