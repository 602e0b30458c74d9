"""Policies that do what a diligent model does, drawn by chance from what they are shown: no model is asked.

They keep what each call gave them, so that what an agent shows can be counted.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from vrag.agent.actions import Answer, Crop, Search, render
from vrag.agent.policy import Picture, Reply, Text
from vrag.agent.replies.tool_calls import AnswerNode, CropNode, Memorize, Note, SearchNode, render_call
from vrag.geometry import Box, Space

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

    from vrag.agent.policy import Message, Part
    from vrag.agent.replies.tool_calls import Call
    from vrag.geometry import View
    from vrag.model_profiles import Profile

__all__ = ["GraphLooks", "Looks", "Shown"]

_MIDDLE = Box(0.2, 0.15, 0.8, 0.6, Space.RELATIVE)
"""What is looked at more closely."""
_LABEL = re.compile(r"(?:Text|Picture|Video) \d+")
_SHOWN = re.compile(r"Node (\S+), (Picture \d+):")
_NODE = re.compile(r'"id": ?"([^"]+)"')
_USEFUL, _MOMENTS = 0.6, 4


@dataclass(frozen=True, slots=True)
class Shown:
    """The pictures of one call."""

    memory: tuple[Picture, ...]
    """VimRAG: those that the graph remembers."""
    others: tuple[Picture, ...]
    """VimRAG: fresh results; VRAG: all of them."""


@dataclass(slots=True)
class Looks:
    """VRAG: searches, with a closer look after every second of them, then answers."""

    queries: Sequence[str]
    profile: Profile
    seed: int = 0
    calls: list[Shown] = field(default_factory=list[Shown])
    name: str = "scripted looks"
    sampling: Mapping[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Reply, None]:
        """The next action."""
        pictures = _pictures(part for message in history for part in message.parts)
        self.calls.append(Shown((), pictures))
        yield Reply(f"<think>Next.</think>{render(self._action(turn, pictures))}")

    def _action(self, turn: int, pictures: Sequence[Picture]) -> Search | Crop | Answer:
        looks = [
            step for at, query in enumerate(self.queries, 1) for step in (query, None)[: 1 + (at % 2 == 0)]
        ]
        if turn > len(looks):
            return Answer("48,200")
        query = looks[turn - 1]
        if query is not None or not pictures:
            return Search(query or self.queries[0])
        return Crop(_middle(pictures[-1].view, self.profile))

    async def aclose(self) -> None:
        """Holds nothing."""


@dataclass(slots=True)
class GraphLooks:
    """VimRAG: searches, or looks closer at what it remembers, summarises each, then answers."""

    queries: Sequence[str]
    profile: Profile
    seed: int = 0
    crops: int = 0
    """After every so many searches a closer look; 0 for none."""
    calls: list[Shown] = field(default_factory=list[Shown])
    name: str = "scripted looks"
    sampling: Mapping[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Reply, None]:
        """The next call of a tool. Only the first turn after the instruction shows memory."""
        memory = _pictures(history[1].parts)
        fresh = _pictures(part for message in history[2:] for part in message.parts)
        self.calls.append(Shown(memory, fresh))
        chance = random.Random(f"{self.seed} {turn}")
        yield Reply(f"<think>Next.</think>{render_call(self._call(history, turn, chance))}")

    def _call(self, history: Sequence[Message], turn: int, chance: random.Random) -> Call:
        if turn % 2 == 0:
            return Memorize(f"Turn {turn} found something.", tuple(_notes(history[-1].parts, chance)))
        nodes = _NODE.findall(history[1].text)
        parents = tuple(sorted(chance.sample(nodes, min(len(nodes), chance.randint(1, 2)))))
        looks = self._looks()
        if turn // 2 >= len(looks):
            return AnswerNode(parents, "48,200")
        query, remembered = looks[turn // 2], _in_memory(history[1].parts)
        if query is not None or not remembered:
            return SearchNode(f"look_{turn}", parents, query or f"{self.queries[0]}, once more")
        node, label, picture = chance.choice(remembered)
        return CropNode(f"look_{turn}", (node,), label, _middle(picture.view, self.profile))

    def _looks(self) -> list[str | None]:
        """Queries; None for a closer look."""
        looks: list[str | None] = []
        for number, query in enumerate(self.queries, 1):
            looks.append(query)
            if self.crops and number % self.crops == 0:
                looks.append(None)
        return looks

    async def aclose(self) -> None:
        """Holds nothing."""


def _pictures(parts: Iterable[Part]) -> tuple[Picture, ...]:
    return tuple(part for part in parts if isinstance(part, Picture))


def _middle(view: View, profile: Profile) -> tuple[float, float, float, float]:
    """The middle of a picture, as the model would say it."""
    x1, y1, x2, y2 = profile.sides(view.convert(_MIDDLE, profile.boxes))
    return x1, y1, x2, y2


def _notes(parts: Sequence[Part], chance: random.Random) -> list[Note]:
    """What is made of each result: some are useful, and of a video some moments."""
    labels = dict.fromkeys(_LABEL.findall(next(p.text for p in reversed(parts) if isinstance(p, Text))))
    moments = _moments(parts)
    notes: list[Note] = []
    for label in labels:
        useful = chance.random() < _USEFUL
        seconds = moments.get(label, ()) if useful else ()
        chosen = sorted(chance.sample(seconds, min(len(seconds), chance.randint(1, _MOMENTS))))
        priority = chance.randint(1, 5) if useful else 0
        notes.append(Note(label, useful, priority, tuple(chosen)))
    return notes


def _moments(parts: Sequence[Part]) -> dict[str, list[float]]:
    """Of each video, when its frames are seen."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    label = ""
    for part in parts:
        if isinstance(part, Text):
            named = re.fullmatch(r"(Video \d+):", part.text)
            label = named[1] if named else label
        elif isinstance(part, Picture) and part.seconds is not None:
            found[label].append(part.seconds)
    return found


def _in_memory(parts: Sequence[Part]) -> list[tuple[str, str, Picture]]:
    """Node, label and picture of every page that memory shows."""
    found: list[tuple[str, str, Picture]] = []
    for before, part in pairwise(parts):
        if isinstance(before, Text) and isinstance(part, Picture):
            named = _SHOWN.fullmatch(before.text)
            if named and part.seconds is None:
                found.append((named[1], named[2], part))
    return found
