"""The multimodal memory graph: the steps of the reasoning, their results, and the items remembered.

A directed acyclic graph (VimRAG, arXiv 2602.12735). Edges run from parents to children. A graph is a value:
every change gives another graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from vrag.agent.replies.tool_arguments import MAX_NODE_CHARS, node_id
from vrag.agent.replies.tool_calls import AnswerNode, Call, CropNode, Memorize, SearchNode, ToolNode
from vrag.text.folding import fold_case

ROOT = "root"
"""Id of the node that every graph begins with."""


class NodeKind(StrEnum):
    """The kind of a node."""

    ROOT = "root"
    """The question."""
    SEARCH = "search"
    """A search and what it found."""
    CROP = "crop"
    """A closer look at an item that a node before it holds."""
    TOOL = "tool"
    """A custom tool (`vrag.actions`) and what it gave."""
    ANSWER = "answer"
    """The answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedItem:
    """A visual item among the results of a node, and what the model made of it."""

    label: str
    """The name for the model within its node: `Picture 3`, `Video 1`."""
    item: str
    """Id of the item."""
    position: int
    """Position among the results of its node, from 0."""
    useful: bool = True
    priority: int = 5
    """1 to 5; 0 for what is not useful."""
    region: tuple[float, float, float, float] | None = None
    """The part of the item that was shown, in item pixels; None for the whole."""
    seconds: tuple[float, ...] = ()
    """The frames of a clip that are remembered, in seconds of its video."""
    reviewed: bool = True
    """False for a result from which the model answered without rating it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A step of the reasoning."""

    id: str
    kind: NodeKind
    parents: tuple[str, ...] = ()
    query: str = ""
    """The search query or the input of a tool; the question at the root, the answer at the end."""
    tool: str = ""
    """Name of the custom tool that it ran; empty for every other kind."""
    summary: str | None = None
    """The model's summary of the results; None while there is none."""
    memory: tuple[RememberedItem, ...] = ()
    """Visual results, useful or not; empty while the node is pending."""
    order: int
    """Position in the order of creation, the root being 0."""

    @property
    def pending(self) -> bool:
        """True if its results have not been summarised yet."""
        return self.summary is None


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes in the order of creation; every node comes after its parents, so there are no circles.

    A fault of a change is one sentence that the model can act on. Raises `ValueError` if
    a node does not stand at its order, has the id of another, or comes before a parent.
    """

    nodes: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        ids: set[str] = set()
        for order, node in enumerate(self.nodes):
            if node.order != order or node.id in ids or not ids.issuperset(node.parents):
                raise ValueError(f"node {node.id!r} does not stand where it may in the graph")
            ids.add(node.id)

    @classmethod
    def of(cls, question: str) -> Graph:
        """Return the graph before anything is done: its root."""
        return cls((Node(id=ROOT, kind=NodeKind.ROOT, query=question, summary="", order=0),))

    def node(self, id: str) -> Node:
        """Return the node of this id; raise `ValueError` if there is none."""
        if fault := self._unknown((id,)):
            raise ValueError(fault)
        return next(node for node in self.nodes if node.id == id)

    @property
    def pending(self) -> Node | None:
        """The node whose results have not been summarised; there is one at most."""
        return next((node for node in self.nodes if node.pending), None)

    @property
    def newest(self) -> Node:
        """The node created last."""
        return self.nodes[-1]

    @property
    def answered(self) -> bool:
        """True if the run has ended."""
        return any(node.kind is NodeKind.ANSWER for node in self.nodes)

    def children(self, id: str) -> tuple[Node, ...]:
        """Return the nodes that follow from a node, in order."""
        return tuple(node for node in self.nodes if id in node.parents)

    def ancestors(self, ids: Iterable[str]) -> tuple[Node, ...]:
        """Return these nodes and all that they follow from, in order, each once."""
        wanted = set(ids)
        for node in reversed(self.nodes):
            if node.id in wanted:
                wanted.update(node.parents)
        return tuple(node for node in self.nodes if node.id in wanted)

    def remembered(self, parents: Iterable[str], label: str) -> tuple[Node, RememberedItem]:
        """Return the item that a label means: the useful result of that name in the first parent with one.

        Raises `ValueError` if no parent remembers such a result.
        """
        nodes = [self.node(parent) for parent in parents]
        useful = [(node, memory_item) for node in nodes for memory_item in node.memory if memory_item.useful]
        for node, memory_item in useful:
            if memory_item.label == label:
                return node, memory_item
        kept = ", ".join(f"{memory_item.label} of {node.id}" for node, memory_item in useful) or "nothing"
        raise ValueError(f"No parent remembers {label}; the parents named remember {kept}.")

    def fault_of(self, call: Call, labels: Sequence[str] = ()) -> str | None:
        """Return why a call cannot be carried out; None when it can."""
        match call:
            case SearchNode(node, parents, query):
                return self._fault_of_node(node, parents) or self._fault_of_query(query)
            case ToolNode(node, parents):
                return self._fault_of_node(node, parents)
            case CropNode(node, parents, label, _):
                return self._fault_of_node(node, parents) or self._fault_of_label(parents, label)
            case Memorize():
                return self._fault_of_review(call, labels)
            case AnswerNode(parents, _):
                return self._ended() or self._fault_of_parents(parents)

    def add(self, *, id: str, kind: NodeKind, parents: tuple[str, ...], query: str, tool: str = "") -> Graph:
        """Return the graph with one more node, whose results are to be summarised.

        Raises `ValueError` if that cannot be, with the reason.
        """
        query_fault = self._fault_of_query(query) if kind is NodeKind.SEARCH else None
        if fault := self._fault_of_node(id, parents) or query_fault:
            raise ValueError(fault)
        node = Node(id=id, kind=kind, parents=parents, query=query, tool=tool, order=len(self.nodes))
        return Graph((*self.nodes, node))

    def complete(self, summary: str, memory: tuple[RememberedItem, ...] = ()) -> Graph:
        """Return the graph with the pending node summarised; raise `ValueError` if no node is pending."""
        pending = self.pending
        if pending is None:
            raise ValueError(_NOTHING_PENDING)
        done = replace(pending, summary=summary, memory=memory)
        return Graph(tuple(done if node is pending else node for node in self.nodes))

    def answer(self, parents: tuple[str, ...], text: str, memory: tuple[RememberedItem, ...] = ()) -> Graph:
        """Return the graph with the answer, which ends the run.

        A node that is pending is completed with an empty summary, whether or not it is among the parents.
        Raises `ValueError` if that cannot be, with the reason.
        """
        if fault := self._ended() or self._fault_of_parents(parents):
            raise ValueError(fault)
        whole = self.complete("", memory) if self.pending else self
        order = len(self.nodes)
        taken = {node.id for node in self.nodes}
        name = next(
            name for name in ("answer", *(f"answer_{n}" for n in range(2, order + 3))) if name not in taken
        )
        end = Node(id=name, kind=NodeKind.ANSWER, parents=parents, query=text, summary="", order=order)
        return Graph((*whole.nodes, end))

    def without_answer(self) -> Graph:
        """Return the graph as it was before the answer, with the node that the answer completed."""
        return Graph(tuple(node for node in self.nodes if node.kind is not NodeKind.ANSWER))

    def as_json(self) -> str:
        """Return the graph as the model reads it: one node a line, in order; what is empty is left out.

        A summary of null means that the results are still to be summarised. Equal graphs give equal texts.
        """
        lines: list[str] = []
        for node in self.nodes:
            fields: dict[str, Any] = {
                "id": node.id,
                "kind": node.kind.value,
                "parents": node.parents,
                "query": node.query,
                "tool": node.tool,
                "summary": node.summary,
                "remembered": [memory_item.label for memory_item in node.memory if memory_item.useful],
            }
            content = {name: value for name, value in fields.items() if value or value is None}
            lines.append(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
        return "[" + ",\n".join(lines) + "]"

    def _fault_of_node(self, name: str, parents: tuple[str, ...]) -> str | None:
        if fault := self._ended():
            return fault
        if (pending := self.pending) is not None:
            return (
                f"Node {pending.id} has not been summarised: call summarize_and_memorize for its results "
                "first, or answer."
            )
        if not _is_id(name):
            return f"{name!r} cannot be the id of a node: use 1 to {MAX_NODE_CHARS} characters on one line."
        if any(node.id == name for node in self.nodes):
            return f"There is a node {name} already; give the new one an id of its own."
        return self._fault_of_parents(parents)

    def _ended(self) -> str | None:
        return "The answer has been given; nothing can follow it." if self.answered else None

    def _fault_of_parents(self, parents: tuple[str, ...]) -> str | None:
        if not parents:
            return f'Name at least one parent, such as "{ROOT}" for the question itself.'
        if len(set(parents)) != len(parents):
            return "Name every parent once."
        return self._unknown(parents)

    def _unknown(self, ids: Iterable[str]) -> str | None:
        known = [node.id for node in self.nodes]
        if unknown := [id for id in ids if id not in known]:
            return f"There is no node {unknown[0]!r}; the nodes are {', '.join(known)}."
        return None

    def _fault_of_query(self, query: str) -> str | None:
        words = _words(query)
        for node in self.nodes:
            if node.kind is NodeKind.SEARCH and _words(node.query) == words:
                return f"Node {node.id} has searched for that already: ask for something else, or answer."
        return None

    def _fault_of_label(self, parents: tuple[str, ...], label: str) -> str | None:
        try:
            self.remembered(parents, label)
        except ValueError as error:
            return str(error)
        return None

    def _fault_of_review(self, call: Memorize, labels: Sequence[str]) -> str | None:
        if self.pending is None:
            return self._ended() or _NOTHING_PENDING
        named = [note.information for note in call.notes]
        if unknown := [label for label in named if label not in labels]:
            returned = f"the results are {', '.join(labels)}" if labels else "nothing was returned"
            return f"{self.pending.id} returned no {unknown[0]}; {returned}."
        if missing := [label for label in labels if label not in named]:
            return f"memorize must have an entry for every result; {', '.join(missing)} is missing."
        return None


_NOTHING_PENDING = "No results are waiting to be summarised; search first, or answer."


def _is_id(name: str) -> bool:
    try:
        return node_id(name) == name
    except ValueError:
        return False


def _words(query: str) -> frozenset[str]:
    """Return the words of a query in a form in which equal questions are equal.

    Case, punctuation, order and repetition do not count; any other word does. This refuses what is surely
    the same and nothing else: "fare 2022" and "fare 2023" differ, and so do "fares" and "the fares".
    """
    plain = fold_case(query)
    return frozenset(re.findall(r"\w+", plain)) or frozenset(plain.split())
