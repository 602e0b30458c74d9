"""The energy of every item in the memory graph, and the selection of the few that are kept.

VimRAG (arXiv 2602.12735), with what we changed. `vrag.agent.memory.pixel_budget` turns energies into pixels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.memory.memory_graph import Graph, Node, NodeKind, RememberedItem

T = TypeVar("T")


class Propagation(StrEnum):
    """The energy that a node without visual items passes on to its parents."""

    THROUGH = "through"
    """Feedback of its children alone: M = F. Our rule."""
    BLOCKED = "blocked"
    """Nothing: M = 0. The rule of the reference."""


class MemoryOptions(BaseModel):
    """Options of the memory. The same values must stand in training and in serving."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int = Field(default=1280, ge=1, description="Visual tokens of all that is remembered.")
    fresh_tokens: int = Field(default=4096, ge=1, description="Visual tokens of the results of a search.")
    items: int = Field(default=5, ge=1, description="Items that are shown from memory.")
    image_pixels: int = Field(default=1_003_520, ge=1, description="Pixels of a picture at most.")
    frame_pixels: int = Field(default=401_408, ge=1, description="Pixels of a frame of a video at most.")
    frame_tokens: int = Field(default=96, ge=1, description="Visual tokens of a frame of a video at least.")
    """Less than a picture needs. With both sides rounded down it stays above 64 tokens, the least that the
    image processor of Qwen3-VL leaves as it is."""
    frames: int = Field(default=32, ge=1, description="Frames of a clip at most.")
    fps: float = Field(default=1.0, gt=0, description="Frames of a clip per second.")
    feedback: float = Field(
        default=0.3, ge=0, le=100, description="γ: what a child's energy is worth to its parent."
    )
    decay: float = Field(default=0.1, ge=0, le=100, description="λ: how fast energy falls with age.")
    propagation: Propagation = Propagation.THROUGH
    crop_nodes: bool = Field(default=True, description="Whether the model may look closer at an item.")
    """The reference has no such action: False for a checkpoint that was trained without it."""


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of an item of a node."""

    node: Node
    memory_item: RememberedItem
    own: float
    """E: priority, what followed from its node, and age."""
    feedback: float
    """F: what the children of its node are worth to it; the same for every item of the node."""

    @property
    def total(self) -> float:
        """Ω = E + F."""
        return self.own + self.feedback


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An item, or a part of one, that one or more nodes remember."""

    node: str
    """The newest node that does."""
    label: str
    """The label there."""
    order: int
    """Position of that node in the order of creation."""
    position: int
    """Position among the results of that node, from 0."""
    nodes: tuple[str, ...]
    """All nodes that do, in order."""
    item: str
    region: tuple[float, float, float, float] | None = None
    """The part that was shown, in item pixels; None for the whole."""
    seconds: tuple[float, ...] = ()
    """The frames of a clip that any of the nodes remembers, ascending; empty for a picture."""
    energy: float
    """The highest Ω that it has in any of the nodes."""


@dataclass(frozen=True, slots=True)
class Omitted(Generic[T]):
    """An item that is not shown, or frames of it, and the reason."""

    entry: T
    reason: str
    """One sentence for people."""
    seconds: tuple[float, ...] = ()
    """The frames of a clip that are not shown; empty for a picture."""


@dataclass(frozen=True, slots=True)
class MemorySelection:
    """The items that memory is shared among."""

    kept: tuple[Remembered, ...]
    """Highest energy first; of equals, the newer node's, then the earlier result."""
    dropped: tuple[Omitted[Remembered], ...] = ()


def energies(graph: Graph, options: MemoryOptions) -> tuple[Energy, ...]:
    """Return the energy of every useful item, from the newest node to the oldest.

    For item k of node v, created at t, with T the time of the newest node and p̂ its priority / 5
    (VimRAG, arXiv 2602.12735)::

        E(v, k) = p̂ · (1 + outdegree(v)) · exp(−λ · (T − t))
        F(v)    = γ · Σ M(c) over the children c of v
        Ω(v, k) = E(v, k) + F(v)
        M(v)    = mean of Ω(v, ·)      or, without useful items, F(v) (`THROUGH`) or 0 (`BLOCKED`)

    Only children that are completed count, for the out-degree as for F. The answer is no child and no time:
    it ends the run, and nothing is shown after it. T moves all energies by one factor, so that shares
    depend on the ages relative to one another alone.
    """
    steps = [node for node in graph.nodes if node.kind is not NodeKind.ANSWER]
    passed_on: dict[str, float] = {}
    children: defaultdict[str, list[str]] = defaultdict(list)
    all_energies: list[Energy] = []
    for node in reversed(steps):
        followed = children[node.id]
        feedback = options.feedback * math.fsum(passed_on[child] for child in followed)
        age = steps[-1].order - node.order
        grown = (1 + len(followed)) * math.exp(-options.decay * age)
        useful = [
            Energy(node, memory_item, memory_item.priority / 5 * grown, feedback)
            for memory_item in node.memory
            if memory_item.useful
        ]
        all_energies += useful
        if not node.pending:
            if useful:
                passed_on[node.id] = math.fsum(energy.total for energy in useful) / len(useful)
            else:
                passed_on[node.id] = feedback if options.propagation is Propagation.THROUGH else 0.0
            for parent in node.parents:
                children[parent].append(node.id)
    return tuple(all_energies)


def select(graph: Graph, options: MemoryOptions) -> MemorySelection:
    """Return the items of highest energy, each once.

    What two nodes remember is one item, with the higher of its energies and the frames of both; a part of an
    item is another item than the whole or than another part.
    """
    memories: defaultdict[tuple[object, ...], list[Energy]] = defaultdict(list)
    for energy in energies(graph, options):
        memories[energy.memory_item.item, energy.memory_item.region].append(energy)
    entries: list[Remembered] = []
    for same in memories.values():  # the newest node first
        node, memory_item = same[0].node, same[0].memory_item
        entries.append(
            Remembered(
                node=node.id,
                label=memory_item.label,
                order=node.order,
                position=memory_item.position,
                nodes=tuple(dict.fromkeys(energy.node.id for energy in reversed(same))),
                item=memory_item.item,
                region=memory_item.region,
                seconds=tuple(sorted({second for energy in same for second in energy.memory_item.seconds})),
                energy=max(energy.total for energy in same),
            )
        )
    ranked = sorted(entries, key=lambda entry: (-entry.energy, -entry.order, entry.position))
    reason = f"Only the {options.items} items of the highest energy are shown."
    dropped = tuple(Omitted(entry, reason, entry.seconds) for entry in ranked[options.items :])
    return MemorySelection(tuple(ranked[: options.items]), dropped)
