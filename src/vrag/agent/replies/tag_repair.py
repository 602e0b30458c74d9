"""Replies in the grammar of tags that break it, read where their meaning is clear.

Nothing that `vrag.agent.actions.parse` reads is read otherwise here. What is repaired is flagged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from vrag.agent.actions import (
    Action,
    Answer,
    Crop,
    Extend,
    Flag,
    Invalid,
    Search,
    Turn,
    absent,
    first_element,
    parse,
    tag_pattern,
)
from vrag.agent.replies import tool_arguments
from vrag.agent.replies.json_repairs import read_damaged_json
from vrag.agent.replies.reply_text import find_call, inside_fence, plain_answer, unquoted

_ATTRIBUTE = re.compile(
    r"(?:image|img|picture)(?:_id|_index)? ?= ?[\"'“”]? ?(?:image|picture)? ?#?([0-9]{1,6}) ?[\"'“”]?",
    re.IGNORECASE,
)
"""For text of bounded length in which a single space stands for any white space."""
_MAX_ATTRIBUTE = 64
_TORN_TAG = re.compile(r"</?[a-z_]{0,32}\s*$", re.IGNORECASE)
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
    """Take any text apart, like `parse`, and reads what breaks the grammar where it is clear.

    It never raises.

    Repaired are boxes in other brackets or in JSON, the number of a picture without its quotes, an element
    that lacks its closing tag alone, and an action that is written as a tool call.

    >>> read_tags("<bbox image='2'>[[10, 20, 30, 40]]</bbox>").action
    Crop(box=(10.0, 20.0, 30.0, 40.0), image=2)
    """
    turn = parse(reply, names, without=without)
    spoken = unquoted(reply)
    if not isinstance(turn.action, Invalid) or spoken is None:
        return turn
    reader = _TagReader(reply, spoken, turn, names, without, cut)
    if turn.executed != reply or first_element(reply, names).closing is not None:
        return reader.of_element() or turn
    found = reader.unclosed() or reader.called()
    if found is None and last and not cut:
        found = reader.answered()
    return found or turn


class _TagReader:
    """A reply in which the grammar finds no action."""

    def __init__(
        self,
        reply: str,
        spoken: str,
        turn: Turn[Action],
        names: frozenset[str],
        without: frozenset[str],
        cut: bool,
    ) -> None:
        self.reply, self.spoken, self.turn = reply, spoken, turn
        self.names, self.without, self.cut = names, without, cut

    def of_element(self) -> Turn[Action] | None:
        """Return a box whose numbers or whose picture are written otherwise."""
        found = first_element(self.reply, self.names)
        if found.opening is None or found.closing is None or found.opening["name"].lower() != "bbox":
            return None
        if "bbox" in self.without:
            return None
        body = self.reply[found.opening.end() : found.closing.start()]
        return self._mended(lambda: _crop(body, found.opening["rest"] if found.opening else ""), None)

    def unclosed(self) -> Turn[Action] | None:
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
        make = (lambda: _crop(body, rest)) if name == "bbox" else (lambda: _worded(name, body))
        return self._mended(make, len(self.reply), f"{name} is never closed")

    def called(self) -> Turn[Action] | None:
        """Return an action that is written as a tool call."""
        tools = frozenset({"search", "answer", *_CROPS, *self.names})
        call = find_call(self.spoken, tools)
        if call is None or call.name is None or (self.cut and not call.closed):
            return None
        name = "bbox" if call.name in _CROPS else call.name
        if name not in tools:
            return None
        if name in self.without:
            return replace(self.turn, action=absent(name, self.names, self.without))
        made = self._mended(
            lambda: _of_arguments(name, call.arguments), call.end, f"{name} is written as a tool call"
        )
        trailing = bool(call.further or self.reply[call.end :].strip())
        return replace(made, flags=made.flags | {Flag.TRAILING_TEXT}) if made and trailing else made

    def answered(self) -> Turn[Action] | None:
        """Return the text as an answer."""
        text = plain_answer(self.spoken)
        if text is None:
            return None
        return self._mended(lambda: Answer(text), len(self.reply), "the text is read as the answer")

    def _mended(
        self, make: Callable[[], Action], end: int | None, repair: str = "the box is written otherwise"
    ) -> Turn[Action] | None:
        """Return the turn with an action in place of what is invalid."""
        try:
            action = make()
        except (ValueError, RecursionError):
            return None
        flags = self.turn.flags | {Flag.REPAIRED}
        if self.turn.thought is None:
            flags |= {Flag.NO_THOUGHT}
        executed = self.turn.executed if end is None else self.reply[:end]
        return Turn(self.turn.thought, action, executed, flags, (repair,))


def _worded(name: str, text: str) -> Action:
    match name:
        case "search":
            return Search(text)
        case "answer":
            return Answer(text)
        case _:
            return Extend(name, text)


def _crop(body: str, attribute: str) -> Crop:
    written = " ".join(attribute.split())
    number = _ATTRIBUTE.fullmatch(written) if len(written) <= _MAX_ATTRIBUTE else None
    if written and number is None:
        raise ValueError("the picture of a box is named by its number")
    return Crop(tool_arguments.repair_sides(inside_fence(body)), int(number[1]) if number else None)


def _of_arguments(name: str, arguments: object) -> Action:
    """Return an action from the arguments of a tool call."""
    given = read_damaged_json(arguments) if isinstance(arguments, str) else arguments
    fields = tool_arguments.mapping(given)
    if name != "bbox":
        return _worded(name, tool_arguments.repair_text(_field(fields, _TEXT_FIELDS)))
    image = next((fields[name] for name in _IMAGE_FIELDS if fields.get(name) is not None), None)
    box = tool_arguments.repair_sides(_field(fields, tool_arguments.BOX_NAMES))
    return Crop(box, None if image is None else _picture(image))


def _picture(value: object) -> int:
    """Return the number of a picture, alone or in its label."""
    if isinstance(value, str) and not value.strip().isdecimal():
        return int(tool_arguments.label(value).rpartition(" ")[2])
    return tool_arguments.whole(value)


def _field(fields: dict[str, object], known: tuple[str, ...]) -> object:
    """Return the one that is meant: of a known name, or the only one."""
    named = [fields[name] for name in known if name in fields]
    if len(named) != 1 and len(fields) != 1:
        raise ValueError("it is not clear which argument is meant")
    return named[0] if len(named) == 1 else next(iter(fields.values()))
