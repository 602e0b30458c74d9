"""Replies as models really write them: some whose meaning is clear, and some whose is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vrag.agent.actions import Flag, Invalid, parse, render
from vrag.agent.memory.memory_graph import Graph, NodeKind, RememberedItem
from vrag.agent.replies.call_parser import parse_call, read_call
from vrag.agent.replies.known_nodes import KnownNodes
from vrag.agent.replies.tag_repair import read_tags
from vrag.agent.replies.tool_calls import Memorize, render_call

if TYPE_CHECKING:
    from vrag.agent.actions import Turn

VARIANTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "reply_variants.json").read_text(encoding="utf-8")
)
CLEAR = [variant for variant in VARIANTS if "reads" in variant]
UNCLEAR = [variant for variant in VARIANTS if "refused" in variant]
LABELS = ("Text 1", "Picture 1")
PICTURE = RememberedItem(label="Picture 1", item="i", position=0)
SUMMARIZED = (
    Graph.of("?")
    .add(id="Fares_2023", kind=NodeKind.SEARCH, parents=("root",), query="fares 2023")
    .complete("s", (PICTURE,))
)
PENDING = Graph.of("?").add(id="Fares_2023", kind=NodeKind.SEARCH, parents=("root",), query="fares")


def read(variant: dict[str, Any]) -> Turn[Any]:
    how = {"last": variant["last"], "cut": variant["cut"]}
    if variant["grammar"] == "vrag":
        return read_tags(variant["reply"], **how)
    waiting = LABELS if "summarize_and_memorize" in variant["reply"] else ()
    known = KnownNodes(("root", "Fares_2023"), waiting, ("How many?", "fares 2023"))
    return read_call(variant["reply"], known, **how)


def refusal(variant: dict[str, Any]) -> str | None:
    """Why it is not carried out, by the grammar or by the graph."""
    action = read(variant).action
    if isinstance(action, Invalid):
        return action.reason
    if variant["grammar"] == "vrag":
        return None
    graph = PENDING if isinstance(action, Memorize) else SUMMARIZED
    return graph.fault_of(action, LABELS)


def name_of(variant: dict[str, Any]) -> str:
    return f"{variant['grammar']}-{variant['id']}"


def test_there_are_many_of_each_in_both_grammars() -> None:
    counts = [sum(variant["grammar"] == "vrag" for variant in some) for some in (CLEAR, UNCLEAR)]
    assert min(*counts, len(CLEAR) - counts[0], len(UNCLEAR) - counts[1]) >= 15


@pytest.mark.parametrize("variant", CLEAR, ids=name_of)
def test_a_reply_whose_meaning_is_clear_is_read_and_flagged(variant: dict[str, Any]) -> None:
    turn = read(variant)
    assert refusal(variant) is None
    write: Any = render if variant["grammar"] == "vrag" else render_call
    assert write(turn.action) == variant["reads"]
    assert Flag.REPAIRED in turn.flags
    assert turn.repairs
    assert all(turn.repairs)


@pytest.mark.parametrize("variant", CLEAR, ids=name_of)
def test_what_is_read_is_read_by_the_strict_grammar_once_it_is_written_in_it(variant: dict[str, Any]) -> None:
    strict: Any = parse if variant["grammar"] == "vrag" else parse_call
    assert strict(variant["reads"]).action == read(variant).action


@pytest.mark.parametrize("variant", UNCLEAR, ids=name_of)
def test_a_reply_whose_meaning_is_not_clear_is_told_why(variant: dict[str, Any]) -> None:
    reason = refusal(variant)
    assert reason is not None
    assert variant["refused"] in reason
    assert len(reason) < 500
