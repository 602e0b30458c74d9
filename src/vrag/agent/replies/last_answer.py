"""The answer in the last reply of a run, wherever it stands.

In the last reply nothing but an answer is of use, so that any readable one counts: beside other actions, in a
thought that is never closed, in the grammar of the other agent, in plain text. What a thought or a quoted
passage holds is no answer, and neither is what may be cut off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeVar

from vrag.agent.actions import TAG, Turn, is_action_or_empty
from vrag.agent.replies.reply_text import (
    CALL_OPENINGS,
    MAX_ANSWER_CHARS,
    WrittenCall,
    find_calls,
    labelled_answer,
    plain_answer,
    unquoted,
)

T = TypeVar("T")

ANSWER_NAMES = frozenset(
    {"answer", "final_answer", "give_answer", "submit_answer", "add_answer", "add_answer_node"}
)
"""Names of the tool of the answer, as models write them."""
LAST_ANSWER = "the answer in the last reply is taken"
TEXT_IS_ANSWER = "the text is read as the answer"

_ELEMENT = re.compile(r"<(?P<close>/?)answer\b[^<>]*>", re.IGNORECASE)
_ELEMENT_AT_END = re.compile(
    r"<answer\b[^<>]*>[^<]*(?:<(?!/?answer\b)[^<]*)*</answer\b[^<>]*>\s*\Z", re.IGNORECASE
)
_CALL_OPENING = re.compile(CALL_OPENINGS, re.IGNORECASE)
_PASSAGE = re.compile(r"<passage\b", re.IGNORECASE)
_ACTION = re.compile(r"<(search|bbox)\b[^<>]*>[^<]*(?:</\1\b[^<>]*>|\Z)", re.IGNORECASE)
_THOUGHT = re.compile(r"<think\b[^<>]*>[^<]*</think\b[^<>]*>", re.IGNORECASE)
_ARGUMENT = re.compile(
    r"""(?<!\w)["']?(?:final_)?answer["']?\s{0,8}[:=]\s{0,8}"""
    r"""(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"'{}\[\]<>,][^"'{}\[\]<>]{0,2000}?))"""
    r"""\s{0,8}(?:,\s{0,8}["']\w{1,32}["']\s{0,8}[:=]|[}\])])"""
)
_NAME_IN_CALL = re.compile(r"\b(?:add_answer(?:_node)?|(?:final|give|submit)_answer)\b")


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """An answer in a last reply."""

    text: str
    end: int
    """Characters of the reply up to its end."""
    repair: str
    """How it was read, in a phrase."""


def spoken_in_last(reply: str) -> str | None:
    """Return what a last reply says, as `unquoted` does; of an open thought the answer that ends the reply.

    Models that think long forget to close the thought. Text before its end may be quoted from anywhere.
    """
    if (spoken := unquoted(reply)) is not None:
        return spoken
    if _PASSAGE.search(reply) or len(reply) > 16 * MAX_ANSWER_CHARS:
        return None
    start = None
    if element := _ELEMENT_AT_END.search(reply):
        start = element.start()
    elif openings := [
        opening for opening in _CALL_OPENING.finditer(reply) if opening.end() > opening.start()
    ]:
        call = next(find_calls(reply[openings[-1].start() :], ANSWER_NAMES), None)
        if call is not None and call.closed and not reply[openings[-1].start() + call.end :].strip():
            start = openings[-1].start()
    return None if start is None else " " * start + reply[start:]


def without_answer_in_thought(turn: Turn[T] | None, spoken: str) -> Turn[T] | None:
    """Return a turn whose thought ends before the answer, where that ends a thought that is never closed."""
    said = spoken.strip()
    if turn is None or not turn.thought or not turn.thought.endswith(said):
        return turn
    return replace(turn, thought=turn.thought.removesuffix(said).strip())


def answer_calls(spoken: str, names: frozenset[str], *, cut: bool) -> list[WrittenCall]:
    """Return the calls of a tool of answers in a last reply; of one that was cut off those with an end."""
    calls = find_calls(spoken, names | ANSWER_NAMES)
    return [call for call in calls if call.name in ANSWER_NAMES and (call.closed or not cut)]


def find_answer(reply: str, spoken: str, *, cut: bool) -> LastAnswer | None:
    """Return the answer in a last reply that has no readable call for it; None where there is none."""
    if (element := _in_element(reply, spoken)) is not None or cut:
        return element
    if (text := plain_answer(spoken)) is not None:
        return LastAnswer(text, len(reply), TEXT_IS_ANSWER)
    calls = list(find_calls(spoken, ANSWER_NAMES))
    for call in calls:
        if call.text and _NAME_IN_CALL.search(call.text) and (found := _ARGUMENT.search(call.text)):
            text = (found["text"] or found["bare"] or "").strip()
            return LastAnswer(text, call.end, "the answer is read from a damaged call") if text else None
    if (text := labelled_answer(_without_actions(spoken, calls))) is not None:
        return LastAnswer(text, len(reply), f"{TEXT_IS_ANSWER}, and the action beside it dropped")
    return None


def _in_element(reply: str, spoken: str) -> LastAnswer | None:
    """Return the last complete `<answer>`, without the tags in it."""
    opening = found = None
    for tag in _ELEMENT.finditer(spoken):
        if not tag["close"]:
            opening = tag
        elif opening is not None:
            found, opening = (opening, tag), None
    if found is None:
        return None
    text = answer_text(reply[found[0].end() : found[1].start()])
    return LastAnswer(text, found[1].end(), LAST_ANSWER) if text and not is_action_or_empty(text) else None


def answer_text(body: str) -> str:
    """Return the content of an answer without the tags, thoughts and boxes in it; empty where that is all.

    >>> answer_text("<answer>48,200 <bbox>[1, 2, 3, 4]</bbox>")
    '48,200'
    """
    return TAG.sub(" ", _ACTION.sub(" ", _THOUGHT.sub("", body))).strip()


def _without_actions(spoken: str, calls: list[WrittenCall]) -> list[str]:
    """Return the texts between the actions of a reply."""
    spans = [(call.start, call.end) for call in calls]
    spans += [match.span() for match in _ACTION.finditer(spoken)]
    texts: list[str] = []
    position = 0
    for start, end in sorted(spans):
        texts.append(spoken[position:start])
        position = max(position, end)
    return [*texts, spoken[position:]]
