"""The grammar of tool calls: `<think>…</think>` and then `<tool_call>{…}</tool_call>`.

`parse_call` reads the grammar. `read_call` also reads what breaks it where the meaning is clear: nothing that
`parse_call` reads and the graph takes is read otherwise, and what is repaired is flagged. Whether parents
exist and ids are new is the graph's to say. Both take any text and never raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias, cast

from vrag.agent.actions import Flag, Invalid, Turn, closing_tag
from vrag.agent.replies import tool_arguments as args
from vrag.agent.replies.json_repairs import read_damaged_json, read_json
from vrag.agent.replies.known_nodes import KnownNodes, complete_call, repaired
from vrag.agent.replies.last_answer import (
    ANSWER_NAMES,
    LAST_ANSWER,
    answer_calls,
    find_answer,
    spoken_in_last,
    without_answer_in_thought,
)
from vrag.agent.replies.reply_text import WrittenCall, find_call, unquoted
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
LABEL_NAMES = ("information", "label", "id")
_MIDDLE_SCORE = 3
"""The score, from 1 to 5, of a useful result without one."""
_MAX_OPENINGS = 64
"""Tool calls that are opened and hold none, after which no more is looked for: to find out what is wrong with
each takes time in proportion to the length of the reply."""
_TAG = re.compile(r"<(?P<close>/?)(?P<name>think|tool_call|passage)\b[^<>]*>", re.IGNORECASE)
_OPENING = re.compile(r"\s*(?:```[a-z]*\s*)?(?=\{)", re.IGNORECASE)
_CLOSING = re.compile(r"\s*(?:```\s*)?</tool_call\s*>", re.IGNORECASE)
_FENCE = re.compile(r"\s*```")


TOOL_NAMES = {
    **dict.fromkeys(("search", "search_node", "add_search"), SEARCH),
    **dict.fromkeys(("summarize", "memorize", "summarise_and_memorise", "summarize_and_memorise"), MEMORIZE),
    **dict.fromkeys(("crop", "zoom", "bbox", "add_crop"), CROP),
    **dict.fromkeys(ANSWER_NAMES, ANSWER),
}
"""Names that models make up for the tools."""


def parse_call(
    reply: str, tools: frozenset[str] = frozenset(), *, crop: bool = True, own_ids: bool = True
) -> Turn[Call]:
    """Parse any text; never raises.

    The first complete tool call outside think blocks is the call. A reply that starts in the middle of a
    thought is understood, and so is a bare JSON object in place of a tool call, and a tool call that lacks
    nothing but its closing tag. `tools` are the names of the custom tools; `crop` is true if `add_crop_node`
    is offered; `own_ids` is false for runs in which titles were no ids (`RunSettings.own_ids`).

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
        action = action if own_ids else _without_titles(name.strip(), action)
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
    turn = parse_call(reply, tools, crop=crop, own_ids=known.own_ids)
    reader = _CallReader(reply, turn, known, _offered_names(tools, crop), cut)
    spoken = unquoted(reply)
    if isinstance(turn.action, Invalid) and spoken is not None:
        turn = reader.read_call(spoken)
    if last and not isinstance(turn.action, AnswerNode) and (spoken := spoken_in_last(reply)) is not None:
        turn = without_answer_in_thought(reader.read_answer(spoken), spoken) or turn
    return complete_call(turn, known)


@dataclass(frozen=True, slots=True)
class _CallReader:
    """A reader of a reply in which the grammar finds no call, or no answer where one is due."""

    reply: str
    turn: Turn[Call]
    """The reply as the grammar reads it."""
    known: KnownNodes
    names: frozenset[str]
    """Names of the tools on offer."""
    cut: bool

    def read_call(self, spoken: str) -> Turn[Call]:
        """Return the turn with the first call that is written otherwise."""
        written = find_call(spoken, self.names | frozenset(TOOL_NAMES if self.known.own_ids else ()))
        if written is None or (self.cut and not written.closed):
            return self.turn
        repairs: list[str] = []
        action = self._read_written(written, repairs)
        if isinstance(action, Invalid):
            return self._turn(action, written)
        return repaired(
            self._turn(action, written), action, repairs or ["the call is written in another form"]
        )

    def read_answer(self, spoken: str) -> Turn[Call] | None:
        """Return the turn with the answer that a last reply gives; None where it gives none."""
        for written in answer_calls(spoken, self.names, cut=self.cut):
            repairs: list[str] = []
            action = self._read_written(written, repairs)
            if isinstance(action, AnswerNode):
                turn = self._turn(action, written)
                return repaired(turn, action, [*repairs, LAST_ANSWER])
        if (found := find_answer(self.reply, spoken, cut=self.cut)) is None:
            return None
        try:
            answer = AnswerNode((self.known.newest,), found.text)
        except ValueError:
            return None
        turn = self._turn(answer, WrittenCall(end=found.end))
        return repaired(turn, answer, [found.repair])

    def _read_written(self, written: WrittenCall, repairs: list[str]) -> Call | Invalid:
        if written.fault:
            return Invalid(written.fault)
        name = written.name or ""
        if name not in self.names and (meant := TOOL_NAMES.get(name)) in self.names:
            repairs.append(f"{name} stands for {meant}")
            name = meant
        if name not in self.names:
            return _unknown_tool(written.name, self.names)
        return _build_call(name, written.arguments, self.known, repairs)

    def _turn(self, action: Call | Invalid, written: WrittenCall) -> Turn[Call]:
        """Return the turn with an action that ends where a call ends."""
        turn = self.turn
        has_more = bool(written.further or self.reply[written.end :].strip())
        flags = turn.flags - {Flag.TRAILING_TEXT} | ({Flag.TRAILING_TEXT} if has_more else set[Flag]())
        flags |= set[Flag]() if turn.thought else {Flag.NO_THOUGHT}
        return replace(turn, action=action, executed=self.reply[: written.end], flags=flags)


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
        if not any(self.thoughts):
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


def _without_titles(name: str, action: Call | Invalid) -> Call | Invalid:
    """Return the action, or the error about an id that is none where titles are no ids."""
    if isinstance(action, SearchNode | CropNode | ToolNode) and not args.is_identifier(action.id):
        return Invalid(f"In {name}, id must be 1 to 64 letters, digits, _ or -.")
    if isinstance(action, Invalid | Memorize) or all(map(args.is_identifier, action.parents)):
        return action
    return Invalid(f'In {name}, parent_ids must be a list of ids of nodes, such as ["root"].')


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
        return Memorize(
            summary, _read_notes(given.maybe("memorize", args.entries, [], args.repair_entries), given)
        )
    if name == ANSWER:
        parents = _read_parents(given, known)
        answer = given.take(
            "answer", args.text, args.repair_text, aliases=("final_answer", "text", "content")
        )
        return AnswerNode(parents, answer)
    if name == SEARCH:
        node, parents = _read_id(given, known, given.get("query")), _read_parents(given, known)
        query = given.take("query", args.text, args.repair_text, aliases=("search_query", "q", "question"))
        return SearchNode(node, parents, query)
    title = "closer" if name == CROP else name
    node, parents = _read_id(given, known, title), _read_parents(given, known)
    if name == CROP:
        label = given.take("information_id", args.label, args.repair_label)
        box = given.take("box", args.sides, args.repair_sides, aliases=args.BOX_NAMES)
        return CropNode(node, parents, label, box)
    return ToolNode(node, parents, name, given.take("text", args.text, args.repair_text))


def _read_id(given: args.Arguments, known: KnownNodes | None, title: object) -> str:
    """Read the id of a new node; where it has none, a title is its id."""
    if known is None:
        return given.take("id", args.node_id)
    if not known.own_ids:
        return given.take("id", args.clean_identifier)
    written = given.maybe("id", lambda value: value, None, aliases=("node_id", "name", "title"))
    name = _name_of(written) or _name_of(title)
    if name is None:
        raise ValueError("id is missing")
    if name != written:
        given.note(f"id is read as {name!r}")
    if name == "root":
        name = known.free_id(name)
        given.note(f"root is the question; the new node is {name}")
    return name


def _name_of(value: object) -> str | None:
    try:
        return args.repair_node_id(value)
    except ValueError:
        return None


def _read_parents(given: args.Arguments, known: KnownNodes | None) -> tuple[str, ...]:
    """Read the parents; where none is named, the newest node."""
    if known is None:
        return given.take("parent_ids", args.node_ids)
    value = given.maybe("parent_ids", lambda value: value, None, aliases=PARENT_NAMES)
    try:
        parents = () if value is None else args.repair_node_ids(value)
    except ValueError:
        parents = ()
    if not known.own_ids:
        try:
            parents = tuple(dict.fromkeys(map(args.clean_identifier, parents)))
        except ValueError as error:
            raise ValueError(f"parent_ids {error}") from None
    if not parents:
        given.note(f"parent_ids names no node; read as {known.newest}")
        return (known.newest,)
    try:
        as_written = args.node_ids(value) == parents
    except ValueError:
        as_written = False
    if not as_written:
        given.note(f"parent_ids are read as {', '.join(parents)}")
    return parents


def _read_notes(values: list[object], given: args.Arguments) -> tuple[Note, ...]:
    """Read the ratings; where repairs are made, one result that is rated twice is rated as the better."""
    if given.repairs is None:
        return tuple(_read_note(value, None) for value in values)
    notes: dict[str, Note] = {}
    for value in values:
        if (note := _read_repaired_note(value, given)) is None:
            continue
        first = notes.get(note.information)
        if first is not None:
            given.note(f"memorize names {note.information} twice; the better rating counts")
            times = tuple(dict.fromkeys((*first.timestamps, *note.timestamps)))
            better = first if first.priority >= note.priority else note
            note = replace(better, timestamps=times)
        notes[note.information] = note
    return tuple(notes.values())


def _read_repaired_note(value: object, given: args.Arguments) -> Note | None:
    """Read a rating as a model may write it; None where something unknown is called not useful."""
    if isinstance(value, str):
        given.note(f"memorize lists {args.quoted(value)}; read as useful")
        value = {"information_id": value, "is_useful": True}
    try:
        return _read_note(value, given.repairs)
    except ValueError:
        fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        label = next((fields[name] for name in ("information_id", *LABEL_NAMES) if name in fields), None)
        try:
            args.repair_label(label)
        except ValueError:
            if fields.get("is_useful") is False:
                given.note(f"memorize names {args.quoted(str(label))}, which was not returned; left out")
                return None
        raise


def _read_note(value: object, repairs: list[str] | None) -> Note:
    try:
        given = args.Arguments(args.mapping(value), repairs)
        label = given.take("information_id", args.label, args.repair_label, aliases=LABEL_NAMES)
    except ValueError as error:
        raise ValueError(f"memorize {error}") from None
    try:
        note = _read_rating(label, given)
        given.finish()
    except ValueError as error:
        raise ValueError(f"memorize for {label}: {error}") from None
    return note


def _read_rating(label: str, given: args.Arguments) -> Note:
    if not _read_usefulness(label, given):
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


def _read_usefulness(label: str, given: args.Arguments) -> bool:
    """Read whether a result is useful; where that is not said, its score tells."""
    if given.repairs is None:
        return given.take("is_useful", args.flag)
    is_useful = given.maybe("is_useful", args.flag, None, aliases=("useful", "relevant", "is_relevant"))
    if is_useful is None:
        is_useful = given.get("priority_score") not in (0, "0")
        given.note(f"is_useful of {label} is missing; read as {'true' if is_useful else 'false'}")
    return is_useful
