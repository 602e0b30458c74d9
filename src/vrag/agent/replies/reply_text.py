"""Readers of replies outside the grammars: the model's own words, tool calls in any form, plain answers.

Hermes and Qwen write `<tool_call>{"name": …, "arguments": …}</tool_call>`, Qwen-Coder
`<function=name><parameter=query>…</parameter></function>`, GLM `<tool_call>name<arg_key>query</arg_key>
<arg_value>…</arg_value></tool_call>`, Mistral `[TOOL_CALLS][{…}]`, Llama `<|python_tag|>{…}`. `find_call`
reads all of these forms, with damaged JSON too, and knows no tool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from vrag.agent.actions import TAG
from vrag.agent.replies.json_repairs import MAX_CHARACTERS, read_damaged_json
from vrag.agent.replies.tool_arguments import repair_text

_TAG = re.compile(r"<(?P<close>/?)(?P<name>think|passage)\b[^<>]*>", re.IGNORECASE)


def unquoted(reply: str) -> str | None:
    """Return the reply with blanks in place of thoughts and quoted passages; positions stay the same.

    A reply that starts in the middle of a thought is understood. A passage that never ends is none.

    Returns:
        None where a thought begins that never ends: nothing after that is certain to be said.

    >>> unquoted("<think>why</think> <answer>12</answer>").strip()
    '<answer>12</answer>'
    """
    tags = list(_TAG.finditer(reply))
    thoughts = [tag for tag in tags if tag["name"].lower() == "think"]
    blank: list[tuple[int, int]] = [(0, thoughts[0].end())] if thoughts and thoughts[0]["close"] else []
    endless = False
    for place, tag in enumerate(tags):
        if tag["close"] or (blank and tag.start() < blank[-1][1]):
            continue
        quoted = tag["name"].lower() == "passage"
        close = None if quoted and endless else _close(tags, place)
        if close is None and not quoted:
            return None
        endless = endless or close is None
        if close is not None:
            blank.append((tag.start(), close.end()))
    return _blanked(reply, blank)


def _close(tags: list[re.Match[str]], place: int) -> re.Match[str] | None:
    name = tags[place]["name"].lower()
    rest = (tags[later] for later in range(place + 1, len(tags)))
    return next((tag for tag in rest if tag["close"] and tag["name"].lower() == name), None)


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*pieces, text[at:]])


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
    """The reason the call cannot be read; one sentence."""
    end: int
    """Characters of the reply up to its end."""
    closed: bool = True
    """True if the call has its closing tag."""
    further: int = 0
    """Calls that follow in the same list."""


def mentions_call(spoken: str) -> bool:
    """Return whether a text opens a tool call, complete or not."""
    return _OPENING.search(spoken) is not None


def find_call(spoken: str, names: frozenset[str]) -> WrittenCall | None:
    """Return the first tool call in what a model said; None where it opens none.

    A call that no tag opens must be all that is said: JSON within other text may be quoted from anywhere.
    """
    opening = _OPENING.search(spoken)
    if opening is None:
        return _bare(spoken, names)
    start = opening.end()
    following = next(
        (more for more in _OPENING.finditer(spoken, start + 1) if more.end() > more.start()), None
    )
    limit = len(spoken) if following is None else following.start()
    closing = _FUNCTION_END if _FUNCTION.match(spoken, start) else _CLOSING
    close = closing.search(spoken, start)
    if close is not None and close.start() <= limit:
        return _read(spoken[start : close.start()], names, close.end(), closed=True)
    return _read(spoken[start:limit], names, limit, closed=False)


def _bare(spoken: str, names: frozenset[str]) -> WrittenCall | None:
    """Return a call that is all that is said, alone or in a code fence."""
    if len(spoken.strip()) > MAX_CHARACTERS:
        return None
    text = inside_fence(_TOKEN.sub(" ", spoken))
    if text[:1] not in {"{", "["}:
        return None
    found = _read(text, names, len(spoken), closed=True)
    return None if found.name is None else found


def inside_fence(text: str) -> str:
    """Return the content of a code fence around a whole text; the stripped text where there is none."""
    text = text.strip()
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    return _LANGUAGE.sub("", text[:-3], count=1).strip()


def _read(written: str, names: frozenset[str], end: int, *, closed: bool) -> WrittenCall:
    """Read the text between the tags of a call."""
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
    if not listed or not all(isinstance(call, dict) for call in listed):
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
    """Return the tool that a name means, however it is spelled."""
    plain = re.sub(r"[\s-]+", "_", name.strip().casefold()).removeprefix("functions.")
    return plain if plain in names else None


_FIELDS = ("answer", "final_answer", "Answer", "text", "response")
_TAGGED = re.compile(r"<answer\b[^<>]*>|</answer\b[^<>]*>", re.IGNORECASE)
_MARKER = re.compile(
    r"(?:^|\n)[ \t>#]*[*_]{0,3}(?:(?:the )?(?:final )?answer(?: is)?|答案|最终答案)[*_]{0,3}"
    r"\s?[:：][*_]{0,3}[ \t]*",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\s?\{")
_MODEL_TOKEN = re.compile(r"<\|(?:begin|end)_of_box\|>|<\|[a-z_]{1,32}\|>", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:text|mathrm|textbf)\s?\{([^{}]*)\}|\\([%$#&_])")
_INTENTION = re.compile(
    r"(?:(?:okay|ok|so|now|next|first|hmm|well)[,.]? )*"
    r"(?:i|let me|let us|let's|we)(?: (?:still|first|now|also|next))?"
    r"(?:'ll| will| need to| should| must| have to| am going to| want to| can)?"
    r"(?: (?:first|now|next|also|try to|have to))*"
    r" (?:search|look|find|check|crop|zoom|examine|inspect|summari[sz]e|call|use|retrieve)\b",
    re.IGNORECASE,
)
_CALL = re.compile(r"[\"'](?:arguments|parameters|parent_ids|query)[\"']\s*:")
"""Text that occurs in tool calls only."""
_MAX_CHARACTERS = 20_000
"""Of an answer; what is longer is no answer."""


def plain_answer(spoken: str) -> str | None:
    r"""Return the answer that a text gives, without what is written around it.

    Understood are a code fence, `{"answer": …}`, `Answer: …` in plain text or Markdown, `\boxed{…}`, an
    `<answer>` that is never closed, and a text alone.

    Returns:
        None where it gives none: it is empty, opens a tool call or another action, or only says what
        the model means to do next.

    >>> plain_answer("The table lists it.\n\n**Answer:** 48,200")
    '48,200'
    """
    text = inside_fence(_TAGGED.sub("\n", _MODEL_TOKEN.sub(" ", spoken)))
    if not text or len(text) > _MAX_CHARACTERS or _opens_action(spoken, text):
        return None
    if text[0] in "{[":
        return _of_json(text)
    answer = _boxed(text) or _marked(text)
    if answer is None and not _INTENTION.match(text):
        answer = text
    return answer or None


def _opens_action(spoken: str, text: str) -> bool:
    return mentions_call(spoken) or any(action.search(text) for action in (TAG, _CALL))


def _of_json(text: str) -> str | None:
    """Return the answer in an object that holds it; whatever else is JSON is none."""
    try:
        value = read_damaged_json(text)
        if not isinstance(value, dict):
            return None
        fields = cast("dict[str, object]", value)
        return next((repair_text(fields[name]) for name in _FIELDS if name in fields), None)
    except (ValueError, RecursionError):
        return None


def _marked(text: str) -> str | None:
    """Return the text after the last marker of an answer."""
    markers = list(_MARKER.finditer(text))
    if not markers:
        return None
    return text[markers[-1].end() :].strip().strip("*_ ").strip() or None


def _boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` holds."""
    openings = list(_BOXED.finditer(text))
    if not openings:
        return None
    start = openings[-1].end()
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return _LATEX.sub(r"\1\2", text[start:place]).strip() or None
    return None
