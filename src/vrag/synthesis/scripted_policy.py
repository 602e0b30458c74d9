"""Demonstrations on synthetic cases: the grammar always, the right thing as often as is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from vrag.agent.actions import Answer, Search, render
from vrag.agent.policy import Delta, EnclosedImage, Picture, Reply
from vrag.agent.replies.tool_calls import AnswerNode, Memorize, Note, SearchNode, render_call
from vrag.synthesis.vocabulary import COLOURS, WORDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.agent.policy import Message
    from vrag.types import Case

__all__ = ["ScriptedDemonstrator", "names_in"]

_DRAWS = 100
"""Names that are drawn at most until one is new."""
_NAMES = re.compile(r'"([^"]+)"')


def names_in(question: str) -> list[str]:
    """The names that stand in quotes in a question, in order.

    >>> names_in('colours of "amber harbour" and "calm river" ?')
    ['amber harbour', 'calm river']
    """
    return _NAMES.findall(question)


@dataclass(slots=True)
class ScriptedDemonstrator:
    """A `Policy` for one run on a case of `emblem` or `emblem_pair`, whose names stand in quotes.

    It does the right thing as often as it is skilled, and else as anybody might who has only heard of the
    grammar: it looks for a name at random, or says a colour at random. Without skills it teaches the format
    and nothing else.
    """

    case: Case
    random: Random
    searching: float = 0.0
    """With which probability it looks for the right name."""
    reading: float = 0.0
    """With which probability it says the right colour."""
    graph: bool = False
    """Whether it speaks the grammar of VimRAG; else that of VRAG."""
    detours: float = 0.0
    """With which probability it looks for something else first, before each name."""
    names: tuple[Sequence[str], Sequence[str]] = (WORDS.first, WORDS.second)
    """Words that names begin and end with."""
    colours: tuple[str, ...] = tuple(COLOURS)
    script: list[str] = field(init=False)
    looks: dict[str, tuple[str, bool]] = field(init=False, default_factory=dict[str, "tuple[str, bool]"])
    """Colour and use of what is remembered, by the turn that says so of a single picture."""

    def __post_init__(self) -> None:
        wanted = names_in(self.case.query)
        colours = self.case.reference_answer.split()
        self.script = list((self._graph if self.graph else self._linear)(wanted, colours))

    @property
    def name(self) -> str:
        """How it is called in run files."""
        return "demonstrator"

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """How skilled it is."""
        return {"searching": self.searching, "reading": self.reading, "detours": self.detours}

    async def reply(
        self,
        history: Sequence[Message],
        turn: int = 1,
    ) -> AsyncGenerator[Delta | Reply, None]:
        """The next turn of its script; the last one again when that has ended.

        It knows beforehand what it does, and looks only how many pictures there are to remember.
        """
        text = self.script[min(turn, len(self.script)) - 1]
        if text in self.looks:
            pictures = (part for message in history[-1:] for part in message.parts)
            text = _look(
                *self.looks[text], sum(isinstance(part, Picture | EnclosedImage) for part in pictures)
            )
        yield Delta(text)
        yield Reply(text)

    async def aclose(self) -> None:
        """Holds nothing."""

    def _linear(self, wanted: Sequence[str], colours: Sequence[str]) -> list[str]:
        said: list[str] = []
        for name in wanted:
            if self.random.random() < self.detours:
                said.append(f"<think>search</think>{render(Search(self._any_name()))}")
            said.append(f"<think>search</think>{render(Search(self._name(name)))}")
        answer = " ".join(map(self._colour, colours))
        return [*said, f"<think>answer</think>{render(Answer(answer))}"]

    def _graph(self, wanted: Sequence[str], colours: Sequence[str]) -> list[str]:
        said: list[str] = []
        kept: list[str] = []
        asked = set[str]()
        for name, colour in zip(wanted, colours, strict=True):
            if self.random.random() < self.detours:
                other = self._new(self._any_name(), asked | set(wanted))
                said += self._node(other, self._any_colour(), useful=False, number=len(said) // 2 + 1)
                asked.add(other)
            number, sought = len(said) // 2 + 1, self._new(self._name(name), asked)
            said += self._node(sought, self._colour(colour), useful=True, number=number)
            asked.add(sought)
            kept.append(f"n{number}")
        answer = AnswerNode(tuple(kept), " ".join(map(self._colour, colours)))
        return [*said, f"<think>answer</think>{render_call(answer)}"]

    def _node(self, name: str, colour: str, *, useful: bool, number: int) -> list[str]:
        search = SearchNode(f"n{number}", ("root",), name)
        look = _look(colour, useful, 1)
        self.looks[look] = colour, useful
        return [f"<think>search</think>{render_call(search)}", look]

    def _new(self, name: str, asked: AbstractSet[str]) -> str:
        """The name, or another where that was looked for: the graph refuses to search twice for the same."""
        for _ in range(_DRAWS):
            if name not in asked:
                break
            name = self._any_name()
        return name

    def _name(self, right: str) -> str:
        return right if self.random.random() < self.searching else self._any_name()

    def _colour(self, right: str) -> str:
        return right if self.random.random() < self.reading else self._any_colour()

    def _any_name(self) -> str:
        return " ".join(map(self.random.choice, self.names))

    def _any_colour(self) -> str:
        return self.random.choice(self.colours)


def _look(colour: str, useful: bool, pictures: int) -> str:
    """The turn that completes a node: every picture has its note, and only the first may be of use."""
    notes = (
        Note(f"Picture {number}", useful and number == 1, 5 if useful and number == 1 else 0)
        for number in range(1, pictures + 1)
    )
    return f"<think>look</think>{render_call(Memorize(colour, tuple(notes)))}"
