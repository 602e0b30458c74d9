"""The bases of VRAG, VimRAG, RAG and ReAct: `Method`, and `AgentEpisode`, the state of one of its runs."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from vrag.agent.actions import ActionRejected, Answer, Invalid, Select, Turn
from vrag.agent.answers.conflicts import MAX_VALUE_CHARS, ConflictPlace, FoundConflict
from vrag.agent.answers.draft import AnswerDraft
from vrag.agent.answers.markers import ModelMarker, take_markers
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.environment import Environment, fault_of
from vrag.agent.evidence import EvidenceCandidate, select_evidence
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.policy import EnclosedImage, Message, Part, Picture, Policy, Role, Text
from vrag.agent.prompts import prompt, spoken
from vrag.agent.question import Question
from vrag.agent.replies.answer_reader import AnswerReader
from vrag.agent.replies.tool_calls import AnswerNode
from vrag.agent.runs.event_log import EventLog
from vrag.errors import CollectionError, CorpusError, SearchError
from vrag.geometry import Box, Size, View, decode_jpeg, draw_view, encode_jpeg
from vrag.types import Item

AROUND_PIXELS = 12.0
"""Pixels of the stored picture that are shown around a statement."""


@dataclass(frozen=True, slots=True)
class Context:
    """The messages of the next model call."""

    messages: tuple[Message, ...]
    remembered: tuple[Picture, ...] = ()
    """Its pictures that come from memory."""
    fresh: tuple[Picture, ...] = ()
    """Its pictures that the step before brought."""

    @property
    def pictures(self) -> tuple[Picture | EnclosedImage, ...]:
        """All of its pictures, those that came with the question included."""
        parts = (part for message in self.messages for part in message.parts)
        return tuple(part for part in parts if isinstance(part, Picture | EnclosedImage))


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The outcome of a turn."""

    answer: Answer | AnswerNode | None = None
    """The answer, where the turn gave one that stands."""
    refused: bool = False
    """True if the action was not carried out."""


@dataclass(slots=True, kw_only=True)
class AgentEpisode(ABC):
    """The state of one run: what was asked, shown and remembered.

    `prepare`, `step` and `evidence` may block, and raise `SearchError` or `CollectionError` if the search or
    the collection fails. All events go to the log that they are given.

    With `reselect`, an answer does not stand at once: the model is asked once which of the evidence listed
    counts. It selects some, and its answer stands with that; it takes another action, and the run goes on; or
    its reply is invalid, and the answer stands as it was.
    """

    environment: Environment
    reselect: bool = False
    """True if the model is asked which evidence counts."""
    repair: bool = True
    """True if replies that break the grammar are read where their meaning is clear."""
    names_evidence: ClassVar[bool] = False
    """True if an answer names what it rests on, as nodes of a graph."""
    pending: list[Part] = field(default_factory=list[Part])
    """The parts of the next message."""
    messages: list[Message] = field(default_factory=list[Message])
    """The context so far."""
    seen: list[str] = field(default_factory=list[str])
    """Ids of the items shown by searches and custom tools, in order."""
    answer: Answer | AnswerNode | None = None
    """The answer given last; it is that of the run, unless another takes its place."""
    candidates_at_answer: Sequence[EvidenceCandidate] = ()
    """All that could be its evidence when it was given."""
    asking: bool = False
    """True if the model is being asked which evidence counts."""
    selected: tuple[EvidenceCandidate, ...] | None = None
    """The evidence that it selected; None where it was not asked, or did not select."""
    markers: tuple[ModelMarker, ...] = ()
    """The markers of the answer."""

    def prepare(self, log: EventLog) -> None:  # noqa: B027 - most methods have nothing to prepare
        """Do what comes before the first model call; its events are part of that step."""

    @abstractmethod
    def context(self, *, last: bool) -> Context:
        """Return the messages of the next call; `last` is true if the model must answer now.

        A message stays the same from then on.
        """

    @abstractmethod
    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Any]:
        """Parse a reply; never raises.

        `last` is true if the model had to answer: then any readable answer counts, where replies are
        repaired. `cut` is true if the reply was cut off at its token limit: then what does not end is not
        completed.
        """

    def begin_draft(self, *, last: bool) -> AnswerDraft | None:
        """Return the draft of the answer in the next reply; None where a reply selects evidence.

        `last` is true if the model must answer now.
        """
        return None if self.asking else AnswerDraft(self._answer_reader(last=last), self._describe)

    @abstractmethod
    def _answer_reader(self, *, last: bool) -> AnswerReader:
        """Return a reader of the answer in a reply in this grammar."""

    def draft_evidence(self, parents: Sequence[str]) -> Sequence[EvidenceCandidate]:  # noqa: ARG002 - for graphs
        """Return what a draft may rest on; `parents` are the nodes that it names, as far as it is written."""
        return self.evidence(None)

    @abstractmethod
    def announce(self, turn: Turn[Any], log: EventLog) -> None:
        """Add the event of the action that is about to be carried out."""

    def step(self, turn: Turn[Any], log: EventLog, *, more: bool) -> ActionOutcome:
        """Carry out the action of a reply. The model is told about a fault of the action; it is no error.

        `more` is true if the model may be asked once more.
        """
        self.messages.append(Message(Role.ASSISTANT, (Text(spoken(turn.executed)),)))
        action = turn.action
        was_asked, self.asking = self.asking, False
        if was_asked and self.answer is not None and isinstance(action, Select | Invalid):
            if isinstance(action, Select):
                self.selected = select_evidence(self.candidates_at_answer, action.numbers)
            return self._finish(self.answer, log)
        try:
            if isinstance(action, Invalid):
                raise ActionRejected(action.reason)  # noqa: TRY301 - like what is found to be wrong later
            return self._act(action, log, ask=more and not was_asked)
        except ActionRejected as error:
            reason = self.environment.material(log.reject(str(error)))
            self.pending = [Text(self._refusal(reason))]
            return ActionOutcome(refused=True)

    @abstractmethod
    def shorten(self, *, last: bool) -> tuple[str, ...]:
        """Remove about half of the pictures from the context, those that count least first.

        Returns the names under which the model knew them; none where there is no picture left.
        """

    def conclude(self, log: EventLog) -> ActionOutcome:
        """Return the answer that stands while the model is asked something more, where there is one."""
        return ActionOutcome() if self.answer is None else self._finish(self.answer, log)

    def reopen(self, doubts: str, conflicts: Sequence[FoundConflict], log: EventLog) -> None:
        """Go on after an answer: the model is told what is in doubt, and may answer anew. May block.

        Of conflicts it is shown both statements, and asked to judge them.
        """
        self.answer, self.selected, self.candidates_at_answer, self.markers = None, None, (), ()
        doubted = self.environment.material(doubts)
        self.pending = [Text(prompt("answer_doubted.md", doubts=doubted))] if doubts else []
        if conflicts:
            self.pending += self._offer_conflicts(conflicts, log)

    def _offer_conflicts(self, conflicts: Sequence[FoundConflict], log: EventLog) -> list[Part]:
        """Return the message about conflicts, with the rectangles of both sides as pictures."""
        parts: list[Part] = [Text(prompt("conflict_head.md"))]
        for number, conflict in enumerate(conflicts, 1):
            for name, side in zip("AB", conflict.sides, strict=True):
                place, value, text = map(
                    self.environment.material, (side.dated_name, side.value[:MAX_VALUE_CHARS], side.quote)
                )
                said = prompt(
                    "conflict_side.md", number=number, side=name, place=place, value=value, text=text
                )
                parts += [Text(said), *self._show_side(side, f"Conflict {number}, {name}", log)]
        return [*parts, Text(prompt("conflict_request.md"))]

    def _show_side(self, side: ConflictPlace, label: str, log: EventLog) -> list[Part]:
        """Return the picture of one side of a conflict; nothing where there is none."""
        try:
            item = self.environment.item(side.item)
            if item.size is None or side.box is None:
                return []
            region = View.whole(item.size, item.size).cut(Box.unit(*side.box), padding=AROUND_PIXELS)
            return [] if fault_of(region) else self._show_part(item, item.size, region, label, log)
        except (SearchError, CollectionError):
            return []

    @abstractmethod
    def _show_part(self, item: Item, size: Size, region: Box, label: str, log: EventLog) -> list[Part]:
        """Return a part of an item, enlarged, and add its event. `label` names it where it has no number."""

    @abstractmethod
    def evidence(self, answer: str | None) -> Sequence[EvidenceCandidate]:
        """Return the evidence of the answer; without an answer, where the agent looked."""

    @abstractmethod
    def cited(self, reference: str) -> Sequence[EvidenceCandidate] | None:
        """Return what a marker of the model refers to, such as `2`, `Text 1` or the id of a node.

        None for what was never shown; nothing for what was shown and is no part of the collection.
        """

    @abstractmethod
    def _act(self, action: Any, log: EventLog, *, ask: bool) -> ActionOutcome:  # noqa: ANN401 - of either grammar
        """Carry out an action; raise `ActionRejected` if it cannot be carried out."""

    @abstractmethod
    def _refusal(self, reason: str) -> str:
        """Return the message about a reply that was not carried out."""

    def _take_answer(
        self,
        answer: Answer | AnswerNode,
        candidates: Sequence[EvidenceCandidate],
        log: EventLog,
        *,
        ask: bool,
    ) -> ActionOutcome:
        """Let an answer stand without its markers, or ask first which of its evidence counts."""
        unmarked = take_markers(answer.text, self._describe)
        answer, self.markers = replace(answer, text=unmarked.text), unmarked.markers
        self.answer, self.candidates_at_answer = answer, candidates
        self.asking = ask and self.reselect and len(candidates) > 1 and not answer.abstains
        if not self.asking:
            return self._finish(answer, log)
        lines = (f"{number}. {candidate.label}" for number, candidate in enumerate(candidates, 1))
        self.pending = [Text(prompt("reselect.md", listed=self.environment.material("\n".join(lines))))]
        return ActionOutcome()

    def _describe(self, reference: str) -> str | None:
        """Return the words for what a marker refers to: document and page; None for what was never shown."""
        found = self.cited(reference)
        if found is None:
            return None
        places = {(one.evidence.document, one.evidence.page) for one in found}
        return (
            f"{found[0].evidence.document}, {found[0].evidence.page_name}" if len(places) == 1 else reference
        )

    def _finish(self, answer: Answer | AnswerNode, log: EventLog) -> ActionOutcome:  # noqa: ARG002 - for graphs
        """End the run with an answer."""
        return ActionOutcome(answer)

    def _remove_pictures(self, dropped: Collection[Picture | EnclosedImage], request: Sequence[Part]) -> None:
        """Take pictures out of the context; its last message says so, and repeats the request, if any."""
        note = Text(prompt("out_of_sight.md"))
        messages = [
            Message(message.role, tuple(note if part in dropped else part for part in message.parts))
            if any(part in dropped for part in message.parts)
            else message
            for message in self.messages
        ]
        last = messages[-1]
        texts = {part.text for part in last.parts if isinstance(part, Text)}
        added = [Text(prompt("shortened.md")), *request]
        new = tuple(part for part in added if not (isinstance(part, Text) and part.text in texts))
        self.messages = [*messages[:-1], Message(last.role, (*last.parts, *new))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(ABC):
    """A way to answer questions. One object serves all runs. See `vrag.agent.methods.METHODS`."""

    name: ClassVar[str]
    """The name in run files and on the command line."""
    title: ClassVar[str]
    """The name for people."""
    description: ClassVar[str]
    """The method in a few words."""
    steps: ClassVar[int] = 10
    """Model calls of a run, unless limits say otherwise."""
    hits: ClassVar[int] = 10
    """Hits of a search, unless settings say otherwise."""
    uses_graph: ClassVar[bool] = False
    """True if findings are nodes of a memory graph: replies are tool calls, and an answer names its nodes."""
    trainable: ClassVar[bool] = False
    """True if models are trained for it, and scripted demonstrations exist."""
    follows_checkpoints: ClassVar[bool] = False
    """True if its conversation is the one that released checkpoints were trained on: then their own
    instruction applies, and its runs can be exported as training conversations."""

    instruction: str | None = None
    """The user's own wording of the instruction; None for the built-in one."""
    reselect: bool = False
    """True if the model is asked which of its evidence counts before the answer is given."""
    repair: bool = True
    """True if replies that break the grammar are read where their meaning is clear."""
    own_ids: bool = True
    """True if ids of nodes are the model's own words, and unknown parents are left out."""
    verify: VerifyMode = VerifyMode.OFF
    """What is done about claims of an answer that its evidence does not say."""
    second_reading: bool = False
    """True if OCR reads the pictures again that the claims of an answer rest on."""
    memory: MemoryOptions | None = None
    """The options of the memory, where there is one."""

    @abstractmethod
    def policy_without_model(self, environment: Environment) -> Policy:
        """Open the policy without a model that writes replies in the grammar of this method."""

    @abstractmethod
    def begin(self, environment: Environment, question: str | Question) -> AgentEpisode:
        """Begin a run: nothing is searched or shown but what came with the question. May block.

        Raises `ValueError` if the question is empty.
        """


def count_to_drop(count: int) -> int:
    """Return the number of pictures to remove at once: half, rounded up, so that none is left in the end."""
    return (count + 1) // 2


def question_parts(question: Question, environment: Environment) -> tuple[Part, ...]:
    """Return the parts of a question: earlier questions and answers, its pictures, and last its text.

    Earlier answers may quote documents, so they are sanitized like these. May block: pictures are drawn at
    the size of the model's family. Raises `CorpusError` if a picture cannot be drawn.
    """
    parts: list[Part] = []
    if question.history:
        exchanges: list[str] = []
        for turn in question.history:
            asked = environment.material(turn.question)
            if turn.answer is None:
                exchanges.append(prompt("exchange_unanswered.md", question=asked))
            else:
                answer = environment.material(turn.answer)
                exchanges.append(prompt("exchange.md", question=asked, answer=answer))
        parts.append(Text(prompt("history.md", exchanges="\n\n".join(exchanges))))
    if question.images:
        parts.append(Text(prompt("enclosed.md", count=len(question.images))))
    for image in question.images:
        try:
            shown = environment.profile.shown_size(image.size)
            drawn = draw_view(decode_jpeg(image.jpeg), View.whole(image.size, shown))
        except (OSError, SyntaxError, ValueError) as error:
            raise CorpusError(f"A picture that came with the question cannot be shown: {error}.") from error
        jpeg = encode_jpeg(drawn)
        parts.append(EnclosedImage(image.sha256, shown, jpeg, hashlib.sha256(jpeg).hexdigest()))
    if parts:
        parts.append(Text(prompt("question_itself.md")))
    return (*parts, Text(question.text, asked=question))
