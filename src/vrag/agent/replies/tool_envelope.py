"""Where in a reply the tool call stands: `<think>…</think>` and then `<tool_call>{…}</tool_call>`.

This reads tags and JSON and knows no tool; `vrag.agent.replies.tool_calls` makes sense of what it finds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from vrag.agent.actions import Flag
from vrag.agent.replies.json_repairs import read_json

__all__ = ["Envelope", "json_object", "read_envelope"]

_MAX_OPENINGS = 64
"""Tool calls that are opened and hold none, after which no more is looked for: to find out what is wrong with
each takes time in proportion to the length of the reply."""
_NO_CALL = "The reply contains no complete tool call."
_TAG = re.compile(r"<(?P<close>/?)(?P<name>think|tool_call|passage)\b[^<>]*>", re.IGNORECASE)
_OPENING = re.compile(r"\s*(?:```[a-z]*\s*)?(?=\{)", re.IGNORECASE)
_CLOSING = re.compile(r"\s*(?:```\s*)?</tool_call\s*>", re.IGNORECASE)
_FENCE = re.compile(r"\s*```")


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A reply, taken apart as far as its tags go."""

    thought: str | None
    """What stands inside the think blocks; None without one."""
    call: dict[str, object] | None
    """The JSON object of the call; None where there is none that can be read."""
    fault: str = ""
    """Why there is none; one sentence the model can act on."""
    end: int
    """Characters of the reply up to the end of the call; all of it without one."""
    flags: frozenset[Flag] = frozenset()


def read_envelope(reply: str) -> Envelope:
    """Takes any text apart; never raises.

    The first complete tool call outside think blocks counts. One that is opened and never closed is complete
    if its JSON is; one that is closed counts even if its JSON cannot be read. A bare JSON object counts if
    nothing else is said.
    """
    return _EnvelopeReader(reply).envelope()


class _EnvelopeReader:
    """One reply while it is taken apart."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.tags = list(_TAG.finditer(reply))
        self.thoughts: list[str] = []
        self.spoken = ""
        """What stood outside think blocks before `self.at`."""
        self.opened = 0
        """Tool calls opened so far that hold none."""
        self.fault = _NO_CALL
        """Why there is no call, as far as is known."""
        self.endless = False
        """Whether a passage begins that never ends; then none that begins later ends either."""
        self.at = self._inside_thought()

    def _inside_thought(self) -> int:
        """Where to start reading when the reply begins inside a think block."""
        first = next((tag for tag in self.tags if tag["name"].lower() == "think"), None)
        if first is None or not first["close"]:
            return 0
        self.thoughts.append(self.reply[: first.start()].strip())
        return first.end()

    def envelope(self) -> Envelope:
        for place, tag in enumerate(self.tags):
            if tag.start() < self.at or tag["close"]:
                continue
            if tag["name"].lower() == "think":
                if not self._think(place):
                    return self._without(self.reply[tag.end() :].strip(), "The think block is never closed.")
            elif tag["name"].lower() == "passage":
                self._quoted(place)
            elif found := self._called(place):
                return found
            else:
                self.opened += 1
                if self.opened == _MAX_OPENINGS:
                    break
        return self._bare() or self._without(self._thought(), self.fault)

    def _think(self, place: int) -> bool:
        """Reads a think block; False when it is never closed."""
        opened, close = self.tags[place], self._close(place)
        if close is None:
            return False
        self.thoughts.append(self.reply[opened.end() : close.start()].strip())
        self.spoken += self.reply[self.at : opened.start()]
        self.at = close.end()
        return True

    def _close(self, place: int) -> re.Match[str] | None:
        """The tag that closes the one at `place`."""
        name = self.tags[place]["name"].lower()
        rest = (self.tags[later] for later in range(place + 1, len(self.tags)))
        return next((tag for tag in rest if tag["close"] and tag["name"].lower() == name), None)

    def _quoted(self, place: int) -> None:
        """Leaves out a passage that the model repeats; one that never ends is none."""
        close = None if self.endless else self._close(place)
        self.endless = close is None
        if close is not None:
            self.spoken += self.reply[self.at : close.end()]
            self.at = close.end()

    def _called(self, place: int) -> Envelope | None:
        """The call that opens here; None when it is not complete, and another may follow."""
        start = self.tags[place].end()
        try:
            given, end = json_object(self.reply, start)
        except ValueError as error:
            return self._broken(place, str(error))
        closing = _CLOSING.match(self.reply, end)
        return self._found(given, closing.end() if closing else end)

    def _broken(self, place: int, fault: str) -> Envelope | None:
        """What opens here holds no object: a call all the same if it is closed."""
        rest = (self.tags[later] for later in range(place + 1, len(self.tags)))
        following = next((tag for tag in rest if tag["name"].lower() != "passage"), None)
        if following is None or not following["close"] or following["name"].lower() != "tool_call":
            self.fault = f"The tool call is not complete: {fault}."
            return None
        fault = f"The tool call holds no JSON object that can be read: {fault}."
        return self._found(None, following.end(), fault)

    def _bare(self) -> Envelope | None:
        """A JSON object that is all that was said."""
        try:
            given, end = json_object(self.reply, self.at)
        except ValueError:
            return None
        fence = _FENCE.match(self.reply, end)
        end = fence.end() if fence else end
        alone = not self.spoken.strip() and not self.reply[end:].strip()
        return self._found(given, end) if alone else None

    def _found(self, call: dict[str, object] | None, end: int, fault: str = "") -> Envelope:
        flags = {Flag.TRAILING_TEXT} if self.reply[end:].strip() else set[Flag]()
        if not self.thoughts:
            flags.add(Flag.NO_THOUGHT)
        return Envelope(thought=self._thought(), call=call, fault=fault, end=end, flags=frozenset(flags))

    def _without(self, thought: str | None, fault: str) -> Envelope:
        return Envelope(thought=thought, call=None, fault=fault, end=len(self.reply))

    def _thought(self) -> str | None:
        return "\n".join(self.thoughts) if self.thoughts else None


def json_object(text: str, start: int) -> tuple[dict[str, object], int]:
    """The JSON object that begins at `start`, and where it ends.

    Raises:
        ValueError: If there is none, with the reason.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        raise ValueError("it does not begin with {")
    value, end = read_json(text, opening.end())
    return cast("dict[str, object]", value), end
