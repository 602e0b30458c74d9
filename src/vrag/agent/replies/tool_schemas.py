"""The tools of VimRAG as a model is taught them: function schemas of OpenAI-compatible servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrag.agent.prompts import box_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.model_profiles import Profile

__all__ = ["schemas"]

Schema = dict[str, Any]

_ID: Schema = {
    "type": "string",
    "description": "A new, short, descriptive id: letters, digits, _ and -, such as fares_2023.",
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


def schemas(
    *, crop: bool, tools: Mapping[str, str] | None = None, profile: Profile | None = None
) -> list[Schema]:
    """What `parse_call` understands, as the field `tools` of a chat request.

    Args:
        crop: Whether `add_crop_node` is offered.
        tools: Usage of the actions of others, by name.
        profile: It says how boxes are written; None to leave that to the instruction.
    """
    offered = [_search(), _memorize(), *([_crop(profile)] if crop else [])]
    offered += [_tool(name, usage) for name, usage in (tools or {}).items()]
    return [*offered, _answer()]


def _function(name: str, description: str, arguments: dict[str, Schema]) -> Schema:
    parameters = {
        "type": "object",
        "properties": arguments,
        "required": list(arguments),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _search() -> Schema:
    return _function(
        "add_search_node",
        "Search the documents for one thing that is not known yet. Makes a node and returns its results; "
        "summarize them before the next search.",
        {
            "id": _ID,
            "parent_ids": _PARENTS,
            "query": {
                "type": "string",
                "description": "What to look for. It must differ substantially from every earlier query.",
            },
        },
    )


def _memorize() -> Schema:
    return _function(
        "summarize_and_memorize",
        "Complete the newest node. Its raw results are gone afterwards: only the summary and what is judged "
        "useful of the pictures and videos remain.",
        {
            "summarize": {
                "type": "string",
                "description": "What the results say about the query, in 1 to 3 sentences; "
                "say so when none of them is relevant.",
            },
            "memorize": {"type": "array", "items": _NOTE, "description": "One entry for every result."},
        },
    )


def _crop(profile: Profile | None) -> Schema:
    how = "" if profile is None else f": {box_words(profile)['box']}"
    box: Schema = {
        "type": "array",
        "items": {"type": "number"},
        "minItems": 4,
        "maxItems": 4,
        "description": f"The part to enlarge{how}.",
    }
    return _function(
        "add_crop_node",
        "Look closer at a part of a picture that a node remembers. Makes a node whose result is that part, "
        "enlarged.",
        {"id": _ID, "parent_ids": _PARENTS, "information_id": _LABEL, "box": box},
    )


def _tool(name: str, usage: str) -> Schema:
    text: Schema = {"type": "string", "description": "As the tool's description says."}
    return _function(name, usage, {"id": _ID, "parent_ids": _PARENTS, "text": text})


def _answer() -> Schema:
    return _function(
        "add_answer_node",
        "Answer the question and end. Do so as soon as what is known suffices.",
        {
            "parent_ids": _PARENTS,
            "answer": {
                "type": "string",
                "description": "The answer, short; Not answerable when the documents do not hold one.",
            },
        },
    )
