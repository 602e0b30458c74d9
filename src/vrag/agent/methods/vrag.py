"""VRAG: think, then search, look closer or answer (VRAG-RL, arXiv 2505.22019).

The history only grows: what the model was shown stays in its sight. Pictures are numbered in the order shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from vrag.agent.actions import Action, ActionRejected, Answer, Crop, Search, Turn, UseTool, parse
from vrag.agent.environment import SELECT, Environment
from vrag.agent.events import ActionRequested, ActionReturned, CropRequested, SearchRequested, SearchReturned
from vrag.agent.evidence import EvidenceCandidate, passage_evidence, picture_evidence
from vrag.agent.method import ActionOutcome, AgentEpisode, Context, Method, count_to_drop, question_parts
from vrag.agent.policy import EnclosedImage, Message, Part, Picture, Policy, Role, Shown, Text
from vrag.agent.prompts import box_words, prompt, with_question, worded
from vrag.agent.question import Question
from vrag.agent.replies.answer_reader import AnswerReader
from vrag.agent.replies.tag_repair import read_tags
from vrag.agent.runs.event_log import EventLog
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, Size, View
from vrag.types import Hit, Item

_LABEL = re.compile(r"(?:(?P<picture>(?:image |picture )?)|text )(?P<number>\d{1,4})", re.IGNORECASE)
_PAGE_NUMBER = re.compile(r"\d{1,4}")
_MAX_ITEMS = 10
"""Items of a custom tool that are shown at once: as many as a search may show."""
_MAX_TOOL_RESULT_TOKENS = 4096
"""Visual tokens that they may take together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VragMethod(Method):
    """The method VRAG: one growing conversation."""

    name: ClassVar[str] = "vrag"
    title: ClassVar[str] = "VRAG"
    description: ClassVar[str] = "one conversation"
    trainable: ClassVar[bool] = True
    follows_checkpoints: ClassVar[bool] = True
    memory: None = field(default=None, init=False)

    def policy_without_model(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive import ExtractivePolicy

        searcher, profile = environment.searcher, environment.profile
        show = environment.options.show
        return ExtractivePolicy(searcher, profile, show=show, text_reader=environment.text_reader)

    def begin(self, environment: Environment, question: str | Question) -> VragEpisode:
        """Return a new run: nothing searched, nothing shown but what came with the question; see `Method`."""
        own = self.instruction or environment.profile.instruction
        pending = opening(own, environment.profile.prompt, environment, question)
        return VragEpisode(
            environment=environment, reselect=self.reselect, repair=self.repair, pending=pending
        )


def opening(own: str | None, file: str, environment: Environment, question: str | Question) -> list[Part]:
    """Return the first message: the instruction with the custom tools, and the question.

    An instruction with `{question}` in it has the question there, and is the end of the message. `own` is the
    user's wording of the instruction, or the checkpoint's; None for the built-in one in the prompt `file`.
    Raises `ValueError` if the question is empty.
    """
    usages = "".join(
        "\n" + prompt("tool.md", name=tool.name, usage=tool.usage) for tool in environment.tools.values()
    )
    if environment.options.select and environment.profile.labelled:
        usages = "\n" + prompt("select.md") + usages
    instruction = worded(own, file, actions=usages, profile=environment.profile)
    asked = Question.of(question)
    *before, last = question_parts(asked, environment)
    if (whole := with_question(instruction, asked.text)) is None:
        return [Text(instruction), *before, last]
    return [*before[:-1], Text(whole, asked=asked)]  # what comes before the question ends with words about it


@dataclass(slots=True, kw_only=True)
class VragEpisode(AgentEpisode):
    """The state of one run: the conversation, and what was shown in it."""

    built_in_tags: ClassVar[frozenset[str]] = frozenset({"search", "bbox", "answer"})
    """The built-in actions that the model may take."""
    invalid_prompt: ClassVar[str] = "invalid.md"
    nothing_new_prompt: ClassVar[str] = "nothing_new.md"

    items: dict[str, Item] = field(default_factory=dict[str, "Item"])
    """The items that were opened, by id."""
    pictures: list[Picture] = field(default_factory=list[Picture])
    """All pictures of items shown, crops included."""
    texts: list[str | None] = field(default_factory=list["str | None"])
    """Ids of the passages shown, in the order of their numbers; None for a text that is no item."""
    fresh: tuple[Picture, ...] = ()
    """The pictures of the last message."""
    last_search: tuple[str, Sequence[Hit]] = ("", ())
    """The query and the hits of the last search: the same query shows its next hits."""
    pages_to_select: dict[int, str] = field(default_factory=dict[int, str])
    """Ids of the pages of the last search by their numbers, where the model selects one of them."""

    def context(self, *, last: bool) -> Context:
        """Return the conversation so far; see `AgentEpisode`."""
        if self.pending:
            *observed, end = self.pending
            urge = self._urge(last)
            is_first_message = not self.messages
            parts = [*observed, *urge, end] if is_first_message else [*observed, end, *urge]
            self.messages.append(Message(Role.USER, tuple(parts)))
            self.fresh = tuple(part for part in parts if isinstance(part, Picture))
            self.pending = []
        return Context(tuple(self.messages), fresh=self.fresh)

    def _urge(self, last: bool) -> list[Part]:
        """Return the request to answer now, where it is due."""
        if self.asking:
            return [] if last else [Text(prompt("reselect_or_search.md"))]
        return [Text(self.environment.profile.answer_now or prompt("answer_now.md"))] if last else []

    def _tool_names(self) -> frozenset[str]:
        return self.environment.action_names

    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Action]:
        """Parse a reply; the selection of evidence is never repaired. See `AgentEpisode`."""
        names = self._tool_names()
        without = VragEpisode.built_in_tags - self.built_in_tags
        if self.asking or not self.repair:
            return parse(reply, names, selecting=self.asking, without=without)
        return read_tags(reply, names, without=without, last=last, cut=cut)

    def _answer_reader(self, *, last: bool) -> AnswerReader:
        return AnswerReader(names=self._tool_names(), is_last=last and self.repair)

    def announce(self, turn: Turn[Action], log: EventLog) -> None:
        """Add the event of the action; see `AgentEpisode`."""
        match turn.action:
            case Search(query):
                log.add(SearchRequested, query=query, continued=query == self.last_search[0])
            case Crop(box, image):
                log.add(CropRequested, image=image, box=box)
            case UseTool(name, text):
                log.add(ActionRequested, name=name, text=text)
            case _:
                pass

    def shorten(self, *, last: bool) -> tuple[str, ...]:
        """Take the older half of the pictures out of sight, the question's last. See `AgentEpisode`."""
        parts = [part for message in self.messages for part in message.parts]
        shown = [part for part in parts if isinstance(part, Picture)]
        pictures = shown or [part for part in parts if isinstance(part, EnclosedImage)]
        dropped = pictures[: count_to_drop(len(pictures))]
        if dropped:
            self._remove_pictures(dropped, self._urge(last))
            self.fresh = tuple(picture for picture in self.fresh if picture not in dropped)
        return tuple(
            f"Image {picture.number}" if isinstance(picture, Picture) else "a picture of the question"
            for picture in dropped
        )

    def evidence(self, answer: str | None) -> Sequence[EvidenceCandidate]:
        """Return crops, the last first, then pages and passages, those with the literal answer first."""
        if self.selected is not None:
            return self.selected
        seen = self._candidates() if self.answer is None else self.candidates_at_answer
        text = {candidate.evidence.item: self.items[candidate.evidence.item].text for candidate in seen}
        whole = [candidate for candidate in seen if not (candidate.picture and candidate.picture.crop)]
        whole.sort(key=lambda candidate: answer is None or answer not in text[candidate.evidence.item])
        return [candidate for candidate in seen if candidate.picture and candidate.picture.crop] + whole

    def _candidates(self) -> list[EvidenceCandidate]:
        """Return all candidates: crops, the last first, then pages and passages in the order shown."""
        crops = [picture for picture in reversed(self.pictures) if picture.crop]
        pages = {picture.item: picture for picture in self.pictures if not picture.crop}
        candidates: list[EvidenceCandidate] = []
        for shown in (*crops, *(pages.get(id) or self.items[id] for id in self.seen)):
            if isinstance(shown, Picture):
                item = self.items[shown.item]
                candidates.append(picture_evidence(shown, item, f"Image {shown.number}"))
            else:
                candidates.append(passage_evidence(shown, f"Text {self.texts.index(shown.id) + 1}"))
        return candidates

    def cited(self, reference: str) -> Sequence[EvidenceCandidate] | None:
        """Return the picture or text of a number; see `AgentEpisode`."""
        label = _LABEL.fullmatch(reference)
        number = int(label["number"]) if label is not None else 0
        if label is not None and label["picture"] is not None and 0 < number <= len(self.pictures):
            picture = self.pictures[number - 1]
            return [picture_evidence(picture, self.items[picture.item], f"Image {picture.number}")]
        if label is not None and label["picture"] is None and 0 < number <= len(self.texts):
            id = self.texts[number - 1]
            return [] if id is None else [passage_evidence(self.items[id], reference)]
        return None

    def _show_part(
        self,
        item: Item,
        size: Size,
        region: Box,
        label: str,  # noqa: ARG002 - pictures have numbers
        log: EventLog,
    ) -> list[Part]:
        picture = self.environment.closer(
            item.id, View.whole(size, size), region, number=len(self.pictures) + 1
        )
        self.items[item.id] = item
        return self._show([picture], log)

    def _refusal(self, reason: str) -> str:
        return prompt(self.invalid_prompt, reason=reason, **box_words(self.environment.profile))

    def _act(self, action: Action, log: EventLog, *, ask: bool) -> ActionOutcome:
        match action:
            case Answer():
                return self._take_answer(action, self._candidates(), log, ask=ask)
            case Search(query):
                self._search(query, log)
            case Crop():
                self._crop(action, log)
            case UseTool(name, text) if name == SELECT and self.environment.candidates:
                self._select_page(text, log)
            case UseTool():
                result, unknown = self.environment.use_tool(action, self.seen)
                shown, damaged = self._open_within_limits(result.items)
                damaged = (*unknown, *damaged)
                log.add(ActionReturned, items=result.items, texts=result.texts, damaged=damaged)
                texts: list[Part] = [self._passage(text) for text in result.texts]
                self.pending = texts + self._show(shown, log) or [Text(prompt("nothing_found.md"))]
            case _:
                raise AssertionError("evidence is selected only when the model is asked for it")
        return ActionOutcome()

    def _search(self, query: str, log: EventLog) -> None:
        if query != self.last_search[0]:
            self.last_search = query, self.environment.search(query)
        hits = self.last_search[1]
        most = max(self.environment.options.show, self.environment.candidates)
        shown, damaged = self._open_new([hit.item for hit in hits], most)
        log.add(SearchReturned, hits=tuple(hits), damaged=tuple(damaged))
        parts = self._show(shown, log)
        if self.environment.candidates:
            parts = self._number_pages(parts)
        self.pending = parts or [Text(prompt(self.nothing_new_prompt if hits else "nothing_found.md"))]

    def _number_pages(self, parts: Sequence[Part]) -> list[Part]:
        """Return the results of a search with the numbers by which the model selects a page.

        These are the numbers of the pictures. Where pictures have no labels, as for UniDoc-RL, the pages of
        each search are numbered from 0.
        """
        pictures = [part for part in parts if isinstance(part, Picture)]
        if self.environment.profile.labelled:
            self.pages_to_select = {picture.number: picture.item for picture in pictures}
            return list(parts)
        self.pages_to_select = dict(enumerate(picture.item for picture in pictures))
        numbered: list[Part] = []
        for part in parts:
            if isinstance(part, Picture):
                numbered.append(Text(prompt("shown.md", number=pictures.index(part))))
            numbered.append(part)
        return numbered

    def _select_page(self, text: str, log: EventLog) -> None:
        """Show a page of the last search once more, alone: the next box is on it."""
        if not self.pages_to_select:
            raise ActionRejected("no pages to select from have been shown; search first")
        id = self.pages_to_select.get(int(text)) if _PAGE_NUMBER.fullmatch(text) else None
        if id is None:
            numbers = f"{min(self.pages_to_select)} to {max(self.pages_to_select)}"
            raise ActionRejected(f"select takes the number of a page of the last search, {numbers}")
        try:
            shown = self._open(id)
        except (SearchError, CollectionError) as error:
            self.environment.unopened(error)
            raise ActionRejected("that page can no longer be opened") from error
        log.add(ActionReturned, items=(id,), texts=())
        self.pending = self._show([shown], log)

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
        self.pending = self._show([picture], log)

    def _open_within_limits(self, items: Sequence[str]) -> tuple[list[Shown], list[str]]:
        """Return the items, shown before or not, as far as there is room, and why others are not shown."""
        profile = self.environment.profile
        shown: list[Shown] = []
        damaged: list[str] = []
        room = _MAX_TOOL_RESULT_TOKENS
        for id in items:
            try:
                tokens = 0
                if len(shown) < _MAX_ITEMS and (item := self.environment.item(id)).size is not None:
                    tokens = profile.visual_tokens(self.environment.shown_size(item))
                if len(shown) == _MAX_ITEMS or (shown and tokens > room):
                    damaged.append(f"{id} is not shown: there is no room for it.")
                    continue
                shown.append(self._open(id, shown))
            except (SearchError, CollectionError) as error:
                damaged.append(self.environment.unopened(error))
            else:
                room -= tokens
        return shown, damaged

    def _open_new(self, items: Iterable[str], most: int) -> tuple[list[Shown], list[str]]:
        """Return the first items that were not shown yet, and why others could not be opened."""
        shown: list[Shown] = []
        damaged: list[str] = []
        for id in items:
            if len(shown) < most and id not in self.seen:
                try:
                    shown.append(self._open(id, shown))
                except (SearchError, CollectionError) as error:
                    damaged.append(self.environment.unopened(error))
        return shown, damaged

    def _open(self, id: str, before: Sequence[Shown] = ()) -> Shown:
        """Open an item; its picture has the number after those shown so far and `before`."""
        item = self.items[id] = self.environment.item(id)
        if item.size is None:
            return self._passage(item.text, id)
        number = len(self.pictures) + 1 + sum(isinstance(part, Picture) for part in before)
        return self.environment.whole(item, number=number)

    def _passage(self, text: str, item: str | None = None) -> Text:
        self.texts.append(item)
        passage = prompt("passage.md", number=len(self.texts), text=self.environment.material(text))
        return Text(passage, item)

    def _show(self, shown: Sequence[Shown], log: EventLog) -> list[Part]:
        """Return the message about opened items, and add their events."""
        profile = self.environment.profile
        parts: list[Part] = []
        for part in shown:
            assert part.item is not None
            item = self.items[part.item]
            if isinstance(part, Picture):
                self.pictures.append(part)
                tokens = profile.visual_tokens(part.view.canvas)
                log.add_image(part, item, tokens, label=f"Image {part.number}")
                if profile.labelled:
                    parts.append(Text(prompt("shown.md", number=part.number)))
            else:
                log.add_passage(item)
            parts.append(part)
            is_page = isinstance(part, Picture) and not part.crop
            if is_page and (tables := self.environment.tables(item)):
                parts.append(Text(prompt("tables.md", text=tables)))
            if not (isinstance(part, Picture) and part.crop) and item.id not in self.seen:
                self.seen.append(item.id)
        return parts
