"""The nodes that are known when a reply comes, and the calls that name them otherwise than by their ids.

What a call says about the graph is bookkeeping: no search and no answer is lost by it. Nodes are found by
their titles, names of nodes that there are not are left out, and an id that is taken gets a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from vrag.agent.actions import Flag, Turn
from vrag.agent.replies import tool_arguments as args
from vrag.agent.replies.tool_calls import AnswerNode, Call, CropNode, Memorize, Note, SearchNode, ToolNode

_QUESTION_NAMES = frozenset({"question", "the question", "user question", "original question", "root node"})
"""Names for the root that models make up, as `node_key` returns them."""


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """The nodes and labels that are known when a reply comes, so that it may leave them out."""

    nodes: tuple[str, ...]
    """Ids of the nodes of the graph, the root first and the newest last."""
    labels: tuple[str, ...] = ()
    """Labels of the results that wait to be summarised."""
    queries: tuple[str, ...] = ()
    """What each of the nodes asks for, in the same order; models name nodes by it too."""
    own_ids: bool = True
    """True if nodes are named in the model's own words; see `RunSettings.own_ids`."""

    @property
    def newest(self) -> str:
        """Id of the newest node."""
        return self.nodes[-1]

    def find(self, name: str) -> str | None:
        """Return the node that a name means: an id or a query in any spelling, the newest of several."""
        if name in self.nodes:
            return name
        key = args.node_key(name)
        if key in _QUESTION_NAMES:
            return self.nodes[0]
        for names in (self.nodes, self.queries):
            for node, known in zip(reversed(self.nodes), reversed(names), strict=False):
                if args.node_key(known) in {key, key.removeprefix("node ")}:
                    return node
        return None

    def match_case(self, parents: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of parents, where an id that differs only in case from one node means that node."""
        ids: dict[str, None] = {}
        for parent in parents:
            alike = [node for node in self.nodes if node.casefold() == parent.casefold()]
            ids[alike[0] if parent not in self.nodes and len(alike) == 1 else parent] = None
        return tuple(ids)

    def free_id(self, name: str) -> str:
        """Return an id for a new node: its name, with a number where a node has that name already."""
        if name not in {*self.nodes, "root"}:
            return name
        short = name[: args.MAX_NODE_CHARS - 8].rstrip()
        return next(id for n in count(2) if (id := f"{short}_{n}") not in self.nodes)


def complete_call(turn: Turn[Call], known: KnownNodes) -> Turn[Call]:
    """Return a turn whose call agrees with the graph, as far as its meaning is clear."""
    match turn.action:
        case Memorize() as call:
            return _complete_notes(turn, call, known)
        case SearchNode() | AnswerNode() | CropNode() | ToolNode() as call:
            turn = _match_parents(turn, call, known) if known.own_ids else _match_case(turn, call, known)
            call = turn.action
            if known.own_ids and isinstance(call, SearchNode | CropNode | ToolNode):
                id = known.free_id(call.id)
                if id != call.id:
                    repair = f"there is a node {call.id!r} already; read as {id}"
                    return repaired(turn, replace(call, id=id), [repair])
        case _:
            pass
    return turn


def repaired(turn: Turn[Call], call: Call, repairs: Sequence[str]) -> Turn[Call]:
    """Return a turn with a call in place of what breaks the grammar, flagged."""
    repairs = (*turn.repairs, *repairs)
    return replace(turn, action=call, flags=turn.flags | {Flag.REPAIRED}, repairs=repairs)


def _complete_notes(turn: Turn[Call], call: Memorize, known: KnownNodes) -> Turn[Call]:
    """Add results without an entry as not useful; leave out useless entries for what was not returned."""
    notes, repairs = call.notes, list[str]()
    if known.own_ids:
        notes = tuple(note for note in notes if note.useful or note.information in known.labels)
        if left_out := [note.information for note in call.notes if note not in notes]:
            repairs.append(f"memorize names {', '.join(left_out)}, which was not returned; left out")
    noted = {note.information for note in notes}
    if missing := [label for label in known.labels if label not in noted]:
        notes += tuple(Note(label, useful=False) for label in missing)
        repairs.append(f"memorize has no entry for {', '.join(missing)}; read as not useful")
    return repaired(turn, Memorize(call.summary, notes), repairs) if repairs else turn


def _match_case(
    turn: Turn[Call], call: SearchNode | AnswerNode | CropNode | ToolNode, known: KnownNodes
) -> Turn[Call]:
    parents = known.match_case(call.parents)
    if parents == call.parents:
        return turn
    repair = f"parent_ids differ from ids of nodes in case; read as {', '.join(parents)}"
    return repaired(turn, replace(call, parents=parents), [repair])


def _match_parents(
    turn: Turn[Call], call: SearchNode | AnswerNode | CropNode | ToolNode, known: KnownNodes
) -> Turn[Call]:
    """Name parents by their ids, and leave out those that there are not."""
    found = {parent: known.find(parent) for parent in call.parents}
    parents = tuple(dict.fromkeys(node for node in found.values() if node)) or (known.newest,)
    if parents == call.parents:
        return turn
    unknown = [repr(parent) for parent, node in found.items() if node is None]
    repair = f"parent_ids are read as {', '.join(parents)}"
    if unknown:
        repair = f"there is no node {', '.join(unknown)}; {repair}"
    return repaired(turn, replace(call, parents=parents), [repair])
