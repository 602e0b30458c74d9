"""The grammar of tool calls: `<think>…</think>` and then `<tool_call>{…}</tool_call>`.

`read_envelope` reads tags and JSON and knows no tool; `parse_call` makes a `Call` of what it finds. Both take
any text and never raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import cast

from vrag.agent.actions import Flag, Invalid, Turn
from vrag.agent.replies import tool_arguments as args
from vrag.agent.replies.json_repairs import read_damaged_json, read_json
from vrag.agent.replies.tool_calls import (
    ANSWER,
    CROP,
    MEMORIZE,
    SEARCH,
    TOOLS,
    AnswerNode,
    Call,
    CropNode,
    Memorize,
    Note,
    SearchNode,
    ToolNode,
)

_PARENT_NAMES = ("parent_id", "parents", "parent")
_MIDDLE_SCORE = 3
"""Of 1 to 5: the score of a useful result without one."""
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
    """The text of the think blocks; None without one."""
    call: dict[str, object] | None
    """The JSON object of the call; None where there is none that can be read."""
    fault: str = ""
    """The reason there is none; one sentence the model can act on."""
    end: int
    """Characters of the reply up to the end of the call; all of it without one."""
    flags: frozenset[Flag] = frozenset()


def read_envelope(reply: str) -> Envelope:
    """Take any text apart; never raises.

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
        """The text outside think blocks before `self.at`."""
        self.opened = 0
        """Tool calls opened so far that hold none."""
        self.fault = _NO_CALL
        """The reason there is no call, as far as is known."""
        self.endless = False
        """True if a passage begins that never ends; then none that begins later ends either."""
        self.at = self._inside_thought()

    def _inside_thought(self) -> int:
        """Return the position to start reading at when the reply begins inside a think block."""
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
        """Read a think block; False when it is never closed."""
        opened, close = self.tags[place], self._close(place)
        if close is None:
            return False
        self.thoughts.append(self.reply[opened.end() : close.start()].strip())
        self.spoken += self.reply[self.at : opened.start()]
        self.at = close.end()
        return True

    def _close(self, place: int) -> re.Match[str] | None:
        """Return the tag that closes the one at `place`."""
        name = self.tags[place]["name"].lower()
        rest = (self.tags[later] for later in range(place + 1, len(self.tags)))
        return next((tag for tag in rest if tag["close"] and tag["name"].lower() == name), None)

    def _quoted(self, place: int) -> None:
        """Leave out a passage that the model repeats; one that never ends is none."""
        close = None if self.endless else self._close(place)
        self.endless = close is None
        if close is not None:
            self.spoken += self.reply[self.at : close.end()]
            self.at = close.end()

    def _called(self, place: int) -> Envelope | None:
        """Return the call that opens here; None when it is not complete, and another may follow."""
        start = self.tags[place].end()
        try:
            given, end = json_object(self.reply, start)
        except ValueError as error:
            return self._broken(place, str(error))
        closing = _CLOSING.match(self.reply, end)
        return self._found(given, closing.end() if closing else end)

    def _broken(self, place: int, fault: str) -> Envelope | None:
        """Return what opens here holds no object: a call all the same if it is closed."""
        rest = (self.tags[later] for later in range(place + 1, len(self.tags)))
        following = next((tag for tag in rest if tag["name"].lower() != "passage"), None)
        if following is None or not following["close"] or following["name"].lower() != "tool_call":
            self.fault = f"The tool call is not complete: {fault}."
            return None
        fault = f"The tool call holds no JSON object that can be read: {fault}."
        return self._found(None, following.end(), fault)

    def _bare(self) -> Envelope | None:
        """Return a JSON object that is all that was said."""
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
    """Return the JSON object that begins at `start`, and where it ends.

    Raises:
        ValueError: If there is none, with the reason.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        raise ValueError("it does not begin with {")
    value, end = read_json(text, opening.end())
    return cast("dict[str, object]", value), end


def parse_call(reply: str, tools: frozenset[str] = frozenset(), *, crop: bool = True) -> Turn[Call]:
    """Parse any text; never raises.

    The first complete tool call outside think blocks is the call. A reply that starts in the middle of a
    thought is understood, and so is a bare JSON object in place of a tool call, and a tool call that lacks
    nothing but its closing tag.

    Args:
        reply: The text that the model wrote.
        tools: Names of the custom tools.
        crop: Whether `add_crop_node` is offered.

    >>> parse_call("no idea").action
    Invalid(reason='The reply contains no complete tool call.')
    """
    envelope = read_envelope(reply)
    names = frozenset({*TOOLS, *tools}) - (frozenset() if crop else {CROP})
    action = Invalid(envelope.fault) if envelope.call is None else _build_named_call(envelope.call, names)
    return Turn(envelope.thought, action, reply[: envelope.end], envelope.flags)


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """The nodes and labels that are known when a reply comes, so that it may leave them out."""

    nodes: tuple[str, ...]
    """Ids of the nodes of the graph, the newest last."""
    labels: tuple[str, ...] = ()
    """Labels of the results that wait to be summarised."""

    def match_case(self, parents: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of parents, where an id that differs only in case from one node means that node."""
        return tuple(dict.fromkeys(map(self._match_case, parents)))

    def _match_case(self, parent: str) -> str:
        alike = [node for node in self.nodes if node.casefold() == parent.casefold()]
        return alike[0] if parent not in self.nodes and len(alike) == 1 else parent


def _build_named_call(given: dict[str, object], names: frozenset[str]) -> Call | Invalid:
    if isinstance(wrapped := given.get("function"), dict):
        given = args.mapping(cast("object", wrapped))
    name = given.get("name")
    if not isinstance(name, str) or name.strip() not in names:
        return unknown_tool(name, names)
    return build_call(name.strip(), given.get("arguments", given.get("parameters")))


def unknown_tool(name: object, names: frozenset[str]) -> Invalid:
    """Return the error for an unknown tool."""
    found = "The tool call has no name" if name is None else f"There is no tool {args.quoted(str(name))}"
    offered = [tool for tool in TOOLS if tool in names] + sorted(names - set(TOOLS))
    return Invalid(f"{found}; the tools are {', '.join(offered)}.")


def build_call(
    name: str, arguments: object, known: KnownNodes | None = None, repairs: list[str] | None = None
) -> Call | Invalid:
    """Build the call of a tool that exists; never raises."""
    try:
        given = args.Arguments(_read_object(arguments, known), None if known is None else repairs)
        call = _read_arguments(name, given, known)
        given.finish()
    except ValueError as error:
        return Invalid(f"In {name}, {error}.")
    except RecursionError:
        return Invalid(f"In {name}, an argument is nested too deeply.")
    return call


def complete_call(turn: Turn[Call], known: KnownNodes) -> Turn[Call]:
    """Add to a call what it leaves out and is known: results without an entry are not useful."""
    match turn.action:
        case Memorize(summary, notes):
            noted = {note.information for note in notes}
            left_out = [label for label in known.labels if label not in noted]
            if not left_out:
                return turn
            call: Call = Memorize(summary, (*notes, *(Note(label, useful=False) for label in left_out)))
            repair = f"memorize has no entry for {', '.join(left_out)}; read as not useful"
        case SearchNode() | AnswerNode() | CropNode() | ToolNode() as named:
            parents = known.match_case(named.parents)
            if parents == named.parents:
                return turn
            call = replace(named, parents=parents)
            repair = f"parent_ids differ from ids of nodes in case; read as {', '.join(parents)}"
        case _:
            return turn
    repairs = (*turn.repairs, repair)
    return Turn(turn.thought, call, turn.executed, turn.flags | {Flag.REPAIRED}, repairs)


def _read_object(value: object, known: KnownNodes | None) -> dict[str, object]:
    """Read the arguments, which some servers and models send as a JSON text."""
    if isinstance(value, str):
        try:
            value = json_object(value, 0)[0] if known is None else read_damaged_json(value)
        except ValueError as error:
            raise ValueError(f"arguments cannot be read: {error}") from None
    return {} if value is None else args.mapping(value)


def _read_arguments(name: str, given: args.Arguments, known: KnownNodes | None) -> Call:
    if name == MEMORIZE:
        summary = given.take("summarize", args.text, args.repair_text, aliases=("summary",))
        notes = given.maybe("memorize", args.entries, [], args.repair_entries)
        return Memorize(summary, tuple(_read_note(note, given.repairs) for note in notes))
    if name == ANSWER:
        parents = _read_parents(given, known)
        return AnswerNode(parents, given.take("answer", args.text, args.repair_text))
    node = given.take("id", args.identifier, args.repair_identifier)
    parents = _read_parents(given, known)
    if name == SEARCH:
        return SearchNode(node, parents, given.take("query", args.text, args.repair_text))
    if name == CROP:
        label = given.take("information_id", args.label)
        box = given.take("box", args.sides, args.repair_sides, aliases=args.BOX_NAMES)
        return CropNode(node, parents, label, box)
    return ToolNode(node, parents, name, given.take("text", args.text, args.repair_text))


def _read_parents(given: args.Arguments, known: KnownNodes | None) -> tuple[str, ...]:
    """Read the parents; where none is named, the newest node."""
    if known is None:
        return given.take("parent_ids", args.identifiers)
    value = given.maybe("parent_ids", lambda value: value, None, aliases=_PARENT_NAMES)
    try:
        parents = () if value is None else args.repair_identifiers(value)
    except ValueError as error:
        raise ValueError(f"parent_ids {error}") from None
    if not parents:
        given.note(f"parent_ids names no node; read as {known.nodes[-1]}")
        return (known.nodes[-1],)
    try:
        as_written = args.identifiers(value) == parents
    except ValueError:
        as_written = False
    if not as_written:
        given.note(f"parent_ids are read as {', '.join(parents)}")
    return parents


def _read_note(value: object, repairs: list[str] | None) -> Note:
    try:
        given = args.Arguments(args.mapping(value), repairs)
        label = given.take("information_id", args.label)
    except ValueError as error:
        raise ValueError(f"memorize {error}") from None
    try:
        note = _read_judgement(label, given)
        given.finish()
    except ValueError as error:
        raise ValueError(f"memorize for {label}: {error}") from None
    return note


def _read_judgement(label: str, given: args.Arguments) -> Note:
    if not given.take("is_useful", args.flag):
        given.ignore("priority_score", "key_timestamp")
        return Note(label, useful=False)
    if given.repairs is None:
        priority = given.take("priority_score", args.whole)
        return Note(label, True, priority, given.maybe("key_timestamp", args.times, ()))
    score = given.maybe("priority_score", args.score, 0, args.repair_score)
    if not score:
        given.note(f"priority_score of {label} is missing; read as {_MIDDLE_SCORE}")
    times = given.maybe("key_timestamp", args.seconds, (), args.repair_times)
    return Note(label, useful=True, priority=score or _MIDDLE_SCORE, timestamps=times)
