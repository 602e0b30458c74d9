"""Replies in the grammar of tool calls that break it, read where their meaning is clear.

Nothing that `vrag.agent.replies.call_parser.parse_call` reads and the graph takes is read otherwise here.
What is repaired is flagged. Whether parents exist and ids are new is the graph's to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vrag.agent.actions import Flag, Invalid, Turn, first_element
from vrag.agent.replies.call_parser import KnownNodes, build_call, complete_call, parse_call, unknown_tool
from vrag.agent.replies.reply_text import WrittenCall, find_call, plain_answer, unquoted
from vrag.agent.replies.tool_calls import TOOLS, AnswerNode, Call


def read_call(
    reply: str,
    known: KnownNodes,
    tools: frozenset[str] = frozenset(),
    *,
    crop: bool = True,
    last: bool = False,
    cut: bool = False,
) -> Turn[Call]:
    """Parse any text like `parse_call`, and repair replies that break the grammar but are unambiguous.

    It never raises.

    >>> said = "<tool_call>{'name': 'add_answer_node', 'arguments': {'answer': 48200}}</tool_call>"
    >>> read_call(said, KnownNodes(("root", "fares"))).action
    AnswerNode(parents=('fares',), text='48200')
    """
    turn = parse_call(reply, tools, crop=crop)
    spoken = unquoted(reply)
    if not isinstance(turn.action, Invalid) or spoken is None:
        return complete_call(turn, known)
    names = frozenset({*TOOLS, *tools}) - (frozenset() if crop else {"add_crop_node"})
    found = find_call(spoken, names)
    if found is not None and not (cut and not found.closed):
        turn = _of_call(reply, turn, found, known, names)
        if not isinstance(turn.action, Invalid):
            return complete_call(turn, known)
    text = _answer_in(reply, spoken) if last and not cut else None
    return turn if text is None else _answer(reply, turn, known, text)


def _of_call(
    reply: str, turn: Turn[Call], found: WrittenCall, known: KnownNodes, names: frozenset[str]
) -> Turn[Call]:
    """Return the turn with a call that was found, or with what is wrong with it."""
    flags = turn.flags | {Flag.TRAILING_TEXT} if found.further or reply[found.end :].strip() else turn.flags
    ends = replace(turn, executed=reply[: found.end], flags=flags | _missing_thought_flag(turn))
    if found.fault:
        return replace(ends, action=Invalid(found.fault))
    if found.name not in names:
        return replace(ends, action=unknown_tool(found.name, names))
    repairs: list[str] = []
    action = build_call(found.name, found.arguments, known, repairs)
    if isinstance(action, Invalid):
        return replace(ends, action=action)
    return _repaired(ends, action, repairs or ["the call is written in another form"])


def _answer_in(reply: str, spoken: str) -> str | None:
    """Return an answer without a tool call: in the element of the other grammar, or in plain text."""
    element = first_element(reply, frozenset())
    if element.opening is not None and element.closing is not None:
        if element.opening["name"].lower() != "answer":
            return None
        return reply[element.opening.end() : element.closing.start()].strip() or None
    return plain_answer(spoken)


def _answer(reply: str, turn: Turn[Call], known: KnownNodes, text: str) -> Turn[Call]:
    ends = replace(
        turn, executed=reply, flags=(turn.flags - {Flag.TRAILING_TEXT}) | _missing_thought_flag(turn)
    )
    try:
        action = AnswerNode((known.nodes[-1],), text)
    except ValueError:
        return turn
    return _repaired(ends, action, ["the text is read as the answer"])


def _missing_thought_flag(turn: Turn[Call]) -> frozenset[Flag]:
    return frozenset({Flag.NO_THOUGHT} if turn.thought is None else ())


def _repaired(turn: Turn[Call], action: Call, repairs: Sequence[str]) -> Turn[Call]:
    return replace(turn, action=action, flags=turn.flags | {Flag.REPAIRED}, repairs=tuple(repairs))
