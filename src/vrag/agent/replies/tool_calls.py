"""The tool calls of VimRAG, their text in the grammar, and their schemas.

A reply is `<think>…</think>` followed by exactly one `<tool_call>{"name": …, "arguments": …}</tool_call>`
(VimRAG, arXiv 2602.12735). `call_parser.parse_call` reads it; `render_call` is its inverse for
every call that can be constructed. Whether a call fits the graph is checked by the graph
(`vrag.agent.memory.memory_graph`), and what it shows by the environment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from vrag.agent.actions import ABSTENTION, NAME
from vrag.agent.prompts import box_words
from vrag.agent.replies import tool_arguments
from vrag.model_profiles import Profile

T = TypeVar("T")

SEARCH, MEMORIZE = "add_search_node", "summarize_and_memorize"
ANSWER, CROP = "add_answer_node", "add_crop_node"
TOOLS = (SEARCH, MEMORIZE, CROP, ANSWER)
"""Names of the tools of VimRAG; no custom tool may have one of them."""
CALL_END_TAG = "</tool_call>"


@dataclass(frozen=True, slots=True)
class SearchNode:
    """Make a node and look for what it asks.

    Raises `ValueError` if an id cannot be one, there are no parents or one of them twice, or the query is
    empty or not stripped.
    """

    id: str
    parents: tuple[str, ...]
    query: str

    def __post_init__(self) -> None:
        _check_node(self.id, self.parents)
        _check_text("query", self.query)


@dataclass(frozen=True, slots=True)
class Note:
    """The model's rating of one result.

    Raises `ValueError` if the label is none, the priority of what is useful is outside 1 to 5, a time is not
    finite or under 0, or what is not useful has a priority or times.
    """

    information: str
    """Label of the result: `Text 1`, `Picture 3`, `Video 1`."""
    useful: bool
    priority: int = 0
    """1 to 5; 0 for what is not useful."""
    timestamps: tuple[float, ...] = ()
    """The seconds of a video that matter."""

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

    Raises `ValueError` if the summary is empty or not stripped, or a result is named twice.
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

    Raises `ValueError` if there are no parents or one of them twice, or the text is empty or not stripped.
    """

    parents: tuple[str, ...]
    text: str

    def __post_init__(self) -> None:
        _check_parents(self.parents)
        _check_text("answer", self.text)

    @property
    def abstains(self) -> bool:
        """True if it says that the documents do not hold an answer."""
        return self.text.rstrip(".").casefold() == ABSTENTION.casefold()


@dataclass(frozen=True, slots=True)
class CropNode:
    """Make a node whose result is a part of what a parent remembers, enlarged.

    Raises `ValueError` as for `SearchNode`, and if the label is none or a side of the box is not finite.
    """

    id: str
    parents: tuple[str, ...]
    information: str
    """Label of what to look at, in a parent."""
    box: tuple[float, float, float, float]
    """The box in the coordinate space of the model's profile."""

    def __post_init__(self) -> None:
        _check_node(self.id, self.parents)
        if not tool_arguments.LABEL.fullmatch(self.information):
            raise ValueError('information_id must be a label such as "Picture 3"')
        if not all(math.isfinite(side) for side in self.box):
            raise ValueError("the box holds a number that is not finite")


@dataclass(frozen=True, slots=True)
class ToolNode:
    """Make a node with what a custom tool gives (`vrag.actions`).

    Raises `ValueError` as for `SearchNode`, and if the name cannot be that of a custom tool.
    """

    id: str
    parents: tuple[str, ...]
    name: str
    text: str

    def __post_init__(self) -> None:
        _check_node(self.id, self.parents)
        if not NAME.fullmatch(self.name) or self.name in TOOLS:
            raise ValueError(f"{self.name!r} cannot be the name of a custom tool")
        _check_text("text", self.text)


Call = SearchNode | Memorize | AnswerNode | CropNode | ToolNode
"""A tool call, as `render_call` writes and `parse_call` reads it."""


def _check_node(node: str, parents: tuple[str, ...]) -> None:
    if node == "root" or not _reads_as(tool_arguments.node_id, node, node):
        raise ValueError(f"the id must be 1 to {tool_arguments.MAX_NODE_CHARS} characters, and not root")
    _check_parents(parents)


def _check_parents(parents: tuple[str, ...]) -> None:
    if not _reads_as(tool_arguments.node_ids, list(parents), parents):
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
    """Return the call in the grammar.

    >>> render_call(SearchNode("fares", ("root",), "ferry fares"))
    '<tool_call>{"name": "add_search_node", "arguments": {"id": "fares", "parent_ids": ["root"], "query": "ferry fares"}}</tool_call>'
    """  # noqa: E501
    name, arguments = _arguments(call)
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    # Only texts hold a <; as an escape it can be part of no tag.
    return f"<tool_call>{written.replace('<', chr(92) + 'u003c')}{CALL_END_TAG}"


def _arguments(call: Call) -> tuple[str, dict[str, Any]]:
    match call:
        case SearchNode(node, parents, query):
            return SEARCH, {"id": node, "parent_ids": parents, "query": query}
        case Memorize(summary, notes):
            ratings = [
                {
                    "information_id": note.information,
                    "is_useful": note.useful,
                    "key_timestamp": note.timestamps,
                    "priority_score": note.priority,
                }
                for note in notes
            ]
            return MEMORIZE, {"summarize": summary, "memorize": ratings}
        case AnswerNode(parents, text):
            return ANSWER, {"parent_ids": parents, "answer": text}
        case CropNode(node, parents, information, box):
            return CROP, {"id": node, "parent_ids": parents, "information_id": information, "box": box}
        case ToolNode(node, parents, name, text):
            return name, {"id": node, "parent_ids": parents, "text": text}


Schema = dict[str, Any]

_ID: Schema = {
    "type": "string",
    "description": "A new, short, descriptive id, such as fares_2023.",
}
_PARENTS: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 1,
    "description": 'Ids of the nodes that it follows from; ["root"] for the question itself.',
}
_LABEL: Schema = {"type": "string", "description": "Label of a result: Text 1, Picture 3 or Video 1."}
_NOTE: Schema = {
    "type": "object",
    "properties": {
        "information_id": _LABEL,
        "is_useful": {"type": "boolean", "description": "Whether it helps to answer the question."},
        "key_timestamp": {
            "type": "array",
            "items": {"type": "number"},
            "description": "Of a useful video: the seconds of the frames that matter, as given. Else [].",
        },
        "priority_score": {
            "type": "integer",
            "description": "How much it helps, from 1 to 5; 0 when it is not useful.",
        },
    },
    "required": ["information_id", "is_useful", "key_timestamp", "priority_score"],
    "additionalProperties": False,
}


_SEARCH = {
    "id": _ID,
    "parent_ids": _PARENTS,
    "query": {
        "type": "string",
        "description": "What to look for. It must differ substantially from every earlier query.",
    },
}
_MEMORIZE = {
    "summarize": {
        "type": "string",
        "description": "What the results say about the query, in 1 to 3 sentences; "
        "say so when none of them is relevant.",
    },
    "memorize": {"type": "array", "items": _NOTE, "description": "One entry for every result."},
}
_ANSWER = {
    "parent_ids": _PARENTS,
    "answer": {
        "type": "string",
        "description": "The answer, short; Not answerable when the documents do not hold one.",
    },
}
_TOOL_TEXT: Schema = {"type": "string", "description": "As the tool's description says."}


def schemas(
    *, crop: bool, tools: Mapping[str, str] | None = None, profile: Profile | None = None
) -> list[Schema]:
    """Return the schemas of all calls, for the field `tools` of a chat request.

    `tools` are the usages of the custom tools, by name. The profile says how boxes are written; None leaves
    that to the instruction.
    """
    offered = [
        _function(
            SEARCH,
            "Search the documents for one thing that is not known yet. Makes a node and returns its results; "
            "summarize them before the next search.",
            _SEARCH,
        ),
        _function(
            MEMORIZE,
            "Complete the newest node. Its raw results are gone afterwards: only the summary and what is "
            "judged useful of the pictures and videos remain.",
            _MEMORIZE,
        ),
    ]
    if crop:
        convention = "" if profile is None else f": {box_words(profile)['box']}"
        box: Schema = {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 4,
            "maxItems": 4,
            "description": f"The part to enlarge{convention}.",
        }
        usage = (
            "Look closer at a part of a picture that a node remembers. "
            "Makes a node whose result is that part, enlarged."
        )
        arguments = {"id": _ID, "parent_ids": _PARENTS, "information_id": _LABEL, "box": box}
        offered.append(_function(CROP, usage, arguments))
    for name, usage in (tools or {}).items():
        offered.append(_function(name, usage, {"id": _ID, "parent_ids": _PARENTS, "text": _TOOL_TEXT}))
    answer = "Answer the question and end. Do so as soon as what is known suffices."
    return [*offered, _function(ANSWER, answer, _ANSWER)]


def _function(name: str, description: str, arguments: dict[str, Schema]) -> Schema:
    parameters = {
        "type": "object",
        "properties": arguments,
        "required": list(arguments),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}
