"""Replies in the grammar of tags that break it, read where their meaning is clear.

Nothing that `vrag.agent.actions.parse` reads is read otherwise here. What is repaired is flagged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from vrag.agent.actions import (
    Action,
    Answer,
    Crop,
    Flag,
    Invalid,
    Search,
    Turn,
    UseTool,
    absent,
    first_element,
    is_action_or_empty,
    parse,
    tag_pattern,
)
from vrag.agent.replies import tool_arguments
from vrag.agent.replies.json_repairs import read_damaged_json
from vrag.agent.replies.last_answer import (
    LAST_ANSWER,
    answer_calls,
    answer_text,
    find_answer,
    spoken_in_last,
    without_answer_in_thought,
)
from vrag.agent.replies.reply_text import find_call, inside_fence, unquoted

_ATTRIBUTE = re.compile(
    r"(?:image|img|picture)(?:_id|_index)? ?= ?[\"'“”]? ?(?:image|picture)? ?#?([0-9]{1,6}) ?[\"'“”]?",
    re.IGNORECASE,
)
"""The pattern is for text of bounded length in which a single space stands for any white space."""
_MAX_ATTRIBUTE_CHARS = 64
_TORN_TAG = re.compile(r"</?[a-z_]{0,32}\s*$", re.IGNORECASE)
_SEARCHES = re.compile(r"<(?:search|passage)\b", re.IGNORECASE)
_TEXT_FIELDS = ("query", "answer", "text", "q", "content", "input")
_IMAGE_FIELDS = ("image", "image_id", "image_index", "img")
_CROPS = frozenset({"bbox", "crop", "zoom"})


def read_tags(
    reply: str,
    names: frozenset[str] = frozenset(),
    *,
    without: frozenset[str] = frozenset(),
    last: bool = False,
    cut: bool = False,
) -> Turn[Action]:
    """Parse any text like `parse`, and repair replies that break the grammar but are unambiguous.

    It never raises. Repaired are boxes in other brackets or in JSON, the number of a picture without its
    quotes, an element that lacks its closing tag alone, and an action that is written as a tool call.

    >>> read_tags("<bbox image='2'>[[10, 20, 30, 40]]</bbox>").action
    Crop(box=(10.0, 20.0, 30.0, 40.0), image=2)
    """
    turn = parse(reply, names, without=without)
    spoken = unquoted(reply)
    if isinstance(turn.action, Invalid) and spoken is not None:
        turn = _TagReader(reply, spoken, turn, names, without, cut).read() or turn
    if last and not isinstance(turn.action, Answer) and (spoken := spoken_in_last(reply)) is not None:
        answered = _TagReader(reply, spoken, turn, names, without, cut).read_answer()
        turn = without_answer_in_thought(answered, spoken) or turn
    return turn


@dataclass(frozen=True, slots=True)
class _TagReader:
    """A reply in which the grammar finds no action."""

    reply: str
    spoken: str
    """The reply with blanks in place of thoughts and quoted passages."""
    turn: Turn[Action]
    names: frozenset[str]
    without: frozenset[str]
    cut: bool

    def read(self) -> Turn[Action] | None:
        """Return the action of a reply that is written otherwise."""
        is_element = first_element(self.reply, self.names).closing is not None
        if self.turn.executed != self.reply or is_element:
            return self.read_box() or self.read_tagged_answer()
        return self.read_unclosed() or self.read_tool_call()

    def read_tagged_answer(self) -> Turn[Action] | None:
        """Return an answer in which another answer, a box or a thought is written."""
        element = first_element(self.reply, self.names)
        opening, closing = element.opening, element.closing
        if opening is None or closing is None or opening["name"].lower() != "answer":
            return None
        body = self.reply[opening.end() : closing.start()]
        if _SEARCHES.search(body) or not (text := answer_text(body)):
            return None
        return self.repair(lambda: Answer(text), closing.end(), "tags in the answer are left out")

    def read_answer(self) -> Turn[Action] | None:
        """Return the answer that a last reply gives, wherever it stands."""
        for call in answer_calls(self.spoken, frozenset(_CROPS | self.names), cut=self.cut):
            arguments = call.arguments
            if turn := self.repair(lambda: _action_of_arguments("answer", arguments), call.end, LAST_ANSWER):  # noqa: B023 - used at once
                return self._flag_rest(turn)
        if (found := find_answer(self.reply, self.spoken, cut=self.cut)) is None:
            return None
        turn = self.repair(lambda: Answer(found.text), found.end, found.repair)
        return None if turn is None else self._flag_rest(turn)

    def _flag_rest(self, turn: Turn[Action]) -> Turn[Action]:
        has_more = bool(self.reply[len(turn.executed) :].strip())
        flags = turn.flags - {Flag.TRAILING_TEXT}
        return replace(turn, flags=flags | {Flag.TRAILING_TEXT} if has_more else flags)

    def read_box(self) -> Turn[Action] | None:
        """Return a box whose numbers or whose picture are written otherwise."""
        element = first_element(self.reply, self.names)
        opening, closing = element.opening, element.closing
        if opening is None or closing is None or opening["name"].lower() != "bbox" or "bbox" in self.without:
            return None
        body = self.reply[opening.end() : closing.start()]
        end = len(self.turn.executed)
        return self.repair(lambda: _crop(body, opening["rest"]), end, "the box is written otherwise")

    def read_unclosed(self) -> Turn[Action] | None:
        """Return an element that is all that is said, and lacks its closing tag alone."""
        tags = list(tag_pattern(self.names).finditer(self.spoken))
        if self.cut or len(tags) != 1 or tags[0]["close"] or self.spoken[: tags[0].start()].strip():
            return None
        name, rest = tags[0]["name"].lower(), tags[0]["rest"]
        if name in self.without:
            return None
        body = _TORN_TAG.sub("", self.spoken[tags[0].end() :]).strip()
        if name != "answer" and "\n" in body:
            return None  # a query has one line: something else follows
        build = (lambda: _crop(body, rest)) if name == "bbox" else (lambda: _text_action(name, body))
        return self.repair(build, len(self.reply), f"{name} is never closed")

    def read_tool_call(self) -> Turn[Action] | None:
        """Return an action that is written as a tool call."""
        tools = frozenset({"search", "answer", *_CROPS, *self.names})
        call = find_call(self.spoken, tools)
        if call is None or call.name not in tools or (self.cut and not call.closed):
            return None
        name = "bbox" if call.name in _CROPS else call.name
        if name in self.without:
            return replace(self.turn, action=absent(name, self.names, self.without))
        repaired = self.repair(
            lambda: _action_of_arguments(name, call.arguments), call.end, f"{name} is written as a tool call"
        )
        has_more = bool(call.further or self.reply[call.end :].strip())
        if repaired is None or not has_more:
            return repaired
        return replace(repaired, flags=repaired.flags | {Flag.TRAILING_TEXT})

    def repair(self, build: Callable[[], Action], end: int, repair: str) -> Turn[Action] | None:
        """Return the turn with an action in place of what is invalid; None where that is invalid too."""
        try:
            action = build()
        except (ValueError, RecursionError):
            return None
        if isinstance(action, Answer) and is_action_or_empty(action.text, self.names):
            return None
        flags = self.turn.flags | {Flag.REPAIRED}
        if not self.turn.thought:
            flags |= {Flag.NO_THOUGHT}
        return Turn(self.turn.thought, action, self.reply[:end], flags, (repair,))


def _text_action(name: str, text: str) -> Action:
    match name:
        case "search":
            return Search(text)
        case "answer":
            return Answer(text)
        case _:
            return UseTool(name, text)


def _crop(body: str, attribute: str) -> Crop:
    written = " ".join(attribute.split())
    number = _ATTRIBUTE.fullmatch(written) if len(written) <= _MAX_ATTRIBUTE_CHARS else None
    if written and number is None:
        raise ValueError("the picture of a box is named by its number")
    return Crop(tool_arguments.repair_sides(inside_fence(body)), int(number[1]) if number else None)


def _action_of_arguments(name: str, arguments: object) -> Action:
    """Return an action from the arguments of a tool call."""
    given = read_damaged_json(arguments) if isinstance(arguments, str) else arguments
    fields = tool_arguments.mapping(given)
    if name != "bbox":
        return _text_action(name, tool_arguments.repair_text(_field(fields, _TEXT_FIELDS)))
    box = tool_arguments.repair_sides(_field(fields, tool_arguments.BOX_NAMES))
    image = next((fields[name] for name in _IMAGE_FIELDS if fields.get(name) is not None), None)
    if image is None:
        return Crop(box)
    if isinstance(image, str) and not image.strip().isdecimal():  # the label of a picture
        return Crop(box, int(tool_arguments.label(image).rpartition(" ")[2]))
    return Crop(box, tool_arguments.whole(image))


def _field(fields: dict[str, object], names: tuple[str, ...]) -> object:
    """Return the field that is meant: the one with a known name, or the only one."""
    named = [fields[name] for name in names if name in fields]
    if len(named) != 1 and len(fields) != 1:
        raise ValueError("it is not clear which argument is meant")
    return named[0] if len(named) == 1 else next(iter(fields.values()))
