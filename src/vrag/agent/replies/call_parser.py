"""The grammar of tool calls: `<think>…</think>` and then `<tool_call>{…}</tool_call>`.

`parse_call` reads the grammar. `read_call` also reads what breaks it where the meaning is clear: nothing that
`parse_call` reads and the graph takes is read otherwise, and what is repaired is flagged. Whether parents
exist and ids are new is the graph's to say. Both take any text and never raise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias, cast

from vrag.agent.actions import Flag, Invalid, Turn, closing_tag, first_element, is_only_tags
from vrag.agent.replies import tool_arguments as args
from vrag.agent.replies.json_repairs import read_damaged_json, read_json
from vrag.agent.replies.reply_text import WrittenCall, find_call, plain_answer, unquoted
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

PARENT_NAMES = ("parent_id", "parents", "parent")
_MIDDLE_SCORE = 3
"""The score, from 1 to 5, of a useful result without one."""
_MAX_OPENINGS = 64
"""Tool calls that are opened and hold none, after which no more is looked for: to find out what is wrong with
each takes time in proportion to the length of the reply."""
_TAG = re.compile(r"<(?P<close>/?)(?P<name>think|tool_call|passage)\b[^<>]*>", re.IGNORECASE)
_OPENING = re.compile(r"\s*(?:```[a-z]*\s*)?(?=\{)", re.IGNORECASE)
_CLOSING = re.compile(r"\s*(?:```\s*)?</tool_call\s*>", re.IGNORECASE)
_FENCE = re.compile(r"\s*```")


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """The nodes and labels that are known when a reply comes, so that it may leave them out."""

    nodes: tuple[str, ...]
    """Ids of the nodes of the graph, the newest last."""
    labels: tuple[str, ...] = ()
    """Labels of the results that wait to be summarised."""

    def match_case(self, parents: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of parents, where an id that differs only in case from one node means that node."""
        ids: dict[str, None] = {}
        for parent in parents:
            alike = [node for node in self.nodes if node.casefold() == parent.casefold()]
            ids[alike[0] if parent not in self.nodes and len(alike) == 1 else parent] = None
        return tuple(ids)


def parse_call(reply: str, tools: frozenset[str] = frozenset(), *, crop: bool = True) -> Turn[Call]:
    """Parse any text; never raises.

    The first complete tool call outside think blocks is the call. A reply that starts in the middle of a
    thought is understood, and so is a bare JSON object in place of a tool call, and a tool call that lacks
    nothing but its closing tag. `tools` are the names of the custom tools; `crop` is true if `add_crop_node`
    is offered.

    >>> parse_call("no idea").action
    Invalid(reason='The reply contains no complete tool call.')
    """
    turn = _EnvelopeReader(reply).read()
    call, names = turn.action, _offered_names(tools, crop)
    if isinstance(call, Invalid):
        return Turn(turn.thought, call, turn.executed, turn.flags)
    if isinstance(function := call.get("function"), dict):
        call = cast("dict[str, object]", function)
    name = call.get("name")
    if isinstance(name, str) and name.strip() in names:
        action = _build_call(name.strip(), call.get("arguments", call.get("parameters")))
    else:
        action = _unknown_tool(name, names)
    return Turn(turn.thought, action, turn.executed, turn.flags)


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

    It never raises. The reply may leave out what is `known`. If it is the last, any readable answer counts;
    if it was cut off at its token limit, what does not end is not completed.

    >>> said = "<tool_call>{'name': 'add_answer_node', 'arguments': {'answer': 48200}}</tool_call>"
    >>> read_call(said, KnownNodes(("root", "fares"))).action
    AnswerNode(parents=('fares',), text='48200')
    """
    turn = parse_call(reply, tools, crop=crop)
    spoken = unquoted(reply)
    if not isinstance(turn.action, Invalid) or spoken is None:
        return _complete_call(turn, known)

    no_thought = {Flag.NO_THOUGHT} if turn.thought is None else set[Flag]()
    names = _offered_names(tools, crop)
    written = find_call(spoken, names)
    if written is not None and not (cut and not written.closed):
        repairs: list[str] = []
        action = _read_written(written, known, names, repairs)
        has_more = bool(written.further or reply[written.end :].strip())
        flags = turn.flags | no_thought
        if has_more:
            flags |= {Flag.TRAILING_TEXT}
        turn = replace(turn, action=action, executed=reply[: written.end], flags=flags)
        if not isinstance(action, Invalid):
            return _complete_call(
                _repaired(turn, action, repairs or ["the call is written in another form"]), known
            )

    text = _answer_without_call(reply, spoken) if last and not cut else None
    if text is None:
        return turn
    try:
        answer = AnswerNode((known.nodes[-1],), text)
    except ValueError:
        return turn
    turn = replace(turn, executed=reply, flags=(turn.flags - {Flag.TRAILING_TEXT}) | no_thought)
    return _repaired(turn, answer, ["the text is read as the answer"])


def _read_written(
    written: WrittenCall, known: KnownNodes, names: frozenset[str], repairs: list[str]
) -> Call | Invalid:
    if written.fault:
        return Invalid(written.fault)
    if written.name is None or written.name not in names:
        return _unknown_tool(written.name, names)
    return _build_call(written.name, written.arguments, known, repairs)


def _answer_without_call(reply: str, spoken: str) -> str | None:
    """Return an answer without a tool call: in the element of the other grammar, or in plain text."""
    element = first_element(reply, frozenset())
    if element.opening is None or element.closing is None:
        return plain_answer(spoken)
    if element.opening["name"].lower() != "answer":
        return None
    text = reply[element.opening.end() : element.closing.start()].strip()
    return None if not text or is_only_tags(text) else text


def _repaired(turn: Turn[Call], call: Call, repairs: Sequence[str]) -> Turn[Call]:
    repairs = (*turn.repairs, *repairs)
    return replace(turn, action=call, flags=turn.flags | {Flag.REPAIRED}, repairs=repairs)


def _complete_call(turn: Turn[Call], known: KnownNodes) -> Turn[Call]:
    """Add to a call what it leaves out and is known: results without an entry are not useful."""
    match turn.action:
        case Memorize(summary, notes):
            noted = {note.information for note in notes}
            left_out = [label for label in known.labels if label not in noted]
            if left_out:
                call = Memorize(summary, (*notes, *(Note(label, useful=False) for label in left_out)))
                repair = f"memorize has no entry for {', '.join(left_out)}; read as not useful"
                return _repaired(turn, call, [repair])
        case SearchNode() | AnswerNode() | CropNode() | ToolNode() as call:
            parents = known.match_case(call.parents)
            if parents != call.parents:
                repair = f"parent_ids differ from ids of nodes in case; read as {', '.join(parents)}"
                return _repaired(turn, replace(call, parents=parents), [repair])
        case _:
            pass
    return turn


_ObjectTurn: TypeAlias = Turn[dict[str, object]]
"""A reply, taken apart as far as its tags go; its action is the JSON object of a call."""


class _EnvelopeReader:
    """A reader of tags and JSON, which knows no tool.

    The first complete tool call outside think blocks counts. One that is opened and never closed is complete
    if its JSON is; one that is closed counts even if its JSON cannot be read. A bare JSON object counts if
    nothing else is said.
    """

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.tags = list(_TAG.finditer(reply))
        self.thoughts: list[str] = []
        self.position = 0
        self.spoken = ""
        """The text outside think blocks before `position`."""
        self.fault = "The reply contains no complete tool call."
        """The reason there is no call, as far as is known."""
        first = next((tag for tag in self.tags if tag["name"].lower() == "think"), None)
        if first is not None and first["close"]:  # the reply begins inside a think block
            self.thoughts.append(reply[: first.start()].strip())
            self.position = first.end()

    def read(self) -> _ObjectTurn:
        incomplete = 0
        is_endless = False  # a passage begins that never ends: then none that begins later ends either
        for index, tag in enumerate(self.tags):
            name = tag["name"].lower()
            if tag.start() < self.position or tag["close"]:
                continue
            if name == "tool_call":
                if (turn := self._read_call(index)) is not None:
                    return turn
                incomplete += 1
                if incomplete == _MAX_OPENINGS:
                    break
                continue
            at = None if is_endless and name == "passage" else closing_tag(self.tags, index)
            if at is None and name == "think":
                thought = self.reply[tag.end() :].strip()
                return Turn(thought, Invalid("The think block is never closed."), self.reply)
            if at is None:
                is_endless = True
                continue
            close = self.tags[at]
            if name == "think":
                self.thoughts.append(self.reply[tag.end() : close.start()].strip())
            self.spoken += self.reply[self.position : tag.start() if name == "think" else close.end()]
            self.position = close.end()
        return self._read_bare_object() or Turn(self._thought, Invalid(self.fault), self.reply)

    def _read_call(self, index: int) -> _ObjectTurn | None:
        """Return the call that opens here; None when it is not complete, and another may follow."""
        start = self.tags[index].end()
        try:
            call, end = _json_object(self.reply, start)
        except ValueError as error:
            rest = islice(self.tags, index + 1, None)
            following = next((tag for tag in rest if tag["name"].lower() != "passage"), None)
            if following is None or not following["close"] or following["name"].lower() != "tool_call":
                self.fault = f"The tool call is not complete: {error}."
                return None
            fault = f"The tool call holds no JSON object that can be read: {error}."
            return self._turn(Invalid(fault), following.end())
        closing = _CLOSING.match(self.reply, end)
        return self._turn(call, closing.end() if closing else end)

    def _read_bare_object(self) -> _ObjectTurn | None:
        """Return a JSON object that is all that was said."""
        try:
            call, end = _json_object(self.reply, self.position)
        except ValueError:
            return None
        fence = _FENCE.match(self.reply, end)
        end = fence.end() if fence else end
        is_alone = not self.spoken.strip() and not self.reply[end:].strip()
        return self._turn(call, end) if is_alone else None

    def _turn(self, call: dict[str, object] | Invalid, end: int) -> _ObjectTurn:
        flags = {Flag.TRAILING_TEXT} if self.reply[end:].strip() else set[Flag]()
        if not self.thoughts:
            flags.add(Flag.NO_THOUGHT)
        return Turn(self._thought, call, self.reply[:end], frozenset(flags))

    @property
    def _thought(self) -> str | None:
        return "\n".join(self.thoughts) if self.thoughts else None


def _json_object(text: str, start: int) -> tuple[dict[str, object], int]:
    """Return the JSON object that begins at `start`, and where it ends.

    Raises `ValueError` if there is none, with the reason.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        raise ValueError("it does not begin with {")
    value, end = read_json(text, opening.end())
    return cast("dict[str, object]", value), end


def _offered_names(tools: frozenset[str], crop: bool) -> frozenset[str]:
    return frozenset({*TOOLS, *tools}) - (frozenset() if crop else {CROP})


def _unknown_tool(name: object, names: frozenset[str]) -> Invalid:
    fault = "The tool call has no name" if name is None else f"There is no tool {args.quoted(str(name))}"
    offered = [tool for tool in TOOLS if tool in names] + sorted(names - set(TOOLS))
    return Invalid(f"{fault}; the tools are {', '.join(offered)}.")


def _build_call(
    name: str, arguments: object, known: KnownNodes | None = None, repairs: list[str] | None = None
) -> Call | Invalid:
    """Build the call of a tool that exists; never raises.

    Some servers and models send the arguments as a JSON text. What breaks the schema is read where `known` is
    given, and named in `repairs`.
    """
    try:
        if isinstance(arguments, str):
            try:
                arguments = _json_object(arguments, 0)[0] if known is None else read_damaged_json(arguments)
            except ValueError as error:
                raise ValueError(f"arguments cannot be read: {error}") from None
        fields = {} if arguments is None else args.mapping(arguments)
        given = args.Arguments(fields, None if known is None else repairs)
        call = _read_arguments(name, given, known)
        given.finish()
    except ValueError as error:
        return Invalid(f"In {name}, {error}.")
    except RecursionError:
        return Invalid(f"In {name}, an argument is nested too deeply.")
    return call


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
    value = given.maybe("parent_ids", lambda value: value, None, aliases=PARENT_NAMES)
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
        note = _read_rating(label, given)
        given.finish()
    except ValueError as error:
        raise ValueError(f"memorize for {label}: {error}") from None
    return note


def _read_rating(label: str, given: args.Arguments) -> Note:
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
