"""Demonstrations on synthetic cases: the grammar always, the right thing as often as is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from vrag.agent.actions import Answer, Search, render
from vrag.agent.policy import Delta, Enclosed, Picture, Reply
from vrag.agent.toolcalls import AnswerNode, Memorize, Note, SearchNode, render_call
from vrag.synthesis.words import COLOURS, WORDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from vrag.agent.policy import Message
    from vrag.types import Case

__all__ = ["Demonstrator", "names_in"]

_NAMES = re.compile(r'"([^"]+)"')


def names_in(question: str) -> list[str]:
    """The names that stand in quotes in a question, in order.

    >>> names_in('colours of "amber harbour" and "calm river" ?')
    ['amber harbour', 'calm river']
    """
    return _NAMES.findall(question)


@dataclass(slots=True)
class Demonstrator:
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
    unseen: dict[str, str] = field(init=False, default_factory=dict[str, str])
    """What it says in place of a turn whose search found nothing."""

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

        It knows beforehand what it does, and looks only whether there is a picture to remember.
        """
        text = self.script[min(turn, len(self.script)) - 1]
        if not any(isinstance(part, Picture | Enclosed) for message in history[-1:] for part in message.parts):
            text = self.unseen.get(text, text)
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
        for name, colour in zip(wanted, colours, strict=True):
            if self.random.random() < self.detours:
                said += self._node(
                    self._any_name(), self._any_colour(), useful=False, number=len(said) // 2 + 1
                )
            number = len(said) // 2 + 1
            said += self._node(self._name(name), self._colour(colour), useful=True, number=number)
            kept.append(f"n{number}")
        answer = AnswerNode(tuple(kept), " ".join(map(self._colour, colours)))
        return [*said, f"<think>answer</think>{render_call(answer)}"]

    def _node(self, name: str, colour: str, *, useful: bool, number: int) -> list[str]:
        note = Note("Picture 1", useful, 5 if useful else 0)
        search = SearchNode(f"n{number}", ("root",), name)
        look, blind = (
            f"<think>look</think>{render_call(Memorize(colour, notes))}" for notes in ((note,), ())
        )
        self.unseen[look] = blind
        return [f"<think>search</think>{render_call(search)}", look]

    def _name(self, right: str) -> str:
        return right if self.random.random() < self.searching else self._any_name()

    def _colour(self, right: str) -> str:
        return right if self.random.random() < self.reading else self._any_colour()

    def _any_name(self) -> str:
        return " ".join(map(self.random.choice, self.names))

    def _any_colour(self) -> str:
        return self.random.choice(self.colours)
