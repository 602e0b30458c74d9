"""A policy that demonstrates runs on synthetic cases: always the grammar, and as skilled as asked for."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from random import Random

from vrag.agent.actions import Answer, Search, UseTool, render
from vrag.agent.environment import SELECT
from vrag.agent.policy import Delta, EnclosedImage, Message, Picture, Reply, Role, Text
from vrag.agent.prompts import asks_for_citations
from vrag.agent.replies.tool_calls import AnswerNode, Memorize, Note, SearchNode, render_call
from vrag.synthesis.sampling import COLOURS, WORDS
from vrag.types import Case

MAX_DRAWS = 100
"""Of names, until one is new."""
_NAMES = re.compile(r'"([^"]+)"')


def names_in(question: str) -> list[str]:
    """List the names that stand in quotes in a question, in order.

    >>> names_in('colours of "amber harbour" and "calm river" ?')
    ['amber harbour', 'calm river']
    """
    return _NAMES.findall(question)


@dataclass(slots=True)
class ScriptedDemonstrator:
    """A `Policy` for one run on a case of `emblem` or `emblem_pair`, whose names stand in quotes.

    It acts rightly with the probabilities below, and else as somebody might who knows only the grammar: it
    searches for a random name, or answers with a random colour. Without skills it teaches the format alone.
    Where the instruction asks for citations, each colour cites its page if that was shown, and else what the
    search for its name has shown.
    """

    case: Case
    random: Random
    searching: float = 0.0
    """Probability that it searches for the right name."""
    reading: float = 0.0
    """Probability that it answers with the right colour."""
    graph: bool = False
    """True if it writes the grammar of VimRAG; else that of VRAG."""
    detours: float = 0.0
    """Probability that it searches for something else first, before each name."""
    selecting: float = 0.0
    """Probability that it selects a gold page where one was shown."""
    selects: bool = False
    """True if it selects a page after each search (VRAG)."""
    labelled: bool = True
    """True if pages are selected by the numbers of their pictures; False by their positions, from 0."""
    names: tuple[Sequence[str], Sequence[str]] = (WORDS.first, WORDS.second)
    """First and second words of names."""
    colours: tuple[str, ...] = tuple(COLOURS)
    pages: tuple[str, ...] = ()
    """Ids of the pages that show the colours, in their order; empty where they are not known."""
    script: list[str] = field(init=False)
    answer: list[str] = field(init=False, default_factory=list[str])
    """The colours that it answers."""
    sources: list[int] = field(init=False, default_factory=list[int])
    """The turn whose search found each of them."""
    looks: dict[str, tuple[str, bool]] = field(init=False, default_factory=dict[str, "tuple[str, bool]"])
    """Colour and usefulness of a memory, by the turn that notes it for a single image."""

    def __post_init__(self) -> None:
        names, colours = names_in(self.case.query), self.case.reference_answer.split()
        write_script = self._graph_script if self.graph else self._linear_script
        self.script = write_script(names, colours)

    @property
    def name(self) -> str:
        """Its name in run files."""
        return "demonstrator"

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """Its skills."""
        skills = {"searching": self.searching, "reading": self.reading, "detours": self.detours}
        return {**skills, "selecting": self.selecting} if self.selects else skills

    async def reply(
        self,
        history: Sequence[Message],
        turn: int = 1,
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Write the next turn of the script; the last one again when it has ended.

        The script is fixed; only the page to select and the images to remember and to cite are read from the
        history.
        """
        text = self.script[min(turn, len(self.script)) - 1]
        instruction = history[0].parts[0] if history else None
        if (
            turn >= len(self.script)
            and isinstance(instruction, Text)
            and asks_for_citations(instruction.text)
        ):
            text = self._write_answer(self._find_sources(history))
        if text == SELECT:
            text = f"<think>select</think>{render(UseTool(SELECT, self._pick_page(history)))}"
        elif text in self.looks:
            parts = (part for message in history[-1:] for part in message.parts)
            images = sum(isinstance(part, Picture | EnclosedImage) for part in parts)
            text = _render_look(*self.looks[text], images)
        yield Delta(text)
        yield Reply(text)

    async def aclose(self) -> None:
        """Do nothing: it holds no resources."""

    def _linear_script(self, names: Sequence[str], colours: Sequence[str]) -> list[str]:
        turns: list[str] = []
        for name in names:
            if self.random.random() < self.detours:
                turns.append(f"<think>search</think>{render(Search(self._any_name()))}")
            turns.append(f"<think>search</think>{render(Search(self._pick_name(name)))}")
            self.sources.append(len(turns))
            if self.selects:
                turns.append(SELECT)
        self.answer = [*map(self._pick_colour, colours)]
        return [*turns, self._write_answer()]

    def _pick_page(self, history: Sequence[Message]) -> str:
        """Return the number of a page of the last message: a gold one, or any."""
        shown = [part for message in history[-1:] for part in message.parts if isinstance(part, Picture)]
        numbers = {(page.number if self.labelled else at): page.item for at, page in enumerate(shown)}
        right = [number for number, item in numbers.items() if item in self.pages]
        is_skilled = self.random.random() < self.selecting
        return str(self.random.choice(right if is_skilled and right else list(numbers) or [0]))

    def _graph_script(self, names: Sequence[str], colours: Sequence[str]) -> list[str]:
        turns: list[str] = []
        searched = set[str]()
        for name, colour in zip(names, colours, strict=True):
            if self.random.random() < self.detours:
                other = self._unused_name(self._any_name(), searched | set(names))
                turns += self._node(other, self.random.choice(self.colours), False, len(turns) // 2 + 1)
                searched.add(other)
            number, query = len(turns) // 2 + 1, self._unused_name(self._pick_name(name), searched)
            turns += self._node(query, self._pick_colour(colour), True, number)
            searched.add(query)
            self.sources.append(2 * number - 1)
        self.answer = [*map(self._pick_colour, colours)]
        return [*turns, self._write_answer()]

    def _write_answer(self, sources: Sequence[str] = ()) -> str:
        """Write the last turn; `sources` are the markers of the colours, empty for one without a source."""
        text = " ".join(map(" ".join, zip(self.answer, sources, strict=True)) if sources else self.answer)
        if self.graph:
            parents = tuple(map(_node_id, self.sources))
            return f"<think>answer</think>{render_call(AnswerNode(parents, text.strip()))}"
        return f"<think>answer</think>{render(Answer(text.strip()))}"

    def _find_sources(self, history: Sequence[Message]) -> list[str]:
        """Return the markers of the colours; empty for one whose search has shown nothing."""
        if self.graph:
            return [f"[{_node_id(turn)}]" for turn in self.sources]
        shown = [_list_images(message) for message in history if message.role is Role.USER]
        numbers = {image.item: f"[{image.number}]" for images in shown for image in images}
        found = [f"[{shown[turn][0].number}]" if shown[turn] else "" for turn in self.sources]
        return [numbers.get(page, own) for page, own in zip(self.pages or found, found, strict=True)]

    def _node(self, name: str, colour: str, useful: bool, number: int) -> list[str]:
        look = _render_look(colour, useful, 1)
        self.looks[look] = colour, useful
        return [f"<think>search</think>{render_call(SearchNode(f'n{number}', ('root',), name))}", look]

    def _unused_name(self, name: str, searched: AbstractSet[str]) -> str:
        """Return the name, or another where it was searched for: the graph refuses the same search twice."""
        for _ in range(MAX_DRAWS):
            if name not in searched:
                break
            name = self._any_name()
        return name

    def _pick_name(self, right: str) -> str:
        return right if self.random.random() < self.searching else self._any_name()

    def _pick_colour(self, right: str) -> str:
        return right if self.random.random() < self.reading else self.random.choice(self.colours)

    def _any_name(self) -> str:
        return " ".join(map(self.random.choice, self.names))


def _node_id(turn: int) -> str:
    """Return the id of the node that the search of a turn makes; each has two turns."""
    return f"n{turn // 2 + 1}"


def _list_images(message: Message) -> list[Picture]:
    return [part for part in message.parts if isinstance(part, Picture)]


def _render_look(colour: str, useful: bool, images: int) -> str:
    """Write the turn that completes a node: every image has its note, and only the first may be of use."""
    notes = (
        Note(f"Picture {number}", useful and number == 1, 5 if useful and number == 1 else 0)
        for number in range(1, images + 1)
    )
    return f"<think>look</think>{render_call(Memorize(colour, tuple(notes)))}"
