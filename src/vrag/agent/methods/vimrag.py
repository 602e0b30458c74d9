"""VimRAG: search, memorise, answer, over a graph that remembers what was seen (arXiv 2602.12735).

After every completed node the context is rebuilt from the graph, and memory shows what it kept at the size
that its energy earns. Raw results are seen until they are summarised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, ClassVar, TypeAlias

from PIL.Image import Image

from vrag.agent import actions
from vrag.agent.actions import ActionRejected, Answer, Select, Turn, UseTool
from vrag.agent.answers.conflicts import FoundConflict
from vrag.agent.answers.markers import NODE_ID
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
from vrag.agent.evidence import EvidenceCandidate
from vrag.agent.memory.energies import MemoryOptions, Remembered
from vrag.agent.memory.memory_graph import Graph, NodeKind, RememberedItem
from vrag.agent.memory.node_results import Results, frame_parts, reviewed, unreviewed
from vrag.agent.memory.pixel_budget import Allotment, Placed, recall
from vrag.agent.method import ActionOutcome, AgentEpisode, Context, Method, count_to_drop, question_parts
from vrag.agent.policy import EnclosedImage, Message, Part, Picture, Policy, Role, Text
from vrag.agent.prompts import box_words, prompt, with_question, worded
from vrag.agent.question import Question
from vrag.agent.replies.answer_reader import AnswerReader
from vrag.agent.replies.call_parser import parse_call, read_call
from vrag.agent.replies.known_nodes import KnownNodes, repaired
from vrag.agent.replies.tool_arguments import node_key
from vrag.agent.replies.tool_calls import ANSWER, AnswerNode, Call, CropNode, Memorize, SearchNode, ToolNode
from vrag.agent.runs.event_log import EventLog
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, Size, Space, View
from vrag.types import Item

_Key: TypeAlias = tuple[str, tuple[float, float, float, float] | None]
"""Key of a remembered item, or of a part of one."""
_TEXT_WORTH = 3
"""Texts are kept in summaries alone, without a score: as evidence they stand in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vimrag(Method):
    """The method VimRAG: a graph of findings, and a memory of limited size."""

    name: ClassVar[str] = "vimrag"
    title: ClassVar[str] = "VimRAG"
    description: ClassVar[str] = "a graph that remembers"
    steps: ClassVar[int] = 20
    hits: ClassVar[int] = 3
    uses_graph: ClassVar[bool] = True
    trainable: ClassVar[bool] = True
    memory: MemoryOptions = field(default_factory=MemoryOptions)

    def policy_without_model(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive import ExtractiveGraphPolicy

        searcher, profile, reader = environment.searcher, environment.profile, environment.text_reader
        return ExtractiveGraphPolicy(searcher, profile, crops=self.memory.crop_nodes, text_reader=reader)

    def begin(self, environment: Environment, question: str | Question) -> VimragEpisode:
        """Return a new run: a graph of the question alone; see `Method`."""
        profile = environment.profile
        tools = environment.tools.values()
        lines = [prompt("graph_tool.md", name=tool.name, usage=tool.usage) for tool in tools]
        if self.memory.crop_nodes:
            lines.insert(0, prompt("crop_node.md", **box_words(profile)))
        usages = "".join(f"\n{line}" for line in lines)
        own = self.instruction or profile.graph_instruction
        instruction = worded(own, profile.graph_prompt, actions=usages, profile=profile)
        asked = Question.of(question)
        episode = VimragEpisode(
            environment=environment,
            reselect=self.reselect,
            repair=self.repair,
            own_ids=self.own_ids,
            options=self.memory,
            question=question_parts(asked, environment),
            instruction=with_question(instruction, asked.text) or instruction,
        )
        episode.rebuild()
        return episode


@dataclass(slots=True, kw_only=True)
class VimragEpisode(AgentEpisode):
    """The state of one run: the graph, what its newest node found, what memory shows."""

    names_evidence: ClassVar[bool] = True

    own_ids: bool = True
    """True if nodes keep the model's own words as ids; see `RunSettings.own_ids`."""
    options: MemoryOptions
    question: tuple[Part, ...]
    """The question, last, after what belongs to it: repeated whenever the context is rebuilt."""
    instruction: str
    graph: Graph = field(init=False)
    results: Results = field(init=False)
    """The results of the node that is not completed yet."""
    remembered: dict[_Key, tuple[Picture, ...]] = field(default_factory=dict[_Key, tuple[Picture, ...]])
    """The items that memory shows now."""
    ranked: tuple[tuple[_Key, str], ...] = ()
    """Keys and names of these items, the highest energy first."""
    hidden: set[Picture | EnclosedImage] = field(default_factory=set["Picture | EnclosedImage"])
    """Pictures that were taken out of the context, which was too long."""
    useful: dict[tuple[str, str], tuple[EvidenceCandidate, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[EvidenceCandidate, ...]]
    )
    """The useful results of every completed node as evidence, by node and label, as they were first seen."""
    natives: dict[str, Size] = field(default_factory=dict[str, Size])
    """Size in pixels of every item that is remembered, or of the frames of a clip."""
    frames: dict[str, dict[float, Image]] = field(default_factory=dict[str, dict[float, Image]])
    """The frames of every clip that is remembered, by their moments."""

    def __post_init__(self) -> None:
        text = self.question[-1]
        assert isinstance(text, Text)
        self.graph = Graph.of(text.text)
        self.results = Results(self.environment, self.options)

    def context(self, *, last: bool) -> Context:
        """Return instruction, graph and memory, and the messages since; see `AgentEpisode`."""
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
        """Parse a reply; see `AgentEpisode`."""
        tools, crop = frozenset(self.environment.tools), self.options.crop_nodes
        if self.asking:
            turn = actions.parse(reply, selecting=True)
            if isinstance(turn.action, Select):
                return turn
        if self.asking or not self.repair:
            return parse_call(reply, tools, crop=crop, own_ids=self.own_ids)
        turn = read_call(reply, self._known_nodes(), tools, crop=crop, last=last, cut=cut)
        return self._find_picture(turn) if self.own_ids else turn

    def _known_nodes(self) -> KnownNodes:
        labels = self.results.labels if self.graph.pending else ()
        nodes = self.graph.nodes
        ids, queries = tuple(node.id for node in nodes), tuple(node.query for node in nodes)
        return KnownNodes(ids, labels, queries, own_ids=self.own_ids)

    def _find_picture(self, turn: Turn[Any]) -> Turn[Any]:
        """Name the node that holds the picture of a crop, where no parent does and one other node does."""
        call = turn.action
        if not isinstance(call, CropNode) or self.graph.fault_of(call) is None:
            return turn
        holders = [
            node.id
            for node in self.graph.nodes
            if any(item.useful and item.label == call.information for item in node.memory)
        ]
        if len(holders) != 1 or holders[0] in call.parents:
            return turn
        found = replace(call, parents=(*holders, *call.parents))
        return repaired(turn, found, [f"{call.information} is read as that of {holders[0]}"])

    def _answer_reader(self, *, last: bool) -> AnswerReader:
        return AnswerReader(
            ANSWER, frozenset({"answer"}), is_call_expected=True, is_last=last and self.repair
        )

    def draft_evidence(self, parents: Sequence[str]) -> Sequence[EvidenceCandidate]:
        """Return the evidence of the ancestors of an answer, as far as they are named; see `AgentEpisode`."""
        known = self._known_nodes()
        named = [node for parent in parents if (node := known.find(parent)) is not None]
        if (pending := self.graph.pending) is not None:
            named.append(pending.id)
        return self._candidates(tuple(dict.fromkeys(named)) or None)

    def announce(self, turn: Turn[Any], log: EventLog) -> None:
        """Add the event of the action; see `AgentEpisode`."""
        match turn.action:
            case SearchNode(id, _, query):
                log.add(SearchRequested, query=query, node=id)
            case CropNode(id, _, label, box):
                log.add(CropRequested, image=None, box=box, node=id, label=label)
            case ToolNode(id, _, name, text):
                log.add(ActionRequested, name=name, text=text, node=id)
            case _:
                pass

    def shorten(self, *, last: bool) -> tuple[str, ...]:
        """Take half of the memory items out of sight, the lightest first; then results, the last first.

        From then on memory shows no more items than are left now, and the results of a step get half the
        room; see `AgentEpisode`.
        """
        entries = self._removable()
        dropped = entries[: count_to_drop(len(entries))]
        if dropped:
            pictures = {picture for _, group in dropped for picture in group}
            self.hidden |= pictures
            self.remembered = {
                key: shown for key, shown in self.remembered.items() if pictures.isdisjoint(shown)
            }
            self._remove_pictures(pictures, self._urge(last))
            least = self.environment.profile.min_tokens
            less = {
                "items": max(1, min(self.options.items, len(self.remembered))),
                "fresh_tokens": max(least, self.options.fresh_tokens // 2),
            }
            self.options = self.options.model_copy(update=less)
        return tuple(name for name, _ in dropped)

    def _removable(self) -> Sequence[tuple[str, Sequence[Picture | EnclosedImage]]]:
        """Return the pictures that can be removed next, each with its name, those that count least first."""
        ranked = ((key, name) for key, name in reversed(self.ranked) if key in self.remembered)
        if memory := [(name, self.remembered[key]) for key, name in ranked]:
            return memory
        results = reversed(self.results.shown.items())
        if fresh := [(name, shown) for name, shown in results if self.hidden.isdisjoint(shown)]:
            return fresh
        parts = (part for message in self.messages for part in message.parts)
        return [("a picture of the question", (part,)) for part in parts if isinstance(part, EnclosedImage)]

    def evidence(self, answer: str | None) -> Sequence[EvidenceCandidate]:
        """Return the evidence of the answer's ancestors, nearest first; without an answer, all evidence."""
        if self.selected is not None:
            return self.selected
        end = self.graph.newest
        parents = end.parents if answer is not None and end.kind is NodeKind.ANSWER else None
        return self._candidates(parents)

    def reopen(self, doubts: str, conflicts: Sequence[FoundConflict], log: EventLog) -> None:
        """Go on after an answer, whose node is taken back; see `AgentEpisode`."""
        AgentEpisode.reopen(self, doubts, conflicts, log)
        self.graph = self.graph.without_answer()

    def _show_part(self, item: Item, size: Size, region: Box, label: str, log: EventLog) -> list[Part]:
        picture = self.environment.closer(item.id, View.whole(size, size), region)
        log.add_image(picture, item, self.environment.profile.visual_tokens(picture.canvas), label=label)
        return [picture]

    def cited(self, reference: str) -> Sequence[EvidenceCandidate] | None:
        """Return the results of a node or one of them.

        A node is cited by its id or its number, from 1 for the first after the question; a result by its
        label, alone for the newest of that label or after the node's id and a comma. See `AgentEpisode`.
        """
        cited_nodes = [node for node in self.graph.nodes if node.kind is not NodeKind.ANSWER]
        if reference.isdecimal() and 0 < int(reference) < len(cited_nodes):
            reference = self.graph.nodes[int(reference)].id
        keys = {node_key(node.id): node.id for node in cited_nodes}
        ids = {node.id: node.id for node in cited_nodes}
        if (id := ids.get(reference) or keys.get(node_key(reference))) is not None:
            return [candidate for _, candidate in self._results_of(id)]
        name, _, label = reference.casefold().replace("image ", "picture ").rpartition(",")
        node = keys.get(node_key(name)) if name else None
        searched = [node] if node else [] if name else list(ids)
        for id in reversed(searched):
            results = self._results_of(id)
            if found := [candidate for known, candidate in results if known.casefold() == label.strip()]:
                return found
        return None

    def _describe(self, reference: str) -> str | None:
        """Return the words for a marker; empty for an id that names no node and stands in no text."""
        words = super(VimragEpisode, self)._describe(reference)
        if words is None and NODE_ID.fullmatch(reference) and not self._is_in_text(reference):
            return ""
        return words

    def _is_in_text(self, word: str) -> bool:
        """Return whether a word stands in the question, a query, a summary or a text that is shown."""
        nodes = (node for node in self.graph.nodes if node.kind is not NodeKind.ANSWER)
        texts = (text for node in nodes for text in (node.query, node.summary or ""))
        return any(word.casefold() in text.casefold() for text in (*texts, *self.results.texts.values()))

    def _results_of(self, node: str) -> list[tuple[str, EvidenceCandidate]]:
        """Return what a node found, by labels; of a completed node what was useful."""
        if self.graph.pending is not None and self.graph.pending.id == node:
            labels = self.results.labels
            return [(label, found) for label in labels for found in self.results.evidence(label, None)]
        useful = self.useful.items()
        return [(label, found) for (id, label), all_found in useful if id == node for found in all_found]

    def rebuild(self) -> Allotment:
        """Begin the context again, from the graph; return what memory shows in it."""
        allotment = self._recall()
        self.results = Results(self.environment, self.options)
        state = prompt("graph_state.md", graph=self.environment.material(self.graph.as_json()))
        self.messages = [Message(Role.SYSTEM, (Text(self.instruction),))]
        self.pending = [Text(prompt("graph_question.md")), *self.question, Text(state)]
        if allotment.shown:
            self.pending.append(Text(prompt("memory_head.md")))
        for placed in _by_node(allotment):
            entry = placed.entry
            name = self.environment.material(entry.node)
            heading = prompt("memory_node.md", node=name, label=entry.label)
            self.pending.append(Text(heading, label=entry.label, node=entry.node))
            self.pending += frame_parts(self.remembered[entry.item, entry.region])
        return allotment

    def _refusal(self, reason: str) -> str:
        return prompt("graph_invalid.md", reason=reason)

    def _act(self, action: Call, log: EventLog, *, ask: bool) -> ActionOutcome:
        if fault := self.graph.fault_of(action, self.results.labels):
            raise ActionRejected(fault)
        match action:
            case SearchNode(id, _, query):
                hits = self.environment.search(query)
                results = Results(self.environment, self.options)
                results.gather(id, [hit.item for hit in hits])
                log.add(SearchReturned, hits=tuple(hits), damaged=results.damaged)
                self._grow(action, NodeKind.SEARCH, query, results, log)
            case CropNode():
                self._crop(action, log)
            case ToolNode(id, _, name, text):
                given, unknown = self.environment.use_tool(UseTool(name, text), self.seen)
                results = Results(self.environment, self.options)
                results.gather(id, given.items, given.texts)
                damaged = (*unknown, *results.damaged)
                log.add(ActionReturned, items=given.items, texts=given.texts, damaged=damaged)
                self._grow(action, NodeKind.TOOL, text, results, log, tool=name)
            case Memorize():
                self._memorize(action, log)
            case AnswerNode(parents):
                # The answer rests on the nodes named, and on the one whose results are in sight.
                if (pending := self.graph.pending) is not None:
                    parents = tuple(dict.fromkeys((*parents, pending.id)))
                answer = replace(action, parents=parents)
                return self._take_answer(answer, self._candidates(parents), log, ask=ask)
        return ActionOutcome()

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
        """Add a node, and show what it found."""
        graph = self.graph.add(id=call.id, kind=kind, parents=call.parents, query=query, tool=tool)
        parts = results.parts()
        results.add_events(log)
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
            kept=tuple(
                _memory_entry(placed.entry, placed.seconds, placed.fitted.canvas, placed.tokens)
                for placed in allotment.shown
            ),
            dropped=tuple(
                _memory_entry(lost.entry, lost.seconds, reason=lost.reason) for lost in allotment.dropped
            ),
            tokens=allotment.tokens,
            pixels=allotment.pixels,
            budget=allotment.budget,
            reports=review.reports,
        )

    def _finish(self, answer: Answer | AnswerNode, log: EventLog) -> ActionOutcome:
        assert isinstance(answer, AnswerNode)
        if not self.graph.answered:
            memory = unreviewed(self.results.listed) if self.graph.pending else ()
            self._keep(memory, set(self.results.texts))
            self.graph = self.graph.answer(answer.parents, answer.text, memory)
            log.add(GraphChanged, graph=self.graph)
        return ActionOutcome(answer)

    def _keep(self, memory: tuple[RememberedItem, ...], texts: set[str]) -> None:
        """Keep of the results what is useful: for evidence, and to be shown from memory."""
        results = self.results
        useful = {memory_item.label: memory_item for memory_item in memory if memory_item.useful}
        for label in results.labels:
            if label in useful or label in texts:
                self.useful[results.node, label] = results.evidence(label, useful.get(label))
        for memory_item in useful.values():
            self.natives[memory_item.item] = results.natives[memory_item.item]
            frames = results.frames.get(memory_item.item, {})
            kept = self.frames.setdefault(memory_item.item, {}) if frames else {}
            for moment in memory_item.seconds:
                kept[moment] = _shrink(frames[moment], self.options.frame_pixels)

    def _candidates(self, parents: Sequence[str] | None) -> list[EvidenceCandidate]:
        """Return all that could be evidence, the newest node first, and by priority within a node."""
        nodes = self.graph.nodes if parents is None else self.graph.ancestors(parents)
        candidates: list[EvidenceCandidate] = []
        for node in reversed(nodes):
            if node == self.graph.pending:
                for label in self.results.labels:
                    candidates += self.results.evidence(label, None)
                continue
            priorities = {memory_item.label: memory_item.priority for memory_item in node.memory}
            labels = [label for id, label in self.useful if id == node.id]
            ranked = [(priorities.get(label, _TEXT_WORTH), label) for label in labels]
            for _, label in sorted(ranked, key=itemgetter(0), reverse=True):  # of equal ones the first
                candidates += self.useful[node.id, label]
        return candidates

    def _recall(self) -> Allotment:
        """Draw the items that memory shows, without those that can no longer be opened."""
        while True:
            allotment = recall(self.graph, self.natives, self.options, self.environment.profile)
            drawn: dict[_Key, tuple[Picture, ...]] = {}
            for placed in _by_node(allotment):
                try:
                    drawn[placed.entry.item, placed.entry.region] = self._draw(placed)
                except (SearchError, CollectionError) as error:
                    self.environment.unopened(error)
                    del self.natives[placed.entry.item]
                    break
            else:
                self.remembered = drawn
                entries = [placed.entry for placed in allotment.shown]
                self.ranked = tuple(
                    ((entry.item, entry.region), f"{entry.label} of {entry.node}") for entry in entries
                )
                return allotment

    def _draw(self, placed: Placed[Remembered]) -> tuple[Picture, ...]:
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


def _memory_entry(
    entry: Remembered, seconds: tuple[float, ...], size: Size | None = None, tokens: int = 0, reason: str = ""
) -> MemoryEntry:
    width, height = size or (0, 0)
    return MemoryEntry(
        node=entry.node,
        label=entry.label,
        item=entry.item,
        energy=entry.energy,
        seconds=seconds,
        width=width,
        height=height,
        tokens=tokens,
        reason=reason,
    )


def _by_node(allotment: Allotment) -> list[Placed[Remembered]]:
    return sorted(allotment.shown, key=lambda placed: (placed.entry.order, placed.entry.position))


def _shrink(frame: Image, pixels: int) -> Image:
    """Return a frame with no more pixels than it will ever be shown with."""
    by = math.sqrt(pixels / (frame.width * frame.height))
    return frame if by >= 1 else frame.resize((round(frame.width * by), round(frame.height * by)))
