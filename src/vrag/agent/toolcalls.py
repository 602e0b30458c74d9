"""What VimRAG can do in a turn, and the grammar in which a model says it.

A reply is `<think>…</think>` followed by exactly one `<tool_call>{"name": …, "arguments": …}</tool_call>`
(VimRAG, arXiv 2602.12735). `parse_call` takes any text and never raises; `render_call` is its inverse for
every call that can be constructed. Whether a call fits the graph is the graph's to say
(`vrag.agent.graph`), what it shows the environment's.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vrag.agent import toolargs
from vrag.agent.actions import ABSTENTION, NAME, Invalid, Turn
from vrag.agent.toolenvelope import json_object, read_envelope

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

__all__ = [
    "TOOLS",
    "AnswerNode",
    "Call",
    "CropNode",
    "Memorize",
    "Note",
    "SearchNode",
    "ToolNode",
    "parse_call",
    "render_call",
]

_SEARCH, _MEMORIZE = "add_search_node", "summarize_and_memorize"
_ANSWER, _CROP = "add_answer_node", "add_crop_node"
TOOLS = (_SEARCH, _MEMORIZE, _CROP, _ANSWER)
"""Names of the tools of VimRAG; no action of others may have one of them."""


@dataclass(frozen=True, slots=True)
class SearchNode:
    """Make a node and look for what it asks.

    Raises:
        ValueError: If an id cannot be one, there are no parents or one of them twice, or the query is
            empty or not stripped.
    """

    id: str
    parents: tuple[str, ...]
    query: str

    def __post_init__(self) -> None:
        _check_place(self.id, self.parents)
        _check_text("query", self.query)


@dataclass(frozen=True, slots=True)
class Note:
    """What the model makes of one result.

    Raises:
        ValueError: If the label is none, the priority of what is useful is outside 1 to 5, a time is not
            finite or under 0, or what is not useful has a priority or times.
    """

    information: str
    """Label of the result: `Text 1`, `Picture 3`, `Video 1`."""
    useful: bool
    priority: int = 0
    """1 to 5; 0 for what is not useful."""
    timestamps: tuple[float, ...] = ()
    """Of a video: the seconds that matter."""

    def __post_init__(self) -> None:
        if not toolargs.LABEL.fullmatch(self.information):
            raise ValueError('information_id must be a label such as "Text 1", "Picture 3" or "Video 1"')
        if not self.useful and (self.priority or self.timestamps):
            raise ValueError(f"{self.information} is not useful: it has no priority and no times")
        if self.useful and self.priority not in range(1, 6):
            raise ValueError(f"priority_score of {self.information} must be a whole number from 1 to 5")
        if not all(math.isfinite(time) and time >= 0 for time in self.timestamps):
            raise ValueError(f"key_timestamp of {self.information} must hold seconds from 0")


@dataclass(frozen=True, slots=True)
class Memorize:
    """Complete the pending node: what its results say, and which of them to keep.

    Raises:
        ValueError: If the summary is empty or not stripped, or a result is named twice.
    """

    summary: str
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        _check_text("summarize", self.summary)
        labels = [note.information for note in self.notes]
        if twice := next((label for at, label in enumerate(labels) if label in labels[:at]), None):
            raise ValueError(f"memorize names {twice} twice")


@dataclass(frozen=True, slots=True)
class AnswerNode:
    """End the run.

    Raises:
        ValueError: If there are no parents or one of them twice, or the text is empty or not stripped.
    """

    parents: tuple[str, ...]
    text: str

    def __post_init__(self) -> None:
        _check_parents(self.parents)
        _check_text("answer", self.text)

    @property
    def abstains(self) -> bool:
        """Whether it says that the documents do not hold an answer."""
        return self.text.rstrip(".").casefold() == ABSTENTION.casefold()


@dataclass(frozen=True, slots=True)
class CropNode:
    """Make a node whose result is a part of what a parent remembers, enlarged.

    Raises:
        ValueError: As for `SearchNode`, and if the label is none or a side of the box is not finite.
    """

    id: str
    parents: tuple[str, ...]
    information: str
    """Label of what to look at, in a parent."""
    box: tuple[float, float, float, float]
    """In the coordinate space of the model's profile."""

    def __post_init__(self) -> None:
        _check_place(self.id, self.parents)
        if not toolargs.LABEL.fullmatch(self.information):
            raise ValueError('information_id must be a label such as "Picture 3"')
        if not all(math.isfinite(side) for side in self.box):
            raise ValueError("the box holds a number that is not finite")


@dataclass(frozen=True, slots=True)
class ToolNode:
    """Make a node with what an action of others gives (`vrag.actions`).

    Raises:
        ValueError: As for `SearchNode`, and if the name cannot be that of an action.
    """

    id: str
    parents: tuple[str, ...]
    name: str
    text: str

    def __post_init__(self) -> None:
        _check_place(self.id, self.parents)
        if not NAME.fullmatch(self.name) or self.name in TOOLS:
            raise ValueError(f"{self.name!r} cannot be the name of an action")
        _check_text("text", self.text)


Call = SearchNode | Memorize | AnswerNode | CropNode | ToolNode
"""What `render_call` writes and `parse_call` reads."""


def _check_place(node: str, parents: tuple[str, ...]) -> None:
    if node == "root" or not _reads_as(toolargs.identifier, node, node):
        raise ValueError("the id must be 1 to 64 letters, digits, _ or -, and not root")
    _check_parents(parents)


def _check_parents(parents: tuple[str, ...]) -> None:
    if not _reads_as(toolargs.identifiers, list(parents), parents):
        raise ValueError("parent_ids must be ids of nodes, at least one and each once")


def _check_text(name: str, text: str) -> None:
    if not _reads_as(toolargs.text, text, text):
        raise ValueError(f"{name} must be a text without white space around it")


def _reads_as(read: Callable[[object], T], written: object, meant: T) -> bool:
    try:
        return read(written) == meant
    except ValueError:
        return False


def render_call(call: Call) -> str:
    """The call in the grammar.

    >>> render_call(SearchNode("fares", ("root",), "ferry fares"))
    '<tool_call>{"name": "add_search_node", "arguments": {"id": "fares", "parent_ids": ["root"], "query": "ferry fares"}}</tool_call>'
    """  # noqa: E501
    name, arguments = _arguments(call)
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    # Only texts hold a <; as an escape it can be part of no tag.
    return f"<tool_call>{written.replace('<', chr(92) + 'u003c')}</tool_call>"


def _arguments(call: Call) -> tuple[str, dict[str, Any]]:
    match call:
        case SearchNode(node, parents, query):
            return _SEARCH, {"id": node, "parent_ids": parents, "query": query}
        case Memorize(summary, notes):
            return _MEMORIZE, {"summarize": summary, "memorize": [_entry(note) for note in notes]}
        case AnswerNode(parents, text):
            return _ANSWER, {"parent_ids": parents, "answer": text}
        case CropNode(node, parents, information, box):
            return _CROP, {"id": node, "parent_ids": parents, "information_id": information, "box": box}
        case ToolNode(node, parents, name, text):
            return name, {"id": node, "parent_ids": parents, "text": text}


def _entry(note: Note) -> dict[str, Any]:
    return {
        "information_id": note.information,
        "is_useful": note.useful,
        "key_timestamp": note.timestamps,
        "priority_score": note.priority,
    }


def parse_call(reply: str, tools: frozenset[str] = frozenset(), *, crop: bool = True) -> Turn[Call]:
    """Takes any text apart; never raises.

    The first complete tool call outside think blocks is the call. A reply that starts in the middle of a
    thought is understood, and so is a bare JSON object in place of a tool call, and a tool call that lacks
    nothing but its closing tag.

    Args:
        reply: What the model wrote.
        tools: Names of the actions of others.
        crop: Whether `add_crop_node` is offered.

    >>> parse_call("no idea").action
    Invalid(reason='The reply contains no complete tool call.')
    """
    said = read_envelope(reply)
    names = frozenset({*TOOLS, *tools}) - (frozenset() if crop else {_CROP})
    action = Invalid(said.fault) if said.call is None else _call(said.call, names)
    return Turn(said.thought, action, reply[: said.end], said.flags)


def _call(given: dict[str, object], names: frozenset[str]) -> Call | Invalid:
    if isinstance(wrapped := given.get("function"), dict):
        given = toolargs.mapping(cast("object", wrapped))
    name = given.get("name")
    if not isinstance(name, str) or name.strip() not in names:
        said = (
            "The tool call has no name"
            if name is None
            else f"There is no tool {toolargs.shortened(str(name))}"
        )
        return Invalid(f"{said}; the tools are {', '.join(_in_order(names))}.")
    name = name.strip()
    try:
        arguments = toolargs.Arguments(_object(given.get("arguments", given.get("parameters"))))
        call = _READERS.get(name, lambda a: _tool(name, a))(arguments)
        arguments.finish()
    except ValueError as error:
        return Invalid(f"In {name}, {error}.")
    return call


def _in_order(names: frozenset[str]) -> list[str]:
    return [name for name in TOOLS if name in names] + sorted(names - set(TOOLS))


def _object(value: object) -> dict[str, object]:
    """The arguments, which some servers and models send as a JSON text."""
    if isinstance(value, str):
        try:
            value = json_object(value, 0)[0]
        except ValueError as error:
            raise ValueError(f"arguments cannot be read: {error}") from None
    return {} if value is None else toolargs.mapping(value)


def _search(given: toolargs.Arguments) -> SearchNode:
    place = given.take("id", toolargs.identifier), given.take("parent_ids", toolargs.identifiers)
    return SearchNode(*place, given.take("query", toolargs.text))


def _memorize(given: toolargs.Arguments) -> Memorize:
    summary = given.take("summarize", toolargs.text)
    return Memorize(summary, given.maybe("memorize", _notes, ()))


def _notes(value: object) -> tuple[Note, ...]:
    return tuple(_note(toolargs.mapping(entry)) for entry in toolargs.entries(value))


def _note(value: dict[str, object]) -> Note:
    given = toolargs.Arguments(value)
    label = given.take("information_id", toolargs.label)
    try:
        useful = given.take("is_useful", toolargs.flag)
        if useful:
            priority = given.take("priority_score", toolargs.whole)
            note = Note(label, useful, priority, given.maybe("key_timestamp", toolargs.times, ()))
        else:
            given.ignore("priority_score", "key_timestamp")
            note = Note(label, useful)
        given.finish()
    except ValueError as error:
        raise ValueError(f"for {label}: {error}") from None
    return note


def _answer(given: toolargs.Arguments) -> AnswerNode:
    return AnswerNode(given.take("parent_ids", toolargs.identifiers), given.take("answer", toolargs.text))


def _crop(given: toolargs.Arguments) -> CropNode:
    place = given.take("id", toolargs.identifier), given.take("parent_ids", toolargs.identifiers)
    return CropNode(*place, given.take("information_id", toolargs.label), given.take("box", toolargs.sides))


def _tool(name: str, given: toolargs.Arguments) -> ToolNode:
    place = given.take("id", toolargs.identifier), given.take("parent_ids", toolargs.identifiers)
    return ToolNode(*place, name, given.take("text", toolargs.text))


_READERS: dict[str, Callable[[toolargs.Arguments], Call]] = {
    _SEARCH: _search,
    _MEMORIZE: _memorize,
    _ANSWER: _answer,
    _CROP: _crop,
}
