"""What VimRAG can do in a turn, and the grammar in which a model says it.

A reply is `<think>…</think>` followed by exactly one `<tool_call>{"name": …, "arguments": …}</tool_call>`
(VimRAG, arXiv 2602.12735). `parse_call` takes any text and never raises; `render_call` is its inverse for
every call that can be constructed. Whether a call fits the graph is the graph's to say
(`vrag.agent.memory.memory_graph`), what it shows the environment's.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vrag.agent.actions import ABSTENTION, NAME, Flag, Invalid, Turn
from vrag.agent.replies import tool_arguments
from vrag.agent.replies.json_repairs import read_damaged_json
from vrag.agent.replies.tool_envelope import json_object, read_envelope

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

__all__ = [
    "TOOLS",
    "AnswerNode",
    "Call",
    "CropNode",
    "KnownNodes",
    "Memorize",
    "Note",
    "SearchNode",
    "ToolNode",
    "call_of",
    "completed",
    "parse_call",
    "render_call",
    "unknown_tool",
]

_SEARCH, _MEMORIZE = "add_search_node", "summarize_and_memorize"
_ANSWER, _CROP = "add_answer_node", "add_crop_node"
TOOLS = (_SEARCH, _MEMORIZE, _CROP, _ANSWER)
"""Names of the tools of VimRAG; no action of others may have one of them."""
_PARENT_NAMES = ("parent_id", "parents", "parent")
_MIDDLE = 3
"""Of 1 to 5: the score of what is called useful without one."""


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
        if not tool_arguments.LABEL.fullmatch(self.information):
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
        if not tool_arguments.LABEL.fullmatch(self.information):
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
    if node == "root" or not _reads_as(tool_arguments.identifier, node, node):
        raise ValueError("the id must be 1 to 64 letters, digits, _ or -, and not root")
    _check_parents(parents)


def _check_parents(parents: tuple[str, ...]) -> None:
    if not _reads_as(tool_arguments.identifiers, list(parents), parents):
        raise ValueError("parent_ids must be ids of nodes, at least one and each once")


def _check_text(name: str, text: str) -> None:
    if not _reads_as(tool_arguments.text, text, text):
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


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """What a reply may leave out, since it is known when it comes."""

    nodes: tuple[str, ...]
    """Ids of the nodes of the graph, the newest last."""
    labels: tuple[str, ...] = ()
    """Of the results that wait to be summarised."""

    def named(self, parents: tuple[str, ...]) -> tuple[str, ...]:
        """The nodes that are meant; what differs in case alone from one node means that one."""
        return tuple(dict.fromkeys(map(self._named, parents)))

    def _named(self, parent: str) -> str:
        alike = [node for node in self.nodes if node.casefold() == parent.casefold()]
        return alike[0] if parent not in self.nodes and len(alike) == 1 else parent


def _call(given: dict[str, object], names: frozenset[str]) -> Call | Invalid:
    if isinstance(wrapped := given.get("function"), dict):
        given = tool_arguments.mapping(cast("object", wrapped))
    name = given.get("name")
    if not isinstance(name, str) or name.strip() not in names:
        return unknown_tool(name, names)
    return call_of(name.strip(), given.get("arguments", given.get("parameters")))


def unknown_tool(name: object, names: frozenset[str]) -> Invalid:
    """The error for an unknown tool."""
    said = (
        "The tool call has no name"
        if name is None
        else f"There is no tool {tool_arguments.shortened(str(name))}"
    )
    return Invalid(f"{said}; the tools are {', '.join(_in_order(names))}.")


def call_of(
    name: str, arguments: object, known: KnownNodes | None = None, repairs: list[str] | None = None
) -> Call | Invalid:
    """The call of a tool; never raises.

    Args:
        name: Of the tool; there is one of this name.
        arguments: What the model wrote for them, any JSON value.
        known: With it, what breaks the schema and is clear is read all the same.
        repairs: Takes a phrase for each such repair.
    """
    try:
        given = tool_arguments.Arguments(_object(arguments, known), None if known is None else repairs)
        call = _READERS.get(name, lambda a, k: _tool(name, a, k))(given, known)
        given.finish()
    except ValueError as error:
        return Invalid(f"In {name}, {error}.")
    except RecursionError:
        return Invalid(f"In {name}, an argument is nested too deeply.")
    return call


def completed(turn: Turn[Call], known: KnownNodes) -> Turn[Call]:
    """A call with what it leaves out and what is known: results without an entry are not useful."""
    match turn.action:
        case Memorize(summary, notes):
            named = {note.information for note in notes}
            left_out = [label for label in known.labels if label not in named]
            if not left_out:
                return turn
            more = tuple(Note(label, useful=False) for label in left_out)
            repair = f"memorize has no entry for {', '.join(left_out)}; read as not useful"
            return _mended(turn, Memorize(summary, (*notes, *more)), repair)
        case SearchNode() | AnswerNode() | CropNode() | ToolNode() as call:
            parents = known.named(call.parents)
            if parents == call.parents:
                return turn
            repair = f"parent_ids differ from ids of nodes in case; read as {', '.join(parents)}"
            return _mended(turn, replace(call, parents=parents), repair)
        case _:
            return turn


def _mended(turn: Turn[Call], call: Call, repair: str) -> Turn[Call]:
    flags, repairs = turn.flags | {Flag.REPAIRED}, (*turn.repairs, repair)
    return Turn(turn.thought, call, turn.executed, flags, repairs)


def _in_order(names: frozenset[str]) -> list[str]:
    return [name for name in TOOLS if name in names] + sorted(names - set(TOOLS))


def _object(value: object, known: KnownNodes | None) -> dict[str, object]:
    """The arguments, which some servers and models send as a JSON text."""
    if isinstance(value, str):
        try:
            value = json_object(value, 0)[0] if known is None else read_damaged_json(value)
        except ValueError as error:
            raise ValueError(f"arguments cannot be read: {error}") from None
    return {} if value is None else tool_arguments.mapping(value)


def _parents(given: tool_arguments.Arguments, known: KnownNodes | None) -> tuple[str, ...]:
    """The parents; where none is named, the newest node."""
    if known is None:
        return given.take("parent_ids", tool_arguments.identifiers)
    value = given.maybe("parent_ids", lambda value: value, None, aliases=_PARENT_NAMES)
    try:
        parents = () if value is None else tool_arguments.repair_identifiers(value)
    except ValueError as error:
        raise ValueError(f"parent_ids {error}") from None
    if not parents:
        given.note(f"parent_ids names no node; read as {known.nodes[-1]}")
        return (known.nodes[-1],)
    try:
        as_written = tool_arguments.identifiers(value) == parents
    except ValueError:
        as_written = False
    if not as_written:
        given.note(f"parent_ids are read as {', '.join(parents)}")
    return parents


def _place(given: tool_arguments.Arguments, known: KnownNodes | None) -> tuple[str, tuple[str, ...]]:
    return given.take("id", tool_arguments.identifier, tool_arguments.repair_identifier), _parents(
        given, known
    )


def _search(given: tool_arguments.Arguments, known: KnownNodes | None) -> SearchNode:
    place = _place(given, known)
    return SearchNode(*place, given.take("query", tool_arguments.text, tool_arguments.repair_text))


def _memorize(given: tool_arguments.Arguments, known: KnownNodes | None) -> Memorize:  # noqa: ARG001 - as the others
    summary = given.take("summarize", tool_arguments.text, tool_arguments.repair_text, aliases=("summary",))
    entries = given.maybe("memorize", tool_arguments.entries, [], tool_arguments.repair_entries)
    return Memorize(summary, tuple(_note(entry, given.repairs) for entry in entries))


def _note(value: object, repairs: list[str] | None) -> Note:
    try:
        given = tool_arguments.Arguments(tool_arguments.mapping(value), repairs)
        label = given.take("information_id", tool_arguments.label)
    except ValueError as error:
        raise ValueError(f"memorize {error}") from None
    try:
        note = _judged(label, given)
        given.finish()
    except ValueError as error:
        raise ValueError(f"memorize for {label}: {error}") from None
    return note


def _judged(label: str, given: tool_arguments.Arguments) -> Note:
    """What is said of a result beyond its label."""
    if not given.take("is_useful", tool_arguments.flag):
        given.ignore("priority_score", "key_timestamp")
        return Note(label, useful=False)
    if given.repairs is None:
        priority = given.take("priority_score", tool_arguments.whole)
        return Note(label, True, priority, given.maybe("key_timestamp", tool_arguments.times, ()))
    score = given.maybe("priority_score", tool_arguments.score, 0, tool_arguments.repair_score)
    if not score:
        given.note(f"priority_score of {label} is missing; read as {_MIDDLE}")
    times = given.maybe("key_timestamp", tool_arguments.seconds, (), tool_arguments.repair_times)
    return Note(label, useful=True, priority=score or _MIDDLE, timestamps=times)


def _answer(given: tool_arguments.Arguments, known: KnownNodes | None) -> AnswerNode:
    parents = _parents(given, known)
    return AnswerNode(parents, given.take("answer", tool_arguments.text, tool_arguments.repair_text))


def _crop(given: tool_arguments.Arguments, known: KnownNodes | None) -> CropNode:
    place = _place(given, known)
    label = given.take("information_id", tool_arguments.label)
    box = given.take(
        "box", tool_arguments.sides, tool_arguments.repair_sides, aliases=tool_arguments.BOX_NAMES
    )
    return CropNode(*place, label, box)


def _tool(name: str, given: tool_arguments.Arguments, known: KnownNodes | None) -> ToolNode:
    place = _place(given, known)
    return ToolNode(*place, name, given.take("text", tool_arguments.text, tool_arguments.repair_text))


_READERS: dict[str, Callable[[tool_arguments.Arguments, KnownNodes | None], Call]] = {
    _SEARCH: _search,
    _MEMORIZE: _memorize,
    _ANSWER: _answer,
    _CROP: _crop,
}
