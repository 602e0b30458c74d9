"""The answer in a reply that is no action: at the end of a run any readable answer counts."""

from __future__ import annotations

import re
from typing import cast

from vrag.agent.actions import TAG
from vrag.agent.replies.json_repairs import read_damaged_json
from vrag.agent.replies.tool_arguments import repair_text
from vrag.agent.replies.tool_call_formats import inside_fence, mentions_call

__all__ = ["plain_answer"]

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
"""What only tool calls hold."""
_MAX_CHARACTERS = 20_000
"""Of an answer; what is longer is no answer."""


def plain_answer(said: str) -> str | None:
    r"""The answer that a text gives, without what is written around it.

    Understood are a code fence, `{"answer": …}`, `Answer: …` in plain text or Markdown, `\boxed{…}`, an
    `<answer>` that is never closed, and a text alone.

    Args:
        said: The reply, with blanks in place of what the model does not say itself (`unquoted`).

    Returns:
        None where it gives none: it is empty, opens a tool call or another action, or only says what
        the model means to do next.

    >>> plain_answer("The table lists it.\n\n**Answer:** 48,200")
    '48,200'
    """
    text = inside_fence(_TAGGED.sub("\n", _MODEL_TOKEN.sub(" ", said)))
    if not text or len(text) > _MAX_CHARACTERS or _opens_action(said, text):
        return None
    if text[0] in "{[":
        return _of_json(text)
    answer = _boxed(text) or _marked(text)
    if answer is None and not _INTENTION.match(text):
        answer = text
    return answer or None


def _opens_action(said: str, text: str) -> bool:
    return mentions_call(said) or any(action.search(text) for action in (TAG, _CALL))


def _of_json(text: str) -> str | None:
    """The answer in an object that holds it; whatever else is JSON is none."""
    try:
        value = read_damaged_json(text)
        if not isinstance(value, dict):
            return None
        fields = cast("dict[str, object]", value)
        return next((repair_text(fields[name]) for name in _FIELDS if name in fields), None)
    except (ValueError, RecursionError):
        return None


def _marked(text: str) -> str | None:
    """What follows the last marker of an answer."""
    markers = list(_MARKER.finditer(text))
    if not markers:
        return None
    return text[markers[-1].end() :].strip().strip("*_ ").strip() or None


def _boxed(text: str) -> str | None:
    r"""What the last `\boxed{…}` holds."""
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
