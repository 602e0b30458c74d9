"""VimRAG: search, memorise, answer, over a graph that remembers what was seen (arXiv 2602.12735).

After every completed node the context is built anew from the graph, and memory shows what it kept at the size
that its energy earns. Raw results are seen until they are summarised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from PIL.Image import Image

from vrag.agent import actions
from vrag.agent.actions import ActionRejected, Extend, Invalid, Select, Turn
from vrag.agent.environment import Environment
from vrag.agent.events import (
    ActionRequested,
    ActionReturned,
    CropRequested,
    GraphChanged,
    MemoryEntry,
    MemoryUpdated,
    SearchRequested,
    SearchReturned,
)
from vrag.agent.evidence import EvidenceCandidate, select_evidence
from vrag.agent.memory.energies import ForgottenItem, MemoryOptions
from vrag.agent.memory.memory_graph import Graph, Node, NodeKind, RememberedItem
from vrag.agent.memory.node_results import Results, frame_parts, reviewed, unreviewed
from vrag.agent.memory.pixel_budget import Allotment, Placed, recall
from vrag.agent.method import ActionOutcome, Context
from vrag.agent.methods.conversation import half_of, question_parts, shortened
from vrag.agent.policy import EnclosedImage, Message, Part, Picture, Policy, Role, Text
from vrag.agent.prompts import box_words, prompt, with_question, worded
from vrag.agent.question import Question
from vrag.agent.replies.call_parser import KnownNodes, parse_call
from vrag.agent.replies.call_repair import read_call
from vrag.agent.replies.sanitize import spoken
from vrag.agent.replies.tool_calls import AnswerNode, Call, CropNode, Memorize, SearchNode, ToolNode
from vrag.agent.runs.event_log import EventLog
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, Size, Space, View

__all__ = ["Vimrag", "VimragEpisode"]

_Key: TypeAlias = tuple[str, tuple[float, float, float, float] | None]
"""Key of a remembered item, or of a part of one."""
_TEXT_WORTH = 3
"""Texts are kept in summaries alone, without a score: as evidence they stand in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vimrag:
    """The method VimRAG: a graph of findings, and a memory of limited size."""

    name: ClassVar[str] = "vimrag"
    title: ClassVar[str] = "VimRAG"
    description: ClassVar[str] = "a graph that remembers"
    steps: ClassVar[int] = 20
    hits: ClassVar[int] = 3

    instruction: str | None = None
    """The user's own wording, in place of ours."""
    reselect: bool = False
    """True if the model is asked which of its evidence counts before the answer is given."""
    repair: bool = True
    """True if replies that break the grammar are read where their meaning is clear."""
    memory: MemoryOptions = field(default_factory=MemoryOptions)

    def offline_policy(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive_graph import ExtractiveGraphPolicy

        return ExtractiveGraphPolicy(environment.searcher, environment.profile, crops=self.memory.crop_nodes)

    def begin(self, environment: Environment, question: str | Question) -> VimragEpisode:
        """Return a new run: a graph of the question alone; see `Method`."""
        lines = [
            prompt("graph_extension.md", name=extension.name, usage=extension.usage)
            for extension in environment.extensions.values()
        ]
        if self.memory.crop_nodes:
            lines.insert(0, prompt("crop_node.md", **box_words(environment.profile)))
        usages = "".join(f"\n{line}" for line in lines)
        profile = environment.profile
        own = self.instruction or profile.graph_instruction
        instruction = worded(own, profile.graph_prompt, actions=usages, profile=profile)
        asked = Question.of(question)
        instruction = with_question(instruction, asked.text) or instruction
        parts = question_parts(asked, environment)
        episode = VimragEpisode(environment, self.memory, parts, self.reselect, instruction, self.repair)
        episode.rebuild()
        return episode


@dataclass(slots=True)
class VimragEpisode:
    """The state of one run: the graph, what its newest node found, what memory shows."""

    environment: Environment
    options: MemoryOptions
    asked: tuple[Part, ...]
    """The question, last, after what belongs to it: told anew whenever the context is rebuilt."""
    reselect: bool
    instruction: str
    repair: bool = True
    """As of the method."""
    graph: Graph = field(init=False)
    results: Results = field(init=False)
    """Of the node that is not completed yet."""
    messages: list[Message] = field(default_factory=list[Message])
    pending: list[Part] = field(default_factory=list[Part])
    """The parts of the next message."""
    remembered: dict[_Key, tuple[Picture, ...]] = field(default_factory=dict[_Key, tuple[Picture, ...]])
    """The items that memory shows now."""
    ranked: tuple[tuple[_Key, str], ...] = ()
    """The same by what it is worth, the heaviest first, each with its name."""
    hidden: set[Picture | EnclosedImage] = field(default_factory=set["Picture | EnclosedImage"])
    """Pictures that were taken out of the context, which was too long."""
    found: dict[tuple[str, str], tuple[EvidenceCandidate, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[EvidenceCandidate, ...]]
    )
    """Of every completed node, by its id and a label: how the useful results were seen at first."""
    natives: dict[str, Size] = field(default_factory=dict[str, Size])
    """Size in pixels of every item that is remembered, or of the frames of a clip."""
    frames: dict[str, dict[float, Image]] = field(default_factory=dict[str, dict[float, Image]])
    """Of every clip that is remembered: the frames, by their moments."""
    seen: list[str] = field(default_factory=list[str])
    """Ids of the items shown, in order."""
    standing: AnswerNode | None = None
    """The answer given last, with all the nodes on which it rests; it is that of the run, unless another
    takes its place."""
    asking: bool = False
    """True if the model is being asked which evidence counts."""
    chosen: tuple[EvidenceCandidate, ...] | None = None
    """The evidence that it chose; None where it was not asked, or did not choose."""

    def __post_init__(self) -> None:
        question = self.asked[-1]
        assert isinstance(question, Text)
        self.graph = Graph.of(question.text)
        self.results = Results(self.environment, self.options)

    def prepare(self, log: EventLog) -> None:
        """Nothing: the model says what is searched."""

    def context(self, *, last: bool) -> Context:
        """Instruction, graph and memory, and what came since; see `Episode`."""
        if self.pending:
            self.messages.append(Message(Role.USER, (*self.pending, *self._urge(last))))
            self.pending = []
        memory = tuple(picture for pictures in self.remembered.values() for picture in pictures)
        fresh = tuple(picture for picture in self.results.pictures if picture not in self.hidden)
        return Context(tuple(self.messages), memory, fresh)

    def _urge(self, last: bool) -> list[Part]:
        """Return the request to answer now, where it is due."""
        if self.asking:
            return [] if last else [Text(prompt("graph_reselect_or_call.md"))]
        return [Text(prompt("graph_answer_now.md"))] if last else []

    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Any]:
        """Take a reply apart; see `Episode`."""
        tools, crop = frozenset(self.environment.extensions), self.options.crop_nodes
        if self.asking:
            turn = actions.parse(reply, selecting=True)
            if isinstance(turn.action, Select):
                return turn
        if self.asking or not self.repair:
            return parse_call(reply, tools, crop=crop)
        labels = self.results.labels if self.graph.pending else ()
        known = KnownNodes(tuple(node.id for node in self.graph.nodes), labels)
        return read_call(reply, known, tools, crop=crop, last=last, cut=cut)

    def announce(self, turn: Turn[Any], log: EventLog) -> None:
        """Say what is about to be done."""
        match turn.action:
            case SearchNode(id, _, query):
                log.add(SearchRequested, query=query, node=id)
            case CropNode(id, _, label, box):
                log.add(CropRequested, image=None, box=box, node=id, label=label)
            case ToolNode(id, _, name, text):
                log.add(ActionRequested, name=name, text=text, node=id)
            case _:
                pass

    def step(self, turn: Turn[Any], log: EventLog, *, more: bool) -> ActionOutcome:
        """Do it; see `Episode`."""
        self.messages.append(Message(Role.ASSISTANT, (Text(spoken(turn.executed)),)))
        stands, action = self.standing, turn.action
        asking, self.asking = self.asking, False
        if asking and stands is not None and isinstance(action, Select | Invalid):
            if isinstance(action, Select):
                self.chosen = select_evidence(self._candidates(stands.parents), action.numbers)
            return self._answered(stands, log)
        try:
            if isinstance(action, Invalid):
                raise ActionRejected(action.reason)  # noqa: TRY301 - like what is found to be wrong later
            if fault := self.graph.fault_of(action, self.results.labels):
                raise ActionRejected(fault)  # noqa: TRY301
            return self._act(action, log, ask=more and not asking)
        except ActionRejected as error:
            reason = self.environment.material(log.reject(str(error)))
            self.pending = [Text(prompt("graph_invalid.md", reason=reason))]
            return ActionOutcome(refused=True)

    def shorten(self, *, last: bool) -> tuple[str, ...]:
        """Take half of the memory items out of sight, the lightest first; then results, the last first.

        From then on memory shows no more items than are left now, and the results of a step get half the
        room; see `Episode`.
        """
        items = self._in_sight()
        dropped = items[: half_of(len(items))]
        if dropped:
            pictures = {picture for _, group in dropped for picture in group}
            self.hidden |= pictures
            self.remembered = {
                key: shown for key, shown in self.remembered.items() if pictures.isdisjoint(shown)
            }
            self.messages = shortened(self.messages, pictures, self._urge(last))
            self._reduce_budgets()
        return tuple(name for name, _ in dropped)

    def _in_sight(self) -> list[tuple[str, Sequence[Picture | EnclosedImage]]]:
        """Return the pictures that can be removed next, each with its name, those that count least first."""
        ranked = ((key, name) for key, name in reversed(self.ranked) if key in self.remembered)
        memory = [(name, self.remembered[key]) for key, name in ranked]
        results = reversed(self.results.shown.items())
        fresh = [(name, shown) for name, shown in results if self.hidden.isdisjoint(shown)]
        parts = (part for message in self.messages for part in message.parts)
        enclosed = [
            ("a picture of the question", (part,)) for part in parts if isinstance(part, EnclosedImage)
        ]
        return [*memory] or [*fresh] or [*enclosed]

    def _reduce_budgets(self) -> None:
        """Make later contexts shorter."""
        least = self.environment.profile.min_tokens
        less = {
            "items": max(1, min(self.options.items, len(self.remembered))),
            "fresh_tokens": max(least, self.options.fresh_tokens // 2),
        }
        self.options = self.options.model_copy(update=less)

    def conclude(self, log: EventLog) -> ActionOutcome:
        """Give the answer given last; see `Episode`."""
        if self.standing is None or self.graph.answered:
            return ActionOutcome(self.standing)
        return self._answered(self.standing, log)

    def evidence(self, answer: str | None) -> Sequence[EvidenceCandidate]:
        """Return the evidence of the answer's ancestors, nearest first; without an answer, all evidence."""
        if self.chosen is not None:
            return self.chosen
        end = self.graph.newest
        parents = end.parents if answer is not None and end.kind is NodeKind.ANSWER else None
        return self._candidates(parents)

    def rebuild(self) -> Allotment:
        """Begin the context anew, from the graph; what memory shows in it."""
        allotment = self._recalled()
        placed = sorted(allotment.shown, key=lambda item: (item.entry.order, item.entry.position))
        self.results = Results(self.environment, self.options)
        state = prompt("graph_state.md", graph=self.environment.material(self.graph.as_json()))
        self.messages = [Message(Role.SYSTEM, (Text(self.instruction),))]
        asked = (Text(prompt("graph_question.md")), *self.asked)
        self.pending = [*asked, Text(state), *self._memory(placed)]
        return allotment

    def _act(self, call: Call, log: EventLog, *, ask: bool) -> ActionOutcome:
        match call:
            case SearchNode():
                self._search(call, log)
            case CropNode():
                self._crop(call, log)
            case ToolNode():
                self._extend(call, log)
            case Memorize():
                self._memorize(call, log)
            case AnswerNode():
                return self._answer(call, log, ask=ask)
        return ActionOutcome()

    def _search(self, call: SearchNode, log: EventLog) -> None:
        hits = self.environment.search(call.query)
        results = Results(self.environment, self.options)
        results.gather(call.id, [hit.item for hit in hits])
        log.add(SearchReturned, hits=tuple(hits), damaged=results.damaged)
        self._grow(call, NodeKind.SEARCH, call.query, results, log)

    def _extend(self, call: ToolNode, log: EventLog) -> None:
        given, unknown = self.environment.extend(Extend(call.name, call.text), self.seen)
        results = Results(self.environment, self.options)
        results.gather(call.id, given.items, given.texts)
        log.add(ActionReturned, items=given.items, texts=given.texts, damaged=(*unknown, *results.damaged))
        self._grow(call, NodeKind.TOOL, call.text, results, log, tool=call.name)

    def _crop(self, call: CropNode, log: EventLog) -> None:
        _, memory_item = self.graph.remembered(call.parents, call.information)
        shown = self.remembered.get((memory_item.item, memory_item.region), ())
        if not shown:
            raise ActionRejected(f"{call.information} is not in sight: memory has no room for it")
        if memory_item.seconds:
            raise ActionRejected("only pictures can be enlarged, not videos")
        region = self.environment.region(shown[0].view, call.box)
        if isinstance(region, str):
            raise ActionRejected(region)
        results = Results(self.environment, self.options)
        try:
            results.enlarge(call.id, memory_item.item, shown[0].view, region)
        except (SearchError, CollectionError) as error:
            self.environment.unopened(error)
            raise ActionRejected(f"{call.information} can no longer be opened") from error
        self._grow(call, NodeKind.CROP, call.information, results, log)

    def _grow(
        self,
        call: SearchNode | CropNode | ToolNode,
        kind: NodeKind,
        query: str,
        results: Results,
        log: EventLog,
        *,
        tool: str = "",
    ) -> None:
        """Add a node, and shows what it found."""
        graph = self.graph.add(id=call.id, kind=kind, parents=call.parents, query=query, tool=tool)
        parts = results.parts()
        results.tell(log)
        self.graph, self.results, self.pending = graph, results, parts
        self.seen += results.items
        log.add(GraphChanged, graph=self.graph)

    def _memorize(self, call: Memorize, log: EventLog) -> None:
        pending = self.graph.pending
        assert pending is not None
        review = reviewed(call, self.results.listed)
        self._keep(review.memory, {note.information for note in call.notes if note.useful})
        self.graph = self.graph.complete(call.summary, review.memory)
        allotment = self.rebuild()
        log.add(GraphChanged, graph=self.graph)
        log.add(
            MemoryUpdated,
            node=pending.id,
            kept=tuple(_kept(placed) for placed in allotment.shown),
            dropped=tuple(_dropped(lost) for lost in allotment.dropped),
            tokens=allotment.tokens,
            pixels=allotment.pixels,
            budget=allotment.budget,
            reports=review.reports,
        )

    def _answer(self, call: AnswerNode, log: EventLog, *, ask: bool) -> ActionOutcome:
        call = replace(call, parents=self._parents(call))
        listed = self._candidates(call.parents)
        if not (ask and self.reselect and len(listed) > 1 and not call.abstains):
            return self._answered(call, log)
        self.standing, self.asking = call, True
        lines = (f"{number}. {candidate.label}" for number, candidate in enumerate(listed, 1))
        self.pending = [Text(prompt("reselect.md", listed=self.environment.material("\n".join(lines))))]
        return ActionOutcome()

    def _answered(self, call: AnswerNode, log: EventLog) -> ActionOutcome:
        memory = unreviewed(self.results.listed) if self.graph.pending else ()
        self._keep(memory, set(self.results.texts))
        self.graph = self.graph.answer(call.parents, call.text, memory)
        self.standing = call
        log.add(GraphChanged, graph=self.graph)
        return ActionOutcome(call)

    def _parents(self, call: AnswerNode) -> tuple[str, ...]:
        """Return the nodes on which an answer rests: those named, and the one whose results are in sight."""
        pending = self.graph.pending
        return call.parents if pending is None else tuple(dict.fromkeys((*call.parents, pending.id)))

    def _keep(self, memory: tuple[RememberedItem, ...], texts: set[str]) -> None:
        """Keep of the results what is useful: for evidence, and to be shown from memory."""
        results = self.results
        useful = {memory_item.label: memory_item for memory_item in memory if memory_item.useful}
        for label in results.labels:
            if label in useful or label in texts:
                self.found[results.node, label] = results.seen(label, useful.get(label))
        for memory_item in useful.values():
            self.natives[memory_item.item] = results.natives[memory_item.item]
            frames = results.frames.get(memory_item.item, {})
            kept = self.frames.setdefault(memory_item.item, {}) if frames else {}
            kept |= {at: _smaller(frames[at], self.options.frame_pixels) for at in memory_item.seconds}

    def _candidates(self, parents: Sequence[str] | None) -> list[EvidenceCandidate]:
        """Return all that could be evidence, of the newest node first, there by what it is worth."""
        nodes = self.graph.nodes if parents is None else self.graph.ancestors(parents)
        return [seen for node in reversed(nodes) for seen in self._seen(node)]

    def _seen(self, node: Node) -> Iterator[EvidenceCandidate]:
        if node == self.graph.pending:
            for label in self.results.labels:
                yield from self.results.seen(label, None)
            return
        worth = {memory_item.label: memory_item.priority for memory_item in node.memory}
        labels = [label for id, label in tuple(self.found) if id == node.id]
        for label in sorted(labels, key=lambda label: -worth.get(label, _TEXT_WORTH)):
            yield from self.found[node.id, label]

    def _memory(self, placed: Sequence[Placed]) -> Iterator[Part]:
        """Return the parts of the message that show memory, node by node."""
        for number, item in enumerate(placed):
            if number == 0:
                yield Text(prompt("memory_head.md"))
            entry = item.entry
            name = self.environment.material(entry.node)
            heading = prompt("memory_node.md", node=name, label=entry.label)
            yield Text(heading, label=entry.label, node=entry.node)
            yield from frame_parts(self.remembered[entry.item, entry.region])

    def _recalled(self) -> Allotment:
        """Draw the items that memory shows, without those that can no longer be opened."""
        while True:
            allotment = recall(self.graph, self.natives, self.options, self.environment.profile)
            drawn: dict[_Key, tuple[Picture, ...]] = {}
            for item in sorted(allotment.shown, key=lambda item: (item.entry.order, item.entry.position)):
                try:
                    drawn[item.entry.item, item.entry.region] = self._drawn(item)
                except (SearchError, CollectionError) as error:
                    self.environment.unopened(error)
                    del self.natives[item.entry.item]
                    break
            else:
                self.remembered = drawn
                self.ranked = tuple(
                    ((item.entry.item, item.entry.region), f"{item.entry.label} of {item.entry.node}")
                    for item in allotment.shown
                )
                return allotment

    def _drawn(self, placed: Placed) -> tuple[Picture, ...]:
        """Return a remembered item at the size that it earns now."""
        item, region = placed.entry.item, placed.entry.region
        shown, margin = placed.fitted.shown, placed.fitted.margin
        if placed.seconds:
            frames = self.frames[item]
            return tuple(self.environment.frame(item, frames[at], at, shown, margin) for at in placed.seconds)
        size = self.natives[item]
        part = Box(*region, Space.ITEM) if region else View.whole(size, shown).region
        view = View(size, part, shown, margin)
        before = self.remembered.get((item, region), ())
        if before and before[0].view == view:
            return before
        return (self.environment.picture(item, view, crop=region is not None),)


def _smaller(frame: Image, pixels: int) -> Image:
    """Return a frame with no more pixels than it will ever be shown with."""
    by = math.sqrt(pixels / (frame.width * frame.height))
    return frame if by >= 1 else frame.resize((round(frame.width * by), round(frame.height * by)))


def _kept(placed: Placed) -> MemoryEntry:
    entry, canvas = placed.entry, placed.fitted.canvas
    return MemoryEntry(
        node=entry.node,
        label=entry.label,
        item=entry.item,
        energy=entry.energy,
        seconds=placed.seconds,
        width=canvas.width,
        height=canvas.height,
        tokens=placed.tokens,
    )


def _dropped(lost: ForgottenItem) -> MemoryEntry:
    entry = lost.entry
    return MemoryEntry(
        node=entry.node,
        label=entry.label,
        item=entry.item,
        energy=entry.energy,
        seconds=lost.seconds,
        reason=lost.reason,
    )
