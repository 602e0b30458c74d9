"""Tool calls in the forms in which models write them: damaged JSON, lists, and elements for arguments.

Hermes and Qwen write `<tool_call>{"name": …, "arguments": …}</tool_call>`, Qwen-Coder
`<function=name><parameter=query>…</parameter></function>`, GLM `<tool_call>name<arg_key>query</arg_key>
<arg_value>…</arg_value></tool_call>`, Mistral `[TOOL_CALLS][{…}]`, Llama `<|python_tag|>{…}`. This reads all
of them and knows no tool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from vrag.agent.replies.json_repairs import MAX_CHARACTERS, read_damaged_json

__all__ = ["WrittenCall", "find_call", "inside_fence", "mentions_call"]

_OPENING = re.compile(
    r"<tool_calls?\s*>|(?=<function\s*=)|\[TOOL_CALLS\]|<\|(?:python_tag|tool_call(?:_start|_begin)?)\|>",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"</tool_calls?\s*>|\[/TOOL_CALLS\]|<\|/?tool_call(?:_end)?\|>", re.IGNORECASE)
_FUNCTION_END = re.compile(r"</function\s*>(?:\s*</tool_call\s*>)?", re.IGNORECASE)
_FUNCTION = re.compile(r"\s*<function\s*=\s*[\"']?([\w.-]{1,64})[\"']?\s*>", re.IGNORECASE)
_PARAMETER = re.compile(
    r"<parameter\s*=\s*[\"']?([\w.-]{1,64})[\"']?\s*>(.*?)(?=</parameter\s*>|<parameter\s*=|</function\s*>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_PAIR = re.compile(
    r"<arg_key>\s*([\w.-]{1,64})\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.IGNORECASE | re.DOTALL
)
_NAMED = re.compile(r"\s*([\w.-]{1,64})\s*(?=<arg_key>)", re.IGNORECASE)
_LANGUAGE = re.compile(r"```[a-z_]*", re.IGNORECASE)
_TOKEN = re.compile(r"<\|[a-z_]{1,32}\|>", re.IGNORECASE)
_MAX_ARGUMENTS = 64

_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "action_input", "tool_input", "input")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCall:
    """A call as a model wrote it, taken apart."""

    name: str | None = None
    """None where there is none, or the call cannot be read."""
    arguments: object = None
    fault: str = ""
    """Why the call cannot be read; one sentence."""
    end: int
    """Characters of the reply up to its end."""
    closed: bool = True
    """Whether the call has its closing tag."""
    further: int = 0
    """Calls that follow in the same list."""


def mentions_call(said: str) -> bool:
    """Whether a text opens a tool call, complete or not."""
    return _OPENING.search(said) is not None


def find_call(said: str, names: frozenset[str]) -> WrittenCall | None:
    """The first tool call in what a model said; None where it opens none.

    A call that no tag opens must be all that is said: JSON within other text may be quoted from anywhere.

    Args:
        said: The reply, with blanks in place of what the model does not say itself (`unquoted`).
        names: Of the tools.
    """
    opening = _OPENING.search(said)
    if opening is None:
        return _bare(said, names)
    start = opening.end()
    following = next((more for more in _OPENING.finditer(said, start + 1) if more.end() > more.start()), None)
    limit = len(said) if following is None else following.start()
    closing = _FUNCTION_END if _FUNCTION.match(said, start) else _CLOSING
    close = closing.search(said, start)
    if close is not None and close.start() <= limit:
        return _read(said[start : close.start()], names, close.end(), closed=True)
    return _read(said[start:limit], names, limit, closed=False)


def _bare(said: str, names: frozenset[str]) -> WrittenCall | None:
    """A call that is all that is said, alone or in a code fence."""
    if len(said.strip()) > MAX_CHARACTERS:
        return None
    text = inside_fence(_TOKEN.sub(" ", said))
    if text[:1] not in {"{", "["}:
        return None
    found = _read(text, names, len(said), closed=True)
    return None if found.name is None else found


def inside_fence(text: str) -> str:
    """What a code fence holds that is all of a text; the text itself, stripped, where there is none."""
    text = text.strip()
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    return _LANGUAGE.sub("", text[:-3], count=1).strip()


def _read(written: str, names: frozenset[str], end: int, *, closed: bool) -> WrittenCall:
    """What stands between the tags of a call."""
    if len(written.strip()) > MAX_CHARACTERS:
        fault = f"The tool call has more than {MAX_CHARACTERS:,} characters."
        return WrittenCall(fault=fault, end=end, closed=closed)
    text = inside_fence(_TOKEN.sub(" ", written))
    if (function := _FUNCTION.match(text)) is not None:
        pairs = _PARAMETER.findall(text, function.end())[:_MAX_ARGUMENTS]
        return WrittenCall(name=function[1], arguments=_elements(pairs), end=end, closed=closed)
    if (named := _NAMED.match(text)) is not None:
        pairs = _PAIR.findall(text, named.end())[:_MAX_ARGUMENTS]
        return WrittenCall(name=named[1], arguments=_elements(pairs), end=end, closed=closed)
    try:
        calls = _calls(read_damaged_json(text))
    except (ValueError, RecursionError) as error:
        fault = f"The tool call holds no JSON object that can be read: {error}."
        return WrittenCall(fault=fault, end=end, closed=closed)
    name, arguments = _named(calls[0], names)
    return WrittenCall(name=name, arguments=arguments, end=end, closed=closed, further=len(calls) - 1)


def _elements(pairs: list[tuple[str, str]]) -> dict[str, object]:
    """Arguments that stand in elements of their own, as texts; whoever knows the tool reads on."""
    return {name: value.strip() for name, value in pairs}


def _calls(value: object) -> list[dict[str, object]]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    if not listed or not all(isinstance(one, dict) for one in listed):
        raise ValueError("it is no object")
    return cast("list[dict[str, object]]", listed)


def _named(call: dict[str, object], names: frozenset[str]) -> tuple[str | None, object]:
    """Name and arguments of a call, whatever its fields are called."""
    if isinstance(inner := call.get("function"), dict):
        call = cast("dict[str, object]", inner)
    if len(call) == 1 and (known := _known(next(iter(call)), names)):
        return known, next(iter(call.values()))
    field = next((field for field in _NAMES if isinstance(call.get(field), str)), None)
    if field is None:
        return None, None
    given = str(call[field])
    rest = {name: value for name, value in call.items() if name not in {field, "type"}}
    holder = next((name for name in _ARGUMENTS if isinstance(rest.get(name), dict | str)), None)
    return _known(given, names) or given, rest if holder is None else rest[holder]


def _known(name: str, names: frozenset[str]) -> str | None:
    """The tool that a name means, however it is spelled."""
    plain = re.sub(r"[\s-]+", "_", name.strip().casefold()).removeprefix("functions.")
    return plain if plain in names else None
